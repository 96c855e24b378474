"""Two subjects on the Coordinates page: where both place the same tokens, in one figure."""

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.coordinate_views import token_kinds
from workbench.dashboard import pickers
from workbench.dashboard.comparison import Pair, names, pair_of, second_of, strings_said
from workbench.dashboard.data import Data
from workbench.dashboard.guard import sentence
from workbench.dashboard.numbers import at_most, plain
from workbench.dashboard.pages import attention_choices
from workbench.dashboard.pages.heads_parts import as_table
from workbench.dashboard.parts import message, panel, token
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState
from workbench.figures import TokenPath, both_paths, path_difference, scheme_style
from workbench.figures.numbers import signed

_COLUMNS = (
    ("Token", "number"), ("", ""), ("First: column", "number"), ("Row", "number"), ("Second: column", "number"),
    ("Row", "number"), ("Difference: column", "number"), ("Row", "number"),
)  # fmt: skip


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
        return [panel(None, html.P(f"{sentence(str(recapturing))[:-1]} …", role="status"), className="wide-graph")]
    except WorkbenchError as error:
        return [panel(None, message(error), className="wide-graph")]
    paths = [path_of(pair.first), path_of(pair.second)]
    below = html.P("Below stands the first alone; Swap shows the second there.", className="quiet")
    if paths[0] is None or paths[1] is None:
        lacking = [
            f"{scheme_style(chosen.scheme).label}, the {side},"
            for side, chosen, path in zip(("first", "second"), (pair.first, pair.second), paths, strict=True)
            if path is None
        ]
        said = (
            f"Only rows and columns can be compared: {' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} "
        )
        return [panel(None, html.P(f"{said}none.", className="quiet"), className="wide-graph"), below]
    drawn = {
        "coordinates-both": both_paths(paths[0], paths[1], names(pair)),
        "coordinates-minus": path_difference(paths[0], paths[1]),
    }
    strings = strings_said(pair)
    more = {
        "coordinates-both": [html.P(" ".join(strings), className="quiet")] if strings else [],
        "coordinates-minus": [placements_table(pair, paths[0], paths[1])],
    }
    panels = []
    for name, figure in drawn.items():
        graph = dcc.Graph(id=name, figure=figure, config=config, className="graph")
        caption = html.Figcaption(figure.layout.title.text, className="unseen")
        panels.append(panel(None, html.Figure([caption, graph, *more[name]]), className="wide-graph"))
    return [*panels, below]


def placements_table(pair: Pair, first: TokenPath, second: TokenPath) -> Component:
    """Return where both place the tokens that both strings have, and the difference, shown when asked for."""
    rows = []
    for at in at_most(pair.length).tolist():
        tokens = [
            token(first.names[at]),
            *([" / ", token(second.names[at])] if first.names[at] != second.names[at] else []),
        ]
        ours, theirs = ((float(path.columns[at]), float(path.rows[at])) for path in (first, second))
        minus = [signed(one - other, 3) for one, other in zip(ours, theirs, strict=True)]
        rows.append([f"{at:,}", tokens, *(f"{value:.3f}" for value in (*ours, *theirs)), *minus])
    shown = "" if len(rows) == pair.length else f" ({len(rows)} of {pair.length:,}, evenly spread)"
    return plain(as_table(_COLUMNS, rows, f"Column and row of tokens under both{shown}"))


def path_of(chosen: Selection) -> TokenPath | None:
    """Return where the chosen layer places the tokens; None where it has no rows."""
    coords = chosen.string.coords(chosen.view.layer)
    if coords is None or coords.shape[1] != 2:
        return None
    return TokenPath(chosen.string.token_names, token_kinds(chosen.string), coords[:, 0], coords[:, 1])
