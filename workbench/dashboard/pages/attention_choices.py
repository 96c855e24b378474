"""What the second subject of the Attention and Coordinates pages may have instead of the first."""

from dash.development.base_component import Component

from models.attention import Capture
from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside
from workbench.dashboard.compare_bar import Bar, Choice, compare_bar
from workbench.dashboard.comparison import Pair, names, swapped
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.pickers import capture_options
from workbench.dashboard.selection import Selection, resting_step, steps_of
from workbench.dashboard.state import ViewState


def bar(data: Data, view: ViewState, path: str, first: Selection, pair: Pair | None) -> Component:
    """Return the panel.

    Args:
        data: what is read.
        view: the view that its links change.
        path: address of the page.
        first: the first subject.
        pair: both; None where the second cannot be shown.
    """
    listed = choices(data, view.beside or Beside(), first, pair)
    if pair is None:
        return compare_bar(Bar(None, listed), view, path)
    return compare_bar(Bar(names(pair), listed, swapped(pair), notes_of(pair)), view, path)


def notes_of(pair: Pair) -> tuple[str, ...]:
    """Return what of the second was replaced, and whether nothing is left to compare."""
    notes = tuple(f"Second: {note}" for note in pair.second.notes)
    same = "Both are the same: choose other weights, another string or another head for the second."
    return (*notes, same) if pair.same else notes


def choices(data: Data, beside: Beside, first: Selection, pair: Pair | None) -> list[Choice]:
    """Return what is chosen by a list each; without a pair, of the run and capture that the second names."""
    runs = [(row.id, row.id) for row in data.runs() if row.readable and row.id != first.run.id]
    own = _run_of(data, beside) or first.run
    same = first.owner.id == own.id
    captures = [
        (str(option["value"]), str(option["label"]))
        for option in capture_options(data, own)
        if not (same and option["value"] == first.view.capture)
    ]
    run, owner, capture = _named(data, own, beside, first)
    if pair:
        run, owner, capture = pair.second.run, pair.second.owner, pair.second.listed
    rests = resting_step(data, run, owner, capture)
    steps = [(str(step), f"step {step:,}") for step in steps_of(data, run, rests)]
    as_first = "of step" if beside.run is None else "newest: step"
    strings = capture.about["strings"]
    listed = [
        (str(i), f"#{i} · n = {entry.get('length')} · {'exact' if entry.get('exact', True) else 'fails'}")
        for i, entry in enumerate(strings)
    ]
    heads = [
        (f"{layer}.{head}", f"head {layer}.{head}")
        for layer, count in enumerate(pair.second.capture.heads if pair else run.heads)
        for head in range(count)
    ]
    chosen_head = ""
    if beside.layer is not None or beside.head is not None:
        layer, head = (getattr(pair.second.view if pair else beside, name) for name in ("layer", "head"))
        chosen_head = f"{first.view.layer if layer is None else layer}.{first.view.head if head is None else head}"
    step, string = (pair.second.step, pair.second.view.string) if pair else (beside.checkpoint, beside.string)
    step_now = first.step if beside.run is None else rests
    same_string = f"#{first.view.string}, the same" if beside.capture is None else "its first"
    same_head = f"{first.view.layer}.{first.view.head}, the same"
    return [
        Choice("run", "Run", runs, beside.run or "", "the same"),
        Choice(
            "checkpoint", "Weights", steps, "" if beside.checkpoint is None else str(step), f"{as_first} {step_now:,}"
        ),
        Choice("capture", "Capture", captures, beside.capture or "", "the same"),
        Choice("string", "String", listed, "" if beside.string is None else str(string), same_string),
        Choice("head", "Head", heads, chosen_head, same_head),
    ]


def _named(data: Data, own: RunRow, beside: Beside, first: Selection) -> tuple[RunRow, RunRow, Capture]:
    """The run that the second subject names, the one its string is from, and that capture; else those of the first."""
    try:
        if beside.capture is not None:
            owner = data.run(beside.of) if beside.of else first.owner if own.id == first.run.id else own
            return own, owner, data.capture(owner.id, beside.capture)
    except WorkbenchError:
        pass
    return own, first.owner, first.listed


def _run_of(data: Data, beside: Beside) -> RunRow | None:
    """The run that the second subject names, None where it names none that can be read."""
    try:
        return data.run(beside.run) if beside.run else None
    except WorkbenchError:
        return None
