"""What a page is."""

from collections.abc import Callable
from dataclasses import dataclass

from dash import Dash
from dash.development.base_component import Component

from workbench.dashboard.data import Data


@dataclass(frozen=True)
class Page:
    """One page of the dashboard.

    Attributes:
        name: one word, used in ids.
        path: its address, "/attention".
        title: its heading.
        purpose: the question it answers, in one sentence.
        layout: returns its skeleton; what depends on the view is filled in by callbacks.
        register: registers its callbacks on an app.
    """

    name: str
    path: str
    title: str
    purpose: str
    layout: Callable[[], Component]
    register: Callable[[Dash, Data], None]
