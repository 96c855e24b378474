"""Locators: mass on the anchors A1..Aa, B1..Bb, and the index that its split among them tells.

Mass alone does not separate a locator from a sink (A1 is an anchor too). A locator's split varies with the index, which
can therefore be read from it (`decoding.py`).

Shape letters: N strings, L layers, H heads, R rows, A anchors.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from analyses.estimates import Estimates, ratios
from analyses.measures.base import MEASURES
from analyses.measures.decoding import Read, Split, decode, stands_out
from analyses.passes import Measured, ReadString, Totals
from analyses.samples import Sample
from models.blockwise import RowBlock

SEGMENTS = ("", ".source")  # rows of the copy, rows of the source: endings of the scores' names


@MEASURES.register("locator")
class Locator:
    """Anchor mass, and the index decoded from how it is split, on plain strings.

    Rows are those that predict a copied token (not EOS, whose true source B1 is an anchor), and for the source segment
    those of the source tokens, which see A's alone.

    Scores:
        locator.mass: mean over rows of sum_j w(row, anchor_j); chance is visible anchors / visible keys.
        locator.mass.source: the same from the source's rows.
        locator.mass.NAME: mean weight on one anchor, from the copy; chance is 1 / visible keys.
        locator.decoding: R^2 = 1 - sum (read index - index)^2 / sum (index - mean)^2 over rows in which the anchors
            stand out, the index read from the split on strings whose length was left out (`decoding.py`); at least -1.
            Chance is 0. Not measurable with strings of one length, or where anchors stand out in too few rows.
        locator.decoding.source: the same from the source's rows.

    Profiles:
        locator.split: [L, H, R, A] mean weight on each anchor by index, on strings of the longest length.
        locator.read: [L, H, R] mean index read by index; NaN where none was.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads
        self._names: tuple[str, ...] = ()  # of the anchors, known with the first string
        self._a = 0
        self._all = [Totals(heads) for _ in SEGMENTS]
        self._each: Totals | None = None
        self._splits: dict[tuple[int, int, int], list[Split]] = {}  # of a segment, string and layer: blocks in order

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in one block."""
        if sample.kind != "plain":
            return
        relations = string.relations
        if self._each is None:
            vocabulary = sample.batch.vocabulary
            self._names = tuple(vocabulary.names[i] for i in (*vocabulary.prefix, *vocabulary.delimiter))
            self._a = vocabulary.a
            self._each = Totals(self.heads, (len(self._names),))
        for segment, rows in enumerate((relations.copy_rows[:-1], relations.source_rows)):
            rows = rows[(rows >= block.first) & (rows < block.last)] - block.first
            if not len(rows):
                continue
            visible = np.isfinite(block.scores[0, rows])
            inside = relations.anchors < block.last
            anchors = np.zeros((len(rows), len(self._names)), bool)
            anchors[:, inside] = visible[:, relations.anchors[inside]]
            weights = np.zeros((len(block.weights), *anchors.shape), np.float32)
            weights[:, :, inside] = block.weights[:, rows][:, :, relations.anchors[inside]]
            split = Split(relations.n, weights, anchors, visible.sum(1))
            self._splits.setdefault((segment, string.key, block.layer), []).append(split)
            each = anchors / np.maximum(split.keys, 1)[:, None]
            self._all[segment].add(string.key, block.layer, weights.sum((1, 2)), len(rows), each.sum())
            if not segment:
                self._each.add(string.key, block.layer, weights.sum(1), len(rows), each.sum(0))

    def measured(self, seed: int) -> Measured:
        """See the class."""
        names = [f"locator.mass{ending}" for ending in SEGMENTS]
        scores = {name: total.estimates(seed, chance=True) for name, total in zip(names, self._all, strict=True)}
        if self._each is None:
            nothing = Totals(self.heads).estimates(seed)
            return Measured(scores | {f"locator.decoding{ending}": nothing for ending in SEGMENTS})
        each = self._each.estimates(seed, chance=True)
        scores |= {f"locator.mass.{name}": _entry(each, j) for j, name in enumerate(self._names)}
        profiles = {"locator.split": self._mean_split()}
        for segment, ending in enumerate(SEGMENTS):
            scores[f"locator.decoding{ending}"], read = self._decode(segment, seed)
            if not segment:
                profiles["locator.read"] = read
        return Measured(scores, profiles)

    def _strings(self, segment: int, layer: int) -> list[Split]:
        """Whole splits of every string, in order."""
        found = []
        for (of, _, at), blocks in self._splits.items():
            if (of, at) == (segment, layer):
                weights = np.concatenate([block.weights for block in blocks], axis=1)
                anchors = np.concatenate([block.anchors for block in blocks])
                found.append(Split(blocks[0].length, weights, anchors, np.concatenate([b.keys for b in blocks])))
        return found

    def _mean_split(self) -> Float[np.ndarray, "L H R A"]:
        layers = [self._strings(0, layer) for layer in range(len(self.heads))]
        longest = max(string.length for string in layers[0])
        means = np.full((len(layers), max(self.heads), longest, len(self._names)), np.nan)
        for layer, strings in enumerate(layers):
            rows = [string.weights for string in strings if string.length == longest]
            means[layer, : self.heads[layer]] = np.mean(rows, axis=0)
        return means

    def _decode(self, segment: int, seed: int) -> tuple[Estimates, Float[np.ndarray, "L H R"]]:
        """Scores and mean index read, from one segment."""
        layers = [self._strings(segment, layer) for layer in range(len(self.heads))]
        lengths = [string.length for string in layers[0]]
        shape = (len(lengths), len(self.heads), max(self.heads))
        wrong, spread, rows = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        mean_read = np.full((*shape[1:], max(lengths)), np.nan)
        if len(set(lengths)) > 1:
            n_anchors = len(self._names)
            prefix, delimiter = list(range(self._a)), list(range(self._a, n_anchors))
            groups = [prefix] if segment else [prefix, delimiter, prefix + delimiter]
            for layer, head in ((layer, head) for layer, n in enumerate(self.heads) for head in range(n)):
                reads = decode(layers[layer], head, groups, seed)
                if stands_out(reads):
                    at = (slice(None), layer, head)
                    wrong[at], spread[at] = [r.wrong for r in reads], [r.spread for r in reads]
                    rows[at] = [len(r.index) for r in reads]
                    mean_read[layer, head] = _mean_by_index(reads, max(lengths))
        reason = "anchors stand out in too few rows" if len(set(lengths)) > 1 else "strings of one length only"
        return _explained(wrong, spread, rows, seed, reason), mean_read


def _explained(
    wrong: Float[np.ndarray, "N L H"],
    spread: Float[np.ndarray, "N L H"],
    rows: Float[np.ndarray, "N L H"],
    seed: int,
    reason: str,
) -> Estimates:
    """R^2 = 1 - sum of `wrong` / sum of `spread`, at least -1."""
    left = ratios(wrong, spread, seed=seed, reason=reason)
    return replace(
        left,
        value=np.maximum(1 - left.value, -1),
        low=np.maximum(1 - left.high, -1),
        high=np.maximum(1 - left.low, -1),
        rows=rows.sum(0).astype(np.int64),
        strings=(rows > 0).sum(0),
        chance=np.zeros_like(left.chance),
    )


def _mean_by_index(reads: Sequence[Read], size: int) -> Float[np.ndarray, "R"]:
    index = np.concatenate([read.index for read in reads])
    total = np.bincount(index, np.concatenate([read.read for read in reads]), size)
    count = np.bincount(index, minlength=size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _entry(estimates: Estimates, j: int) -> Estimates:
    """The j-th of estimates whose last axis is what was measured at once."""
    names = ("value", "low", "high", "rows", "strings", "chance")
    return replace(estimates, **{name: getattr(estimates, name)[..., j] for name in names})
