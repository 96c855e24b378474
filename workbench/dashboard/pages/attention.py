"""Attention: where one head looks on one string, cell by cell where it fits and max-pooled where it does not."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard import exports, pickers, token_view, weights_bar
from workbench.dashboard.data import Data
from workbench.dashboard.guard import message_of
from workbench.dashboard.numbers import numbers_of, place, register_numbers, written
from workbench.dashboard.overviews import Pending
from workbench.dashboard.pages import (
    attention_compare,
    attention_heads,
    attention_map,
    attention_numbers,
    attention_row,
)
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.pages.maximise import maximise
from workbench.dashboard.parts import Nothing, link, message, panel, switch
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.regions import EVERYTHING, as_markup, follow, memory
from workbench.dashboard.selection import Selection, select
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure

PATH = "/attention"
_CONFIG = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "doubleClick": False,  # answered by assets/workbench.js: all of the map again
    "doubleClickDelay": 250,  # after which a click is not the first half of one: as in assets/workbench.js
    "showTips": False,
    "modeBarButtons": [["zoom2d", "pan2d"]],
}
_ROW_CONFIG = {"displaylogo": False, "displayModeBar": False}
_KEPT = "kept"
_LOOK_AGAIN = 400  # milliseconds, while an overview is computed
_RESTYLED = {"row", "scale", "palette", "source"}
_HEAD = {"layer", "head"}
_STRING = ("run", "of", "capture", "string", "checkpoint")
_SHOWN_BY_MAP = (*_STRING, "layer", "head", "zoom", "beside", *sorted(_RESTYLED))


def layout() -> Component:
    """Return the skeleton of the page."""
    regions = ("around", "map", "row")
    heads = html.Div(place("attention-heads-shown"), id="attention-heads", className="heads-area")
    graph = dcc.Graph(id="attention-map", config=_CONFIG, className="graph", figure=empty_figure(""))
    middle = [
        html.Div(id="attention-bar", className="toolbar"),
        html.Div(
            [
                html.P("Point at a cell to read it; click to pin its row; drag to zoom.", id="attention-readout"),
                html.Figure(
                    [
                        html.Figcaption(id="attention-map-said", className="unseen"),
                        html.Div([graph, html.Div(id="attention-progress")], className="map"),
                        numbers_of("attention-map"),
                    ]
                ),
            ],
            id="attention-map-tab",
            className="view-tab",
        ),
        html.Div(id="attention-token-view", className="view-tab", hidden=True),
        html.Div(id="attention-foot", className="foot"),
    ]
    row_graph = dcc.Graph(id="attention-row", config=_ROW_CONFIG, className="graph row-graph", figure=empty_figure(""))
    right = [
        html.Div(id="attention-row-bar", className="toolbar"),
        html.Figure([html.Figcaption(id="attention-row-said", className="unseen"), row_graph]),
        html.Div(id="attention-keys"),
    ]
    names = ("cells", "tokens", "pixels", "click", "saved", "comparing")
    return html.Div(
        [
            *(memory(f"attention-{region}") for region in regions),
            memory("attention-tokens", quiet=True),
            *(dcc.Store(id=f"attention-{name}") for name in names),
            *(
                dcc.Interval(id=f"attention-{name}-tick", interval=_LOOK_AGAIN, disabled=True)
                for name in ("map", "heads")
            ),
            pickers.columns(
                "attention",
                panel(None, *middle, id="attention-middle", className="middle"),
                html.Div(id="attention-compare", className="compare-area"),
                panel(None, *right, id="attention-right", className="right"),
                below=[heads],
            ),
        ]
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    pickers.register(app, data, "attention", PATH)
    attention_compare.register(app, data, PATH, _CONFIG)
    reports, waits = Reports(data), pickers.tick_of("attention")

    def map_stamp(view: ViewState) -> str:
        """What decides whether a map can be drawn: its overview is kept, absent, or so far computed."""
        try:
            chosen = select(data, view)
        except WorkbenchError:
            return ""
        head = (chosen.capture, chosen.index, chosen.view.layer, chosen.view.head)
        share = data.overview_share(*head)
        return f"{share:.3f}" if share is not None else _KEPT if data.has_map(*head) else "absent"

    def drawn_heads(view: ViewState) -> str:
        try:
            drawn = attention_heads.ready(data, select(data, view))
            return f"{sorted(drawn)} {attention_compare.waits(data, view)}"
        except WorkbenchError as error:
            return str(error) if isinstance(error, Recapturing) else ""

    def render_around(view: ViewState) -> tuple[Any, ...]:
        weights, ready = weights_bar.weights_bar(data, view, PATH)
        if not ready:  # what is shown stays until the string is ready
            return (*(no_update,) * 7, weights, False)
        chosen = pickers.selected(data, view)
        drawn = attention_heads.ready(data, chosen)
        open_head_drawn = (chosen.view.layer, chosen.view.head) in drawn
        heads = attention_heads.head_grid(chosen, view, PATH, drawn, attention_heads.known_heads(reports, chosen))
        tokens = view.tab == "tokens"
        frame = token_frame(chosen, data.store.option) if tokens else []
        bar, below = toolbar(chosen, view), foot(chosen, view)
        ready = not attention_compare.waits(data, view)
        return written(heads), bar, frame, below, not tokens, tokens, open_head_drawn, weights, ready

    # One region, since all of it holds links that carry the whole view: each more would cost a request a click.
    follow(
        app,
        "attention-around",
        [
            Output("attention-heads-shown", "data-plain"),
            *(Output(f"attention-{part}", "children") for part in ("bar", "token-view", "foot")),
            Output("attention-token-view", "hidden"),
            Output("attention-map-tab", "hidden"),
            Output("attention-heads-tick", "disabled"),
            Output("attention-weights", "children"),
            pickers.ready_of("attention"),
        ],
        EVERYTHING,
        render_around,
        stamp=drawn_heads,
        tick=("attention-heads-tick", waits),
    )

    def render_map(view: ViewState, pixels: int | None) -> tuple[Any, Any, Any, bool, str]:
        chosen = pickers.selected(data, view)
        try:
            cells = attention_map.map_view(data, chosen, attention_map.cells_for(pixels))
        except Pending as pending:
            return empty_figure(""), None, attention_map.waiting(pending, chosen), False, ""
        except WorkbenchError as error:
            return empty_figure(as_markup(message_of(error))), None, [], True, ""
        figure = attention_map.map_figure(chosen, cells, short=view.beside is not None)
        edges = attention_map.cell_edges(cells)
        return figure, edges, [], True, attention_numbers.map_said(chosen)

    def restyle(view: ViewState, changed: set[str], pixels: int | None) -> tuple[Any, ...] | None:
        if changed - _RESTYLED - _HEAD or map_stamp(view) != _KEPT:
            return None
        chosen = select(data, view)
        figure = attention_map.restyled(chosen)
        if not changed & _HEAD:
            return figure, *(no_update,) * 4
        cells = attention_map.map_view(data, chosen, attention_map.cells_for(pixels))
        attention_map.recelled(figure, chosen, cells, short=view.beside is not None)
        return figure, no_update, no_update, no_update, attention_numbers.map_said(chosen)

    follow(
        app,
        "attention-map",
        [
            Output("attention-map", "figure"),
            Output("attention-cells", "data"),
            Output("attention-progress", "children"),
            Output("attention-map-tick", "disabled"),
            Output("attention-map-said", "children"),
        ],
        _SHOWN_BY_MAP,
        render_map,
        stamp=map_stamp,
        tick=("attention-map-tick", waits),
        also=Input("attention-pixels", "data"),
        patch=restyle,
    )
    follow(
        app,
        "attention-tokens",
        [Output("attention-tokens", "data")],
        _STRING,
        lambda view: (attention_map.readable_tokens(pickers.selected(data, view)),),
        tick=waits,
        quiet=True,
    )

    def render_row(view: ViewState) -> tuple[Any, ...]:
        chosen = pickers.selected(data, view)
        second = attention_compare.second_subject(data, chosen, view)
        return (*attention_row.render(chosen, view, PATH, second), attention_numbers.row_said(chosen, second))

    follow(
        app,
        "attention-row",
        [
            Output("attention-row", "figure"),
            Output("attention-row-bar", "children"),
            Output("attention-keys", "children"),
            Output("attention-row-said", "children"),
        ],
        EVERYTHING,
        render_row,
        stamp=lambda view: str(attention_compare.waits(data, view)),
        tick=waits,
    )
    register_numbers(app, "attention-map", lambda view: attention_numbers.map_table(select(data, view)))

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("attention-click", "data"),
        State("url", "search"),
        State("attention-pixels", "data"),
        prevent_initial_call=True,
    )
    def pin(click: Any, query: Any, pixels: Any) -> str:
        view, _ = ViewState.parse(query)
        cell = attention_map.clicked_cell(click)
        if cell is None:
            raise PreventUpdate
        try:
            chosen = select(data, view)
            count = attention_map.cells_for(pixels if type(pixels) is int else None)
            row = attention_map.strongest_row(chosen, attention_map.map_view(data, chosen, count), *cell)
        except (Pending, Recapturing):  # there is no map to click on yet
            raise PreventUpdate from None
        if row == view.row:
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
        if not attention_map.moves(event):
            raise PreventUpdate
        chosen = select(data, view)
        zoomed = attention_map.zoom_of(event, chosen.view.zoom, chosen.n_tokens)
        if zoomed == chosen.view.zoom:
            raise PreventUpdate
        return view.change(zoom=zoomed).query()

    app.clientside_callback(
        ClientsideFunction("workbench", "single"),
        Output("attention-click", "data"),
        Input("attention-map", "clickData"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("workbench", "readout"),
        Output("attention-readout", "children"),
        Input("attention-map", "hoverData"),
        State("attention-cells", "data"),
        State("attention-tokens", "data"),
        prevent_initial_call=True,
    )
    # When the page opens, the map waits for this, so that it is asked for once, with as many cells as there are pixels.
    app.clientside_callback(
        ClientsideFunction("workbench", "pixels"),
        Output("attention-pixels", "data"),
        Input("attention-map-tab", "id"),
    )


def toolbar(chosen: Selection, view: ViewState) -> Component:
    """Return the choices about the map, and what was replaced in the address."""

    def to(**changes: Any) -> str:
        return PATH + view.change(**changes).query()

    tabs = switch("View", [(t.title(), to(tab=t), view.tab == t) for t in ("map", "tokens")], named=False)
    controls = [
        switch("Colour", [(s, to(scale=s), view.scale == s) for s in ("sqrt", "linear")]),
        switch("Palette", [(p.title(), to(palette=p), view.palette == p) for p in ("cividis", "viridis")], named=False),
        switch("True source", [(t, to(source=on), view.source == on) for t, on in (("on", True), ("off", False))]),
    ]
    notes = [html.P(note, className="note") for note in chosen.notes]
    return html.Div([html.Div([tabs, *controls] if view.tab == "map" else [tabs], className="controls"), *notes])


def foot(chosen: Selection, view: ViewState) -> Component:
    """Return what part of the map is shown, the way back from a zoom, and what can be saved."""
    part, size = attention_map.shown(chosen), f"{chosen.n_tokens:,} tokens"
    larger = maximise("attention-middle", "the map", key="m")
    if view.tab == "tokens":
        return html.Div([html.Span(size, className="quiet"), larger])
    back = PATH + view.change(zoom=None).query()
    reset = link(f"Show all {size}", back, id="zoom-reset", className="button", title="or double-click the map")
    here = f"queries {part.top:,}–{part.bottom - 1:,}, keys {part.left:,}–{part.right - 1:,}"
    extent = [reset, html.Span(here, className="quiet")] if view.zoom else [html.Span(size, className="quiet")]
    pictures = [
        html.Button(kind.upper(), type="button", title=f"Save the map as it is drawn, as {kind.upper()}",
                    **{"data-picture": kind, "data-name": _file_name(chosen)})
        for kind in ("png", "svg")
    ]  # fmt: skip
    files = [_saved(chosen, kind) for kind in exports.KINDS]
    saves = html.Span([html.Span("Save", className="quiet"), *pictures, *files, larger])
    return html.Div([html.Span(extent, className="extent"), saves])


def _saved(chosen: Selection, kind: str) -> Component:
    """Return the link that saves the cells of the map; pooled ones where there are too many, which it says."""
    view, part = chosen.view, attention_map.shown(chosen)
    assert view.run and view.capture and view.string is not None
    there = exports.address(kind, chosen.owner.id, chosen.name, view.string, view.layer, view.head, part)
    if exports.fits(kind, part):
        return link(kind.upper(), there, className="button", download=True, title="Save the exact weight of every cell")
    title = (
        f"Too many cells for a {kind.upper()} file from here ({exports.KINDS[kind].most:,} at most): saves the largest "
        f"weight of each of {exports.POOLED} × {exports.POOLED} bins. Zoom in for exact cells."
    )
    return link(f"{kind.upper()}, pooled", there, className="button", download=True, title=title)


def _file_name(chosen: Selection) -> str:
    view = chosen.view
    return f"{view.run}-{chosen.name}-string{view.string}-layer{view.layer}-head{view.head}"


def token_frame(chosen: Selection, option: str) -> Component:
    """Return the layer's heads in CircuitsVis, or why they are not shown and what to do."""
    view = chosen.view
    assert view.run and view.capture and view.string is not None
    if chosen.n_tokens > token_view.LIMIT:
        length = (token_view.LIMIT - chosen.n_tokens + 2 * chosen.string.length) // 2
        return message(
            Nothing(
                f"this string has {chosen.n_tokens:,} tokens. CircuitsVis draws every token of every head in the page, "
                f"which works up to {token_view.LIMIT} tokens; the map has no limit. Choose a shorter string, or "
                f"capture some",
                f"workbench capture {view.run} --length {max(1, min(length, 60))}{option}",
            )
        )
    heads = token_view.heads_shown(chosen.capture.heads[view.layer], view.head)
    count = chosen.capture.heads[view.layer]
    which = f"heads {heads.start} to {heads.stop - 1} of {count}" if len(heads) < count else "all heads"
    return html.Div(
        [
            html.P(
                f"Layer {view.layer}, {which}, in CircuitsVis. Click a head or a token to keep it.", className="quiet"
            ),
            html.Iframe(
                src=token_view.address(chosen.owner.id, chosen.name, view.string, view.layer, view.head),
                sandbox="allow-scripts",
                title=f"Attention of layer {view.layer}, token by token",
            ),
        ],
        className="token-frame",
    )


ATTENTION = Page(
    name="attention",
    path=PATH,
    title="Attention",
    purpose="Where does a head look on this string, and is it looking at the token it should copy?",
    layout=layout,
    register=register,
)
