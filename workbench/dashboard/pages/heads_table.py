"""The table of heads: what each is called, how surely, on which scores, and what interventions say."""

from collections.abc import Callable, Mapping
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.content.heads import HeadContent
from workbench.dashboard.pages.heads_parts import PATH, VERDICTS, certainty, label_look, text_of, verdict
from workbench.dashboard.pages.heads_reports import Chosen
from workbench.dashboard.pages.heads_strongest import Strongest
from workbench.dashboard.parts import link
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState

# Heading, class, and whether the first click sorts the largest first.
_COLUMNS = {
    "head": ("Head", "", False),
    "label": ("Label", "", False),
    "margin": ("Margin", "number", True),
    "certain": ("Certain", "", True),
    "scores": ("Deciding scores", "", False),
    "intervention": ("Intervention", "", False),
}
_HINTS = {
    "margin": "How far the label's nearest threshold is: 0 at the threshold, 1 at best, negative where no rule fits",
    "certain": "Certain: nothing inside the scores' 95 % intervals would change the label",
    "scores": "The scores that the label's rule asks for, with 95 % intervals over strings",
    "intervention": "Whether what the label predicts of an intervention happens, beyond a control",
}


def heads_table(
    chosen: Chosen,
    view: ViewState,
    strongest: Mapping[tuple[int, int], Strongest],
    beside: HeadContent | None = None,
) -> Component:
    """Return the table; a row selects its head, and its number leads to Attention.

    Args:
        chosen: the report.
        view: the view that links change.
        strongest: where each head is looked at.
        beside: another head that the selected one is compared with.
    """
    rows = [
        _row(head, head is chosen.head, view, strongest[head.layer, head.head], head is beside)
        for head in sort_heads(chosen.content.heads, view.sort)
    ]
    heading = [heading_of(name, *_COLUMNS[name], view, _HINTS.get(name, "")) for name in _COLUMNS]
    return html.Table(
        [
            html.Caption(f"Heads of {chosen.run.id} at step {chosen.content.step}", className="unseen"),
            html.Thead(html.Tr(heading)),
            html.Tbody(rows),
        ],
        className="heads-list",
    )


def sort_heads(heads: tuple[HeadContent, ...], sort: str) -> list[HeadContent]:
    """Return heads sorted by a column ("margin", or "-margin" for the largest first), equals in their own order."""
    key = _KEYS[sort.removeprefix("-")]
    ordered = sorted(heads, key=lambda head: (head.layer, head.head))
    return sorted(ordered, key=key, reverse=sort.startswith("-"))


def _first_score(head: HeadContent) -> tuple[str, float]:
    deciding = [e for e in head.evidence if e.condition is not None]
    if not deciding:
        return ("", 0.0)
    return (deciding[0].score, -(deciding[0].value or 0.0))


def _verdict_rank(head: HeadContent) -> int:
    states = list(VERDICTS)
    return states.index(verdict(head)[0]) if verdict(head)[0] in states else len(states)


_KEYS: dict[str, Callable[[HeadContent], Any]] = {
    "head": lambda head: (head.layer, head.head),
    "label": lambda head: head.label,
    "margin": lambda head: head.margin,
    "certain": lambda head: head.certain,
    "scores": _first_score,
    "intervention": _verdict_rank,
}


def heading_of(name: str, text: str, kind: str, largest_first: bool, view: ViewState, hint: str) -> Component:
    """Return a column's heading: a link that sorts by it, or the other way round.

    Args:
        name: what it sorts by, see `sort_heads`.
        text: what is read.
        kind: its class.
        largest_first: whether the first click sorts the largest first.
        view: the view that the link changes.
        hint: its title.
    """
    sorted_by, falling = view.sort.removeprefix("-") == name, view.sort.startswith("-")
    first = f"-{name}" if largest_first else name
    other = name if falling else f"-{name}"
    order = {"aria-sort": "descending" if falling else "ascending"} if sorted_by else {}
    arrow = html.Span(("↓" if falling else "↑") if sorted_by else "", className="arrow", **{"aria-hidden": "true"})
    to = PATH + view.change(sort=other if sorted_by else first).query()
    return html.Th(link([text, arrow], to, title=hint), scope="col", className=kind, **order)


def to_attention(name: str, view: ViewState, rule: str) -> Component:
    """Return the number of a head, which leads to it on the Attention page; `rule` says on which string."""
    return link(
        name,
        "/attention" + view.query(),
        className="to-attention",
        title=f"Open head {name} in Attention. {rule}",
        **{"aria-label": f"head {name} in Attention"},
    )


def _row(head: HeadContent, current: bool, view: ViewState, strongest: Strongest, second: bool) -> Component:
    name = f"{head.layer}.{head.head}"
    there = to_attention(name, strongest.view, strongest.rule)
    look, marked = label_look(head.label), {"aria-current": "true"} if current else {}
    here = PATH + view.change(layer=head.layer, head=head.head).query()
    select = html.A(
        **{**look, "className": "label selects"},
        href=here,
        **marked,
        **{"aria-label": f"select head {name}: {look['children']}"},
    )
    beside = [html.Span("second", className="which")] if second else []
    deciding: list[Any] = []
    for e in head.evidence:
        if e.condition is not None:
            deciding += [html.Span(visible_text(e.condition), className="asked"), f" {text_of(e)}", html.Br()]
    sure, sure_look = certainty(head)
    said, said_look = verdict(head)
    return html.Tr(
        [
            html.Td(there),
            html.Td([select, *beside]),
            html.Td(f"{head.margin:.2f}", className="number"),
            html.Td(sure, className=sure_look),
            html.Td(deciding[:-1]),
            html.Td(said, className=said_look),
        ],
        className="current" if current else "beside" if second else "",
    )
