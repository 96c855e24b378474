"""Stripe continuity: how far along the copy a stripe goes on, on anchors or on the true source, and where it breaks.

Mass alone would break too early: with T keys a softmax dilutes the mass of a stripe whose scores have not changed. The
margin has no such trend: the score advantage of one key of the stripe over one other key,

    margin = log mean exp(scores of the stripe's keys) - log mean exp(scores of the other visible keys),

0 where the head attends to all alike. It does not see a stripe blur over neighbouring keys, which mass does, so both
are reported.

Shape letters: N strings, L layers, H heads, R rows of the copy, D resamples.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from analyses.estimates import Estimates, from_draws, ratios
from analyses.measures.base import MEASURES
from analyses.passes import Measured, ReadString, Totals
from analyses.samples import Sample
from models.blockwise import RowBlock

FIRST = 8  # rows of the copy that say what an unbroken stripe is like
STRIPE = np.log(2.0)  # margin from which there is a stripe: twice the weight of another key
RUN = 4  # rows in a row that are a break; fewer are gaps
LIMIT = 100.0  # margins are cut there: e^-100 of the mass is nothing
DRAWS = 200
STRIPES = ("locator", "aligned")
ENDINGS = ("margin", "coverage", "continuity", "continuity.mass", "break", "break.mass")  # of the scores' names


@MEASURES.register("continuity")
class Continuity:
    """Where the stripes on the anchors ("locator") and on the true source ("aligned") break, on plain strings.

    Rows are those that predict a copied token. The first FIRST rows say what is usual: their median margin and median
    mass. A row is broken by margin where its margin is below half of the usual; where that is above the margin which
    would hold half of the row's mass (at least 2 STRIPE), below half of the latter. It is broken by mass where its mass
    is below half of the usual. A break is the first of RUN broken rows in a row. Strings count that have more than
    FIRST tokens and a stripe to begin with: a margin of at least STRIPE in most of the first rows.

    Scores:
        locator.margin, aligned.margin: mean over rows of the margin, in nats, cut at +-LIMIT; chance is 0.
        locator.coverage, aligned.coverage: share of rows whose margin is at least STRIPE.
        locator.continuity, aligned.continuity: sum over strings of rows before the break / sum of rows, by margin; 1 is
            unbroken.
        locator.continuity.mass, aligned.continuity.mass: the same by mass.
        locator.break, aligned.break: median index of the break, by margin, over the strings that have one.
        locator.break.mass, aligned.break.mass: the same by mass.

    Profiles:
        locator.margins, aligned.margins: [L, H, R] mean margin by index over the strings that have it.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads
        self._margins = [Totals(heads) for _ in STRIPES]
        self._covered = [Totals(heads) for _ in STRIPES]
        self._blocks: dict[tuple[int, int, int], list[_Rows]] = {}  # of a stripe, string and layer, in order

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in one block."""
        rows = string.relations.copy_rows[:-1]
        rows = rows[(rows >= block.first) & (rows < block.last)]
        if sample.kind != "plain" or not len(rows):
            return
        anchors = np.tile(string.relations.anchors, (len(rows), 1))
        sources = string.relations.source_position[rows][:, None]
        for stripe, keys in enumerate((anchors, sources)):
            found = _measure(block, rows - block.first, keys)
            self._blocks.setdefault((stripe, string.key, block.layer), []).append(found)
            margins, covered = found.margins.sum(1), (found.margins >= STRIPE).sum(1)
            self._margins[stripe].add(string.key, block.layer, margins, len(rows))
            self._covered[stripe].add(string.key, block.layer, covered, len(rows))

    def measured(self, seed: int) -> Measured:
        """See the class."""
        scores: dict[str, Estimates] = {}
        profiles: dict[str, np.ndarray] = {}
        for stripe, name in enumerate(STRIPES):
            strings = self._strings(stripe)
            if not strings:
                scores |= {f"{name}.{ending}": Totals(self.heads).estimates(seed) for ending in ENDINGS}
                continue
            scores[f"{name}.margin"] = self._margins[stripe].estimates(seed)
            scores[f"{name}.coverage"] = self._covered[stripe].estimates(seed)
            by_margin, by_mass, rows = (
                np.full((len(strings), len(self.heads), max(self.heads)), np.nan) for _ in range(3)
            )
            for i, layer in ((i, layer) for i in range(len(strings)) for layer in range(len(self.heads))):
                at = (i, layer, slice(self.heads[layer]))
                by_margin[at], by_mass[at], rows[at] = _breaks(strings[i][layer])
            rows = np.nan_to_num(rows)
            reason = f"no stripe in the first {FIRST} rows of the copy, or no string of more than {FIRST} tokens"
            scores[f"{name}.continuity"] = ratios(by_margin, rows, seed=seed, reason=reason)
            scores[f"{name}.continuity.mass"] = ratios(by_mass, rows, seed=seed, reason=reason)
            for ending, before in (("", by_margin), (".mass", by_mass)):
                scores[f"{name}.break{ending}"] = _medians(np.where(before < rows, before, np.nan), rows, seed)
            profiles[f"{name}.margins"] = self._by_index(strings)
        return Measured(scores, profiles)

    def _strings(self, stripe: int) -> list[list["_Rows"]]:
        """Whole copies of every string, by layer."""
        keys = list(dict.fromkeys(string for _, string, _ in self._blocks))
        return [[_join(self._blocks[stripe, string, layer]) for layer in range(len(self.heads))] for string in keys]

    def _by_index(self, strings: list[list["_Rows"]]) -> Float[np.ndarray, "L H R"]:
        longest = max((len(layers[0].holds_half) for layers in strings), default=0)
        total, count = np.zeros((len(self.heads), max(self.heads), longest)), np.zeros(longest)
        for layers in strings:
            count[: len(layers[0].holds_half)] += 1
            for layer, rows in enumerate(layers):
                total[layer, : self.heads[layer], : rows.margins.shape[1]] += rows.margins
        total[np.arange(max(self.heads)) >= np.array(self.heads)[:, None]] = np.nan
        return total / np.maximum(count, 1)


@dataclass(frozen=True)
class _Rows:
    """Rows of one string's copy; `holds_half` is the margin that holds half of a row's mass."""

    margins: Float[np.ndarray, "H R"]
    masses: Float[np.ndarray, "H R"]
    holds_half: Float[np.ndarray, "R"]


def _join(blocks: list[_Rows]) -> _Rows:
    return _Rows(
        np.concatenate([block.margins for block in blocks], axis=1),
        np.concatenate([block.masses for block in blocks], axis=1),
        np.concatenate([block.holds_half for block in blocks]),
    )


def _measure(block: RowBlock, rows: Int[np.ndarray, "R"], keys: Int[np.ndarray, "R J"]) -> _Rows:
    """Margin and mass of a row's `keys` over all others that it sees."""
    scores = block.scores[:, rows]
    at = np.broadcast_to(keys, (len(scores), *keys.shape))
    inside = np.take_along_axis(scores, at, 2)
    np.put_along_axis(scores, at, -np.inf, 2)
    n_inside, n_others = np.isfinite(inside[0]).sum(1), np.isfinite(scores[0]).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        holds_half = np.log(n_others / n_inside)
        margins = _log_sum_exp(inside) - _log_sum_exp(scores) + holds_half
    margins = np.nan_to_num(margins, nan=0.0, posinf=LIMIT, neginf=-LIMIT).clip(-LIMIT, LIMIT)
    masses = np.take_along_axis(block.weights[:, rows], at, 2).sum(2)
    return _Rows(margins, masses, np.nan_to_num(holds_half))


