"""Two subjects on the Coordinates page: where both place the same tokens, in one figure."""

from html import escape as html_escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.coordinate_views import token_kinds
from workbench.dashboard import pickers
from workbench.dashboard.comparison import Pair, names, pair_of, second_of
from workbench.dashboard.data import Data
from workbench.dashboard.pages import attention_choices
from workbench.dashboard.parts import message, panel
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState
from workbench.figures import TokenPath, coordinate_path
from workbench.figures.style import KIND_STYLES
from workbench.figures.tokens import markup

_SECOND = "#7d7d7d"  # readable on white and on dark


def choices(data: Data, view: ViewState, path: str, first: Selection) -> list[Component]:
    """Return the panel that says what the second subject has instead; none while nothing is compared."""
    if view.beside is None:
        return []
    try:
        pair = Pair(first, second_of(data, first, view))
    except WorkbenchError:
        pair = None
    return [attention_choices.bar(data, view, path, first, pair)]


def waits(data: Data, view: ViewState, first: Selection) -> bool:
    """Whether the second subject is being run under other weights."""
    if view.beside is None:
        return False
    try:
        second_of(data, first, view)
    except Recapturing:
        return True
    except WorkbenchError:
        return False
    return False


def stamp(data: Data, view: ViewState) -> str:
    """Return what changes when the strings of a view are ready under the weights that they are looked at under."""
    if view.beside is None:
        return pickers.waiting(data, view)
    try:
        pair_of(data, view)
    except WorkbenchError as error:
        return str(error)
    return "ready"


def both(data: Data, view: ViewState, first: Selection, config: dict[str, Any]) -> list[Component]:
    """Return the figure of both paths, or why there is none; nothing while nothing is compared."""
    if view.beside is None:
        return []
    try:
        pair = Pair(first, second_of(data, first, view))
    except Recapturing as recapturing:
        return [panel(None, html.P(f"{recapturing} …", role="status"), className="wide-graph")]
    except WorkbenchError as error:
        return [panel(None, message(error), className="wide-graph")]
    paths = [path_of(pair.first), path_of(pair.second)]
    if paths[0] is None or paths[1] is None:
        said = "Both are needed to have rows and columns; a scheme that places tokens on a line has none to compare."
        return [panel(None, html.P(said, className="quiet"), className="wide-graph")]
    figure = both_paths(paths[0], paths[1], names(pair))
    graph = dcc.Graph(id="coordinates-both", figure=figure, config=config, className="graph")
    caption = html.Figcaption(figure.layout.title.text, className="unseen")
    return [panel(None, html.Figure([caption, graph]), className="wide-graph")]


def path_of(chosen: Selection) -> TokenPath | None:
    """Return where the chosen layer places the tokens; None where it has no rows."""
    coords = chosen.string.coords(chosen.view.layer)
    if coords is None or coords.shape[1] != 2:
        return None
    return TokenPath(chosen.string.token_names, token_kinds(chosen.string), coords[:, 0], coords[:, 1])


def both_paths(first: TokenPath, second: TokenPath, called: tuple[str, str]) -> go.Figure:
    """Draw two paths in one figure: the first as everywhere, the second dashed, its tokens as small crosses."""
    names_of = [html_escape(name) for name in called]
    common = min(len(first.names), len(second.names))
    apart = [
        float(np.abs(np.asarray(one)[:common] - np.asarray(other)[:common]).max())
        for one, other in ((first.columns, second.columns), (first.rows, second.rows))
    ]
    title = f"Up to {apart[0]:.1f} columns and {apart[1]:.1f} rows apart: {names_of[0]}, dashed {names_of[1]}"
    figure = coordinate_path(first, title=title, column_name="column (tokens)", row_name="row", beside=second)
    drawn = second.drawn(second.columns, second.rows)
    kinds = np.asarray(second.kinds)[drawn]
    figure.add_trace(
        go.Scatter(
            x=second.columns[drawn],
            y=second.rows[drawn],
            mode="lines+markers",
            line={"color": _SECOND, "width": 1, "dash": "dash"},
            marker={"symbol": "x-thin", "size": 5, "color": _SECOND, "line": {"width": 1.2, "color": _SECOND}},
            name=names_of[1],
            hovertext=[
                f"{markup(second.names[i])}, {KIND_STYLES[kind].label}" for i, kind in zip(drawn, kinds, strict=True)
            ],
            customdata=drawn,
            hovertemplate="token %{customdata} <b>%{hovertext}</b><br>column %{x:.2f}, row %{y:.2f}<extra>second"
            "</extra>",
        )
    )
    return figure
