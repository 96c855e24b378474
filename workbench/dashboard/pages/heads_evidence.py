"""What the label of the selected head rests on: its rule, doubts, pattern, all scores, and what interventions say."""

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.content.base import EstimateContent
from workbench.content.heads import HeadContent
from workbench.dashboard import thumbnails
from workbench.dashboard.data import Data
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages.heads_parts import (
    PATH,
    as_table,
    certainty,
    described,
    label_look,
    text_of,
    verdict,
)
from workbench.dashboard.pages.heads_reports import Chosen, shares
from workbench.dashboard.pages.heads_strongest import Strongest, kind_of
from workbench.dashboard.parts import link, table
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.heads import effect_bars, effect_of, share_bars
from workbench.figures.numbers import signed
from workbench.reports import keep

_CONFIG = {"displaylogo": False, "displayModeBar": False, "responsive": True}
_LEAST_SHARE = 0.02  # smaller ones are named together


def evidence(data: Data, chosen: Chosen, view: ViewState, strongest: Strongest) -> Component:
    """Return everything that is known of the selected head."""
    head = chosen.head
    said, look = verdict(head)
    has_failures = bool(keep.kept_failures_steps(data.opened(chosen.run.id)))
    doubts = [html.Li(visible_text(doubt)) for doubt in head.doubts]
    return html.Div(
        [
            heading(chosen, view),
            html.Div([*picture(data, strongest, head), _role(chosen, strongest, has_failures)], className="role"),
            *([html.Ul(doubts, className="doubts", **{"aria-label": "Doubts"})] if doubts else []),
            html.H2("Evidence"),
            _deciding(head),
            html.H2("What its attention is made of"),
            _made_of(head),
            html.H2(["Intervention", html.Span(said, className=look)]),
            *intervention(head),
            html.H2(["All scores", html.Span(f"{len(head.scores)}", className="count")]),
            _all_scores(chosen, view),
        ],
        className="evidence",
    )


def neighbours(counts: tuple[int, ...], layer: int, head: int) -> dict[str, tuple[int, int] | None]:
    """The heads that the arrow keys lead to, None at the edge; where a layer has fewer heads, its last one."""
    found: dict[str, tuple[int, int] | None] = {
        "ArrowLeft": (layer, head - 1) if head > 0 else None,
        "ArrowRight": (layer, head + 1) if head + 1 < counts[layer] else None,
    }
    for key, to in (("ArrowUp", layer - 1), ("ArrowDown", layer + 1)):
        found[key] = (to, min(head, counts[to] - 1)) if 0 <= to < len(counts) else None
    return found


_STEPS = {
    "ArrowLeft": ("‹", "head before"),
    "ArrowRight": ("›", "head after"),
    "ArrowUp": ("▴", "layer before"),
    "ArrowDown": ("▾", "layer after"),
}


def heading(chosen: Chosen, view: ViewState) -> Component:
    """Return the head's name and label, and the way to its neighbours: by these links or by the arrow keys."""
    head = chosen.head
    links: list[Component] = []
    for key, to in neighbours(chosen.counts, head.layer, head.head).items():
        text, where = _STEPS[key]
        if to is None:
            links.append(html.Span(text, className="button off", **{"aria-hidden": "true"}))
            continue
        there = PATH + view.change(layer=to[0], head=to[1]).query()
        keyed = {"aria-label": where, "aria-keyshortcuts": key}
        title = f"{where} ({key.removeprefix('Arrow').lower()} key)"
        links.append(link(text, there, className="button", title=title, **keyed))
    sure, look = certainty(head)
    name = html.Span(f"Head {head.layer}.{head.head}")
    called = [name, html.Span(**label_look(head.label)), html.Span(sure, className=look)]
    return html.Div(
        [html.H2(called, className="head-name"), html.Span(links, className="steps-links")], className="row-head"
    )


def _ways(chosen: Chosen, strongest: Strongest, has_failures: bool) -> list[Component]:
    """The ways to where the head is seen, where it is taken away, and to the copies that fail."""
    name, view = f"{chosen.head.layer}.{chosen.head.head}", strongest.view
    without = view.change(heads=((chosen.head.layer, chosen.head.head),))
    made = [
        link("Open in Attention", "/attention" + view.query(), className="button", id="heads-open"),
        link("Intervene", "/intervene" + without.query(), className="button", title=f"Run this string without {name}"),
    ]
    if has_failures:
        title = "Strings of this run that are copied wrongly, and what every head does at the failed row"
        made.append(link("Failures", "/failures" + view.query(), className="button", title=title))
    return made


