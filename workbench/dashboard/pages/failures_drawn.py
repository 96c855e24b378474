"""Figures of a report on failures: repetition against accuracy, causes, lengths; each with finding and numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash.development.base_component import Component

from workbench.content.base import EstimateContent
from workbench.content.failures import FailuresContent
from workbench.dashboard.guard import sentence
from workbench.dashboard.numbers import MOST_ROWS, listed
from workbench.dashboard.pages.failures_reports import PATH, Chosen
from workbench.dashboard.parts import switch
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures import LengthCurve, empty_figure, length_generalisation
from workbench.figures.failure_places import error_places, longest_repeat, places_finding
from workbench.figures.failures import MASSES, ROW_COLORS, cause_bars, fixed_length_dots, law_lines, row_dots
from workbench.reports.failures_words import value_text

NAMES = {
    "law": "Repetition",
    "strings": "Each failure",
    "fixed": "At one length",
    "causes": "Causes",
    "lengths": "Length",
    "rows": "Attention",
}
PANELS = 5

Columns = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Drawn:
    """A figure, what is seen in it, and its numbers.

    Attributes:
        said: the finding, its text alternative.
        figure: its title says what is drawn.
        columns, rows: the numbers.
        note: how to read it.
    """

    said: str
    figure: go.Figure
    columns: Columns
    rows: Sequence[Sequence[Any]]
    note: str = ""


def draw(chosen: Chosen, view: ViewState) -> Drawn:
    """Return the figure that a view asks for."""
    return _DRAW[view.drawn or "law"](chosen)


def bar(view: ViewState, more: str | None = None) -> Component:
    """Return the choice of figure; `more` is what the one is called that stands before all others, drawn by itself."""
    named = list(NAMES.items()) if more is None else [("", more), *NAMES.items()]
    first = named[0][0]
    now = first if view.drawn is None else view.drawn
    choices = [
        (name, PATH + view.change(drawn=None if key == first else key).query(), key == now) for key, name in named
    ]
    return switch("Drawn", choices, named=False)


def numbers(drawn: Drawn) -> Component:
    """Return the numbers of a figure as a table."""
    few, rest = drawn.rows[:MOST_ROWS], "workbench failures --csv writes every failure."
    return listed(drawn.columns, few, drawn.said, of=len(drawn.rows), rest=rest)


def clicked_failure(chosen: Chosen, click: Any) -> int | None:
    """Return the index of the failure that was clicked on, None for anything else."""
    points = click.get("points") if isinstance(click, dict) else None
    point = points[0] if isinstance(points, list) and points else None
    data = point.get("customdata") if isinstance(point, dict) else None
    index = data[0] if isinstance(data, list) and len(data) == 2 else None
    return index if type(index) is int and index in chosen.listed else None


def _law(chosen: Chosen) -> Drawn:
    content = chosen.content
    summary = content.law_summary
    if summary is None or not content.law:
        return Drawn("This report has no law.", empty_figure("This report has no law."), (), ())
    rows = [
        [
            f"{point.period}", f"{point.flip:.2f}", f"{point.survival:.2f}", f"{point.strings}",
            f"{point.exact_match:.2f} [{point.interval[0]:.2f}, {point.interval[1]:.2f}]", value_text(point.margin),
        ]
        for point in content.law
    ]  # fmt: skip
    columns = [(name, "number") for name in ("Period", "Flip", "Survival", "Strings", "Exact match", "Margin (logits)")]
    note = (
        f"Strings of {summary.length:,} tokens: a random block of m tokens, tiled, each token then flipped with "
        "probability p; the block before is repeated as it was with probability (1 − p)^m. Bars are 95 % intervals."
    )
    return Drawn(summary.sentence, law_lines(content.law), columns, rows, note)


def _strings(chosen: Chosen) -> Drawn:
    listed = {index: chosen.content.failures[index] for index in chosen.listed}
    figure = error_places(listed, chosen.view.failure, len(chosen.content.failures))
    rows = [
        [
            failure.distribution, f"{failure.length:,}", f"{failure.first_error:,}",
            f"{longest_repeat(failure):,}", failure.cause,
        ]
        for failure in listed.values()
    ]  # fmt: skip
    columns = [
        ("Distribution", ""),
        ("Length", "number"),
        ("First error", "number"),
        ("Longest repeat", "number"),
        ("Cause", ""),
    ]
    note = "The failures of the list. Open markers are unconfirmed; a click on one selects it."
    return Drawn(places_finding(list(listed.values())), figure, columns, rows, note)


def _fixed(chosen: Chosen) -> Drawn:
    found = chosen.content.regression
    figure = fixed_length_dots(found.fixed_length.lengths)
    if figure is None:
        figure = empty_figure("At no length do some strings fail and some not.")
    rows = [
        [f"{one.length:,}", f"{one.strings:,}", f"{one.failed:,}", _short(one.auc), _short(one.margin_slope, sign=True)]
        for one in found.fixed_length.lengths
    ]
    names = ("Length", "Strings", "Failed", "P(failed one is more repetitive)", "Margin, one standard deviation")
    note = "Repetition is log2(1 + mean context that a position shares with another one)."
    return Drawn(found.sentence, figure, [(name, "number") for name in names], rows, note)


def _causes(chosen: Chosen) -> Drawn:
    content = chosen.content
    rows = [
        [group.distribution, f"{group.length:,}", f"{group.strings:,}", f"{group.failed:,}",
         f"{group.explained:,}",
         f"{group.exact_match:.2f} [{group.interval[0]:.2f}, {group.interval[1]:.2f}]"]
        for group in content.groups
    ]  # fmt: skip
    names = ("Length", "Strings", "Failed", "Explained", "Exact match")
    columns = [("Distribution", ""), *((name, "number") for name in names)]
    return Drawn(
        content.finding, cause_bars(content.groups, content.failures), columns, rows, "Hatched: not confirmed."
    )


def _lengths(chosen: Chosen) -> Drawn:
    content = chosen.content
    names = list(dict.fromkeys(point.distribution for point in content.curves))
    curves = [curve_of(chosen, name, chosen.run.id) for name in names[:PANELS]]
    figure = length_generalisation(curves, [content.trained], names[:PANELS], title="Exact match by length")
    rows = [
        [point.distribution, f"{point.length:,}", f"{point.strings:,}",
         f"{point.exact_match:.2f} [{point.interval[0]:.2f}, {point.interval[1]:.2f}]"]
        for point in content.curves
    ]  # fmt: skip
    columns = [("Distribution", ""), ("Length", "number"), ("Strings", "number"), ("Exact match", "number")]
    note = (
        f"Trained on {content.trained[0]:,} to {content.trained[1]:,} tokens, shaded. Bands are 95 % Wilson intervals."
    )
    return Drawn(lengths_finding(content), figure, columns, rows, note)


def lengths_finding(content: FailuresContent) -> str:
    """Say up to which length at least half of the strings are copied, by distribution."""
    parts = [
        f"{reached:,} ({name})" if reached else f"no length measured ({name})"
        for name, reached in lengths_reached(content).items()
    ]
    if not parts:
        return "No lengths were measured."
    return f"At least half of the strings are copied up to a length of {', '.join(parts)}."


def lengths_reached(content: FailuresContent) -> dict[str, int]:
    """Longest length up to which at least half of the strings are copied, by distribution; 0 for none measured."""
    found = {}
    for name in dict.fromkeys(point.distribution for point in content.curves):
        found[name] = 0
        for point in sorted((p for p in content.curves if p.distribution == name), key=lambda p: p.length):
            if point.exact_match < 0.5:
                break
            found[name] = point.length
    return found


def _rows(chosen: Chosen) -> Drawn:
    rows = chosen.content.rows
    if any(name not in rows.get(kind, {}) for kind in ROW_COLORS for name in MASSES):
        said = "No row was measured."
        return Drawn(said, empty_figure(said), (), ())
    table_rows = [
        [f"{kind} rows", *(_short(rows[kind][name]) for name in MASSES), f"{rows[kind]['mass_source'].rows:,}"]
        for kind in ROW_COLORS
    ]
    columns = [("Rows", ""), *((name.capitalize(), "number") for name in MASSES.values()), ("Measured", "number")]
    note = (
        "On few tokens nearly every row has competitors, wrong or right: failed rows stand beside right and random "
        "rows of the same copies, and competitors beside as many random places."
    )
    return Drawn(rows_finding(chosen.content), row_dots(rows), columns, table_rows, note)


def rows_finding(content: FailuresContent) -> str:
    """Say where failed rows looked, beside right ones."""

    def mass(kind: str, name: str) -> str:
        value = content.rows[kind][name].value
        return "an unknown share" if value is None else f"{value:.2f}"

    return (
        f"Failed rows put {mass('failed', 'mass_source')} of the deciding attention on the true source and "
        f"{mass('failed', 'mass_competitors')} on competitors ({mass('failed', 'mass_random')} on as many random "
        f"places); right rows {mass('right', 'mass_source')}, {mass('right', 'mass_competitors')} and "
        f"{mass('right', 'mass_random')}."
    )


def curve_of(chosen: Chosen, name: str, called: str) -> LengthCurve:
    """Return exact match of a report over the lengths of one distribution, under a name."""
    points = sorted((p for p in chosen.content.curves if p.distribution == name), key=lambda p: p.length)
    return LengthCurve(
        called,
        chosen.run.scheme,
        name,
        np.array([point.length for point in points]),
        np.array([point.exact_match for point in points]),
        np.array([point.interval[0] for point in points]),
        np.array([point.interval[1] for point in points]),
        np.array([point.strings for point in points]),
    )


def _short(estimate: EstimateContent, sign: bool = False) -> str:
    return "–" if estimate.value is None else value_text(estimate, sign=sign)


_DRAW: dict[str, Callable[[Chosen], Drawn]] = {
    "law": _law,
    "strings": _strings,
    "fixed": _fixed,
    "causes": _causes,
    "lengths": _lengths,
    "rows": _rows,
}


def finding(content: FailuresContent) -> str:
    """Return why copies of the run fail, in one sentence."""
    return sentence(visible_text(content.finding))
