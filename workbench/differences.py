"""Two attention patterns subtracted cell by cell, and how much of each query's attention lies elsewhere.

Needs numpy alone. Shape letters: T tokens, R and C cells of a view, Q queries of a view.
"""

from dataclasses import dataclass

import numpy as np

from models.attention import HeadPattern, Pooled, bin_edges
from models.errors import WorkbenchError
from workbench.views import EXACT_UP_TO

_BLOCK = 1 << 20  # cells subtracted at once


@dataclass(frozen=True)
class Difference:
    """The first of two patterns minus the second, over queries and keys that both have.

    Attributes:
        values: float32[R, C] differences of weights, -1 to 1. A cell of several queries and keys holds the one
            furthest from zero; NaN where all keys lie in the future of all queries.
        row_edges, col_edges: int[R + 1], int[C + 1] token positions where cells begin; the last entry ends the view.
        moved: float32[Q] of every query row, half the sum of absolute differences over all keys: the share of its
            attention that lies on other keys, 0 to 1. None where `of_maxima`.
        of_maxima: whether cells are differences of each pattern's largest weight in the cell, which may stand in
            different places of it, and not the largest difference.
    """

    values: np.ndarray
    row_edges: np.ndarray
    col_edges: np.ndarray
    moved: np.ndarray | None
    of_maxima: bool = False

    @property
    def cell_size(self) -> tuple[int, int]:
        """Most queries and keys in one cell."""
        return int(np.diff(self.row_edges).max()), int(np.diff(self.col_edges).max())

    @property
    def largest(self) -> tuple[int, int]:
        """Row and column of the cell that is furthest from zero."""
        row, col = np.unravel_index(int(np.nan_to_num(np.abs(self.values)).argmax()), self.values.shape)
        return int(row), int(col)


def subtract(one: HeadPattern, other: HeadPattern, rows: slice, cols: slice, bins: int) -> Difference:
    """Return the exact difference of two patterns, in blocks of rows.

    Args:
        one: the first, at least `rows.stop` and `cols.stop` tokens long.
        other: the second, the same.
        rows: the queries to show.
        cols: the keys to show.
        bins: cells a side, at most, of a view with more than 256 tokens on a side.
    """
    exact = max(rows.stop - rows.start, cols.stop - cols.start) <= EXACT_UP_TO
    row_edges, col_edges = (
        np.arange(side.start, side.stop + 1) if exact else bin_edges(side.start, side.stop, bins)
        for side in (rows, cols)
    )
    values = np.empty((len(row_edges) - 1, len(col_edges) - 1), np.float32)
    moved = np.empty(rows.stop - rows.start, np.float32)
    width = int(np.diff(row_edges).max())
    at_once = max(1, _BLOCK // (max(rows.stop, cols.stop) * width))
    for first in range(0, len(values), at_once):
        edges = row_edges[first : first + at_once + 1]
        queries = slice(int(edges[0]), int(edges[-1]))
        keys = slice(0, max(queries.stop, cols.stop))  # no key after the last query is seen
        block = one.tile(queries, keys) - other.tile(queries, keys)
        moved[queries.start - rows.start : queries.stop - rows.start] = np.abs(block).sum(axis=1) / 2
        values[first : first + len(edges) - 1] = _furthest(block[:, cols], edges - edges[0], col_edges - cols.start)
    return Difference(_without_future(values, row_edges, col_edges), row_edges, col_edges, moved)


def subtract_maxima(one: Pooled, other: Pooled) -> Difference:
    """Return the difference of two pooled views of the same cells; WorkbenchError where their cells are others."""
    for ours, theirs in ((one.row_edges, other.row_edges), (one.col_edges, other.col_edges)):
        if not np.array_equal(ours, theirs):
            raise WorkbenchError("the two maps are pooled into different cells; zoom in for their difference")
    values = _without_future((one.values - other.values).astype(np.float32), one.row_edges, one.col_edges)
    return Difference(values, one.row_edges, one.col_edges, None, of_maxima=True)


def _furthest(block: np.ndarray, row_starts: np.ndarray, col_starts: np.ndarray) -> np.ndarray:
    """Return of every bin the value furthest from zero; starts end with the size of the block."""
    if len(row_starts) == block.shape[0] + 1 and len(col_starts) == block.shape[1] + 1:
        return block
    extremes = []
    for most in (np.maximum, np.minimum):
        down = most.reduceat(block, row_starts[:-1], axis=0)
        extremes.append(most.reduceat(down, col_starts[:-1], axis=1))
    high, low = extremes
    return np.where(high >= -low, high, low)


def _without_future(values: np.ndarray, row_edges: np.ndarray, col_edges: np.ndarray) -> np.ndarray:
    """Return the values with NaN where every key comes after every query."""
    return np.where(col_edges[None, :-1] > row_edges[1:, None] - 1, np.float32(np.nan), values)
