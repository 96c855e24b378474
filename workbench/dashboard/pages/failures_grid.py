"""A failed string token by token, its copy below it, and below both what it is edited to and what comes of that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dash import html
from dash.development.base_component import Component

from workbench.content.failures import CompetitorContent, FailureContent
from workbench.dashboard.pages.failures_reports import Chosen, Layout
from workbench.figures.tokens import visible

if TYPE_CHECKING:
    from analyses.decoding import Decoded

MOST_WHOLE = 1000  # tokens of a string that can be shown as a whole
_BEFORE, _AFTER = 26, 13  # columns shown around the error
_RIVALS, _RIVAL_BEFORE, _RIVAL_AFTER = 3, 9, 3  # strongest competitors that are shown too, and columns around them
_NUMBERED = 5  # every how many columns a number stands
_EXTRA = 12  # columns beyond the string, where the copy goes on too long


@dataclass(frozen=True)
class Edited:
    """An edited string, and what the model makes of it.

    Attributes:
        tokens: ids.
        free: the copy left to itself; None while the model is loaded.
    """

    tokens: tuple[int, ...]
    free: "Decoded | None"


@dataclass(frozen=True)
class Second:
    """The copy of a second model, beside that of the report.

    Attributes:
        free: the copy left to itself; None while its model is loaded, or where it is not run.
        layout: of the second's strings, which names its tokens.
    """

    free: "Decoded | None"
    layout: Layout


def grid(chosen: Chosen, opens: str, opened: str, edited: Edited | None, second: Second | None = None) -> Component:
    """Return the string and its copies in columns that wrap, windowed around the error and its strongest competitors.

    Args:
        chosen: whose failure is shown.
        opens: address that a token of the copy leads to, its query row to be appended.
        opened: what that page is called.
        edited: the last two lines; None for none.
        second: the line below the copy; None for none.
    """
    failure = chosen.failure
    assert failure is not None
    columns = _Columns(chosen, failure, edited, opened, second)
    parts: list[Component] = []
    shown = segments(failure, chosen.view.whole, columns.last)
    before = 0
    for start, stop in shown:
        if start > before:
            parts.append(_gap(start - before))
        parts += [columns.column(i) for i in range(start, stop)]
        before = stop
    if before < columns.last:
        parts.append(_gap(columns.last - before))
    lines = ["the failed string, its copy", *(["that of the second"] if second else [])]
    said = ", ".join(lines) + (", and the string as edited" if edited else "")
    labels = ["string", "copy", *(["second"] if second else [])]
    if edited is not None:
        labels += ["edit", *(["new copy"] if edited.free is not None else [])]
    named = [html.Span("", className="col-index"), *(html.Span(name, className="col-label") for name in labels)]
    return html.Div(
        [html.Span(named, className="col labels"), *parts],
        className="token-grid",
        role="group",
        **{
            "aria-label": f"{said[:1].upper()}{said[1:]}; arrow keys move",
            "data-grid": "1",
            "data-opens": opens,
        },
    )


def segments(failure: FailureContent, whole: bool, last: int) -> list[tuple[int, int]]:
    """Columns that are shown, as ranges that ascend and do not touch.

    Args:
        failure: whose error and competitors are shown.
        whole: all of it, up to MOST_WHOLE columns around the error.
        last: columns there are.
    """
    k = failure.first_error
    if whole:
        start = max(0, min(k - MOST_WHOLE // 2, last - MOST_WHOLE))
        return [(start, min(last, start + MOST_WHOLE))]
    wanted = [(k - _BEFORE, k + _AFTER + 1)]
    wanted += [(c.index - _RIVAL_BEFORE, c.index + _RIVAL_AFTER + 1) for c in failure.competitors[:_RIVALS]]
    merged: list[tuple[int, int]] = []
    for start, stop in sorted((max(0, start), min(last, stop)) for start, stop in wanted):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        elif start < stop:
            merged.append((start, stop))
    return merged


class _Columns:
    """Makes the columns of one failure."""

    def __init__(
        self, chosen: Chosen, failure: FailureContent, edited: Edited | None, opened: str, second: Second | None
    ) -> None:
        self._chosen, self._failure, self._opened = chosen, failure, opened
        self._edited, self._second = edited, second
        self._tokens, self._name = chosen.tokens, chosen.layout.name
        self._rivals: dict[int, CompetitorContent] = {c.index: c for c in failure.competitors}
        self._order = {c.index: rank for rank, c in enumerate(failure.competitors)}
        self._context = _contexts(failure)
        answers = failure.aftermath.continuation
        self._copy = [*self._tokens[: failure.first_error], *answers]
        others = [len(edited.tokens) + 1] if edited else []
        others += [len(second.free.predicted)] if second and second.free is not None else []
        longest = max(len(self._copy), len(self._tokens) + 1, *others)
        self.last = min(longest, len(self._tokens) + 1 + _EXTRA)

    def column(self, i: int) -> Component:
        """Column i: its number, and a cell a line."""
        number = html.Span(str(i) if i % _NUMBERED == 0 else "", className="col-index")
        cells = [self._given(i), self._copied(i)]
        if self._second is not None:
            cells.append(self._answer(i, self._second.free, "second's copy", self._second.layout))
        if self._edited is not None:
            cells.append(self._flips(i, self._edited.tokens))
            if self._edited.free is not None:
                cells.append(self._answer(i, self._edited.free, "new copy", self._chosen.layout))
        failed = " at-error" if i == self._failure.first_error else ""
        return html.Span([number, *cells], className=f"col{failed}")

    def _given(self, i: int) -> Component:
        n, k = len(self._tokens), self._failure.first_error
        if i > n:
            return _none()
        kind, said = "given", []
        if i == k:
            kind += " asked"
            said.append(
                "what should have been copied here" if i < n else "the source of EOS, where the copy should end"
            )
        if i in self._rivals:
            rival = self._rivals[i]
            kind += " rival strongest" if self._order[i] == 0 else " rival"
            said.append(
                f"competitor {self._order[i] + 1}, {rival.mass:.2f} of the deciding attention, shares {rival.context} "
                f"tokens of context"
            )
        if i in self._context:
            kind += " context"
            said.append(self._context[i])
        name = self._name(self._tokens[i]) if i < n else self._chosen.layout.first
        return self._cell(0, i, name, kind, "; ".join([f"string {i}: {visible(name)}", *said]), row=i)

    def _copied(self, i: int) -> Component:
        n, k = len(self._tokens), self._failure.first_error
        if i >= len(self._copy):
            return _none()
        answer = self._failure.predicted if i == k else self._name(self._copy[i])
        right = (
            self._failure.right if i == k else self._name(self._tokens[i]) if i < n else "EOS" if i == n else "nothing"
        )
        wrong = i >= k and (i == k or answer != right)
        kind = "wrong first" if i == k else "wrong" if wrong else "after" if i > k else ""
        said = f"{visible(answer)} instead of {visible(right)}" if wrong else f"{visible(answer)}, right"
        return self._cell(1, i, answer, kind, f"copy {i}: {said}. Opens {self._opened} at this row", row=min(i, n))

    def _flips(self, i: int, tokens: tuple[int, ...]) -> Component:
        if i >= len(tokens):
            return _none()
        name = self._name(tokens[i])
        changed = i >= len(self._tokens) or tokens[i] != self._tokens[i]
        was = f", was {self._name(self._tokens[i])}" if changed and i < len(self._tokens) else ""
        title = f"edit {i}: {visible(name)}{was}. Click for the next token, or type one"
        return html.Button(
            visible(name), type="button", className=f"cell flips{_long(name)}{' changed' if changed else ''}",
            title=title, tabIndex=-1, **{"data-line": "2", "data-k": str(i), "data-flip": str(i)},
        )  # fmt: skip

    def _answer(self, i: int, free: "Decoded | None", line: str, layout: Layout) -> Component:
        """Answer i of a copy that a model was just left to make."""
        if free is None or i >= len(free.predicted):
            return _none()
        answer, sure = int(free.predicted[i]), f"{free.confidence[i]:.3f}"
        name, target = layout.name(answer), int(free.targets[i])
        kind = "" if answer == target else "wrong first" if i == free.first_error else "wrong"
        said = f"{name}, right" if answer == target else f"{name} instead of {layout.name(target)}"
        return html.Span(
            visible(name), className=f"cell{_long(name)} {kind}".rstrip(),
            title=f"{line} {i}: {said}, probability {sure}", style={"--p": sure},
        )  # fmt: skip

    def _cell(self, line: int, i: int, name: str, kind: str, title: str, row: int) -> Component:
        at = self._chosen.layout.row(len(self._tokens), row)
        return html.Button(
            visible(name), type="button", className=f"cell{_long(name)} {kind}".rstrip(), title=title,
            tabIndex=0 if line == 1 and i == self._failure.first_error else -1,
            **{"data-line": str(line), "data-k": str(i), "data-row": str(at)},
        )  # fmt: skip


def legend(failure: FailureContent, *, sure: bool = False) -> Component:
    """Return what the marks mean; only those that can occur here.

    Args:
        failure: whose marks they are.
        sure: whether a copy that a model was just left to make is shown, which has the probability of each answer.
    """
    marks: list[tuple[str, str, str]] = [("wrong first", failure.predicted, "first error")]
    marks.append(("given asked", failure.right, "what should have been copied"))
    if failure.competitors:
        marks.append(("given rival strongest", "0", "strongest competitor"))
        marks += [("given rival", "0", "other competitors")] if len(failure.competitors) > 1 else []
        marks.append(("given context", "0", "the context they share"))
    shown = [
        html.Span([html.Span(visible(name), className=f"cell legend-cell {kind}"), said], className="legend-part")
        for kind, name, said in marks
    ]
    if sure:
        bar = html.Span("0", className="cell legend-cell", style={"--p": "0.6"})
        shown.append(html.Span([bar, "bar: probability of the answer"], className="legend-part"))
    return html.P(shown, className="legend quiet")


def _contexts(failure: FailureContent) -> dict[int, str]:
    """Positions of the context that the strongest competitor shares with the failed row, and of which it is."""
    found: dict[int, str] = {}
    for rival in failure.competitors[:1]:
        for end, whose in ((failure.first_error, "the failed row's"), (rival.index, "the strongest competitor's")):
            for i in range(max(0, end - rival.context), end):
                found[i] = f"context of {'both' if i in found else whose}"
    return found


def _gap(columns: int) -> Component:
    return html.Span(f"… {columns:,} …", className="gap", title=f"{columns:,} tokens that are not shown")


def _none() -> Component:
    return html.Span("", className="cell none")


def _long(name: str) -> str:
    return " long" if len(name) > 1 else ""


def changed_places(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Indices at which two strings of the same length differ."""
    return [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
