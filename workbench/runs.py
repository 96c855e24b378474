"""The run store: a folder of runs, each a folder of files. Never imports torch, so that a dashboard starts at once.

store/<run id>/
    config.toml           the recipe: everything needed to rebuild and retrain
    run.json              id, recipe, seed, created, device, versions, state, message, step, steps
    metrics.jsonl         one record a line, appended while training
    checkpoints/          00000100.safetensors: weights at a step; state.safetensors: for --resume
    weights.safetensors   the final weights
    evaluation.json       length generalisation of the final weights
    captures/<id>/        what the attention page shows
    lock                  held by the process that trains
"""

import fcntl
import os
import secrets
import shlex
import shutil
import time
import tomllib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from models.errors import UsageError, WorkbenchError
from models.registry import unknown
from workbench.files import child_of, read_json, reporting
from workbench.records import is_score, last_evaluation, last_record, mean_exact_match, read_records
from workbench.soundness import config_fault, require_sound, tensors_fault

FORMAT = 1
LATEST = "latest"
AT = "@"  # between a run and a step of its weights; no run's id has one
STORE_VARIABLE = "COPY_WORKBENCH_STORE"
_OUR_FILES = ("run.json", "config.toml", "metrics.jsonl")
_ABANDONED_SECONDS = 3600
_DIGITS = 12  # of a step


class Status(StrEnum):
    """What a folder of the store is."""

    FINISHED = "finished"
    TRAINING = "training"
    INTERRUPTED = "interrupted"  # stopped by Ctrl-C or SIGTERM, at a checkpoint
    FAILED = "failed"  # its message says why
    KILLED = "killed"  # its state says training, but no process holds its lock
    UNREADABLE = "unreadable"  # ours, but damaged or of a newer format; its message says how
    FOREIGN = "foreign"  # not a run at all


@dataclass(frozen=True)
class Run:
    """One folder of a store, as it was when it was read.

    Attributes:
        path: the folder; its name is the run's id.
        status: what the folder is. The fields below are empty where it is unreadable or foreign.
        recipe: name of the recipe.
        seed: of initialisation and data.
        created: when training began, UTC.
        device: "cpu", "cuda", "mps".
        versions: version of Python and of each library that decides the result.
        step, steps: optimiser steps done and planned.
        message: why it failed or cannot be read.
    """

    path: Path
    status: Status
    recipe: str = ""
    seed: int | None = None
    created: datetime | None = None
    device: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    step: int = 0
    steps: int = 0
    message: str | None = None

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def readable(self) -> bool:
        """Whether this is a run whose files can be used."""
        return self.status not in (Status.UNREADABLE, Status.FOREIGN)

    @property
    def config_text(self) -> str:
        """The recipe as stored, TOML; a damaged file raises WorkbenchError."""
        with reporting(f"read {self.path / 'config.toml'}"):
            return (self.path / "config.toml").read_text(encoding="utf-8", errors="replace")

    @property
    def config(self) -> dict[str, Any]:
        """The recipe as stored, parsed but not validated; a damaged file raises WorkbenchError."""
        try:
            return tomllib.loads(self.config_text)
        except tomllib.TOMLDecodeError as error:
            raise WorkbenchError(f"{self.path / 'config.toml'} is not valid TOML: {error}") from None

    @property
    def train_lengths(self) -> tuple[int, int] | None:
        """Shortest and longest string it is trained on; None where the config does not say."""
        try:
            low, high = self.config["task"]["lengths"]
            return int(low), int(high)
        except (KeyError, TypeError, ValueError, WorkbenchError):
            return None

    @property
    def evaluation(self) -> dict[str, Any] | None:
        """Content of evaluation.json: {"results", "seed", "seconds"}; None where there is none, or a damaged one."""
        try:
            content = read_json(self.path / "evaluation.json")
        except ValueError:
            return None
        results = content.get("results")
        return content if isinstance(results, list) and all(map(is_score, results)) else None

    @property
    def evaluation_fault(self) -> str | None:
        """What is wrong with evaluation.json; None where it can be used, or there is none."""
        if not os.path.lexists(self.path / "evaluation.json") or self.evaluation is not None:
            return None
        try:
            read_json(self.path / "evaluation.json")
        except ValueError as error:
            return str(error)
        return "evaluation.json holds no results"

    @property
    def exact_match(self) -> float | None:
        """Mean exact match at string lengths within the training range, of the newest evaluation there is."""
        evaluation = self.evaluation
        results = evaluation["results"] if evaluation else last_evaluation(self.path / "metrics.jsonl")
        return mean_exact_match(results, self.train_lengths)

    @property
    def last_record(self) -> dict[str, Any]:
        """The newest metric record; empty before the first."""
        return last_record(self.path / "metrics.jsonl")

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Steps whose weights were kept, ascending."""
        names = _names(self.path / "checkpoints")
        return tuple(sorted(int(name[:-12]) for name in names if _is_checkpoint(name)))

    def checkpoint_path(self, step: int) -> Path:
        """Return the file with the weights at `step`; UsageError names the steps there are."""
        if step not in self.checkpoints:
            known = ", ".join(map(str, self.checkpoints)) or "none"
            raise UsageError(f"run {self.id} kept no checkpoint at step {step}. Kept: {known}")
        return self.path / "checkpoints" / checkpoint_name(step)

    @property
    def captures(self) -> tuple[str, ...]:
        """Ids of the captures that are complete, newest first."""
        folder = self.path / "captures"
        written = {name: _changed_at(folder / name / "capture.json") for name in _names(folder) if name[0] != "."}
        complete = [(-changed, name) for name, changed in written.items() if changed is not None]
        return tuple(name for _, name in sorted(complete))

    def capture_path(self, capture_id: str) -> Path:
        """Return the folder of a capture; UsageError for a name that is none of this run's."""
        folder = child_of(self.path, "captures", "folder")
        path = child_of(folder, capture_id, "capture")
        if not (path / "capture.json").is_file():
            raise UsageError(unknown("capture", capture_id, list(self.captures)))
        return path


