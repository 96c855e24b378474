"""Reports on failures that runs keep, and what a view stands for in one: its run, step, list and failure."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from models.errors import WorkbenchError
from workbench.content.failures import FailureContent, FailuresContent
from workbench.dashboard.caching import Cache
from workbench.dashboard.data import Data, RunRow, stamp_of
from workbench.dashboard.pages.heads_reports import step_with_notes
from workbench.dashboard.parts import Nothing
from workbench.dashboard.selection import choose_run
from workbench.dashboard.state import ViewState
from workbench.files import NEW_NAME
from workbench.reports import keep
from workbench.reports.failures_words import aftermath_text

PATH = "/failures"
_KEPT_BYTES = 64 << 20  # of report files whose content is held in memory; it takes several times as much


@dataclass(frozen=True)
class Layout:
    """How a run lays out its strings: `A1..Aa s B1..Bb s EOS`; what its recipe leaves out is as in `TaskSettings`.

    Attributes:
        alphabet: different source tokens.
        a, b: tokens of prefix and delimiter.
        separator: what B1 is.
    """

    alphabet: int = 2
    a: int = 2
    b: int = 4
    separator: str = "\n"

    def row(self, length: int, index: int) -> int:
        """The query position that predicts token `index` of the copy of a string."""
        return self.a + length + self.b - 1 + index

    def name(self, token: int) -> str:
        """Printable name of a token id, as `models.tasks.Vocabulary` has it."""
        if token < self.alphabet:
            return str(token)
        at = token - self.alphabet
        if at < self.a:
            return f"A{at + 1}"
        at -= self.a
        if at == 0:
            return self.first
        return f"B{at + 1}" if at < self.b else {self.b: "EOS", self.b + 1: "PAD"}.get(at, f"#{token}")

    @property
    def first(self) -> str:
        """Printable name of B1."""
        return "⏎" if self.separator == "\n" else self.separator


@dataclass(frozen=True)
class Chosen:
    """A view whose open choices are made.

    Attributes:
        view: the view with run and step filled in, and the failure where there is one.
        run: the run.
        steps: those it keeps a report for, newest first.
        layout: of its strings.
        content: the report that is shown.
        listed: indices of the failures that are listed, in the order of the list.
        notes: what was replaced, and what the report is too old for.
    """

    view: ViewState
    run: RunRow
    steps: tuple[int, ...]
    layout: Layout
    content: FailuresContent
    listed: tuple[int, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def failure(self) -> FailureContent | None:
        """The failure that is selected, None where none is listed."""
        return None if self.view.failure is None else self.content.failures[self.view.failure]

    @property
    def place(self) -> int:
        """Where the selected failure stands in the list."""
        assert self.view.failure is not None
        return self.listed.index(self.view.failure)

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Ids of the selected string."""
        assert self.failure is not None
        return tokens_of(self.failure)

    @cached_property
    def by_string(self) -> dict[tuple[str, int], int]:
        """Index of the first failure of each string, by its text and length."""
        found: dict[tuple[str, int], int] = {}
        for index, failure in enumerate(self.content.failures):
            found.setdefault((failure.string, failure.length), index)
        return found

    @property
    def key(self) -> str:
        """Tells the selected failure from all others; what is asked of one is not done to the next."""
        return f"{self.run.id}@{self.content.step}:{self.view.failure}"

    @property
    def row(self) -> int:
        """The query position whose answer is the first wrong one."""
        assert self.failure is not None
        return self.layout.row(self.failure.length, self.failure.first_error)


