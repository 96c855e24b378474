"""The second map of the Attention page and the difference of both; in the page only while something is compared.

Nothing of this costs a request while nothing is: the browser sees from the address that a comparison begins, asks for
the skeleton once, and only then are there components that follow the address.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import ClientsideFunction, Dash, Input, Output, Patch, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard.comparison import (
    Pair,
    most_moved,
    names,
    pair_of,
    second_of,
    strings_said,
    subtracted,
    summarised,
)
from workbench.dashboard.data import Data
from workbench.dashboard.guard import message_of, sentence
from workbench.dashboard.numbers import numbers_of, register_numbers
from workbench.dashboard.overviews import Pending
from workbench.dashboard.pages import attention_choices, attention_map, attention_numbers
from workbench.dashboard.pages.heads_parts import as_table
from workbench.dashboard.parts import message, panel, token
from workbench.dashboard.pickers import selected
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.regions import EVERYTHING, as_markup, follow, memory
from workbench.dashboard.selection import Selection, select
from workbench.dashboard.state import ViewState
from workbench.differences import Difference
from workbench.figures import empty_figure
from workbench.figures.attention import pinned_shapes
from workbench.figures.difference import difference_map, reach_of
from workbench.views import tokens_of

_MOST_CELLS = 460  # a side of either map: one of 8 bits and one of 32 bits a cell are sent in one answer, 1.4 MB
_ALIKE = 0.005  # a difference that is shown as 0
_LOOK_AGAIN = 400  # milliseconds, while an overview is computed or a string run under other weights
# A change of any other field changes links alone, and of `row` an outline.
_DRAWN = {
    "run", "of", "capture", "checkpoint", "string", "layer", "head", "zoom", "scale", "palette", "source", "beside",
}  # fmt: skip
_COLUMNS = (
    ("Query", "number"), ("Token", ""), ("Elsewhere", "number"), ("First: key", "number"), ("Weight", "number"),
    ("Second: key", "number"), ("Weight", "number"),
)  # fmt: skip


def skeleton(config: dict[str, Any]) -> list[Component]:
    """Return the panels that a comparison adds to the page; `config` is of its graphs."""
    second = dcc.Graph(id="compare-map", config=config, className="graph", figure=empty_figure(""))
    minus = dcc.Graph(id="compare-difference", config=config, className="graph", figure=empty_figure(""))
    return [
        memory("attention-compare"),
        dcc.Store(id="compare-click"),
        dcc.Interval(id="compare-tick", interval=_LOOK_AGAIN, disabled=True),
        panel(None, html.Div(id="compare-bar"), html.P(id="compare-readout"), className="compare-bar"),
        panel(
            None,
            html.Div(id="compare-said", className="compare-said"),
            html.Figure(
                [
                    html.Figcaption(id="compare-map-said", className="unseen"),
                    html.Div(second, className="map"),
                    numbers_of("compare-map"),
                ],
                className="compared",
            ),
            id="attention-second",
            className="second",
        ),
        panel(
            None,
            html.Figure(
                [
                    html.Figcaption(id="compare-finding", className="compare-said"),
                    html.Div(minus, className="map"),
                    html.Div(id="compare-table"),
                ],
                className="compared",
            ),
            id="attention-difference",
            className="minus",
        ),
    ]


def register(app: Dash, data: Data, path: str, config: dict[str, Any]) -> None:
    """Register the callbacks of a comparison; `path` is the page's address."""
    app.clientside_callback(
        ClientsideFunction("compare", "comparing"),
        Output("attention-comparing", "data"),
        Input("url", "search"),
        State("attention-comparing", "data"),
    )

    @app.callback(
        Output("attention-compare", "children"), Input("attention-comparing", "data"), prevent_initial_call=True
    )
    def open_or_close(comparing: Any) -> list[Component]:
        return skeleton(config) if comparing is True else []

    def stamp(view: ViewState) -> str:
        """What decides whether both maps can be drawn."""
        try:
            pair = pair_of(data, view)
        except WorkbenchError as error:
            return str(error)
        there = [(c.capture, c.index, c.view.layer, c.view.head) for c in (pair.first, pair.second)]
        return " ".join(
            f"{data.overview_share(*at) or 0:.2f}" if data.overview_share(*at) is not None else str(data.has_map(*at))
            for at in there
        )

    def render(view: ViewState, pixels: int | None) -> tuple[Any, ...]:
        if view.beside is None:  # the panels are about to go
            raise PreventUpdate
        first, cells = selected(data, view), cells_for(pixels)
        nothing = empty_figure("")
        try:
            pair = Pair(first, second_of(data, first, view))
        except WorkbenchError as error:
            waits = isinstance(error, Recapturing)
            said = html.P(f"{sentence(str(error))[:-1]} …", role="status") if waits else message(error)
            alone = attention_choices.bar(data, view, path, first, None)
            return alone, said, nothing, [], nothing, [], not waits, ""
        choices = attention_choices.bar(data, view, path, first, pair)
        said = html.P(["Second: ", html.B(names(pair)[1]), *_copied(pair)])
        try:
            view_of_second = attention_map.map_view(data, pair.second, cells)
            second = attention_map.map_figure(pair.second, view_of_second, short=True)
            found = subtracted(data, pair, cells)
        except Pending as pending:
            return choices, said, empty_figure(as_markup(str(pending))), [], nothing, [], False, ""
        except WorkbenchError as error:
            return choices, said, empty_figure(as_markup(message_of(error))), [], nothing, [], True, ""
        return (
            choices, said, second, finding(pair, found), difference_figure(pair, found), moved_table(pair, found), True,
            attention_numbers.map_said(pair.second),
        )  # fmt: skip

    def patch(view: ViewState, changed: set[str], pixels: int | None) -> tuple[Any, ...] | None:
        if changed & _DRAWN:
            return None
        try:
            pair = pair_of(data, view)
        except WorkbenchError:
            return None
        outlined = Patch()
        outlined["layout"]["shapes"] = pinned_shapes(pair.first.row)
        choices = attention_choices.bar(data, view, path, pair.first, pair)
        return choices, no_update, outlined, no_update, outlined, *(no_update,) * 3

    follow(
        app,
        "attention-compare",
        [
            Output("compare-bar", "children"),
            Output("compare-said", "children"),
            Output("compare-map", "figure"),
            Output("compare-finding", "children"),
            Output("compare-difference", "figure"),
            Output("compare-table", "children"),
            Output("compare-tick", "disabled"),
            Output("compare-map-said", "children"),
        ],
        EVERYTHING,
        render,
        stamp=stamp,
        tick="compare-tick",
        also=Input("attention-pixels", "data"),
        patch=patch,
    )

    register_numbers(app, "compare-map", lambda view: attention_numbers.map_table(pair_of(data, view).second))

    for graph in ("compare-map", "compare-difference"):

        @app.callback(
            Output("url", "search", allow_duplicate=True),
            Input(graph, "relayoutData"),
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

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("compare-click", "data"),
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
            pair = pair_of(data, view)
            count = cells_for(pixels if type(pixels) is int else None)
            cells = attention_map.map_view(data, pair.second, count)
            row = attention_map.strongest_row(pair.second, cells, *cell)
        except (Pending, Recapturing):  # there is no map to click on yet
            raise PreventUpdate from None
        if row == view.row or row >= pair.first.n_tokens:
            raise PreventUpdate
        return view.change(row=row).query()

    app.clientside_callback(
        ClientsideFunction("compare", "single"),
        Output("compare-click", "data"),
        Input("compare-map", "clickData"),
        Input("compare-difference", "clickData"),
        prevent_initial_call=True,
    )


def cells_for(pixels: int | None) -> int:
    """Return how many cells a side the second map and the difference have, where they are pooled."""
    return min(attention_map.cells_for(pixels), _MOST_CELLS)


def second_subject(data: Data, first: Selection, view: ViewState) -> Selection | None:
    """Return the second subject, None while nothing is compared or where it cannot be shown: its panel says why."""
    try:
        return second_of(data, first, view) if view.beside is not None else None
    except WorkbenchError:
        return None


def waits(data: Data, view: ViewState) -> bool:
    """Whether the second subject is being run under other weights."""
    if view.beside is None:
        return False
    try:
        pair_of(data, view)
    except Recapturing:
        return True
    except WorkbenchError:
        return False
    return False


def difference_figure(pair: Pair, found: Difference) -> go.Figure:
    """Return the map of the first minus the second."""
    down, across = found.cell_size
    if max(down, across) == 1:
        what = "First − second, cell by cell"
    elif found.of_maxima:
        what = f"First − second of maxima, {down} × {across} tokens"
    else:
        what = f"First − second, most in {down} × {across} tokens"
    view = pair.first.view
    return difference_map(
        found,
        tokens_of(pair.first.string),
        title=f"{what}; colours to ±{reach_of(found):g}",
        scale=view.scale,
        pinned=pair.first.row,
        differing=pair.differing.tolist(),
    )


def finding(pair: Pair, found: Difference) -> list[Component]:
    """Return in words where the two differ most: the text alternative of the difference map."""
    said: list[Component] = []
    among, called = summarised(pair, found)
    rows = most_moved(pair, found, among)
    if found.moved is not None and rows:
        top, tokens = rows[0], pair.first.string.token_names
        here = [html.B(f"{found.moved[among].mean():.0%}"), f" of the attention of {called} lies on other keys"]
        if top.share < _ALIKE:
            said.append(html.P([*here, "; both attend alike."]))
        else:
            place = (
                f": the first looks at key {top.keys[0]} ({top.weights[0]:.2f}), the second at key {top.keys[1]} "
                f"({top.weights[1]:.2f})."
            )
            said.append(
                html.P([*here, f", most at query {top.query} ", token(tokens[top.query]), f" ({top.share:.0%})", place])
            )
    else:
        row, col = found.largest
        value = float(np.nan_to_num(found.values[row, col]))
        query, key = int(found.row_edges[row]), int(found.col_edges[col])
        side = "first" if value > 0 else "second"
        where = f"They differ most from query {query:,} and key {key:,} on: {abs(value):.2f} more in the {side}. "
        if abs(value) < _ALIKE:
            where = f"Both attend alike: no cell differs by {_ALIKE:g}. "
        honest = "Each cell is the difference of the two largest weights in it, which may stand in different places."
        said.append(html.P(where + honest))
    strings = strings_said(pair, marked=" (◆ along the axes)")
    return [*said, *([html.P(" ".join(strings), className="quiet")] if strings else [])]


def moved_table(pair: Pair, found: Difference) -> Component | list[Component]:
    """Return the queries whose attention differs most as a table, shown when asked for."""
    names_of = pair.first.string.token_names
    rows = [
        [
            f"{row.query:,}",
            token(names_of[row.query]),
            f"{row.share:.3f}",
            f"{row.keys[0]:,}",
            f"{row.weights[0]:.4f}",
            f"{row.keys[1]:,}",
            f"{row.weights[1]:.4f}",
        ]
        for row in most_moved(pair, found)
    ]
    if not rows:
        return []
    return as_table(_COLUMNS, rows, "Queries in sight whose attention differs most; elsewhere: share on other keys")


def _copied(pair: Pair) -> list[Any]:
    """Whether the second subject copies its string."""
    string = pair.second.string
    right = string.exact
    mark = html.Span("✓" if right else "✕", className=f"icon {'good' if right else 'bad'}", **{"aria-hidden": "true"})
    first = string.first_error
    wrong = "EOS wrong" if first == string.length else f"wrong from token {first}"
    return [" ", mark, "string copied" if right else wrong]
