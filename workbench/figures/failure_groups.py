"""Exact match of two reports on failures by distribution and length: both on one scale, and the first minus the second.

Only groups that both reports have are subtracted; a group that one of them lacks is hatched there and in the
difference.
"""

from collections.abc import Callable, Sequence
from functools import partial
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.content.failures import GroupContent
from workbench.figures.difference import FIRST, SECOND
from workbench.figures.numbers import signed
from workbench.figures.style import INK, QUIET, axis, fade, titled, weight_colorscale

HEIGHT = 340
MOST_NAMED = 8  # lengths up to which the numbers stand in the cells
_UPRIGHT = 6  # lengths up to which they stand beside each other on the axis
_MOST_TICKS = 10
_SIGNED = 4  # lengths up to which numbers with a sign have room at full size
_STRONGEST = 0.8  # opacity of a difference of 1: text on it stays readable
_LONGEST_NAME = 24

Cells = dict[tuple[str, int], GroupContent]


def cells_of(groups: Sequence[GroupContent]) -> Cells:
    """Groups by distribution and length."""
    return {(group.distribution, group.length): group for group in groups}


def group_maps(first: Sequence[GroupContent], second: Sequence[GroupContent], called: tuple[str, str]) -> go.Figure:
    """Draw exact match by length and distribution of two reports, 0 to 1, and their difference, -1 to 1.

    Args:
        first: the groups of the one.
        second: those of the other.
        called: names of the two.
    """
    one, other = cells_of(first), cells_of(second)
    names = list(dict.fromkeys(name for name, _ in (*one, *other)))
    lengths = sorted({length for _, length in (*one, *other)})
    upright = len(lengths) <= _UPRIGHT
    below = -0.3 if upright else -0.46  # where the colour bars stand, in heights of the maps
    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.025)
    for column, (cells, name) in enumerate(zip((one, other), called, strict=True), start=1):
        _add_map(
            figure, column, names, lengths, partial(_match, cells), partial(_told, cells),
            {"zmin": 0, "zmax": 1, "colorscale": weight_colorscale("cividis", "linear"), "showscale": column == 1,
             "colorbar": _bar(0.32, below, "exact match (share of strings)", [0, 0.25, 0.5, 0.75, 1])},
            name,
        )  # fmt: skip
    _add_map(
        figure, 3, names, lengths,
        partial(difference, one, other), partial(_compared, one, other),
        {"zmin": -1, "zmax": 1, "colorscale": _colors(), "colorbar": _bar(0.845, below, "first − second", [-1, 0, 1])},
        "first − second",
    )  # fmt: skip
    every = -(-len(lengths) // _MOST_TICKS) or 1
    ticks = {
        "tickvals": list(range(0, len(lengths), every)),
        "ticktext": [f"{length:,}" for length in lengths[::every]],
        "tickangle": 0 if upright else -45,
    }
    rows = {"tickvals": list(range(len(names))), "ticktext": [_short(name) for name in names]}
    settings = {}
    for number in ("", "2", "3"):
        settings[f"xaxis{number}"] = axis("length", range=[-0.5, len(lengths) - 0.5], showgrid=False, **ticks)
        settings[f"yaxis{number}"] = axis(
            "", range=[len(names) - 0.5, -0.5], showticklabels=number == "", showgrid=False, **rows
        )
    for number, name in zip(("", "2", "3"), (*called, "first − second"), strict=True):
        figure.add_annotation(
            text=f"<b>{'<br>'.join(_short(part) for part in name.split(', '))}</b>", x=0, xref=f"x{number} domain", y=1,
            yref="paper", xanchor="left", yanchor="bottom", align="left", showarrow=False,
            font={"size": 11, "color": INK},
        )  # fmt: skip
    return titled(
        figure,
        "Exact match by distribution and length, and what differs",
        height=HEIGHT,
        margin={
            "l": 110,
            "r": 12,
            "t": 68 if any(", " in name for name in called) else 52,
            "b": 96 if upright else 122,
        },
        **settings,
    )


def difference(one: Cells, other: Cells, key: tuple[str, int]) -> float | None:
    """Return exact match of the first minus that of the second; None where one of them has no such group."""
    return one[key].exact_match - other[key].exact_match if key in one and key in other else None


def _add_map(
    figure: go.Figure,
    column: int,
    names: Sequence[str],
    lengths: Sequence[int],
    value: Callable[[tuple[str, int]], float | None],
    told: Callable[[tuple[str, int]], str],
    colors: dict,
    name: str,
) -> None:
    """One heatmap with its numbers, and hatching where it has none."""
    keys = [[(row, length) for length in lengths] for row in names]
    values = [[value(key) for key in line] for line in keys]
    signed, named = column == 3, len(lengths) <= MOST_NAMED
    texts = [["" if z is None else _number(z) for z in line] for line in values]
    written = {"text": texts, "texttemplate": "%{text}", "textfont": {"size": 10}}
    figure.add_heatmap(
        x=list(range(len(lengths))), y=list(range(len(names))), z=values, xgap=1, ygap=1,
        customdata=[[f"{escape(row)}, {length:,} tokens<br>{told((row, length))}" for row, length in line]
                    for line in keys],
        hovertemplate=f"%{{customdata}}<extra>{escape(name)}</extra>", row=1, col=column, **colors,
        **(written if named and not signed else {}),
    )  # fmt: skip
    if named and signed:  # on cells that are hardly painted a heatmap's own text may have their colour
        size = 10 if len(lengths) <= _SIGNED else 9
        placed = [(x, y, z) for y, line in enumerate(values) for x, z in enumerate(line) if z is not None]
        figure.add_scatter(
            x=[x for x, _, _ in placed], y=[y for _, y, _ in placed], mode="text",
            text=[_number(z, signed=True) for _, _, z in placed], textfont={"size": size, "color": INK},
            hoverinfo="skip", row=1, col=column,
        )  # fmt: skip
    missing = [(x, y) for y, line in enumerate(values) for x, z in enumerate(line) if z is None]
    if missing:
        outline: list[tuple[float | None, float | None]] = []
        for x, y in missing:
            outline += [(x + dx, y + dy) for dx, dy in ((-0.48, -0.48), (0.48, -0.48), (0.48, 0.48), (-0.48, 0.48))]
            outline.append((None, None))
        figure.add_scatter(
            x=[x for x, _ in outline], y=[y for _, y in outline], mode="lines", line={"width": 0}, fill="toself",
            fillcolor="rgba(0,0,0,0)", fillpattern={"shape": "/", "fgcolor": QUIET, "fgopacity": 0.5, "size": 6},
            hoverinfo="skip", row=1, col=column,
        )  # fmt: skip


def _match(cells: Cells, key: tuple[str, int]) -> float | None:
    return cells[key].exact_match if key in cells else None


def _told(cells: Cells, key: tuple[str, int]) -> str:
    group = cells.get(key)
    if group is None:
        return "not in this report"
    low, high = group.interval
    copied = group.strings - group.failed
    return f"{copied:,} of {group.strings:,} copied: {group.exact_match:.2f} [{low:.2f}, {high:.2f}]"


def _compared(ones: Cells, others: Cells, key: tuple[str, int]) -> str:
    one, other = ones.get(key), others.get(key)
    if one is None or other is None:
        where = "in neither report" if one is other else f"only in the {'first' if other is None else 'second'}"
        return f"{where}: nothing is subtracted"
    return (
        f"{signed(one.exact_match - other.exact_match)}"
        f"<br>first: {one.strings - one.failed:,} of {one.strings:,} copied"
        f"<br>second: {other.strings - other.failed:,} of {other.strings:,}"
    )


def _number(value: float, *, signed: bool = False) -> str:
    """Return a share without the zero before its point, as ".85", so that it fits into a cell."""
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    text = {"+0.00": "0", "-0.00": "0", "0.00": "0", "1.00": "1", "+1.00": "+1", "-1.00": "−1"}.get(text, text)
    return text.replace("0.", ".").replace("-", "−")


def _bar(x: float, y: float, title: str, ticks: Sequence[float]) -> dict:
    return {
        "orientation": "h", "x": x, "xanchor": "center", "y": y, "yanchor": "top", "len": 0.3, "thickness": 8,
        "outlinewidth": 0, "tickvals": list(ticks), "tickfont": {"size": 10, "color": QUIET},
        "title": {"text": title, "side": "bottom", "font": {"size": 11, "color": QUIET}},
    }  # fmt: skip


def _colors() -> list[tuple[float, str]]:
    """Return plotly stops from the second's hue over nothing to the first's."""
    below, above = ([fade(hue, 0), fade(hue, _STRONGEST)] for hue in (SECOND, FIRST))
    return [(0.0, below[1]), (0.5, below[0]), (0.5, above[0]), (1.0, above[1])]


def _short(name: str) -> str:
    """Return a name, escaped; of a long one beginning and end, where ids of runs of one recipe differ."""
    left = _LONGEST_NAME // 2
    return escape(name if len(name) <= _LONGEST_NAME else f"{name[:left]}…{name[left + 1 - _LONGEST_NAME :]}")
