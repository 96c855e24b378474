"""Two subjects on the Coordinates page: where both place the same tokens, in one figure."""

from typing import Any

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
from workbench.figures import TokenPath, both_paths


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
