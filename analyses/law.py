"""The law of [C2D] figure 2 for any model: exact match falls as repeated blocks survive.

Strings are a random block of m tokens, tiled, each token then flipped with probability p (`repeat-structure`). An
occurrence of the block is left as it was with probability (1 - p)^m, the *survival*: the more of them are, the more
places look alike. Asked at a length where the same model copies strings without repeats, so that what falls is due to
repetition alone; and of margins too, which fall while every copy is still right.

Shape letters: N strings, P pairs of period and flip probability.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from analyses.copies import read_margins
from analyses.estimates import Estimate, from_draws, ratios, resample
from analyses.repetition import survival
from models.errors import UsageError
from models.evaluation import wilson
from models.tasks import CopyTask
from models.transformer import CopyTransformer

DISTRIBUTION = "repeat-structure"
UNIQUE = "unique-context"
PERIODS = (4, 6, 8, 10)
FLIPS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
LEAST_SURVIVAL = 0.3
HANDLED = 0.5  # least exact match on strings without repeats at a length that the model can handle
SHARES = (1.0, 0.8, 0.6, 0.5)  # of the training length that are tried
LONGEST = 200  # length that is tried by itself
SHORTEST = 2 * PERIODS[0]  # a block and one repeat


@dataclass(frozen=True)
class LawPoint:
    """Strings of one period and flip probability.

    Attributes:
        period, flip: m and p.
        strings, exact: how many were drawn, and copied exactly.
        margin: mean over strings of the smallest margin (`copies.py`), logits.
    """

    period: int
    flip: float
    strings: int
    exact: int
    margin: Estimate

    @property
    def survival(self) -> float:
        """(1 - p)^m."""
        return survival(self.period, self.flip)

    @property
    def exact_match(self) -> float:
        """Share copied exactly."""
        return self.exact / self.strings

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of `exact_match`."""
        return wilson(self.exact, self.strings)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "period": self.period,
            "flip": self.flip,
            "survival": self.survival,
            "strings": self.strings,
            "exact_match": self.exact_match,
            "interval": list(self.interval),
            "margin": self.margin.as_dict(),
        }


@dataclass(frozen=True)
class Handled:
    """A length, and how well the model copies strings of it that do not repeat themselves.

    Attributes:
        length: tokens.
        control: distribution of these strings.
        exact_match: share copied exactly.
    """

    length: int
    control: str
    exact_match: float

    @property
    def enough(self) -> bool:
        """The model can handle the length."""
        return self.exact_match >= HANDLED


@dataclass(frozen=True)
class Law:
    """What was measured at one length.

    Attributes:
        handled: the length.
        points: one a pair, by period and then by survival.
        slope: of exact match over survival, least squares over strings: below 0 where the law holds.
        margin_slope: of the margin over survival, logits.
    """

    handled: Handled
    points: tuple[LawPoint, ...]
    slope: Estimate
    margin_slope: Estimate

    @property
    def holds(self) -> bool:
        """Exact match falls with survival, beyond doubt."""
        return self.slope.interval is not None and self.slope.interval[1] < 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "length": self.handled.length,
            "control": self.handled.control,
            "control_exact_match": self.handled.exact_match,
            "handled": self.handled.enough,
            "points": [point.as_dict() for point in self.points],
            "slope": self.slope.as_dict(),
            "margin_slope": self.margin_slope.as_dict(),
        }


def law_pairs(length: int) -> list[tuple[int, float]]:
    """Pairs (period, flip) with enough survival whose block fits into `length` twice, by period, then survival.

    Raises:
        UsageError: a length in which none does.
    """
    if length < SHORTEST:
        raise UsageError(f"strings of {length} tokens hold no block of {PERIODS[0]} twice; give at least {SHORTEST}")
    return [
        (period, flip)
        for period in PERIODS
        for flip in reversed(FLIPS)
        if 2 * period <= length and survival(period, flip) >= LEAST_SURVIVAL
    ]


