"""Causes beside their controls, and the table of failed strings: filtered, sorted, a page of them at a time."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from workbench.content.base import EstimateContent
from workbench.content.failures import CauseContent, FailureContent
from workbench.dashboard.pages.failures_reports import PATH, Chosen, tokens_of
from workbench.dashboard.parts import link, mark, token
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ORDERS, ViewState
from workbench.figures.failure_places import CAUSE_SYMBOLS
from workbench.figures.failures import CAUSE_COLORS, REFERENCE
from workbench.reports.failures_words import TRIED, aftermath_text, value_text

if TYPE_CHECKING:
    from workbench.dashboard.pages.failures_compare_strings import Said

PER_PAGE = 60
_BEFORE, _AFTER = 9, 4  # tokens shown before and after an error
# Heading, class and hint of a column; "found" has none of its own.
_COLUMNS = {
    "cause": ("Cause", "", "What it was put down to; ✓ where its counterfactual confirms it"),
    "distribution": ("Distribution", "", "What the string was drawn from"),
    "length": ("Length", "number", "Tokens of the string"),
    "first": ("Error at", "number", "Index of the first wrong token"),
    "error": ("Error", "", "The right token, and the one that was predicted"),
    "second": (
        "In the second",
        "",
        "What the second's report says of the same string; pointing at it tells how that is known",
    ),
    "after": ("Then", "roomy", "What the model goes on with, left to itself; numbers are tokens"),
}


def causes_table(chosen: Chosen, view: ViewState) -> Component:
    """Return how many failures each cause has, and the share that its counterfactual mends beside its control's."""
    headings = [
        ("Cause", "", ""),
        ("Failures", "number", "Put down to it: a link lists them"),
        ("Confirmed", "number", "Of these, by a counterfactual"),
        ("Tried on", "number roomy", "Failures that its counterfactual could be tried on, whatever their cause"),
        (
            "Mended",
            "number",
            "Share of these that the counterfactual mends as the cause predicts, 95 % Wilson interval",
        ),
        ("By the control", "number", "Share of these that the control mends, 95 % Wilson interval"),
    ]
    head = html.Tr([html.Th(name, scope="col", className=kind, title=hint) for name, kind, hint in headings])
    rows = [_cause_row(name, cause, view) for name, cause in chosen.content.causes.items()]
    caption = html.Caption("Causes of failures beside their controls", className="unseen")
    return html.Table([caption, html.Thead(head), html.Tbody(rows)], className="failures-causes")


def _cause_row(name: str, cause: CauseContent, view: ViewState) -> Component:
    words = TRIED.get(name)
    hint = f"{words[0]}. Tried: {words[1]}; mended where {words[2]}. Control: {words[3]}." if words else (
        "No counterfactual mends these"
    )  # fmt: skip
    current = view.cause == name
    shown: Any = f"{cause.failures:,}"
    if name in CAUSE_COLORS and (cause.failures or current):
        to = PATH + view.change(cause=None if current else name).query()
        title = "List all failures again" if current else f"List the failures by {name} alone"
        shown = link(shown, to, title=title, **({"aria-current": "true"} if current else {}))
    tested = name in TRIED
    confirmed: Any = f"{cause.confirmed:,}" if tested else "–"
    if tested and cause.unconfirmed:
        confirmed = [confirmed, html.Span(f" ({cause.unconfirmed:,} not)", className="quiet")]
    return html.Tr(
        [
            html.Td(html.Span(name, className="label", style=cause_mark(name)), title=hint),
            html.Td(shown, className="number"),
            html.Td(confirmed, className="number"),
            html.Td(f"{cause.tried:,}" if tested else "–", className="number roomy"),
            html.Td(_share(cause.supported) if tested and cause.tried else "–", className="number"),
            html.Td(_share(cause.control) if tested and cause.tried else "–", className="number"),
        ],
        className="chosen" if current else "",
    )


