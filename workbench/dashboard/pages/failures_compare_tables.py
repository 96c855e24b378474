"""Two reports, or two failures, beside each other in numbers: first, second, and the first minus the second."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.content.base import EstimateContent
from workbench.content.failures import CauseContent, FailureContent, FailuresContent
from workbench.dashboard.pages.failures_compare import Pair, names, report_names
from workbench.dashboard.pages.failures_reports import PATH
from workbench.dashboard.pages.failures_table import cause_mark
from workbench.dashboard.parts import link, token
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.failure_groups import cells_of
from workbench.figures.failure_places import longest_repeat
from workbench.figures.failures import CAUSE_COLORS
from workbench.reports.failures_words import TRIED, aftermath_text

_NONE = "–"
_POINTS = "pp are percentage points"
_OTHER_STRINGS = (
    "The reports are not about the same lengths, distributions and numbers of strings, so these are shares of other "
    "strings."
)
_PARTS = ("as a share of the string", "by its control")  # rows that belong to the one above
_MASSES = {
    "mass_source": "On the true source",
    "mass_competitors": "On competitors",
    "mass_random": "On as many random places",
    "mass_anchors": "On anchors",
}


def causes_of_both(pair: Pair, view: ViewState) -> Component:
    """Return the causes of both reports: how many failures each has, and what its counterfactual mends."""
    contents = pair.first.content, pair.second.content
    called = report_names(pair)
    shares = "Failures put down to it, and their share of those explained"
    mended = (
        "Share of the failures it could be tried on that the counterfactual mends as the cause predicts; pointing at a "
        "share tells its interval and the control"
    )
    groups = html.Tr(
        [
            html.Td(""),
            html.Th("Failures", colSpan=3, scope="colgroup", title=shares),
            html.Th("Mended by the counterfactual", colSpan=3, scope="colgroup", title=mended),
        ]
    )
    sides = [("First", called[0]), ("Second", called[1]), ("First − second", _POINTS)]
    head = html.Tr(
        [
            html.Th("Cause", scope="col"),
            *(html.Th(name, scope="col", className="number", title=hint) for name, hint in sides * 2),
        ]
    )
    rows = [_cause_row(name, contents, view) for name in dict.fromkeys([*contents[0].causes, *contents[1].causes])]
    caption = html.Caption(f"Causes of failures of {called[0]} and {called[1]}", className="unseen")
    table = html.Table(
        [caption, html.Thead([groups, head]), html.Tbody([*rows, _all_row(contents)])],
        className="failures-causes of-both",
    )
    if _asked(contents[0]) == _asked(contents[1]):
        return table
    return html.Div([table, html.P(_OTHER_STRINGS, className="quiet causes-note")])


def _cause_row(name: str, contents: Sequence[FailuresContent], view: ViewState) -> Component:
    found = [content.causes.get(name) for content in contents]
    shares = [_share_of(cause, content) for cause, content in zip(found, contents, strict=True)]
    counts = [_NONE if cause is None else f"{cause.failures:,}" for cause in found]
    mended = [cause.supported if cause is not None and cause.tried and name in TRIED else None for cause in found]
    current, first = view.cause == name, found[0]
    listed: Any = counts[0]
    if name in CAUSE_COLORS and first is not None and (first.failures or current):
        to = PATH + view.change(cause=None if current else name).query()
        title = "List all failures again" if current else f"List the first's failures by {name} alone"
        listed = link(counts[0], to, title=title, **({"aria-current": "true"} if current else {}))
    told = [_interval(cause) for cause in found]
    values = [None if estimate is None else estimate.value for estimate in mended]
    return html.Tr(
        [
            html.Td(html.Span(name, className="label", style=cause_mark(name))),
            html.Td([listed, _quiet(shares[0])], className="number"),
            html.Td([counts[1], _quiet(shares[1])], className="number"),
            html.Td(minus(shares, percent=True), className="number apart"),
            *(
                html.Td(_decimal(value), className="number", title=hint)
                for value, hint in zip(values, told, strict=True)
            ),
            html.Td(minus(values), className="number apart"),
        ],
        className="chosen" if current else "",
    )


def _all_row(contents: Sequence[FailuresContent]) -> Component:
    shares = [content.failed / content.strings if content.strings else None for content in contents]
    cells = [
        html.Td([f"{content.failed:,} of {content.strings:,}", _quiet(share)], className="number")
        for content, share in zip(contents, shares, strict=True)
    ]
    # Exact match depends on which strings are asked for, so shares of other ones are not subtracted.
    same = _asked(contents[0]) == _asked(contents[1])
    away = minus(shares, percent=True) if same else _NONE
    cells.append(html.Td(away, className="number apart", title=None if same else _OTHER_STRINGS))
    cells += [html.Td("") for _ in range(3)]
    return html.Tr([html.Th("failed strings", scope="row"), *cells], className="all-strings")


def _asked(content: FailuresContent) -> dict[tuple[str, int], int]:
    """How many strings of each distribution and length a report is about."""
    return {key: group.strings for key, group in cells_of(content.groups).items()}


def cases_of_both(pair: Pair) -> Component:
    """Return the numbers of two failures, and their differences."""
    one, other = pair.first.failure, pair.second.failure
    assert one is not None and other is not None
    called = names(pair)
    columns = [("", ""), ("First", "number"), ("Second", "number"), ("First − second", "number apart")]
    head = html.Tr(
        [
            html.Td("") if not name else html.Th(name, scope="col", className=kind, title=hint)
            for (name, kind), hint in zip(columns, (None, called[0], called[1], _POINTS), strict=True)
        ]
    )
    kinds = [kind for _, kind in columns[1:]]
    rows = [
        html.Tr(
            [
                html.Th(name, scope="row", className="part" if name in _PARTS else ""),
                *(html.Td(cell, className=kind) for cell, kind in zip(cells, kinds, strict=True)),
            ]
        )
        for name, cells in [*_words(one, other), *_numbers(one, other)]
    ]
    caption = html.Caption(f"Numbers of {called[0]} and {called[1]}, and their difference", className="unseen")
    return html.Table([caption, html.Thead(head), html.Tbody(rows)], className="of-both cases-table")


def _words(one: FailureContent, other: FailureContent) -> list[tuple[str, list[Any]]]:
    def cause(failure: FailureContent) -> str:
        sure = "" if failure.cause not in TRIED else ", confirmed" if failure.confirmed else ", unconfirmed"
        return failure.cause + sure

    both = one, other
    return [
        ("Cause", [*map(cause, both), _same(one.cause, other.cause)]),
        ("Error", [*([token(f.right), " → ", token(f.predicted)] for f in both), ""]),
        ("Then", [*(aftermath_text(f.aftermath, f) for f in both), ""]),
    ]


def _numbers(one: FailureContent, other: FailureContent) -> list[tuple[str, list[Any]]]:
    """Rows of numbers that at least one of two failures has."""
    both = one, other
    rows: list[tuple[str, tuple[float | None, ...], str]] = [
        ("Length", tuple(float(f.length) for f in both), "count"),
        ("First error at", tuple(float(f.first_error) for f in both), "count"),
        (_PARTS[0], tuple(f.first_error / f.length for f in both), "share"),
        ("Right − wrong logit", tuple(f.logit_right - f.logit_predicted for f in both), "signed"),
        ("Longest repeat", tuple(float(longest_repeat(f)) for f in both), "count"),
        ("Competitors", tuple(float(len(f.competitors)) for f in both), "count"),
    ]
    attended = [_attended(failure) for failure in both]
    rows += [(name, tuple(known.get(key) for known in attended), "share") for key, name in _MASSES.items()]
    for cause in dict.fromkeys(trial.cause for failure in both for trial in failure.trials):
        found = [next((t for t in failure.trials if t.cause == cause), None) for failure in both]
        shares = tuple(None if t is None else t.share if t.left is None else t.left for t in found)
        rows.append((f"Mended: {visible_text(cause)}", shares, "percent"))
        rows.append((_PARTS[1], tuple(None if t is None else t.control for t in found), "percent"))
    return [
        (name, [*(_written(value, kind) for value in values), minus(values, kind=kind)])
        for name, values, kind in rows
        if any(value is not None for value in values)
    ]


def _attended(failure: FailureContent) -> Mapping[str, float]:
    """Shares of the deciding attention that a report holds of a failed row."""
    found = failure.evidence.get("attended")
    known = found if isinstance(found, dict) else {}
    return {
        name: float(value) for name in _MASSES for value in (known.get(name),)
        if isinstance(value, int | float) and not isinstance(value, bool)
    }  # fmt: skip


def _share_of(cause: CauseContent | None, content: FailuresContent) -> float | None:
    explained = sum(one.failures for one in content.causes.values())
    return None if cause is None or not explained else cause.failures / explained


def _interval(cause: CauseContent | None) -> str | None:
    """What pointing at a share of mended failures tells."""
    if cause is None or not cause.tried:
        return None
    said = [f"tried on {cause.tried:,}"]
    for name, estimate in (("", cause.supported), ("control ", cause.control)):
        if estimate.value is not None:
            said.append(f"{name}{estimate.value:.2f}{_bounds(estimate)}")
    return ", ".join(said)


def _bounds(estimate: EstimateContent) -> str:
    return "" if estimate.interval is None else f" [{estimate.interval[0]:.2f}, {estimate.interval[1]:.2f}]"


def _quiet(share: float | None) -> Component:
    return html.Span("" if share is None else f" {share:.0%}", className="quiet")


def _decimal(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _written(value: float | None, kind: str) -> str:
    if value is None:
        return _NONE
    if kind == "signed":
        return f"{value:+.2f}".replace("-", "−")
    return {"count": f"{value:,.0f}", "share": f"{value:.2f}", "percent": f"{value:.0%}"}[kind]


def _same(one: str, other: str) -> str:
    return "the same" if one == other else "another"


def minus(values: Sequence[float | None], *, percent: bool = False, kind: str = "share") -> str:
    """Return the first minus the second with its sign, a dash where one of them is not known."""
    one, other = values
    if one is None or other is None:
        return _NONE
    value = one - other
    if percent or kind == "percent":
        text = f"{100 * value:+.0f} pp"
    else:
        text = f"{value:+,.0f}" if kind == "count" else f"{value:+.2f}"
    return text[1:] if not float(text.split()[0].replace(",", "")) else text.replace("-", "−")
