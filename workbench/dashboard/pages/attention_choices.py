"""What the second subject of the Attention and Coordinates pages may have instead of the first."""

from dash.development.base_component import Component

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
    return compare_bar(Bar(names(pair), listed, swapped(pair), pair.second.notes), view, path)


def choices(data: Data, beside: Beside, first: Selection, pair: Pair | None) -> list[Choice]:
    """Return what is chosen by a list each."""
    at = pair.second if pair else first
    runs = [(row.id, row.id) for row in data.runs() if row.readable and row.id != first.run.id]
    own = _run_of(data, beside) or first.run
    same = first.owner.id == own.id
    captures = [
        (str(option["value"]), str(option["label"]))
        for option in capture_options(data, own)
        if not (same and option["value"] == first.view.capture)
    ]
    rests = resting_step(data, at.run, at.owner, at.listed)
    steps = [(str(step), f"step {step:,}") for step in steps_of(data, at.run, rests)]
    as_first = "of step" if beside.run is None else "newest: step"
    strings = at.listed.about["strings"]
    listed = [
        (str(i), f"#{i} · n = {entry.get('length')} · {'exact' if entry.get('exact', True) else 'fails'}")
        for i, entry in enumerate(strings)
    ]
    heads = [
        (f"{layer}.{head}", f"head {layer}.{head}")
        for layer, count in enumerate(at.capture.heads)
        for head in range(count)
    ]
    chosen_head = "" if beside.layer is None and beside.head is None else f"{at.view.layer}.{at.view.head}"
    step, string = (at.step, at.view.string) if pair else (beside.checkpoint, beside.string)
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


def _run_of(data: Data, beside: Beside) -> RunRow | None:
    """The run that the second subject names, None where it names none that can be read."""
    try:
        return data.run(beside.run) if beside.run else None
    except WorkbenchError:
        return None