def failures_table(
    chosen: Chosen, view: ViewState, says: Callable[[FailureContent], "Said"] | None = None
) -> Component:
    """Return the page of the list that the selected failure is on; a row selects its failure.

    Args:
        chosen: the list.
        view: as the address has it.
        says: of a failure's string, what a second report says of it; None where none is compared.
    """
    if not chosen.listed:
        everything = PATH + view.change(
            cause=None, confirmed=None, failed_distribution=None, failed_length=None
        ).query()  # fmt: skip
        if not chosen.content.failures:
            return html.P(chosen.content.advice or "No failure was explained.", className="empty")
        return html.P(["No failure is like that. ", link("List all", everything)], className="empty")
    first = chosen.place // PER_PAGE * PER_PAGE
    shown = chosen.listed[first : first + PER_PAGE]
    rows = [_row(chosen.content.failures[index], index, index == chosen.view.failure, view, says) for index in shown]
    heading = [_heading(name, view) for name in _COLUMNS if says is not None or name != "second"]
    heading.insert(-1, html.Th("String around it", scope="col"))
    return html.Table(
        [
            html.Caption(f"Failed strings of {chosen.run.id} at step {chosen.content.step}", className="unseen"),
            html.Thead(html.Tr(heading)),
            html.Tbody(rows),
        ],
        className="failures-list",
    )


def pager(chosen: Chosen, view: ViewState) -> list[Component]:
    """Return how many failures are listed, and the way to the other pages and to the neighbours of the selected one."""
    count = len(chosen.listed)
    total = len(chosen.content.failures)
    if not count:
        return [html.Span(f"0 of {total:,} failures")]
    first = chosen.place // PER_PAGE * PER_PAGE
    last = min(first + PER_PAGE, count)
    of = f" of {total:,}" if count != total else ""
    told = f"{first + 1:,}–{last:,} of {count:,}" if count > PER_PAGE else f"{count:,}"
    parts: list[Component] = [html.Span([html.B(told), f"{of} failures"], className="listed")]
    if count > PER_PAGE:
        parts.append(
            html.Span(
                [
                    _step("‹ page", chosen, first - PER_PAGE, view, "page before"),
                    _step("page ›", chosen, last, view, "next page"),
                ],
                className="steps-links",
            )
        )
    return parts


def neighbours(chosen: Chosen, view: ViewState) -> Component:
    """Return the links to the failures before and after the selected one, which [ and ] follow."""
    return html.Span(
        [
            _step("‹", chosen, chosen.place - 1, view, "failure before", key="["),
            _step("›", chosen, chosen.place + 1, view, "next failure", key="]"),
        ],
        className="steps-links",
    )


def filters(chosen: Chosen) -> dict[str, list[dict[str, Any]]]:
    """Return the values that failures can be listed by, with how many there are of each.

    What is asked for is among them even where no failure is like that: a list clears itself of a value that it lacks.
    """
    failures, view = chosen.content.failures, chosen.view

    def counted(values: Sequence[Any], asked: Any, name: Any = str) -> list[dict[str, Any]]:
        counts = Counter(values)
        named = dict.fromkeys([*counts, *([] if asked is None else [asked])])
        return [{"label": f"{name(value)} · {counts[value]:,}", "value": value} for value in named]

    lengths = sorted(failure.length for failure in failures)
    return {
        "cause": counted([f.cause for f in failures if f.cause in CAUSE_COLORS], view.cause),
        "confirmed": [
            {"label": f"{name} · {sum(f.confirmed is value for f in failures):,}", "value": "on" if value else "off"}
            for name, value in (("confirmed", True), ("not confirmed", False))
        ],
        "distribution": counted([failure.distribution for failure in failures], view.failed_distribution),
        "length": counted(lengths, view.failed_length, lambda length: f"{length:,} tokens"),
    }


def cause_label(failure: FailureContent) -> list[Component]:
    """Return a failure's cause with its shape, and whether it is confirmed, in words."""
    said = [html.Span(failure.cause, className="label", style=cause_mark(failure.cause))]
    if failure.cause in TRIED:
        sure = ("confirmed", "is-yes") if failure.confirmed else ("unconfirmed", "is-unsure")
        said.append(html.Span(sure[0], className=sure[1]))
    return said


