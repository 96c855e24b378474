"""A rectangle of one head's pattern taken out of a capture: its cells as a table or as arrays, or as the map is drawn.

Never imports torch. Shape letters: T tokens, R and C cells of a view.
"""

import csv
import html
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

import numpy as np
import plotly.graph_objects as go

from models import overview
from models.attention import CapturedString, Pooled
from models.errors import UsageError
from workbench.figures.attention import MapView, Tokens, attention_map, encode, mask_future
from workbench.figures.style import QUIET, scheme_style

TABLE_CELLS = 4_000_000  # of a table with a line a cell, about 100 MB
ARRAY_CELLS = 64_000_000  # of an array, 256 MB
EXACT_UP_TO = 256  # tokens a side of a map that is drawn cell by cell
DRAWN_CELLS = 768  # cells a side of one that is pooled

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Crop:
    """A rectangle of the pattern of one head on one string.

    Attributes:
        string: of a capture.
        layer, head: indices.
        rows, cols: query and key positions, in range.
    """

    string: CapturedString
    layer: int
    head: int
    rows: slice
    cols: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and keys."""
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start


def cells_of(crop: Crop, bins: int | None, most: int, progress: Progress | None = None) -> Pooled:
    """Return the exact weights of a crop, or the largest in each of at most `bins` x `bins` bins.

    Args:
        crop: what is wanted.
        bins: None for one cell a token.
        most: cells at most.
        progress: called with the share that is done, where cells are pooled.

    Raises:
        UsageError: that would be more than `most` cells; it says what to do.
    """
    n_rows, n_cols = crop.shape if bins is None else (min(bins, side) for side in crop.shape)
    if n_rows * n_cols > most:
        side = int(most**0.5)
        raise UsageError(
            f"{n_rows:,} x {n_cols:,} cells are {n_rows * n_cols:,}, and this file may hold {most:,}; crop with "
            f"--rows and --cols, or take the largest weight of each bin with --pooled {min(side, DRAWN_CELLS)}"
        )
    pattern = crop.string.head(crop.layer, crop.head)
    if bins is not None:
        return pattern.pooled(crop.rows, crop.cols, bins, progress)
    edges = [np.arange(part.start, part.stop + 1) for part in (crop.rows, crop.cols)]
    return Pooled(pattern.tile(crop.rows, crop.cols), *edges)


def write_csv(file: IO[str], cells: Pooled, names: list[str], progress: Progress | None = None) -> None:
    """Write one line a cell, queries first: positions, tokens and weight, which reads back as the same float32.

    Cells of several tokens are named by their first and last positions, and their weight is the largest.
    """
    exact = _is_exact(cells)
    writer = csv.writer(file, lineterminator="\n")
    head = ["query", "query_token", "key", "key_token"] if exact else ["query", "query_last", "key", "key_last"]
    writer.writerow([*head, "weight"])
    rows, cols = cells.row_edges.tolist(), cells.col_edges.tolist()
    keys = [(key, names[key] if exact else end - 1) for key, end in pairwise(cols)]
    for index, (query, end) in enumerate(pairwise(rows)):
        second = names[query] if exact else end - 1
        weights = cells.values[index].tolist()
        writer.writerows((query, second, *key, f"{w:.9g}") for key, w in zip(keys, weights, strict=True))
        if progress is not None:
            progress((index + 1) / (len(rows) - 1))


def write_npz(file: IO[bytes], cells: Pooled, crop: Crop, about: dict[str, Any]) -> None:
    """Write the cells as `weights` with the positions where rows and columns begin, the crop's tokens, and `about`.

    `row_edges` and `col_edges` have one entry more than there are rows and columns: the end of the last. No pickle.
    """
    names, source = np.array(crop.string.token_names), crop.string.source_position
    np.savez(
        file,
        allow_pickle=False,
        weights=cells.values,
        row_edges=cells.row_edges,
        col_edges=cells.col_edges,
        query_tokens=names[crop.rows],
        key_tokens=names[crop.cols],
        true_source=source[crop.rows],
        **{name: np.array(value) for name, value in about.items()},
    )


def draw(
    crop: Crop,
    *,
    title: str,
    bins: int | None = None,
    scale: str = "sqrt",
    palette: str = "cividis",
    source: bool = True,
) -> go.Figure:
    """Return the map of a crop as the dashboard shows it: exact when small, else pooled from the head's overview.

    Args:
        crop: what is wanted; a pooled map of a long string may show a few tokens more, up to whole cells.
        title: where the head is from; the figure adds which head it is and what a cell is.
        bins: cells a side; chosen by default.
        scale: "sqrt" or "linear" colours.
        palette: "cividis" or "viridis".
        source: mark the true sources.
    """
    if bins is None and max(crop.shape) <= EXACT_UP_TO:
        weights = cells_of(crop, None, EXACT_UP_TO**2)
        view = MapView(mask_future(weights.values, crop.rows, crop.cols), weights.row_edges, weights.col_edges)
    else:
        pooled = overview.view(crop.string, crop.layer, crop.head, crop.rows, crop.cols, bins or DRAWN_CELLS)
        codes = encode(pooled.values, pooled.row_edges, pooled.col_edges)
        view = MapView(codes, pooled.row_edges, pooled.col_edges)
    scheme = scheme_style(crop.string.head(crop.layer, crop.head).rule.scheme).label
    down, across = view.cell_size
    shown = f"each cell is the largest weight of {down} queries × {across} keys"
    shown = shown if max(down, across) > 1 else "weight of every query (row) on every key (column)"
    figure = attention_map(
        view,
        tokens_of(crop.string),
        title=f"Layer {crop.layer}, head {crop.head} ({html.escape(scheme)}): {shown}",
        scale=scale,
        palette=palette,
        show_source=source,
    )
    subtitle = {"text": html.escape(title), "font": {"size": 11, "color": QUIET}}
    return figure.update_layout(paper_bgcolor="white", plot_bgcolor="white", title_subtitle=subtitle, margin_t=54)


def tokens_of(string: CapturedString) -> Tokens:
    """Return what figures need to know about a string."""
    scored = string.predicted >= 0
    return Tokens(
        names=string.token_names,
        source=string.source_position,
        wrong=scored & (string.predicted != string.targets),
        anchors=string.anchor_positions,
    )


def _is_exact(cells: Pooled) -> bool:
    """Whether every cell stands for one query and one key."""
    return cells.values.shape == (
        int(cells.row_edges[-1] - cells.row_edges[0]),
        int(cells.col_edges[-1] - cells.col_edges[0]),
    )
