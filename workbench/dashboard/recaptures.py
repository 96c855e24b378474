"""Captured strings under other weights than they were captured with: of an earlier checkpoint, or of another run.

Each is a capture of one string in a temporary folder of this process, made in the background, so that everything that
shows captures shows it unchanged. A bounded number is kept; nothing is written to the store.
"""

import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.attention import ABOUT_FILE, Capture, CapturedString, open_capture
from models.errors import UsageError, WorkbenchError
from workbench.dashboard.parts import Nothing

if TYPE_CHECKING:
    from workbench.dashboard.live_models import Live, LiveModels

LONGEST = 4096  # tokens of a string with prefix, delimiter and copy
LARGEST = 128 << 20  # bytes of one string
_KEPT, _BYTES = 64, 512 << 20  # strings, and bytes of all of them
_FAREWELL = 5.0  # seconds that closing waits at most
_PATIENCE = 0.15  # seconds that a request waits before it says that there is something to wait for
_FAILURES = 64


class Recapturing(WorkbenchError):
    """A string is being captured again."""


@dataclass(frozen=True)
class Wanted:
    """A string under the weights of a run.

    Attributes:
        run: id of the run whose weights are looked at.
        step: whose weights were kept; None for the newest.
        owner: id of the run whose capture the string is from.
        capture: that capture.
        index: of the string.
    """

    run: str
    step: int | None
    owner: str
    capture: Capture
    index: int

    @property
    def string(self) -> CapturedString:
        """The string as it was captured."""
        return self.capture.string(self.index)


@dataclass
class _Job:
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Recaptures:
    """Strings captured again, shared by all callbacks and threads of a dashboard.

    Attributes:
        models: where weights come from; set before the first request.
    """

    models: "LiveModels"

    def __init__(self, option: str) -> None:
        """Take what a command line needs to find the store, see `Store.option`."""
        self._option = option
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._kept: OrderedDict[Hashable, tuple[Capture, int]] = OrderedDict()
        self._jobs: dict[Hashable, _Job] = {}
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._made = 0
        self._closed = False

    def get(self, wanted: Wanted, patience: float = _PATIENCE) -> Capture:
        """Return a capture whose only string is the one wanted, or start making it.

        Args:
            wanted: which string under which weights.
            patience: seconds to wait for it.

        Raises:
            Recapturing: it is being made.
            UsageError, WorkbenchError: there are no such weights, the string is too long, or it has tokens that the
                model does not know.
        """
        key = self._key(wanted)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            job = self._jobs.get(key)
            if job is None:
                self._require_size(wanted)
                job = self._start(key, wanted)
            elif job.error is not None:
                raise job.error
        if not job.done.wait(patience):
            at = "the newest weights" if wanted.step is None else f"the weights of step {wanted.step:,}"
            raise Recapturing(f"the string is being run under {at} of {wanted.run}")
        if job.error is not None:
            raise job.error
        return self.get(wanted, patience)

    def prepare(self, wanted: Wanted, steps: Sequence[int]) -> None:
        """Start making what is wanted under the weights of other steps, without waiting; what fails is left."""
        for step in steps:
            other = Wanted(wanted.run, step, wanted.owner, wanted.capture, wanted.index)
            try:
                key = self._key(other)
                self._require_size(other)
            except WorkbenchError:
                continue
            with self._lock:
                if key not in self._kept and key not in self._jobs:
                    self._start(key, other)

    def close(self) -> None:
        """Remove what was made; waits for the string that is being run, in the midst of which no process must end."""
        self._closed = True
        with self._lock:
            working = list(self._jobs.values())
        give_up = time.monotonic() + _FAREWELL
        for job in working:
            job.done.wait(max(0.0, give_up - time.monotonic()))
        with self._lock:
            self._kept.clear()
            if self._home is not None:
                self._home.cleanup()
                self._home = None

    def _key(self, wanted: Wanted) -> Hashable:
        about = wanted.capture.folder / ABOUT_FILE
        return self.models.weights_key(wanted.run, wanted.step), about, about.stat().st_mtime_ns, wanted.index

    def _require_size(self, wanted: Wanted) -> None:
        string = wanted.string
        tokens = len(string.tokens)
        if tokens <= LONGEST and string.path.stat().st_size <= LARGEST:
            return
        step = "" if wanted.step is None else f" --checkpoint {wanted.step}"
        raise Nothing(
            f"this string has {tokens:,} tokens, and a string is run under other weights from here up to {LONGEST:,} "
            f"tokens and {LARGEST >> 20} MB. Capture strings of that length with these weights on the command line",
            f"workbench capture {wanted.run}{step} --length {string.length} --strings 1{self._option}",
        )

    def _start(self, key: Hashable, wanted: Wanted) -> _Job:
        """Begin a job; the lock is held."""
        for old in [k for k, job in self._jobs.items() if job.done.is_set()][:-_FAILURES]:
            del self._jobs[old]
        job = self._jobs[key] = _Job()
        threading.Thread(target=self._make, args=(job, key, wanted), daemon=True).start()
        return job

    def _make(self, job: _Job, key: Hashable, wanted: Wanted) -> None:
        try:
            live = self.models.wait(wanted.run, wanted.step)
            with self._one_at_a_time:
                if self._closed:
                    raise WorkbenchError("the dashboard is being closed")
                capture = self._capture(live, wanted)
            size = sum(file.stat().st_size for file in capture.folder.iterdir())
            with self._lock:
                self._kept[key] = capture, size
                self._drop()
                self._jobs.pop(key)
        except Exception as error:
            job.error = error
        finally:
            job.done.set()

    def _capture(self, live: "Live", wanted: Wanted) -> Capture:
        from models.capture import capture_strings
        from models.tasks import CopyTask

        string, about = wanted.string, wanted.capture.about
        sources = string.source_position[string.source_position >= 0]
        start = int(sources.min()) if len(sources) else 0
        names = [wanted.capture.names[token] for token in string.tokens[start : start + string.length].tolist()]
        known = {name: token for token, name in enumerate(live.vocabulary.names[: live.task.alphabet])}
        foreign = next((name for name in names if name not in known), None)
        if foreign is not None:
            raise UsageError(
                f"run {wanted.run} knows no token {foreign!r}, which string {wanted.index} of {wanted.owner} holds; "
                f"choose a string of its own alphabet, which has {live.task.alphabet} tokens"
            )
        batch = CopyTask(live.task).encode([[known[name] for name in names]])
        told: dict[str, Any] = {
            name: about[name] for name in ("id", "distribution", "length", "shortest", "seed") if name in about
        }
        with self._lock:
            if self._closed:
                raise WorkbenchError("the dashboard is being stopped")
            if self._home is None:
                self._home = tempfile.TemporaryDirectory(prefix="copy-workbench-", ignore_cleanup_errors=True)
            folder = Path(self._home.name) / str(self._made)
            self._made += 1
        with live.lock:
            capture_strings(live.subject.model, batch, folder, {**told, "run": wanted.run, "step": live.subject.step})
        return open_capture(folder)

    def _drop(self) -> None:
        """Remove what was used longest ago until the rest fits; the lock is held."""
        while len(self._kept) > 1 and (
            len(self._kept) > _KEPT or sum(size for _, size in self._kept.values()) > _BYTES
        ):
            _, (capture, _) = self._kept.popitem(last=False)
            shutil.rmtree(capture.folder, ignore_errors=True)
