"""Two subjects of the Failures page: two reports, of runs or of checkpoints of one, or two failures of one report."""

from dataclasses import dataclass, replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside, second_view
from workbench.dashboard.compare_bar import Bar, Choice, compare_bar, compare_link
from workbench.dashboard.pages.failures_captured import Captured
from workbench.dashboard.pages.failures_reports import PATH, Chosen, Reports, listed_failures
from workbench.dashboard.pages.playground_strings import write_tokens
from workbench.dashboard.parts import Nothing, link, message
from workbench.dashboard.state import ViewState

# What lists failures of the first report alone.
ANY: dict[str, Any] = dict.fromkeys(("cause", "confirmed", "failed_distribution", "failed_length"))


@dataclass(frozen=True)
class Pair:
    """The two subjects.

    Attributes:
        first: the report that the page is about, and its selected failure.
        second: the other one. Its failure is the one that the address names, else the one of the same string, None
            where the report does not list that.
        named: the address names a failure of the second, so that two failures stand beside each other.
    """

    first: Chosen
    second: Chosen
    named: bool

    @property
    def same_report(self) -> bool:
        """Whether both are of one report."""
        return (self.first.run.id, self.first.content.step) == (self.second.run.id, self.second.content.step)

    @property
    def same_string(self) -> bool:
        """Whether the second is asked about the string that fails in the first."""
        return not self.named


def pair_of(reports: Reports, first: Chosen, view: ViewState) -> Pair:
    """Make the open choices of the second subject.

    Args:
        reports: what is read.
        first: the first subject.
        view: as the address has it; `beside` says what is another.

    Raises:
        Nothing: its run keeps no report, or a damaged one; says which command changes that.
        UsageError, WorkbenchError: its run is not there, or damaged.
    """
    beside = view.beside or Beside()
    asked = second_view(replace(first.view, beside=beside, **ANY))
    second = reports.choose(replace(asked, failure=beside.failure, order="found", text=None))
    notes = [note for note in second.notes if not note.startswith("Failure ")]
    if beside.failure is not None and beside.failure not in second.listed:
        count = len(second.content.failures)
        there = f"it has 0 to {count - 1:,}" if count else "it has none"
        notes.append(f"The second's report has no failure {beside.failure:,}; {there}. The same string is shown.")
    named = first.failure is not None and beside.failure in second.listed
    failure = beside.failure if named else _of_same_string(first, second)
    second = replace(second, view=replace(second.view, failure=failure), notes=tuple(notes))
    return Pair(first, second, named)


def second_or_none(reports: Reports, first: Chosen, view: ViewState) -> Pair | None:
    """Return both subjects, None where nothing is compared or the second cannot be shown."""
    if view.beside is None:
        return None
    try:
        return pair_of(reports, first, view)
    except WorkbenchError:  # the panel over the two says what is wrong
        return None


def _of_same_string(first: Chosen, second: Chosen) -> int | None:
    """Index of the failure of the second report that is of the first's string, None where it lists none."""
    if first.failure is None:
        return None
    return second.by_string.get((first.failure.string, first.failure.length))


def stamp(reports: Reports, view: ViewState) -> str:
    """Return what changes whenever a report of either subject is written, or a run of them appears or goes."""
    first = reports.stamp(view)
    if view.beside is None:
        return first
    return f"{first} {reports.stamp(second_view(view))}"


def start(reports: Reports, chosen: Chosen) -> Beside:
    """Return what a comparison begins with: an earlier report, else another run's, another failure, the same."""
    earlier = [step for step in chosen.steps if step < chosen.content.step]
    if earlier:
        return Beside(checkpoint=earlier[0])
    rows = [row for row in reports.data.runs() if row.readable and row.id != chosen.run.id]
    other = next((row.id for row in rows if reports.steps(row.id)), None)
    if other is not None:
        return Beside(run=other)
    if len(chosen.listed) > 1:
        return Beside(failure=chosen.listed[(chosen.place + 1) % len(chosen.listed)])
    return Beside()


def button(reports: Reports, chosen: Chosen, view: ViewState) -> Component:
    """Return the link into a comparison, or out of it."""
    begins = Beside() if view.beside is not None else start(reports, chosen)
    return compare_link(replace(view, run=chosen.run.id), PATH, begins, "Another run, step or failure")


def names(pair: Pair) -> tuple[str, str]:
    """Return what to call the subjects: what of them is not the same, in words."""
    runs = pair.first.run.id != pair.second.run.id
    steps = runs or pair.first.content.step != pair.second.content.step
    said = []
    for chosen in (pair.first, pair.second):
        words = [chosen.run.id] if runs else []
        words += [f"step {chosen.content.step:,}"] if steps else []
        if pair.named and chosen.view.failure is not None:
            words.append(f"failure {chosen.view.failure:,}")
        said.append(", ".join(words) or f"step {chosen.content.step:,}")
    return said[0], said[1]


def report_names(pair: Pair) -> tuple[str, str]:
    """Return what to call the reports of both subjects, whichever failure of them is shown."""
    return names(replace(pair, named=False))


