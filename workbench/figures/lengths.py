"""Exact match against string length over seeds: the paper's figures 4 and 7, for any groups of subjects."""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.content.lengths import SpreadContent
from workbench.figures.curves import WIDTHS, length_panels, marker_of, markup_id
from workbench.figures.style import INK, fade, scheme_style, titled
from workbench.figures.tokens import visible

PANEL, HEIGHT = 380, 400  # pixels of a panel's width and of the figure's height, as a picture
_LEGEND_LINE = 22
_BANDS = 3  # groups up to which single subjects have bands, too


def length_spread(spread: Sequence[SpreadContent], *, title: str, relative: bool = False) -> go.Figure:
    """Draw the mean over each group's subjects, one panel a distribution, y fixed to 0..1, x logarithmic.

    The band is from the lowest to the highest subject. Of a single one it is its 95 % Wilson interval, which is left to
    the text under the pointer where more than three groups would draw their bands over each other. Training ranges are
    shaded, each with its end named where they differ.

    Args:
        spread: points of all groups.
        title: what is seen.
        relative: draw over length divided by the longest trained one, so that all groups share one training range.
    """
    names = list(dict.fromkeys(point.distribution for point in spread))
    groups = list(dict.fromkeys(point.group for point in spread))
    figure = make_subplots(rows=1, cols=max(1, len(names)), shared_yaxes=True, horizontal_spacing=0.03)
    several = len({point.trained for point in spread}) > 1
    repeats: dict[str, int] = {}
    for group in groups:
        mine = [point for point in spread if point.group == group]
        repeat = repeats.get(mine[0].scheme, 0)
        repeats[mine[0].scheme] = repeat + 1
        label = _label(mine, several)
        shown = False
        for column, name in enumerate(names, start=1):
            points = sorted((p for p in mine if p.distribution == name), key=lambda point: point.length)
            if points:
                if len(groups) <= _BANDS or points[0].subjects > 1:
                    _add_band(figure, points, label, column, relative=relative)
                _add_group(figure, points, repeat, label, column, relative=relative, in_legend=not shown)
                shown = True
    if relative:
        ends, at = [(1.0, "trained")], [p.length / p.trained for p in spread]
    else:
        known = sorted({point.trained for point in spread})
        ends = [(float(end), f"trained ≤ {end:,}") for end in known]
        at = [float(point.length) for point in spread]
    settings = length_panels(
        figure,
        names,
        ends,
        at,
        "length / longest trained length" if relative else "string length (tokens)",
        "exact match (mean over seeds)" if any(p.subjects > 1 for p in spread) else "exact match (share of strings)",
    )
    lines = -(-len(groups) // max(1, 2 * len(names)))
    return titled(
        figure,
        title,
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "y": -60 / (HEIGHT - 52 - 60 - _LEGEND_LINE * lines),
            "yanchor": "top",
            "font": {"size": 11, "color": INK},
        },
        height=HEIGHT,
        margin={"l": 56, "r": 12, "t": 52, "b": 60 + _LEGEND_LINE * lines},
        uirevision="lengths",
        **settings,
    )


def _label(points: Sequence[SpreadContent], several: bool) -> str:
    """Name of a group with its training range, where ranges differ, and how many subjects it has."""
    subjects = max(point.subjects for point in points)
    trained = f", ≤ {points[0].trained:,}" if several else ""
    return f"{_group_name(points[0].group)}{trained}" + (f" ({subjects} seeds)" if subjects > 1 else "")


def _group_name(name: str) -> str:
    """A group's name in the legend, where a space may stay one."""
    return markup_id(name).replace(visible(" "), " ")


def _add_band(figure: go.Figure, points: Sequence[SpreadContent], label: str, column: int, *, relative: bool) -> None:
    at = [point.length / point.trained if relative else point.length for point in points]
    ends = [point.interval or (point.lowest, point.highest) for point in points]
    figure.add_scatter(
        x=[*at, *reversed(at)], y=[*(high for _, high in ends), *(low for low, _ in reversed(ends))],
        mode="lines", fill="toself", fillcolor=fade(scheme_style(points[0].scheme).color, 0.15), line={"width": 0},
        hoverinfo="skip", showlegend=False, legendgroup=label, row=1, col=column,
    )  # fmt: skip


def _add_group(
    figure: go.Figure,
    points: Sequence[SpreadContent],
    repeat: int,
    label: str,
    column: int,
    *,
    relative: bool,
    in_legend: bool,
) -> None:
    scheme = points[0].scheme
    style = scheme_style(scheme)
    at = [point.length / point.trained if relative else point.length for point in points]
    figure.add_scatter(
        x=at, y=[point.mean for point in points], mode="lines+markers", name=label, legendgroup=label,
        showlegend=in_legend, line={"color": style.color, "dash": style.dash, "width": WIDTHS[min(repeat, 3)]},
        marker=marker_of(scheme, repeat),
        customdata=[[_length(point), _band(point), point.strings] for point in points],
        hovertemplate="%{customdata[0]} tokens: %{y:.2f}<br>%{customdata[1]}<br>%{customdata[2]} strings"
        "<extra>%{fullData.name}</extra>", row=1, col=column,
    )  # fmt: skip


def _length(point: SpreadContent) -> str:
    shortest = point.length if point.shortest is None else point.shortest
    return f"{point.length:,}" if shortest == point.length else f"{shortest:,}-{point.length:,}"


def _band(point: SpreadContent) -> str:
    if point.interval is not None:
        return f"95 % interval {point.interval[0]:.2f} to {point.interval[1]:.2f}"
    return f"{point.subjects} seeds from {point.lowest:.2f} to {point.highest:.2f}"
