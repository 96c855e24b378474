"""Periods in a short series: the share of its variance that a periodic function of some period explains.

Least squares on HARMONICS sines and cosines beside a quadratic trend, so a period need not be a whole number and a
slope is none; a multiple of the true period explains as much or less, so of the best periods the shortest is meant.

Shape letters: O places of a series, S any series, P periods tried, W waves of a period.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float

HARMONICS = 3
SHORTEST, LONGEST = 2.0, 16.0
CYCLES = 3  # of a period that a series must hold
TREND = 3  # parameters of the trend
STEP = 1 / 400  # between the frequencies that are tried, in cycles per place
AS_GOOD = 0.9  # of the best share is as good: the shortest such period is the one

# Whole periods, and enough others that the phase at the end of 64 places is off by at most a tenth of a turn.
_BETWEEN = (1 / np.arange(1 / LONGEST, 1 / SHORTEST, STEP)).round(6)
PERIODS = np.unique(np.append(_BETWEEN, np.arange(SHORTEST, LONGEST + 1)))


def tried(places: int) -> int:
    """How many of PERIODS fit CYCLES times into a series of so many places."""
    return int(np.searchsorted(PERIODS, places / CYCLES, side="right"))


def shares(series: Float[np.ndarray, "*S O"], floor: float) -> Float[np.ndarray, "*S P"]:
    """Share of the variance about the trend that each of PERIODS explains, less what chance explains on average.

    With E of the sum of squares S about the trend explained by W sines and cosines, and F = `floor`, it is

        (E - W (S - E) / (O - 3 - W)) / (S + O F^2),

    which is the adjusted R^2 where S is far above O F^2, and 0 for a series that is constant but for rounding.

    Args:
        series: at evenly spaced places.
        floor: a standard deviation that counts as none.

    Returns:
        NaN for periods that are too long for the series.
    """
    n = series.shape[-1]
    _, waves, count = _bases(n)
    left = detrended(series)
    whole = (left**2).sum(-1)[..., None]
    explained = ((left @ waves.reshape(n, -1)).reshape(*left.shape[:-1], *waves.shape[1:]) ** 2).sum(-1)
    values = np.full((*series.shape[:-1], len(PERIODS)), np.nan)
    by_chance = count * (whole - explained) / (n - TREND - count)
    values[..., : len(count)] = (explained - by_chance) / (whole + n * floor**2)
    return values


def detrended(series: Float[np.ndarray, "*S O"]) -> Float[np.ndarray, "*S O"]:
    """What a quadratic leaves of it."""
    trend, _, _ = _bases(series.shape[-1])
    return series - (series @ trend) @ trend.T


def best(values: Float[np.ndarray, "*S P"]) -> np.ndarray:
    """Int[*S] index into PERIODS of the shortest period, at a peak, that is as good as the best."""
    values = np.nan_to_num(values, nan=-np.inf)
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(1, 1)], constant_values=-np.inf)
    peak = (values >= padded[..., :-2]) & (values >= padded[..., 2:])
    good = values >= AS_GOOD * values.max(-1, keepdims=True)
    return (peak & good).argmax(-1)


@lru_cache(maxsize=64)
def _bases(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orthonormal columns: of the trend [O, 3], of each period's waves beside it [O, P, W], and W of each period."""
    places = np.arange(n) - (n - 1) / 2
    trend = np.linalg.qr(places[:, None] ** np.arange(TREND))[0]
    waves, count = np.zeros((n, tried(n), 2 * HARMONICS)), np.zeros(tried(n), int)
    for i, period in enumerate(PERIODS[: tried(n)]):
        turns = np.arange(1, min(HARMONICS, int(period / 2)) + 1) * 2 * np.pi / period
        raw = np.concatenate([np.cos(places[:, None] * turns), np.sin(places[:, None] * turns)], axis=1)
        raw -= trend @ (trend.T @ raw)
        left, size, _ = np.linalg.svd(raw, full_matrices=False)
        count[i] = (size > 1e-6 * size[0]).sum()  # at half a turn a place a sine is nothing
        waves[:, i, : count[i]] = left[:, : count[i]]
    return trend, waves, count
