"""Exact attention patterns at any length, recomputed from a capture: rotated q and k, and the row log-sum-exp.

Nothing of size T x T is ever stored. A tile, a row or a max-pooled view is computed when asked for. This module needs
numpy alone, so that looking at patterns never waits for torch; `models/capture.py` writes the files.

Shape letters: T tokens, H heads, E head width, C coordinates, Q/K query and key positions.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64
from safetensors import SafetensorError, safe_open

from models.blockwise import pool_max
from models.errors import UsageError, WorkbenchError
from models.registry import unknown

FORMAT = 1
ABOUT_FILE = "capture.json"
PARTIAL = ".partial-"  # begins the name of a capture that is being written
EXTRA = "extra."  # begins the name of an activation that a string's file holds because someone asked for it


_PAIRS = 64  # queries of a tile from which single weights are taken


@dataclass(frozen=True)
class LayerRule:
    """How a layer's scores come about, beside q and k.

    Attributes:
        scheme: registered name of the positional scheme.
        scale: multiplies q k.
        strict: a token does not attend to itself.
        window: only the `window` most recent visible tokens, None for all.
        slopes: ALiBi's slope of every head, None where nothing is added to the scores.
    """

    scheme: str
    scale: float
    strict: bool = False
    window: int | None = None
    slopes: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Pooled:
    """A max-pooled view: a stripe one cell wide stays visible, which a mean would erase.

    Attributes:
        values: float32[r, c] largest weight in each bin, 0 to 1.
        row_edges, col_edges: int[r + 1], int[c + 1] token positions where bins begin; the last entry ends the view.
    """

    values: Float32[np.ndarray, "r c"]
    row_edges: Int64[np.ndarray, "r+1"]
    col_edges: Int64[np.ndarray, "c+1"]


class HeadPattern:
    """The attention pattern of one head on one string.

    Attributes:
        q, k: float32[T, E] as they enter the score.
        lse: float32[T] log-sum-exp of every row's visible scores; +inf where a query sees nothing.
        rule: LayerRule.
        coords: float32[T, 1] coordinates that ALiBi's distances are taken from, else None.
        slope: ALiBi's slope of this head.
    """

    def __init__(
        self,
        q: Float32[np.ndarray, "T E"],
        k: Float32[np.ndarray, "T E"],
        lse: Float32[np.ndarray, "T"],
        rule: LayerRule,
        coords: Float32[np.ndarray, "T 1"] | None = None,
        slope: float = 0.0,
    ) -> None:
        self.q, self.k, self.lse, self.rule, self.coords, self.slope = q, k, lse, rule, coords, slope

    def __len__(self) -> int:
        return len(self.lse)

    def scores(self, rows: slice, cols: slice) -> Float32[np.ndarray, "Q K"]:
        """Pre-softmax scores of queries `rows` and keys `cols`; -inf where a query may not see a key."""
        first, last = bounds(rows, len(self), "rows")
        left, right = bounds(cols, len(self), "cols")
        scores = self.k[left:right] @ (self.q[first:last] * np.float32(self.rule.scale)).T
        self.finish_scores(scores, left, first)
        return scores.T

    def finish_scores(self, scores: Float32[np.ndarray, "K Q"], left: int, first: int) -> None:
        """Add the bias and hide what is not visible, in place, in the block of q k whose corner is (left, first)."""
        right, last = left + scores.shape[0], first + scores.shape[1]
        if self.rule.slopes is not None:
            assert self.coords is not None
            distance = self.coords[None, first:last, 0] - self.coords[left:right, 0, None]
            scores -= np.float32(self.slope) * distance
        nearest = 1 if self.rule.strict else 0
        furthest = len(self) if self.rule.window is None else self.rule.window + nearest
        if first - (right - 1) >= nearest and (last - 1) - left < furthest:
            return
        offset = np.arange(first, last)[None] - np.arange(left, right)[:, None]
        scores[(offset < nearest) | (offset >= furthest)] = -np.inf

    def tile(self, rows: slice, cols: slice) -> Float32[np.ndarray, "Q K"]:
        """Exact weights of queries `rows` on keys `cols`, at most 1 whatever the rounding."""
        first, last = bounds(rows, len(self), "rows")
        return np.exp(np.minimum(self.scores(rows, cols) - self.lse[first:last, None], 0))

    def row(self, query: int) -> Float32[np.ndarray, "T"]:
        """Exact weights of one query on all keys; zero past the query."""
        _check_row(query, len(self))
        return self.tile(slice(query, query + 1), slice(0, len(self)))[0]

    def top_keys(self, query: int, n: int = 10) -> tuple[Int64[np.ndarray, "n"], Float32[np.ndarray, "n"]]:
        """Positions and weights of the `n` keys that a query attends to most, largest first, without zero weights."""
        weights = self.row(query)
        order = np.argsort(-weights, kind="stable")[: max(0, n)]
        order = order[weights[order] > 0]
        return order, weights[order]

    def column_mass(self, keys: Sequence[int], rows: slice = slice(None)) -> Float32[np.ndarray, "Q K"]:
        """Exact weights of the queries `rows` on a few keys, in the order given."""
        first, last = bounds(rows, len(self), "rows")
        columns = [self.tile(slice(first, last), slice(key, key + 1)) for key in keys]
        return np.concatenate(columns, axis=1) if columns else np.zeros((last - first, 0), np.float32)

    def weights_at(self, queries: Int64[np.ndarray, "N"], keys: Int64[np.ndarray, "N"]) -> Float32[np.ndarray, "N"]:
        """Exact weight of each query on its own key; cheap where neighbours look at neighbours, as copying does."""
        queries, keys = np.asarray(queries), np.asarray(keys)
        found = np.empty(len(queries), np.float32)
        for start in range(0, len(queries), _PAIRS):
            part = slice(start, start + _PAIRS)
            rows, cols = queries[part], keys[part]
            top, left = int(rows.min()), int(cols.min())
            tile = self.tile(slice(top, int(rows.max()) + 1), slice(left, int(cols.max()) + 1))
            found[part] = tile[rows - top, cols - left]
        return found

    def pooled(
        self,
        rows: slice = slice(None),
        cols: slice = slice(None),
        out: int = 512,
        progress: Callable[[float], None] | None = None,
    ) -> Pooled:
        """Largest weight in each bin of a grid of at most `out` x `out` bins over queries `rows` and keys `cols`.

        `progress` is called with the share that is done. See `models.overview.view` for long strings.
        """
        if out < 1:
            raise UsageError(f"a view of {out} bins was asked for; give at least 1")
        row_edges = bin_edges(*bounds(rows, len(self), "rows"), out)
        col_edges = bin_edges(*bounds(cols, len(self), "cols"), out)
        return Pooled(pool_max(self, row_edges, col_edges, progress), row_edges, col_edges)


class CapturedString:
    """One string of a capture: tokens, answers and patterns; tensors are read from the file when asked for.

    Attributes:
        about: the string's entry in capture.json.
        tokens: int64[T]; token_names: their printable names.
        targets, predicted: int64[T] ids at scored positions, -100 elsewhere.
        source_position: int64[T] where the answer stands, -1 at unscored positions.
        anchor_positions: int64[A] of A1..Aa, B1..Bb.
        rule_coords: int64[T, 2] (row, column) by the line break (or the separator's own, see capture.json).
    """

    def __init__(self, path: Path, about: dict[str, Any], capture: "Capture") -> None:
        self.path, self.about, self._capture = path, about, capture

    @cached_property
    def _file(self) -> Any:
        try:
            return safe_open(self.path, framework="numpy")
        except (OSError, SafetensorError) as error:
            raise WorkbenchError(f"captured string {self.path} cannot be read: {error}; capture it again") from None

    def _tensor(self, name: str) -> np.ndarray:
        try:
            return self._file.get_tensor(name)
        except SafetensorError:
            raise WorkbenchError(f"captured string {self.path} has no {name!r}; capture it again") from None

    def __getattr__(self, name: str) -> np.ndarray:
        if name in ("tokens", "targets", "predicted", "source_position", "anchor_positions", "rule_coords"):
            value = self._tensor(name).astype(np.int64)
            setattr(self, name, value)
            return value
        raise AttributeError(f"a captured string has no {name!r}")

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self._capture.n_layers

    @property
    def heads(self) -> tuple[int, ...]:
        """Real heads of each layer."""
        return self._capture.heads

    @property
    def length(self) -> int:
        """Tokens in the source string."""
        return int(self.about["length"])

    @property
    def exact(self) -> bool:
        """Was it copied exactly."""
        return bool(self.about["exact"])

    @property
    def first_error(self) -> int | None:
        """Index of the first wrong token (`length` where only EOS is wrong), None where there is none."""
        return self.about["first_error"]

    @property
    def token_names(self) -> list[str]:
        """Printable token names."""
        return [self._capture.names[i] for i in self.tokens]

    def coords(self, layer: int) -> Float32[np.ndarray, "T C"] | None:
        """Coordinates in a layer, [T, 1] or [T, 2] = (row, column), None where its attention has no positions."""
        return self._optional(f"coords.{self._capture.check_layer(layer)}")

    def steps(self, layer: int) -> Float32[np.ndarray, "T 2"] | None:
        """Learned steps (u, v) of Auto-2D in a layer, None for other schemes."""
        return self._optional(f"steps.{self._capture.check_layer(layer)}")

    def output_norms(self, layer: int) -> Float32[np.ndarray, "H T"]:
        """L2 norm of what every head adds to the residual stream."""
        return self._tensor(f"norms.{self._capture.check_layer(layer)}")

    def check(self) -> None:
        """Raise WorkbenchError where the string's file is missing, damaged or cut short; its header alone is read."""
        _ = self._file

    @property
    def tensors(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype ("F32") of every tensor of the string's file, by name."""
        slices = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118 (no dict)
        return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in sorted(slices.items())}

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Hook names of the activations that were captured because someone asked for them."""
        return tuple(name.removeprefix(EXTRA) for name in self.tensors if name.startswith(EXTRA))

    def extra(self, name: str) -> Float32[np.ndarray, "T *rest"]:
        """An activation captured on request, by hook name: [T, D], or [T, H, E] with layers padded to equal heads.

        Raises:
            UsageError: it is not in this capture.
        """
        if name not in self.extra_names:
            raise UsageError(unknown("captured activation", name, self.extra_names) + "; capture it with --names")
        return self._tensor(EXTRA + name)

    def _optional(self, name: str) -> np.ndarray | None:
        return self._tensor(name) if name in self._file.keys() else None  # noqa: SIM118 (no dict)

    def head(self, layer: int, head: int) -> HeadPattern:
        """The pattern of one head; grouped-query heads share keys. Raises UsageError where there is no such head."""
        self._capture.check_layer(layer)
        n_heads = self._capture.heads[layer]
        if not 0 <= head < n_heads:
            raise UsageError(f"layer {layer} has no head {head}; it has heads 0 to {n_heads - 1}")
        rule = self._capture.rules[layer]
        keys = self._file.get_slice(f"k.{layer}")
        key_head = head * keys.get_shape()[0] // n_heads
        return HeadPattern(
            q=self._file.get_slice(f"q.{layer}")[head],
            k=keys[key_head],
            lse=self._file.get_slice(f"lse.{layer}")[head],
            rule=rule,
            coords=self.coords(layer) if rule.slopes is not None else None,
            slope=0.0 if rule.slopes is None else rule.slopes[head],
        )


class Capture:
    """A folder of captured strings.

    Attributes:
        folder: where it lies.
        about: capture.json.
        heads: real heads of each layer.
        rules: LayerRule of each layer.
        names: printable name of every token id.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        try:
            self.about: dict[str, Any] = json.loads((self.folder / ABOUT_FILE).read_text(encoding="utf-8"))
            if self.about["format"] != FORMAT:
                raise WorkbenchError(f"capture {self.folder.name} has format {self.about['format']}, expected {FORMAT}")
            self.heads = tuple(int(n) for n in self.about["heads"])
            self.rules = tuple(rule_from(layer) for layer in self.about["layers"])
            self.names: list[str] = list(self.about["vocabulary"]["names"])
            self._strings = list(self.about["strings"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WorkbenchError(f"{self.folder} is not a readable capture ({error}); capture it again") from None

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return len(self.heads)

    def __len__(self) -> int:
        return len(self._strings)

    def __iter__(self) -> Iterator[CapturedString]:
        return (self.string(i) for i in range(len(self)))

    def string(self, index: int) -> CapturedString:
        """The string at `index`; UsageError where there is none."""
        if not 0 <= index < len(self):
            raise UsageError(f"capture {self.folder.name} has no string {index}; it has strings 0 to {len(self) - 1}")
        return CapturedString(self.folder / string_file(index), self._strings[index], self)

    def check_layer(self, layer: int) -> int:
        """Return `layer`, or raise UsageError where there is none."""
        if not 0 <= layer < self.n_layers:
            raise UsageError(f"there is no layer {layer}; the model has layers 0 to {self.n_layers - 1}")
        return layer


def open_capture(folder: Path) -> Capture:
    """Open a capture folder; WorkbenchError where it is not one."""
    return Capture(folder)


def string_file(index: int) -> str:
    """File name of the string at `index`."""
    return f"string-{index:04d}.safetensors"


def rule_from(values: dict[str, Any]) -> LayerRule:
    """A layer's entry of capture.json, or of `models.capture.describe`, as a LayerRule."""
    slopes = values.get("slopes")
    return LayerRule(
        scheme=str(values["scheme"]),
        scale=float(values["scale"]),
        strict=bool(values["strict"]),
        window=values["window"],
        slopes=None if slopes is None else tuple(slopes),
    )


def bounds(part: slice, size: int, name: str) -> tuple[int, int]:
    """Begin and end of a slice without step inside 0..size; UsageError where it is empty."""
    if part.step not in (None, 1):
        raise UsageError(f"{name} {part} has a step; a view is contiguous")
    begin, end, _ = part.indices(size)
    if end <= begin:
        raise UsageError(f"{name} {part.start}:{part.stop} hold no position of the {size} there are")
    return begin, end


def _check_row(query: int, size: int) -> None:
    if not 0 <= query < size:
        raise UsageError(f"there is no query row {query}; the string has positions 0 to {size - 1}")


def bin_edges(first: int, last: int, out: int) -> Int64[np.ndarray, "bins+1"]:
    """Bin edges: bins of equal width, the last one possibly narrower, at most `out` of them."""
    width = -(-(last - first) // out)
    return np.append(np.arange(first, last, width), last)
