"""One pass over a pattern in blocks: max-pooled views, and statistics of all heads at once, in memory linear in T.

numpy alone, on all cores: blocks of rows are independent, and numpy's kernels release the interpreter lock.

Shape letters: T tokens, H heads, E head width, Q/K query and key positions of a block.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Float32, Int64
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from models.attention import HeadPattern

ROWS, KEYS = 128, 2048  # of a tile: its scores stay in a core's cache
Progress = Callable[[float], None]


def pool_max(
    pattern: "HeadPattern",
    row_edges: Int64[np.ndarray, "r+1"],
    col_edges: Int64[np.ndarray, "c+1"],
    progress: Progress | None = None,
) -> Float32[np.ndarray, "r c"]:
    """Largest weight in every bin.

    Within a row the largest weight is where the largest score is, so keys are pooled before the log-sum-exp is
    subtracted: exact, and exponentials are taken of bins rather than of cells. Tiles above the diagonal are skipped.

    Args:
        pattern: of one head.
        row_edges: query positions where bins begin; the last entry ends the view.
        col_edges: the same for keys.
        progress: called with the share that is done, 0 to 1; an error it raises ends the pass.
    """
    values = np.zeros((len(row_edges) - 1, len(col_edges) - 1), np.float32)
    tiles = list(_row_tiles(row_edges))
    weights_of = [_visible_area(first, last) for _, first, last in tiles]
    total, done = sum(weights_of) or 1, 0.0
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = pool.map(lambda tile: _pool_rows(pattern, tile, row_edges, col_edges), tiles)
        try:
            for (bins, _, _), part, area in zip(tiles, results, weights_of, strict=True):
                np.maximum(values[bins], part, out=values[bins])
                done += area
                if progress is not None:
                    progress(done / total)
        except BaseException:  # also Ctrl-C: the tiles that wait are not worth waiting for
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return values


def _pool_rows(
    pattern: "HeadPattern",
    tile: tuple[slice, int, int],
    row_edges: Int64[np.ndarray, "r+1"],
    col_edges: Int64[np.ndarray, "c+1"],
) -> Float32[np.ndarray, "bins c"]:
    """Bins of one tile of rows [first, last)."""
    bins, first, last = tile
    queries = np.ascontiguousarray((pattern.q[first:last] * np.float32(pattern.rule.scale)).T)
    best = np.full((len(col_edges) - 1, last - first), -np.inf, np.float32)
    for lo, hi in _key_tiles(pattern, col_edges, first, last):
        left, right = int(col_edges[lo]), min(int(col_edges[hi]), last)
        scores = pattern.k[left:right] @ queries  # keys down, queries across: pooling keys is a plain maximum of rows
        pattern.finish_scores(scores, left, first)
        starts = col_edges[lo:hi] - left
        starts = starts[starts < right - left]
        best[lo : lo + len(starts)] = np.maximum.reduceat(scores, starts, axis=0)
    weights = np.exp(np.minimum(best - pattern.lse[None, first:last], 0))
    starts = np.maximum(row_edges[bins], first) - first
    return np.maximum.reduceat(weights, starts, axis=1).T


def _row_tiles(row_edges: Int64[np.ndarray, "r+1"]) -> Iterator[tuple[slice, int, int]]:
    """Tiles of about ROWS rows: the bins they belong to, first row, end. A wide bin is cut into several tiles."""
    width = int(row_edges[1] - row_edges[0])
    n_bins = len(row_edges) - 1
    if width >= ROWS:
        for b in range(n_bins):
            for first in range(int(row_edges[b]), int(row_edges[b + 1]), ROWS):
                yield slice(b, b + 1), first, min(first + ROWS, int(row_edges[b + 1]))
        return
    step = ROWS // width
    for b in range(0, n_bins, step):
        end = min(b + step, n_bins)
        yield slice(b, end), int(row_edges[b]), int(row_edges[end])


def _key_tiles(
    pattern: "HeadPattern", col_edges: Int64[np.ndarray, "c+1"], first: int, last: int
) -> Iterator[tuple[int, int]]:
    """Ranges of key bins that rows [first, last) can see, about KEYS keys each."""
    earliest = 0 if pattern.rule.window is None else max(0, first - pattern.rule.window)
    width = int(col_edges[1] - col_edges[0])
    step = max(1, KEYS // width)
    n_bins = len(col_edges) - 1
    for lo in range(0, n_bins, step):
        hi = min(lo + step, n_bins)
        if col_edges[lo] >= last:
            return
        if col_edges[hi] > earliest:
            yield lo, hi


def _visible_area(first: int, last: int) -> float:
    return (last - first) * (first + last) / 2


@dataclass(frozen=True)
class RowBlock:
    """Rows of the pattern of all heads of a layer, as handed to statistics.

    Attributes:
        layer: index.
        first, last: query positions [first, last); keys are 0 .. last - 1.
        scores: float32[H, Q, K] before the softmax, -inf where hidden.
        weights: float32[H, Q, K] attention; zero where hidden.
    """

    layer: int
    first: int
    last: int
    scores: Float32[np.ndarray, "H Q K"]
    weights: Float32[np.ndarray, "H Q K"]

    @property
    def queries(self) -> Int64[np.ndarray, "Q"]:
        """Query positions."""
        return np.arange(self.first, self.last)


class Statistic(Protocol):
    """Something that is accumulated over the rows of a pattern."""

    def update(self, block: RowBlock) -> None:
        """Take in one block; blocks of a layer come in order and cover every row once."""
        ...


class Patterns(Protocol):
    """One string with the exact pattern of every head: a captured string, or one that a model has just read."""

    @property
    def tokens(self) -> Any:
        """Int[T]."""
        ...

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        ...

    @property
    def heads(self) -> tuple[int, ...]:
        """Real heads of each layer."""
        ...

    def head(self, layer: int, head: int) -> "HeadPattern":
        """The pattern of one head."""
        ...


def accumulate(
    string: Patterns,
    statistics: Sequence[Statistic],
    *,
    layers: Iterable[int] | None = None,
    rows: int = 256,
    progress: Progress | None = None,
) -> None:
    """Hand every row of the exact pattern of every head to every statistic, in one pass, in O(rows x T) memory.

    Args:
        string: whose patterns.
        statistics: updated in the order given.
        layers: which layers; all by default.
        rows: of a block.
        progress: called with the share that is done, 0 to 1.
    """
    chosen = list(range(string.n_layers) if layers is None else layers)
    n = len(string.tokens)
    for index, layer in enumerate(chosen):
        patterns = [string.head(layer, head) for head in range(string.heads[layer])]
        for first in range(0, n, rows):
            last = min(first + rows, n)
            scores = np.stack([p.scores(slice(first, last), slice(0, last)) for p in patterns])
            block = RowBlock(layer, first, last, scores, _softmax(scores))
            for statistic in statistics:
                statistic.update(block)
            if progress is not None:
                progress((index + last * last / (n * n)) / len(chosen))


def _softmax(scores: Float32[np.ndarray, "H Q K"]) -> Float32[np.ndarray, "H Q K"]:
    """Weights of whole rows, zero where a query sees nothing.

    Not from the stored log-sum-exp: where scores are as large as 1e6 its rounding is a factor of 1.3.
    """
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    return weights / np.maximum(weights.sum(-1, keepdims=True), np.finfo(np.float32).tiny)
