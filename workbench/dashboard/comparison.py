"""Two subjects of a view and their difference: two heads, strings, checkpoints or runs on the same rows and keys."""

from dataclasses import dataclass, replace

import numpy as np

from workbench.dashboard.beside import Beside, difference, second_view
from workbench.dashboard.data import Data
from workbench.dashboard.overviews import AT_ONCE
from workbench.dashboard.selection import Selection, select
from workbench.dashboard.state import ViewState, Zoom
from workbench.differences import Difference, subtract, subtract_maxima

TOP_ROWS = 8


@dataclass(frozen=True)
class Pair:
    """The two subjects.

    Attributes:
        first, second: selections; rows and zoom of the second are those of the first.
    """

    first: Selection
    second: Selection

    @property
    def length(self) -> int:
        """Tokens that both strings have, counted from their beginnings."""
        return min(self.first.n_tokens, self.second.n_tokens)

    @property
    def differing(self) -> np.ndarray:
        """Positions within `length` at which the strings have other tokens."""
        names = [chosen.string.token_names[: self.length] for chosen in (self.first, self.second)]
        return np.flatnonzero(np.array(names[0], dtype=object) != np.array(names[1], dtype=object))

    @property
    def copies_begin(self) -> tuple[int, int]:
        """The first query of each that copies, -1 where none does: tokens of a copy have other places from there on."""
        copying = (np.flatnonzero(np.asarray(c.string.source_position) >= 0) for c in (self.first, self.second))
        first, second = (int(queries[0]) if len(queries) else -1 for queries in copying)
        return first, second

    @property
    def same(self) -> bool:
        """Whether both subjects are one and the same head, string and weights."""
        return names(self)[0] == names(self)[1]

    @property
    def part(self) -> Zoom:
        """The rectangle that is compared: the part in sight, within `length`."""
        whole = Zoom(0, self.length, 0, self.length)
        zoom = self.first.view.zoom
        return whole if zoom is None else zoom.within(self.length)


@dataclass(frozen=True)
class MovedRow:
    """A query whose attention lies elsewhere.

    Attributes:
        query: position.
        share: of its attention that lies on other keys, 0 to 1.
        keys: key with most weight in the first and in the second.
        weights: these weights.
    """

    query: int
    share: float
    keys: tuple[int, int]
    weights: tuple[float, float]


def pair_of(data: Data, view: ViewState) -> Pair:
    """Make the open choices of both subjects.

    Raises:
        Recapturing: a string is being run under other weights.
        Nothing, UsageError, WorkbenchError: as `select`.
    """
    first = select(data, view)
    return Pair(first, second_of(data, first, view))


def second_of(data: Data, first: Selection, view: ViewState) -> Selection:
    """Make the open choices of the second subject, in which the pinned row may not be; raises as `select`."""
    open_choices = replace(first.view, beside=view.beside or Beside())
    second = select(data, replace(second_view(open_choices), row=None))
    return replace(second, row=first.row, view=replace(second.view, row=first.row))


