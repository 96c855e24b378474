"""Jobs that the Failures page starts: a report on a run's failures, and the capture of one failed string."""

import re
from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import UsageError
from workbench.dashboard.job_files import Job, Kind, Outcome
from workbench.dashboard.jobs import Jobs
from workbench.dashboard.pages.failures_captured import Captured, attention_view
from workbench.dashboard.pages.failures_edits import longest
from workbench.dashboard.pages.failures_reports import Chosen
from workbench.dashboard.pages.failures_rerun import asks
from workbench.dashboard.pages.playground_strings import write_tokens
from workbench.dashboard.parts import link

_KINDS = (Kind.FAILURES, Kind.CAPTURE)
_DONE = re.compile(r": (\d{1,6})/(\d{1,6})(.*)$", re.ASCII)
_SHOWN = 3  # jobs at once
_STOPS = ("Stop", "Stop at once", "Kill")


def mine(jobs: Sequence[Job], run_id: str) -> list[Job]:
    """The jobs of a run that this page starts: those at work, and the newest of those that did not do their work."""
    own = [job for job in jobs if job.kind in _KINDS and job.run == run_id]
    working = [job for job in own if job.outcome is None]
    newest = {kind: next((job for job in own if job.kind is kind), None) for kind in _KINDS}
    failed = [job for job in newest.values() if job and job.outcome not in (None, Outcome.DONE)]
    return [*working, *failed][:_SHOWN]


def work(jobs: Sequence[Job], run_id: str) -> list[Component]:
    """Return a line a job: what it does, how far it is, and the button that stops it or takes it off the list."""
    return [html.P(_line(job), className="job-line") for job in mine(jobs, run_id)]


def is_working(jobs: Sequence[Job], run_id: str, kind: Kind) -> bool:
    """Whether a job of a kind is at work on a run."""
    return any(job.kind is kind and job.run == run_id and job.outcome is None for job in jobs)


def start_button(run_id: str, again: bool) -> Component:
    """Return the button that starts a report."""
    label = "Make it again" if again else "Explain the failures"
    title = "Explain every failed copy of this run: workbench failures RUN"
    return html.Button(
        label, type="button", title=title, className="" if again else "primary", **asks("explain", run_id)
    )


def way_to_attention(chosen: Chosen, captured: Captured, capturing: bool) -> Component:
    """Return the link to the failed row in Attention, or the button that captures the string for it."""
    found = captured.find(chosen)
    if found is not None:
        to = "/attention" + attention_view(chosen, found, row=chosen.row).query()
        title = f"String #{found[1]} of capture {found[0]}, at the failed row, query {chosen.row}"
        return link("Attention at the failed row", to, className="button", title=title)
    if capturing:
        return html.Span("being captured; Attention opens by itself …", className="quiet")
    title = "No capture with these weights holds this string: capture it, then open Attention at the failed row"
    return html.Button("Capture, then Attention", type="button", title=title, **asks("capture", chosen.key))


def capture(jobs: Jobs, chosen: Chosen) -> dict[str, Any]:
    """Start capturing the selected string; return what to wait for, see `arrived`.

    Raises:
        UsageError: there is no string, or it is longer than what a page captures.
        WorkbenchError: as `Jobs.capture`.
    """
    if chosen.failure is None:
        raise UsageError("no failure is selected, so there is no string to capture")
    if len(chosen.tokens) > longest(chosen):
        raise UsageError(
            f"a string of {len(chosen.tokens):,} tokens is longer than a page captures; the command line has no limit"
        )
    text = write_tokens(chosen.tokens, chosen.layout.alphabet)
    return {"for": chosen.key, "job": jobs.capture(chosen.run.id, text, chosen.content.step).id}


def arrived(awaits: dict[str, Any], chosen: Chosen, captured: Captured, jobs: Sequence[Job]) -> str | None:
    """Return where to go now that a capture is there, "" to wait longer, None to wait no more.

    Args:
        awaits: what `capture` returned.
        chosen: what is shown now; while it is another failure nobody is taken away from it.
        captured: finds the string.
        jobs: all there are.
    """
    if awaits.get("for") != chosen.key:
        return None
    found = captured.find(chosen)
    if found is not None:
        return "/attention" + attention_view(chosen, found, row=chosen.row).query()
    job = next((job for job in jobs if job.id == awaits.get("job")), None)
    return "" if job is not None and job.outcome in (None, Outcome.DONE) else None


def _line(job: Job) -> list[Any]:
    told: list[Any] = [html.B(job.title.split(" text=")[0])]
    if job.outcome is not None:
        sign = html.Span("✕", className="icon bad", **{"aria-hidden": "true"})
        end = html.Button(
            "×", type="button", **asks("forget", job.id), **{"aria-label": f"take off the list: {job.title}"}
        )
        return [sign, *told, f" {job.outcome.value}: {job.message or 'it said nothing'} ", end]
    stop = html.Button(_STOPS[min(job.asked, 2)], type="button", title="nothing is kept of it", **asks("stop", job.id))
    share = _DONE.search(job.message)
    if job.asked:
        told.append(" · stopping ")
    elif share and int(share[2]):
        done, total, rest = int(share[1]), int(share[2]), share[3].strip()
        bar = html.Progress(value=str(done), max=str(total), **{"aria-label": f"{done} of {total}"})
        told += [" ", bar, f" {done / total:.0%} · {rest} " if rest else f" {done / total:.0%} "]
    else:
        told += [" ", html.Progress(**{"aria-label": "at work"}), f" {job.message or 'starting'} "]
    return [*told, stop]