def _row(
    failure: FailureContent,
    index: int,
    current: bool,
    view: ViewState,
    says: Callable[[FailureContent], "Said"] | None,
) -> Component:
    marked = {"aria-current": "true"} if current else {}
    name = f"select failure {index}: {failure.cause}, {failure.distribution}, {failure.length} tokens"
    select = html.A(
        failure.cause,
        href=PATH + view.change(failure=index).query(),
        className="label selects",
        style=cause_mark(failure.cause),
        **marked,
        **{"aria-label": name},
    )
    sure = [] if failure.cause not in TRIED else [
        html.Span("" if failure.confirmed else "unconfirmed", className="is-yes" if failure.confirmed else "is-unsure",
                  title="confirmed" if failure.confirmed else "")
    ]  # fmt: skip
    return html.Tr(
        [
            html.Td([select, *sure]),
            html.Td(failure.distribution),
            html.Td(f"{failure.length:,}", className="number"),
            html.Td(f"{failure.first_error:,}", className="number"),
            html.Td([token(failure.right), " → ", token(failure.predicted)]),
            *([] if says is None else [_in_second(says(failure))]),
            html.Td(_around(failure), className="around"),
            html.Td(aftermath_text(failure.aftermath, failure), className="roomy"),
        ],
        className="current" if current else "",
    )


def _in_second(said: "Said") -> Component:
    """What a second report says of a string: how it fails there, that it is copied, or that this is not known."""
    kind = "" if said.failure is not None else "is-yes" if said.copied else "quiet"
    return html.Td(html.Span(visible_text(said.words), className=kind, title=visible_text(said.why)), className="said")


def _around(failure: FailureContent) -> list[Any]:
    """The string around the error, the right token set apart."""
    tokens, k = [str(t) for t in tokens_of(failure)], failure.first_error
    start, stop = max(0, k - _BEFORE), min(len(tokens), k + 1 + _AFTER)
    joint = " " if any(len(name) > 1 for name in tokens) else ""
    before, after = joint.join(tokens[start:k]), joint.join(tokens[k + 1 : stop])
    here = tokens[k] if k < len(tokens) else "EOS"
    return [("…" if start else "") + before + joint, html.U(here), joint + after + ("…" if stop < len(tokens) else "")]


def _heading(name: str, view: ViewState) -> Component:
    """A column's heading: a link that sorts by it, or the other way round."""
    assert name in ORDERS
    text, kind, hint = _COLUMNS[name]
    sorted_by, falling = view.order.removeprefix("-") == name, view.order.startswith("-")
    order = {"aria-sort": "descending" if falling else "ascending"} if sorted_by else {}
    arrow = html.Span(("↓" if falling else "↑") if sorted_by else "", className="arrow", **{"aria-hidden": "true"})
    to = PATH + view.change(order=f"-{name}" if sorted_by and not falling else name).query()
    return html.Th(link([text, arrow], to, title=hint), scope="col", className=kind, **order)


def _step(label: str, chosen: Chosen, place: int, view: ViewState, name: str, key: str = "") -> Component:
    if not 0 <= place < len(chosen.listed):
        return html.Span(label, className="button off", **{"aria-hidden": "true"})
    keyed = {"aria-keyshortcuts": key} if key else {}
    to = PATH + view.change(failure=chosen.listed[place]).query()
    return link(label, to, className="button", title=f"{name} {key}".strip(), **{"aria-label": name}, **keyed)


def _share(estimate: EstimateContent) -> Any:
    if estimate.value is None or estimate.interval is None:
        return value_text(estimate)
    low, high = estimate.interval
    interval = html.Span(f" [{low:.2f}, {high:.2f}]", className="interval")
    return [f"{estimate.value:.2f}", interval]


def cause_mark(cause: str) -> dict[str, str]:
    """Return the style of a cause's name: its marker before it."""
    picture = mark(CAUSE_SYMBOLS.get(cause, "star"), CAUSE_COLORS.get(cause, REFERENCE))
    return {"backgroundImage": f'url("{picture}")'}
