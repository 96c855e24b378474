"""The panel over two subjects: what the second has instead of the first, and how to change, swap and leave it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from workbench.dashboard.beside import Beside
from workbench.dashboard.parts import link
from workbench.dashboard.state import ViewState

_MOST = 400  # entries of a list

Options = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Choice:
    """One thing that the second subject may have instead.

    Attributes:
        name: a field of `Beside`; "head" stands for layer and head.
        label: what it is called.
        options: (value, text) of each entry; None for text that is typed.
        value: what is chosen, "" for what the first subject has.
        same: what "" stands for.
    """

    name: str
    label: str
    options: Options | None
    value: str
    same: str


@dataclass(frozen=True)
class Bar:
    """What the panel says and offers.

    Attributes:
        called: names of both subjects, None where the second cannot be shown.
        choices: what the second may have instead.
        turned: the view with the subjects exchanged, None where there is none.
        notes: what of the second was replaced.
    """

    called: tuple[str, str] | None
    choices: Sequence[Choice]
    turned: ViewState | None = None
    notes: Sequence[str] = field(default=())


def compare_bar(bar: Bar, view: ViewState, path: str) -> Component:
    """Return the panel; `view` is the one that its links change, `path` the page's address."""
    called = bar.called
    said: list[Any] = ["Comparing"]
    if called is not None:
        said = ["First: ", html.B(called[0]), " · second: ", html.B(called[1])]
    links = [
        link("Close", path + view.change(beside=None).query(), className="button", title="Leave the comparison: c")
    ]
    if bar.turned is not None:
        swap = path + bar.turned.query()
        links.insert(0, link("Swap", swap, className="button", title="The second becomes the first"))
    fields = [_field(choice) for choice in bar.choices]
    return html.Div(
        [
            html.Div([html.P(said), html.Span(links, className="steps-links")], className="compare-head"),
            html.Div([html.Span("Second", className="switch-label"), *fields], className="compare-fields"),
            *(html.P(note, className="note") for note in bar.notes),
        ]
    )


def compare_link(view: ViewState, path: str, start: Beside, what: str) -> Component:
    """Return the link into a comparison, or out of it.

    Args:
        view: the view that it changes.
        path: the page's address.
        start: what the comparison begins with.
        what: what can be beside this, for its title: "Another head, step or run".
    """
    compared = view.beside is not None
    return link(
        "Compare",
        path + view.change(beside=None if compared else start).query(),
        className="button toggle",
        title="Leave the comparison: c" if compared else f"{what} beside this one: c",
        **{"aria-keyshortcuts": "c", **({"aria-current": "true"} if compared else {})},
    )


def _field(choice: Choice) -> Component:
    """A list or a field that assets/compare.js follows: it writes the choice into `beside` in the address."""
    named = {"id": f"beside-{choice.name}", "className": "is-other" if choice.value else ""}
    label = html.Label(choice.label, htmlFor=named["id"])
    if choice.options is None:
        typed = dcc.Input(
            value=choice.value, placeholder=choice.same, type="text", debounce=True, autoComplete="off", **named
        )
        return html.Div([label, typed])
    entries = [("", choice.same), *choice.options[:_MOST]]
    if choice.value not in [entry for entry, _ in entries]:
        entries.append((choice.value, choice.value))
    listed = [html.Option(text, value=entry, selected=entry == choice.value) for entry, text in entries]
    return html.Div([label, html.Select(listed, **named, **{"data-beside": choice.name})])
