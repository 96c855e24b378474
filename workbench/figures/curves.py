"""Curves over runs: training as it goes, and exact match against string length."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import INK, QUIET, RULE, axis, fade, scheme_style, titled
from workbench.figures.tokens import markup, visible

WIDTHS = (2.2, 1.4, 1.4, 1.0)
_LABEL_HEIGHT = 0.055  # of the plot, a line of labels above its panels
_LABEL_ROOM = 0.35  # of a panel's width, left of which there is no room for a label


@dataclass(frozen=True)
class TrainingCurve:
    """What one run reported while it trained.

    Attributes:
        run: its id.
        scheme: name of its positional scheme(s).
        steps, losses: Int[N], Float[N] of every record (thinned for display).
        evaluated, exact_match: Int[M], Float[M] of every evaluation: the mean over what lies in the training range.
    """

    run: str
    scheme: str
    steps: np.ndarray
    losses: np.ndarray
    evaluated: np.ndarray
    exact_match: np.ndarray


@dataclass(frozen=True)
class LengthCurve:
    """Exact match of one run on one distribution.

    Attributes:
        run, scheme, distribution: names.
        lengths: Int[N] longest string of each interval, ascending.
        exact_match, low, high: Float[N] share of strings copied without an error, and its 95 % Wilson interval.
        strings: Int[N] strings evaluated.
    """

    run: str
    scheme: str
    distribution: str
    lengths: np.ndarray
    exact_match: np.ndarray
    low: np.ndarray
    high: np.ndarray
    strings: np.ndarray


def thin(x: np.ndarray, y: np.ndarray, at_most: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return about `at_most` points of a curve, keeping each bucket's lowest and highest, so that no spike is lost."""
    if len(x) <= at_most:
        return x, y
    finite = np.nan_to_num(y, nan=np.inf)
    bounds = np.linspace(0, len(x), at_most // 2 + 1).astype(int)
    kept = {0, len(x) - 1}
    for start, stop in pairwise(bounds):
        kept.add(start + int(finite[start:stop].argmin()))
        kept.add(start + int(finite[start:stop].argmax()))
    index = np.array(sorted(kept))
    return x[index], y[index]


def training_curves(curves: Sequence[TrainingCurve], *, title: str) -> go.Figure:
    """Draw loss (log axis) beside exact match (0..1) over optimiser steps, one colour, dash and marker a scheme."""
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.2)
    seen: dict[str, int] = {}
    for curve in curves:
        style, repeat = scheme_style(curve.scheme), seen.get(curve.scheme, 0)
        seen[curve.scheme] = repeat + 1
        line = {"color": style.color, "dash": style.dash, "width": WIDTHS[min(repeat, 3)]}
        common = {"name": markup_id(curve.run), "legendgroup": curve.run, "showlegend": False}
        # A subplot that has no point at all makes plotly draw paths to NaN; one point that is none prevents it.
        evaluated = (curve.evaluated, curve.exact_match) if len(curve.evaluated) else ([None], [None])
        figure.add_trace(
            go.Scatter(
                x=curve.steps, y=curve.losses, mode="lines", line=line, **common,
                hovertemplate="step %{x:,}<br>loss %{y:.4g}<extra>%{fullData.name}</extra>",
            ),
            row=1, col=1,
        )  # fmt: skip
        figure.add_trace(
            go.Scatter(
                x=evaluated[0], y=evaluated[1], mode="lines+markers", line=line,
                marker=marker_of(curve.scheme, repeat), **common,
                hovertemplate="step %{x:,}<br>exact match %{y:.3f}<extra>%{fullData.name}</extra>",
            ),
            row=1, col=2,
        )  # fmt: skip
    steps = {"rangemode": "tozero", "tickformat": "~s"}
    return titled(
        figure,
        title,
        xaxis=axis("optimiser step", **steps),
        xaxis2=axis("optimiser step", **steps),
        yaxis=axis("loss (nats a token)", type="log", dtick="D2", exponentformat="power"),
        yaxis2=axis("exact match, trained lengths", range=[-0.04, 1.04], tickvals=[0, 0.25, 0.5, 0.75, 1]),
        margin={"l": 56, "r": 12, "t": 52, "b": 44},
        uirevision="training",
    )


def length_generalisation(
    curves: Sequence[LengthCurve],
    trained: Sequence[tuple[int, int]],
    distributions: Sequence[str],
    *,
    title: str,
    beside: Sequence[LengthCurve] = (),
) -> go.Figure:
    """Draw exact match against string length, one panel a distribution, y fixed to 0..1, x logarithmic.

    Args:
        curves: what was measured.
        trained: the ranges of string length the runs were trained on; each is shaded.
        distributions: the panels, from left to right.
        title: what is seen.
        beside: of the second of two subjects; drawn dashed, and both are named in a legend.
    """
    n = max(1, len(distributions))
    figure = make_subplots(rows=1, cols=n, shared_yaxes=True, horizontal_spacing=0.035)
    seen: dict[str, list[str]] = {}
    for curve in curves:
        runs = seen.setdefault(curve.scheme, [])
        if curve.run not in runs:
            runs.append(curve.run)
        column = list(distributions).index(curve.distribution) + 1
        _add_length_curve(figure, curve, runs.index(curve.run), column)
    for curve in beside:
        _add_length_curve(figure, curve, 0, list(distributions).index(curve.distribution) + 1, dashed=True)
    curves = [*curves, *beside]
    ends = sorted({high for _, high in trained})
    label = f"trained ≤ {ends[0]:,}" if len(ends) == 1 else f"trained ≤ {ends[0]:,} … {ends[-1]:,}" if ends else ""
    lengths = np.concatenate([c.lengths for c in curves]) if curves else np.array([1, 100])
    settings = length_panels(figure, distributions, [(end, label if end == ends[-1] else "") for end in ends], lengths)
    margin = {"l": 56, "r": 12, "t": 52, "b": 44}
    if beside:
        settings["showlegend"] = True
        settings["legend"] = {"orientation": "h", "x": 0, "y": -0.34, "yanchor": "top", "font": {"color": INK}}
        margin["b"] = 76
        shown: set[str] = set()
        for trace in figure.data:
            if trace.name:
                name = trace.name.replace(visible(" "), " ")
                trace.update(name=name, showlegend=name not in shown, legendgroup=name)
                shown.add(name)
    return titled(figure, title, margin=margin, uirevision="lengths", **settings)


