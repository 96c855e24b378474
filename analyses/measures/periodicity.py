"""Periodicity along the source: does a head's weight come back every few keys before and after the true source.

Two causes look alike on one string. Where the string repeats itself, keys a period away share the query's context; on a
string without a period of its own that is gone, while the sidelobes of rotary planes stay (`sidelobes.py` compares them
with the planes). So strings are told apart by their own tokens. A head that compares the query's own position with a
period is another matter (`modular.py`).

Shape letters: N strings, L layers, H heads, R rows, O offsets, P periods, K keys.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from analyses.estimates import Estimates, from_draws, ratios, resample
from analyses.measures.base import MEASURES
from analyses.measures.harmonics import AS_GOOD, CYCLES, LONGEST, PERIODS, SHORTEST, best, shares
from analyses.passes import Measured, ReadString, Totals
from analyses.samples import Sample
from models.blockwise import RowBlock

REACH = 32  # keys before and after the true source
FEWEST = 4  # rows that an offset rests on
FLOOR = 0.05  # a standard deviation that counts as none: in units of uniform attention, or in nats of scores
CLEAR = 0.2  # strength below which there is no period to name: a blunt peak at the source comes to 0.15
SHUFFLES = 20
DRAWS = 100  # of the period's interval
KINDS = ("weights", "scores")
SURE = 3.0  # standard errors by which tokens must match those a period back, for the string to have that period
EXCESS = 0.5  # and the share of possible matches beyond chance


@MEASURES.register("periodicity")
class Periodicity:
    """Period of a head's weights and scores as functions of key minus true source, on plain strings.

    Rows are those that predict a copied token, keys those of the source string, offsets up to REACH either way. Every
    string has a profile: the mean over rows of weight times number of visible keys (1 is uniform attention), and of the
    score minus the row's mean score over the source. The source itself counts no more than the best other offset, so
    an aligned head has a flat one. A period's strength is the share of the profile's variance about a quadratic trend
    that it explains (`harmonics.py`), averaged over strings by their rows.

    Scores:
        periodic.period, periodic.strength: of the weights, on strings without a period of their own. The period is
            the shortest that is as good as the best; chance is the mean strength of the best period of shuffled
            profiles. No period where the strength is not above it and CLEAR.
        periodic.period.scores, periodic.strength.scores: the same of the scores.
        periodic.repeats: strength of the string's own period in the weights, on strings that have one; chance is 0.

    Profiles:
        periodic.weights, periodic.scores: [L, H, O] at offsets -REACH..REACH, on strings without a period.
        periodic.weights.repeats: [L, H, O] on strings that have one.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads
        self._strings: dict[int, _Profile] = {}

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in one block."""
        relations = string.relations
        if sample.kind != "plain" or reach(relations.n) * 2 + 1 < CYCLES * SHORTEST:
            return
        if string.key not in self._strings:
            own = own_period(relations.tokens[relations.source_rows])
            shape = (len(KINDS), len(self.heads), max(self.heads), 2 * REACH + 1)
            self._strings[string.key] = _Profile(relations.n, own, np.zeros(shape), np.zeros(2 * REACH + 1))
        rows = relations.copy_rows[:-1]
        rows = rows[(rows >= block.first) & (rows < block.last)]
        if not len(rows):
            return
        profile, at = self._strings[string.key], rows - block.first
        keys = relations.source_position[rows][:, None] + np.arange(-REACH, REACH + 1)
        inside = (keys >= relations.a) & (keys < relations.a + relations.n)
        keys = np.where(inside, keys, relations.a)
        for kind, values in enumerate((_lift(block, at), _centred(block, at, relations.source_rows))):
            taken = np.take_along_axis(values, np.broadcast_to(keys, (len(values), *keys.shape)), 2)
            profile.sums[kind, block.layer, : len(values)] += (taken * inside).sum(1)
        if block.layer == 0:
            profile.rows[:] += inside.sum(0)

    def measured(self, seed: int) -> Measured:
        """See the class."""
        free = [profile for profile in self._strings.values() if profile.own is None]
        repeating = [profile for profile in self._strings.values() if profile.own]
        scores: dict[str, Estimates] = {}
        profiles: dict[str, np.ndarray] = {}
        for kind, (name, ending) in enumerate(zip(KINDS, ("", ".scores"), strict=True)):
            period, strength = self._strongest(kind, free, seed)
            scores |= {f"periodic.period{ending}": period, f"periodic.strength{ending}": strength}
            profiles[f"periodic.{name}"] = self._profile(kind, free)
        scores["periodic.repeats"] = self._own(repeating, seed)
        profiles["periodic.weights.repeats"] = self._profile(0, repeating)
        return Measured(scores, profiles)

    def _strongest(self, kind: int, strings: list["_Profile"], seed: int) -> tuple[Estimates, Estimates]:
        """Period and strength, shape [L, H]."""
        if not strings:
            nothing = Totals(self.heads).estimates(seed, reason="no string without a period of its own")
            return nothing, nothing
        found = np.stack([shares(string.series(kind), FLOOR) for string in strings])
        rows = np.isfinite(found) * np.array([float(string.length) for string in strings])[:, None, None, None]
        rows[:, np.arange(max(self.heads)) >= np.array(self.heads)[:, None]] = 0
        found = np.where(rows > 0, found, 0)
        chosen = best(_mean(found, rows))
        at = (slice(None), *np.indices(chosen.shape), chosen)
        shuffled = [self._shuffled(kind, strings, rows, [seed, i]) for i in range(SHUFFLES)]
        strength = replace(ratios((found * rows)[at], rows[at], seed=seed), chance=np.mean(shuffled, axis=0))
        drawn = [PERIODS[best(_mean(found, rows, counts))] for counts in resample(len(strings), seed)[:DRAWS]]
        value = np.where(strength.low > np.maximum(strength.chance, CLEAR), PERIODS[chosen], np.nan)
        reason = f"no period explains more than {CLEAR:.0%} of the profile, and more than of shuffled ones"
        return from_draws(np.array(drawn), value, strength.rows, strength.strings, reason=reason), strength

    def _shuffled(
        self, kind: int, strings: list["_Profile"], rows: Float[np.ndarray, "N L H P"], seed: list[int]
    ) -> Float[np.ndarray, "L H"]:
        """Mean strength of the best period when every string's offsets are shuffled, alike for all heads."""
        rng = np.random.default_rng(seed)
        found = [shares(rng.permutation(string.series(kind), axis=-1), FLOOR) for string in strings]
        return np.nan_to_num(_mean(np.nan_to_num(found), rows), nan=-np.inf).max(-1)

    def _own(self, strings: list["_Profile"], seed: int) -> Estimates:
        """Strength of each string's own period in its weights."""
        shape = (max(len(strings), 1), len(self.heads), max(self.heads))
        found, rows = np.full(shape, np.nan), np.zeros(shape)
        for i, string in enumerate(strings):
            values = shares(string.series(0), FLOOR)[..., int(np.searchsorted(PERIODS, string.own or 0))]
            found[i], rows[i] = values * string.length, np.isfinite(values) * string.length
        rows[:, np.arange(max(self.heads)) >= np.array(self.heads)[:, None]] = 0
        return ratios(found, rows, chance=0.0, seed=seed, reason="no string with a period of its own")

    def _profile(self, kind: int, strings: list["_Profile"]) -> Float[np.ndarray, "L H O"]:
        if not strings:
            return np.full((len(self.heads), max(self.heads), 2 * REACH + 1), np.nan)
        sums, rows = (np.sum(parts, axis=0) for parts in zip(*((s.sums[kind], s.rows) for s in strings), strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums / rows


@dataclass(frozen=True)
class _Profile:
    """One string.

    Attributes:
        length: tokens of the source.
        own: its own period, see `own_period`.
        sums: float64[2, L, H, O] of weights and of scores over rows; rows: float64[O] how many.
    """

    length: int
    own: int | None
    sums: Float[np.ndarray, "2 L H O"]
    rows: Float[np.ndarray, "O"]

    def series(self, kind: int) -> Float[np.ndarray, "L H O"]:
        """Mean by offset, over the offsets that enough rows have; the source is cut to the best other offset."""
        side = reach(self.length)
        kept = slice(REACH - side, REACH + side + 1)
        means = self.sums[kind][..., kept] / self.rows[kept]
        others = np.delete(means, side, axis=-1).max(-1)
        means[..., side] = np.minimum(means[..., side], others)
        return means


def reach(length: int) -> int:
    """Largest offset that FEWEST rows of a string have."""
    return max(0, min(REACH, length - FEWEST))


def own_period(tokens: Int[np.ndarray, "N"]) -> int | None:
    """Period of a source string: the smallest lag at which its tokens match as well as at the best.

    Matches count beyond chance, which is what independent tokens of the same frequencies give. None where they are
    below EXCESS at every lag. 0 where that cannot be told: on a constant string, or less than SURE standard errors.
    """
    chance = float((np.bincount(tokens) ** 2).sum()) / len(tokens) ** 2
    if chance == 1:
        return 0
    lags = np.arange(2, min(int(LONGEST), len(tokens) // 2) + 1)
    excess = np.array([((tokens[lag:] == tokens[:-lag]).mean() - chance) / (1 - chance) for lag in lags])
    if not (excess >= EXCESS).any():
        return None
    sure = excess >= SURE * np.sqrt(chance / (1 - chance) / (len(tokens) - lags))
    as_good = excess >= max(EXCESS, AS_GOOD * excess.max())
    return int(lags[sure & as_good][0]) if (sure & as_good).any() else 0


def _mean(
    found: Float[np.ndarray, "N L H P"],
    rows: Float[np.ndarray, "N L H P"],
    counts: Float[np.ndarray, "N"] | float = 1.0,
) -> Float[np.ndarray, "L H P"]:
    """Over rows, with strings drawn `counts` times; NaN where there are none."""
    rows = rows * np.reshape(counts, (-1, 1, 1, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((found * rows).sum(0) / rows.sum(0))


def _lift(block: RowBlock, rows: Int[np.ndarray, "R"]) -> Float[np.ndarray, "H R K"]:
    """Weights in units of uniform attention."""
    return block.weights[:, rows] * np.isfinite(block.scores[0, rows]).sum(-1)[:, None]


def _centred(block: RowBlock, rows: Int[np.ndarray, "R"], source: Int[np.ndarray, "N"]) -> Float[np.ndarray, "H R K"]:
    """Scores minus the row's mean over the source it sees; 0 where it does not see."""
    scores = np.where(np.isfinite(block.scores[:, rows]), block.scores[:, rows], np.nan).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a row that sees nothing of the source
        return np.nan_to_num(scores - np.nanmean(scores[..., source], axis=-1, keepdims=True))
