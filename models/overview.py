"""Overviews of long patterns: a pyramid of max-pooled levels, computed once and kept beside the captured string.

A view picks the coarsest level that is fine enough, so zooming re-reads nothing; a view finer than the finest level on
either side, be it only narrow, is small enough to be computed from q and k at once.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from models.attention import CapturedString, HeadPattern, Pooled, bounds
from models.errors import UsageError

LEVELS = (2048, 1024, 512)  # bins a side, finest first
LONG = LEVELS[0]  # strings up to this length are viewed without an overview


@dataclass(frozen=True)
class Overview:
    """The pyramid of one head on one string.

    Attributes:
        length: tokens.
        levels: max-pooled whole patterns, finest first; level l has bins of `widths[l]` tokens.
        widths: tokens a bin, increasing.
    """

    length: int
    levels: tuple[Float32[np.ndarray, "n n"], ...]
    widths: tuple[int, ...]

    def view(self, rows: slice, cols: slice, out: int) -> Pooled | None:
        """At most `out` bins a side, edges moved outwards to whole bins; None where no level is fine enough.

        Bins are as wide as each side needs, so that a narrow side keeps its detail.
        """
        first, last = bounds(rows, self.length, "rows")
        left, right = bounds(cols, self.length, "cols")
        wanted = min(-(-(last - first) // out), -(-(right - left) // out))
        fitting = [level for level, width in enumerate(self.widths) if width <= wanted]
        if not fitting:
            return None
        sides = ((first, last), (left, right))
        groups = {level: [_group(side, self.widths[level], out) for side in sides] for level in fitting}
        # The level whose bins make the finest view; of equally fine ones the smallest.
        level = min(fitting, key=lambda level: (self.widths[level] * sum(groups[level]), -level))
        width, values = self.widths[level], self.levels[level]
        row_bins, col_bins = (_bins(*side, width, group) for side, group in zip(sides, groups[level], strict=True))
        part = values[row_bins[0] : row_bins[-1], col_bins[0] : col_bins[-1]]
        pooled = np.maximum.reduceat(part, row_bins[:-1] - row_bins[0], axis=0)
        pooled = np.maximum.reduceat(pooled, col_bins[:-1] - col_bins[0], axis=1)
        edges = [np.minimum(bins * width, self.length) for bins in (row_bins, col_bins)]
        return Pooled(pooled, *edges)


def _group(side: tuple[int, int], width: int, out: int) -> int:
    """Level bins of `width` tokens in one bin of a view of `side` tokens with at most `out` bins."""
    first, last = side
    return -(-(-(-last // width) - first // width) // out)


def _bins(first: int, last: int, width: int, group: int) -> Int64[np.ndarray, "b+1"]:
    """Level bins where the view's bins begin, `group` of them each; rounded outwards."""
    begin, end = first // width, -(-last // width)
    return np.append(np.arange(begin, end, group), end)


def overview_bytes(length: int) -> int:
    """Return what the pyramid of one head takes on disk; 0 where a string is short enough to do without."""
    if length <= LONG:
        return 0
    sides = [-(-length // -(-length // LEVELS[0]))]
    sides += [-(-sides[0] // 2 ** (level + 1)) for level in range(len(LEVELS) - 1)]
    return 4 * sum(side * side for side in sides) + 512


def build_overview(pattern: HeadPattern, progress: Callable[[float], None] | None = None) -> Overview:
    """Compute the pyramid: the finest level in one blockwise pass, the others from it."""
    n = len(pattern)
    width = -(-n // LEVELS[0])
    finest = pattern.pooled(out=LEVELS[0], progress=progress).values
    levels, widths = [finest], [width]
    for _ in LEVELS[1:]:
        values = levels[-1]
        starts = np.arange(0, len(values), 2)
        levels.append(np.maximum.reduceat(np.maximum.reduceat(values, starts, axis=0), starts, axis=1))
        widths.append(widths[-1] * 2)
    return Overview(n, tuple(levels), tuple(widths))


def overview_path(string: CapturedString, layer: int, head: int) -> Path:
    """Where the pyramid of one head is kept."""
    return string.path.with_name(f"{string.path.stem}-overview-{layer}-{head}.safetensors")


def load_overview(string: CapturedString, layer: int, head: int) -> Overview | None:
    """The kept pyramid, or None where there is none, or one that does not fit."""
    try:
        tensors = load_file(overview_path(string, layer, head))
        widths = tuple(int(width) for width in tensors["widths"])
        levels = tuple(tensors[f"level.{index}"] for index in range(len(widths)))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    n = len(string.tokens)
    if any(level.shape != (-(-n // width),) * 2 for level, width in zip(levels, widths, strict=True)):
        return None
    return Overview(n, levels, widths)


def ensure_overview(
    string: CapturedString, layer: int, head: int, progress: Callable[[float], None] | None = None
) -> Overview:
    """The pyramid of one head: the kept one, or computed now and kept (a read-only capture is not an error)."""
    kept = load_overview(string, layer, head)
    if kept is not None:
        return kept
    overview = build_overview(string.head(layer, head), progress)
    tensors = {f"level.{index}": np.ascontiguousarray(level) for index, level in enumerate(overview.levels)}
    tensors["widths"] = np.array(overview.widths, np.int32)
    path = overview_path(string, layer, head)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with suppress(OSError, SafetensorError):
            save_file(tensors, temporary)
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return overview


def view(
    string: CapturedString,
    layer: int,
    head: int,
    rows: slice = slice(None),
    cols: slice = slice(None),
    out: int = 512,
    overview: Overview | None = None,
) -> Pooled:
    """A max-pooled view of any part of a pattern of any length, at most `out` bins a side.

    Exact; where it comes from a pyramid its edges are moved outwards to whole bins (`Pooled.row_edges` says where).
    A side of at most `out` tokens comes out cell by cell, however long the other one is.

    Args:
        string: of a capture.
        layer: index.
        head: index.
        rows: query positions.
        cols: key positions.
        out: bins a side at most.
        overview: the head's pyramid if it is at hand; loaded or computed where a long string needs it.

    Raises:
        UsageError: no such head, or an empty view.
    """
    if out < 1:
        raise UsageError(f"a view of {out} bins was asked for; give at least 1")
    n = len(string.tokens)
    first, last = bounds(rows, n, "rows")
    left, right = bounds(cols, n, "cols")
    finest = -(-n // LEVELS[0])
    if n > LONG and min(last - first, right - left) > out * finest:
        found = (overview or ensure_overview(string, layer, head)).view(rows, cols, out)
        if found is not None:
            return found
    return string.head(layer, head).pooled(rows, cols, out)