def _role(chosen: Chosen, strongest: Strongest, has_failures: bool) -> Component:
    """What a head of this label does, and the ways on from here."""
    head = chosen.head
    rule = next((rule for rule in chosen.content.rules if rule.label == kind_of(head.label)[0]), None)
    built = [html.P(f"It was built as {visible_text(head.expected)}.")] if head.expected else []
    return html.Div(
        [
            html.P(visible_text(rule.sentence) if rule else "The report says nothing more of this label."),
            *built,
            html.Div(_ways(chosen, strongest, has_failures), className="ways"),
            html.P(visible_text(strongest.rule), className="quiet"),
        ],
        className="role-said",
    )


def picture(data: Data, strongest: Strongest, head: HeadContent) -> list[Component]:
    """Return the pattern on the string that shows the head best; none where it is not at hand."""
    if strongest.capture is None or strongest.string is None or strongest.view.run is None:
        return []
    try:
        capture = data.capture(strongest.view.run, strongest.capture)
        if not data.has_map(capture, strongest.string, head.layer, head.head):
            return []
    except WorkbenchError:  # a damaged string: the Attention page says so
        return []
    view = strongest.view
    source = thumbnails.address(
        strongest.view.run, strongest.capture, strongest.string, head.layer, head.head, view.palette, view.scale
    )
    words = f"Attention pattern of head {head.layer}.{head.head} on string {strongest.string}"
    image = html.Img(alt=words, **{"data-src": source})
    return [link(image, "/attention" + view.query(), className="thumbnail", title=f"{words}. {strongest.rule}")]


def _deciding(head: HeadContent) -> Component:
    """The scores of the label's rule, deciding ones first."""
    columns = (("Score", ""), ("Needed", ""), ("Measured", "number"), ("Rows", "number"))
    rows = []
    for e in head.evidence:
        needed = visible_text(e.condition.removeprefix(e.score).strip()) if e.condition else ""
        shown_beside = html.Span("shown beside", className="quiet")
        rows.append([visible_text(e.score), needed or shown_beside, text_of(e), f"{e.rows:,}"])
    if not rows:
        return html.P("The report holds no evidence for this label.", className="quiet")
    return html.Div(table(columns, rows, "Scores that the label rests on"), className="scroll")


def shares_said(head: HeadContent) -> str:
    """Return the shares of pure heads in a head's pattern, largest first; "" where the report holds none."""
    known = sorted(((kind, share) for kind, share in head.shares.items() if share), key=lambda item: -item[1])
    named = [f"{visible_text(kind)} {share:.2f}" for kind, share in known if share >= _LEAST_SHARE]
    rest = 1 - sum(share for _, share in known)
    return ", ".join(named) + (f"; {rest:.2f} fits none" if known and rest >= _LEAST_SHARE else "")


def _made_of(head: HeadContent) -> Component:
    """Shares of pure heads in the pattern, as a bar and in words."""
    if not any(head.shares.values()):
        return html.P("The report holds no shares of this head.", className="quiet")
    said = f"Shares of its pattern, by one fit of all pure heads: {shares_said(head)}."
    return described(said, graph("heads-shares", share_bars([head], named=False)))


