"""Regions: parts of a page that follow the view in the address, each redrawn only when something it shows changed."""

import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields as fields_of
from html import escape
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from workbench.dashboard.guard import message_of
from workbench.dashboard.numbers import written
from workbench.dashboard.parts import message
from workbench.dashboard.state import ViewState, require_known
from workbench.figures import empty_figure

ADDRESS = Input("url", "search")
# What a region with links depends on: they carry the whole view.
EVERYTHING = tuple(f.name for f in fields_of(ViewState))


class Told(Exception):
    """Another region shows what is wrong; this one stays empty."""


def memory(region: str, *, quiet: bool = False) -> Component:
    """Return the invisible component that remembers what a region shows; the page's layout must hold it.

    Args:
        region: its name.
        quiet: as `follow` is told.
    """
    shows = dcc.Store(id=f"{region}-shows")
    return html.Div([shows, dcc.Store(id=f"{region}-asked")], hidden=True) if quiet else shows


def follow(
    app: Dash,
    region: str,
    outputs: Sequence[Output],
    fields: tuple[str, ...],
    render: Callable[..., Sequence[Any]],
    *,
    stamp: Callable[[ViewState], str] | None = None,
    tick: str | Sequence[str] = (),
    also: Input | None = None,
    patch: Callable[..., Sequence[Any] | None] | None = None,
    quiet: bool = False,
) -> None:
    """Keep `outputs` equal to `render(view)`.

    Args:
        app: where the callback is registered.
        region: a name; `memory(region)` must be in the layout.
        outputs: what is redrawn.
        fields: the fields of the view that `render` reads. A change of any other redraws nothing.
        render: returns a value an output. An error it raises is shown where its result would be.
        stamp: what else decides the result (state of files); a changed stamp redraws.
        tick: id of a dcc.Interval at which the stamp is looked at again, or of several.
        also: a whole number that the browser measured, or None; `render` gets it as its second argument.
        patch: given the view, which fields changed and what `also` measured, a cheaper update, or None where everything
            must be redrawn.
        quiet: the browser asks only when one of `fields` changes in the address, or at a tick: for regions that most
            changes leave as they are. `memory` must be told the same.
    """
    require_known(fields)
    more = [Input(name, "n_intervals") for name in ((tick,) if isinstance(tick, str) else tick)]
    more += [also] if also else []
    told = Input(f"{region}-asked", "data") if quiet else ADDRESS
    states = [*([State("url", "search")] if quiet else []), State(f"{region}-shows", "data")]
    if quiet:
        app.clientside_callback(
            f"(search, asked) => dash_clientside.workbench.part(search, asked, {json.dumps(fields)})",
            Output(f"{region}-asked", "data"),
            ADDRESS,
            State(f"{region}-asked", "data"),
        )

    @app.callback(*outputs, Output(f"{region}-shows", "data"), told, *more, *states)
    def update(first: Any, *values: Any) -> tuple[Any, ...]:
        view, _ = ViewState.parse(values[-2] if quiet else first)
        before = values[-1] if isinstance(values[-1], dict) else {}
        pixels = values[len(more) - 1] if also else None
        measured = [pixels if type(pixels) is int else None] if also else []
        now = {"view": view.query(fields), "stamp": stamp(view) if stamp else "", "measured": measured}
        if before == now:
            raise PreventUpdate
        same = all(before.get(part) == now[part] for part in ("stamp", "measured"))
        if patch and same and not before.get("failed"):
            shown, _ = ViewState.parse(before.get("view"))
            changed = {name for name in fields if getattr(shown, name) != getattr(view, name)}
            patched = patch(view, changed, *measured)
            if patched is not None:
                return (*patched, now)
        try:
            return (*render(view, *measured), now)
        except PreventUpdate:
            raise
        except Exception as error:
            return (*_explained(error, outputs), {**now, "failed": True})


def _explained(error: Exception, outputs: Sequence[Output]) -> list[Any]:
    """Return, for the first output that can show text, what went wrong, and leave the others empty."""
    values: list[Any] = []
    told = isinstance(error, Told)
    for output in outputs:
        if output.component_property == "children":
            values.append([] if told else message(error))
            told = True
        elif output.component_property == "data-plain":
            values.append(written([] if told else message(error)))
            told = True
        elif output.component_property == "figure":
            values.append(empty_figure("") if told else empty_figure(as_markup(message_of(error))))
            told = True
        else:
            values.append(no_update)
    return values


def as_markup(text: str) -> str:
    """Return a message as plotly text: escaped, broken into lines."""
    return "<br>".join(escape(line) for line in textwrap.wrap(text, 70))
