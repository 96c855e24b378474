"""Heads: what every attention head of a run is, on which evidence, and what interventions say of it."""

from dataclasses import replace
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard.beside import second_view
from workbench.dashboard.data import Data
from workbench.dashboard.gate import gate_of
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages import (
    heads_choices,
    heads_compare,
    heads_compare_evidence,
    heads_compare_panes,
    heads_evidence,
    heads_panes,
)
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.heads_compare_table import compare_table
from workbench.dashboard.pages.heads_panes import PANES, Pane
from workbench.dashboard.pages.heads_parts import PATH
from workbench.dashboard.pages.heads_reports import Chosen, Reports
from workbench.dashboard.pages.heads_spaces import Spaces
from workbench.dashboard.pages.heads_strongest import Strings
from workbench.dashboard.pages.heads_table import heads_table
from workbench.dashboard.parts import message, panel, switch
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.regions import EVERYTHING, Told, follow, memory
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure

_CONFIG = {"displaylogo": False, "displayModeBar": False, "showTips": False}
_LOOK_AGAIN, _WHILE_WAITING = 4000, 1500  # milliseconds between looks for new reports, and for a space being made


def layout() -> Component:
    """Return the skeleton of the page."""
    graph = dcc.Graph(id="heads-graph", config=_CONFIG, className="graph", figure=empty_figure(""))
    drawn = html.Figure([html.Figcaption(id="heads-said"), graph, html.Div(id="heads-below")])
    pane = [
        html.Div([html.Div(id="heads-pane-bar"), heads_choices.choice("score", "Score")], className="toolbar pane-bar"),
        html.Div(drawn, id="heads-pane"),
    ]
    top = [heads_choices.choice("run", "Run"), heads_choices.choice("step", "Report")]
    return html.Div(
        [
            dcc.Interval(id="heads-tick", interval=_LOOK_AGAIN),
            *(memory(f"heads-{region}") for region in ("table", "evidence", "pane")),
            *heads_choices.choices(),
            panel(None, *top, html.Div(id="heads-about"), html.Div(id="heads-compare"), className="heads-top"),
            html.Section(id="heads-beside", className="panel heads-beside"),
            html.Section(id="heads-state", className="panel state"),
            html.Div(
                [
                    panel(None, html.Div(id="heads-table", className="scroll", tabIndex=0), className="heads-table"),
                    panel(None, *pane, className="heads-drawn"),
                    panel(None, html.Div(id="heads-evidence", className="scroll", tabIndex=0), className="heads-side"),
                ],
                className="heads-grid",
            ),
        ],
        id="heads-page",
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    reports, strings, spaces = Reports(data), Strings(data), Spaces(gate_of(app.server))
    heads_choices.register(app, data, reports)

    def stamp(view: ViewState) -> str:
        return heads_compare.stamp(reports, view)

    def render_table(view: ViewState) -> tuple[Any, ...]:
        try:
            chosen = reports.choose(view)
        except Exception as error:
            return [], [], message(error), "nothing", [], [], heads_compare.panel_class([])
        pair, strongest = heads_compare.compared(reports, chosen, view), strings.of(chosen, view)
        if pair is None or pair.one_report:
            listed = heads_table(chosen, view, strongest, pair.second.head if pair else None)
        else:
            listed = compare_table(pair, view, strongest)
        bar = heads_compare.bar(reports, chosen, view)
        begin = heads_compare.begin(chosen, view)
        return listed, about(chosen), [], "", begin, bar, heads_compare.panel_class(bar)

    def render_evidence(view: ViewState) -> tuple[Component]:
        try:
            chosen = reports.choose(view)
        except Exception as error:  # the page's state says what is wrong
            raise Told from error
        strongest = strings.of(chosen, view)[chosen.head.layer, chosen.head.head]
        pair = heads_compare.compared(reports, chosen, view)
        if pair is None:
            return (heads_evidence.evidence(data, chosen, view, strongest),)
        second = pair.second
        beside = strings.of(second, second_view(replace(view, run=chosen.run.id)))[second.head.layer, second.head.head]
        return (heads_compare_evidence.evidence_of_both(data, pair, view, (strongest, beside)),)

    def render_pane(view: ViewState) -> tuple[Any, ...]:
        bar, hidden = pane_bar(view), view.pane != "scores"
        try:
            chosen = reports.choose(view)
        except Exception:  # the page's state says what is wrong
            return bar, [], empty_figure(""), [], hidden, _LOOK_AGAIN
        try:
            pane = draw(reports, spaces, chosen, view)
        except Exception as error:
            return bar, message(error), empty_figure(""), [], hidden, _LOOK_AGAIN
        return bar, pane.said, pane.figure, pane.below, hidden, _WHILE_WAITING if pane.waits else _LOOK_AGAIN

    def pane_stamp(view: ViewState) -> str:
        known = stamp(view)
        if view.pane != "space":
            return known
        try:
            chosen = reports.choose(view)
            pair = heads_compare.compared(reports, chosen, view)
            contents, _ = heads_panes.space_contents(reports, chosen, view, pair)
        except WorkbenchError:
            return known
        return f"{spaces.ready(contents)} {known}"

    for region, outputs, render in (
        (
            "table",
            [
                Output("heads-table", "children"),
                Output("heads-about", "children"),
                Output("heads-state", "children"),
                Output("heads-page", "className"),
                Output("heads-compare", "children"),
                Output("heads-beside", "children"),
                Output("heads-beside", "className"),
            ],
            render_table,
        ),
        ("evidence", [Output("heads-evidence", "children")], render_evidence),
        (
            "pane",
            [
                Output("heads-pane-bar", "children"),
                Output("heads-said", "children"),
                Output("heads-graph", "figure"),
                Output("heads-below", "children"),
                Output("heads-score-field", "hidden"),
                Output("heads-tick", "interval"),
            ],
            render_pane,
        ),
    ):
        stamped = pane_stamp if region == "pane" else stamp
        follow(app, f"heads-{region}", outputs, EVERYTHING, render, stamp=stamped, tick="heads-tick")

    @app.callback(
        Output("heads-go", "data", allow_duplicate=True),
        Input("heads-graph", "clickData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def open_head(click: Any, query: Any) -> str:
        view, _ = ViewState.parse(query)
        if heads_panes.point_of(click) is None:
            raise PreventUpdate
        chosen = reports.choose(view)
        found = heads_panes.clicked_head(reports, spaces, chosen, view, click)
        if found is None:
            raise PreventUpdate
        view, layer, head = found
        chosen = reports.choose(view)
        return "/attention" + strings.of(chosen, view)[layer, head].view.query()

    app.clientside_callback(
        ClientsideFunction("workbench", "reveal"), Output("heads-table", "title"), Input("heads-table", "children")
    )


def draw(reports: Reports, spaces: Spaces, chosen: Chosen, view: ViewState) -> Pane:
    """Return the pane that a view shows: of one subject, or of two."""
    pair = heads_compare.compared(reports, chosen, view)
    if view.pane == "space":
        return heads_panes.space_pane(reports, spaces, chosen, view, pair)
    if pair is not None:
        return (
            heads_compare_panes.history(reports, pair) if view.pane == "history" else heads_compare_panes.scores(pair)
        )
    return heads_panes.history_pane(reports, chosen) if view.pane == "history" else heads_panes.score_pane(chosen)


def about(chosen: Chosen) -> Component:
    """Return what the report found, and on what."""
    content = chosen.content
    strings = sum(sample.strings for sample in content.strings)
    facts = f"{strings:,} strings, seed {content.about.seed}, {content.about.created[:10]}"
    notes = [html.P(note, className="note") for note in chosen.notes]
    return html.Div(
        [
            html.P(sentence(visible_text(content.finding)), className="finding", title=visible_text(content.finding)),
            html.P([visible_text(facts), " · ", "arrow keys walk through heads"], className="quiet"),
            *notes,
        ]
    )


def pane_bar(view: ViewState) -> Component:
    """Return the choice of what is drawn."""
    choices = [(text, PATH + view.change(pane=name).query(), view.pane == name) for name, text in PANES.items()]
    return switch("Drawn", choices, named=False)


HEADS = Page(
    name="heads",
    path=PATH,
    title="Heads",
    purpose="What is every attention head, how sure is that, and does the model depend on it?",
    layout=layout,
    register=register,
)
