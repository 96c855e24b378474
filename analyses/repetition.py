"""How repetitive a string is: repeated contexts, competitors, longest repeat, survival, Lempel-Ziv complexity.

A copy that goes by context finds its place by the last m tokens, so what it can confuse are *positions with the same
m-token context*. A string of n tokens has n + 1 positions: one before each token and one after the last, where EOS is
due. The context of position i are the m tokens before it; the first m positions have the prefix in theirs, which no
other has.

One sort decides everything: positions in the order of their contexts read backwards, by prefix doubling in numpy, and
the common context of neighbours in that order, by the same doubled ranks. O(n log^2 n).

Shape letters: n tokens of the string, P = n + 1 positions, M orders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from models.errors import UsageError

ORDERS = 16  # contexts of 1..ORDERS tokens are counted
_LARGEST = 1 << 62  # codes stay below it
_RANDOM_TOKENS = 10_000  # of random strings that a string's complexity is compared with


@dataclass(frozen=True)
class Repetition:
    """Repetition of one string.

    Attributes:
        length: n, tokens in the string.
        alphabet: tokens there are.
        competitors: int32[M, P] other positions with the same m-token context, row m - 1 for order m.
        longest_match: int64[P] tokens in a position's longest context that another position shares.
        partner: int64[P] a position that shares it, -1 where none shares a token.
        survival: (1 - flip)^period, the share of a repeated block's occurrences that are intact ([C2D] figure 2);
            None where the string is not known to be made so.
        repeat_starts: where the two earliest occurrences of the longest repeat begin; None where no token occurs twice.
        phrases: of the string's Lempel-Ziv parse, read backwards.
        complexity: `phrases` over those of uniform random strings of the same length and alphabet: about 1 for a random
            string, towards 0 for a repetitive one.
    """

    length: int
    alphabet: int
    competitors: Int[np.ndarray, "M P"]
    longest_match: Int[np.ndarray, "P"]
    partner: Int[np.ndarray, "P"]
    repeat_starts: tuple[int, int] | None
    survival: float | None
    phrases: int
    complexity: float

    @property
    def repeated_share(self) -> Float[np.ndarray, "M"]:
        """Share of positions whose m-token context is not unique, m = 1..M."""
        return (self.competitors > 0).mean(1)

    @property
    def mean_competitors(self) -> Float[np.ndarray, "M"]:
        """Mean number of competitors a position, m = 1..M."""
        return self.competitors.mean(1)

    @property
    def longest_repeat(self) -> int:
        """Tokens in the longest substring that occurs twice; the occurrences may overlap."""
        return int(self.longest_match.max())

    def as_dict(self, positions: bool = False) -> dict[str, Any]:
        """JSON-ready; `positions` adds what is known of every position."""
        values: dict[str, Any] = {
            "length": self.length,
            "alphabet": self.alphabet,
            "repeated_share": {str(m): float(v) for m, v in enumerate(self.repeated_share, start=1)},
            "mean_competitors": {str(m): float(v) for m, v in enumerate(self.mean_competitors, start=1)},
            "longest_repeat": self.longest_repeat,
            "repeat_starts": None if self.repeat_starts is None else list(self.repeat_starts),
            "survival": self.survival,
            "lz_phrases": self.phrases,
            "lz_complexity": self.complexity,
        }
        if positions:
            values["longest_match"] = self.longest_match.tolist()
            values["competitors"] = self.competitors.tolist()
        return values


def repetition(
    string: str | Sequence[int] | Int[np.ndarray, "n"],
    *,
    alphabet: int | None = None,
    period: int | None = None,
    flip: float | None = None,
    orders: int = ORDERS,
) -> Repetition:
    """Measure the repetition of a string.

    Args:
        string: token ids, or a text whose characters are the tokens.
        alphabet: number of different tokens there are; by default of those that occur, at least 2.
        period: tokens in the repeated block, where the string is known to be made of one.
        flip: probability with which each token of it was changed.
        orders: count contexts of 1..orders tokens.

    Raises:
        UsageError: an empty string, tokens that are no ids, or an alphabet smaller than the string's.
    """
    ids, distinct = _ids(string)
    if orders < 1:
        raise UsageError(f"contexts of 1 to {orders} tokens were asked for; count at least 1 order")
    size = max(2, distinct) if alphabet is None else alphabet
    if size < distinct:
        raise UsageError(f"the string has {distinct} different tokens, more than an alphabet of {alphabet}")
    order, common = sorted_contexts(ids)
    longest, partner = _longest_matches(order, common)
    phrases = lz_phrases(order, common)
    return Repetition(
        length=len(ids),
        alphabet=size,
        competitors=_count_competitors(order, common, orders),
        longest_match=longest,
        partner=partner,
        repeat_starts=_repeat_starts(order, common),
        survival=None if period is None or flip is None else survival(period, flip),
        phrases=phrases,
        complexity=phrases / _random_phrases(len(ids), size),
    )


def survival(period: int, flip: float) -> float:
    """(1 - flip)^period: the probability that no token of a block is changed ([C2D] appendix A.2)."""
    return float((1 - flip) ** period)


def context_lengths(string: Int[np.ndarray, "n"], at: int, longest: int = ORDERS) -> Int[np.ndarray, "P"]:
    """Tokens of context, at most `longest`, that each position shares with position `at`; its own length at `at`."""
    going = np.ones(len(string) + 1, bool)
    length = np.zeros(len(string) + 1, np.int64)
    for back in range(1, min(longest, at) + 1):
        same = np.zeros(len(string) + 1, bool)
        same[back:] = string[: len(string) + 1 - back] == string[at - back]
        going &= same
        length += going
    return length


def sorted_contexts(string: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "P"], Int[np.ndarray, "n"]]:
    """Positions in the order of their contexts read backwards, and the context that neighbours there have in common.

    Entry i of the second array is the number of last tokens that positions order[i] and order[i + 1] share.
    """
    n = len(string)
    if not n:
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    # codes[p] stands for the `span` tokens before position p, 0 past the start; equal codes are equal contexts.
    codes = np.concatenate([[0], np.unique(string, return_inverse=True)[1].ravel() + 1])
    levels, span = [codes], 1
    while span < n:
        if int(codes.max() + 1) ** 2 >= _LARGEST:
            values, codes = np.unique(codes, return_inverse=True)
            if len(values) == n + 1:
                break
            levels[-1] = codes
        before = np.concatenate([np.zeros(min(span, n + 1), np.int64), codes[: max(0, n + 1 - span)]])
        codes = codes * (int(codes.max()) + 1) + before
        levels.append(codes)
        span *= 2
    order = np.argsort(codes, kind="stable")
    first, second = order[:-1].copy(), order[1:].copy()
    common = np.zeros(n, np.int64)
    for level in range(len(levels) - 1, -1, -1):
        # A code of 2^level tokens is compared where both positions have that many before them.
        whole = np.minimum(first, second) >= 1 << level
        step = np.where(whole & (levels[level][first] == levels[level][second]), 1 << level, 0)
        first, second, common = first - step, second - step, common + step
    return order, common


def lz_phrases(order: Int[np.ndarray, "P"], common: Int[np.ndarray, "n"]) -> int:
    """Phrases of the Lempel-Ziv parse (1976) of a string read backwards, from `sorted_contexts`.

    Each phrase is the longest piece that has begun before, and one more token; the last may lack it. What begins at a
    place reaches as far as its neighbour in the sorted order with an earlier beginning, which is at hand when later
    beginnings are taken out of the order one by one.
    """
    n = len(common)
    rank = np.empty(n + 1, np.int64)
    rank[order] = np.arange(n + 1)
    # Lists with an end on either side; shared[r] is what the places of rank r - 1 and r have in common.
    before, after = list(range(-1, n + 1)), list(range(1, n + 3))
    shared = [0, *common.tolist(), 0, 0]
    reach = [0] * (n + 1)  # by tokens that are left: the beginning is that far from the end
    for left, r in enumerate(rank.tolist()):
        p, q = before[r], after[r]
        reach[left] = max(shared[r], shared[q])
        shared[q] = min(shared[r], shared[q])
        after[p], before[q] = q, p
    phrases, left = 0, n
    while left > 0:
        left -= reach[left] + 1
        phrases += 1
    return phrases


@lru_cache(maxsize=256)
def _random_phrases(length: int, alphabet: int) -> float:
    """Mean number of phrases of uniform random strings, always of the same ones; more of them where they are short."""
    rng = np.random.default_rng([length, alphabet])
    strings = max(1, min(50, _RANDOM_TOKENS // length))
    return float(np.mean([lz_phrases(*sorted_contexts(rng.integers(alphabet, size=length))) for _ in range(strings)]))


def _count_competitors(
    order: Int[np.ndarray, "P"], common: Int[np.ndarray, "n"], orders: int
) -> Int[np.ndarray, "M P"]:
    """Positions with the same m-token context are neighbours in `order`, with at least m tokens between them."""
    counts = np.empty((orders, len(order)), np.int32)
    for m in range(1, orders + 1):
        group = np.concatenate([[0], np.cumsum(common < m)])
        counts[m - 1, order] = np.bincount(group)[group] - 1
    return counts


def _longest_matches(
    order: Int[np.ndarray, "P"], common: Int[np.ndarray, "n"]
) -> tuple[Int[np.ndarray, "P"], Int[np.ndarray, "P"]]:
    """The longest context a position shares, and with which: one of its two neighbours in `order`."""
    none = [0]
    below, above = np.concatenate([none, common]), np.concatenate([common, none])
    best = np.maximum(below, above)
    neighbour = np.where(below >= above, np.roll(order, 1), np.roll(order, -1))
    longest, partner = np.empty_like(order), np.empty_like(order)
    longest[order], partner[order] = best, np.where(best > 0, neighbour, -1)
    return longest, partner


def _repeat_starts(order: Int[np.ndarray, "P"], common: Int[np.ndarray, "n"]) -> tuple[int, int] | None:
    """Of all contexts of the largest common length, the one that ends first, and its next occurrence."""
    longest = int(common.max())
    if not longest:
        return None
    group = np.concatenate([[0], np.cumsum(common < longest)])
    sizes = np.bincount(group)
    ends = np.sort(order[group == group[np.where(sizes[group] > 1, order, len(order)).argmin()]])
    return int(ends[0]) - longest, int(ends[1]) - longest


def _ids(string: str | Sequence[int] | np.ndarray) -> tuple[Int[np.ndarray, "n"], int]:
    """Token ids counted from 0 in the order of their values, and how many different ones there are."""
    try:
        values = np.array([ord(char) for char in string]) if isinstance(string, str) else np.asarray(string)
    except ValueError:
        values = np.zeros(0)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu":
        raise UsageError(f"{str(string)[:40]!r} is no string of tokens; give a text or at least one whole number")
    distinct, ids = np.unique(values, return_inverse=True)
    return ids.astype(np.int64), len(distinct)
