"""Choosing run, capture and string: the left column of every page that looks at one captured string."""

from collections.abc import Sequence
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.attention import Capture
from models.errors import WorkbenchError
from workbench.dashboard import compare_bar, comparison
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.numbers import place, written
from workbench.dashboard.parts import link, message, panel
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.regions import EVERYTHING, Told, follow, memory
from workbench.dashboard.selection import Selection, choose_capture, choose_owner, choose_run, failed_first, select
from workbench.dashboard.state import ViewState
from workbench.figures.tokens import visible

_LISTED = 200  # strings of a capture that are listed
_LOOK_AGAIN = 300  # milliseconds, while a string is run under other weights
_NAMED = ("run", "of", "capture", "string", "checkpoint")  # what decides whether there is something to show


def pickers(page: str, *more: Component) -> list[Component]:
    """Return the controls, and `more` below them; `page` is the prefix of their ids."""
    return [
        memory(f"{page}-choices", quiet=True),
        memory(f"{page}-strings"),
        dcc.Store(id=f"{page}-set"),
        dcc.Store(id=f"{page}-go"),
        _labelled("Run", dcc.Dropdown(id=f"{page}-run", clearable=False, placeholder="no run"), f"{page}-run"),
        _labelled(
            "Capture", dcc.Dropdown(id=f"{page}-capture", clearable=False, placeholder="none"), f"{page}-capture"
        ),
        html.Div(id=f"{page}-weights", className="weights-area"),
        html.Div(place(f"{page}-strings-list"), className="strings-area"),
        *more,
    ]


