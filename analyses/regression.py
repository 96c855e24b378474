"""Does repetition predict failure, and does it at fixed length? Regressions of failures and margins on string measures.

Failure: P(fail) = 1 / (1 + exp(-(b0 + bR R + bL L + bRL R L))), fitted with a ridge penalty |b|^2 / 2 on all but b0, so
that what separates perfectly gets a large coefficient and not an infinite one. Margin: the same predictors, least
squares. R is the repetition of a string and L its length, log2(1 + shared context) and log2(tokens), both in standard
deviations: a coefficient is the change of the log odds, or of the margin in logits, for one of them.

At fixed length nothing but the strings' content differs. Asked there is the probability that of a failed and a right
string of one length the failed one is the more repetitive (area under the ROC curve, 0.5 by chance).

Shape letters: N strings, D resamples, X predictors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.linear_model import LogisticRegression

from analyses.copies import Copies
from analyses.estimates import Estimate, from_draws, resample
from analyses.law import slope_of

PREDICTORS = ("repetition", "length", "repetition x length")
RESAMPLES = 200  # of the bootstrap of a logistic regression
CHANCE = 0.5  # that of two strings the failed one is the more repetitive
LEAST = 5  # failed strings, and right ones, that are needed at least


@dataclass(frozen=True)
class Regression:
    """One regression.

    Attributes:
        outcome: "failure" (log odds) or "margin" (logits).
        strings, failed: that it rests on.
        coefficients: "intercept" and PREDICTORS, for one standard deviation.
    """

    outcome: str
    strings: int
    failed: int
    coefficients: Mapping[str, Estimate]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        coefficients = {name: found.as_dict() for name, found in self.coefficients.items()}
        return {**vars(self), "coefficients": coefficients}


@dataclass(frozen=True)
class AtLength:
    """Strings of one length.

    Attributes:
        length: tokens.
        strings, failed: how many.
        auc: probability that a failed string is more repetitive than a right one.
        margin_slope: change of the margin for one standard deviation of repetition, logits.
    """

    length: int
    strings: int
    failed: int
    auc: Estimate
    margin_slope: Estimate

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "auc": self.auc.as_dict(), "margin_slope": self.margin_slope.as_dict()}


@dataclass(frozen=True)
class Prediction:
    """What predicts failure.

    Attributes:
        means, deviations: of repetition and length before they were standardised.
        failure: of all strings.
        margin, margin_of_right: of all strings, and of those that are copied exactly.
        lengths: one each.
        auc: over all pairs of equal length.
        margin_slope: of margin over repetition when both are taken relative to their means at a length.
    """

    means: Mapping[str, float]
    deviations: Mapping[str, float]
    failure: Regression
    margin: Regression
    margin_of_right: Regression
    lengths: tuple[AtLength, ...]
    auc: Estimate
    margin_slope: Estimate

    @property
    def answer(self) -> str:
        """Does repetition predict failure at fixed length: "yes", "no" or "not measurable".

        "reversed" where failed strings are the *less* repetitive ones.
        """
        if self.auc.interval is None:
            return "not measurable"
        low, high = self.auc.interval
        return "yes" if low > CHANCE else "reversed" if high < CHANCE else "no"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "means": dict(self.means),
            "deviations": dict(self.deviations),
            "failure": self.failure.as_dict(),
            "margin": self.margin.as_dict(),
            "margin_of_right": self.margin_of_right.as_dict(),
            "fixed_length": {
                "answer": self.answer,
                "auc": self.auc.as_dict(),
                "margin_slope": self.margin_slope.as_dict(),
                "lengths": [found.as_dict() for found in self.lengths],
            },
        }


def predict_failures(copies: Copies, *, seed: int = 0) -> Prediction:
    """Regress failures and margins of copies on their strings' repetition, length and the product of the two.

    Args:
        copies: of strings of several lengths and kinds.
        seed: of the bootstrap over strings.
    """
    raw = {"repetition": copies.repetition, "length": np.log2(copies.length)}
    means = {name: float(values.mean()) for name, values in raw.items()}
    deviations = {name: float(values.std()) for name, values in raw.items()}
    repetition, length = (_standardised(values) for values in raw.values())
    table = np.stack([repetition, length, repetition * length], axis=1)
    failed, exact = ~copies.exact, copies.exact
    by_length = tuple(
        _at_length(int(n), repetition[at], failed[at], copies.margin[at], seed)
        for n in np.unique(copies.length)
        for at in (copies.length == n,)
    )
    return Prediction(
        means=means,
        deviations=deviations,
        failure=Regression("failure", len(copies), int(failed.sum()), _logistic(table, failed, seed)),
        margin=Regression("margin", len(copies), int(failed.sum()), _linear(table, copies.margin, seed)),
        margin_of_right=Regression("margin", int(exact.sum()), 0, _linear(table[exact], copies.margin[exact], seed)),
        lengths=by_length,
        auc=concordance(repetition, failed, copies.length, seed),
        margin_slope=slope_of(_within(copies.margin, copies.length), _within(repetition, copies.length), seed),
    )


def concordance(
    values: Float[np.ndarray, "N"], failed: Bool[np.ndarray, "N"], groups: np.ndarray, seed: int
) -> Estimate:
    """Share of pairs of one failed and one right string of a group in which the failed one has the larger value.

    Ties count half. Strings are resampled for the interval; with a handful of failures it would look too sure, so
    there is no value below LEAST of them.
    """
    counts = resample(len(values), seed)
    above, pairs, value = np.zeros(len(counts)), np.zeros(len(counts)), np.zeros(2)
    strings = failures = 0
    for group in np.unique(groups):
        bad, good = (np.flatnonzero((groups == group) & which) for which in (failed, ~failed))
        if not len(bad) or not len(good):
            continue
        difference = values[bad][:, None] - values[good][None]
        wins = (difference > 0) + 0.5 * (difference == 0)
        above += ((counts[:, bad] @ wins) * counts[:, good]).sum(1)
        pairs += counts[:, bad].sum(1) * counts[:, good].sum(1)
        value += wins.sum(), wins.size
        strings += len(bad) + len(good)
        failures += len(bad)
    if min(failures, strings - failures) < LEAST:
        reason = (
            "no string fails"
            if not failed.any()
            else f"fewer than {LEAST} failed or right strings where a length has both"
        )
        return Estimate(None, None, 0, 0, CHANCE, reason)
    with np.errstate(invalid="ignore"):
        draws = above / pairs
    n = np.array(strings)
    return from_draws(draws, value[0] / value[1], n, n, chance=CHANCE).at()


def _at_length(length: int, repetition: np.ndarray, failed: np.ndarray, margin: np.ndarray, seed: int) -> AtLength:
    one = np.zeros(len(repetition))
    return AtLength(
        length,
        len(failed),
        int(failed.sum()),
        concordance(repetition, failed, one, seed),
        slope_of(margin, repetition, seed),
    )


def _logistic(table: Float[np.ndarray, "N X"], failed: Bool[np.ndarray, "N"], seed: int) -> dict[str, Estimate]:
    n, bad = len(failed), int(failed.sum())
    if min(bad, n - bad) < LEAST:
        told = "no string fails" if not bad else "every string fails" if bad == n else "too few fail, or too few do not"
        return _none(n, told)

    def fit(weights: Float[np.ndarray, "N"]) -> np.ndarray:
        used = weights > 0
        if len(np.unique(failed[used])) < 2:
            return np.full(1 + table.shape[1], np.nan)
        found = LogisticRegression().fit(table[used], failed[used], sample_weight=weights[used])
        return np.concatenate([found.intercept_, found.coef_[0]])

    draws = np.stack([fit(weights) for weights in resample(n, seed)[:RESAMPLES]])
    return _named(draws, fit(np.ones(n)), n)


def _linear(table: Float[np.ndarray, "N X"], y: Float[np.ndarray, "N"], seed: int) -> dict[str, Estimate]:
    n, width = table.shape
    if n <= width + LEAST:
        return _none(n, "too few strings")
    design = np.concatenate([np.ones((n, 1)), table], axis=1)
    squares = np.einsum("nx,ny->nxy", design, design).reshape(n, -1)

    def fit(counts: Float[np.ndarray, "D N"]) -> np.ndarray:
        left = (counts @ squares).reshape(-1, width + 1, width + 1)
        right = counts @ (design * y[:, None])
        return np.einsum("dxy,dy->dx", np.linalg.pinv(left, hermitian=True), right)

    return _named(fit(resample(n, seed)), fit(np.ones((1, n)))[0], n)


def _named(draws: Float[np.ndarray, "D X"], value: Float[np.ndarray, "X"], strings: int) -> dict[str, Estimate]:
    n = np.array(strings)
    found = from_draws(draws, value, n, n)
    return {name: found.at(i) for i, name in enumerate(("intercept", *PREDICTORS))}


def _none(strings: int, reason: str) -> dict[str, Estimate]:
    return {name: Estimate(None, None, strings, strings, None, reason) for name in ("intercept", *PREDICTORS)}


def _standardised(values: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """In standard deviations from the mean; 0 where nothing varies."""
    spread = values.std()
    return (values - values.mean()) / (spread if spread > 0 else 1.0)


def _within(values: Float[np.ndarray, "N"], groups: np.ndarray) -> Float[np.ndarray, "N"]:
    """Relative to the mean of a string's group."""
    found = values.astype(np.float64).copy()
    for group in np.unique(groups):
        found[groups == group] -= found[groups == group].mean()
    return found
