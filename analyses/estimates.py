"""Estimates that say how sure they are: a value, a bootstrap interval over strings, and how many rows it rests on.

Strings are the unit that is resampled, since rows of one string are not independent. A score that has no rows to rest
on is not measurable, and says why, instead of being NaN or zero.

Shape letters: N strings, D resamples, S whatever is estimated at once (heads, lengths, ...).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from models.errors import UsageError

DRAWS = 1000  # resamples of the bootstrap
LEVEL = 0.95  # coverage of an interval


@dataclass(frozen=True)
class Estimate:
    """One number with its uncertainty.

    Attributes:
        value: None where it is not measurable.
        interval: 95 % percentile bootstrap interval over strings, None where there is no value.
        rows: query rows it rests on.
        strings: strings those rows are from.
        chance: what a head without the property would score, None where that has no meaning.
        reason: why it is not measurable.
    """

    value: float | None
    interval: tuple[float, float] | None
    rows: int
    strings: int
    chance: float | None = None
    reason: str = ""

    @property
    def measurable(self) -> bool:
        """Is there a value."""
        return self.value is not None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values: dict[str, Any] = {
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "rows": self.rows,
            "strings": self.strings,
        }
        if self.chance is not None:
            values["chance"] = self.chance
        return values | ({"reason": self.reason} if self.reason else {})


@dataclass(frozen=True)
class Estimates:
    """Many estimates of one kind, in arrays of one shape.

    Attributes:
        value: float[*S], NaN where it is not measurable.
        low, high: float[*S] 95 % interval.
        rows, strings: int[*S].
        chance: float[*S], NaN where that has no meaning.
        reason: why entries without a value have none.
    """

    value: Float[np.ndarray, "*S"]
    low: Float[np.ndarray, "*S"]
    high: Float[np.ndarray, "*S"]
    rows: Int[np.ndarray, "*S"]
    strings: Int[np.ndarray, "*S"]
    chance: Float[np.ndarray, "*S"]
    reason: str = "no eligible rows"

    def at(self, *index: int) -> Estimate:
        """The estimate at `index`."""
        value, chance = float(self.value[index]), float(self.chance[index])
        rows, strings = int(self.rows[index]), int(self.strings[index])
        known_chance = None if np.isnan(chance) else chance
        if np.isnan(value):
            return Estimate(None, None, rows, strings, known_chance, self.reason)
        interval = (float(self.low[index]), float(self.high[index]))
        return Estimate(value, interval, rows, strings, known_chance)


def ratios(
    sums: Float[np.ndarray, "N *S"],
    rows: Float[np.ndarray, "N *S"],
    *,
    chance: Float[np.ndarray, "N *S"] | float | None = None,
    seed: int = 0,
    reason: str = "no eligible rows",
) -> Estimates:
    """Mean over rows, with strings resampled: sum of `sums` over sum of `rows`.

    Args:
        sums: of a string's rows; anything at entries without rows.
        rows: of each string, broadcastable to `sums`; 0 where a string has none.
        chance: sums over rows of what chance gives, or one number for all.
        seed: of the bootstrap.
        reason: said where there are no rows.

    Raises:
        UsageError: no strings.
    """
    sums = np.asarray(sums, np.float64)
    rows = np.asarray(rows, np.float64)
    rows = np.broadcast_to(rows.reshape(rows.shape + (1,) * (sums.ndim - rows.ndim)), sums.shape)
    sums = np.where(rows > 0, sums, 0.0)
    counts = resample(len(sums), seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sums.sum(0) / rows.sum(0)
        drawn = np.tensordot(counts, sums, 1) / np.tensordot(counts, rows, 1)
    low, high = _interval(drawn, value)
    return Estimates(value, low, high, *_counts(rows), _chance(chance, rows, value), reason)


def resample(strings: int, seed: int) -> Float[np.ndarray, "D N"]:
    """How often each string is drawn in each resample of the bootstrap; times sums a string, it draws sums.

    Raises:
        UsageError: no strings.
    """
    if not strings:
        raise UsageError("nothing to estimate from: give at least one string")
    picks = np.random.default_rng(seed).integers(0, strings, (DRAWS, strings))
    return np.apply_along_axis(np.bincount, 1, picks, minlength=strings).astype(np.float64)


def from_draws(
    draws: Float[np.ndarray, "D *S"],
    value: Float[np.ndarray, "*S"],
    rows: Int[np.ndarray, "*S"],
    strings: Int[np.ndarray, "*S"],
    *,
    chance: Float[np.ndarray, "*S"] | float = np.nan,
    reason: str = "no eligible rows",
) -> Estimates:
    """Estimates of anything that is no mean over rows, from the caller's own bootstrap draws."""
    value = np.asarray(value, np.float64)
    low, high = _interval(np.asarray(draws, np.float64), value)
    shape = value.shape
    return Estimates(
        value,
        low,
        high,
        np.broadcast_to(np.asarray(rows, np.int64), shape),
        np.broadcast_to(np.asarray(strings, np.int64), shape),
        np.broadcast_to(np.asarray(chance, np.float64), shape),
        reason,
    )


def _interval(drawn: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles of the draws that have a value; where none has, the value itself."""
    tail = 100 * (1 - LEVEL) / 2
    drawn = np.where(np.isfinite(drawn), drawn, value)
    low, high = np.percentile(drawn, [tail, 100 - tail], axis=0)
    return np.minimum(low, value), np.maximum(high, value)


def _counts(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows.sum(0).round().astype(np.int64), (rows > 0).sum(0)


def _chance(chance: Any, rows: np.ndarray, value: np.ndarray) -> np.ndarray:
    if chance is None:
        return np.full(value.shape, np.nan)
    if np.ndim(chance) == 0:
        return np.full(value.shape, float(chance))
    chance = np.asarray(chance, np.float64)
    chance = np.broadcast_to(chance.reshape(chance.shape + (1,) * (rows.ndim - chance.ndim)), rows.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rows > 0, chance, 0.0).sum(0) / rows.sum(0)