def start(data: Data, chosen: Selection, by_head: bool = True) -> Beside:
    """Return what a comparison begins with: the next head, else another layer, an earlier step, another string.

    Args:
        data: what is read.
        chosen: the first subject.
        by_head: whether heads are compared, and not what all heads of a layer share.
    """
    view, counts = chosen.view, chosen.capture.heads
    if by_head and counts[view.layer] > 1:
        return Beside(head=(view.head + 1) % counts[view.layer])
    if by_head and len(counts) > 1:
        return Beside(layer=(view.layer + 1) % len(counts), head=0)
    earlier = [step for step in data.opened(chosen.run.id).checkpoints if step < chosen.step]
    if earlier:
        return Beside(checkpoint=earlier[len(earlier) // 2])
    other = next((index for index in chosen.order if index != view.string), None)
    return Beside(string=other)


def swapped(pair: Pair) -> ViewState:
    """Return the view whose first subject is the second one, and the other way round."""
    first, second = pair.first, pair.second
    named = ("run", "of", "capture", "checkpoint", "string", "layer", "head")
    turned = replace(first.view, **{name: getattr(second.view, name) for name in named})
    return replace(turned, beside=difference(turned, first.view, first.step))


def subtracted(data: Data, pair: Pair, cells: int) -> Difference:
    """Return the first map minus the second.

    Args:
        data: what is read.
        pair: the subjects.
        cells: a side, at most, where a cell stands for several queries and keys.

    Raises:
        Pending: an overview of a long string is being computed.
        WorkbenchError: the maps are pooled into other cells.
    """
    first, second, part = pair.first, pair.second, pair.part
    patterns = [chosen.string.head(chosen.view.layer, chosen.view.head) for chosen in (first, second)]
    if max(part.bottom, part.right) <= AT_ONCE:
        return subtract(patterns[0], patterns[1], part.rows, part.cols, cells)
    ours, theirs = (
        data.pooled(chosen.capture, chosen.index, chosen.view.layer, chosen.view.head, part.rows, part.cols, cells)
        for chosen in (first, second)
    )
    return subtract_maxima(ours, theirs)


def most_moved(pair: Pair, found: Difference, among: np.ndarray | None = None) -> list[MovedRow]:
    """Return the queries in sight whose attention differs most, most first; none where only maxima were subtracted.

    Args:
        pair: the subjects.
        found: their difference.
        among: bool[Q] which queries in sight are looked at; all by default.
    """
    if found.moved is None:
        return []
    patterns = [chosen.string.head(chosen.view.layer, chosen.view.head) for chosen in (pair.first, pair.second)]
    rows = []
    order = np.argsort(-found.moved, kind="stable")
    for at in (order if among is None else order[among[order]])[:TOP_ROWS].tolist():
        query = int(found.row_edges[0]) + at
        tops = [pattern.top_keys(query, 1) for pattern in patterns]
        if any(not len(keys) for keys, _ in tops):
            continue
        keys, weights = (int(tops[0][0][0]), int(tops[1][0][0])), (float(tops[0][1][0]), float(tops[1][1][0]))
        rows.append(MovedRow(query, float(found.moved[at]), keys, weights))
    return rows


def summarised(pair: Pair, found: Difference) -> tuple[np.ndarray, str]:
    """Return bool[Q], the queries in sight that a finding is about, and what they are: those that copy, if any does."""
    rows = slice(int(found.row_edges[0]), int(found.row_edges[-1]))
    copying = np.asarray(pair.first.string.source_position)[rows] >= 0
    if not copying.any():
        return np.ones_like(copying), "queries in sight"
    first, second = pair.copies_begin
    return copying, "queries that copy" if first == second else "the first's queries that copy"


def strings_said(pair: Pair, marked: str = "") -> list[str]:
    """Return what a reader has to know of two strings that are not the same; `marked` tells where they are marked."""
    said, lengths = [], (pair.first.n_tokens, pair.second.n_tokens)
    if lengths[0] != lengths[1]:
        said.append(
            f"The strings have {lengths[0]:,} and {lengths[1]:,} tokens; compared by position up to {pair.length:,}."
        )
    others, (first, second) = len(pair.differing), pair.copies_begin
    if others:
        said.append(f"{others:,} of {pair.length:,} tokens differ{marked}.")
    if first != second and 0 <= min(first, second) < pair.length:
        said.append(
            f"The first copied token is predicted at position {first:,} in the first and {second:,} in the second: "
            "from there on a position is another token of the copy in each, which alone makes a difference."
        )
    return said


def names(pair: Pair) -> tuple[str, str]:
    """Return what to call the subjects: what of them is not the same, in words."""
    first, second = pair.first, pair.second
    differs = {
        "run": first.run.id != second.run.id,
        "step": first.step != second.step,
        "capture": (first.owner.id, first.view.capture) != (second.owner.id, second.view.capture),
        "string": first.listed is not second.listed or first.view.string != second.view.string,
        "head": (first.view.layer, first.view.head) != (second.view.layer, second.view.head),
    }
    return _name(first, differs), _name(second, differs)


def _name(chosen: Selection, differs: dict[str, bool]) -> str:
    view = chosen.view
    words = {
        "run": chosen.run.id,
        "step": f"step {chosen.step:,}",
        "capture": f"capture {view.capture}",
        "string": f"string #{view.string}",
        "head": f"head {view.layer}.{view.head}",
    }
    said = [words[name] for name, other in differs.items() if other]
    return ", ".join(said) or f"head {view.layer}.{view.head}"