class Store:
    """A folder of runs. It need not exist before the first run is created.

    Attributes:
        root: the folder.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        """Take `root`, else the folder in COPY_WORKBENCH_STORE, else `runs` in the current folder."""
        self.root = Path(root or os.environ.get(STORE_VARIABLE) or "runs").absolute()

    @property
    def option(self) -> str:
        """What a command line needs to find this store, with a leading space; nothing for the default one."""
        return "" if self.root == Store().root else f" --store {shlex.quote(str(self.root))}"

    def require(self) -> None:
        """Raise UsageError where this is no folder of runs and cannot become one."""
        if self.root.is_dir():
            if not _may(self.root, os.R_OK | os.X_OK):
                raise UsageError(f"the store {self.root} cannot be read; choose another folder with --store")
            return
        there = next(path for path in (self.root, *self.root.parents) if os.path.lexists(path))
        if not there.is_dir():
            what = "it" if there == self.root else str(there)
            raise UsageError(f"{self.root} cannot be a store: {what} is a file; choose a folder with --store")
        if not _may(there, os.W_OK | os.X_OK):
            raise UsageError(
                f"the store {self.root} is not there and cannot be made: {there} cannot be written to; choose another "
                f"folder with --store"
            )

    def path_of(self, run_id: str) -> Path:
        """Return the folder of `run_id`, which came from outside; UsageError where it is no child of the store."""
        return child_of(self.root, run_id, "run")

    def runs(self) -> list[Run]:
        """Return every folder of the store, newest run first, unreadable and foreign folders last. Never raises."""
        found = [self._read(self.root / name) for name in _names(self.root) if not name.startswith(".")]
        present = [run for run in found if run is not None]
        return sorted(present, key=lambda run: (run.created is None, -_seconds(run.created), run.id))

    def open(self, name: str) -> Run:
        """Return the run called `name`: an id, a prefix that only one id has, or `latest`.

        Raises:
            UsageError: no such run, several of them, a folder that is not a run, or a store that cannot be one.
            WorkbenchError: the run is unreadable.
        """
        run = self.find(name)
        if run.status is Status.FOREIGN:
            raise UsageError(f"{run.id!r} in {self.root} is not a run: {run.message}")
        if run.status is Status.UNREADABLE:
            raise WorkbenchError(f"run {run.id!r} cannot be read: {run.message}")
        return run

    def find(self, name: str) -> Run:
        """Return the folder called `name` as `open` does, but also one that is unreadable or foreign."""
        runs = self.runs()
        if not runs:
            self.require()
        if name == LATEST:
            damaged = [run for run in runs if run.status is Status.UNREADABLE]
            if damaged and not runs[0].readable:
                raise WorkbenchError(f"no run in {self.root} can be read; {damaged[0].id}: {damaged[0].message}")
            if not runs or not runs[0].readable:
                raise UsageError(
                    f"there is no run in {self.root} yet; train one with: workbench train RECIPE{self.option}"
                )
            return runs[0]
        path = self.path_of(name)
        matches = [run for run in runs if run.path == path] or [run for run in runs if run.id.startswith(name)]
        if not matches and AT in name:
            whole = name.split(AT)[0]
            raise UsageError(f"{name!r} names a step of a run, and a whole run is asked for here: give {whole}")
        if not matches:
            raise UsageError(unknown("run", name, [run.id for run in runs]) + f" (in {self.root})")
        if len(matches) > 1:
            raise UsageError(f"{name!r} begins several runs: {', '.join(run.id for run in matches)}; add letters")
        return matches[0]

    def remove(self, run: Run) -> None:
        """Delete a run, or a damaged one. It is renamed first, so that no reader meets half of it.

        Raises:
            UsageError: the folder is not a run.
            WorkbenchError: the run is training, or the folder cannot be changed.
        """
        path = self.path_of(run.id)
        if run.status is Status.FOREIGN:
            raise UsageError(f"{run.id!r} is not a run, so it is left alone: {run.message}")
        if is_locked(path):
            raise WorkbenchError(f"run {run.id} is training; stop it before removing it")
        with reporting(f"remove {path}"):
            hidden = self.root / f".removed-{secrets.token_hex(8)}"
            os.rename(path, hidden)
            shutil.rmtree(hidden)
        self._sweep()

    def _sweep(self) -> None:
        """Delete what a killed `create` or `remove` left behind."""
        for name in _names(self.root):
            changed = _changed_at(self.root / name)
            abandoned = changed is not None and time.time() - changed > _ABANDONED_SECONDS
            if name.startswith((".removed-", ".new-")) and abandoned:
                shutil.rmtree(self.root / name, ignore_errors=True)

    def _read(self, path: Path) -> Run | None:
        """Return what `path` is; None where it is a plain file, or gone."""
        try:
            child_of(self.root, path.name, "run")
        except UsageError:
            return Run(path, Status.FOREIGN, message="it is a link, or its name is not one of ours")
        if not path.is_dir():
            return None
        if not any((path / name).exists() for name in _OUR_FILES):
            return Run(path, Status.FOREIGN, message="it has no run.json")
        try:
            return _parse(path, read_json(path / "run.json"))
        except ValueError as error:
            return Run(path, Status.UNREADABLE, message=str(error)) if path.is_dir() else None


def checkpoint_name(step: int) -> str:
    """Return the file name of the weights at `step`."""
    return f"{step:08d}.safetensors"


def split_step(name: str) -> tuple[str, int | None]:
    """Return the name and the step of `NAME@STEP`, None where none is given; UsageError for what is no step."""
    subject, at, step = name.rpartition(AT)
    if not at:
        return name, None
    if not (step.isascii() and step.isdigit() and len(step) <= _DIGITS):
        raise UsageError(f"{name!r}: {step!r} is no step; give a whole number behind the {AT}, as in RUN{AT}250")
    return subject, int(step)


def new_run_id(recipe: str, seed: int) -> str:
    """Return an id for a new run, such as `rope-2l-s0-3fa9`."""
    return f"{recipe}-s{seed}-{secrets.token_hex(2)}"


def read_metrics(run: Run, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the metric records of `run` from byte `offset` on, and the next offset, see `records.read_records`."""
    return read_records(run.path, offset)


