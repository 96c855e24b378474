"""Runs: what was trained, how training goes, and how far each model copies."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from dash import Dash, Output, dcc, html
from dash.development.base_component import Component

from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.jobs import jobs_of
from workbench.dashboard.numbers import numbers_of, register_numbers
from workbench.dashboard.pages import runs_heads, runs_numbers, runs_train
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.pages.runs_table import age, facts_of, runs_table
from workbench.dashboard.parts import link, message, panel, swatch
from workbench.dashboard.regions import EVERYTHING, follow, memory
from workbench.dashboard.selection import no_runs
from workbench.dashboard.state import ViewState
from workbench.figures import LengthCurve, TrainingCurve, empty_figure, length_generalisation, training_curves
from workbench.runs import Status

SHOWN_UNASKED = 6  # newest runs that are drawn while none is ticked
DRAWN_AT_MOST = 12
_WHILE_TRAINING, _WHILE_IDLE = 1500, 5000  # milliseconds between looks at the store
_PANELS_AT_MOST = 5

_CONFIG = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "showTips": False,
    "modeBarButtons": [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
}


def layout() -> Component:
    """Return the skeleton of the page."""
    return html.Div(
        [
            dcc.Interval(id="runs-tick", interval=_WHILE_TRAINING),
            *(memory(region) for region in ("runs-table", "runs-training", "runs-lengths", "runs-heads")),
            runs_train.train_panel(),
            html.Section(html.Div(id="runs-table", className="scroll"), className="panel", **{"aria-label": "Runs"}),
            html.Div(id="runs-key", className="key"),
            html.Div(
                [_curves("runs-training"), _curves("runs-lengths")],
                className="curves",
            ),
            html.Section(id="runs-heads", className="panel heads-formed", **{"aria-label": "Heads as they formed"}),
        ]
    )


def _curves(name: str) -> Component:
    """Return a figure with what it says, which is read out, and its numbers, which are shown when asked for."""
    graph = dcc.Graph(id=name, config=_CONFIG, className="graph", figure=empty_figure(""))
    said = html.Figcaption(id=f"{name}-said", className="unseen")
    return panel(None, html.Figure([said, graph, numbers_of(name)]))


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    jobs, reports = jobs_of(app, data), Reports(data)
    runs_train.register(app, data, jobs)

    def render_table(view: ViewState, changed: int | None) -> tuple[Any, int]:
        rows, started = data.runs(), jobs.all()
        busy = any(row.status is Status.TRAINING for row in rows) or any(not job.outcome for job in started)
        interval = _WHILE_TRAINING if busy else _WHILE_IDLE
        if not rows:
            return message(no_runs(data)), interval
        facts = {row.id: facts_of(data, row) for row in rows if row.readable}
        return runs_table(rows, view, time.time(), facts, started), interval

    def table_stamp(view: ViewState) -> str:
        now, rows = time.time(), data.runs()
        listed = [(row, age(row.created, now), facts_of(data, row) if row.readable else None) for row in rows]
        return str((listed, jobs.all()))

    follow(
        app,
        "runs-table",
        [Output("runs-table", "children"), Output("runs-tick", "interval")],
        ("run", "runs"),
        render_table,
        stamp=table_stamp,
        tick="runs-tick",
        also=runs_train.CHANGED,
    )

    def training_of(rows: Sequence[RunRow]) -> list[TrainingCurve]:
        return [curve for curve in map(data.training_curve, rows) if len(curve.steps)]

    def render_training(view: ViewState) -> tuple[go.Figure, Component, str]:
        rows, asked = drawn_runs(data.runs(), view)
        curves = training_of(rows)
        if not curves:
            figure = empty_figure("No run has reported anything yet: curves appear here while one trains")
        else:
            figure = training_curves(curves, title=f"Training of {_count(len(curves), 'run')}: loss and exact match")
        drawn = [row for row in rows if any(c.run == row.id for c in curves)]
        return figure, key(drawn, asked, view, gone(data.runs(), view)), runs_numbers.training_said(curves)

    def training_stamp(view: ViewState) -> str:
        rows = data.runs()
        return str([gone(rows, view), *((r.id, data.metrics_stamp(r)) for r in drawn_runs(rows, view)[0])])

    follow(
        app,
        "runs-training",
        [Output("runs-training", "figure"), Output("runs-key", "children"), Output("runs-training-said", "children")],
        ("runs",),
        render_training,
        stamp=training_stamp,
        tick="runs-tick",
    )

    def lengths_of(rows: Sequence[RunRow]) -> list[LengthCurve]:
        return [curve for row in rows for curve in data.length_curves(row)]

    def render_lengths(view: ViewState) -> tuple[go.Figure, str]:
        rows, _ = drawn_runs(data.runs(), view)
        curves = lengths_of(rows)
        if not curves:
            figure = empty_figure(
                "Nothing is evaluated yet. A run is evaluated when it finishes, or by<br>workbench evaluate RUN"
            )
        else:
            figure = lengths_figure(curves, rows)
        return figure, runs_numbers.lengths_said(curves)

    follow(
        app,
        "runs-lengths",
        [Output("runs-lengths", "figure"), Output("runs-lengths-said", "children")],
        ("runs",),
        render_lengths,
        stamp=lambda view: str([(r.id, data.evaluation_stamp(r)) for r in drawn_runs(data.runs(), view)[0]]),
        tick="runs-tick",
    )

    def drawn(view: ViewState) -> list[RunRow]:
        return drawn_runs(data.runs(), view)[0]

    register_numbers(app, "runs-training", lambda view: runs_numbers.training_table(training_of(drawn(view))))
    register_numbers(app, "runs-lengths", lambda view: runs_numbers.lengths_table(lengths_of(drawn(view))))

    def render_heads(view: ViewState) -> tuple[list[Component]]:
        return (runs_heads.formation(reports, drawn(view), view),)

    follow(
        app,
        "runs-heads",
        [Output("runs-heads", "children")],
        EVERYTHING,
        render_heads,
        stamp=lambda view: runs_heads.stamp(reports, drawn(view)),
        tick="runs-tick",
    )


def drawn_runs(rows: Sequence[RunRow], view: ViewState) -> tuple[list[RunRow], bool]:
    """Return the runs whose curves are drawn, and whether they were asked for: ticked ones, else the newest few."""
    readable = [row for row in rows if row.readable]
    ticked = [row for row in readable if row.id in view.runs]
    return (ticked[:DRAWN_AT_MOST], True) if ticked else (readable[:SHOWN_UNASKED], False)


def gone(rows: Sequence[RunRow], view: ViewState) -> list[str]:
    """Return the ticked runs that are not in the store, or not readable there."""
    readable = {row.id for row in rows if row.readable}
    return [run for run in view.runs if run not in readable]


def lengths_figure(curves: Sequence[LengthCurve], rows: Sequence[RunRow]) -> go.Figure:
    """Return the length-generalisation figure of some runs, with their training ranges shaded."""
    distributions = list(dict.fromkeys(curve.distribution for curve in curves))[:_PANELS_AT_MOST]
    curves = [curve for curve in curves if curve.distribution in distributions]
    drawn = {curve.run for curve in curves}
    trained = sorted({row.train_lengths for row in rows if row.id in drawn and row.train_lengths})
    title = f"Length generalisation of {_count(len(drawn), 'run')}, with 95 % Wilson intervals"
    return length_generalisation(curves, trained, distributions, title=title)


def key(rows: Sequence[RunRow], asked: bool, view: ViewState, missing: Sequence[str] = ()) -> Component:
    """Return the line that says which runs are drawn, and how, below a note about ticked ones that are `missing`."""
    if missing:
        kept = tuple(run for run in view.runs if run not in missing)
        forget = link(f"untick {'it' if len(missing) == 1 else 'them'}", "/runs" + view.change(runs=kept).query())
        said = f"Ticked, but not in the store: {', '.join(missing[:3])}{' and more' if len(missing) > 3 else ''}; "
        return html.Div([html.P([said, forget], className="note"), key(rows, asked, view)])
    if not rows:
        return html.P("")
    if asked:
        clear = link("untick all", "/runs" + view.change(runs=()).query(), className="quiet")
        lead: list[Any] = [html.Span(_count(len(rows), "ticked run")), clear]
    else:
        lead = [html.Span(f"Newest {f'{len(rows)} runs' if len(rows) > 1 else 'run'} (tick to choose)")]
    entries = []
    seen: Counter[str] = Counter()
    for row in rows:
        mark = swatch(row.scheme, label=False, repeat=seen[row.scheme])
        entries.append(html.Span([mark, html.Bdi(row.id)], className="key-entry"))
        seen[row.scheme] += 1
    return html.Div([html.Div(lead, className="key-lead"), html.Div(entries, className="key-entries")])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


RUNS = Page(
    name="runs",
    path="/runs",
    title="Runs",
    purpose="What has been trained, how is training going, and up to which length does each model copy exactly?",
    layout=layout,
    register=register,
)
