"""What is done on the Failures page: tokens edited, reports and captures started, points of a figure followed."""

import time
from collections.abc import Callable
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, html
from dash.exceptions import PreventUpdate

from models.errors import WorkbenchError
from workbench.dashboard.guard import message_of
from workbench.dashboard.job_files import Kind
from workbench.dashboard.jobs import Jobs
from workbench.dashboard.live_models import LiveModels, Loading
from workbench.dashboard.pages import failures_drawn, failures_work
from workbench.dashboard.pages.failures_captured import Captured
from workbench.dashboard.pages.failures_edits import DRAWN_EDITS, drawn_edit, with_token
from workbench.dashboard.pages.failures_reports import PATH, Reports
from workbench.dashboard.state import ViewState

# What buttons ask of jobs; each takes the id of a run or job.
_TO_JOBS: dict[str, Callable[[Jobs, str], Any]] = {
    "explain": lambda jobs, run: jobs.measure(run, Kind.FAILURES),
    "stop": lambda jobs, job: jobs.stop(job),
    "forget": lambda jobs, job: jobs.forget(job),
}


def register(app: Dash, reports: Reports, captured: Captured, jobs: Jobs, models: LiveModels) -> None:
    """Register what buttons, tokens and points do."""

    @app.callback(
        Output("failures-go", "data", allow_duplicate=True),
        Input("failures-graph", "clickData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def open_point(click: Any, query: Any) -> str:
        view, _ = ViewState.parse(query)
        if view.drawn != "strings" or not click:
            raise PreventUpdate
        index = failures_drawn.clicked_failure(reports.choose(view), click)
        if index is None:
            raise PreventUpdate
        return PATH + view.change(failure=index).query()

    @app.callback(
        Output("failures-go", "data", allow_duplicate=True),
        Input("failures-flip", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def flip(asked: Any, query: Any) -> str:
        at, to = (asked.get("k"), asked.get("token")) if isinstance(asked, dict) else (None, None)
        if type(at) is not int or not (to is None or type(to) is int):
            raise PreventUpdate
        view, _ = ViewState.parse(query)
        chosen = reports.choose(view)
        if chosen.failure is None:
            raise PreventUpdate
        return PATH + chosen.view.change(text=with_token(chosen, at, to)).query()

    @app.callback(
        Output("failures-go", "data", allow_duplicate=True),
        Output("failures-awaits", "data"),
        Output("failures-again", "data"),
        Output("failures-changed", "data"),
        Output("problem", "children", allow_duplicate=True),
        Input("failures-ask", "data"),
        State("failures-awaits", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def act(asked: Any, awaits: Any, query: Any) -> tuple[Any, ...]:
        what, on = (asked.get("what"), asked.get("on")) if isinstance(asked, dict) else (None, None)
        if not isinstance(what, str) or not isinstance(on, str):
            raise PreventUpdate
        view, _ = ViewState.parse(query)
        go, again, now = None, None, time.time_ns() // 1_000_000
        try:
            if what in _TO_JOBS:
                _TO_JOBS[what](jobs, on)
            else:
                chosen = reports.choose(view)
                if on != chosen.key or (what != "capture" and what not in DRAWN_EDITS):
                    raise PreventUpdate
                if what == "capture":
                    awaits = failures_work.capture(jobs, chosen)
                else:
                    models.get(chosen.run.id, chosen.content.step)  # brings torch, which the edit needs
                    go = PATH + chosen.view.change(text=drawn_edit(what, chosen, now)).query()
        except Loading:
            again = {"what": what, "on": on}
        except WorkbenchError as error:
            return go, awaits, again, now, html.P(message_of(error), role="alert")
        return go, awaits, again, now, []

    # A capture that was asked for opens in Attention as soon as it is there, unless another failure is shown by then.
    @app.callback(
        Output("failures-go", "data", allow_duplicate=True),
        Output("failures-awaits", "data", allow_duplicate=True),
        Input("failures-tick", "n_intervals"),
        State("failures-awaits", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def arrive(_: Any, awaits: Any, query: Any) -> tuple[Any, Any]:
        if not isinstance(awaits, dict):
            raise PreventUpdate
        view, _ = ViewState.parse(query)
        there = failures_work.arrived(awaits, reports.choose(view), captured, jobs.all())
        if there == "":
            raise PreventUpdate
        return there, None

    app.clientside_callback(
        ClientsideFunction("failures", "again"), Output("failures-again", "id"), Input("failures-again", "data")
    )
