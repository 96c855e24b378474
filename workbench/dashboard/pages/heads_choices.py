"""Choosing a run, one of its kept reports, and the score that is drawn."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.pages.heads_parts import PATH
from workbench.dashboard.pages.heads_reports import Chosen, Reports, shares, shown_step
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.regions import follow, memory
from workbench.dashboard.state import ViewState

_CHOICES = ("run", "step", "score")


def choices() -> list[Component]:
    """Return the invisible components that the lists need; the lists themselves are `field`s."""
    return [memory("heads-choices"), dcc.Store(id="heads-set"), dcc.Store(id="heads-go")]


def choice(name: str, label: str) -> Component:
    """Return one list: "run", "step" or "score"."""
    control = dcc.Dropdown(id=f"heads-{name}", clearable=False, placeholder="none")
    return html.Div([html.Label(label, htmlFor=f"heads-{name}"), control], id=f"heads-{name}-field", className="field")


def register(app: Dash, data: Data, reports: Reports) -> None:
    """Register the lists on `app`."""

    def render(view: ViewState) -> tuple[Any, ...]:
        rows = [row for row in data.runs() if row.readable]
        runs = [
            {"label": row.id if reports.steps(row.id) else f"{row.id} (no report)", "value": row.id} for row in rows
        ]
        try:
            run = reports.choose_run(view)
            steps = reports.steps(run.id)
        except WorkbenchError:  # the page's state says what is wrong
            return runs, view.run, [], None, [], None, {"run": view.run}
        newest = [f"step {step:,}" + (" · newest" if step == steps[0] and len(steps) > 1 else "") for step in steps]
        options = [{"label": label, "value": step} for label, step in zip(newest, steps, strict=True)]
        set_now = {"run": run.id, "step": shown_step(steps, view.checkpoint) if steps else view.checkpoint}
        try:
            chosen = reports.choose(view)
        except WorkbenchError:
            return runs, run.id, options, set_now["step"], [], None, set_now
        set_now["score"] = chosen.view.score
        return runs, run.id, options, set_now["step"], score_options(chosen), chosen.view.score, set_now

    outputs = [Output(f"heads-{name}", part) for name in _CHOICES for part in ("options", "value")]
    follow(
        app,
        "heads-choices",
        [*outputs, Output("heads-set", "data")],
        ("run", "checkpoint", "layer", "head", "score"),
        render,
        stamp=reports.stamp,
        tick="heads-tick",
    )

    # What the server set and what a person chose both arrive as a new value: they differ by what `-set` remembers.
    @app.callback(
        Output("heads-go", "data"),
        *(Input(f"heads-{name}", "value") for name in _CHOICES),
        State("heads-set", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(run: Any, step: Any, score: Any, was: Any, query: Any) -> str:
        view, _ = ViewState.parse(query)
        was = was if isinstance(was, dict) else {}
        if isinstance(run, str) and run != was.get("run"):
            return PATH + view.change(run=run).query()
        if type(step) is int and step >= 0 and step != was.get("step"):
            return PATH + view.change(checkpoint=step).query()
        if isinstance(score, str) and score != was.get("score"):
            return PATH + view.change(score=score).query()
        raise PreventUpdate

    app.clientside_callback(ClientsideFunction("workbench", "go"), Output("heads-go", "id"), Input("heads-go", "data"))


def score_options(chosen: Chosen) -> list[dict[str, str]]:
    """Return the scores that can be drawn; those that labels rest on come first."""
    deciding = {condition.split(" ")[0] for rule in chosen.content.rules for condition in rule.conditions}
    names = sorted(shares(chosen.content), key=lambda name: name not in deciding)
    marked = {name: f"{visible_text(name)}{' · decides a label' if name in deciding else ''}" for name in names}
    return [{"label": marked[name], "value": name} for name in names if name.isprintable()]
