"""Attention: where one head looks on one string, cell by cell where it fits and max-pooled where it does not."""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import ClientsideFunction, Dash, Input, Output, Patch, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard import pickers, thumbnails
from workbench.dashboard.data import Data, tokens_of
from workbench.dashboard.pages import attention_row
from workbench.dashboard.pages.base import Page
from workbench.dashboard.parts import link, panel, switch
from workbench.dashboard.regions import EVERYTHING, follow, memory
from workbench.dashboard.selection import Selection, select
from workbench.dashboard.state import ViewState, Zoom
from workbench.figures import MapView, attention_map, empty_figure, scheme_style
from workbench.figures.attention import map_colors, pinned_shapes
from workbench.figures.tokens import visible

PATH = "/attention"
_CONFIG = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "doubleClick": False,  # answered by assets/workbench.js: all of the map again
    "modeBarButtons": [["zoom2d", "pan2d", "toImage"]],
}
_ROW_CONFIG = {"displaylogo": False, "displayModeBar": False}
_BLOCK = 64
_RESTYLED = {"row", "scale", "palette", "source"}
_SHOWN_BY_MAP = ("run", "capture", "string", "layer", "head", "zoom", *sorted(_RESTYLED))


def layout() -> Component:
    """Return the skeleton of the page."""
    regions = ("attention-heads", "attention-bar", "attention-map", "attention-tokens", "attention-row")
    heads = html.Div(id="attention-heads", className="heads-area")
    graph = dcc.Graph(id="attention-map", config=_CONFIG, className="graph map", figure=empty_figure(""))
    middle = [
        html.Div(id="attention-bar", className="toolbar"),
        html.P("Point at a cell to read it; click to pin its row; drag to zoom.", id="attention-readout"),
        graph,
    ]
    row_graph = dcc.Graph(id="attention-row", config=_ROW_CONFIG, className="graph row-graph", figure=empty_figure(""))
    right = [html.Div(id="attention-row-bar", className="toolbar"), row_graph, html.Div(id="attention-keys")]
    return html.Div(
        [
            *(memory(region) for region in regions),
            dcc.Store(id="attention-cells"),
            dcc.Store(id="attention-tokens"),
            pickers.columns(
                "attention",
                panel(None, *middle, className="middle"),
                panel(None, *right, className="right"),
                below=[heads],
            ),
        ]
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    pickers.register(app, data, "attention", PATH)

    follow(
        app,
        "attention-heads",
        [Output("attention-heads", "children")],
        EVERYTHING,
        lambda view: (head_grid(pickers.selected(data, view), view),),
    )
    follow(
        app,
        "attention-bar",
        [Output("attention-bar", "children")],
        EVERYTHING,
        lambda view: (toolbar(pickers.selected(data, view), view),),
    )

    def render_map(view: ViewState) -> tuple[go.Figure, dict[str, Any]]:
        chosen = pickers.selected(data, view)
        cells = map_view(data, chosen)
        return map_figure(chosen, cells), cell_edges(cells)

    def restyle(view: ViewState, changed: set[str]) -> tuple[Any, Any] | None:
        return None if changed - _RESTYLED else (restyled(select(data, view), data), no_update)

    follow(
        app,
        "attention-map",
        [Output("attention-map", "figure"), Output("attention-cells", "data")],
        _SHOWN_BY_MAP,
        render_map,
        patch=restyle,
    )
    follow(
        app,
        "attention-tokens",
        [Output("attention-tokens", "data")],
        ("run", "capture", "string"),
        lambda view: (readable_tokens(pickers.selected(data, view)),),
    )
    follow(
        app,
        "attention-row",
        [
            Output("attention-row", "figure"),
            Output("attention-row-bar", "children"),
            Output("attention-keys", "children"),
        ],
        EVERYTHING,
        lambda view: attention_row.render(pickers.selected(data, view), view, PATH),
    )

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("attention-map", "clickData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def pin(click: Any, query: Any) -> str:
        view, _ = ViewState.parse(query)
        row = clicked_row(click)
        if row is None or row == view.row:
            raise PreventUpdate
        return view.change(row=row).query()

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("attention-map", "relayoutData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def zoom(event: Any, query: Any) -> str:
        view, _ = ViewState.parse(query)
        try:
            chosen = select(data, view)
        except WorkbenchError:  # there is no map to zoom into
            raise PreventUpdate from None
        zoomed = zoom_of(event, chosen.view.zoom, chosen.n_tokens)
        if zoomed == chosen.view.zoom:
            raise PreventUpdate
        return view.change(zoom=zoomed).query()

    app.clientside_callback(
        ClientsideFunction("workbench", "readout"),
        Output("attention-readout", "children"),
        Input("attention-map", "hoverData"),
        State("attention-cells", "data"),
        State("attention-tokens", "data"),
        prevent_initial_call=True,
    )


def map_view(data: Data, chosen: Selection) -> MapView:
    """Return the cells of the part of the map that is shown."""
    zoom = chosen.view.zoom or whole(chosen.n_tokens)
    return data.map_view(chosen.capture, chosen.index, chosen.view.layer, chosen.view.head, zoom.rows, zoom.cols)


def whole(length: int) -> Zoom:
    """Return the rectangle of a whole map."""
    return Zoom(0, length, 0, length)


def map_figure(chosen: Selection, cells: MapView) -> go.Figure:
    """Return the large map."""
    view = chosen.view
    return attention_map(
        cells,
        tokens_of(chosen.string),
        title=map_title(chosen, cells),
        scale=view.scale,
        palette=view.palette,
        show_source=view.source,
        pinned=chosen.row,
    )


def map_title(chosen: Selection, cells: MapView) -> str:
    """Return what the map shows, in a line: the head, its weight on the true source, and how it was pooled."""
    view = chosen.view
    what = f"Layer {view.layer}, head {view.head} ({scheme_style(chosen.scheme).label})"
    if cells.pooled:
        down, across = cells.cell_size
        return f"{what}: each cell is the largest weight of {down} queries × {across} keys"
    on_source = weight_on_source(chosen)
    if on_source is None:
        return f"{what}: weight of every query (row) on every key (column)"
    return f"{what}: mean weight on the true source {on_source:.2f}"


def weight_on_source(chosen: Selection) -> float | None:
    """Return the mean attention weight of the scored queries on their true sources; None where none is scored."""
    source = np.asarray(chosen.string.source_position)
    queries = np.flatnonzero(source >= 0)
    if not len(queries):
        return None
    pattern = chosen.string.head(chosen.view.layer, chosen.view.head)
    total = 0.0
    for start in range(0, len(queries), _BLOCK):  # neighbours copy from neighbours: every block is a small tile
        rows = queries[start : start + _BLOCK]
        keys = source[rows]
        top, left = int(rows.min()), int(keys.min())
        tile = pattern.tile(slice(top, int(rows.max()) + 1), slice(left, int(keys.max()) + 1))
        total += float(tile[rows - top, keys - left].sum())
    return total / len(queries)


def restyled(chosen: Selection, data: Data) -> Patch:
    """Return the changes to the map that need no new cells: colours, overlay, pinned row."""
    view = chosen.view
    figure = Patch()
    colors = map_colors(view.scale, view.palette, pooled=map_view(data, chosen).pooled)
    figure["data"][0]["colorscale"] = colors["colorscale"]
    figure["data"][0]["colorbar"]["tickvals"] = colors["colorbar"]["tickvals"]
    figure["data"][0]["colorbar"]["ticktext"] = colors["colorbar"]["ticktext"]
    figure["data"][1]["visible"] = view.source
    figure["layout"]["shapes"] = pinned_shapes(chosen.row)
    return figure


def cell_edges(cells: MapView) -> dict[str, Any]:
    """Return where the cells of a pooled map begin and end, by which the browser names the one under the pointer."""
    edges = {"rows": cells.row_edges.tolist(), "cols": cells.col_edges.tolist()}
    return edges if cells.pooled else {"rows": None, "cols": None}


def readable_tokens(chosen: Selection) -> dict[str, Any]:
    """Return what the browser needs to name tokens under the pointer without asking the server."""
    names = [visible(name) for name in chosen.string.token_names]
    return {"names": names, "source": np.asarray(chosen.string.source_position).tolist()}


def clicked_row(click: Any) -> int | None:
    """Return the query row of a click on the map; None for anything else."""
    try:
        row = math.floor(float(click["points"][0]["y"]) + 0.5)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return None
    return row if 0 <= row < 10**9 else None


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
    left, right = (min(max(edge, 0), length) for edge in sorted(horizontal))
    top, bottom = (min(max(edge, 0), length) for edge in sorted(vertical))
    zoomed = Zoom(top, bottom, left, right).within(length)
    return None if zoomed == whole(length) else zoomed


def _range_of(event: dict[str, Any], name: str) -> tuple[int, int] | None:
    """Return begin and end, in whole tokens, of an axis that the event changed."""
    ends = event.get(f"{name}.range") or [event.get(f"{name}.range[0]"), event.get(f"{name}.range[1]")]
    if not isinstance(ends, list) or len(ends) != 2:
        return None
    if not all(isinstance(end, int | float) and not isinstance(end, bool) and abs(end) < 1e9 for end in ends):
        return None
    low, high = sorted(float(end) for end in ends)
    return math.floor(low + 0.5), math.ceil(high + 0.5)


def head_grid(chosen: Selection, view: ViewState) -> Component:
    """Return the layer x head grid of thumbnails; layers with fewer heads leave cells empty."""
    capture, at = chosen.capture, chosen.view
    assert at.run and at.capture and at.string is not None
    width = max(capture.heads)
    corner = html.Span("layer", className="grid-corner")
    cells: list[Component] = [corner, *(html.Span(f"head {h}" if width <= 4 else str(h)) for h in range(width))]
    for layer, count in enumerate(capture.heads):
        cells.append(html.Span(str(layer), className="grid-layer", title=capture.rules[layer].scheme))
        for head in range(width):
            if head >= count:
                cells.append(html.Span(className="no-head", title=f"layer {layer} has {count} heads"))
                continue
            source = thumbnails.address(at.run, at.capture, at.string, layer, head, at.palette, at.scale)
            picture = html.Img(alt=f"Attention pattern of layer {layer}, head {head}", **{"data-src": source})
            current = {"aria-current": "true"} if (layer, head) == (at.layer, at.head) else {}
            here = PATH + view.change(layer=layer, head=head).query()
            cells.append(link(picture, here, className="thumbnail", title=f"Layer {layer}, head {head}", **current))
    title = html.H2(
        [
            "Heads",
            html.Span(
                f"{sum(capture.heads)} in {capture.n_layers} layer{'s' * (capture.n_layers > 1)}", className="count"
            ),
        ]
    )
    columns = f"1.3rem repeat({width}, minmax({'0.8rem' if width > 4 else '3rem'}, 6rem))"
    grid = html.Div(cells, className="heads", style={"gridTemplateColumns": columns})
    return html.Div([title, html.Div(grid, className="heads-scroll")])


def toolbar(chosen: Selection, view: ViewState) -> Component:
    """Return the choices about the map, the way back from a zoom, and what was replaced in the address."""

    def to(**changes: Any) -> str:
        return PATH + view.change(**changes).query()

    size = f"{chosen.n_tokens:,} tokens"
    reset = link(
        f"Show all {size}", to(zoom=None), id="zoom-reset", className="button", title="or double-click the map"
    )
    controls = [
        switch("Colour", [(s, to(scale=s), view.scale == s) for s in ("sqrt", "linear")]),
        switch("Palette", [(p.title(), to(palette=p), view.palette == p) for p in ("cividis", "viridis")], named=False),
        switch("True source", [(t, to(source=on), view.source == on) for t, on in (("on", True), ("off", False))]),
        html.Span(reset if view.zoom else size, className="extent quiet"),
    ]
    notes = [html.P(note, className="note") for note in chosen.notes]
    return html.Div([html.Div(controls, className="controls"), *notes])


ATTENTION = Page(
    name="attention",
    path=PATH,
    title="Attention",
    purpose="Where does a head look on this string, and is it looking at the token it should copy?",
    layout=layout,
    register=register,
)
