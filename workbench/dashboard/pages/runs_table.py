"""The table of runs: what each is, how far it is, what can be done with it, and where it can be looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.job_files import Job, Kind
from workbench.dashboard.jobs import RESUMABLE
from workbench.dashboard.parts import ago, link, swatch, table
from workbench.dashboard.state import ViewState
from workbench.reports import keep
from workbench.runs import Status

# Icon, and what it means: status is never told by colour alone.
STATUS = {
    Status.FINISHED: ("✓", "finished"),
    Status.TRAINING: ("▶", "training"),
    Status.INTERRUPTED: ("‖", "interrupted"),
    Status.FAILED: ("✕", "failed"),
    Status.KILLED: ("✕", "killed"),
    Status.UNREADABLE: ("!", "unreadable"),
    Status.FOREIGN: ("?", "not a run"),
}
_TRAINS = (Kind.TRAIN, Kind.RESUME)
_STOPS = (
    ("Stop", "at a checkpoint, after the running step"),
    ("Stop at once", "and fall back to the last checkpoint"),
    ("Kill", "by force; the run falls back to its last checkpoint"),
)
_COLUMNS = (
    ("", "tick"),
    ("Run", ""),
    ("Status", ""),
    ("Recipe", "recipe"),
    ("Scheme", "roomy"),
    ("Heads", "roomy"),
    ("Steps", "number"),
    ("Exact match", "number"),
    ("Age", "number roomy"),
    ("Measure, train", "do"),
    ("Look at", "look-at"),
)


@dataclass(frozen=True)
class Facts:
    """What decides which buttons and links a run has.

    Attributes:
        checkpoints: steps whose weights it kept.
        evaluated: whether it has an evaluation.
        report, history: whether it keeps a report on its heads, and on how they formed.
        failures: whether it keeps a report on its failures.
    """

    checkpoints: int = 0
    evaluated: bool = True
    report: bool = False
    history: bool = False
    failures: bool = False


def facts_of(data: Data, row: RunRow) -> Facts:
    """Return what there is of a run; nothing where it has gone meanwhile."""
    try:
        run = data.opened(row.id)
    except WorkbenchError:
        return Facts()
    evaluated = data.evaluation_stamp(row) != (0, 0)
    return Facts(
        checkpoints=len(run.checkpoints),
        evaluated=evaluated,
        report=bool(keep.kept_steps(run)),
        history=keep.history_file(run).is_file(),
        failures=bool(keep.kept_failures_steps(run)),
    )


def runs_table(
    rows: Sequence[RunRow],
    view: ViewState,
    now: float,
    facts: Mapping[str, Facts] | None = None,
    jobs: Sequence[Job] = (),
) -> Component:
    """Return the table of runs; every row is known by its id, so a new run never moves a tick."""
    known = facts or {}
    cells = [_cells(row, view, now, known.get(row.id, Facts()), [j for j in jobs if j.run == row.id]) for row in rows]
    return table(_COLUMNS, cells, "Runs in the store, newest first", className="runs")


def age(created: datetime | None, now: float) -> str:
    """Return how long ago a run was created."""
    return ago(max(0.0, now - created.timestamp())) if created else "–"


def button(label: str, do: str, on: str, title: str, named: str) -> Component:
    """Return a button that asks for something to be done, see assets/runs.js.

    Args:
        label: what is seen.
        do: what is asked for.
        on: id of the job or run.
        title: what it means.
        named: the whole of it for those who do not see the row.
    """
    return html.Button(label, type="button", title=title, **{"data-do": do, "data-on": on, "aria-label": named})


def stop_button(job: Job) -> Component:
    """Return the button that stops a job, a little harder every time."""
    label, title = _STOPS[min(job.asked, len(_STOPS) - 1)]
    if job.kind not in _TRAINS:
        title = "nothing is kept of what it measured so far"
    return button(label, "stop", job.id, title, f"{label}: {job.title}")


def _cells(row: RunRow, view: ViewState, now: float, facts: Facts, jobs: Sequence[Job]) -> list[Any]:
    icon, text = STATUS[row.status]
    status = html.Span(
        [html.Span(icon, className="icon", **{"aria-hidden": "true"}), text],
        className=f"status status-{row.status}",
        title=row.message or "",
    )
    if not row.readable:
        return ["", html.Bdi(row.id, className="id"), status, "–", "–", "–", "–", "–", "–", "", _reason(row.message)]
    ticked = row.id in view.runs
    tick = link(
        html.Span("✓" if ticked else "", className="box", **{"aria-hidden": "true"}),
        "/runs" + view.toggle_run(row.id).query(),
        role="checkbox",
        className="checkbox",
        title="Draw this run's curves",
        **{"aria-checked": "true" if ticked else "false", "aria-label": f"draw {row.id}"},
    )
    done = min(1.0, row.step / row.steps) if row.steps else 0.0
    steps = html.Span(
        [
            f"{row.step:,}",
            html.Span(f" / {row.steps:,}", className="quiet"),
            html.Span(html.Span(style={"width": f"{100 * done:.1f}%"}), className="progress"),
        ],
        className="steps",
    )
    exact = "–" if row.exact_match is None else f"{row.exact_match:.2f}"
    heads = " + ".join(map(str, row.heads)) if len(row.heads) <= 4 else f"{len(row.heads)} × {row.heads[0]}"
    return [
        tick,
        _name(row, view, facts),
        status,
        row.recipe,
        swatch(row.scheme) if row.scheme else "–",
        heads or "–",
        steps,
        exact,
        age(row.created, now),
        html.Span(_buttons(row, facts, [job for job in jobs if not job.outcome]), className="buttons"),
        _links(row, view, facts, jobs),
    ]


def _has_weights(row: RunRow, facts: Facts) -> bool:
    return row.status is Status.FINISHED or facts.checkpoints > 0


def _name(row: RunRow, view: ViewState, facts: Facts) -> Component:
    """Return the run's name, which opens it where there is most of it to be seen."""
    there, name = view.change(run=row.id).query(), html.Bdi(row.id, className="id")
    if row.captures:
        return link(name, "/attention" + there, title="Open in Attention")
    if _has_weights(row, facts):
        return link(name, "/playground" + there, title="Open in Playground")
    return name


