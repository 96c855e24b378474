"""Trainings and measurements that a page starts: processes of their own, which go on when the dashboard is closed.

store/.jobs/<id>.json   what was started, by which process, and how it ended
store/.jobs/<id>.log    the last of what it said on stderr

A job is this installation's own command line, `python -m workbench train ...`, given its words one by one and never
through a shell. A process is signalled only while it still is the one that was started: number, moment of birth and
command line must agree, whatever the file says.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
from dash import Dash

import workbench
from models.errors import UsageError, WorkbenchError
from models.registry import unknown
from workbench.dashboard import job_files
from workbench.dashboard.data import Data
from workbench.dashboard.job_files import Job, Kind, Outcome
from workbench.dashboard.recipes import known_recipes, require_seed
from workbench.files import reporting
from workbench.runs import Status, Store

PROGRAM = (sys.executable, "-m", "workbench")
AT_ONCE = max(2, (os.cpu_count() or 1) // 4)  # each training takes all cores it can get
RESUMABLE = (Status.INTERRUPTED, Status.KILLED, Status.FAILED)

_FRESH_SECONDS = 0.3
_SAME_CLICK = 1.0  # seconds within which a second request to stop is the first one's double click
_BIRTH_TOLERANCE = 2.0  # seconds; the moment is computed from the clock, which may be set
_INTERRUPTED = 130  # the command line's exit code
_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
_OUTCOMES = {
    Status.FINISHED: Outcome.DONE,
    Status.INTERRUPTED: Outcome.STOPPED,
    Status.FAILED: Outcome.FAILED,
    Status.KILLED: Outcome.KILLED,
}


class Jobs:
    """The jobs of one store, shared by all callbacks and threads of a dashboard.

    Attributes:
        store: the run store.
        at_once: the most that run at a time.
    """

    def __init__(self, store: Store, at_once: int = AT_ONCE, program: Sequence[str] = PROGRAM) -> None:
        """Take the store, the most jobs at a time, and the command line that is started."""
        self.store, self.at_once = store, at_once
        self._program = tuple(program)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        self._listed: tuple[float, list[Job]] = (-_FRESH_SECONDS, [])

    def train(self, recipe: str, seed: int | None = None, settings: Sequence[str] = ()) -> Job:
        """Start training a recipe that comes with the workbench.

        Args:
            recipe: its name; a path is refused.
            seed: in place of the recipe's.
            settings: see `recipes.read_settings`; the command line checks their fields and values.

        Raises:
            UsageError: an unknown recipe or an impossible seed.
            WorkbenchError: the same training is at work, too many jobs are, or the store cannot be written to.
        """
        if recipe not in known_recipes():
            raise UsageError(unknown("recipe", recipe[:80], list(known_recipes())))
        more = () if seed is None else (f"seed={require_seed(seed)}",)
        return self._start(Kind.TRAIN, recipe, (*settings, *more))

    def resume(self, run_id: str) -> Job:
        """Go on with an unfinished run, or make up for a finished one's evaluation.

        Raises:
            UsageError: there is no such run, or there is nothing to go on with.
            WorkbenchError: it is at work, too many jobs are, or the store cannot be written to.
        """
        run = self.store.open(run_id)
        if run.status not in RESUMABLE and (run.status is not Status.FINISHED or run.evaluation):
            raise UsageError(f"run {run.id} is {run.status.value}; there is nothing to resume")
        return self._start(Kind.RESUME, run.id)

    def measure(self, run_id: str, kind: Kind) -> Job:
        """Start a report on a run: Kind.HEADS, Kind.HISTORY (how they formed) or Kind.FAILURES; raises as above."""
        return self._start(kind, self.store.open(run_id).id)

    def capture(self, run_id: str, text: str, step: int) -> Job:
        """Start capturing one string of a run with the weights of a step.

        Args:
            run_id: of the run.
            text: the string, as `workbench capture --text` takes it.
            step: one whose weights were kept; a finished run's last needs no checkpoint.

        Raises:
            UsageError, WorkbenchError: as above.
        """
        run = self.store.open(run_id)
        newest = run.status is Status.FINISHED and step == run.step
        more = () if newest else (f"checkpoint={step}",)
        return self._start(Kind.CAPTURE, run.id, (f"text={text}", *more))

    def stop(self, job_id: str) -> Job:
        """Ask a job to stop: first at a checkpoint, then at once, then by force.

        SIGTERM is to the command line what Ctrl-C is; unlike SIGINT it is not ignored by the children of a dashboard
        that a shell started in the background.

        Raises:
            UsageError: there is no such job, or it has ended.
        """
        with self._lock:
            job = self._settle(job_files.read(self.store, job_id))
            if job.outcome:
                raise UsageError(f"{job.title} has ended")
            if time.time() - job.asked_at < _SAME_CLICK:
                return job
            with suppress(ProcessLookupError):
                os.kill(job.pid, signal.SIGTERM if job.asked < 2 else signal.SIGKILL)
            return self._keep(replace(job, asked=job.asked + 1, asked_at=time.time()))

    def forget(self, job_id: str) -> None:
        """Take a job that has ended off the list; UsageError where there is no such job or it is at work."""
        with self._lock:
            job = self._settle(job_files.read(self.store, job_id))
            if not job.outcome:
                raise UsageError(f"{job.title} is at work; stop it first")
            job_files.remove(self.store, job.id)
            self._listed = (-_FRESH_SECONDS, [])

    def all(self) -> list[Job]:
        """Every job, newest first, as it is now."""
        with self._lock:
            read_at, jobs = self._listed
            if time.monotonic() - read_at >= _FRESH_SECONDS:
                jobs = [self._settle(job) for job in job_files.listed(self.store)]
                job_files.prune(self.store, jobs)
                self._listed = (time.monotonic(), jobs)
            return jobs

    def working(self) -> list[Job]:
        """The jobs that have not ended."""
        return [job for job in self.all() if not job.outcome]

    def _start(self, kind: Kind, subject: str, settings: tuple[str, ...] = ()) -> Job:
        with self._lock:
            self._listed = (-_FRESH_SECONDS, [])
            working = self.working()
            for job in working:
                same = (job.kind, job.subject, job.settings) == (kind, subject, settings)
                trains = kind is Kind.RESUME and job.run == subject and job.kind in (Kind.TRAIN, Kind.RESUME)
                if same or trains:
                    raise WorkbenchError(f"{job.title} is at work already")
            if len(working) >= self.at_once:
                raise WorkbenchError(
                    f"{len(working)} jobs are at work, and at most {self.at_once} run at a time on this machine; "
                    f"wait for one to end, or stop one"
                )
            self.store.require()
            job_id = secrets.token_hex(4)
            words = (*self._program, *_words(kind, subject, settings), "--store", str(self.store.root))
            process = self._launch(job_id, words)
            self._children[job_id] = process
            with suppress(psutil.Error):
                birth = psutil.Process(process.pid).create_time()
            job = Job(
                id=job_id, kind=kind, subject=subject, settings=settings, pid=process.pid, birth=birth,
                started=time.time(), run=None if kind is Kind.TRAIN else subject,
            )  # fmt: skip
            try:
                return self._keep(job)
            except BaseException:
                process.terminate()
                raise

    def _launch(self, job_id: str, words: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start a process in a session of its own, so that Ctrl-C in the server's terminal does not reach it."""
        environment = {name: value for name, value in os.environ.items() if name not in _TERMINAL}
        home = Path(workbench.__file__).parent.parent
        with reporting(f"start a job in {self.store.root}"), job_files.new_log(self.store, job_id) as log:
            return subprocess.Popen(
                words, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _settle(self, job: Job) -> Job:
        """Return a job with what became of it since its file was written, and write that down."""
        if job.outcome:
            child = self._children.pop(job.id, None)
            if child is not None:  # another server was the first to see it end
                child.poll()
            return job
        going = self._is_going(job)  # asked first: what it said last is read after it has ended
        now = replace(job, **job_files.said(self.store, job))
        if not going:
            child = self._children.pop(job.id, None)
            now = self._ended(now, None if child is None else child.returncode)
        if now != job:
            with suppress(WorkbenchError):  # a disk that is full is no reason not to show what is known
                self._keep(now)
        return now

    def _is_going(self, job: Job) -> bool:
        child = self._children.get(job.id)
        if child is not None:
            return child.poll() is None
        try:
            process = psutil.Process(job.pid)
            words = process.cmdline()[1:]
            ours = words[: len(self._program) - 1] == list(self._program[1:]) and str(self.store.root) in words
            born = abs(process.create_time() - job.birth) < _BIRTH_TOLERANCE
            return ours and born and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OverflowError):
            return False

    def _ended(self, job: Job, code: int | None) -> Job:
        """Say how a job ended: by its exit code, or where another server had started it, by what it left behind."""
        if code is not None and code < 0:
            how = f"ended by {_signal_name(-code)}"
            if -code == signal.SIGKILL and not job.asked:
                how += ", as the system does where memory runs out"
            message = f"{how}; before that: {job.message}" if job.message else how
            return replace(job, outcome=Outcome.STOPPED if job.asked else Outcome.KILLED, message=message)
        if code:
            outcome = Outcome.STOPPED if code == _INTERRUPTED else Outcome.FAILED
        elif job.error:
            outcome = Outcome.STOPPED if job.asked else Outcome.FAILED
        else:
            outcome = self._left(job, Outcome.ENDED if code is None else Outcome.DONE)
        return replace(job, outcome=outcome)

    def _left(self, job: Job, otherwise: Outcome) -> Outcome:
        """Say how a training ended by the state of its run: a code of 0 also stands for one that another has read."""
        if job.kind in (Kind.TRAIN, Kind.RESUME) and job.run:
            with suppress(WorkbenchError):
                return _OUTCOMES.get(self.store.open(job.run).status, otherwise)
        return otherwise

    def _keep(self, job: Job) -> Job:
        job_files.write(self.store, job)
        self._listed = (-_FRESH_SECONDS, [])
        return job


def jobs_of(app: Dash, data: Data) -> Jobs:
    """Return the jobs of an app, the same for all of its pages."""
    kept: Jobs = app.server.extensions.setdefault("workbench-jobs", Jobs(data.store))
    return kept


def farewell(app: Dash) -> Iterator[str]:
    """What is said when the server ends: which jobs go on without it."""
    jobs: Jobs | None = app.server.extensions.get("workbench-jobs")
    for job in jobs.working() if jobs else ():
        yield f"{job.title} goes on without the dashboard, as process {job.pid}; open the dashboard again to stop it"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _words(kind: Kind, subject: str, settings: Sequence[str]) -> list[str]:
    """The command line of a job after the program's name; a value is joined to its option, so it is never one itself.

    A run that is resumed keeps its settings.
    """
    return {
        Kind.TRAIN: ["train", subject, *(f"--set={setting}" for setting in settings)],
        Kind.RESUME: ["train", f"--resume={subject}"],
        Kind.HEADS: ["heads", subject],
        Kind.HISTORY: ["heads", subject, "--checkpoints"],
        Kind.FAILURES: ["failures", subject],
        Kind.CAPTURE: ["capture", subject, *(f"--{setting}" for setting in settings)],
    }[kind]
