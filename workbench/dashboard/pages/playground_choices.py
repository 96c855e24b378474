"""The left column of Playground and Intervene: run, weights, and the string, or strings, that the model is run on."""

import time
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import UsageError, WorkbenchError
from workbench.dashboard import live_pairs, pickers
from workbench.dashboard.data import RunRow
from workbench.dashboard.live_models import Live, LiveModels, Loading
from workbench.dashboard.numbers import place, written
from workbench.dashboard.pages.playground_strings import (
    OF_STRINGS,
    captured,
    choose,
    follow_live,
    length_of,
    settings_of,
    stamp,
    write_tokens,
)
from workbench.dashboard.parts import link, message, panel, switch
from workbench.dashboard.regions import EVERYTHING, follow, memory
from workbench.dashboard.selection import choose_capture, choose_owner, choose_run
from workbench.dashboard.state import ViewState

_LISTS = ("run", "checkpoint", "capture", "distribution")
_NUMBERS = {
    "length": ("Length n", 1, 1_000_000, 1),
    "seed": ("Seed", 0, 999_999_999, 1),
    "period": ("Period", 1, 10_000, 1),
    "flip": ("Flips", 0, 1, 0.01),
    "count": ("Strings", 1, 10_000, 1),
}
_VALUES = (*_LISTS, *_NUMBERS, "text")
_NEWEST = -1  # stands for the newest weights in the list of steps
_REPEATS = "repeat-structure"


def columns(page: str, *parts: Component) -> Component:
    """Return the body of a page: the column, then `parts`, or what is wrong or waited for in their place."""
    side = panel(None, *_controls(page), className="side")
    return html.Div(
        [
            *(memory(f"{page}-{region}") for region in ("state", "choices", "strings")),
            dcc.Store(id=f"{page}-open", data=1),
            *(dcc.Store(id=f"{page}-{name}") for name in ("set", "changed", "go")),
            dcc.Store(id=f"{page}-wait"),
            *(dcc.Interval(id=f"{page}-{name}", disabled=True) for name in ("clock", "tick")),
            side,
            html.Section(id=f"{page}-state", className="panel state", **{"aria-live": "polite"}),
            html.Div(list(parts), className="live-main"),
        ],
        id=f"{page}-columns",
        className="columns live loading",
    )


def _controls(page: str) -> list[Component]:
    lists = {
        name: dcc.Dropdown(id=f"{page}-{name}", clearable=False, placeholder="none", searchable=name != "checkpoint")
        for name in _LISTS
    }
    numbers = {
        name: dcc.Input(id=f"{page}-{name}", type="number", min=low, max=high, step=by, debounce=True, placeholder="…")
        for name, (_, low, high, by) in _NUMBERS.items()
    }
    typed = dcc.Input(
        id=f"{page}-text", type="text", debounce=True, maxLength=6000, placeholder="0110 …", autoComplete="off"
    )

    def labelled(name: str, label: str, control: Component) -> Component:
        parts = [html.Label(label, htmlFor=f"{page}-{name}"), control]
        return html.Div(parts, id=f"{page}-{name}-field", className="field")

    numbered = [labelled(name, label, numbers[name]) for name, (label, *_) in _NUMBERS.items()]
    return [
        labelled("run", "Run", lists["run"]),
        labelled("checkpoint", "Weights", lists["checkpoint"]),
        html.Div(id=f"{page}-input", className="input-switch"),
        labelled("capture", "Capture", lists["capture"]),
        html.Div(place(f"{page}-strings-list"), className="strings-area"),
        html.Div(
            [labelled("distribution", "Distribution", lists["distribution"]), html.Div(numbered, className="numbers")],
            id=f"{page}-drawn",
        ),
        labelled("text", "String to copy: type another, then press Enter", typed),
    ]


