"""Heads that need no copy task to be described: look-back, sink, self, duplicate token, and how spread they are.

All are read on plain strings, on rows of the source and of the copy (the one that predicts EOS included) that see at
least two keys. What a query sees is read from the scores, so strict masks and windows count.

A weight counts for what it is on every part of the strings, not on average. With

    lift = (mean weight - mean of 1 / visible keys) / (1 - mean of 1 / visible keys)

look-back heads are judged at the length of string where they lift least, so that a diagonal whose distance depends on
the length does not pass for a fixed offset; sinks and self heads on the rows of the source or of the copy, whichever
lift less, so that a head that rests there while it reads the source and works in the copy does not pass for one.

Even at a single length, a weight k back shows a fixed offset only where nothing else explains it: a row counts for k
where query and key stand in the same copy of the string. That leaves out anchors, the first token among them, and the
source as the copy sees it, which every head that copies finds at one distance, n + b - 1.

Shape letters: H heads, L layers, N strings, R rows of a block, K keys, F offsets 1..16 (1 for other scores),
D resamples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from analyses.estimates import DRAWS, Estimates, from_draws, ratios, resample
from analyses.measures.base import MEASURES
from analyses.passes import Measured, ReadString, Totals
from analyses.samples import Sample
from models.blockwise import RowBlock

FURTHEST = 16  # offsets that are looked at
_OFFSETS = np.arange(1, FURTHEST + 1)
_NO_ROWS = "no row of the source or copy of a plain string sees two keys"
_NO_OFFSET = f"no row of a plain string has a key up to {FURTHEST} back in the same segment"
_NO_SELF = "no row of a plain string sees itself: the mask is strict"
_NO_DUPLICATE = "no row of a plain string sees an earlier occurrence of its token"


@MEASURES.register("offsets")
class Offsets:
    """Look-back, sink, self, duplicates and entropy, on rows named in the module.

    Strings with an even key choose k, those with an odd key score it.

    Scores:
        lookback.k: the offset, 1 to 16, whose least lift over lengths is largest; its interval is that of the choice on
            resampled strings.
        lookback.mass: mean weight k back at the length where it lifts least; chance is the mean of 1 / visible keys.
        sink.mass: mean weight on the first token in the segment where it lifts less; chance as above.
        self.mass: the same of the query's own position; not measurable under a strict mask.
        duplicate.mass: mean mass on earlier occurrences of the query's token, rows that see one, and something else;
            chance is the mean of their share of visible keys.
        duplicate.lift: (mass - chance) / (1 - chance) of that, as half of the keys are duplicates in a binary string.
        entropy: mean of -sum w log w / log(visible keys), 1 for a uniform head.

    Profiles:
        lookback: [L, H, F] least lift over lengths at every offset, on the strings that choose; NaN without rows.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads
        self._choosing, self._scoring = _Parts(heads, FURTHEST), _Parts(heads, FURTHEST)
        self._sink, self._self = _Parts(heads), _Parts(heads)
        self._duplicate, self._entropy = Totals(heads), Totals(heads)

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in one block of rows of a plain string."""
        relations = string.relations
        chosen = relations.index_of(block.queries) >= 0
        visible = block.scores[0] > -np.inf
        chosen &= visible.sum(1) > 1
        if sample.kind != "plain" or not chosen.any():
            return
        name, queries = (string.key, block.layer), block.queries[chosen]
        weights, visible = block.weights[:, chosen], visible[chosen]
        even = 1 / visible.sum(1)
        at, copied = np.arange(len(queries)), queries >= relations.copy_rows[0]

        back = queries[:, None] - _OFFSETS
        keys = np.maximum(back, 0)
        begins = np.where(copied, relations.copy_rows[0] + 1, relations.a)
        counts = (back >= begins[:, None]) & visible[at[:, None], keys]
        half = self._choosing if string.key % 2 == 0 else self._scoring
        half.add(relations.n, name, weights[:, at[:, None], keys], counts, even)
        for segment, inside in (("source", ~copied), ("copy", copied)):
            self._sink.add(segment, name, weights[..., :1], (visible[:, 0] & inside)[:, None], even)
            own = (visible[at, queries] & inside)[:, None]
            self._self.add(segment, name, weights[:, at, queries][..., None], own, even)

        tokens = string.tokens
        same = (tokens[queries][:, None] == tokens[: block.last]) & visible
        same &= np.arange(block.last) < queries[:, None]
        share = same.sum(1) * even
        some = (share > 0) & (share < 1)
        mass = np.einsum("hrk,rk->hr", weights, same.astype(weights.dtype))
        self._duplicate.add(*name, mass @ some, int(some.sum()), float(share @ some))
        log = np.log(np.where(weights > 0, weights, 1))
        spread = np.einsum("hrk,hrk->hr", weights, log) / np.log(even)
        self._entropy.add(*name, spread.sum(1), len(queries))

    def measured(self, seed: int) -> Measured:
        """Scores of shape [L, H] and the profile of lifts."""
        choosing, scoring = self._choosing.least(seed), self._scoring.least(seed)
        best = _best(choosing.lift)
        offset = np.nan_to_num(best[0], nan=1).astype(int) - 1
        counted = _pick(choosing.rows, offset), _pick(choosing.strings, offset)
        duplicate = self._duplicate.estimates(seed, chance=True, reason=_NO_DUPLICATE)
        mass, rows, chance = self._duplicate.arrays()
        lift = ratios(mass - chance, rows - chance, chance=0.0, seed=seed, reason=_NO_DUPLICATE)
        first = np.zeros_like(offset)
        scores = {
            "lookback.k": from_draws(best[1:], best[0], *counted, reason=_NO_OFFSET),
            "lookback.mass": scoring.estimates(offset, _NO_OFFSET, known=~np.isnan(best[0])),
            "sink.mass": self._sink.least(seed).estimates(first, _NO_ROWS),
            "self.mass": self._self.least(seed).estimates(first, _NO_SELF),
            "duplicate.mass": duplicate,
            "duplicate.lift": replace(lift, rows=duplicate.rows, strings=duplicate.strings),
            "entropy": self._entropy.estimates(seed, reason=_NO_ROWS),
        }
        return Measured(scores, {"lookback": choosing.lift[0]})


def _best(lift: Float[np.ndarray, "*S F"]) -> Float[np.ndarray, "*S"]:
    """The offset that lifts most, NaN where none has rows."""
    best = _OFFSETS[np.where(np.isnan(lift), -np.inf, lift).argmax(-1)]
    return np.where(np.isnan(lift).all(-1), np.nan, best)


class _Parts:
    """Sums of weights by part of the strings: by length, or by segment."""

    def __init__(self, heads: Sequence[int], size: int = 1) -> None:
        self.heads, self.size = tuple(heads), size
        self._totals: dict[Any, Totals] = {}

    def add(
        self,
        part: int | str,
        name: tuple[int, int],
        weights: Float[np.ndarray, "H R F"],
        counts: Bool[np.ndarray, "R F"],
        even: Float[np.ndarray, "R"],
    ) -> None:
        """Add the rows that count; `name` is (key of the string, layer), `even` is 1 / visible keys."""
        totals = self._totals.setdefault(part, Totals(self.heads, (self.size,)))
        totals.add(*name, (weights * counts).sum(1), counts.sum(0), even @ counts)

    def least(self, seed: int) -> "_Least":
        """What is measured at the part with the least lift, for all strings and for every resample of them."""
        return _Least(self._totals, (len(self.heads), max(self.heads), self.size), seed)


class _Least:
    """Means at the part where the lift is least, of all strings first, then of every resample (within parts).

    Attributes:
        lift, mass, chance: float[1 + D, L, H, F], NaN without rows.
        rows, strings: int[L, H, F] of all parts.
    """

    def __init__(self, kept: Mapping[Any, Totals], shape: tuple[int, ...], seed: int) -> None:
        self.lift, self.mass, self.chance = (np.full((1 + DRAWS, *shape), np.nan) for _ in range(3))
        self.rows, self.strings = np.zeros(shape, int), np.zeros(shape, int)
        for totals in kept.values():
            sums, rows, expected = totals.arrays()
            self.rows += rows.sum(0).round().astype(int)
            self.strings += (rows > 0).sum(0)
            counts = np.concatenate([np.ones((1, len(sums))), resample(len(sums), seed)])
            with np.errstate(divide="ignore", invalid="ignore"):
                number = np.tensordot(counts, rows, 1)
                mass, chance = np.tensordot(counts, sums, 1) / number, np.tensordot(counts, expected, 1) / number
                lift = (mass - chance) / (1 - chance)
            lower = (lift < self.lift) | (np.isnan(self.lift) & ~np.isnan(lift))
            for least, here in ((self.lift, lift), (self.mass, mass), (self.chance, chance)):
                least[lower] = here[lower]

    def estimates(
        self, index: Int[np.ndarray, "L H"], reason: str, known: Bool[np.ndarray, "L H"] | bool = True
    ) -> Estimates:
        """The mass at entry `index` of every head, where that is known."""
        mass = np.where(known, _pick(self.mass, index), np.nan)
        rows, strings = _pick(self.rows, index), _pick(self.strings, index)
        return from_draws(mass[1:], mass[0], rows, strings, chance=_pick(self.chance[0], index), reason=reason)


def _pick(values: np.ndarray, index: Int[np.ndarray, "L H"]) -> np.ndarray:
    """Entry `index` of every head along the last axis of [..., L, H, F]."""
    return np.take_along_axis(values, np.broadcast_to(index[..., None], (*values.shape[:-1], 1)), -1)[..., 0]
