"""The panel that starts trainings, and the list of what is at work: jobs that go on when the dashboard is closed."""

import time
from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from models.errors import UsageError, WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import message_of, sentence
from workbench.dashboard.job_files import Job, Kind, Outcome
from workbench.dashboard.jobs import Jobs
from workbench.dashboard.pages.runs_table import button, stop_button
from workbench.dashboard.parts import link, panel
from workbench.dashboard.recipes import MOST_SEED, estimate, known_recipes, read_settings
from workbench.dashboard.regions import EVERYTHING, follow, memory
from workbench.dashboard.state import ViewState

_FIRST = "demo-rope2d"  # the recipe that is offered first: the quickest
# Icon, what it means, and the class that draws it.
_LOOKS = {
    Outcome.DONE: ("✓", "done", "status-finished"),
    Outcome.STOPPED: ("‖", "stopped", "status-interrupted"),
    Outcome.FAILED: ("✕", "failed", "status-failed wraps"),
    Outcome.KILLED: ("✕", "killed", "status-killed wraps"),
    Outcome.ENDED: ("–", "ended", "status-interrupted"),
}
# Where the result of a job is shown, and what it is.
_RESULTS = {
    Kind.HEADS: ("/heads", "heads"),
    Kind.HISTORY: ("/heads", "heads"),
    Kind.FAILURES: ("/failures", "failures"),
    Kind.CAPTURE: ("/attention", "attention"),
}
_STOPPING = ("at work", "stopping after this step", "stopping at once", "being killed")
CHANGED = Input("runs-changed", "data")


def train_panel() -> Component:
    """Return the panel: a form, and beside it what is at work."""
    names = list(known_recipes())
    recipe = dcc.Dropdown(
        id="train-recipe", options=names, value=_FIRST if _FIRST in names else names[0], clearable=False, maxHeight=320
    )
    seed = dcc.Input(
        id="train-seed", type="number", min=0, max=MOST_SEED, step=1, placeholder="recipe's", autoComplete="off"
    )
    settings = dcc.Textarea(
        id="train-settings", placeholder="train.steps=30\nmodel.heads=[2,1]", spellCheck="false", maxLength=12_000
    )
    start = html.Button("Train", id="train-start", type="button", className="primary")
    form = html.Div(
        [
            _labelled("Recipe", recipe, "train-recipe"),
            _labelled("Seed", seed, "train-seed"),
            _labelled("Overrides, one field=value a line", settings, "train-settings"),
            html.Div(start, className="field train-go"),
            html.Div(id="train-about", className="train-about", **{"aria-live": "polite"}),
        ],
        className="train-form",
    )
    work = html.Div(
        [
            html.H2(["Jobs", html.Span("go on when the dashboard is closed; Stop ends them", className="count")]),
            html.Div(id="runs-work", className="scroll work", tabIndex=0, role="region", **{"aria-label": "Jobs"}),
            html.Div(id="train-said", className="train-said", role="status"),
        ],
        className="train-work",
    )
    return panel(
        None,
        memory("runs-work"),
        dcc.Store(id="runs-ask"),
        dcc.Store(id="runs-changed"),
        html.Div([form, work], className="train"),
    )


def register(app: Dash, data: Data, jobs: Jobs) -> None:
    """Register the panel's callbacks, and what the buttons of the page do."""

    @app.callback(
        Output("train-about", "children"),
        Input("train-recipe", "value"),
        Input("train-seed", "value"),
        Input("train-settings", "value"),
    )
    def describe(recipe: Any, seed: Any, text: Any) -> Component:
        return about(recipe, text)

    @app.callback(
        Output("train-said", "children"),
        Output("runs-changed", "data"),
        Input("train-start", "n_clicks"),
        State("train-recipe", "value"),
        State("train-seed", "value"),
        State("train-settings", "value"),
        running=[(Output("train-start", "disabled"), True, False)],
        prevent_initial_call=True,
    )
    def start(clicks: Any, recipe: Any, seed: Any, text: Any) -> tuple[Component, int]:
        if type(clicks) is not int or clicks < 1:
            raise PreventUpdate

        def train() -> str:
            if not isinstance(recipe, str):
                raise UsageError("choose a recipe")
            if seed is not None and type(seed) is not int:
                raise UsageError("the seed must be a whole number")
            return "Starting: " + jobs.train(recipe, seed, read_settings(_text(text))).title

        return _tried(train)

    @app.callback(
        Output("train-said", "children", allow_duplicate=True),
        Output("runs-changed", "data", allow_duplicate=True),
        Input("runs-ask", "data"),
        prevent_initial_call=True,
    )
    def act(asked: Any) -> tuple[Component, int]:
        do, on = (asked.get("do"), asked.get("on")) if isinstance(asked, dict) else (None, None)
        action = actions(jobs).get(do) if isinstance(do, str) else None
        if action is None or not isinstance(on, str):
            raise PreventUpdate
        return _tried(lambda: action(on))

    def render_work(view: ViewState, changed: int | None) -> tuple[Component]:
        return (work_list(jobs.all(), view),)

    follow(
        app,
        "runs-work",
        [Output("runs-work", "children")],
        EVERYTHING,
        render_work,
        stamp=lambda view: str(jobs.all()),
        tick="runs-tick",
        also=CHANGED,
    )


