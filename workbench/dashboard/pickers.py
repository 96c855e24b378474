"""Choosing run, capture and string: the left column of every page that looks at one captured string."""

from collections.abc import Sequence
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.parts import link, message, panel
from workbench.dashboard.regions import EVERYTHING, Told, follow, memory
from workbench.dashboard.selection import Selection, choose_capture, choose_run, select
from workbench.dashboard.state import ViewState
from workbench.figures.tokens import visible

_LISTED = 200  # strings of a capture that are listed


def pickers(page: str, *more: Component) -> list[Component]:
    """Return the controls, and `more` below them; `page` is the prefix of their ids."""
    return [
        memory(f"{page}-choices"),
        memory(f"{page}-strings"),
        dcc.Store(id=f"{page}-set"),
        dcc.Store(id=f"{page}-go"),
        _labelled("Run", dcc.Dropdown(id=f"{page}-run", clearable=False, placeholder="no run"), f"{page}-run"),
        _labelled(
            "Capture", dcc.Dropdown(id=f"{page}-capture", clearable=False, placeholder="none"), f"{page}-capture"
        ),
        html.Div(id=f"{page}-strings", className="strings-area"),
        *more,
    ]


def register(app: Dash, data: Data, page: str, path: str) -> None:
    """Register the pickers of a page on `app`."""

    def render_choices(view: ViewState) -> tuple[Any, ...]:
        rows = [row for row in data.runs() if row.readable]
        try:
            chosen = choose_run(data, view)
            capture = choose_capture(data, chosen, view)
        except WorkbenchError:  # the other regions say what is wrong
            return run_options(rows), view.run, [], None, {"run": view.run, "capture": None}
        options = capture_options(data, chosen)
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
        ("run", "capture"),
        render_choices,
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

    def render_strings(view: ViewState) -> tuple[Component]:
        return (string_list(selected(data, view), view, path),)

    def render_state(view: ViewState) -> tuple[Any, str]:
        try:
            select(data, view)
        except Exception as error:
            return message(error), "columns nothing"
        return [], "columns"

    follow(
        app,
        f"{page}-state",
        [Output(f"{page}-state", "children"), Output(f"{page}-columns", "className")],
        ("run", "capture", "string"),
        render_state,
    )

    follow(app, f"{page}-strings", [Output(f"{page}-strings", "children")], EVERYTHING, render_strings)


def columns(page: str, *parts: Component, below: Sequence[Component] = ()) -> Component:
    """Return the body of a page: the pickers with `below`, then `parts`, or what is wrong instead of them."""
    side = panel(None, *pickers(page, *below), className="side")
    state = html.Section(id=f"{page}-state", className="panel state")
    return html.Div([memory(f"{page}-state"), side, state, *parts], id=f"{page}-columns", className="columns")


def selected(data: Data, view: ViewState) -> Selection:
    """Return the selection; where there is none, the page's state says why and other regions stay empty."""
    try:
        return select(data, view)
    except Exception as error:
        raise Told from error


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


def string_list(chosen: Selection, view: ViewState, path: str) -> Component:
    """Return the list of captured strings, failed ones first; each is a link to itself."""
    strings = chosen.capture.about["strings"]
    failed = sum(not strings[i].get("exact", True) for i in chosen.order)
    items = []
    for index in chosen.order[:_LISTED]:
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
        current = {"aria-current": "true"} if index == chosen.index else {}
        items.append(html.Li(link(label, path + view.change(string=index).query(), title=title, **current)))
    heading = html.H2(["Strings", html.Span(f"{failed} of {len(strings)} fail", className="count")])
    more = len(chosen.order) - _LISTED
    rest = [html.P(f"{more} more are reached by string= in the address", className="quiet")] if more > 0 else []
    return html.Div([heading, html.Ul(items, className="strings", tabIndex=0), *rest])


def visible_text(text: str) -> str:
    """Return a line whose characters all print."""
    return "".join(c if c.isprintable() else visible(c) for c in text)


def _labelled(name: str, control: Component, control_id: str) -> Component:
    return html.Div([html.Label(name, htmlFor=control_id), control], className="field")


def _range(length: Any) -> str:
    return "–".join(map(str, length)) if isinstance(length, list) else str(length)
