"""Models in the server, for the pages that run them: loaded in the background when first asked for, a few kept.

Nothing here imports torch before a model is asked for, so the dashboard starts and shows everything else without it.
A model runs for one request at a time: the hooks of two would otherwise meet on it.
"""

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dash import Dash

from models.errors import UsageError, WorkbenchError
from workbench.dashboard.caching import Cache
from workbench.dashboard.data import Data, stamp_of
from workbench.dashboard.gate import Gate, gate_of
from workbench.dashboard.parts import Nothing
from workbench.runs import Run, Status

if TYPE_CHECKING:
    from analyses.decoding import Decoded
    from analyses.outcomes import Intervention, Outcomes
    from analyses.samples import Sample
    from models.config import TaskSettings
    from models.tasks import Vocabulary
    from workbench.subjects import Subject

MOST_TOKENS = 2000  # of a string with its prefix, delimiter and copy
MOST_AT_ONCE = 20_000  # tokens of all strings of a batch
_MODEL_BYTES = 1 << 30
_RESULT_BYTES = 256 << 20
_PATIENCE = 0.15  # seconds that a request waits for a model before it says that it is being loaded


class Loading(WorkbenchError):
    """A model is being loaded."""


@dataclass(frozen=True)
class Live:
    """A model that is ready to run.

    Attributes:
        key: tells its weights from all others, those of a later state of the same files included.
        subject: model, recipe and step.
        checkpoint: the step that was asked for, None for the newest weights.
        lock: held while it runs.
    """

    key: Hashable
    subject: "Subject"
    checkpoint: int | None
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    @property
    def task(self) -> "TaskSettings":
        """What it was trained on."""
        return self.subject.recipe.task

    @property
    def vocabulary(self) -> "Vocabulary":
        """Ids and names of its tokens."""
        return self.subject.model.vocabulary

    @property
    def heads(self) -> tuple[int, ...]:
        """Heads of each layer."""
        return tuple(self.subject.model.cfg.heads)

    @property
    def schemes(self) -> tuple[str, ...]:
        """Name of the positional scheme of each layer."""
        settings = self.subject.recipe.model
        return tuple(settings.scheme_of(layer).scheme for layer in range(settings.n_layers))

    @property
    def longest(self) -> int:
        """Tokens of the longest source string that the pages read."""
        return (MOST_TOKENS - self.task.a - self.task.b) // 2

    @property
    def nbytes(self) -> int:
        """Memory of its weights."""
        return sum(weight.nbytes for weight in self.subject.model.parameters())