def actions(jobs: Jobs) -> dict[str, Callable[[str], str]]:
    """What a button can ask for: each takes the id of a job or run, and says what was done."""

    def forget(job_id: str) -> str:
        jobs.forget(job_id)
        return ""

    def stop(job_id: str) -> str:
        job = jobs.stop(job_id)
        return f"{job.title}: {_look(job)[1]}"

    return {
        "stop": stop,
        "forget": forget,
        "resume": lambda run: "Starting: " + jobs.resume(run).title,
        "heads": lambda run: "Starting: " + jobs.measure(run, Kind.HEADS).title,
        "history": lambda run: "Starting: " + jobs.measure(run, Kind.HISTORY).title,
        "failures": lambda run: "Starting: " + jobs.measure(run, Kind.FAILURES).title,
    }


def about(recipe: Any, text: Any) -> Component:
    """Return what a recipe is and how long it takes, or what is wrong with the overrides."""
    known = known_recipes().get(recipe) if isinstance(recipe, str) else None
    if known is None:
        return html.P("Choose a recipe.")
    try:
        settings = read_settings(_text(text))
    except UsageError as error:
        return html.P(message_of(error), className="wrong")
    low, high = known.lengths
    facts = f"{known.steps:,} steps, strings of {low:,}–{high:,} tokens; {estimate(known, settings)}."
    return html.P([html.Span(sentence(known.description)), " ", html.Span(facts, className="quiet")])


def work_list(jobs: list[Job], view: ViewState) -> Component:
    """Return the jobs, those at work first."""
    if not jobs:
        return html.P(
            "Nothing is at work. Trainings and measurements that you start here are listed.", className="none"
        )
    ordered = sorted(jobs, key=lambda job: job.outcome is not None)
    return html.Ul([html.Li(_line(job, view), className=_look(job)[2]) for job in ordered])


def _line(job: Job, view: ViewState) -> list[Component]:
    icon, state, _ = _look(job)
    what = [html.Span(job.title.partition(" ")[0] + " "), html.Bdi(job.run or job.subject, className="id")]
    if job.settings:
        what.append(html.Span(" " + " ".join(job.details), className="quiet"))
    said = [html.Span(state, className="state")]
    if job.message and job.outcome is not Outcome.DONE:
        said += [html.Span(" · "), html.Span(job.message, className="quiet")]
    return [
        html.Span(icon, className="icon", **{"aria-hidden": "true"}),
        html.Span([*what, " · ", *said], className="told", title=job.message),
        html.Span([*_result(job, view), _end(job)], className="buttons"),
    ]


def _end(job: Job) -> Component:
    if job.outcome is None:
        return stop_button(job)
    return button("×", "forget", job.id, "Take it off this list", f"Take off the list: {job.title}")


def _result(job: Job, view: ViewState) -> list[Component]:
    """Return the link to what a job has made."""
    page, what = _RESULTS.get(job.kind, ("", ""))
    if job.outcome is not Outcome.DONE or job.run is None or not page:
        return []
    there = view.change(run=job.run)
    there = there.change(pane="history") if job.kind is Kind.HISTORY else there
    return [link("look", page + there.query(), **{"aria-label": f"look at the {what} of {job.run}"})]


def _look(job: Job) -> tuple[str, str, str]:
    if job.outcome is not None:
        return _LOOKS[job.outcome]
    starting = not job.asked and job.run is None
    return "▶", "starting" if starting else _STOPPING[min(job.asked, len(_STOPPING) - 1)], "status-training"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _tried(action: Callable[[], str]) -> tuple[Component, int]:
    """Do something, and return what to say of it, and a number that makes the page look again."""
    now = time.time_ns() // 1_000_000
    try:
        said = action()
    except WorkbenchError as error:
        return html.P(message_of(error), className="wrong", role="alert"), now
    return html.P(sentence(said) if said else ""), now


def _labelled(name: str, control: Component, control_id: str) -> Component:
    return html.Div([html.Label(name, htmlFor=control_id), control], className="field")
