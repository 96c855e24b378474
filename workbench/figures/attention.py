"""Attention of one head: the map (queries down, keys across) and the distribution of one query row.

Shape letters: T tokens, R and C cells of a view, A anchors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import INK, QUIET, RULE, TRUTH, axis, titled, weight_colorscale
from workbench.figures.tokens import axis_ticks, markup

MASKED = 255  # code of an 8-bit cell whose keys all lie in the future of its queries
TOP_CODE = 254
OVERLAY = "#ff5a36"  # seen on every colour of Cividis and Viridis
_MARKERS_UP_TO = 400
_LABELS = {"x": 30, "y": 32}
PIN = "#0aa5e8"
_BARS = 240
_SMALL_TOPS = (0.001, 0.004, 0.02, 0.1)  # where a row's axis ends when all of its weights are small


@dataclass(frozen=True)
class Tokens:
    """The string under a map.

    Attributes:
        names: printable name of every token, T of them.
        source: Int[T] position of a scored query's true source, -1 elsewhere.
        wrong: Bool[T] true at scored queries whose prediction is wrong.
        anchors: Int[A] positions of A1..Aa, B1..Bb.
    """

    names: Sequence[str]
    source: np.ndarray
    wrong: np.ndarray
    anchors: np.ndarray

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class MapView:
    """A rectangle of one head's pattern as it is sent and drawn.

    Attributes:
        cells: Float32[R, C] weights with NaN where the key lies in the query's future, or, pooled, UInt8[R, C] as
            `encode` writes it.
        row_edges, col_edges: Int[R+1], Int[C+1] token positions between which each cell's tokens lie.
    """

    cells: np.ndarray
    row_edges: np.ndarray
    col_edges: np.ndarray

    @property
    def pooled(self) -> bool:
        """Whether a cell stands for several tokens and holds the largest of their weights."""
        return self.cells.dtype == np.uint8

    @property
    def cell_size(self) -> tuple[int, int]:
        """Most queries and keys in one cell."""
        return int(np.diff(self.row_edges).max()), int(np.diff(self.col_edges).max())


def encode(weights: np.ndarray, row_edges: np.ndarray, col_edges: np.ndarray) -> np.ndarray:
    """Return UInt8[R, C]: 254 times the root of each weight, rounded up, and MASKED where all keys are in the future.

    Rounding up keeps a weight that is not zero from being drawn as zero.
    """
    codes = np.ceil(np.sqrt(np.clip(np.nan_to_num(weights), 0, 1)) * TOP_CODE - 1e-3).astype(np.uint8)
    future = np.asarray(col_edges)[None, :-1] > np.asarray(row_edges)[1:, None] - 1
    return np.where(future, np.uint8(MASKED), codes)


def mask_future(weights: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
    """Return Float32[R, C] weights with NaN where the key comes after the query, so that no colour is drawn there."""
    future = np.arange(cols.start, cols.stop)[None] > np.arange(rows.start, rows.stop)[:, None]
    return np.where(future, np.float32(np.nan), weights.astype(np.float32))


def attention_map(
    view: MapView,
    tokens: Tokens,
    *,
    title: str,
    scale: str = "sqrt",
    palette: str = "cividis",
    show_source: bool = True,
    pinned: int | None = None,
    extent: tuple[slice, slice] | None = None,
) -> go.Figure:
    """Draw a head's pattern: queries from top to bottom, keys from left to right, colour range fixed to 0..1.

    Axes are numeric with token names as tick text. Hovering is left to the caller (the heatmap only fires events).

    Args:
        view: the cells to draw.
        tokens: the string they are about.
        title: what is seen.
        scale: "sqrt" or "linear" colours, see `weight_colorscale`.
        palette: "cividis" or "viridis".
        show_source: mark the true source of every scored query.
        pinned: a query row to outline.
        extent: the queries and keys in sight, where the cells at the edges reach further; all of the view by default.
    """
    rows, cols = extent or (slice(*view.row_edges[[0, -1]].tolist()), slice(*view.col_edges[[0, -1]].tolist()))
    top, bottom, left, right = rows.start, rows.stop, cols.start, cols.stop
    figure = go.Figure()
    figure.add_trace(
        go.Heatmap(
            z=view.cells,
            x=view.col_edges - 0.5,
            y=view.row_edges - 0.5,
            hoverinfo="none",
            hoverongaps=True,  # so that a key in the future can be named as such
            **map_colors(scale, palette, pooled=view.pooled),
        )
    )
    figure.add_trace(_source_trace(tokens, (top, bottom, left, right), show_source))
    figure.add_trace(_wrong_trace(tokens, top, bottom, right))
    names = ("key: the token that is attended to", "query: the token that attends")
    return titled(figure, title, **map_frame(tokens, (top, bottom, left, right), pinned, names))


def map_frame(
    tokens: Tokens, box: tuple[int, int, int, int], pinned: int | None, names: tuple[str, str]
) -> dict[str, Any]:
    """Return the layout of a map: numeric axes with tokens as ticks, queries downwards, and the pinned row.

    Args:
        tokens: of the string.
        box: first and last query row, then first and last key column, that are in sight.
        pinned: a query row to outline.
        names: of the axis of keys and of that of queries.
    """
    top, bottom, left, right = box
    return {
        "xaxis": axis(
            names[0],
            range=[left - 0.5, right - 0.5],
            **axis_ticks(tokens.names, left, right, _LABELS["x"], always=tokens.anchors),
            tickangle=-90,
            showgrid=False,
        ),
        "yaxis": axis(
            names[1],
            range=[bottom - 0.5, top - 0.5],
            **axis_ticks(tokens.names, top, bottom, _LABELS["y"], always=tokens.anchors),
            showgrid=False,
        ),
        "shapes": pinned_shapes(pinned),
        "margin": {"l": 64, "r": 8, "t": 36, "b": 60},
        "dragmode": "zoom",
        "hovermode": "closest",
    }


def map_colors(scale: str, palette: str, *, pooled: bool) -> dict:
    """Return the heatmap's colour settings: range, scale and a bar whose ticks read weights."""
    ticks = np.array([0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0] if scale == "sqrt" else [0, 0.25, 0.5, 0.75, 1.0])
    at = np.sqrt(ticks) * TOP_CODE if pooled else ticks
    if not pooled and scale == "sqrt":
        at, ticks = at[[0, 3, 4, 5, 6, 7]], ticks[[0, 3, 4, 5, 6, 7]]
    colorscale = weight_colorscale(palette, scale, stored="sqrt" if pooled else "weight")
    if pooled:  # one code more than the weights need: MASKED, which is not painted
        share = TOP_CODE / MASKED
        colorscale = [(stop * share, color) for stop, color in colorscale] + [(1.0, "rgba(0,0,0,0)")]
    return {
        "colorscale": colorscale,
        "zmin": 0,
        "zmax": MASKED if pooled else 1,
        "colorbar": {
            "title": {"text": "weight", "side": "right", "font": {"size": 11, "color": QUIET}},
            "thickness": 10,
            "len": 1,
            "outlinewidth": 0,
            "tickvals": at.tolist(),
            "ticktext": [f"{tick:g}" for tick in ticks],
            "tickfont": {"size": 10, "color": QUIET},
            "x": 1.02,
            "xpad": 4,
        },
    }


