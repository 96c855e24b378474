"""Heads: what every attention head of a run is, on which evidence, and what interventions say of it."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.gate import gate_of
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages import heads_choices, heads_evidence, heads_panes
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.heads_panes import PANES
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
            panel(None, *top, html.Div(id="heads-about"), className="heads-top"),
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

    def render_table(view: ViewState) -> tuple[Any, ...]:
        try:
            chosen = reports.choose(view)
        except Exception as error:
            return [], [], message(error), "nothing"
        return heads_table(chosen, view, strings.of(chosen, view)), about(chosen), [], ""

    def render_evidence(view: ViewState) -> tuple[Component]:
        try:
            chosen = reports.choose(view)
        except Exception as error:  # the page's state says what is wrong
            raise Told from error
        strongest = strings.of(chosen, view)[chosen.head.layer, chosen.head.head]
        return (heads_evidence.evidence(data, chosen, view, strongest),)

    def render_pane(view: ViewState) -> tuple[Any, ...]:
        bar, hidden = pane_bar(view), view.pane != "scores"
        try:
            chosen = reports.choose(view)
        except Exception:  # the page's state says what is wrong
            return bar, [], empty_figure(""), [], hidden, _LOOK_AGAIN
        try:
            pane = heads_panes.draw(reports, spaces, chosen, view)
        except Exception as error:
            return bar, message(error), empty_figure(""), [], hidden, _LOOK_AGAIN
        return bar, pane.said, pane.figure, pane.below, hidden, _WHILE_WAITING if pane.waits else _LOOK_AGAIN

    def pane_stamp(view: ViewState) -> str:
        if view.pane != "space":
            return reports.stamp(view)
        try:
            contents, _ = heads_panes.space_contents(reports, reports.choose(view), view)
        except WorkbenchError:
            return reports.stamp(view)
        return f"{spaces.ready(contents)} {reports.stamp(view)}"

    for region, outputs, render in (
        (
            "table",
            [
                Output("heads-table", "children"),
                Output("heads-about", "children"),
                Output("heads-state", "children"),
                Output("heads-page", "className"),
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
        stamp = pane_stamp if region == "pane" else reports.stamp
        follow(app, f"heads-{region}", outputs, EVERYTHING, render, stamp=stamp, tick="heads-tick")

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
        run_id, layer, head = found
        if run_id != chosen.run.id:
            view = view.change(run=run_id)
            chosen = reports.choose(view)
        return "/attention" + strings.of(chosen, view)[layer, head].view.query()

    app.clientside_callback(
        ClientsideFunction("workbench", "reveal"), Output("heads-table", "title"), Input("heads-table", "children")
    )


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