def swapped(pair: Pair) -> ViewState:
    """Return the view whose first subject is the second one, and the other way round."""
    first, second = pair.first, pair.second
    turned = replace(
        first.view, run=second.run.id, checkpoint=second.content.step, failure=second.view.failure, row=None, text=None
    )
    if turned.failure is not None and turned.failure not in listed_failures(second.content, turned):
        turned = replace(turned, **ANY)
    return replace(turned, beside=_to(second, first, first.view.failure if pair.named else None))


def elsewhere(pair: Pair) -> Beside | None:
    """Return what is beside the failed string on pages that run a model on it; None where nothing else is."""
    to = _to(pair.first, pair.second, None)
    if pair.named and pair.second.failure is not None and pair.second.tokens != pair.first.tokens:
        to = replace(to, text=write_tokens(pair.second.tokens, pair.second.layout.alphabet))
    return to if to != Beside() else None


def in_attention(pair: Pair, captured: Captured, capture: str) -> Beside | None:
    """Return what is beside the captured string on the Attention page; None where nothing else is.

    Args:
        pair: the subjects.
        captured: finds the second's string.
        capture: that holds the first's.
    """
    to = _to(pair.first, pair.second, None)
    found = captured.find(pair.second) if pair.named else None
    if found is not None:
        same = pair.first.run.id == pair.second.run.id and found[0] == capture
        to = replace(to, capture=None if same else found[0], string=found[1])
    elif pair.named and pair.second.tokens != pair.first.tokens:
        return None
    return to if to != Beside() else None


def _to(one: Chosen, other: Chosen, failure: int | None) -> Beside:
    """What to put beside `one` so that the second subject is the report of `other`."""
    runs = one.run.id != other.run.id
    steps = runs or one.content.step != other.content.step
    return Beside(run=other.run.id if runs else None, checkpoint=other.content.step if steps else None, failure=failure)


def bar(reports: Reports, first: Chosen, view: ViewState) -> list[Component]:
    """Return the panel over two subjects, and why the second cannot be shown; nothing while nothing is compared."""
    if view.beside is None:
        return []
    try:
        pair = pair_of(reports, first, view)
    except WorkbenchError as error:
        shown = compare_bar(Bar(None, _choices(reports, first, view.beside, None)), view, PATH)
        ways = []
        if isinstance(error, Nothing) and view.beside.run is not None:
            there = PATH + ViewState(run=view.beside.run).query()
            ways = [html.P(link("Open that run alone", there, className="button"), className="compare-way")]
        return [shown, message(error), *ways]
    notes = list(pair.second.notes)
    if pair.same_report and (not pair.named or pair.second.view.failure == first.view.failure):
        notes.append("Both are the same: choose another run, report or failure.")
    choices = _choices(reports, first, view.beside, pair)
    shown = compare_bar(Bar(names(pair), choices, swapped(pair), notes), view, PATH)
    apart = nothing_shared(reports, pair)
    return [shown] if apart is None else [shown, message(apart)]


def nothing_shared(reports: Reports, pair: Pair) -> Nothing | None:
    """Return what to do where no strings of one distribution and length are in both reports, None where some are."""
    own, other = ({(g.distribution, g.length) for g in c.content.groups} for c in (pair.first, pair.second))
    if own & other or not own:
        return None
    groups, command = pair.first.content.groups, reports.command(pair.second.run.id, pair.second.content.step)
    lengths = ",".join(map(str, sorted({group.length for group in groups})))
    strings = max(group.strings for group in groups)
    names_asked = list(dict.fromkeys(name for name, _ in sorted(own)))
    others = set(names_asked) - {name for name, _ in other}
    which = f" --distributions {','.join(names_asked)}" if others else ""
    return Nothing(
        "no strings of one distribution and length are in both reports. Ask the second about those of the first",
        f"{command} --lengths {lengths} --strings {strings}{which}",
    )


def _choices(reports: Reports, first: Chosen, beside: Beside, pair: Pair | None) -> list[Choice]:
    """What is chosen by a list each."""
    rows = [row for row in reports.data.runs() if row.readable and row.id != first.run.id]
    runs = [(row.id, row.id) for row in rows if reports.steps(row.id)]
    at = pair.second if pair else None
    if at is None and beside.run is not None:
        steps: tuple[int, ...] = ()
        if beside.run in dict(runs):
            steps = reports.steps(beside.run)
    else:
        steps = at.steps if at else first.steps
    newest = f"the newest: step {steps[0]:,}" if steps else "none"
    same_step = f"of step {first.content.step:,}" if beside.run is None else newest
    listed = at.content.failures if at else ()
    failures = [
        (str(i), f"#{i} · {failure.cause} · {failure.distribution} · n = {failure.length:,}")
        for i, failure in enumerate(listed)
    ]
    step = "" if beside.checkpoint is None else str(at.content.step if at else beside.checkpoint)
    of_same = f"#{first.view.failure}, the same" if pair and pair.same_report else "the same string"
    return [
        Choice("run", "Run", runs, beside.run or "", "the same"),
        Choice("checkpoint", "Report", [(str(step), f"step {step:,}") for step in steps], step, same_step),
        Choice("failure", "Failure", failures, "" if beside.failure is None else str(beside.failure), of_same),
    ]
