"""Why a learned column saturates: column' = u column + v never passes v / (1 - u) ([C2D] appendix F).

Counting to N needs 1 - u << 1/N. The nearer the column comes to its bound, the closer neighbouring columns lie.

Shape letters: n tokens of the string, K lengths.
"""

from dataclasses import dataclass
from math import floor, inf, log

import numpy as np
from jaxtyping import Float, Int

from analyses.placement import Placed
from models.errors import UsageError

HALF = 0.5  # columns: neighbours closer than half of one are no longer "the next column"


@dataclass(frozen=True)
class TokenClass:
    """What one token of the alphabet does to the column: column' = u column + v ([C2D] appendix F).

    Attributes:
        name: printable name.
        count: how often it occurs in the string.
        u, v: means over its occurrences; they differ only where steps are read from more than the embedding.
        spread: largest deviation of u from its mean.
        bound: v / (1 - u) columns, which a string of this token alone never passes; inf where u >= 1.
        counts_to: 1 / (1 - u) tokens, the length that u can count to; inf where u >= 1.
        half_at: tokens of a string of this token alone after which the next column is less than HALF away; None never.
    """

    name: str
    count: int
    u: float
    v: float
    spread: float
    bound: float
    counts_to: float
    half_at: int | None


@dataclass(frozen=True)
class Saturation:
    """How the column of the string nears its bound.

    Attributes:
        classes: of the tokens that occur in the string.
        columns: float[n + 1] measured columns of the source tokens and of B1.
        bound: v / (1 - u) for u and v averaged over the string: where the columns of such a string tend to.
        reached: measured column at the end of the string over `bound`.
        half_at: first source token from which on the next column is less than HALF away; None where there is none.
        half_expected: where it would be for the averaged u and v; None never.
    """

    classes: tuple[TokenClass, ...]
    columns: Float[np.ndarray, "n+1"]
    bound: float
    reached: float
    half_at: int | None
    half_expected: int | None


def saturation(placed: Placed) -> Saturation:
    """Measure how near the string's columns come to v / (1 - u). UsageError where the layer learns no steps."""
    if placed.steps is None:
        raise UsageError(f"{placed.scheme} learns no steps, so its columns have no bound; ask for an Auto-2D layer")
    source = placed.sources[:-1]
    steps, tokens = placed.steps[source].astype(np.float64), placed.tokens[source]
    columns = placed.columns[placed.sources]
    classes = []
    for token in np.unique(tokens):
        u, v = steps[tokens == token].T
        mean_u, mean_v = float(u.mean()), float(v.mean())
        spread = float(np.abs(u - mean_u).max())
        counts_to = inf if mean_u >= 1 else 1 / (1 - mean_u)
        half = half_length(mean_u, mean_v, float(columns[0]))
        of_token = int((tokens == token).sum())
        bound = column_bound(mean_u, mean_v)
        classes.append(TokenClass(placed.names[token], of_token, mean_u, mean_v, spread, bound, counts_to, half))
    u, v = (float(mean) for mean in steps.mean(0))
    narrow = np.diff(columns) < HALF
    wide = np.flatnonzero(~narrow)
    after = int(wide[-1]) + 1 if len(wide) else 0
    bound = column_bound(u, v)
    return Saturation(
        classes=tuple(classes),
        columns=columns,
        bound=bound,
        reached=float(columns[-1] / bound) if bound > 0 else inf,
        half_at=after if after < len(narrow) else None,
        half_expected=half_length(u, v, float(columns[0])),
    )


def column_bound(u: float, v: float) -> float:
    """The fixed point v / (1 - u) of column' = u column + v; inf where u >= 1, which has none that is reached."""
    return inf if u >= 1 else v / (1 - u)


def column_after(u: float, v: float, start: float, tokens: Int[np.ndarray, "K"]) -> Float[np.ndarray, "K"]:
    """Column after so many tokens of one class: bound - (bound - start) u^k, and start + k v where u = 1."""
    k = np.asarray(tokens, dtype=np.float64)
    if u == 1:
        return start + k * v
    fixed = v / (1 - u)
    return fixed - (fixed - start) * u**k


def half_length(u: float, v: float, start: float = 0.0) -> int | None:
    """Tokens of one class after which the next column is less than HALF away; None where that never happens.

    From column c the next is v - (1 - u) c away, and that distance shrinks by u each token.
    """
    first = v - (1 - u) * start
    if first < HALF:
        return 0
    if u >= 1:
        return None
    if u <= 0:
        return 1
    return floor(log(HALF / first) / log(u)) + 1
