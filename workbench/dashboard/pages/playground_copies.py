"""The copies of a string on the Playground: how each went in a line, and all of them token by token below the string.

Where two subjects are compared, both have their lines, and one of their difference: the probability of the right token.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.live_models import LiveModels
from workbench.dashboard.live_pairs import LivePair
from workbench.dashboard.numbers import plain
from workbench.dashboard.pages.playground_copy import Cell, Line, answer_cells, instead, token_grid, verdict
from workbench.dashboard.pages.playground_pairs import called_by_copy, same_copy
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import link
from workbench.dashboard.state import ViewState
from workbench.figures.numbers import signed

if TYPE_CHECKING:
    from analyses.decoding import Decoded

_NAMED = 8  # places fed otherwise that are named one by one
_SIDES = ("first", "second")
_ALIKE = 0.005  # probabilities that are no further apart have no sign
_HINTS = {
    "string": "Point at a token to look from it, click to keep it, type a digit over the string to change it.",
    "fed": "Point at a token to look from it, click to keep it, type a digit over the string or over what is fed to "
    "change it.",
}


def modes(view: ViewState) -> tuple[bool, ...]:
    """Return which copies are shown: False stands for teacher-forced, True for free-running."""
    return {"both": (False, True), "forced": (False,), "free": (True,)}[view.mode]


def copy_of(models: LiveModels, chosen: Chosen, free: bool) -> "Decoded":
    """Return one copy of the string, the teacher-forced one fed as the view asks."""
    return models.decoded(chosen.live, chosen.tokens, free=free, fed=chosen.fed)


def copies(
    models: LiveModels, chosen: Chosen, pair: LivePair | None, path: str
) -> tuple[list[Component], list[Component]]:
    """Return how each copy went, and all of them token by token below the string.

    Args:
        models: what is read.
        chosen: the first subject.
        pair: both, None while nothing is compared or the second cannot be shown.
        path: address of the page.
    """
    two = pair is not None and not same_copy(pair)
    subjects = (chosen, pair.second) if pair is not None and two else (chosen,)
    called = called_by_copy(pair) if pair is not None and two else ("",)
    both_strings = two and subjects[0].tokens != subjects[-1].tokens
    lines = string_lines(subjects if both_strings else subjects[:1])
    verdicts, apart = [], []
    for free in modes(chosen.view):
        decoded = [copy_of(models, subject, free) for subject in subjects]
        label, rows = ("free" if free else "forced"), decoded[0].rows.tolist()
        for side, subject, copy, name in zip(_SIDES, subjects, decoded, called, strict=False):
            lines.append(Line(f"{label}, {side}" if two else label, copied_cells(subject, copy, rows)))
            verdicts.append(told(copy, subject, f"{side}: {name}" if two else "", path if side == "first" else None))
        if two:
            lines.append(Line("difference", difference_cells(subjects, decoded)))
            apart.append(f"{'free-running' if free else 'teacher-forced'} {_most_apart(subjects, decoded)}")
        if not free and (chosen.fed or chosen.view.mode == "forced"):
            lines.append(Line("fed, first" if both_strings else "fed", fed_cells(chosen, rows)))
    if pair is not None:
        verdicts.append(_compared(subjects, apart))
    label = "The string and its copies, token by token; arrow keys move"
    fed = any(line.label.startswith("fed") for line in lines)
    return verdicts, [plain(token_grid(lines, "playground-grid", label)), _legend(fed, two, both_strings)]


def string_lines(subjects: Sequence[Chosen]) -> list[Line]:
    """Return the line of each string; where they are two, tokens that are not the same are marked.

    Tokens of the first can be typed over; those of both look from the first's query.
    """
    if len(subjects) == 1:
        return [Line("string", source_cells(subjects[0]))]
    first, second = subjects
    differs = {k for k, (one, other) in enumerate(zip(first.tokens, second.tokens, strict=False)) if one != other}
    return [
        Line("string, first", source_cells(first, differs, others=second)),
        Line("string, second", source_cells(second, differs, others=first, looks=first)),
    ]


def source_cells(
    chosen: Chosen, differs: frozenset[int] | set[int] = frozenset(), others: Chosen | None = None,
    looks: Chosen | None = None,
) -> list[Cell | None]:  # fmt: skip
    """Return the tokens of a string and the separator behind it.

    Args:
        chosen: whose string it is.
        differs: places at which `others` has another token.
        others: the other subject, None for none.
        looks: the subject whose queries are looked from, where it is not `chosen`.
    """
    names, first = chosen.names, chosen.live.task.a
    at = looks or chosen
    rows = [2 * (at.live.task.a + k) if k <= at.length else None for k in range(chosen.length + 1)]
    kind = "source" if looks is None else "of-second"
    cells: list[Cell | None] = []
    for k, token in enumerate(chosen.tokens):
        said, look = f"{names[token]} at position {first + k}", kind
        if k in differs and others is not None:
            said += f", {others.names[others.tokens[k]]} in the {'second' if looks is None else 'first'}"
            look += " differs"
        cells.append(Cell(names[token], said, look, None, rows[k]))
    end = chosen.live.vocabulary.delimiter[0]
    cells.append(Cell(names[end], "B1, by which EOS is located", "anchor", None, rows[chosen.length]))
    return cells


def copied_cells(chosen: Chosen, copy: "Decoded", rows: Sequence[int]) -> list[Cell]:
    """Return the tokens of a copy; `rows` are the queries that they look from, those of the first subject."""
    predicted, confidence, targets = (part.tolist() for part in (copy.predicted, copy.confidence, copy.targets))
    return answer_cells(chosen.names, predicted, targets, confidence, rows, copy.free)


def difference_cells(subjects: Sequence[Chosen], decoded: Sequence["Decoded"]) -> list[Cell | None]:
    """Return the probability of the right token, first minus second, as far as both have a token to copy."""
    one, other = decoded
    count = _common(subjects, decoded)
    cells: list[Cell | None] = []
    for k, (p, q) in enumerate(
        zip(one.right_probability[:count].tolist(), other.right_probability[:count].tolist(), strict=True)
    ):
        apart = p - q
        sign, kind = ("·", "alike") if abs(apart) < _ALIKE else ("+", "more") if apart > 0 else ("−", "less")
        right = [subject.names[int(copy.targets[k])] for subject, copy in zip(subjects, decoded, strict=True)]
        of = right[0] if right[0] == right[1] else f"{right[0]} and {right[1]}"
        said = f"{signed(apart, 3)}, right token {of}: {p:.3f} and {q:.3f}"
        cells.append(Cell(sign, said, f"apart {kind}", None, 2 * int(one.rows[k]) + int(one.free), apart))
    return cells


def fed_cells(chosen: Chosen, rows: list[int]) -> list[Cell | None]:
    """Return the copied tokens that the teacher-forced copy is fed; each looks from the query that reads it."""
    names, otherwise = chosen.names, dict(chosen.fed)
    cells: list[Cell | None] = []
    for k, right in enumerate(chosen.tokens):
        token = otherwise.get(k, right)
        said = f"fed {names[token]}" + (f" in place of {names[right]}" if k in otherwise else ", the right one")
        cells.append(Cell(names[token], said, "fed changed" if k in otherwise else "fed", None, 2 * (rows[k] + 1)))
    return cells


def told(copy: "Decoded", chosen: Chosen, called: str, path: str | None) -> Component:
    """Return in a line how a copy went.

    Args:
        copy: it.
        chosen: whose it is.
        called: what to call the subject, "" where there is one.
        path: address of the page, for the way back from what was fed; None for no such link.
    """
    label, n, k = ("Free-running" if copy.free else "Teacher-forced"), chosen.length, copy.first_error
    more: list[Any] = []
    if k is not None:
        more = [": ", *instead(chosen.names, int(copy.predicted[k]), int(copy.targets[k]))]
        more.append(f" at {copy.confidence[k]:.2f}")
    hits = copy.predicted == copy.targets[: len(copy.predicted)]
    more.append(f" · {int(hits.sum()):,} of {n + 1:,} right · mean probability {float(copy.confidence.mean()):.2f}")
    if chosen.fed and not copy.free:
        more += after_fed(chosen, hits, path)
    if copy.cut:
        more.append(f" · stopped after {len(copy.predicted):,} tokens, as decoding further would take too long")
    elif copy.free and len(copy.predicted) < n + 1:
        more.append(f" · ended itself at token {len(copy.predicted) - 1:,}")
    elif copy.free and copy.predicted[-1] != copy.targets[-1]:
        more.append(" · did not end in time")
    return verdict(f"{label}, {called}" if called else label, k, n, *more)


def after_fed(chosen: Chosen, hits: np.ndarray, path: str | None) -> list[Any]:
    """Return what was fed in place of right tokens, how the copy goes on from there, and the way back."""
    places = [index for index, _ in chosen.fed]
    listed_places = ", ".join(f"{index:,}" for index in places[:_NAMED]) + (", …" if len(places) > _NAMED else "")
    behind = hits[places[0] + 1 :]
    said = f" · fed otherwise at {listed_places}: {int(behind.sum()):,} of {len(behind):,} behind the first are right "
    if path is None:
        return [said]
    back = path + chosen.view.change(fed=None).query()
    return [said, link("Feed the right copy", back, title="Undo what is fed in place of right tokens")]


def _common(subjects: Sequence[Chosen], decoded: Sequence["Decoded"]) -> int:
    """How many tokens of two copies are compared: of strings of different length, EOS is at no common place."""
    count = min(len(copy.right_probability) for copy in decoded)
    lengths = {subject.length for subject in subjects}
    return count if len(lengths) == 1 else min(count, *lengths)


def _most_apart(subjects: Sequence[Chosen], decoded: Sequence["Decoded"]) -> str:
    """How far the probabilities of the right tokens are apart: on average, and where most."""
    count = _common(subjects, decoded)
    one, other = (copy.right_probability[:count] for copy in decoded)
    apart = one - other
    most = int(np.abs(apart).argmax())
    return f"{signed(float(apart.mean()), 3)} on average, most at token {most:,} ({signed(float(apart[most]), 3)})"


def _compared(subjects: Sequence[Chosen], apart: Sequence[str]) -> Component:
    """The finding of the differences, and what the reader has to know of the two strings."""
    if len(subjects) == 1:
        return html.P(
            "Both subjects are the same weights on the same string: there is one copy.", className="apart-said"
        )
    first, second = subjects
    said = f"Probability of the right token, first − second: {'; '.join(apart)}."
    if first.tokens != second.tokens:
        common = min(first.length, second.length)
        others = sum(one != other for one, other in zip(first.tokens, second.tokens, strict=False))
        if first.length != second.length:
            said += (
                f" The strings have {first.length:,} and {second.length:,} tokens, compared by position without EOS."
            )
        said += f" {others:,} of {common:,} tokens differ (◆)."
    return html.P(said, className="apart-said")


def _legend(fed: bool, two: bool, both_strings: bool) -> Component:
    def part(look: str, sign: str, said: str) -> Component:
        return html.Span([html.Span(sign, className=f"cell {look} legend-cell"), said], className="legend-part")

    more = []
    if two:
        strongest = {"style": {"--d": "0.8"}}
        for look, sign, side in (("more", "+", "first"), ("less", "−", "second")):
            cell = html.Span(sign, className=f"cell apart {look} legend-cell", **strongest)
            more.append(html.Span([cell, f"right token likelier in the {side}"], className="legend-part"))
        more.append(part("apart alike", "·", f"less than {_ALIKE} apart"))
    if both_strings:
        more.append(part("of-second differs", "0", "another token"))
    return html.P(
        [
            html.Span([html.Span(className="legend-bar"), "probability of the answer"], className="legend-part"),
            part("wrong", "0", "wrong"),
            part("wrong first", "0", "first error"),
            *more,
            html.Span(_HINTS["fed" if fed else "string"]),
        ],
        className="legend quiet",
    )
