"""Coordinates, the numbers: are queries aligned with their sources, do columns saturate, can a head tell them apart."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from analyses.collisions import Collisions
from analyses.coordinates import Alignment, AxisFit, CoordinateNumbers, measure
from analyses.placement import Placed, placed_in
from analyses.saturation import Saturation
from workbench.dashboard.pages.heads_parts import as_table, bare, described
from workbench.dashboard.parts import panel, table
from workbench.dashboard.selection import Selection
from workbench.figures.coordinate_numbers import (
    alignment_finding,
    collision_finding,
    column_bound,
    fit_finding,
    gap_finding,
    query_offsets,
    saturation_finding,
    unit_of,
)
from workbench.figures.tokens import visible

_ROWS = 200  # of a table
_PARTS = (("Saturation", "saturation"), ("Resolution", "collisions"))  # that a scheme may not have
_CONFIG = {"displaylogo": False, "displayModeBar": "hover", "showTips": False}


def numbers(chosen: Selection) -> Component:
    """Return what the chosen string's coordinates do for copying in the chosen layer."""
    placed = placed_in(chosen.capture, chosen.index, chosen.view.layer)
    found = measure(placed)
    if found.alignment is None:
        return panel("Numbers", html.P(f"Not measurable: {found.reasons['alignment']}.", className="reason"))
    names = chosen.string.token_names
    layer = chosen.view.layer
    missing = [_missing(title, found, part) for title, part in _PARTS if part in found.reasons]
    left = [_alignment(found.alignment), _fit(found, names)]
    right = [
        *([_saturation(found.saturation)] if found.saturation else []),
        *([_collisions(found.collisions, layer)] if found.collisions else []),
        *missing,
    ]
    stacks = [html.Div(stack, className="stack") for stack in (left, right)]
    return html.Div([html.Div(stacks, className="grid-2 numbers"), _tokens(placed, names)])


def _alignment(found: Alignment) -> Component:
    n = len(found.offset)
    rows = [
        [
            "EOS" if k == n - 1 else str(k),
            _number(found.offset[k], 4),
            _number(found.spacing[k], 4),
            _number(found.misaligned[k], 3),
            "-" if found.row_offset is None else _number(found.row_offset[k], 3),
        ]
        for k in _some(n)
    ]
    columns = [
        ("k", "number"), ("query − source, columns", "number"), ("spacing, columns", "number"),
        ("off by, tokens", "number"), ("query − source, rows", "number"),
    ]  # fmt: skip
    summary = _pairs(
        (f"Constant, {unit_of(found)}", _number(found.constant, 3)),
        ("Drift, k = 1 to EOS", _number(found.drift, 3)),
        ("Standard deviation", _number(found.deviation, 3)),
        ("Slope, a token", _number(found.slope, 5)),
    )
    figure = query_offsets(found, title="")
    return panel(
        "Is the copy aligned with its source?",
        described(
            alignment_finding(found),
            _graph("offset", figure),
            summary,
            as_table(columns, rows, _caption("Offset of every copied token", n)),
        ),
    )


def _saturation(found: Saturation) -> Component:
    columns = [
        ("token", ""), ("times", "number"), ("u", "number"), ("v", "number"), ("v/(1 − u)", "number"),
        ("1/(1 − u)", "number"), ("< ½ from", "number"),
    ]  # fmt: skip
    rows = [
        [
            visible(token.name),
            f"{token.count:,}",
            _number(token.u, 5),
            _number(token.v, 5),
            _number(token.bound, 0),
            _number(token.counts_to, 0),
            "never" if token.half_at is None else f"{token.half_at:,}",
        ]
        for token in found.classes[:_ROWS]
    ]
    measured = [[str(k), _number(found.columns[k], 3)] for k in _some(len(found.columns))]
    n = len(found.columns)
    return panel(
        "Does the column saturate?",
        described(
            saturation_finding(found),
            _graph("bound", column_bound(found, title="")),
            html.Div(table(columns, rows, "What each token does to the column"), className="scroll", tabIndex=0),
            as_table([("token", "number"), ("column", "number")], measured, _caption("Column of the source", n)),
        ),
    )