class LiveModels:
    """Models and what they answered, shared by all callbacks and threads of a dashboard."""

    def __init__(self, data: Data, gate: Gate) -> None:
        self.data, self._gate = data, gate
        self._models: Cache[Live] = Cache(_MODEL_BYTES, lambda live: live.nbytes)
        self._failed: Cache[Exception] = Cache(64)
        self._loading: dict[Hashable, threading.Event] = {}
        self._lock = threading.Lock()
        self._decoded: Cache[Decoded] = Cache(_RESULT_BYTES, lambda decoded: decoded.nbytes)
        self._outcomes: Cache[Outcomes] = Cache(_RESULT_BYTES, _weigh)

    def stamp(self, run_id: str, step: int | None) -> str:
        """What changes when a model becomes ready, fails to load, or its weights change; starts nothing."""
        try:
            key = self._key(*self._weights(run_id, step))
        except WorkbenchError as error:
            return str(error)
        state = "ready" if key in self._models else "failed" if key in self._failed else "absent"
        return f"{state} {key}"

    def get(self, run_id: str, step: int | None) -> Live:
        """Return a model, or start loading it.

        Args:
            run_id: of the run.
            step: a step whose weights were kept; None for the newest.

        Raises:
            Loading: it is not ready yet.
            Nothing: the run has no weights.
            UsageError, WorkbenchError: there are no such weights, or they are damaged.
        """
        run, checkpoint, path = self._weights(run_id, step)
        key = self._key(run, checkpoint, path)
        with self._lock:
            if key in self._failed:
                raise self._failed.get(key, _never)
            done = self._loading.get(key)
            if done is None and key not in self._models:
                done = self._loading[key] = threading.Event()
                threading.Thread(target=self._load, args=(key, run, checkpoint, done), daemon=True).start()
        if done is not None and not done.wait(_PATIENCE):
            raise Loading(f"the model of run {run.id} is being loaded")
        if key in self._failed:
            raise self._failed.get(key, _never)
        return self._models.get(key, lambda: _loaded(key, run, checkpoint))

    def wait(self, run_id: str, step: int | None) -> Live:
        """Return a model once it is loaded; not to be called from a request. Raises as `get`."""
        while True:
            try:
                return self.get(run_id, step)
            except Loading:  # which `get` waited a while for
                continue

    def weights_key(self, run_id: str, step: int | None) -> Hashable:
        """What tells a model's weights from all others, those of a later state of the same files included.

        Raises:
            Nothing, UsageError, WorkbenchError: as `get`.
        """
        return self._key(*self._weights(run_id, step))

    def decoded(
        self, live: Live, tokens: tuple[int, ...], *, free: bool, fed: tuple[tuple[int, int], ...] = ()
    ) -> "Decoded":
        """Return how a model copies a string, teacher-forced or free-running.

        Args:
            live: the model.
            tokens: of the string.
            free: fed its own predictions.
            fed: what the teacher-forced copy is fed in place of right tokens, (index, token).
        """

        def decode() -> "Decoded":
            from analyses.decoding import free_running, teacher_forced
            from models.tasks import CopyTask

            batch = CopyTask(live.task).encode([tokens])
            with live.lock:
                if free:
                    return free_running(live.subject.model, batch)
                return teacher_forced(live.subject.model, batch, dict(fed))

        return self._decoded.get((live.key, tokens, free, () if free else fed), decode)

    def outcomes(
        self, live: Live, samples: "tuple[Sample, ...]", named: Hashable, intervention: "Intervention | None" = None
    ) -> "Outcomes":
        """Return the answers to strings, with something done to the model or nothing; `named` tells the strings."""

        def read() -> "Outcomes":
            from analyses.outcomes import read_outcomes

            with live.lock:
                return read_outcomes(live.subject.model, samples, intervention)

        return self._outcomes.get((live.key, named, repr(intervention)), read)

    def steps(self, run_id: str) -> tuple[int, ...]:
        """Steps of a run whose weights were kept, newest first; raises as `Data.run`."""
        return tuple(reversed(self.data.opened(run_id).checkpoints))

    def _weights(self, run_id: str, step: int | None) -> tuple[Run, int | None, Path]:
        """The run, the checkpoint to ask for (None for final weights), and the file that holds them."""
        run = self.data.opened(run_id)
        if run.status is Status.FINISHED and step in (None, run.step):
            return run, None, run.path / "weights.safetensors"
        if step is not None:
            return run, step, run.checkpoint_path(step)
        if run.checkpoints:
            return run, run.checkpoints[-1], run.checkpoint_path(run.checkpoints[-1])
        raise Nothing(
            f"run {run.id} ({run.status.value}) has no weights yet. They are there from its first checkpoint on; a run "
            f"that was stopped goes on with",
            f"workbench train --resume {run.id}{self.data.store.option}",
        )

    def _key(self, run: Run, checkpoint: int | None, path: Path) -> Hashable:
        return run.path, checkpoint, stamp_of(path), stamp_of(run.path / "config.toml")

    def _load(self, key: Hashable, run: Run, checkpoint: int | None, done: threading.Event) -> None:
        try:
            self._gate.bring_pandas()
            self._models.get(key, lambda: _loaded(key, run, checkpoint))
        except Exception as error:
            told = error
            self._failed.get(key, lambda: told)
        finally:
            with self._lock:
                self._loading.pop(key, None)
            done.set()


def live_models(app: Dash, data: Data) -> LiveModels:
    """Return the models of an app, the same for all of its pages."""
    if "workbench-models" not in app.server.extensions:
        app.server.extensions["workbench-models"] = LiveModels(data, gate_of(app.server))
    kept: LiveModels = app.server.extensions["workbench-models"]
    return kept


def require_size(live: Live, length: int, strings: int = 1) -> None:
    """Raise UsageError where strings are longer, or more, than the pages read at once."""
    tokens = live.task.a + live.task.b + 2 * length
    if tokens > MOST_TOKENS:
        raise UsageError(
            f"a string of {length:,} tokens is {tokens:,} tokens long with prefix, delimiter and copy, and this page "
            f"reads at most {MOST_TOKENS:,}: give a string of at most {live.longest:,}. The command line has no limit"
        )
    if strings > MOST_AT_ONCE // tokens:
        raise UsageError(
            f"{strings:,} strings of {tokens:,} tokens are more than this page reads at once: give at most "
            f"{MOST_AT_ONCE // tokens:,} strings of this length"
        )


def _loaded(key: Hashable, run: Run, checkpoint: int | None) -> Live:
    from workbench.subjects import load_run

    return Live(key, load_run(run, checkpoint=checkpoint), checkpoint)


def _weigh(outcomes: Any) -> int:
    return sum(part.right.nbytes + part.margins.nbytes + part.log_probs.nbytes for part in outcomes)


def _never() -> Any:
    raise UsageError("this was dropped from memory meanwhile; open the page again")