def register(app: Dash, data: Data, page: str, path: str) -> None:
    """Register the pickers of a page on `app`."""
    waits = tick_of(page)

    def render_choices(view: ViewState) -> tuple[Any, ...]:
        rows = [row for row in data.runs() if row.readable]
        try:
            chosen = choose_run(data, view)
            owner = choose_owner(data, chosen, view)
            capture = choose_capture(data, owner, view)
        except WorkbenchError:  # the other regions say what is wrong
            return run_options(rows), view.run, [], None, {"run": view.run, "capture": None}
        options = capture_options(data, owner)
        return run_options(rows), chosen.id, options, capture, {"run": chosen.id, "capture": capture}

    follow(
        app,
        f"{page}-choices",
        [
            Output(f"{page}-run", "options"),
            Output(f"{page}-run", "value"),
            Output(f"{page}-capture", "options"),
            Output(f"{page}-capture", "value"),
            Output(f"{page}-set", "data"),
        ],
        ("run", "of", "capture"),
        render_choices,
        quiet=True,
    )

    # What the server set and what a person chose both arrive as a new value: they differ by what `-set` remembers.
    # The way back to the address goes through assets/workbench.js, since Dash allows no circle of callbacks.
    @app.callback(
        Output(f"{page}-go", "data"),
        Input(f"{page}-run", "value"),
        Input(f"{page}-capture", "value"),
        State(f"{page}-set", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(run: Any, capture: Any, was: Any, query: Any) -> str:
        view, _ = ViewState.parse(query)
        was = was if isinstance(was, dict) else {}
        if isinstance(run, str) and run != was.get("run"):
            return path + view.change(run=run).query()
        if isinstance(capture, str) and capture != was.get("capture"):
            return path + view.change(run=was.get("run") or view.run).change(capture=capture).query()
        raise PreventUpdate

    app.clientside_callback(
        ClientsideFunction("workbench", "go"), Output(f"{page}-go", "id"), Input(f"{page}-go", "data")
    )

    def render_strings(view: ViewState) -> tuple[str]:
        chosen = selected(data, view)
        compare = compare_link(data, chosen, view, path, by_head=page == "attention")
        return (written(string_list(chosen.listed, chosen.view.string, view, path, compare)),)

    def render_state(view: ViewState) -> tuple[Any, str]:
        try:
            select(data, view)
        except Recapturing:
            return [], "columns"
        except Exception as error:
            return message(error), "columns nothing"
        return [], "columns"

    follow(
        app,
        f"{page}-state",
        [Output(f"{page}-state", "children"), Output(f"{page}-columns", "className")],
        _NAMED,
        render_state,
        stamp=lambda view: waiting(data, view),
        tick=waits,
        quiet=True,
    )

    follow(
        app, f"{page}-strings", [Output(f"{page}-strings-list", "data-plain")], EVERYTHING, render_strings, tick=waits
    )
    app.clientside_callback(
        ClientsideFunction("workbench", "rest"),
        Output(waits, "disabled"),
        Input(f"{page}-ready", "data"),
        Input(waits, "n_intervals"),
        prevent_initial_call=True,
    )


def ready_of(page: str) -> Output:
    """Return what a page tells whether there is nothing to wait for; the interval beats once more and then rests.

    Once more, since of regions that ask at one beat the first may still be told to wait and the last that all is ready.
    """
    return Output(f"{page}-ready", "data")


def tick_of(page: str) -> str:
    """Return the id of the interval at which a page looks whether a string under other weights is ready."""
    return f"{page}-wait-tick"


def columns(page: str, *parts: Component, below: Sequence[Component] = ()) -> Component:
    """Return the body of a page: the pickers with `below`, then `parts`, or what is wrong instead of them."""
    side = panel(None, *pickers(page, *below), className="side")
    state = html.Section(id=f"{page}-state", className="panel state")
    waits = dcc.Interval(id=tick_of(page), interval=_LOOK_AGAIN, disabled=True)
    return html.Div(
        [memory(f"{page}-state", quiet=True), dcc.Store(id=f"{page}-ready"), waits, side, state, *parts],
        id=f"{page}-columns",
        className="columns",
    )


def selected(data: Data, view: ViewState) -> Selection:
    """Return the selection; where there is none, the page's state says why and other regions stay empty."""
    try:
        return select(data, view)
    except Recapturing:  # what is shown stays until it is ready
        raise PreventUpdate from None
    except Exception as error:
        raise Told from error


def waiting(data: Data, view: ViewState) -> str:
    """Return what changes when the string of a view is ready under the weights that it is looked at under."""
    if view.checkpoint is None and view.of is None:
        return ""
    try:
        select(data, view)
    except Recapturing:
        return "waiting"
    except Exception as error:
        return str(error)
    return "ready"


def run_options(rows: list[RunRow]) -> list[dict[str, str]]:
    """Return the runs to choose from."""
    return [{"label": row.id if row.captures else f"{row.id} (no captures)", "value": row.id} for row in rows]


def capture_options(data: Data, run: RunRow) -> list[dict[str, str]]:
    """Return the captures to choose from: step, distribution and length say what each is about."""
    options = []
    for capture_id in run.captures:
        try:
            about = data.capture(run.id, capture_id).about
            strings = about["strings"]
            failed = sum(not entry.get("exact", True) for entry in strings)
            label = f"{about.get('distribution', '?')} {_range(about.get('length'))} · {failed}/{len(strings)} fail"
            label += f" · step {about.get('step', '?')}"
        except WorkbenchError:
            label = f"{capture_id} (unreadable)"
        options.append({"label": visible_text(label), "value": capture_id})
    return options


def string_list(
    capture: Capture, current: int | None, view: ViewState, path: str, compare: Component | None = None
) -> Component:
    """Return the list of captured strings, failed ones first; each is a link to itself.

    Args:
        capture: whose strings they are.
        current: index of the one that is shown.
        view: the view that links change.
        path: address of the page.
        compare: the link into a comparison, where the page has one.
    """
    strings, order = capture.about["strings"], failed_first(capture, only=view.failing)
    failed = sum(not entry.get("exact", True) for entry in strings)
    items = []
    for index in order[:_LISTED]:
        entry = strings[index]
        exact = bool(entry.get("exact", True))
        first = entry.get("first_error")
        where = "exact" if exact else f"error at {first}" if first is not None else "fails"
        if not exact and first == entry.get("length"):
            where = "EOS wrong"
        title = "copied exactly" if exact else f"first wrong token of the copy: {first} (0 is the first)"
        label = [
            html.Span("✓" if exact else "✕", className=f"icon {'good' if exact else 'bad'}", **{"aria-hidden": "true"}),
            html.Span(f"#{index}", className="string-number"),
            html.Span(f"n = {entry.get('length')}", className="string-length"),
            html.Span(where, className="string-where"),
        ]
        marked = {"aria-current": "true"} if index == current else {}
        items.append(html.Li(link(label, path + view.change(string=index).query(), title=title, **marked)))
    heading = html.H2(["Strings", html.Span(f"{failed} of {len(strings)} fail", className="count")])
    more = len(order) - _LISTED
    rest = [html.P(f"{more} more are reached by string= in the address", className="quiet")] if more > 0 else []
    if not items:
        rest = [html.P("No string of this capture is copied wrongly.", className="quiet")]
    listed = [html.Ul(items, className="strings", tabIndex=0)] if items else []
    steps = string_steps(order, current, view, path)
    return html.Div(
        [heading, html.Div([*steps, *([compare] if compare else [])], className="string-steps"), *listed, *rest]
    )


def string_steps(order: Sequence[int], current: int | None, view: ViewState, path: str) -> list[Component]:
    """Return the way to the strings before and after in the list, and whether only failed ones are listed."""
    links = []
    for key, label, name in (("[", "‹", "String before"), ("]", "›", "String after")):
        to = beside_in(order, current, -1 if key == "[" else 1)
        if to is None:
            links.append(html.Span(label, className="button off", **{"aria-hidden": "true"}))
            continue
        keyed = {"aria-label": name, "aria-keyshortcuts": key}
        links.append(
            link(label, path + view.change(string=to).query(), className="button", title=f"{name}: {key}", **keyed)
        )
    box = html.Span("✓" if view.failing else "", className="box", **{"aria-hidden": "true"})
    only = html.A(
        [html.Span(box, className="checkbox"), "Failed"],
        href=path + view.change(failing=not view.failing).query(),
        className="only-failed",
        title="List only strings that are copied wrongly: f",
        role="checkbox",
        **{"aria-checked": str(view.failing).lower(), "aria-keyshortcuts": "f"},
    )
    return [html.Span(links, className="steps-links"), only]


def compare_link(data: Data, chosen: Selection, view: ViewState, path: str, *, by_head: bool) -> Component:
    """Return the link into a comparison, or out of it; see `comparison.start`."""
    begins = view.beside or comparison.start(data, chosen, by_head)
    return compare_bar.compare_link(view, path, begins, "Another head, step, string or run")


def beside_in(order: Sequence[int], at: int | None, by: int) -> int | None:
    """Return the index `by` places after `at` in a list; of one that is not listed, the first; None past the ends."""
    if at not in order:
        return order[0] if order else None
    place = order.index(at) + by
    return order[place] if 0 <= place < len(order) else None


def visible_text(text: str) -> str:
    """Return a line whose characters all print."""
    return "".join(c if c.isprintable() else visible(c) for c in text)


def _labelled(name: str, control: Component, control_id: str) -> Component:
    return html.Div([html.Label(name, htmlFor=control_id), control], className="field")


def _range(length: Any) -> str:
    return "–".join(map(str, length)) if isinstance(length, list) else str(length)