def _fit(found: CoordinateNumbers, names: list[str]) -> Component:
    assert found.fit is not None and found.scale is not None
    rows = [_fit_row("row", found.fit.row), _fit_row("column", found.fit.column)]
    columns = [
        ("coordinate", ""), ("R²", "number"), ("a row by rule", "number"), ("a column by rule", "number"),
        ("constant", "number"),
    ]  # fmt: skip
    drift = "none" if found.scale.row_drift is None else _number(found.scale.row_drift, 5)
    return panel(
        "Are these the rows and columns of the rule?",
        html.P(fit_finding(found.fit, names)),
        html.Div(table(columns, rows, "Affine fit to the coordinates by rule"), className="scroll", tabIndex=0),
        _pairs(
            ("Columns a token, at first", _number(found.scale.first, 3)),
            ("Columns a token, at last", _number(found.scale.last, 3)),
            ("Rows a token", drift),
        ),
    )


def _fit_row(name: str, fit: AxisFit | None) -> list[str]:
    if fit is None:
        return [name, "not measurable", "", "", ""]
    return [name, f"{fit.r2:.4f}", *(_number(value, 3) for value in (fit.per_row, fit.per_column, fit.constant))]


def _collisions(found: Collisions, layer: int) -> Component:
    columns = [
        ("length", "number"), ("nearest two, columns", "number"), ("pairs nearer", "number"),
        ("neighbours", "number"),
    ]  # fmt: skip
    rows = [
        [f"{n:,}", _number(nearest, 3), f"{pairs:,}", f"{neighbours:,}"]
        for n, nearest, pairs, neighbours in zip(
            *(part.tolist() for part in (found.lengths, found.nearest, found.pairs, found.neighbours)), strict=True
        )
    ]
    return panel(
        "Can a head tell the columns apart?",
        html.P(f"{collision_finding(found, layer)} {gap_finding(found, layer)}"),
        html.P(
            f"Resolution: the distance at which the summed cosines of the column planes have lost 1 of the "
            f"{found.score:.1f} logits that they can add at the source. A source that beats both neighbours by 1 logit "
            "gets at most .58 of the weight.",
            className="reason",
        ),
        html.Div(
            table(columns, rows, "Source columns nearer than the resolution, by length"), className="scroll", tabIndex=0
        ),
    )


def _tokens(placed: Placed, names: list[str]) -> Component:
    """The figures of the page as one table: every token's coordinates, those by rule, and its learned steps."""
    assert placed.coords is not None
    columns = [("token", "number"), ("name", ""), ("column" if placed.rows is not None else "index", "number")]
    parts: list[np.ndarray] = [placed.columns]
    if placed.rows is not None:
        columns.append(("row", "number"))
        parts.append(placed.rows)
    columns += [("column by rule", "number"), ("row by rule", "number")]
    parts += [placed.rule[:, 1], placed.rule[:, 0]]
    if placed.steps is not None:
        columns += [("gate u", "number"), ("step v", "number")]
        parts += [placed.steps[:, 0], placed.steps[:, 1]]
    rows = [[str(i), visible(names[i]), *(_number(float(part[i]), 4) for part in parts)] for i in _some(len(names))]
    shown = as_table(columns, rows, _caption("Where the tokens stand", len(names)))
    return panel("Tokens and coordinates", shown, className="numbers-tokens")


def _missing(title: str, found: CoordinateNumbers, part: str) -> Component:
    return panel(title, html.P(f"Not measurable: {found.reasons[part]}.", className="reason"))


def _pairs(*pairs: tuple[str, str]) -> Component:
    return html.Dl([html.Div([html.Dt(name), html.Dd(value)]) for name, value in pairs], className="pairs")


def _some(count: int) -> Sequence[int]:
    """Indices of a table's rows: all, or of many evenly spaced ones with the first and the last."""
    if count <= _ROWS:
        return range(count)
    return [int(i) for i in np.unique(np.linspace(0, count - 1, _ROWS).round())]


def _caption(what: str, count: int) -> str:
    return what if count <= _ROWS else f"{what}; {_ROWS} of {count:,}, evenly spaced"


def _number(value: float, digits: int) -> str:
    """Write a number with a minus sign, without a negative zero."""
    if abs(value) == inf:
        return "∞" if value > 0 else "−∞"
    if value != value:
        return "not measurable"
    written = f"{value:,.{digits}f}"
    return written.replace("-", "−") if float(written.replace(",", "")) else written.lstrip("-")


def _graph(name: str, figure: go.Figure) -> Any:
    return dcc.Graph(id=f"coordinates-{name}", figure=bare(figure), config=_CONFIG, className="graph")
