"""The numbers of a figure as a table, made when somebody opens it: until then it costs no request and no place.

The browser (assets/numbers.js) asks when the table is opened, and again whenever its figure is drawn anew.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from workbench.dashboard.parts import message, table
from workbench.dashboard.state import ViewState

MOST_ROWS = 200
_ATTRIBUTES = {"className": "class", "tabIndex": "tabindex", "colSpan": "colspan"}  # as HTML calls them


def numbers_of(name: str) -> Component:
    """Return the closed table of a figure; `name` is the prefix of its ids, see `register_numbers`."""
    held = html.Div(id=f"{name}-numbers", className="scroll", tabIndex=0, role="group", **{"aria-label": "Numbers"})
    asked = dcc.Store(id=f"{name}-opened")
    return html.Details(
        [html.Summary("Show as table"), held, asked], className="figure-numbers", **{"data-numbers": f"{name}-opened"}
    )


def register_numbers(app: Dash, name: str, render: Callable[[ViewState], Any]) -> None:
    """Register what fills the table of `numbers_of(name)`: `render` returns it for a view."""

    @app.callback(
        Output(f"{name}-numbers", "children"),
        Input(f"{name}-opened", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def fill(opened: Any, query: Any) -> Any:
        if type(opened) is not int:  # nobody has opened it
            raise PreventUpdate
        view, _ = ViewState.parse(query)
        try:
            return plain(render(view))
        except Exception as error:
            return message(error)


def plain(shown: Component) -> Component:
    """Return one component that assets/numbers.js fills with the elements of `shown`, which have no callbacks.

    Dash asks every component of a page at every change whether it concerns it: a table of a thousand cells made all
    that followed, the next table included, wait for seconds.
    """
    return html.Div(className="plain", **{"data-plain": written(shown)})


def place(name: str) -> Component:
    """Return an empty place whose property "data-plain" is set to `written(shown)`.

    What Dash sets as children it makes anew each time. Here the elements that stay are kept, and with them focus,
    scrolling and pictures.
    """
    return html.Div(id=name, className="plain", **{"data-plain": ""})


def written(shown: Any) -> str:
    """Return elements, or a list of them, as `place` takes them."""
    return json.dumps(_element(shown), ensure_ascii=False, separators=(",", ":"))


def _element(shown: Any) -> Any:
    """Return text, a list of parts, or [tag, attributes, children] of an element."""
    if isinstance(shown, list | tuple):
        return [_element(part) for part in shown]
    if not isinstance(shown, Component):
        return "" if shown is None else str(shown)
    told = shown.to_plotly_json()
    props = {_ATTRIBUTES.get(name, name): value for name, value in told["props"].items() if name != "children"}
    if "style" in props:
        props["style"] = ";".join(f"{_css_name(name)}:{value}" for name, value in props["style"].items())
    children = _element(told["props"].get("children"))
    tag = told["type"].lower()
    if tag == "button":
        props.pop("type", None)
    return [tag, props, children]


def _css_name(name: str) -> str:
    """Return a style's name as CSS has it, grid-template-columns; a variable, --p, has its own name."""
    return name if name.startswith("--") else re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name)


def at_most(count: int, rows: int = MOST_ROWS) -> np.ndarray:
    """Return Int[<= rows] indices of `count` rows, evenly spread with both ends, where there are too many to list."""
    return np.unique(np.linspace(0, count - 1, min(count, rows)).round().astype(int)) if count else np.zeros(0, int)


def listed(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], caption: str, *, of: int, rest: str
) -> Component:
    """Return a table of figures, and below it where the rest is when it lists only some of `of` rows.

    Args:
        columns: heading and class of each, see `parts.table`.
        rows: the cells.
        caption: what is listed.
        of: how many rows there are in all.
        rest: how to get all of them.
    """
    if not rows:
        return html.P("There is nothing drawn yet.", className="quiet")
    short = [html.P(f"{len(rows):,} of {of:,} rows. {rest}", className="quiet")] if len(rows) < of else []
    return html.Div([table(columns, rows, caption), *short])
