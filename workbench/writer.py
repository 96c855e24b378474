"""Writing a run: the one process that trains it holds its lock, appends its records and moves its state on."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from models.errors import UsageError, WorkbenchError
from workbench.files import reporting, sync_folder, write_json, write_text
from workbench.records import read_records
from workbench.runs import FORMAT, Run, Status, Store, new_run_id

_LOCK_TRIES = 20  # a listing holds the lock for an instant to look at it


@dataclass(frozen=True)
class Header:
    """What run.json says of a run from its start on.

    Attributes:
        recipe: the recipe's name.
        seed: of initialisation and data.
        steps: planned optimiser steps.
        device: where it is trained.
        versions: version of Python and of each library that decides the result.
    """

    recipe: str
    seed: int
    steps: int
    device: str
    versions: Mapping[str, str]


class RunWriter:
    """A run that this process trains. A context manager: leaving it lets the lock go.

    Attributes:
        path: the run's folder.
        step: the last step whose state is on disk.
    """

    def __init__(self, path: Path, created: datetime) -> None:
        """Take the run's lock; use `create` or `resume`."""
        self.path = path
        self.step = 0
        self._created = created
        self._header: Header | None = None
        self._metrics = -1
        self._lock = _take_lock(path)

    @classmethod
    def create(cls, store: Store, header: Header, config: str) -> Self:
        """Make a new run in `store`, in state training, with `config` as its config.toml.

        The folder is filled under a hidden name and renamed, so that it is never seen half-made.

        Raises:
            WorkbenchError: the store cannot be written to.
        """
        run_id = new_run_id(header.recipe, header.seed)
        path = store.path_of(run_id)
        hidden = store.root / f".new-{run_id}"
        with reporting(f"create a run in {store.root}"):
            store.root.mkdir(parents=True, exist_ok=True)
            hidden.mkdir()
            writer = None
            try:
                write_text(hidden / "config.toml", config)
                writer = cls(hidden, datetime.now(UTC).replace(microsecond=0))
                writer.begin(header, 0)
                os.rename(hidden, path)
                sync_folder(store.root)
            except BaseException:
                if writer:
                    writer.close()
                shutil.rmtree(hidden, ignore_errors=True)
                raise
        writer.path = path
        return writer

    @classmethod
    def resume(cls, run: Run) -> Self:
        """Take hold of an unfinished run; `begin` then says where it goes on.

        Raises:
            UsageError: the run is finished.
            WorkbenchError: another process trains it, or it cannot be written to.
        """
        if run.status is Status.FINISHED:
            raise UsageError(f"run {run.id} is finished; there is nothing to resume")
        return cls(run.path, run.created or datetime.now(UTC))

    def begin(self, header: Header, step: int) -> None:
        """Set the state to training at `step`, and take back the metrics of later steps."""
        self._header = header
        records, _ = read_records(self.path)
        kept = [json.dumps(record, allow_nan=False) + "\n" for record in records if record["step"] <= step]
        write_text(self.path / "metrics.jsonl", "".join(kept))
        with reporting(f"write {self.path / 'metrics.jsonl'}"):
            self._metrics = os.open(self.path / "metrics.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.set_state(Status.TRAINING, step=step)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record to metrics.jsonl. When the disk is full the file is left as it was."""
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        with reporting(f"write {self.path / 'metrics.jsonl'}"):
            size = os.fstat(self._metrics).st_size
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._metrics, line[written:])
            except BaseException:
                os.ftruncate(self._metrics, size)
                raise

    def sync(self) -> None:
        """Return when every record has reached the disk."""
        with reporting(f"write {self.path / 'metrics.jsonl'}"):
            os.fsync(self._metrics)

    def set_state(self, state: Status, message: str | None = None, step: int | None = None) -> None:
        """Write run.json with `state`, and with `step` where what is on disk has moved on."""
        assert self._header is not None, "begin() comes first"
        self.step = self.step if step is None else step
        self.sync()
        write_json(
            self.path / "run.json",
            {
                "format": FORMAT,
                "id": self.path.name.removeprefix(".new-"),
                "recipe": self._header.recipe,
                "seed": self._header.seed,
                "created": self._created.isoformat(),
                "device": self._header.device,
                "versions": dict(self._header.versions),
                "state": state.value,
                "message": message,
                "step": self.step,
                "steps": self._header.steps,
            },
        )

    def close(self) -> None:
        """Let the lock and the files go."""
        for descriptor in (self._metrics, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._metrics = self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _take_lock(path: Path) -> int:
    """Return a descriptor that holds the lock of the run in `path`; WorkbenchError where another process has it."""
    with reporting(f"lock {path}"):
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    for _ in range(_LOCK_TRIES):
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        time.sleep(0.01)
    os.close(descriptor)
    raise WorkbenchError(f"run {path.name} is being trained by another process")
