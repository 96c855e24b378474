"""The difference of two attention maps: orange where the first has more weight, blue where the second has.

Zero is not painted, so it is the colour of the page in either theme. Both hues are told apart with any colour vision.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from workbench.differences import Difference
from workbench.figures.attention import Tokens, map_frame
from workbench.figures.style import QUIET, fade, titled

FIRST, SECOND = "#d55e00", "#2a8fd0"  # more weight there
OTHER_TOKEN = "#b5568f"
_REACHES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_STOPS = 24
_MARKED = 400
_SIDES = "← more in the second · more in the first →"  # read from bottom to top


def reach_of(difference: Difference) -> float:
    """Return where the symmetric colour range ends: the smallest of a few values that holds all differences."""
    return symmetric_reach(float(np.nan_to_num(np.abs(difference.values)).max(initial=0)))


def symmetric_reach(largest: float) -> float:
    """Return where a range around zero ends: the smallest of a few values that holds a difference of `largest`."""
    return next((reach for reach in _REACHES if largest <= reach + 1e-6), 1.0)


def difference_map(
    difference: Difference,
    tokens: Tokens,
    *,
    title: str,
    scale: str = "sqrt",
    pinned: int | None = None,
    differing: Sequence[int] = (),
) -> go.Figure:
    """Draw a difference: queries from top to bottom, keys from left to right, colours symmetric around zero.

    Hovering is left to the caller (the heatmap only fires events).

    Args:
        difference: the cells.
        tokens: the first string, which names the axes.
        title: what is seen.
        scale: "sqrt" or "linear" strength of colours.
        pinned: a query row to outline.
        differing: positions at which the two strings have other tokens, marked along both axes.
    """
    rows, cols = difference.row_edges, difference.col_edges
    top, bottom, left, right = int(rows[0]), int(rows[-1]), int(cols[0]), int(cols[-1])
    reach = reach_of(difference)
    figure = go.Figure(
        go.Heatmap(
            z=difference.values,
            x=cols - 0.5,
            y=rows - 0.5,
            hoverinfo="none",
            zmin=-reach,
            zmax=reach,
            colorscale=_colors(scale),
            colorbar={
                "title": {"text": _SIDES, "side": "right", "font": {"size": 11, "color": QUIET}},
                "thickness": 10,
                "len": 1,
                "outlinewidth": 0,
                "tickvals": [-reach, -reach / 2, 0, reach / 2, reach],
                "ticktext": [f"{value:+g}" if value else "0" for value in (-reach, -reach / 2, 0, reach / 2, reach)],
                "tickfont": {"size": 10, "color": QUIET},
                "x": 1.02,
                "xpad": 4,
            },
        )
    )
    at = np.asarray(differing, dtype=int)
    marks = [(at[(at >= left) & (at < right)], "x"), (at[(at >= top) & (at < bottom)], "y")]
    for positions, side in marks:
        shown = positions[:: max(1, len(positions) // _MARKED)]
        edge = np.full(len(shown), bottom - 0.5 if side == "x" else left - 0.5)
        figure.add_scatter(
            x=shown if side == "x" else edge,
            y=edge if side == "x" else shown,
            mode="markers",
            marker={"symbol": "diamond", "size": 5, "color": OTHER_TOKEN},
            cliponaxis=False,
            name="another token",
            hoverinfo="skip",
        )
    return titled(figure, title, **map_frame(tokens, (top, bottom, left, right), pinned, ("key", "query")))


def _colors(scale: str) -> list[tuple[float, str]]:
    """Return plotly stops from the second's hue over nothing to the first's."""
    power = {"sqrt": 0.5, "linear": 1.0}[scale]
    parts = np.linspace(0, 1, _STOPS) ** 2  # denser around zero, where the root is steep
    below = [(0.5 - part / 2, fade(SECOND, round(float(part**power), 4))) for part in parts[::-1]]
    above = [(0.5 + part / 2, fade(FIRST, round(float(part**power), 4))) for part in parts[1:]]
    return [*below, *above]
