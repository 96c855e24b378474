"""Heads of two reports: one score of both as grids on one scale and its difference, and two heads over training.

A difference is the first minus the second, in the colours of differences of attention maps: orange where the first has
more, blue where the second has, nothing at zero.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.content.base import EstimateContent
from workbench.content.heads import HeadContent, HistoryContent
from workbench.figures.difference import FIRST, SECOND, symmetric_reach
from workbench.figures.head_grid import ROOMY, TIGHT, layer_names
from workbench.figures.heads import LINES
from workbench.figures.numbers import signed
from workbench.figures.style import INK, QUIET, TRUTH, axis, fade, titled

STACKED = 6  # heads of a layer beyond which grids stand below each other
CHANGED = "≠"  # beside the difference of a head that has another label
_LABELLED = 2  # heads of a layer up to which cells have room for labels
_NUMBERED = 20  # and for numbers
_STRENGTH = 0.6  # of the strongest colour of a difference, on which its number stays readable in both themes
_NAMED = 4  # heads of one report alone that are named
_ABOVE, _BELOW, _GAP = 48, 52, 58  # px: head numbers and titles, bars of colours, between grids that are stacked
_SIDES = (("first", "circle", "solid"), ("second", "circle-open", "dash"))
SECOND_TRACES = (2, 3)  # numbers of the traces of the grid of the second
_TITLES = ("First", "Second", "First − second")


@dataclass(frozen=True)
class Matched:
    """What stands at one layer and head number of two reports; None where one has no such head."""

    layer: int
    head: int
    first: HeadContent | None
    second: HeadContent | None

    @property
    def name(self) -> str:
        """Layer and head."""
        return f"{self.layer}.{self.head}"

    @property
    def changed(self) -> bool:
        """Whether both are there and have different labels."""
        return self.first is not None and self.second is not None and self.first.label != self.second.label

    @property
    def surely_changed(self) -> bool:
        """Whether their labels differ and both are certain."""
        return self.changed and bool(self.first and self.first.certain and self.second and self.second.certain)

    def estimates(self, score: str) -> tuple[EstimateContent | None, EstimateContent | None]:
        """Return one score of both, None where a report does not have it."""
        first, second = (head.scores.get(score) if head else None for head in (self.first, self.second))
        return first, second


def match(first: Sequence[HeadContent], second: Sequence[HeadContent]) -> list[Matched]:
    """Return the heads of two reports by layer and head number."""
    ours, theirs = ({(head.layer, head.head): head for head in heads} for heads in (first, second))
    return [Matched(*at, ours.get(at), theirs.get(at)) for at in sorted({*ours, *theirs})]


def subtract_estimates(first: EstimateContent | None, second: EstimateContent | None) -> float | None:
    """Return the first value minus the second, None where one could not be measured."""
    if first is None or second is None or first.value is None or second.value is None:
        return None
    return first.value - second.value


def told_apart(first: EstimateContent | None, second: EstimateContent | None) -> bool | None:
    """Whether two 95 % intervals lie apart, so that the values are distinguishable; None where one has none."""
    if first is None or second is None or first.interval is None or second.interval is None:
        return None
    return first.interval[0] > second.interval[1] or second.interval[0] > first.interval[1]


def finding(heads: Sequence[Matched], score: str) -> str:
    """Return where a score differs most, and how many labels do; only certain labels count as certain ones."""
    found = [(m, subtract_estimates(*m.estimates(score))) for m in heads]
    measured = [(m, value) for m, value in found if value is not None]
    said = f"No head of both has a measurable {score}"
    if measured:
        at, value = max(measured, key=lambda item: abs(item[1]))
        ours, theirs = at.estimates(score)
        assert ours and theirs
        said = f"The largest difference of {score} is at head {at.name}: "
        said += f"{ours.value:.2f} in the first, {theirs.value:.2f} in the second ({signed(value)})"
        said += ", not distinguishable: their intervals overlap" if told_apart(ours, theirs) is False else ""
    return f"{said}. {labels_said(heads)}"


def labels_said(heads: Sequence[Matched]) -> str:
    """Return how many labels differ, how many of them certainly, and which heads only one has."""
    both = [m for m in heads if m.first and m.second]
    changed, sure = sum(m.changed for m in both), sum(m.surely_changed for m in both)
    said = f"{changed} of {len(both)} labels differ"
    if changed:
        said += f" ({CHANGED})"
        said += f", {sure} of them certain in both" if sure else ", none of them certain in both"
    for which, lacking in (("first", "second"), ("second", "first")):
        alone = [m.name for m in heads if getattr(m, lacking) is None]
        if alone:
            more = f" and {len(alone) - _NAMED} more" if len(alone) > _NAMED else ""
            named = ", ".join(alone[:_NAMED])
            said += f"; only the {which} has {'heads' if len(alone) > 1 else 'head'} {named}{more}"
    return said


def pair_grids(
    first: Sequence[HeadContent],
    second: Sequence[HeadContent],
    score: str,
    *,
    selected: tuple[int, int],
    beside: tuple[int, int],
    schemes: Sequence[str] = (),
) -> go.Figure:
    """Draw one score of the heads of two reports, 0 to 1, and its difference, symmetric around zero.

    The three grids have the same layers and heads, so that a head stands at the same place in each.

    Args:
        first: heads of a model.
        second: heads of another.
        score: a name that lies between 0 and 1.
        selected: layer and head to be outlined in the first.
        beside: the same in the second.
        schemes: positional scheme of each layer, where both have the same.
    """
    heads = match(first, second)
    layers, across = (1 + max(getattr(m, side) for m in heads) for side in ("layer", "head"))
    stacked, labelled = across > STACKED, across <= _LABELLED
    size = 12 if labelled else 10.5
    row, inner = (ROOMY if labelled else TIGHT), (2 if stacked else 0)
    height = _ABOVE + _BELOW + (1 + inner) * row * layers + inner * _GAP
    figure = make_subplots(
        rows=3 if stacked else 1,
        cols=1 if stacked else 3,
        shared_yaxes=not stacked,
        horizontal_spacing=0.03,
        vertical_spacing=_GAP / (height - _ABOVE - _BELOW) if stacked else 0,
    )
    reach = symmetric_reach(max((abs(v) for m in heads if (v := subtract_estimates(*m.estimates(score)))), default=0.0))
    hovers = {(m.layer, m.head): _about(m, score) for m in heads}
    for number, title in enumerate(_TITLES):
        place = {"row": number + 1, "col": 1} if stacked else {"row": 1, "col": number + 1}
        cells = [_cell(m, score, number, labelled) for m in heads]
        values, texts = np.full((layers, across), np.nan), np.full((layers, across), "", dtype=object)
        customs = np.full((layers, across), "", dtype=object)
        for m, (value, text) in zip(heads, cells, strict=True):
            at = m.layer, m.head
            values[at], customs[at] = (np.nan if value is None else value), hovers[at]
            texts[at] = text if value is not None and across <= _NUMBERED else ""
        written_in = {"text": texts, "texttemplate": "%{text}", "textfont": {"size": size}}
        colors = _difference_colors(reach, height, stacked) if number == 2 else _score_colors(number, height, stacked)
        figure.add_trace(
            go.Heatmap(
                z=values, xgap=3, ygap=3, customdata=customs, hovertemplate="%{customdata}<extra></extra>",
                hoverongaps=False, **(written_in if number != 2 else {}), **colors,
            ),
            **place,
        )  # fmt: skip
        written = [(m, text, value) for m, (value, text) in zip(heads, cells, strict=True) if text]
        shown = [part for part in written if part[2] is None or (number == 2 and across <= _NUMBERED)]
        figure.add_trace(
            go.Scatter(
                x=[m.head for m, _, _ in shown],
                y=[m.layer for m, _, _ in shown],
                mode="text",
                text=[text for _, text, _ in shown],
                textfont={
                    "size": size, "color": [QUIET if v is None else INK for _, _, v in shown]
                },
                customdata=[hovers[m.layer, m.head] for m, _, _ in shown],
                hovertemplate="%{customdata}<extra></extra>",
                showlegend=False,
            ),
            **place,
        )  # fmt: skip
        for m, _, value in written:
            if value is None:
                figure.add_shape(_outline((m.layer, m.head), QUIET, 1, "dot"), **place)
        outlined = {0: [selected], 1: [beside], 2: [selected] if selected == beside else []}[number]
        for at in outlined:
            figure.add_shape(_outline(at, TRUTH, 3, "solid"), **place)
        figure.update_xaxes(
            **axis(title, tickvals=list(range(across)), ticktext=_across(across, labelled), side="top", ticks="",
                   showgrid=False, range=[-0.5, across - 0.5]),
            **place,
        )  # fmt: skip
        names = layer_names(layers, schemes, "<br>" if labelled else "")
        figure.update_yaxes(
            **axis("", tickvals=list(range(layers)), ticktext=names, showgrid=False, ticks="",
                   range=[layers - 0.5, -0.5]),
            **place,
        )  # fmt: skip
        if number and not stacked:
            figure.update_yaxes(showticklabels=False, **place)
    return titled(
        figure, "", height=height, font={"color": INK},
        margin={"l": 60, "r": 60 if stacked else 12, "t": _ABOVE, "b": _BELOW if not stacked else 12},
    )  # fmt: skip


def history_pair(content: tuple[HistoryContent, HistoryContent], scores: Sequence[str]) -> go.Figure:
    """Draw scores of two heads over training: a colour a score, the first solid, the second dashed with open markers.

    Args:
        content: a history of one head alone of each.
        scores: names of at most as many scores as there are colours.
    """
    figure = go.Figure()
    for history, (which, symbol, dash) in zip(content, _SIDES, strict=True):
        for number, score in enumerate(scores):
            color = LINES[number % len(LINES)][0]
            values = [checkpoint.heads[0].scores.get(score) for checkpoint in history.checkpoints]
            figure.add_scatter(
                x=[checkpoint.step for checkpoint in history.checkpoints],
                y=[None if estimate is None else estimate.value for estimate in values],
                name=f"{which}: {html.escape(score)}",
                mode="lines+markers",
                line={"color": color, "dash": dash, "width": 2},
                marker={"size": 7, "symbol": symbol, "color": color},
                customdata=[html.escape(checkpoint.heads[0].label) for checkpoint in history.checkpoints],
                hovertemplate=f"{which}, step %{{x:,}}: %{{customdata}}<br>{html.escape(score)} = %{{y:.3f}}"
                "<extra></extra>",
            )
    return titled(
        figure,
        "",
        xaxis=axis("optimiser steps", rangemode="tozero"),
        yaxis=axis("score", range=[-0.03, 1.06]),
        showlegend=True,
        height=300,
        margin={"l": 60, "r": 20, "t": 12, "b": 84},
        legend={"orientation": "h", "x": 0, "y": -0.24, "yanchor": "top", "font": {"color": INK}},
    )


def _cell(m: Matched, score: str, number: int, labelled: bool) -> tuple[float | None, str]:
    """Return the value of a cell, and what is written in it; no text where there is no head."""
    if number == 2:
        if m.first is None or m.second is None:
            only = "first" if m.second is None else "second"
            return None, f"only in<br>the {only}" if labelled else "·"
        value = subtract_estimates(*m.estimates(score))
        mark = (f"<br>{CHANGED} other label" if labelled else f"\u2009{CHANGED}") if m.changed else ""
        missing = "not<br>measurable" if labelled else f"n/m{mark}"
        return value, missing if value is None else f"{signed(value)}{mark}"
    head = m.second if number else m.first
    if head is None:
        return None, ""
    estimate = head.scores.get(score)
    if estimate is None or estimate.value is None:
        return None, "not<br>measurable" if labelled else "n/m"
    return estimate.value, f"<b>{estimate.value:.2f}</b>" + (f"<br>{html.escape(head.label)}" if labelled else "")


def _about(m: Matched, score: str) -> str:
    """What the pointer reads at a head in each of the three grids: few short lines, as they cover those beside it."""
    said = [f"<b>head {m.name}</b>, {html.escape(score)}"]
    for which, head in (("first", m.first), ("second", m.second)):
        if head is None:
            said.append(f"{which}: no such head")
            continue
        label = html.escape(head.label) + ("" if head.certain else " ?")
        estimate = head.scores.get(score)
        if estimate is None or estimate.value is None:
            said.append(f"{which}: {label}, not measurable")
            said += [html.escape(estimate.reason)] if estimate and estimate.reason else []
            continue
        low, high = estimate.interval or (estimate.value, estimate.value)
        said.append(f"{which}: {label}, {estimate.value:.3f} [{low:.3f}, {high:.3f}]")
    value = subtract_estimates(*m.estimates(score))
    if value is not None:
        apart = told_apart(*m.estimates(score))
        said.append(f"difference {signed(value, 3)}" + (", not distinguishable" if apart is False else ""))
    return "<br>".join(said)


def _score_colors(number: int, height: int, stacked: bool) -> dict[str, Any]:
    ticks = {"tickvals": [0, 0.25, 0.5, 0.75, 1], "tickfont": {"size": 10, "color": QUIET}}
    bar = {**_bar(0.325, 0.66, 0.66, height, stacked), **ticks}
    return {"zmin": 0, "zmax": 1, "colorscale": "Cividis", "showscale": number == 0, "colorbar": bar}


def _difference_colors(reach: float, height: int, stacked: bool) -> dict[str, Any]:
    at = [-reach, 0, reach]
    ticks = {"tickvals": at, "ticktext": [f"−{reach:g}", "0", f"+{reach:g}"], "tickfont": {"size": 10, "color": QUIET}}
    stops = [
        (0.0, fade(SECOND, _STRENGTH)),
        (0.5, fade(SECOND, 0)),
        (0.5, fade(FIRST, 0)),
        (1.0, fade(FIRST, _STRENGTH)),
    ]
    bar = {**_bar(0.843, 0.3, 0.14, height, stacked), **ticks}
    return {"zmin": -reach, "zmax": reach, "colorscale": stops, "colorbar": bar}


def _bar(x: float, length: float, y: float, height: int, stacked: bool) -> dict[str, Any]:
    """Where a bar of colours stands: below grids side by side, or to the right of stacked ones."""
    look = {"thickness": 10, "outlinewidth": 0}
    if stacked:
        return {**look, "x": 1.01, "xanchor": "left", "y": y, "len": length}
    inside = height - _ABOVE - _BELOW
    return {**look, "orientation": "h", "x": x, "xanchor": "center", "len": length, "y": -14 / inside, "yanchor": "top"}


def _across(across: int, labelled: bool) -> list[str]:
    return [f"head {head}" if labelled else str(head) for head in range(across)]


def _outline(at: tuple[int, int], color: str, width: int, dash: str) -> dict[str, Any]:
    layer, head = at
    line = {"color": color, "width": width, "dash": dash}
    return {"type": "rect", "x0": head - 0.48, "x1": head + 0.48, "y0": layer - 0.47, "y1": layer + 0.47, "line": line}
