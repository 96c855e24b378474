"""Coordinates: where a layer's positional scheme puts the tokens, and what it learned to do so."""

from typing import Any

from dash import Dash, Output, dcc, html, no_update
from dash.development.base_component import Component

from workbench.coordinate_views import LINE, OVER, PLACED, RULE, STEPS, coordinate_figures
from workbench.dashboard import pickers, weights_bar
from workbench.dashboard.data import Data
from workbench.dashboard.pages import coordinates_compare
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.coordinates_numbers import numbers
from workbench.dashboard.parts import panel, switch
from workbench.dashboard.regions import EVERYTHING, follow, memory
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState
from workbench.figures import scheme_style

PATH = "/coordinates"
_STRING = ("run", "of", "capture", "string", "checkpoint")
_CONFIG = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "showTips": False,
    "modeBarButtons": [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
}


def layout() -> Component:
    """Return the skeleton of the page."""
    return html.Div(
        [
            memory("coordinates-layers"),
            memory("coordinates-figures"),
            memory("coordinates-numbers"),
            pickers.columns(
                "coordinates",
                html.Div(
                    [
                        panel(
                            None,
                            html.Div(id="coordinates-layers", className="toolbar"),
                            html.Div(id="coordinates-second"),
                            className="bar-panel",
                        ),
                        html.Div(id="coordinates-figures", className="figures"),
                        html.Div(id="coordinates-numbers", className="figures"),
                    ],
                    className="wide",
                ),
            ),
        ]
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    pickers.register(app, data, "coordinates", PATH)
    waits = pickers.tick_of("coordinates")

    def render_layers(view: ViewState) -> tuple[Any, Any, Any, bool]:
        weights, ready = weights_bar.weights_bar(data, view, PATH)
        if not ready:  # what is shown stays until the string is ready
            return no_update, weights, no_update, False
        chosen = pickers.selected(data, view)
        second = coordinates_compare.choices(data, view, PATH, chosen)
        return layer_bar(chosen, view), weights, second, not coordinates_compare.waits(data, view, chosen)

    def render_figures(view: ViewState) -> tuple[Component]:
        chosen = pickers.selected(data, view)
        compared = coordinates_compare.both(data, view, chosen, _CONFIG)
        return (
            (html.Div([*compared, figures(chosen)], className="compared-figures"),) if compared else (figures(chosen),)
        )

    follow(
        app,
        "coordinates-layers",
        [
            Output("coordinates-layers", "children"),
            Output("coordinates-weights", "children"),
            Output("coordinates-second", "children"),
            pickers.ready_of("coordinates"),
        ],
        EVERYTHING,
        render_layers,
        stamp=lambda view: coordinates_compare.stamp(data, view),
        tick=waits,
    )
    follow(
        app,
        "coordinates-figures",
        [Output("coordinates-figures", "children")],
        (*_STRING, "layer", "beside"),
        render_figures,
        stamp=lambda view: coordinates_compare.stamp(data, view),
        tick=waits,
    )
    follow(
        app,
        "coordinates-numbers",
        [Output("coordinates-numbers", "children")],
        (*_STRING, "layer"),
        lambda view: (numbers(pickers.selected(data, view)),),
        tick=waits,
    )


def layer_bar(chosen: Selection, view: ViewState) -> Component:
    """Return the choice of layer, each with its scheme, and what the chosen one does with positions."""
    rules = chosen.capture.rules
    choices = [
        (
            f"{layer} · {scheme_style(rule.scheme).label}",
            PATH + view.change(layer=layer).query(),
            layer == chosen.view.layer,
        )
        for layer, rule in enumerate(rules)
    ]
    notes = [html.P(note, className="note") for note in chosen.notes]
    return html.Div([switch("Layer", choices), html.P(explain(chosen), className="explain"), *notes])


def explain(chosen: Selection) -> str:
    """Return in a sentence or two how the chosen layer gets its coordinates."""
    layer = chosen.view.layer
    name = scheme_style(chosen.scheme).label
    coords = chosen.string.coords(layer)
    if chosen.string.steps(layer) is not None:
        return (
            f"{name} learns a gate u and a step v for every token: column p1 becomes u · p1 + v and row p2 becomes "
            "p2 + 1 − u, each token standing where the tokens before it have led. u = v = 1 means “next column”, "
            "u = v = 0 “new row”."
        )
    if coords is None:
        added = chosen.capture.about.get("embedding_scheme")
        if added:
            where = scheme_style(str(added)).label
            return f"Attention itself sees no positions here: {where} is added to the embedding, by token index."
        return f"{name} gives tokens no coordinates: attention sees only their order, through the causal mask."
    if coords.shape[1] == 2 and not coords[:, 0].any():
        return f"{name} takes row and column from the line breaks. This string has none, so all tokens stand in row 0."
    if coords.shape[1] == 2:
        return (
            f"{name} takes row and column from the line breaks: what follows one starts a new row at column 0. "
            "Nothing is learned."
        )
    return f"{name} places tokens on a line by their index. There are no rows, and nothing is learned."


def figures(chosen: Selection) -> Component:
    """Return the figures that fit the scheme of the chosen layer."""
    separator = str(chosen.capture.about.get("separator", "\n"))
    drawn = coordinate_figures(chosen.string, chosen.view.layer, separator)
    wide = {LINE} if LINE in drawn else {PLACED, OVER} if RULE not in drawn else set() if STEPS in drawn else {OVER}
    graphs = [_graph(name, figure, "wide-graph" if name in wide else "") for name, figure in drawn.items()]
    return html.Div(graphs, className="grid-1" if LINE in drawn else "grid-2")


def _graph(name: str, figure: Any, extra: str = "") -> Component:
    graph = dcc.Graph(id=f"coordinates-{name}", figure=figure, config=_CONFIG, className="graph")
    # The title says what is seen; the numbers of all figures are in one table below them.
    said = html.Figcaption(figure.layout.title.text, className="unseen")
    return panel(None, html.Figure([said, graph]), className=extra)


COORDINATES = Page(
    name="coordinates",
    path=PATH,
    title="Coordinates",
    purpose="Where does each layer place the tokens, and does a learned placement start a new row at the copy?",
    layout=layout,
    register=register,
)
