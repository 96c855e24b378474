"""What a view stands for: the run, capture, string, head and row that its address names or leaves open."""

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from models.attention import Capture, CapturedString
from workbench.dashboard.data import NEWEST, Data, RunRow
from workbench.dashboard.parts import Nothing
from workbench.dashboard.recaptures import LONGEST, Wanted
from workbench.dashboard.state import ViewState
from workbench.runs import Status

_PREPARED = LONGEST // 4  # tokens of a string up to which the steps before and after are made too


@dataclass(frozen=True)
class Selection:
    """A view whose open choices are made; what the address names wrongly is replaced, with a note.

    Attributes:
        view: the view with capture, string, layer, head and row filled in.
        run: the run whose weights are looked at.
        owner: the run whose capture the string is from; most often the same.
        listed: that capture, which the strings are chosen from.
        capture: the opened capture, which is another one where the string is looked at under other weights.
        index: of the string in `capture`.
        string: the captured string.
        step: optimiser steps that the weights have seen.
        order: indices of the strings of `listed` that are listed, failed ones first.
        row: the pinned query position: the chosen one, else the first wrong one, else the first that is scored.
        notes: what was replaced.
    """

    view: ViewState
    run: RunRow
    owner: RunRow
    listed: Capture
    capture: Capture
    index: int
    string: CapturedString
    step: int
    order: tuple[int, ...]
    row: int
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The capture's name in addresses, see `Data.located`."""
        capture_id = str(self.view.capture)
        if self.capture is self.listed:
            return capture_id
        step = NEWEST if self.view.checkpoint is None else str(self.view.checkpoint)
        return f"{capture_id}@{step}" + ("" if self.owner.id == self.run.id else f"@{self.run.id}")

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
    return view.capture if view.capture and view.of in (None, run.id) else run.captures[0]


def failed_first(capture: Capture, only: bool = False) -> tuple[int, ...]:
    """Return the indices of a capture's strings: failed ones first, or alone, each group in the capture's order."""
    strings: list[dict[str, Any]] = capture.about["strings"]
    exact = [bool(entry.get("exact", True)) for entry in strings]
    return tuple(sorted((i for i in range(len(capture)) if not (only and exact[i])), key=lambda i: exact[i]))


def select(data: Data, view: ViewState) -> Selection:
    """Make the open choices of a view.

    Raises:
        Nothing: there is nothing to choose from; says which command changes that.
        UsageError, WorkbenchError: a run or capture that is named is not there, or damaged.
    """
    run = choose_run(data, view)
    owner = choose_owner(data, run, view)
    capture_id = choose_capture(data, owner, view)
    listed = data.capture(owner.id, capture_id)
    if not len(listed):
        raise Nothing(f"capture {capture_id} of run {owner.id} holds no strings")
    notes: list[str] = []
    order = failed_first(listed)
    chosen = order[0] if view.string is None else _within("The capture", "string", view.string, len(listed), notes)
    order = failed_first(listed, only=view.failing)
    step = _kept_step(data, run, resting_step(data, run, owner, listed), view, notes)
    capture, index = listed, chosen
    if step is not None or owner.id != run.id:
        wanted = Wanted(run.id, step, owner.id, listed, chosen)
        capture, index = data.recaptures.get(wanted), 0
        _prepare_neighbours(data, run, wanted)
    layer = _within("The model", "layer", view.layer, capture.n_layers, notes)
    head = _within(f"Layer {layer}", "head", view.head, capture.heads[layer], notes)
    string = data.string(capture, index)
    n_tokens = len(string.tokens)
    row = default_row(string) if view.row is None else _within("The string", "query row", view.row, n_tokens, notes)
    zoom = view.zoom.within(n_tokens) if view.zoom else None
    of = None if owner.id == run.id else owner.id
    made = replace(
        view, run=run.id, of=of, capture=capture_id, checkpoint=step, string=chosen, layer=layer, head=head, row=row,
        zoom=zoom,
    )  # fmt: skip
    seen = captured_step(capture) or 0
    return Selection(made, run, owner, listed, capture, index, string, seen, order, row, tuple(notes))


def choose_owner(data: Data, run: RunRow, view: ViewState) -> RunRow:
    """Return the run whose captures are looked at: the run itself, or the one that the view names; raises as `run`."""
    return run if view.of in (None, run.id) else data.run(str(view.of))


def captured_step(capture: Capture) -> int | None:
    """Return the step of the weights that a capture was made with; None where it does not say."""
    step = capture.about.get("step")
    return step if type(step) is int else None


def resting_step(data: Data, run: RunRow, owner: RunRow, listed: Capture) -> int:
    """Return the step that a view without `checkpoint` stands for: of the capture; of the newest weights elsewhere."""
    own = captured_step(listed) if owner.id == run.id else None
    return newest_step(data, run) if own is None else own


def steps_of(data: Data, run: RunRow, rests: int) -> tuple[int, ...]:
    """Return the steps whose weights a string can be looked at under, ascending.

    Args:
        data: what is read.
        run: whose weights they are.
        rests: the step that a view without `checkpoint` stands for: of the capture, or of the newest weights.
    """
    return tuple(sorted({*data.opened(run.id).checkpoints, rests}))


def newest_step(data: Data, run: RunRow) -> int:
    """Return the step of a run's newest weights, see `LiveModels.get`; 0 where it has none."""
    kept = data.opened(run.id).checkpoints
    return run.step if run.status is Status.FINISHED else kept[-1] if kept else 0


def _kept_step(data: Data, run: RunRow, rests: int, view: ViewState, notes: list[str]) -> int | None:
    """Return the step to look at, None for the one that a view without `checkpoint` stands for."""
    wanted = view.checkpoint
    if wanted is None or wanted == rests:
        return None
    steps = steps_of(data, run, rests)
    nearest = min(steps, key=lambda step: abs(step - wanted))
    if nearest != wanted:
        notes.append(f"Run {run.id} kept no weights of step {wanted:,}; showing step {nearest:,}.")
    return None if nearest == rests else nearest


def _prepare_neighbours(data: Data, run: RunRow, wanted: Wanted) -> None:
    """Have the steps before and after made too, so that a slider that is moved on does not wait."""
    if wanted.step is None or wanted.capture.about["strings"][wanted.index].get("tokens", LONGEST) > _PREPARED:
        return
    steps = data.opened(run.id).checkpoints
    at = bisect_left(steps, wanted.step)
    data.recaptures.prepare(wanted, [*steps[at + 1 : at + 2], *steps[max(at - 1, 0) : at]])


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
