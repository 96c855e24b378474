"""What a second report says of a string that fails in the first: how it fails there, that it is copied, or nothing.

A report lists failures alone. That a string is not among them means that it was copied only where the second report
looked at the very same strings and lists every one that fails: strings depend on seed, distribution, length, how many
are drawn, and the settings of the task.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.content.failures import FailureContent
from workbench.dashboard.data import Data
from workbench.dashboard.pages.failures_compare import Pair, second_or_none
from workbench.dashboard.pages.failures_reports import Chosen, Reports
from workbench.dashboard.state import ViewState
from workbench.figures.failure_groups import cells_of

# Settings of a task that strings are drawn by, beside its alphabet; all of them where a distribution is not known here.
_DRAWN_BY: dict[str, tuple[str, ...]] = {
    "uniform": (),
    "recursive-flip": (),
    "imbalanced": ("probabilities",),
    "repeat-structure": ("period", "flip"),
    "unique-context": ("context",),
}
_ALL = tuple(name for names in _DRAWN_BY.values() for name in names)


@dataclass(frozen=True)
class Said:
    """What the second report says of a string.

    Attributes:
        index: of the failure of that string; None where it lists none.
        failure: that failure.
        copied: the string is known to be copied.
        words: in short.
        why: how that is known, or why nothing is.
    """

    index: int | None
    failure: FailureContent | None
    copied: bool
    words: str
    why: str

    @property
    def rank(self) -> tuple[int, int]:
        """What the list is sorted by: failed, earliest error first, then copied, then unknown."""
        if self.failure is not None:
            return 0, self.failure.first_error
        return (1, 0) if self.copied else (2, 0)


class SecondSays:
    """Says of each string of the first report what the second one has of it."""

    def __init__(self, data: Data, pair: Pair) -> None:
        self._pair = pair
        self._own, self._other = (cells_of(chosen.content.groups) for chosen in (pair.first, pair.second))
        self._apart = {name: drawn_apart(data, pair, name) for name, _ in self._own}

    def of(self, failure: FailureContent) -> Said:
        """What is said of the string of a failure of the first report."""
        index = self._pair.second.by_string.get((failure.string, failure.length))
        if index is not None:
            other = self._pair.second.content.failures[index]
            sure = "" if other.confirmed or other.cause == "other" else ", unconfirmed"
            at = "EOS" if other.first_error == other.length else f"{other.first_error:,}"
            where = at if at == "EOS" else f"token {at}"
            why = f"failure {index} of the second's report: first error at {where}, {other.cause}{sure}"
            return Said(index, other, False, f"fails at {at}, {other.cause}", why)
        why = self._unknown((failure.distribution, failure.length))
        if not why:
            looked = self._other[failure.distribution, failure.length]
            sure = f"it drew the same {looked.strings:,} strings and lists each of the {looked.failed:,} that fail"
            return Said(None, None, True, "copied", f"The second's report does not list this string: {sure}")
        return Said(None, None, False, "not listed", f"Whether it is copied is not known: {why}")

    def _unknown(self, key: tuple[str, int]) -> str:
        """Why a string that the second report does not list may still fail; "" where it cannot."""
        own, other = self._own.get(key), self._other.get(key)
        kind = f"{key[0]} strings of {key[1]:,} tokens"
        if other is None:
            return f"the second's report has no {kind}"
        if self._apart.get(key[0]):
            return f"the second's report looked at other strings, {self._apart[key[0]]}"
        if own is None or own.strings != other.strings:
            return f"the second's report drew {other.strings:,} {kind}, so others than the first's"
        if other.explained < other.failed:
            return f"the second's report lists {other.explained:,} of {other.failed:,} failed {kind}"
        return ""


class ComparedReports(Reports):
    """Reports whose lists can be sorted by what a second report says of each string."""

    def choose(self, view: ViewState) -> Chosen:
        """Make the open choices of a view; raises as `Reports.choose`."""
        chosen = super().choose(view)
        if view.order.removeprefix("-") != "second":
            return chosen
        pair = second_or_none(self, chosen, view)
        if pair is None or pair.same_report or not chosen.listed:
            return chosen
        says, failures = SecondSays(self.data, pair), chosen.content.failures
        falling = view.order.startswith("-")
        listed = sorted(sorted(chosen.listed), key=lambda index: says.of(failures[index]).rank, reverse=falling)
        selected = view.failure if view.failure in chosen.listed else listed[0]
        return replace(chosen, listed=tuple(listed), view=replace(chosen.view, failure=selected))


def drawn_apart(data: Data, pair: Pair, distribution: str) -> str:
    """Return why the reports drew other strings of a distribution, "" where groups of one size hold the same ones."""
    one, other = pair.first.content.about, pair.second.content.about
    if one.seed != other.seed:
        return f"drawn with seed {other.seed} in place of {one.seed}"
    if one.versions.get("torch") != other.versions.get("torch"):
        return "drawn by another version of torch"
    if pair.first.run.id != pair.second.run.id:
        tasks = [_task_of(data, chosen.run.id) for chosen in (pair.first, pair.second)]
        by = ("alphabet", *_DRAWN_BY.get(distribution, _ALL))
        different = [name for name in by if tasks[0].get(name) != tasks[1].get(name)]
        if different:
            return f"drawn with another {' and '.join(different)} of the task"
    return ""


def same_strings(data: Data, pair: Pair) -> bool:
    """Whether every group that both reports have is of the same strings."""
    own, other = (cells_of(chosen.content.groups) for chosen in (pair.first, pair.second))
    shared = own.keys() & other.keys()
    return all(own[key].strings == other[key].strings for key in shared) and not any(
        drawn_apart(data, pair, name) for name in {name for name, _ in shared}
    )


def _task_of(data: Data, run_id: str) -> Mapping[str, Any]:
    """Settings of the task of a run; what its recipe leaves out is missing."""
    task = data.opened(run_id).config.get("task", {})
    return task if isinstance(task, dict) else {}
