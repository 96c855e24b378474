"""Choosing a run, one of its kept reports on failures, and which of its failures are listed."""

from typing import Any
from urllib.parse import urlencode

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import UsageError, WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.pages.failures_edits import edited_tokens
from workbench.dashboard.pages.failures_reports import PATH, Reports
from workbench.dashboard.pages.failures_table import filters
from workbench.dashboard.pages.heads_reports import shown_step
from workbench.dashboard.pages.playground_strings import write_tokens
from workbench.dashboard.regions import follow, memory
from workbench.dashboard.state import ViewState

# The lists by name: the field of a view that each sets.
_LISTS = {
    "run": "run",
    "step": "checkpoint",
    "cause": "cause",
    "confirmed": "confirmed",
    "distribution": "failed_distribution",
    "length": "failed_length",
}
FILTERS = ("cause", "confirmed", "distribution", "length")
_ALL = {"cause": "any cause", "confirmed": "any verdict", "distribution": "any distribution", "length": "any length"}
_LONGEST_TEXT = 6000


def choices() -> list[Component]:
    """Return the invisible components that the lists need."""
    return [memory("failures-choices"), dcc.Store(id="failures-set"), dcc.Store(id="failures-go")]


def choice(name: str, label: str) -> Component:
    """Return one list: "run", "step" or a filter."""
    control = dcc.Dropdown(
        id=f"failures-{name}", clearable=name in FILTERS, placeholder=_ALL.get(name, "none"), searchable=name == "run"
    )
    named = html.Label(label, htmlFor=f"failures-{name}", className="unseen" if name in FILTERS else "")
    return html.Div([named, control], id=f"failures-{name}-field", className="field")


def text_field() -> Component:
    """Return the field that holds the edited string."""
    typed = dcc.Input(
        id="failures-text",
        type="text",
        debounce=True,
        maxLength=_LONGEST_TEXT,
        placeholder="0110 …",
        autoComplete="off",
    )
    return html.Div([html.Label("Edited string", htmlFor="failures-text"), typed], className="field failures-typed")


def register(app: Dash, data: Data, reports: Reports) -> None:
    """Register the lists and the field on `app`."""

    def render(view: ViewState) -> tuple[Any, ...]:
        values = values_of(data, reports, view)
        set_now = {name: value for name, (_, value) in values.items()}
        return (*(part for name in _LISTS for part in values[name]), values["text"][1], set_now)

    outputs = [Output(f"failures-{name}", part) for name in _LISTS for part in ("options", "value")]
    follow(
        app,
        "failures-choices",
        [*outputs, Output("failures-text", "value"), Output("failures-set", "data")],
        (*_LISTS.values(), "failure", "text", "order"),
        render,
        stamp=reports.stamp,
        tick="failures-tick",
    )

    # What the server set and what a person chose both arrive as a new value: they differ by what `-set` remembers.
    @app.callback(
        Output("failures-go", "data"),
        *(Input(f"failures-{name}", "value") for name in (*_LISTS, "text")),
        State("failures-set", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(*values: Any) -> str:
        *chosen, was, query = values
        view, _ = ViewState.parse(query)
        if not isinstance(was, dict):
            raise PreventUpdate
        for name, value in zip((*_LISTS, "text"), chosen, strict=True):
            if name in was and value != was[name] and type(value) in (str, int, type(None)):
                return PATH + changed(view, name, value).query()
        raise PreventUpdate

    app.clientside_callback(
        ClientsideFunction("workbench", "go"), Output("failures-go", "id"), Input("failures-go", "data")
    )


def changed(view: ViewState, name: str, value: Any) -> ViewState:
    """Return the view with what a list or the field stands for; UsageError where it stands for nothing."""
    field = _LISTS.get(name, name)
    if value is None or value == "":
        return view if name in ("run", "step") else view.change(**{field: None})
    parsed, notes = ViewState.parse("?" + urlencode({field: str(value)}))
    if notes:
        raise UsageError(notes[0].removeprefix("Ignored ").replace(" in the address", ""))
    return view.change(**{field: getattr(parsed, field)})


def values_of(data: Data, reports: Reports, view: ViewState) -> dict[str, tuple[list[dict[str, Any]], Any]]:
    """Return (options, value) of every list, and of the field; empty where there is no report."""
    rows = [row for row in data.runs() if row.readable]
    runs = [{"label": row.id if reports.steps(row.id) else f"{row.id} (no report)", "value": row.id} for row in rows]
    values: dict[str, tuple[list[dict[str, Any]], Any]] = {name: ([], None) for name in (*_LISTS, "text")}
    values["run"] = (runs, view.run)
    try:
        run = reports.choose_run(view)
        values["run"] = (runs, run.id)
        steps = reports.steps(run.id)
        newest = [f"step {step:,}" + (" · newest" if step == steps[0] and len(steps) > 1 else "") for step in steps]
        options = [{"label": label, "value": step} for label, step in zip(newest, steps, strict=True)]
        values["step"] = (options, shown_step(steps, view.checkpoint) if steps else view.checkpoint)
        chosen = reports.choose(view)
        confirmed = None if view.confirmed is None else "on" if view.confirmed else "off"
        shown = (view.cause, confirmed, view.failed_distribution, view.failed_length)
        values |= {name: (filters(chosen)[name], value) for name, value in zip(FILTERS, shown, strict=True)}
        if chosen.failure is not None:
            values["text"] = ([], view.text)
            values["text"] = ([], write_tokens(edited_tokens(chosen), chosen.layout.alphabet))
    except WorkbenchError:  # the page's state says what is wrong; what is known is shown
        pass
    return values
