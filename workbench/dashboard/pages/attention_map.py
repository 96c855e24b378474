"""The large map of the Attention page: its cells, what is said about them, and what clicks and drags on it mean."""

import math
from base64 import b64encode
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import Patch, html
from dash.development.base_component import Component

from workbench.dashboard.data import Data
from workbench.dashboard.overviews import Pending
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import Zoom
from workbench.figures import MapView, attention_map, scheme_style
from workbench.figures.attention import map_colors, pinned_shapes
from workbench.figures.tokens import visible
from workbench.views import EXACT_UP_TO, tokens_of

_CELLS = 512  # a side of a pooled map while the browser has not said how many pixels there are
_FEWEST, _MOST = EXACT_UP_TO, 960  # 1.2 MB on the wire


def cells_for(pixels: int | None) -> int:
    """Return how many cells a side a pooled map has: never more than pixels, which would hide some of them."""
    return _CELLS if pixels is None else min(max(pixels, _FEWEST), _MOST)


def shown(chosen: Selection) -> Zoom:
    """Return the part of the map that is shown."""
    return chosen.view.zoom or whole(chosen.n_tokens)


def map_view(data: Data, chosen: Selection, cells: int) -> MapView:
    """Return the cells of the part of the map that is shown, at most `cells` a side where they are pooled.

    Raises:
        Pending: the overview it is taken from is being computed.
    """
    zoom, view = shown(chosen), chosen.view
    return data.map_view(chosen.capture, chosen.index, view.layer, view.head, zoom.rows, zoom.cols, cells)


def whole(length: int) -> Zoom:
    """Return the rectangle of a whole map."""
    return Zoom(0, length, 0, length)


def map_figure(chosen: Selection, cells: MapView, short: bool = False) -> go.Figure:
    """Return the large map; `short` where it has half of the room."""
    view = chosen.view
    return attention_map(
        cells,
        tokens_of(chosen.string),
        title=map_title(chosen, cells, short),
        scale=view.scale,
        palette=view.palette,
        show_source=view.source,
        pinned=chosen.row,
        extent=(shown(chosen).rows, shown(chosen).cols),
    )


def map_title(chosen: Selection, cells: MapView, short: bool = False) -> str:
    """Return what the map shows, in a line: the head, its weight on the true source, and how it was pooled.

    Args:
        chosen: the selection.
        cells: of the map.
        short: for a map that has half of the room.
    """
    view = chosen.view
    if short:
        pooled = max(cells.cell_size) > 1
        shows = "largest weight of {} × {} tokens".format(*cells.cell_size) if pooled else _on_source(chosen)
        return f"Head {view.layer}.{view.head}: {shows}"
    what = f"Layer {view.layer}, head {view.head} ({scheme_style(chosen.scheme).label})"
    down, across = cells.cell_size
    if down > 1 or across > 1:
        return f"{what}: each cell is the largest weight of {down} queries × {across} keys"
    on_source = weight_on_source(chosen)
    if on_source is None:
        return f"{what}: weight of every query (row) on every key (column)"
    return f"{what}: mean weight on the true source {on_source:.2f}"


def _on_source(chosen: Selection) -> str:
    weight = weight_on_source(chosen)
    return "weight of queries on keys" if weight is None else f"mean weight on the true source {weight:.2f}"


def weight_on_source(chosen: Selection) -> float | None:
    """Return the mean attention weight of the scored queries on their true sources; None where none is scored."""
    source = np.asarray(chosen.string.source_position)
    queries = np.flatnonzero(source >= 0)
    if not len(queries):
        return None
    pattern = chosen.string.head(chosen.view.layer, chosen.view.head)
    return float(pattern.weights_at(queries, source[queries]).mean())


def restyled(chosen: Selection) -> Patch:
    """Return the changes to the map that need no new cells: colours, overlay, pinned row."""
    view, zoom = chosen.view, shown(chosen)
    figure = Patch()
    pooled = max(zoom.bottom - zoom.top, zoom.right - zoom.left) > EXACT_UP_TO
    colors = map_colors(view.scale, view.palette, pooled=pooled)
    figure["data"][0]["colorscale"] = colors["colorscale"]
    figure["data"][0]["colorbar"]["tickvals"] = colors["colorbar"]["tickvals"]
    figure["data"][0]["colorbar"]["ticktext"] = colors["colorbar"]["ticktext"]
    figure["data"][1]["visible"] = view.source
    figure["layout"]["shapes"] = pinned_shapes(chosen.row)
    return figure


