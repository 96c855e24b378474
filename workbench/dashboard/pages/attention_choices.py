"""The panel above two maps: what the second subject has instead, and how to change, swap and leave it."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside
from workbench.dashboard.comparison import Pair, names, swapped
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.parts import link
from workbench.dashboard.pickers import capture_options
from workbench.dashboard.selection import Selection, resting_step, steps_of
from workbench.dashboard.state import ViewState

_MOST = 400  # entries of a list

Options = Sequence[tuple[str, str]]


def bar(data: Data, view: ViewState, path: str, first: Selection, pair: Pair | None) -> Component:
    """Return the panel.

    Args:
        data: what is read.
        view: the view that its links change.
        path: address of the page.
        first: the first subject.
        pair: both; None where the second cannot be shown.
    """
    beside = view.beside or Beside()
    called = names(pair) if pair else ("", "")
    said: list[Any] = ["First: ", html.B(called[0]), " · second: ", html.B(called[1])] if pair else ["Comparing"]
    links = [
        *([_swap(pair, path)] if pair else []),
        link("Close", path + view.change(beside=None).query(), className="button", title="Leave the comparison: c"),
    ]
    fields = [_field(*entry) for entry in choices(data, beside, first, pair)]
    notes = [html.P(note, className="note") for note in (pair.second.notes if pair else ())]
    return html.Div(
        [
            html.Div([html.P(said), html.Span(links, className="steps-links")], className="compare-head"),
            html.Div([html.Span("Second", className="switch-label"), *fields], className="compare-fields"),
            *notes,
        ]
    )


def choices(
    data: Data, beside: Beside, first: Selection, pair: Pair | None
) -> list[tuple[str, str, Options, str, str]]:
    """Return (name, label, (value, text) of each entry, what is chosen, what "" stands for) of every list."""
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
        ("run", "Run", runs, beside.run or "", "the same"),
        ("checkpoint", "Weights", steps, "" if beside.checkpoint is None else str(step), f"{as_first} {step_now:,}"),
        ("capture", "Capture", captures, beside.capture or "", "the same"),
        ("string", "String", listed, "" if beside.string is None else str(string), same_string),
        ("head", "Head", heads, chosen_head, same_head),
    ]


def _run_of(data: Data, beside: Beside) -> RunRow | None:
    """The run that the second subject names, None where it names none that can be read."""
    try:
        return data.run(beside.run) if beside.run else None
    except WorkbenchError:
        return None


def _field(name: str, label: str, options: Options, value: str, same: str) -> Component:
    """A list that assets/compare.js follows: it writes the choice into `beside` in the address."""
    entries = [("", same), *options[:_MOST]]
    if value not in [entry for entry, _ in entries]:
        entries.append((value, value))
    listed = [html.Option(text, value=entry, selected=entry == value) for entry, text in entries]
    chosen = html.Select(listed, id=f"beside-{name}", className="is-other" if value else "", **{"data-beside": name})
    return html.Div([html.Label(label, htmlFor=f"beside-{name}"), chosen])


def _swap(pair: Pair, path: str) -> Component:
    return link("Swap", path + swapped(pair).query(), className="button", title="The second becomes the first")
