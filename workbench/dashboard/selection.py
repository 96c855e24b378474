"""What a view stands for: the run, capture, string, head and row that its address names or leaves open."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from models.attention import Capture, CapturedString
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.parts import Nothing
from workbench.dashboard.state import ViewState


@dataclass(frozen=True)
class Selection:
    """A view whose open choices are made; what the address names wrongly is replaced, with a note.

    Attributes:
        view: the view with capture, string, layer, head and row filled in.
        run: the run.
        capture: the opened capture.
        string: the captured string.
        order: indices of the capture's strings, failed ones first.
        row: the pinned query position: the chosen one, else the first wrong one, else the first that is scored.
        notes: what was replaced.
    """

    view: ViewState
    run: RunRow
    capture: Capture
    string: CapturedString
    order: tuple[int, ...]
    row: int
    notes: tuple[str, ...] = field(default=())

    @property
    def index(self) -> int:
        """Index of the string in its capture."""
        assert self.view.string is not None
        return self.view.string

    @property
    def n_tokens(self) -> int:
        """Tokens in the string."""
        return len(self.string.tokens)

    @property
    def scheme(self) -> str:
        """Name of the positional scheme of the chosen layer."""
        return self.capture.rules[self.view.layer].scheme


def choose_run(data: Data, view: ViewState) -> RunRow:
    """Return the run the view names, else the newest that has a capture, else the newest that is readable.

    Raises:
        Nothing: there is no run.
        UsageError, WorkbenchError: the run that is named is not there, or damaged.
    """
    if view.run is not None:
        return data.run(view.run)
    rows = [row for row in data.runs() if row.readable]
    if not rows:
        raise no_runs(data)
    return next((row for row in rows if row.captures), rows[0])


def no_runs(data: Data) -> Nothing:
    """Return the empty state of a store without runs."""
    return Nothing(
        f"there are no runs in {data.store.root} yet. Train three small models, or one recipe of your choice",
        "make demo",
        "workbench recipes",
        f"workbench train rope2d-1l{data.store.option}",
    )


def choose_capture(data: Data, run: RunRow, view: ViewState) -> str:
    """Return the id of the capture the view names, else of the run's newest.

    Raises:
        Nothing: the run has no capture.
    """
    if not run.captures:
        raise Nothing(
            f"run {run.id} has no captures yet. Once it has weights, capture a few strings",
            f"workbench capture {run.id}{data.store.option}",
        )
    return run.captures[0] if view.capture is None else view.capture


def failed_first(capture: Capture) -> tuple[int, ...]:
    """Return the indices of a capture's strings: failed ones first, each group in the capture's order."""
    strings: list[dict[str, Any]] = capture.about["strings"]
    return tuple(sorted(range(len(capture)), key=lambda i: bool(strings[i].get("exact", True))))


def select(data: Data, view: ViewState) -> Selection:
    """Make the open choices of a view.

    Raises:
        Nothing: there is nothing to choose from; says which command changes that.
        UsageError, WorkbenchError: a run or capture that is named is not there, or damaged.
    """
    run = choose_run(data, view)
    capture_id = choose_capture(data, run, view)
    capture = data.capture(run.id, capture_id)
    if not len(capture):
        raise Nothing(f"capture {capture_id} of run {run.id} holds no strings")
    notes: list[str] = []
    order = failed_first(capture)
    index = order[0] if view.string is None else _within("The capture", "string", view.string, len(capture), notes)
    layer = _within("The model", "layer", view.layer, capture.n_layers, notes)
    head = _within(f"Layer {layer}", "head", view.head, capture.heads[layer], notes)
    string = data.string(capture, index)
    n_tokens = len(string.tokens)
    row = default_row(string) if view.row is None else _within("The string", "query row", view.row, n_tokens, notes)
    zoom = view.zoom.within(n_tokens) if view.zoom else None
    chosen = replace(view, run=run.id, capture=capture_id, string=index, layer=layer, head=head, row=row, zoom=zoom)
    return Selection(chosen, run, capture, string, order, row, tuple(notes))


def default_row(string: CapturedString) -> int:
    """Return the first wrong query of a string, else the first that is scored, else 0."""
    scored = np.asarray(string.predicted) >= 0
    wrong = np.flatnonzero(scored & (string.predicted != string.targets))
    first = wrong if len(wrong) else np.flatnonzero(scored)
    return int(first[0]) if len(first) else 0


def _within(owner: str, what: str, value: int, count: int, notes: list[str]) -> int:
    """Return `value` if it is one of `count` that `owner` has, else the last there is, with a note."""
    if value < count:
        return value
    notes.append(f"{owner} has no {what} {value}; showing {what} {count - 1}, the last one.")
    return count - 1