def intervention(
    head: HeadContent, name: str = "heads-effects", reach: Sequence[float] | None = None
) -> list[Component]:
    """Return what was done, its effect beside its control's, and what that says.

    Args:
        head: of a report.
        name: the figure's id.
        reach: where its axis begins and ends; by default where its numbers need it to.
    """
    done = head.intervention
    reason, expected = (visible_text(str(done.get(part) or "")) for part in ("reason", "expected"))
    figure = effect_bars([head], named=False)
    if figure is None:
        why = reason or "this report made no intervention on it"
        return [html.P(f"{sentence(why)}", className="quiet")]
    if reach is not None:
        figure.layout.xaxis.range = reach
    words = {part: _words(done.get(part)) for part in ("effect", "control")}
    numbers = {part: effect_of(head, part) for part in words}
    said = visible_text(
        f"{sentence(words['effect'])[:-1]}: {done.get('measure')} {_number(numbers['effect'])}. "
        f"Control, {words['control']}: {_number(numbers['control'])}."
    )
    conflict = done.get("conflict")
    rows = [
        [name, visible_text(_words(effect)), *(_number(_part(effect, measure)) for measure in _MEASURES)]
        for name, effect in (
            ("intervention", done.get("effect")),
            ("control", done.get("control")),
            *((f"{part}, conflict strings", conflict.get(part)) for part in words if isinstance(conflict, dict)),
        )
    ]
    columns = [("", ""), ("What was done", "wrap"), *((title, "number") for title in _MEASURES.values())]
    lead = "This confirms that" if head.intervention.get("state") == "confirmed" else "It would have to confirm that"
    asked = [html.P(f"{lead} {expected}.", className="quiet")] if expected else []
    return [
        described(said, graph(name, figure), as_table(columns, rows, "Effects of the intervention")),
        *asked,
        *([html.P(sentence(reason), className="quiet")] if reason else []),
    ]


_MEASURES = {
    "logit_difference": "Logit difference",
    "token_accuracy": "Token accuracy",
    "exact_match": "Exact match",
    "divergence": "Divergence (nats)",
}


def _words(effect: Any) -> str:
    return str(effect.get("intervention", "")) if isinstance(effect, dict) else ""


def _part(effect: Any, measure: str) -> dict[str, Any]:
    """One measure's change, as {"value", "interval"}; empty where the report has none."""
    found = effect.get(measure) if isinstance(effect, dict) else None
    found = found.get("difference", found) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _number(estimate: dict[str, Any]) -> str:
    value, interval = estimate.get("value"), estimate.get("interval")
    if not isinstance(value, int | float):
        return "not measurable"
    if not isinstance(interval, list | tuple) or len(interval) != 2:
        return signed(value)
    return f"{signed(value)} [{signed(interval[0])}, {signed(interval[1])}]"


def _all_scores(chosen: Chosen, view: ViewState) -> Component:
    """Every score of the head; those that can be drawn are links to their map, those not measurable say why."""
    drawn, rows = set(shares(chosen.content)), []
    lacking: dict[str, list[Any]] = {}
    for name, estimate in chosen.head.scores.items():
        said: Any = visible_text(name)
        if name in drawn and name.isprintable():
            there = PATH + view.change(score=name, pane="scores").query()
            current = {"aria-current": "true"} if name == chosen.view.score else {}
            said = link(said, there, title=f"Draw {said} of every head", **current)
        if estimate.value is None:
            lacking.setdefault(estimate.reason, []).append(said)
            continue
        chance = "" if estimate.chance is None else f"{estimate.chance:.2f}"
        rows.append([said, _bar(estimate) if name in drawn else "", text_of(estimate), chance, f"{estimate.rows:,}"])
    columns = (("Score", ""), ("0 to 1", "bar-cell"), ("Value", "number"), ("Chance", "number"), ("Rows", "number"))
    reasons = [
        html.Li([*[part for name in names for part in (name, ", ")][:-1], f": {visible_text(reason)}"])
        for reason, names in lacking.items()
    ]
    return html.Div(
        [
            table(columns, rows, "All scores of the head"),
            *([html.P("Not measurable", className="quiet"), html.Ul(reasons, className="reasons")] if reasons else []),
        ],
        className="scroll all-scores",
    )


def _bar(estimate: EstimateContent) -> Any:
    """Value, interval and chance on a line from 0 to 1; the numbers stand beside it."""
    if estimate.value is None:
        return ""
    low, high = estimate.interval or (estimate.value, estimate.value)
    places = {"--low": low, "--high": high, "--value": estimate.value, "--chance": estimate.chance}
    style = {name: f"{100 * min(max(at, 0.0), 1.0):.1f}%" for name, at in places.items() if at is not None}
    return html.Span(className="score-line", style=style, **{"aria-hidden": "true"})


def graph(name: str, figure: Any) -> Component:
    """Return a figure as high as it says."""
    return dcc.Graph(id=name, figure=figure, config=_CONFIG, className="graph", style={"height": figure.layout.height})