def is_locked(path: Path) -> bool:
    """Return whether a living process trains the run in `path`."""
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _parse(path: Path, info: dict[str, Any]) -> Run:
    """Build a Run from its run.json; ValueError says what is wrong with it."""
    if info.get("format") != FORMAT:
        raise ValueError(f"run.json has format {info.get('format')!r}, this version reads {FORMAT}")
    try:
        run = Run(
            path=path,
            status=Status(info["state"]),
            recipe=str(info["recipe"]),
            seed=int(info["seed"]),
            created=datetime.fromisoformat(info["created"]).astimezone(UTC),
            device=str(info["device"]),
            versions=tuple((str(k), str(v)) for k, v in dict(info["versions"]).items()),
            step=int(info["step"]),
            steps=int(info["steps"]),
            message=None if info["message"] is None else str(info["message"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"run.json is incomplete or damaged ({type(error).__name__}: {error})") from None
    require_sound(path / "config.toml", config_fault)
    if run.status is Status.FINISHED:
        if not (path / "weights.safetensors").is_file():
            raise ValueError("it is finished, but weights.safetensors is missing")
        require_sound(path / "weights.safetensors", tensors_fault)
        return run
    if run.status is Status.TRAINING:
        status = Status.TRAINING if is_locked(path) else Status.KILLED
        return replace(run, status=status, step=max(run.last_record.get("step", 0), run.step))
    return run


def _may(path: Path, what: int) -> bool:
    """Whether this process may do `what` (os.R_OK, ...) to `path`."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def _names(folder: Path) -> list[str]:
    """Return the names in `folder`; none where it cannot be listed."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_checkpoint(name: str) -> bool:
    return name.endswith(".safetensors") and name[:-12].isascii() and name[:-12].isdigit()


def _changed_at(path: Path) -> float | None:
    """Return when `path` was changed, in seconds since 1970; None where it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0
