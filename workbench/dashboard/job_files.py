"""Files of jobs, see `jobs`: records, and what a process said last. All of it is text to show, and nothing more."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import Field, TypeAdapter, ValidationError

from models.errors import UsageError
from workbench.files import NEW_NAME, reporting, write_text
from workbench.runs import Store

FOLDER = ".jobs"  # hidden, so that it is no run
KEPT_BYTES = 64_000  # of what a process said; trimmed to this when it is four times as much
MOST_KEPT = 40  # jobs that have ended
_MESSAGE = 400  # characters of a message that is shown
_SETTING = 200  # characters of a setting that are shown

_NAME = re.compile(r"([0-9a-f]{8})\.json", re.ASCII)
_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_RUN = re.compile(rf"^(?:training|resuming) ({NEW_NAME.pattern}) on \w+, in ", re.ASCII | re.MULTILINE)
_ERROR = "error: "
_INTERRUPTED = "error: interrupted"


class Kind(StrEnum):
    """What a job does."""

    TRAIN = "train"
    RESUME = "resume"
    HEADS = "heads"
    HISTORY = "history"
    FAILURES = "failures"
    CAPTURE = "capture"


class Outcome(StrEnum):
    """How a job ended."""

    DONE = "done"
    STOPPED = "stopped"  # it was asked to
    FAILED = "failed"  # its message says why
    KILLED = "killed"
    ENDED = "ended"  # while no dashboard was there to see how


@dataclass(frozen=True)
class Job:
    """A process that was started, and what is known of it.

    Attributes:
        id: eight hexadecimal digits.
        kind: what it does.
        subject: the recipe, or the run.
        settings: overrides, `field=value`.
        pid, birth: the process, and when it began, seconds since 1970.
        started: when it was asked for, seconds since 1970.
        run: the run it trains or measures; None until a training has said its run's name.
        asked, asked_at: how often it was asked to stop, and when last.
        outcome: None while it is at work.
        message: the last thing it said.
        error: whether that was an error.
    """

    id: Annotated[str, Field(pattern=_ID.pattern)]
    kind: Kind
    subject: Annotated[str, Field(max_length=255)]
    settings: tuple[str, ...]
    pid: Annotated[int, Field(gt=1)]
    birth: float
    started: float
    run: Annotated[str, Field(max_length=255)] | None = None
    asked: int = 0
    asked_at: float = 0.0
    outcome: Outcome | None = None
    message: str = ""
    error: bool = False

    @property
    def title(self) -> str:
        """What it does, in a few words."""
        said = {
            Kind.TRAIN: f"training {self.subject}",
            Kind.RESUME: f"resuming {self.subject}",
            Kind.HEADS: f"measuring the heads of {self.subject}",
            Kind.HISTORY: f"following the heads of {self.subject}",
            Kind.FAILURES: f"explaining the failures of {self.subject}",
            Kind.CAPTURE: f"capturing a string of {self.subject}",
        }[self.kind]
        return " ".join([said, *self.details])

    @property
    def details(self) -> tuple[str, ...]:
        """Its settings as they are shown: a string that is captured may be thousands of tokens long."""
        return tuple(text if len(text) <= _SETTING else text[: _SETTING - 1] + "…" for text in self.settings)


_RECORD: TypeAdapter[Job] = TypeAdapter(Job)


def read(store: Store, job_id: str) -> Job:
    """Return a job as it was written; UsageError where there is none of that id."""
    if isinstance(job_id, str) and _ID.fullmatch(job_id):
        with suppress(OSError, ValidationError):
            return _RECORD.validate_json((store.root / FOLDER / f"{job_id}.json").read_bytes())
    raise UsageError("there is no such job; it may have been removed meanwhile")


def listed(store: Store) -> list[Job]:
    """Every job that can be read, newest first."""
    try:
        names = os.listdir(store.root / FOLDER)
    except OSError:
        return []
    jobs = []
    for match in filter(None, map(_NAME.fullmatch, names)):
        with suppress(UsageError):
            jobs.append(read(store, match[1]))
    return sorted(jobs, key=lambda job: (-job.started, job.id))


def write(store: Store, job: Job) -> None:
    """Write a job's record in one step; WorkbenchError where the store cannot be written to."""
    write_text(store.root / FOLDER / f"{job.id}.json", _RECORD.dump_json(job, indent=1).decode() + "\n")


def remove(store: Store, job_id: str) -> None:
    """Delete a job's files."""
    for ending in ("json", "log"):
        with suppress(OSError):
            (store.root / FOLDER / f"{job_id}.{ending}").unlink()


def prune(store: Store, jobs: list[Job]) -> None:
    """Delete the oldest of more ended jobs than are kept."""
    for job in [job for job in jobs if job.outcome][MOST_KEPT:]:
        jobs.remove(job)
        remove(store, job.id)


def new_log(store: Store, job_id: str) -> BinaryIO:
    """Open the file that takes what a job says. Every write goes to its end, so that it can be trimmed meanwhile."""
    folder = store.root / FOLDER
    with reporting(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / f"{job_id}.log", "xb", buffering=0, opener=_appending)


def said(store: Store, job: Job) -> dict[str, Any]:
    """What a job's log adds to its record: fields of `Job`. Trims the log where it has grown long."""
    path = store.root / FOLDER / f"{job.id}.log"
    text = _tail(path)
    lines = [line for line in text.splitlines() if line.strip()]
    run = _RUN.search(text)
    told = [line for line in lines if line.strip() != _INTERRUPTED and not _RUN.match(line)]
    last = told[-1].strip() if told else job.message
    return {
        "run": job.run or (run[1] if run else None),
        "message": _readable(last.removeprefix(_ERROR)),
        "error": bool(lines) and lines[-1].startswith(_ERROR),
    }


def _appending(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND, 0o666)


def _tail(path: Path) -> str:
    """Return the last KEPT_BYTES of a log."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - KEPT_BYTES))
            kept = file.read(KEPT_BYTES)
    except OSError:
        return ""
    if size > 4 * KEPT_BYTES:
        _trim(path, kept)
    return kept.decode("utf-8", errors="replace")


def _trim(path: Path, kept: bytes) -> None:
    """Leave only `kept` in a log. It stays the same file, which the process goes on appending to."""
    with suppress(OSError), open(path, "rb+", buffering=0) as file:
        file.truncate(0)
        file.write(kept)


def _readable(text: str) -> str:
    """Return a line that prints, of bounded length."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= _MESSAGE else line[: _MESSAGE - 1] + "…"
