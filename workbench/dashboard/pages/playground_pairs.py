"""The two subjects of the Playground: what can be shown of them, and what to call them where heads do not matter."""

from dataclasses import replace

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard import live_pairs
from workbench.dashboard.beside import Beside
from workbench.dashboard.compare_bar import compare_link
from workbench.dashboard.live_models import LiveModels, Loading
from workbench.dashboard.live_pairs import LivePair
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import message
from workbench.dashboard.state import ViewState


def pair_of(models: LiveModels, chosen: Chosen, view: ViewState) -> LivePair | None:
    """Return both subjects; None while nothing is compared, or where the second cannot be shown."""
    if view.beside is None:
        return None
    try:
        return LivePair(chosen, live_pairs.second_of(models, chosen, view))
    except WorkbenchError:  # the panel over the two says what is wrong
        return None


def start_link(models: LiveModels, chosen: Chosen, view: ViewState, path: str) -> Component:
    """Return the link into a comparison, or out of it: with an earlier step, which copies otherwise, else a head."""
    start = live_pairs.start(models, chosen, by_head=False)
    start = live_pairs.start(models, chosen) if start == Beside() else start
    return compare_link(view, path, start, "Another step, run, string or head")


def panel_of(models: LiveModels, chosen: Chosen, view: ViewState, path: str) -> list[Component]:
    """Return the panel over the two, with what the second waits for or lacks; none while nothing is compared."""
    if view.beside is None:
        return []
    wrong: list[Component] = []
    pair = None
    try:
        pair = LivePair(chosen, live_pairs.second_of(models, chosen, view))
    except Loading as loading:
        said = str(loading)
        wrong = [html.P(f"Second: {said} … The first is shown meanwhile.", role="status", className="quiet")]
    except WorkbenchError as error:
        wrong = [message(error)]
    return [live_pairs.live_bar(models, view, path, chosen, pair), *wrong]


def same_copy(pair: LivePair) -> bool:
    """Whether both are the same weights on the same string, so that only their heads can differ."""
    first, second = pair.first, pair.second
    return first.live.key == second.live.key and pair.same_string and first.fed == second.fed


def called_by_copy(pair: LivePair) -> tuple[str, str]:
    """Return what to call the subjects where no head is looked at: what of weights and string is not the same."""
    first = pair.first.view
    second = replace(pair.second, view=replace(pair.second.view, layer=first.layer, head=first.head))
    return live_pairs.names(LivePair(pair.first, second))
