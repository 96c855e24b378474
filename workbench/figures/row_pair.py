"""Where one query row looks under two subjects: both distributions on one axis, and below it their difference."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.attention import Tokens
from workbench.figures.difference import FIRST, SECOND, symmetric_reach
from workbench.figures.style import INK, QUIET, RULE, TRUTH, axis, titled
from workbench.figures.tokens import axis_ticks, markup

_BARS = 240
_OUTLINE = "#7d7d7d"  # of the second, readable on white and on dark
_FILL = "#5b8db8"
_TOPS = (0.001, 0.004, 0.02, 0.1, 1.0)  # where the axis of weights ends


def row_pair(row: int, first: np.ndarray, second: np.ndarray, tokens: Tokens, *, title: str) -> go.Figure:
    """Draw a bar a key: the first filled, the second outlined, and their difference symmetric around zero.

    In long strings a bar stands for several keys: it is the largest weight, and of differences the one furthest from 0.

    Args:
        row: the query position.
        first: Float[row+1 or T] weights of its keys.
        second: the same under the second subject.
        tokens: the first string.
        title: what is seen.
    """
    ours, theirs = (np.asarray(weights)[: row + 1].astype(float) for weights in (first, second))
    width = max(1, -(-len(ours) // _BARS))
    starts = np.arange(0, len(ours), width)
    tops = [np.maximum.reduceat(weights, starts) for weights in (ours, theirs)]
    minus = _furthest(ours - theirs, starts)
    source = int(np.asarray(tokens.source)[row])
    on_source = (starts <= source) & (source < starts + width) if source >= 0 else np.zeros(len(starts), dtype=bool)
    keys = [
        f"{s} <b>{markup(tokens.names[s])}</b>" if width == 1 else f"{s}–{min(s + width, row + 1) - 1}"
        for s in starts.tolist()
    ]
    custom = np.array([keys, *tops, minus], dtype=object).T
    hover = (
        "key %{customdata[0]}<br>first %{customdata[1]:.4f}, second %{customdata[2]:.4f}<br>"
        "difference %{customdata[3]:+.4f}<extra></extra>"
    )
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.07)
    at, look = starts + (width - 1) / 2, {"width": width * 0.86, "customdata": custom, "hovertemplate": hover}
    fills = np.where(on_source, TRUTH, _FILL).tolist()
    figure.add_bar(x=at, y=tops[0], name="first", marker={"color": fills, "line": {"width": 0}}, **look, row=1, col=1)
    outlined = {"color": "rgba(0,0,0,0)", "line": {"width": 1.3, "color": _OUTLINE}}
    figure.add_bar(x=at, y=tops[1], name="second", marker=outlined, **look, row=1, col=1)
    hues = np.where(minus >= 0, FIRST, SECOND).tolist()
    figure.add_bar(
        x=at, y=minus, name="first − second", marker={"color": hues, "line": {"width": 0}}, **look, row=2, col=1
    )
    top = next(top for top in _TOPS if max(tops[0].max(), tops[1].max()) <= top or top == _TOPS[-1])
    reach = symmetric_reach(float(np.abs(minus).max()))
    span = {"range": [-0.6, len(ours) - 0.4], "showgrid": False}
    ticks = axis_ticks(tokens.names, 0, len(ours), 20, always=tokens.anchors)
    name = "key: position and token" if width == 1 else f"key (each bar the largest of {width})"
    figure.update_xaxes(**axis("", **span, showticklabels=False, ticks=""), row=1, col=1)
    figure.update_xaxes(**axis(name, **span, **ticks, tickangle=-90), row=2, col=1)
    figure.update_yaxes(
        **axis("weight", range=[0, 1.08 * top], tickvals=_parts(top), tickformat="~g", gridcolor=RULE), row=1, col=1
    )
    sides = {"tickvals": [-reach, 0, reach], "ticktext": [f"−{reach:g}", "0", f"+{reach:g}"], "gridcolor": RULE}
    figure.update_yaxes(**axis("difference", range=[-1.08 * reach, 1.08 * reach], **sides), row=2, col=1)
    figure.update_yaxes(zeroline=True, zerolinecolor=QUIET, zerolinewidth=1, row=2, col=1)
    return titled(
        figure,
        title,
        barmode="overlay",
        bargap=0,
        showlegend=False,
        font={"color": INK},
        margin={"l": 56, "r": 8, "t": 30, "b": 58},
    )


def _furthest(values: np.ndarray, starts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return, of every bin, the value furthest from zero with its sign."""
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return np.where(-low > high, low, high)


def _parts(top: float) -> list[float]:
    return [part * top for part in (0, 0.5, 1)]
