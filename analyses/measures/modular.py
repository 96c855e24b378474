"""Modular heads: the weight on the first token depends on the query's position modulo m.

[EXR]'s MOD head attends to the first token exactly where i = r modulo m, by a plane of period m that compares the
query's phase with the first token's. A head that looks at distances by such a plane attends to the first token in that
rhythm too, but no more than to any key m, 2 m, .. further on, so what those get is taken away first.

Shape letters: N strings, L layers, H heads, T tokens, M moduli.
"""

import numpy as np
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view

from analyses.estimates import from_draws, ratios, resample
from analyses.measures.base import MEASURES
from analyses.measures.decoding import alternate
from analyses.passes import Measured, ReadString, Totals
from analyses.samples import Sample
from models.blockwise import RowBlock

MODULI = np.arange(2, 17)
CYCLES = 3  # of a modulus that a string must hold
FLOOR = 1e-3  # a standard deviation of weights that counts as none
TOLERANCE = 0.02  # in score, within which a smaller modulus is as good; a standard error where that is more
CLEAR = 0.25  # score below which there is no modulus to name
DRAWS = 100


@MEASURES.register("modular")
class Modular:
    """Weight on the first token by the query's position modulo m = 2..16, on plain strings.

    e(i) = max(0, w(i, 0) - mean of w(i, j) over the keys j = m, 2 m, ..) for queries i > m, and from e and w(., 0) a
    moving average over m positions is taken away: a uniform head's 1/i is no period. With B of e's sum of squares S
    between residues, and S' the larger of S and that of w(., 0), over n queries, the score of m is

        (B - (m - 1) (S - B) / (n - m)) / (S' + n FLOOR^2),

    the share of variance between residues less what chance puts there: 1 for a MOD head, about 0 without a period.
    Strings are weighted by their queries. Multiples of m explain as much, so m is the smallest that is within noise of
    the best on half of the strings; the score is measured on the other half.

    Scores:
        modular.score: at that m, on the other half; chance is 0.
        modular.contrast: mean weight on the first token at the residue r below, less that at other residues; chance is
            0. A sink that ripples by a hundredth may have a score near 1, and a contrast of a hundredth.
        modular.m: that m; not measurable where no m is clear.
        modular.r: residue with the largest mean of e at that m.

    Profiles:
        modular.scores: [L, H, M] by m, all strings.
        modular.weights: [L, H, T] mean weight on the first token by position.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads
        self._strings: dict[int, tuple[Float[np.ndarray, "L H T"], Float[np.ndarray, "L H M T"]]] = {}

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in one block."""
        if sample.kind != "plain":
            return
        if string.key not in self._strings:
            shape, size = (len(self.heads), max(self.heads)), len(string.tokens)
            self._strings[string.key] = np.zeros((*shape, size)), np.zeros((*shape, len(MODULI), size), np.float32)
        at = (block.layer, slice(len(block.weights)), ..., slice(block.first, block.last))
        weights, excess = self._strings[string.key]
        weights[at] = block.weights[:, :, 0]
        like = [block.weights[:, :, m::m].sum(2) / np.maximum(block.queries // m, 1) for m in MODULI]
        excess[at] = np.maximum(weights[at][:, None] - np.stack(like, axis=1), 0)

    def measured(self, seed: int) -> Measured:
        """See the class."""
        strings = list(self._strings.values())
        if not strings:
            nothing = Totals(self.heads).estimates(seed)
            return Measured({f"modular.{name}": nothing for name in ("score", "contrast", "m", "r")})
        lengths = [weights.shape[-1] for weights, _ in strings]
        found = np.stack([
            np.stack([residue_share(w, e[..., i, :], int(m)) for i, m in enumerate(MODULI)], axis=-1)
            for w, e in strings
        ])  # fmt: skip
        rows = np.isfinite(found) * np.array(lengths, float)[:, None, None, None]
        rows[:, np.arange(max(self.heads)) >= np.array(self.heads)[:, None]] = 0
        found = np.where(rows > 0, found, 0)
        asked = alternate(lengths)
        chosen = _choose(found[~asked], rows[~asked])
        at = (slice(None), *np.indices(chosen.shape), chosen)
        reason = "one string cannot both choose a modulus and confirm it, or strings are too short"
        confirmed = np.where(asked[:, None, None], rows[at], 0)
        score = ratios(found[at] * confirmed, confirmed, chance=0.0, seed=seed, reason=reason)
        reason = f"no modulus explains {CLEAR:.0%} of the variance"
        m = np.where(score.low > CLEAR, MODULI[chosen], np.nan)
        counts = resample(int((~asked).sum()), seed)[:DRAWS]
        drawn = [MODULI[_choose(found[~asked], rows[~asked] * n[:, None, None, None])] for n in counts]
        residues = np.stack([_by_residue([e[..., i, :] for _, e in strings], int(m)) for i, m in enumerate(MODULI)])
        largest = residues[(chosen, *np.indices(chosen.shape))].argmax(-1)
        r = np.where(np.isnan(m), np.nan, largest)
        contrasts = np.stack([np.stack([_contrasts(w, int(m)) for m in MODULI]) for w, _ in strings])
        contrast = contrasts[(slice(None), chosen, *np.indices(chosen.shape), largest)]
        scores = {
            "modular.score": score,
            "modular.contrast": ratios(contrast * confirmed, confirmed, chance=0.0, seed=seed, reason=score.reason),
            "modular.m": from_draws(np.array(drawn), m, score.rows, score.strings, reason=reason),
            "modular.r": from_draws(r[None], r, score.rows, score.strings, reason=reason),
        }
        return Measured(
            scores, {"modular.scores": _mean(found, rows), "modular.weights": _by_position([w for w, _ in strings])}
        )


def residue_share(weights: Float[np.ndarray, "*S T"], excess: Float[np.ndarray, "*S T"], m: int) -> np.ndarray:
    """Share of variance between residues modulo m, float64[*S], see Modular.

    Args:
        weights: on the first token.
        excess: what of that is above the weight of keys that a distance head treats alike.
        m: modulus.

    Returns:
        NaN where there are fewer than CYCLES * m positions.
    """
    if weights.shape[-1] <= (CYCLES + 1) * m:
        return np.full(weights.shape[:-1], np.nan)
    (left, residues), (other, _) = _about_average(excess, m), _about_average(weights, m)
    members = residues[:, None] == np.arange(m)
    between = ((left @ members) ** 2 / members.sum(0)).sum(-1)
    own = (left**2).sum(-1)
    by_chance = (m - 1) * (own - between) / (len(residues) - m)
    return np.asarray((between - by_chance) / (np.maximum(own, (other**2).sum(-1)) + len(residues) * FLOOR**2))


def _about_average(series: Float[np.ndarray, "*S T"], m: int) -> tuple[np.ndarray, np.ndarray]:
    """A series beyond position m less its centred moving average over m positions and its mean; positions modulo m."""
    kernel = np.ones(m) if m % 2 else np.concatenate([[0.5], np.ones(m - 1), [0.5]])
    side, first = len(kernel) // 2, m + 1
    average = sliding_window_view(series[..., first:], len(kernel), axis=-1) @ kernel / m
    last = series.shape[-1] - side
    left = series[..., first + side : last] - average
    return left - left.mean(-1, keepdims=True), np.arange(first + side, last) % m


def _by_residue(strings: list[np.ndarray], m: int) -> Float[np.ndarray, "L H M"]:
    """Mean about the moving average by residue modulo m; -inf for residues there are not."""
    sums, count = np.zeros((*strings[0].shape[:-1], MODULI[-1])), np.zeros(MODULI[-1])
    for series in strings:
        if series.shape[-1] > (CYCLES + 1) * m:
            left, residues = _about_average(series, m)
            members = residues[:, None] == np.arange(MODULI[-1])
            sums, count = sums + left @ members, count + members.sum(0)
    return np.where(count > 0, sums / np.maximum(count, 1), -np.inf)


def _contrasts(weights: Float[np.ndarray, "L H T"], m: int) -> Float[np.ndarray, "L H M"]:
    """Mean weight on the first token at each residue modulo m less that at the others, beyond position m; 0 if none."""
    weights = weights[..., m + 1 :]
    members = (np.arange(m + 1, m + 1 + weights.shape[-1]) % m)[:, None] == np.arange(MODULI[-1])
    sums, count = weights @ members, members.sum(0)
    left, others = weights.sum(-1, keepdims=True) - sums, len(members) - count
    return np.where((count > 0) & (others > 0), sums / np.maximum(count, 1) - left / np.maximum(others, 1), 0.0)


def _by_position(strings: list[np.ndarray]) -> Float[np.ndarray, "L H T"]:
    """Mean weight on the first token over the strings that have the position."""
    longest = max(weights.shape[-1] for weights in strings)
    sums, count = np.zeros((*strings[0].shape[:-1], longest)), np.zeros(longest)
    for weights in strings:
        sums[..., : weights.shape[-1]] += weights
        count[: weights.shape[-1]] += 1
    return sums / count


def _mean(found: Float[np.ndarray, "N L H M"], rows: Float[np.ndarray, "N L H M"]) -> Float[np.ndarray, "L H M"]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((found * rows).sum(0) / rows.sum(0))


def _choose(found: Float[np.ndarray, "N L H M"], rows: Float[np.ndarray, "N L H M"]) -> Int[np.ndarray, "L H"]:
    """Index of the smallest modulus that is within noise of the best."""
    means = _mean(found, rows)
    strings = np.maximum((rows > 0).sum(0), 1)
    errors = np.sqrt(_mean((found - np.nan_to_num(means)) ** 2, rows) / strings)
    means, errors = np.nan_to_num(means, nan=-np.inf), np.nan_to_num(errors)
    top = means.argmax(-1)[..., None]
    noise = np.maximum(TOLERANCE, np.take_along_axis(errors, top, -1))
    return (means >= np.take_along_axis(means, top, -1) - noise).argmax(-1)