def _buttons(row: RunRow, facts: Facts, working: Sequence[Job]) -> list[Component]:
    """Return what can be done with a run, given the jobs at work on it."""
    made: list[Component] = []
    training = next((job for job in working if job.kind in _TRAINS), None)
    if training is not None:
        made.append(stop_button(training))
    elif row.status is Status.TRAINING:
        title = "It was not started here: Ctrl-C where it was started stops it"
        made.append(html.Span("started elsewhere", className="quiet", title=title))
    elif row.status in RESUMABLE:
        made.append(button("Resume", "resume", row.id, "Go on from its last checkpoint", f"Resume {row.id}"))
    elif row.status is Status.FINISHED and not facts.evaluated:
        title = "Measure its exact match at all lengths"
        made.append(button("Evaluate", "resume", row.id, title, f"Evaluate {row.id}"))
    measured = {job.kind for job in working}
    if _has_weights(row, facts) and Kind.HEADS not in measured:
        title = "Measure what each head is: workbench heads RUN"
        made.append(button("Heads", "heads", row.id, title, f"Measure the heads of {row.id}"))
    if facts.checkpoints > 1 and Kind.HISTORY not in measured:
        title = f"Follow its heads over {facts.checkpoints} checkpoints: workbench heads RUN --checkpoints"
        made.append(button("History", "history", row.id, title, f"Follow the heads of {row.id} over its checkpoints"))
    if _has_weights(row, facts) and Kind.FAILURES not in measured:
        title = "Explain every failed copy: workbench failures RUN"
        made.append(button("Failures", "failures", row.id, title, f"Explain the failures of {row.id}"))
    return made


def _links(row: RunRow, view: ViewState, facts: Facts, jobs: Sequence[Job]) -> Component:
    """Return links to the pages that show this run, or why there is less of it than was planned."""
    message = row.message
    if row.status in (Status.KILLED, Status.FAILED) and not message:
        trained = next((job for job in jobs if job.kind in _TRAINS), None)
        message = trained.message if trained and trained.outcome else None
    if message:
        return _reason(message)
    there = view.change(run=row.id)
    number = f"{len(row.captures)} capture{'' if len(row.captures) == 1 else 's'}"
    links = []
    if row.captures:
        links.append(link("attention", "/attention" + there.query(), title=number))
        links.append(link("coordinates", "/coordinates" + there.query()))
    if facts.report:
        links.append(link("heads", "/heads" + there.query(), title="what each head is"))
    elif facts.history:
        links.append(link("history", "/heads" + there.change(pane="history").query(), title="how its heads formed"))
    if facts.failures:
        links.append(link("failures", "/failures" + there.query(), title="why each failed copy fails"))
    if not links and _has_weights(row, facts):
        links.append(link("playground", "/playground" + there.query(), title="how it copies a string of one's own"))
    if not links:
        return html.Span("no captures yet", className="quiet")
    parted = [part for one in links for part in (" · ", one)][1:]
    return html.Span(parted, className="look")


def _reason(message: str | None) -> Component:
    return html.Span(message, className="quiet reason", title=message)