def recelled(figure: Patch, chosen: Selection, cells: MapView, short: bool = False) -> None:
    """Change a map of one head into that of another head, at the same rows and keys of the same string.

    A figure takes plotly 20 ms to put together; another head changes its cells, packed as plotly packs them, and title.

    Args:
        figure: the changes to the map so far.
        chosen: the other head.
        cells: its cells, with the edges of those that are shown.
        short: for a map that has half of the room.
    """
    down, across = cells.cells.shape
    packed = b64encode(cells.cells.tobytes()).decode()
    figure["data"][0]["z"] = {"dtype": "u1" if cells.pooled else "f4", "bdata": packed, "shape": f"{down}, {across}"}
    figure["layout"]["title"]["text"] = map_title(chosen, cells, short)


def waiting(pending: Pending, chosen: Selection) -> Component:
    """Return what stands where the map will be while its overview is computed."""
    view, size = chosen.view, f"{chosen.n_tokens:,}"
    said = f"Computing the overview of layer {view.layer}, head {view.head}: {size} × {size} cells"
    bar = html.Progress(value=f"{pending.share:.3f}", max="1", **{"aria-label": said})
    share = html.Span(f"{pending.share:.0%}", className="waiting-share")
    kept = html.P(
        "This happens once; it is kept with the capture. The rest of the page can be used.", className="quiet"
    )
    return html.Div([html.P(said), html.Div([bar, share], className="waiting-bar"), kept], className="waiting")


def cell_edges(cells: MapView) -> dict[str, Any]:
    """Return where the cells of a pooled map begin and end, by which the browser names the one under the pointer."""
    edges = {"rows": cells.row_edges.tolist(), "cols": cells.col_edges.tolist()}
    return edges if cells.pooled else {"rows": None, "cols": None}


def readable_tokens(chosen: Selection) -> dict[str, Any]:
    """Return what the browser needs to name tokens under the pointer without asking the server."""
    names = [visible(name) for name in chosen.string.token_names]
    return {"names": names, "source": np.asarray(chosen.string.source_position).tolist()}


def clicked_cell(click: Any) -> tuple[int, int] | None:
    """Return the query and key of a click on the map; None for anything else."""
    try:
        row, key = (math.floor(float(click["points"][0][axis]) + 0.5) for axis in "yx")
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return None
    return (row, key) if 0 <= row < 10**9 and 0 <= key < 10**9 else None


def strongest_row(chosen: Selection, cells: MapView, row: int, key: int) -> int:
    """Return the query that gave a pooled cell its weight; `row` itself where a cell is one query, or all are zero."""
    rows, cols = (_bin(edges, at) for edges, at in ((cells.row_edges, row), (cells.col_edges, key)))
    if rows is None or cols is None or rows.stop - rows.start == 1:
        return row
    weights = chosen.string.head(chosen.view.layer, chosen.view.head).tile(rows, cols)
    return rows.start + int(weights.max(axis=1).argmax()) if weights.max() > 0 else row


def _bin(edges: np.ndarray, at: int) -> slice | None:
    """Return the positions of the bin that holds one, None where none does."""
    index = int(np.searchsorted(edges, at, side="right")) - 1
    return slice(int(edges[index]), int(edges[index + 1])) if 0 <= index < len(edges) - 1 else None


def moves(event: Any) -> bool:
    """Whether plotly's relayout `event` moved an axis; it also reports that a window was resized, and more."""
    return isinstance(event, dict) and any(_range_of(event, name) for name in ("xaxis", "yaxis"))


def zoom_of(event: Any, before: Zoom | None, length: int) -> Zoom | None:
    """Return the rectangle after plotly's relayout `event`, in whole tokens; None for the whole map.

    Args:
        event: what plotly reported; anything else leaves the zoom as it was.
        before: the rectangle until now.
        length: tokens of the string.
    """
    if not isinstance(event, dict):
        return before
    box = before or whole(length)
    horizontal = _range_of(event, "xaxis") or (box.left, box.right)
    vertical = _range_of(event, "yaxis") or (box.top, box.bottom)
    left, right = _inside(horizontal, length)
    top, bottom = _inside(vertical, length)
    zoomed = Zoom(top, bottom, left, right).within(length)
    return None if zoomed == whole(length) else zoomed


def _inside(ends: tuple[int, int], length: int) -> tuple[int, int]:
    """Return a range moved into 0..length; a map that is dragged over its edge keeps its size."""
    first, last = ends
    size = min(last - first, length)
    first = min(max(first, 0), length - size)
    return first, first + size


def _range_of(event: dict[str, Any], name: str) -> tuple[int, int] | None:
    """Return begin and end, in whole tokens, of an axis that the event changed."""
    ends = event.get(f"{name}.range") or [event.get(f"{name}.range[0]"), event.get(f"{name}.range[1]")]
    if not isinstance(ends, list) or len(ends) != 2:
        return None
    if not all(isinstance(end, int | float) and not isinstance(end, bool) and abs(end) < 1e9 for end in ends):
        return None
    low, high = sorted(float(end) for end in ends)
    return math.floor(low + 0.5), math.ceil(high + 0.5)
