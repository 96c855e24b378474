"""Strings as they might have been: repeats broken, other tokens flipped, cut short, or other around the same tokens.

Each edit keeps the asked token, and as far as it can the tokens before it and those that the row attended to, so that
what changes is the one thing that is tested. Edits are of the *source*: the copy up to the asked row follows it.

A *competitor* of index k is another index whose context, the tokens before it, ends like that of k. Index n stands for
B1, the answer of EOS.

Shape letters: n tokens, P = n + 1 indices.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from analyses.questions import Question
from analyses.repetition import context_lengths

WINDOW = 8  # tokens of context that an edit spares, before the asked token and before competitors that are to stay
_ROUNDS = 100  # of mending new repeats that breaking old ones has made


@dataclass(frozen=True, eq=False)
class Rivals:
    """The competitors of one question that its row attended to, and what else it attended to.

    Attributes:
        strong: bool[P] those attended to; never the asked index.
        match: int64[P] tokens of context that each index shares with the asked one.
        mass: float64[P] attention on each index.
        order: tokens of context that decide who competes, at least 1.
    """

    strong: Bool[np.ndarray, "P"]
    match: Int[np.ndarray, "P"]
    mass: Float[np.ndarray, "P"]
    order: int

    @property
    def attended(self) -> Bool[np.ndarray, "P"]:
        """Indices with a mass like the strong competitors', the asked one included."""
        least = self.mass[self.strong].min() if self.strong.any() else np.inf
        return self.mass >= least


def with_other_answer(question: Question, alphabet: int, rng: np.random.Generator) -> Question:
    """The same question with another token to be copied; the answer of a copy that still looks there changes too."""
    string = question.string.copy()
    string[question.index] = _other(string[question.index], alphabet, rng)
    return Question(string, question.index)


def break_repeats(
    question: Question, rivals: Rivals, alphabet: int, rng: np.random.Generator, *, all_alike: bool
) -> Question:
    """Flip tokens until no strong competitor shares `rivals.order` tokens with the asked index, or all that it shared.

    The token right before a competitor is flipped, which leaves it no context, or one before that. Tokens of the row's
    own context, which would change the row itself, and tokens that were attended to are the last choice: where they
    stand between competitor and asked token, or competitors follow one another so closely that all were attended to.

    Args:
        question: whose string is edited.
        rivals: its competitors.
        alphabet: tokens there are.
        rng: random numbers.
        all_alike: break as well what was not attended to and shares `rivals.order` tokens, at least two.
    """
    string, k = question.string.copy(), question.index
    longest = max(2, rivals.order)
    least = np.where(rivals.strong, np.clip(rivals.match, 1, rivals.order), longest if all_alike else longest + 1)
    spared = 30.0 * rivals.attended[:-1]
    own = np.arange(max(0, k - WINDOW), k)
    spared[own] += 20.0 - (k - own)
    for attempt in range(_ROUNDS):
        match = context_lengths(string, k, longest)
        match[k] = 0
        bad = np.flatnonzero(match >= least)
        if not len(bad):
            break
        for i in rng.permutation(bad):
            shared = int(least[i])
            before = string[max(0, i - shared) : i]
            if len(before) != len(string[max(0, k - shared) : k]) or (before != string[k - shared : k]).any():
                continue  # an earlier flip of this round has broken it
            back = np.arange(shared)
            places = np.concatenate([i - 1 - back, k - 1 - back])
            cost = np.concatenate([back, back]) + spared[places] + 0.1 * (attempt + 1) * rng.random(len(places))
            place = int(places[np.where(places == k, np.inf, cost).argmin()])
            string[place] = _other(string[place], alphabet, rng)
            spared[place] += 3.0
    return Question(string, k)


def flip_elsewhere(
    question: Question, rivals: Rivals, flips: int, alphabet: int, rng: np.random.Generator
) -> tuple[Question, float]:
    """Flip as many tokens outside the strong competitors' contexts: the control of `break_repeats`.

    Spared as there: the asked token, its own context, what the row attended to. Where too few tokens are left outside,
    those furthest from a competitor are flipped.

    Returns:
        The edited question, and the share of flips that are in no competitor's context, NaN without flips.
    """
    string, k = question.string.copy(), question.index
    near = np.zeros(len(string))  # 0 outside of all contexts, 1 at the far end of one, WINDOW right before a competitor
    for i in np.flatnonzero(rivals.strong):
        reach = min(int(rivals.match[i]), WINDOW)
        near[i - reach : i] = np.maximum(near[i - reach : i], np.arange(WINDOW + 1 - reach, WINDOW + 1))
    cost = near + 2 * WINDOW * rivals.attended[:-1]
    cost[max(0, k - WINDOW) : k] += 4 * WINDOW
    order = np.lexsort((rng.random(len(string)), cost))
    places = order[order != k][:flips]
    for place in places:
        string[place] = _other(string[place], alphabet, rng)
    outside = float((near[places] == 0).mean()) if len(places) else float("nan")
    return Question(string, k), outside


def kept_when_shortened(
    question: Question, rivals: Rivals, longest: int, rng: np.random.Generator
) -> Bool[np.ndarray, "n"]:
    """Which tokens stay when a string is cut to between half of `longest` and `longest` tokens at equal repetition.

    The asked token stays with its context, and so do competitors with theirs, the most attended first and ties in
    random order, as many as there is room for; then the tokens nearest to those.
    """
    n, k = question.length, question.index
    window = min(WINDOW, longest // 4)
    kept = np.zeros(n + 1, bool)
    kept[max(0, k - window) : k + 1] = True
    ranked = np.lexsort((rng.random(n + 1), -rivals.mass))
    for i in ranked[rivals.strong[ranked]]:
        reach = min(int(rivals.match[i]), window)
        added = kept.copy()
        added[max(0, i - reach) : i + 1] = True
        if added[:n].sum() > longest:
            break
        kept = added
    size = int(kept[:n].sum())
    room = int(rng.integers(min(max(size, longest // 2), longest), longest + 1)) - size
    places = np.flatnonzero(kept)
    distance = np.abs(np.arange(n)[:, None] - places[None]).min(1)
    order = np.lexsort((rng.random(n), distance))
    more = order[~kept[order]][: max(0, room)]
    kept[more] = True
    return kept[:n]


def shorten(question: Question, kept: Bool[np.ndarray, "n"]) -> Question:
    """Remove the tokens that are not kept."""
    return Question(question.string[kept], int(kept[: question.index].sum()))


def exchange_rest(question: Question, kept: Bool[np.ndarray, "n"], rng: np.random.Generator) -> Question:
    """Draw the tokens that are not kept from the string's own, at the same length: the control of `shorten`."""
    string = question.string.copy()
    string[~kept] = rng.choice(question.string, int((~kept).sum()))
    return Question(string, question.index)


def _other(token: int, alphabet: int, rng: np.random.Generator) -> int:
    """A different token, uniformly."""
    return int((token + rng.integers(1, alphabet)) % alphabet)
