"""What the pages read: runs, their curves and captures, each read from disk once and again only when it changed."""

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from models import overview
from models.attention import ABOUT_FILE, Capture, CapturedString, Pooled, open_capture
from models.errors import UsageError, WorkbenchError
from workbench.dashboard.caching import Cache
from workbench.dashboard.overviews import AT_ONCE, Overviews
from workbench.dashboard.recaptures import Recaptures, Wanted
from workbench.figures.attention import MapView, encode, mask_future
from workbench.figures.curves import LengthCurve, TrainingCurve, thin
from workbench.records import mean_exact_match, read_records
from workbench.runs import Run, Status, Store
from workbench.views import EXACT_UP_TO

NEWEST = "newest"  # weights, in the name of a string that is captured again
FRESH_SECONDS = 0.5  # how long a listing of the store is good for: the regions of a page ask at the same moment
_MAP_BYTES = 128 << 20

Stamp = tuple[int, int]


@dataclass(frozen=True)
class RunRow:
    """A run as the pages list it.

    Attributes:
        id, status, recipe, created, step, steps, message: of the run.
        scheme: name of its positional scheme(s), "" where its config cannot be read.
        heads: heads of each layer.
        exact_match: mean exact match within the training range; None where nothing was evaluated.
        train_lengths: shortest and longest training string.
        captures: ids of its captures, newest first.
    """

    id: str
    status: Status
    recipe: str
    created: datetime | None
    step: int
    steps: int
    message: str | None
    scheme: str = ""
    heads: tuple[int, ...] = ()
    exact_match: float | None = None
    train_lengths: tuple[int, int] | None = None
    captures: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether there is anything of it that a page can show."""
        return self.status not in (Status.UNREADABLE, Status.FOREIGN)


@dataclass
class _Metrics:
    """Columns of a metrics.jsonl as far as it was read; exact match is that within `train_lengths`."""

    train_lengths: tuple[int, int] | None = None
    offset: int = 0
    steps: np.ndarray = None  # type: ignore[assignment]
    losses: np.ndarray = None  # type: ignore[assignment]
    evaluated: np.ndarray = None  # type: ignore[assignment]
    exact_match: np.ndarray = None  # type: ignore[assignment]
    last_evaluation: Sequence[dict[str, Any]] = ()

    def __post_init__(self) -> None:
        self.steps = self.evaluated = np.empty(0, dtype=np.int64)
        self.losses = self.exact_match = np.empty(0)

    def extend(self, records: list[dict[str, Any]]) -> None:
        """Append records; those already held from the first new step on were taken back by a resumed run."""
        if not records:
            return
        kept = np.searchsorted(self.steps, records[0]["step"])
        scored = np.searchsorted(self.evaluated, records[0]["step"])
        self.steps = np.append(self.steps[:kept], [record["step"] for record in records])
        self.losses = np.append(self.losses[:kept], [_number(record.get("loss")) for record in records])
        with_scores = [(r["step"], r["evaluation"]) for r in records if isinstance(r.get("evaluation"), list)]
        means = [mean_exact_match(scores, self.train_lengths) for _, scores in with_scores]
        self.evaluated = np.append(self.evaluated[:scored], [step for step, _ in with_scores]).astype(np.int64)
        self.exact_match = np.append(self.exact_match[:scored], [np.nan if m is None else m for m in means])
        if with_scores:
            self.last_evaluation = with_scores[-1][1]


class Data:
    """Reads of one store, shared by all callbacks and threads of a dashboard.

    Attributes:
        store: the run store.
        recaptures: captured strings under other weights.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._listed: tuple[float, list[Run]] = (-FRESH_SECONDS, [])
        self._details: Cache[dict[str, Any]] = Cache(1000)
        self._metrics: dict[str, _Metrics] = {}
        self._metrics_lock = threading.Lock()
        self._captures: Cache[Capture] = Cache(16)
        self._strings: Cache[CapturedString] = Cache(32)
        self._maps: Cache[MapView] = Cache(_MAP_BYTES, lambda view: view.cells.nbytes)
        self._overviews = Overviews()
        self.recaptures = Recaptures(store.option)

    def close(self) -> None:
        """End what is being computed in the background."""
        self._overviews.close()
        self.recaptures.close()

    def runs(self) -> list[RunRow]:
        """Return every folder of the store, newest run first, unreadable and foreign ones last."""
        return [self._row(run) for run in self._list()]

    def run(self, run_id: str) -> RunRow:
        """Return one run. Raises UsageError for an id that is not in the store, WorkbenchError for a damaged run."""
        return self._row(self.opened(run_id))

    def _list(self) -> list[Run]:
        read_at, runs = self._listed
        if time.monotonic() - read_at >= FRESH_SECONDS:
            runs = self.store.runs()
            self._listed = (time.monotonic(), runs)
        return runs

    def opened(self, run_id: str) -> Run:
        """Return the folder of a run; raises as `run` does."""
        listed = next((run for run in self._list() if run.id == run_id and run.readable), None)
        return listed or self.store.open(run_id)

    def _row(self, run: Run) -> RunRow:
        files = ("run.json", "config.toml", "evaluation.json", "captures")
        key = (run.id, *(stamp_of(run.path / name) for name in files), run.readable)
        details = dict(self._details.get(key, lambda: _details(run))) if run.readable else {}
        if details and details["exact_match"] is None:
            scores = self._metrics_of(run.path, details["train_lengths"]).last_evaluation
            details["exact_match"] = mean_exact_match(scores, details["train_lengths"])
        return RunRow(run.id, run.status, run.recipe, run.created, run.step, run.steps, run.message, **details)

    def training_curve(self, row: RunRow) -> TrainingCurve:
        """Return what a run reported so far, thinned for display."""
        metrics = self._metrics_of(self.store.path_of(row.id), row.train_lengths)
        steps, losses = thin(metrics.steps, metrics.losses)
        return TrainingCurve(row.id, row.scheme, steps, losses, *thin(metrics.evaluated, metrics.exact_match))

    def reported(self, row: RunRow, step: int) -> tuple[float | None, float | None]:
        """Return loss, and exact match within the training range, as reported at a step; None for none."""
        metrics = self._metrics_of(self.store.path_of(row.id), row.train_lengths)
        found = []
        for steps, values in ((metrics.steps, metrics.losses), (metrics.evaluated, metrics.exact_match)):
            at = int(np.searchsorted(steps, step))
            value = float(values[at]) if at < len(steps) and steps[at] == step else float("nan")
            found.append(value if np.isfinite(value) else None)
        return found[0], found[1]

    def metrics_stamp(self, row: RunRow) -> Stamp:
        """Return what changes whenever a run reports something."""
        return stamp_of(self.store.path_of(row.id) / "metrics.jsonl")

    def evaluation_stamp(self, row: RunRow) -> Stamp:
        """Return what changes whenever a run is evaluated."""
        return stamp_of(self.store.path_of(row.id) / "evaluation.json")

    def length_curves(self, row: RunRow) -> list[LengthCurve]:
        """Return a run's length generalisation, one curve a distribution; none where it was not evaluated."""
        evaluation = self.opened(row.id).evaluation
        by_distribution: dict[str, list[dict[str, Any]]] = {}
        for score in evaluation["results"] if evaluation else []:
            if _is_score(score):
                by_distribution.setdefault(score["distribution"], []).append(score)
        return [_length_curve(row, name, scores) for name, scores in by_distribution.items()]

    def _metrics_of(self, path: Path, train_lengths: tuple[int, int] | None) -> _Metrics:
        with self._metrics_lock:
            metrics = self._metrics.setdefault(path.name, _Metrics(train_lengths))
            offset = metrics.offset
            records, metrics.offset = read_records(path, offset)
            metrics.extend(records)
            if not records and metrics.offset < offset:
                self._metrics.pop(path.name)
                return _Metrics()
            return metrics

    def capture(self, run_id: str, capture_id: str) -> Capture:
        """Open a capture of a run. Raises UsageError for a name that is none, WorkbenchError for a damaged one."""
        folder = self.opened(run_id).capture_path(capture_id)
        return self._captures.get((folder, stamp_of(folder / ABOUT_FILE)), lambda: open_capture(folder))

    def located(self, run_id: str, name: str, index: int) -> tuple[Capture, int]:
        """Return a capture and the index of a string in it, by the name that addresses give it.

        Args:
            run_id: of the run whose capture it is.
            name: its id, or "id@step" or "id@step@run" for a string that is captured again under the weights of a
                step ("newest" for the newest) of that run, or of another.
            index: of the string in the capture that is called so.

        Raises:
            Recapturing: it is not ready yet.
            UsageError, WorkbenchError: there is no such capture, or it is damaged.
        """
        capture_id, *weights = name.split("@")
        capture = self.capture(run_id, capture_id)
        if not weights:
            return capture, index
        if len(weights) > 2 or not (weights[0] == NEWEST or re.fullmatch(r"[0-9]{1,9}", weights[0], re.ASCII)):
            raise UsageError(f"{name[:80]!r} names no capture; expected ID, ID@STEP or ID@STEP@RUN")
        step = None if weights[0] == NEWEST else int(weights[0])
        capture.string(index)
        return self.recaptures.get(Wanted(weights[-1] if weights[1:] else run_id, step, run_id, capture, index), 2.0), 0

    def string(self, capture: Capture, index: int) -> CapturedString:
        """Return one string of a capture."""
        return self._strings.get(
            (capture.folder, stamp_of(capture.folder / ABOUT_FILE), index), lambda: capture.string(index)
        )

    def map_view(
        self, capture: Capture, index: int, layer: int, head: int, rows: slice, cols: slice, cells: int
    ) -> MapView:
        """Return a rectangle of a head's pattern: exact up to 256 tokens a side, else max-pooled to `cells` a side.

        Raises:
            Pending: the overview it is taken from is being computed.
        """
        part = (rows.start, rows.stop, cols.start, cols.stop, cells)
        stamp = stamp_of(capture.folder / ABOUT_FILE)
        string = self.string(capture, index)

        def draw() -> MapView:
            if max(rows.stop - rows.start, cols.stop - cols.start) <= EXACT_UP_TO:
                weights = string.head(layer, head).tile(rows, cols)
                edges = [np.arange(side.start, side.stop + 1) for side in (rows, cols)]
                return MapView(mask_future(weights, rows, cols), *edges)
            pooled = self.pooled(capture, index, layer, head, rows, cols, cells)
            codes = encode(pooled.values, pooled.row_edges, pooled.col_edges)
            return MapView(codes, pooled.row_edges, pooled.col_edges)

        return self._maps.get((stamp, capture.folder, index, layer, head, *part), draw)

    def pooled(
        self, capture: Capture, index: int, layer: int, head: int, rows: slice, cols: slice, cells: int
    ) -> Pooled:
        """Return the largest weights in at most `cells` bins a side; edges of a part that is large both ways are moved.

        Raises:
            Pending: the overview it is taken from is being computed.
        """
        string = self.string(capture, index)
        side = min(rows.stop - rows.start, cols.stop - cols.start)
        if side <= AT_ONCE:  # also where the other side is long: 0.3 s for 20,000
            return string.head(layer, head).pooled(rows, cols, cells)
        pyramid = self._overviews.get(stamp_of(capture.folder / ABOUT_FILE), string, layer, head)
        # Never finer than the pyramid, since what is finer would take long to compute: at least 400 bins are left.
        return overview.view(string, layer, head, rows, cols, min(cells, (side - 1) // pyramid.widths[0]), pyramid)

    def overview_share(self, capture: Capture, index: int, layer: int, head: int) -> float | None:
        """Return how much of the overview of a head is computed; None where none is being computed."""
        string = self.string(capture, index)
        return self._overviews.share(stamp_of(capture.folder / ABOUT_FILE), string, layer, head)

    def has_map(self, capture: Capture, index: int, layer: int, head: int) -> bool:
        """Whether a whole map is ready to be drawn: its overview is kept, or the string needs none."""
        string = self.string(capture, index)
        stamp = stamp_of(capture.folder / ABOUT_FILE)
        return len(string.tokens) <= AT_ONCE or self._overviews.has(stamp, string, layer, head)


def scheme_name(config: dict[str, Any]) -> str:
    """Return the short name of a stored recipe's schemes: "rope2d", or "rope+nope" where layers alternate."""
    try:
        model = config["model"]
        listed = model["positions"] if isinstance(model["positions"], list) else [model["positions"]]
        names = [part if isinstance(part, str) else str(part["scheme"]) for part in listed]
        names = names[: len(model["heads"])]
    except (KeyError, TypeError):
        return ""
    return names[0] if len(set(names)) == 1 else "+".join(names)


def _details(run: Run) -> dict[str, Any]:
    try:
        config = run.config
    except WorkbenchError:
        config = {}
    heads = config.get("model", {}).get("heads", ()) if isinstance(config.get("model"), dict) else ()
    evaluation = run.evaluation
    lengths = run.train_lengths
    return {
        "scheme": scheme_name(config),
        "heads": tuple(h for h in heads if isinstance(h, int)) if isinstance(heads, list) else (),
        "train_lengths": lengths,
        "exact_match": mean_exact_match(evaluation["results"], lengths) if evaluation else None,
        "captures": run.captures,
    }


def _length_curve(row: RunRow, distribution: str, scores: list[dict[str, Any]]) -> LengthCurve:
    scores = sorted(scores, key=lambda score: score["length"])
    low, high = np.array([score["interval"] for score in scores], dtype=float).T
    return LengthCurve(
        row.id,
        row.scheme,
        distribution,
        np.array([score["length"] for score in scores]),
        np.array([score["exact_match"] for score in scores], dtype=float),
        low,
        high,
        np.array([score["strings"] for score in scores]),
    )


def _is_score(score: Any) -> bool:
    """Whether a dict from an evaluation.json holds what a curve needs."""
    if not isinstance(score, dict) or not isinstance(score.get("distribution"), str):
        return False
    interval = score.get("interval")
    numbers = [score.get("length"), score.get("exact_match"), score.get("strings")]
    numbers += interval if isinstance(interval, list) and len(interval) == 2 else [None]
    return all(isinstance(n, int | float) and np.isfinite(n) for n in numbers) and score["length"] >= 1


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def stamp_of(path: Path) -> Stamp:
    """Return modification time and size, (0, 0) for a file that is not there."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
