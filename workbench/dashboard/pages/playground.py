"""Playground: a string of one's own, how a model copies it, and where its heads look while it does."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from workbench.dashboard.data import Data
from workbench.dashboard.live_models import LiveModels, live_models
from workbench.dashboard.numbers import numbers_of, register_numbers
from workbench.dashboard.pages import playground_choices, playground_compare, playground_row
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.playground_copies import copies, copy_of, modes
from workbench.dashboard.pages.playground_pairs import pair_of, panel_of, start_link
from workbench.dashboard.pages.playground_places import places, places_table
from workbench.dashboard.pages.playground_row import Query, default_row
from workbench.dashboard.pages.playground_strings import OF_STRINGS, Chosen, choose, follow_live
from workbench.dashboard.parts import panel, switch
from workbench.dashboard.regions import EVERYTHING, memory
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure

PATH = "/playground"
_CONFIG = {"displaylogo": False, "displayModeBar": False, "showTips": False}
_ROW_CONFIG = {**_CONFIG, "doubleClick": "autosize"}  # which shows all keys again
_PINNED = -1  # what the browser says while no token is pointed at
_MODES = (("both", "Both"), ("forced", "Teacher-forced"), ("free", "Free-running"))


def layout() -> Component:
    """Return the skeleton of the page."""
    drawn = [
        html.P(id="playground-finding"),
        html.Div(dcc.Graph(id="playground-row", config=_ROW_CONFIG, className="graph", figure=empty_figure("")),
                 id="playground-row-figure", className="row-figure", role="img"),
        html.Div(id="playground-keys"),
    ]  # fmt: skip
    return html.Div(
        [
            *(memory(f"playground-{region}") for region in ("bar", "copy", "query", "coordinates")),
            dcc.Store(id="playground-at", data=_PINNED),
            playground_choices.columns(
                "playground",
                panel(None, id="playground-beside", className="beside-panel"),
                panel(
                    None,
                    html.Div(id="playground-bar", className="toolbar"),
                    html.Div(id="playground-verdicts"),
                    html.Div(id="playground-copy", className="copy-area"),
                    className="copy-panel",
                ),
                panel(None, html.Div(id="playground-row-bar", className="toolbar"), *drawn, className="query-panel"),
                panel(
                    None,
                    html.Figure(
                        [
                            html.Figcaption(id="playground-places-said", className="unseen"),
                            html.P(id="playground-places-note", className="places-note quiet"),
                            dcc.Graph(
                                id="playground-places", config=_CONFIG, className="graph", figure=empty_figure("")
                            ),
                            numbers_of("playground-places"),
                        ]
                    ),
                    className="places-panel",
                ),
            ),
        ]
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    models = live_models(app, data)
    playground_choices.register(app, models, "playground", PATH)
    follow_live(
        app,
        models,
        "playground",
        "bar",
        [Output("playground-bar", "children"), Output("playground-beside", "children")],
        EVERYTHING,
        lambda chosen, view: (toolbar(models, chosen, view), panel_of(models, chosen, view, PATH)),
    )
    follow_live(
        app,
        models,
        "playground",
        "copy",
        [Output("playground-verdicts", "children"), Output("playground-copy", "children")],
        (*OF_STRINGS, "mode", "fed", "beside"),
        lambda chosen, view: copies(models, chosen, pair_of(models, chosen, view), PATH),
    )

    def render_query(chosen: Chosen, view: ViewState, at: int) -> tuple[Any, ...]:
        query, notes = query_at(models, chosen, at)
        pair = pair_of(models, chosen, view)
        if pair is not None:
            return playground_compare.row(models, pair, query, view, PATH, notes)
        bar = playground_row.bar(query, view, PATH, notes)
        said = playground_row.finding(query)
        return bar, said, playground_row.figure(query), said, playground_row.keys_table(query)

    follow_live(
        app,
        models,
        "playground",
        "query",
        [
            Output("playground-row-bar", "children"),
            Output("playground-finding", "children"),
            Output("playground-row", "figure"),
            Output("playground-row-figure", "aria-label"),
            Output("playground-keys", "children"),
        ],
        EVERYTHING,
        render_query,
        also=Input("playground-at", "data"),
    )
    follow_live(
        app,
        models,
        "playground",
        "coordinates",
        [
            Output("playground-places", "figure"),
            Output("playground-places-said", "children"),
            Output("playground-places-note", "children"),
        ],
        (*OF_STRINGS, "mode", "layer", "fed", "beside"),
        lambda chosen, view: places(models, chosen, pair_of(models, chosen, view)),
    )

    def table_of_places(view: ViewState) -> Component:
        chosen = choose(models, view)
        return places_table(models, chosen, pair_of(models, chosen, view))

    register_numbers(app, "playground-places", table_of_places)
    app.clientside_callback(
        ClientsideFunction("live", "mark"),
        Output("playground-row-bar", "title"),
        Input("playground-row-bar", "children"),
        Input("playground-copy", "children"),
    )
    app.clientside_callback(
        ClientsideFunction("live", "zoomed"),
        Output("playground-row-figure", "title"),
        Input("playground-row", "relayoutData"),
        prevent_initial_call=True,
    )


def toolbar(models: LiveModels, chosen: Chosen, view: ViewState) -> Component:
    """Return what is copied, the choice of copy, and the way into a comparison."""
    labelled = [(label, PATH + view.change(mode=mode).query(), view.mode == mode) for mode, label in _MODES]
    notes = [html.P(note, className="note") for note in chosen.notes]
    told = html.Span(["Copies ", html.B(chosen.words)], className="copied-words")
    compare = start_link(models, chosen, view, PATH)
    return html.Div([html.Div([switch("Copy", labelled, named=False), compare, told], className="controls"), *notes])


def query_at(models: LiveModels, chosen: Chosen, at: int) -> tuple[Query, tuple[str, ...]]:
    """Return the query that is pointed at, else the pinned one, else the first error; and what was replaced."""
    shown = modes(chosen.view)
    pointed = at >= 0 and bool(at % 2) in shown
    free = bool(at % 2) if pointed else shown[0]
    decoded = copy_of(models, chosen, free)
    row = at // 2 if pointed else chosen.view.row
    if row is None:
        return Query(chosen, decoded, default_row(decoded)), ()
    if row <= decoded.last_row:
        return Query(chosen, decoded, row), ()
    note = f"The copy has no query {row:,}; showing its last one."
    return Query(chosen, decoded, decoded.last_row), () if pointed else (note,)


PLAYGROUND = Page(
    name="playground",
    path=PATH,
    title="Playground",
    purpose="How does this model copy a string of my own, token by token, and where does it look while it does?",
    layout=layout,
    register=register,
)
