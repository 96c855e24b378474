"""Where the heads of a layer look from one query: a strip of bars a head, one above the other.

Shape letters: T tokens.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.attention import Tokens
from workbench.figures.style import INK, QUIET, RULE, TRUTH, axis, titled
from workbench.figures.tokens import axis_ticks, markup

_BARS = 240
_CHOSEN, _OTHER = "#3a86c8", "#8a97a3"
_GAP = 0.1  # of the figure's height at most, above each strip, where its name stands


def head_bars(row: int, weights: Mapping[int, np.ndarray], tokens: Tokens, *, chosen: int) -> go.Figure:
    """Draw where each head of a layer looks from one query, all on one axis; what is seen is said beside.

    Args:
        row: the query position.
        weights: by head, Float[T] weights of its keys.
        tokens: the string.
        chosen: the head that is set apart.
    """
    source, visible_keys = int(tokens.source[row]), row + 1
    width = max(1, -(-visible_keys // _BARS))
    starts = np.arange(0, visible_keys, width)
    is_source = (starts <= source) & (source < starts + width) & (source >= 0)
    last = np.minimum(starts + width, visible_keys) - 1
    names = [markup(tokens.names[s]) if s == e else f"{s}–{e}" for s, e in zip(starts.tolist(), last, strict=True)]
    custom = np.array([names, starts.astype(str)], dtype=object).T
    strips = list(weights)
    gap = min(_GAP, 0.25 / len(strips))
    size = 1 / len(strips) - gap
    traces, axes, annotations = [], {}, []
    for place, head in enumerate(strips):
        heights = np.maximum.reduceat(np.asarray(weights[head])[:visible_keys], starts)
        top = 1 - place * (size + gap) - gap
        number = "" if place == 0 else str(place + 1)
        traces.append(
            {
                "type": "bar",
                "x": starts + (width - 1) / 2,
                "y": heights,
                "width": width * 0.86,
                "yaxis": f"y{number}",
                "marker": {
                    "color": np.where(is_source, TRUTH, _CHOSEN if head == chosen else _OTHER).tolist(),
                    "line": {"width": 0},
                },
                "customdata": custom,
                "hovertemplate": (
                    f"head {head}<br>key %{{customdata[1]}} <b>%{{customdata[0]}}</b><br>weight %{{y:.4f}}"
                    "<extra></extra>"
                ),
            }
        )
        ticks: dict[str, Any] = {"tickvals": [0, 0.5, 1], "tickformat": "~g", "gridcolor": RULE, "fixedrange": True}
        axes[f"yaxis{number}"] = axis("", range=[0, 1.02], domain=[max(0.0, top - size), top], **ticks)
        annotations.append(_name(head, heights, is_source, starts, top, chosen, source >= 0))
    return titled(
        go.Figure(traces, _validate=False),
        "",
        **axes,
        xaxis=axis(
            "key: position and token" if width == 1 else f"key (each bar the largest of {width})",
            range=[-0.6, visible_keys - 0.4],
            anchor=f"y{len(strips)}" if len(strips) > 1 else "y",
            **axis_ticks(tokens.names, 0, visible_keys, 20, always=tokens.anchors),
            tickangle=-90,
            showgrid=False,
            fixedrange=True,
        ),
        annotations=annotations,
        bargap=0,
        margin={"l": 36, "r": 8, "t": 4, "b": 60},
    )


def _name(
    head: int, heights: np.ndarray, is_source: np.ndarray, starts: np.ndarray, top: float, chosen: int, scored: bool
) -> dict[str, Any]:
    """Name of a strip, and its weight on the true source, or on its top key where there is none."""
    best = int(heights.argmax())
    said = f"{float(heights[is_source].max(initial=0)):.2f} on the true source"
    if not scored:
        said = f"most on key {starts[best]}: {heights[best]:.2f}"
    name = f"<b>head {head}</b>" if head == chosen else f"head {head}"
    return {
        "text": f"{name} · {said}",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": top,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": INK if head == chosen else QUIET},
    }