def register(app: Dash, models: LiveModels, page: str, path: str, *, batches: bool = False) -> None:
    """Register the column of a page on `app`; `batches`: the page can also take many strings at once."""

    def render_state(view: ViewState, opened: int | None) -> tuple[Any, str, int]:
        if opened is None:
            raise PreventUpdate
        try:
            first = choose(models, view)
        except Loading as loading:
            return waiting(loading), "columns live loading", time.monotonic_ns()
        except Exception as error:
            return message(error), "columns live nothing", 0
        return [], "columns live", time.monotonic_ns() if live_pairs.waits(models, first, view) else 0

    def look(view: ViewState) -> str:
        """The stamp of the model, never the same twice while it is not there: each look is answered."""
        found = stamp(models, view)
        return f"{found} {time.monotonic_ns()}" if "absent" in found.split() else found

    follow(
        app,
        f"{page}-state",
        [
            Output(f"{page}-state", "children"),
            Output(f"{page}-columns", "className"),
            Output(f"{page}-wait", "data"),
        ],
        (*OF_STRINGS, "count"),
        render_state,
        stamp=look,
        tick=f"{page}-clock",
        also=Input(f"{page}-open", "data"),
    )

    # The state is asked for again some time after each answer, however slow those are; once the model is there, the
    # other regions are told, which may have looked before it was (assets/live.js).
    app.clientside_callback(
        ClientsideFunction("live", "wait"),
        Output(f"{page}-wait", "id"),
        Input(f"{page}-wait", "data"),
        State(f"{page}-wait", "id"),
    )

    def render_choices(view: ViewState, opened: int | None) -> tuple[Any, ...]:
        if opened is None:
            raise PreventUpdate
        values = choices(models, view)
        set_now = {name: values[name][1] for name in _LISTS} | {name: values[name] for name in (*_NUMBERS, "text")}
        shown = shown_fields(view, values, batches)
        return (
            *(part for name in _LISTS for part in values[name]),
            *(values[name] for name in (*_NUMBERS, "text")),
            *(name not in shown for name in ("capture", "drawn", "period", "flip", "count", "text")),
            input_switch(models, view, path, batches),
            set_now,
        )

    follow(
        app,
        f"{page}-choices",
        [
            *(Output(f"{page}-{name}", part) for name in _LISTS for part in ("options", "value")),
            *(Output(f"{page}-{name}", "value") for name in (*_NUMBERS, "text")),
            Output(f"{page}-capture-field", "hidden"),
            Output(f"{page}-drawn", "hidden"),
            *(Output(f"{page}-{name}-field", "hidden") for name in ("period", "flip", "count", "text")),
            Output(f"{page}-input", "children"),
            Output(f"{page}-set", "data"),
        ],
        EVERYTHING,
        render_choices,
        stamp=lambda view: stamp(models, view),
        tick=f"{page}-tick",
        also=Input(f"{page}-open", "data"),
    )

    # What the server set and what a person chose both arrive as a new value: they differ by what `-set` remembers.
    app.clientside_callback(
        ClientsideFunction("live", "changed"),
        Output(f"{page}-changed", "data"),
        *(Input(f"{page}-{name}", "value") for name in _VALUES),
        State(f"{page}-set", "data"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output(f"{page}-go", "data"),
        Input(f"{page}-changed", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose_value(change: Any, query: Any) -> str:
        name, value = change if isinstance(change, list) and len(change) == 2 else (None, None)
        if name not in _VALUES or type(value) not in (str, int, float, type(None)):
            raise PreventUpdate
        view, _ = ViewState.parse(query)
        return path + view.change(**changed(name, value)).query()

    app.clientside_callback(
        ClientsideFunction("workbench", "go"), Output(f"{page}-go", "id"), Input(f"{page}-go", "data")
    )

    def render_strings(chosen: Any, view: ViewState) -> tuple[Any]:
        owner = choose_owner(models.data, chosen.run, view)
        if view.input != "captured" or not owner.captures:
            return ("",)
        capture_id, capture, index = captured(models, chosen.run, view)
        shown = replace(view, run=chosen.run.id, of=chosen.view.of, capture=capture_id, string=index, text=None)
        listed = pickers.string_list(capture, index, shown, path)
        if owner.id == chosen.run.id:
            return (written(listed),)
        own = link("Strings of this run", path + view.change(of=None, capture=None).query())
        whose = html.P(["Captured from ", html.Span(owner.id, className="id"), ". ", own], className="quiet")
        return (written([whose, listed]),)

    follow_live(
        app, models, page, "strings", [Output(f"{page}-strings-list", "data-plain")], EVERYTHING, render_strings
    )


def changed(name: str, value: Any) -> dict[str, Any]:
    """Return the change of a view that a value of a field stands for; UsageError where it stands for none."""
    default = {"seed": 0, "count": 16}.get(name)
    if value is None or value == "" or (name == "checkpoint" and value == _NEWEST):
        return {name: default}
    parsed, notes = ViewState.parse("?" + urlencode({name: f"{value:.6f}" if name == "flip" else str(value)}))
    if notes:
        raise UsageError(notes[0].removeprefix("Ignored ").replace(" in the address", ""))
    return {name: getattr(parsed, name)}


def choices(models: LiveModels, view: ViewState) -> dict[str, Any]:
    """Return (options, value) of every list and the value of every other field; empty while a model is loaded."""
    data = models.data
    values: dict[str, Any] = {name: ([], None) for name in _LISTS} | dict.fromkeys((*_NUMBERS, "text"))
    values["run"] = ([{"label": row.id, "value": row.id} for row in data.runs() if row.readable], view.run)
    values |= {"seed": view.seed, "count": view.count}
    try:
        run = choose_run(data, view)
        values["run"] = (values["run"][0], run.id)
        newest = view.checkpoint in (None, run.step)
        values["checkpoint"] = (step_options(models, run), _NEWEST if newest else view.checkpoint)
        values["capture"] = ([], view.capture)
        owner = choose_owner(data, run, view)
        values["capture"] = (
            pickers.capture_options(data, owner),
            choose_capture(data, owner, view) if owner.captures else None,
        )
        live = models.get(run.id, view.checkpoint)
        values |= drawn_values(live, view)
        values["text"] = write_tokens(choose(models, view).tokens, live.task.alphabet)
    except WorkbenchError:  # the page's state says what is wrong; what is known is shown
        values["text"] = values["text"] or view.text
    for name in _LISTS:
        values[name] = (with_value(*values[name]), values[name][1])
    return values


def with_value(options: list[dict[str, Any]], value: Any) -> list[dict[str, Any]]:
    """Return the options of a list with its value among them.

    A list drops a value that it does not hold, which would look as if a person had chosen nothing: what the address
    names would be forgotten before anybody reads that it is not there.
    """
    if value is None or any(option["value"] == value for option in options):
        return options
    return [*options, {"label": f"{value} · not there", "value": value}]


def drawn_values(live: Live, view: ViewState) -> dict[str, Any]:
    """Return what the fields of generated strings show."""
    from models.distributions import DISTRIBUTIONS

    known = list(DISTRIBUTIONS)
    named = view.distribution or live.task.distribution
    options = [{"label": name, "value": name} for name in dict.fromkeys([*known, named])]
    values: dict[str, Any] = {"distribution": (options, named), "length": length_of(live, view)}
    settings = live.task if named not in known else settings_of(live, view)
    return values | {"period": settings.period, "flip": settings.flip}


def shown_fields(view: ViewState, values: dict[str, Any], batches: bool) -> set[str]:
    """Return which of the fields that are not always there are shown."""
    if view.input == "captured" and values["capture"][0]:
        return {"capture", "text"}
    repeats = {"period", "flip"} if values["distribution"][1] == _REPEATS else set()
    return {"drawn", *repeats, "count" if batches and view.input == "batch" else "text"}


def step_options(models: LiveModels, run: RunRow) -> list[dict[str, Any]]:
    """Return the weights to choose from, newest first."""
    steps = models.steps(run.id)
    newest = f"newest · step {run.step:,}" if run.status.value == "finished" else "newest checkpoint"
    return [
        {"label": newest, "value": _NEWEST},
        *({"label": f"step {step:,}", "value": step} for step in steps if step != run.step),
    ]


def input_switch(models: LiveModels, view: ViewState, path: str, batches: bool) -> Component:
    """Return the choice between a captured string, a generated one and a batch, and the next generated one."""
    kinds = [("captured", "Captured"), ("generated", "Generated"), *([("batch", "Batch")] if batches else [])]
    try:
        has_captures = bool(choose_owner(models.data, choose_run(models.data, view), view).captures)
    except WorkbenchError:
        has_captures = False
    now = view.input if batches or view.input != "batch" else "generated"
    now = "generated" if now == "captured" and not has_captures else now
    shown = [
        (label, path + view.change(input=kind, text=None).query(), kind == now and view.text is None)
        for kind, label in kinds
        if kind != "captured" or has_captures
    ]
    another = link(
        "Another", path + view.change(input=now, seed=view.seed + 1).query(), className="button", title="The next seed"
    )
    return html.Div([switch("String", shown, named=False), *([another] if now != "captured" else [])])


def waiting(loading: Loading) -> Component:
    """Return what stands where the page will be while a model is loaded."""
    said = str(loading)
    return html.Div(
        [
            html.P(said[:1].upper() + said[1:] + " …"),
            html.Progress(**{"aria-label": said}),
            html.P("The first model takes a few seconds; other pages can be used meanwhile.", className="quiet"),
        ],
        className="waiting",
    )