class Reports:
    """Reads of kept reports, each parsed once and again only when its file changed."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._kept: Cache[tuple[FailuresContent, int]] = Cache(_KEPT_BYTES, lambda kept: kept[1])

    def command(self, run_id: str, step: int | None = None) -> str:
        """What to type for a report: of the newest weights, or of those of a step; raises as `Data.run` with a step."""
        earlier = step is not None and step != self.data.opened(run_id).step
        subject = f"{run_id}@{step}" if earlier else run_id
        return f"workbench failures {shlex.quote(subject)}{self.data.store.option}"

    def steps(self, run_id: str) -> tuple[int, ...]:
        """Steps that a run keeps a report for, newest first; raises as `Data.run` does."""
        return tuple(reversed(keep.kept_failures_steps(self.data.opened(run_id))))

    def content(self, run_id: str, step: int) -> FailuresContent:
        """The report on the failures of a run at a step.

        Raises:
            Nothing: it is damaged; says how to make it again.
            UsageError, WorkbenchError: as `Data.run`.
        """
        run = self.data.opened(run_id)
        path = keep.failures_file(run, step)
        stamp = stamp_of(path)

        def read() -> tuple[FailuresContent, int]:
            content = keep.kept_failures(run, step)
            named = [group.distribution for group in content.groups] + [point.distribution for point in content.curves]
            if not all(map(_is_whole, content.failures)) or not all(map(NEW_NAME.fullmatch, [*named, *content.causes])):
                raise WorkbenchError(f"{path} holds a failure that is none of its string, or a name that is none")
            return content, stamp[1]

        try:
            return self._kept.get((path, stamp), read)[0]
        except WorkbenchError:
            raise Nothing(
                f"the report on the failures of {run.id} at step {step:,} is damaged or of another version. Make it "
                f"again",
                self.command(run.id, step),
            ) from None

    def stamp(self, view: ViewState) -> str:
        """What changes whenever a report that a view shows is written, or its run gets a capture, appears or goes."""
        try:
            run = self.choose_run(view)
            steps = self.steps(run.id)
            opened = self.data.opened(run.id)
        except WorkbenchError as error:
            return str(error)
        files = [stamp_of(keep.failures_file(opened, step)) for step in steps]
        return str((run.id, run.step, run.captures, steps, files))

    def choose_run(self, view: ViewState) -> RunRow:
        """The run a view names, else the one that other pages show, else the newest that keeps a report."""
        run = choose_run(self.data, view)
        if view.run is not None or self.steps(run.id):
            return run
        rows = [row for row in self.data.runs() if row.readable]
        return next((row for row in rows if self.steps(row.id)), run)

    def choose(self, view: ViewState) -> Chosen:
        """Make the open choices of a view.

        Raises:
            Nothing: the run keeps no report, or a damaged one; says which command changes that.
            UsageError, WorkbenchError: the run is not there, or damaged.
        """
        run = self.choose_run(view)
        steps = self.steps(run.id)
        if not steps:
            raise Nothing(
                f"run {run.id} keeps no report on its failures yet. Once it has weights, make one: the cause of every "
                f"failed copy, with a counterfactual and its control",
                self.command(run.id),
            )
        step, notes = step_with_notes("failures", run, steps, view.checkpoint)
        content = self.content(run.id, step)
        listed = listed_failures(content, view)
        selected = view.failure
        if selected is None or selected not in listed:
            if selected is not None and listed:
                notes.append(f"Failure {selected} is not among those listed; showing the first of them.")
            selected = listed[0] if listed else None
        chosen = replace(view, run=run.id, checkpoint=step, failure=selected)
        return Chosen(chosen, run, steps, self.layout(run.id), content, listed, tuple(notes))

    def layout(self, run_id: str) -> Layout:
        """How a run lays out its strings."""
        task = self.data.opened(run_id).config.get("task", {})
        asked = task if isinstance(task, dict) else {}
        known = {name: asked[name] for name in ("alphabet", "a", "b") if type(asked.get(name)) is int}
        separator = asked.get("separator")
        return Layout(**known, separator=separator if isinstance(separator, str) and separator else "\n")


def listed_failures(content: FailuresContent, view: ViewState) -> tuple[int, ...]:
    """Indices of the failures that a view's filters leave, in its order; equals in the order of the report."""
    asked: list[tuple[Callable[[FailureContent], Any], Any]] = [
        (lambda failure: failure.cause, view.cause),
        (lambda failure: failure.confirmed, view.confirmed),
        (lambda failure: failure.distribution, view.failed_distribution),
        (lambda failure: failure.length, view.failed_length),
    ]
    asked = [(of, value) for of, value in asked if value is not None]
    left = [i for i, failure in enumerate(content.failures) if all(of(failure) == value for of, value in asked)]
    key = SORT_KEYS.get(view.order.removeprefix("-"))
    if key is not None:
        left.sort(key=lambda i: key(content.failures[i]), reverse=view.order.startswith("-"))
    elif view.order.startswith("-"):
        left.reverse()
    return tuple(left)


SORT_KEYS: dict[str, Callable[[FailureContent], Any]] = {
    "distribution": lambda failure: (failure.distribution, failure.length),
    "length": lambda failure: failure.length,
    "first": lambda failure: failure.first_error,
    "place": lambda failure: failure.first_error / failure.length,
    "error": lambda failure: (failure.right, failure.predicted),
    "cause": lambda failure: (failure.cause, not failure.confirmed),
    "after": lambda failure: aftermath_text(failure.aftermath, failure),
}


def tokens_of(failure: FailureContent) -> tuple[int, ...]:
    """Ids of a failed string; ValueError where its text is none."""
    text = failure.string
    parts = text.split() if " " in text or failure.length == 1 else list(text)
    if not all(part.isascii() and part.isdigit() and len(part) <= 6 for part in parts):
        raise ValueError("a string is digits in a row, or numbers with spaces between")
    return tuple(map(int, parts))


def _is_whole(failure: FailureContent) -> bool:
    """Whether a failure's numbers are those of its string and its names are names, so that it can be drawn."""
    if not (NEW_NAME.fullmatch(failure.distribution) and NEW_NAME.fullmatch(failure.cause)):
        return False
    try:
        tokens = tokens_of(failure)
    except ValueError:
        return False
    places = [failure.first_error, *(found.index for found in failure.competitors)]
    answers = failure.aftermath.continuation
    return (
        len(tokens) == failure.length > 0
        and all(0 <= p <= failure.length for p in places)
        and min(answers, default=0) >= 0
    )