def pinned_shapes(pinned: int | None) -> list[dict]:
    """Return the outline of the pinned query row, across the whole map."""
    if pinned is None:
        return []
    edges = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": "y"}
    return [{**edges, "y0": pinned - 0.5, "y1": pinned + 0.5, "line": {"color": PIN, "width": 1.5}}]


def _source_trace(tokens: Tokens, box: tuple[int, int, int, int], shown: bool) -> go.Scatter:
    """Open markers on (true source, query); a line where there are too many to tell apart."""
    top, bottom, left, right = box
    queries = np.arange(top, bottom)
    source = np.asarray(tokens.source)[top:bottom]
    inside = (source >= left) & (source < right)
    crowded = int(inside.sum()) > _MARKERS_UP_TO
    stride = max(1, int(inside.sum()) // _MARKERS_UP_TO) if crowded else 1
    size = float(np.clip(420 / max(bottom - top, right - left, 1), 4, 11))
    return go.Scatter(
        x=source[inside][::stride],
        y=queries[inside][::stride],
        mode="lines" if crowded else "markers",
        marker={"symbol": "square-open", "size": size, "color": OVERLAY, "line": {"width": 1.2}},
        line={"color": OVERLAY, "width": 1, "dash": "dot"},
        name="true source",
        hoverinfo="skip",
        visible=shown,
    )


def _wrong_trace(tokens: Tokens, top: int, bottom: int, right: int) -> go.Scatter:
    """A wedge at the right edge of every row whose prediction is wrong."""
    rows = top + np.flatnonzero(np.asarray(tokens.wrong)[top:bottom])
    rows = rows[:: max(1, len(rows) // _MARKERS_UP_TO)]
    return go.Scatter(
        x=np.full(len(rows), right - 0.5),
        y=rows,
        mode="markers",
        marker={"symbol": "triangle-left", "size": 8 if len(rows) <= 60 else 5, "color": OVERLAY},
        cliponaxis=False,
        name="wrong prediction",
        hoverinfo="skip",
    )


def row_distribution(row: int, weights: np.ndarray, tokens: Tokens, *, title: str) -> go.Figure:
    """Draw where one query row looks: a bar a key, the true source set apart.

    The axis ends at 1; where all weights are small, as in long strings, it ends at one of few values and says so.

    Args:
        row: the query position.
        weights: Float[row+1 or T] weights of its keys.
        tokens: the string.
        title: what is seen.
    """
    visible_keys = np.asarray(weights)[: row + 1]
    width = max(1, -(-len(visible_keys) // _BARS))
    starts = np.arange(0, len(visible_keys), width)
    heights = np.maximum.reduceat(visible_keys, starts)
    source = int(np.asarray(tokens.source)[row])
    is_source = (starts <= source) & (source < starts + width) if source >= 0 else np.zeros(len(starts), dtype=bool)
    names = [markup(tokens.names[s]) if width == 1 else f"{s}–{min(s + width, row + 1) - 1}" for s in starts.tolist()]
    figure = go.Figure(
        go.Bar(
            x=starts + (width - 1) / 2,
            y=heights,
            width=width * 0.86,
            marker={"color": np.where(is_source, TRUTH, "#5b8db8").tolist(), "line": {"width": 0}},
            customdata=np.array([names, starts.astype(str)], dtype=object).T,
            hovertemplate="key %{customdata[1]} <b>%{customdata[0]}</b><br>weight %{y:.4f}<extra></extra>",
        )
    )
    top = next((top for top in _SMALL_TOPS if heights.max() <= top), 1)
    shapes, annotations = [], []
    if source >= 0:
        line = {"color": TRUTH, "width": 1, "dash": "dot"}
        height = float(heights[is_source].max())
        shapes = [{"type": "line", "x0": source, "x1": source, "y0": height, "y1": 1.04 * top, "line": line}]
        side = "left" if source < len(visible_keys) / 2 else "right"
        label = {"text": " true source ", "showarrow": False, "font": {"size": 11, "color": INK}}
        annotations = [{"x": source, "y": 1.04 * top, "xanchor": side, "yanchor": "middle", **label}]
    return titled(
        figure,
        title,
        shapes=shapes,
        annotations=annotations,
        xaxis=axis(
            "key: position and token" if width == 1 else f"key (each bar the largest of {width})",
            range=[-0.6, len(visible_keys) - 0.4],
            **axis_ticks(tokens.names, 0, len(visible_keys), 20, always=tokens.anchors),
            tickangle=-90,
            showgrid=False,
        ),
        yaxis=axis(
            "attention weight" if top == 1 else f"weight, up to {top:g}",
            range=[0, 1.08 * top],
            tickvals=[part * top for part in (0, 0.25, 0.5, 0.75, 1)],
            tickformat="~g",
            gridcolor=RULE,
        ),
        bargap=0,
        margin={"l": 48, "r": 8, "t": 36, "b": 60},
    )