def length_panels(
    figure: go.Figure,
    names: Sequence[str],
    ends: Sequence[tuple[float, str]],
    lengths: Sequence[float] | np.ndarray,
    length_title: str = "string length (tokens)",
    match_title: str = "exact match (share of strings)",
) -> dict[str, Any]:
    """Name and shade the panels of exact match against length, and return the settings of their axes.

    Args:
        figure: one row of panels with a common y axis.
        names: of the panels, from left to right.
        ends: of the training ranges, each with the label that stands beside it, "" for none.
        lengths: that the axis has to show, beside the ends.
        length_title: of the x axis, which is logarithmic.
        match_title: of the y axis, which is fixed to 0..1.
    """
    shown = [*(float(length) for length in lengths), *(end for end, _ in ends)]
    lowest, highest = min(shown), max(shown)
    x_range = [np.log10(lowest / 1.25), np.log10(highest * 1.25)]
    shade = 0.10 if len(ends) == 1 else 0.05  # several lie on top of each other
    labels = [(end, label) for end, label in ends if label]
    top = 1 - _LABEL_HEIGHT * len(labels)
    settings: dict[str, Any] = {}
    for i, name in enumerate(names):
        number = "" if i == 0 else str(i + 1)
        settings[f"xaxis{number}"] = axis(
            length_title, type="log", range=x_range, tickangle=0, **log_ticks(lowest, highest)
        )
        settings[f"yaxis{number}"] = axis(
            match_title if i == 0 else "",
            range=[-0.04, 1.04],
            domain=[0, top],
            tickvals=[0, 0.25, 0.5, 0.75, 1],
            showticklabels=i == 0,
        )
        for end, _ in ends:
            figure.add_vrect(
                x0=10 ** x_range[0], x1=end, row=1, col=i + 1, fillcolor=fade(QUIET, shade), line_width=0, layer="below"
            )
        for line, (end, label) in enumerate(labels):
            at = np.log10(end)
            inside = at - x_range[0] > _LABEL_ROOM * (x_range[1] - x_range[0])
            figure.add_annotation(
                text=f"{label} ◂" if inside else f"▸ {label}", x=at, xref=f"x{number}", y=top + _LABEL_HEIGHT * line,
                yref="paper", xanchor="right" if inside else "left", yanchor="bottom", showarrow=False,
                font={"size": 10, "color": QUIET}, borderpad=0,
            )  # fmt: skip
        figure.add_annotation(
            text=f"<b>{markup_id(name)}</b>", x=0, xref=f"x{number} domain", y=1.0, yref="paper", xanchor="left",
            yanchor="bottom", showarrow=False, font={"size": 12, "color": INK},
        )  # fmt: skip
    return settings


def log_ticks(low: float, high: float) -> dict:
    """Return tick settings for a logarithmic axis that name round lengths or shares in full: 0.3, 10, 50, 1,000."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(max(high, 2)))) + 1)
    digits = (1, 2, 5) if high / low < 20 else (1, 3) if high / low < 1000 else (1,)
    values = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
    names = [f"{value:,.0f}" if value >= 1 else f"{value:g}" for value in values]
    return {"tickmode": "array", "tickvals": values, "ticktext": names, "gridcolor": RULE}


def markup_id(run: str) -> str:
    """Return an id or name for legends and hover texts: in full, visible, escaped."""
    return "".join(markup(run[at : at + 12]) for at in range(0, len(run), 12))


def _add_length_curve(figure: go.Figure, curve: LengthCurve, repeat: int, column: int, *, dashed: bool = False) -> None:
    style = scheme_style(curve.scheme)
    dash = "dash" if dashed else style.dash
    figure.add_trace(
        go.Scatter(
            x=np.concatenate([curve.lengths, curve.lengths[::-1]]),
            y=np.concatenate([curve.high, curve.low[::-1]]),
            mode="lines", fill="toself", fillcolor=fade(style.color, 0.07 if dashed else 0.13), line={"width": 0},
            hoverinfo="skip", showlegend=False,
        ),
        row=1, col=column,
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=curve.lengths, y=curve.exact_match, mode="lines+markers", name=markup_id(curve.run), showlegend=False,
            line={"color": style.color, "dash": dash, "width": WIDTHS[min(repeat, 3)]},
            marker=marker_of(curve.scheme, 1 if dashed else repeat),
            customdata=np.array([curve.low, curve.high, curve.strings]).T,
            hovertemplate=(
                "length ≤ %{x:,}<br>exact match %{y:.2f} [%{customdata[0]:.2f}, %{customdata[1]:.2f}]"
                "<br>%{customdata[2]} strings<extra>%{fullData.name}</extra>"
            ),
        ),
        row=1, col=column,
    )  # fmt: skip


def marker_of(scheme: str, repeat: int) -> dict:
    """A scheme's marker: filled for its first run in a figure, open for the others."""
    symbol = scheme_style(scheme).marker
    return {"symbol": symbol if repeat == 0 or symbol.endswith("-open") else f"{symbol}-open", "size": 7}
