"""Overviews of long strings for the pages: kept ones at once, others computed in the background, each only once."""

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from models.attention import CapturedString
from models.errors import WorkbenchError
from models.overview import Overview, ensure_overview, load_overview, overview_path
from workbench.dashboard.caching import Cache

AT_ONCE = 4096  # tokens a side of a map that is pooled while a page waits: 0.1 s
_BYTES = 256 << 20  # of pyramids in memory: about twelve heads
_PATIENCE = 0.1  # seconds that a page waits before it says that there is something to wait for


class Pending(WorkbenchError):
    """An overview is being computed.

    Attributes:
        share: how much of it is done, 0 to 1.
    """

    def __init__(self, layer: int, head: int, share: float) -> None:
        super().__init__(f"the overview of layer {layer}, head {head} is being computed: {share:.0%}")
        self.share = share


class _Absent(Exception):
    """There is no overview of this head yet."""


@dataclass
class _Job:
    """A computation in the background; `error` is what ended it early."""

    share: float = 0.0
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Overviews:
    """Pyramids by string and head, shared by all callbacks and threads of a dashboard."""

    def __init__(self) -> None:
        self._kept: Cache[Overview] = Cache(_BYTES, lambda overview: sum(level.nbytes for level in overview.levels))
        self._jobs: dict[Hashable, _Job] = {}
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()  # each uses all cores
        self._closed = False

    def get(self, stamp: Hashable, string: CapturedString, layer: int, head: int) -> Overview:
        """Return the overview of a head, or start computing it.

        Args:
            stamp: changes when the capture does.
            string: of more than AT_ONCE tokens.
            layer: index.
            head: index.

        Raises:
            Pending: it is being computed.
            UsageError: there is no such head.
            WorkbenchError: it cannot be computed; asking again tries again.
        """
        key = (stamp, string.path, layer, head)
        for _ in range(2):
            with self._lock:
                job = self._jobs.get(key)
            patience = _PATIENCE if job is None else 0.0  # one waits; others that ask would wait one after the other
            if job is None:
                try:
                    return self._kept.get(key, lambda: _load(string, layer, head))
                except _Absent:
                    job = self._start(key, string, layer, head)
            if not job.done.wait(patience):
                raise Pending(layer, head, job.share)
            with self._lock:
                self._jobs.pop(key, None)
            if job.error is not None:
                raise job.error
        raise Pending(layer, head, 0.0)

    def share(self, stamp: Hashable, string: CapturedString, layer: int, head: int) -> float | None:
        """Return how much of an overview is computed, 0 to 1; None where none is being computed."""
        with self._lock:
            job = self._jobs.get((stamp, string.path, layer, head))
        return None if job is None or job.done.is_set() else job.share

    def has(self, stamp: Hashable, string: CapturedString, layer: int, head: int) -> bool:
        """Whether an overview is kept, on disk or in memory."""
        return (stamp, string.path, layer, head) in self._kept or overview_path(string, layer, head).is_file()

    def close(self) -> None:
        """End what is being computed, so that a server stops at once."""
        self._closed = True

    def _start(self, key: Hashable, string: CapturedString, layer: int, head: int) -> _Job:
        string.head(layer, head)
        with self._lock:
            running = self._jobs.get(key)
            if running is not None:
                return running
            job = self._jobs[key] = _Job()
        threading.Thread(target=self._compute, args=(job, key, string, layer, head), daemon=True).start()
        return job

    def _compute(self, job: _Job, key: Hashable, string: CapturedString, layer: int, head: int) -> None:
        def note(share: float) -> None:
            job.share = share
            if self._closed:
                raise WorkbenchError("the dashboard is being stopped")

        try:
            with self._one_at_a_time:
                overview = ensure_overview(string, layer, head, note)
            self._kept.get(key, lambda: overview)
        except Exception as error:
            job.error = error
        finally:
            with self._lock:
                if job.error is None:
                    self._jobs.pop(key, None)
            job.done.set()


def _load(string: CapturedString, layer: int, head: int) -> Overview:
    kept = load_overview(string, layer, head)
    if kept is None:
        raise _Absent
    return kept