def _log_sum_exp(scores: Float[np.ndarray, "H R K"]) -> Float[np.ndarray, "H R"]:
    """Over keys, -inf where there is none."""
    largest = scores.max(2, keepdims=True)
    largest[np.isneginf(largest)] = 0
    with np.errstate(divide="ignore"):
        return largest[..., 0].astype(np.float64) + np.log(np.exp(scores - largest).sum(2, dtype=np.float64))


def _breaks(rows: _Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Float64[H] rows before the break by margin and by mass, and rows there are; 0 rows where there is no stripe."""
    n = len(rows.holds_half)
    if n <= FIRST:
        nothing = np.zeros(len(rows.margins))
        return nothing, nothing, nothing
    reference = np.median(rows.margins[:, :FIRST], 1)
    enough = np.minimum(reference[:, None], np.maximum(rows.holds_half, 2 * STRIPE)) / 2
    usual = np.median(rows.masses[:, :FIRST], 1)
    by_margin = first_break(rows.margins < enough)
    by_mass = first_break(rows.masses < usual[:, None] / 2)
    return by_margin, by_mass, np.where((rows.margins[:, :FIRST] >= STRIPE).mean(1) > 0.5, n, 0)


def first_break(broken: Bool[np.ndarray, "H R"]) -> Int[np.ndarray, "H"]:
    """First of RUN broken rows in a row, R where there are none."""
    n = broken.shape[1]
    runs = np.all([broken[:, i : n - RUN + 1 + i] for i in range(RUN)], axis=0)
    return np.where(np.any(runs, axis=1), np.argmax(runs, axis=1), n)


def _medians(at: Float[np.ndarray, "N L H"], rows: Float[np.ndarray, "N L H"], seed: int) -> Estimates:
    """Medians over the strings that have a value, with strings resampled; `rows` are those of each string."""
    broken = np.isfinite(at)
    picks = np.random.default_rng(seed).integers(0, len(at), (DRAWS, len(at)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing but NaN: not measurable
        draws, value = np.nanmedian(at[picks], axis=1), np.nanmedian(at, axis=0)
    counted = np.where(broken, rows, 0).sum(0)
    return from_draws(draws, value, counted, broken.sum(0), reason="no string in which the stripe breaks")