def handled_length(
    model: CopyTransformer, task: CopyTask, trained: int, *, strings: int = 20, seed: int = 0
) -> Handled:
    """The longest of SHARES of the training length that the model can handle; without any, the one it does best at.

    Args:
        model: that copies.
        task: prefix, delimiter and alphabet.
        trained: longest string the model was trained on.
        strings: that are tried a length.
        seed: of them.
    """
    longest = min(trained, LONGEST)
    found = []
    for length in dict.fromkeys(max(SHORTEST, round(share * longest)) for share in SHARES):
        handled = how_handled(model, task, length, strings=strings, seed=seed)
        if handled.enough:
            return handled
        found.append(handled)
    return max(found, key=lambda handled: handled.exact_match)


def how_handled(model: CopyTransformer, task: CopyTask, length: int, *, strings: int = 20, seed: int = 0) -> Handled:
    """How a length is handled: on strings of unique contexts, on uniform ones where none of these is so long."""
    control = UNIQUE if length <= longest_unique(task) else "uniform"
    generator = _generator(seed, "control", length)
    batch = task.sample(strings, generator, lengths=length, distribution=control)
    return Handled(length, control, float(read_margins(model, batch)[0].mean()))


def law(
    model: CopyTransformer,
    task: CopyTask,
    handled: Handled,
    *,
    strings: int = 20,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Law:
    """Measure exact match and margins against survival.

    Args:
        model: that copies.
        task: prefix, delimiter and alphabet.
        handled: the length of the strings.
        strings: of every pair.
        seed: of them.
        progress: called with the share that is done.

    Raises:
        UsageError: a length in which no block fits twice.
    """
    pairs = law_pairs(handled.length)
    points, survivals, exact, margins = [], [], [], []
    for done, (period, flip) in enumerate(pairs, start=1):
        repeating = CopyTask(task.settings.model_copy(update={"period": period, "flip": flip}))
        generator = _generator(seed, f"{period}/{flip}", handled.length)
        batch = repeating.sample(strings, generator, lengths=handled.length, distribution=DISTRIBUTION)
        right, margin = read_margins(model, batch)
        mean = ratios(margin, np.ones(strings), seed=seed).at()
        points.append(LawPoint(period, flip, strings, int(right.sum()), mean))
        survivals.append(np.full(strings, survival(period, flip)))
        exact.append(right.astype(np.float64))
        margins.append(margin)
        if progress is not None:
            progress(done / len(pairs))
    x = np.concatenate(survivals)
    return Law(
        handled, tuple(points), slope_of(np.concatenate(exact), x, seed), slope_of(np.concatenate(margins), x, seed)
    )


def slope_of(y: Float[np.ndarray, "N"], x: Float[np.ndarray, "N"], seed: int) -> Estimate:
    """Least-squares slope of y over x, with an interval by bootstrap over strings; none where x does not vary."""
    n = len(x)
    if n < 2 or np.ptp(x) == 0:
        return Estimate(None, None, n, n, None, "the predictor does not vary")

    def slope(counts: Float[np.ndarray, "D N"]) -> Float[np.ndarray, "D"]:
        total = counts.sum(1)
        mean_x, mean_y = counts @ x / total, counts @ y / total
        with np.errstate(divide="ignore", invalid="ignore"):
            return (counts @ (x * y) / total - mean_x * mean_y) / (counts @ (x * x) / total - mean_x**2)

    value = slope(np.ones((1, n)))[0]
    return from_draws(slope(resample(n, seed)), value, np.array(n), np.array(n)).at()


def longest_unique(task: CopyTask) -> int:
    """Tokens of the longest string in which no context occurs twice."""
    settings = task.settings
    return settings.alphabet**settings.context + settings.context - 1


def _generator(seed: int, what: str, length: int) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}/law/{what}/{length}".encode()))
