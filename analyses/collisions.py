"""Which columns a head cannot tell apart: neighbours closer than the frequencies resolve.

Two keys of the same content, d columns apart, that a query turned back to the first sees: plane j adds
a_j cos(f_j d) to the score of the second, so that it loses

    loss(d) = sum_j a_j (1 - cos(f_j d))   logits,

with f_j in rad per column and a_j the mean of |q_j| |k_j| over scored rows and their sources, times the head's scale:
the most the plane can add. The *resolution* is the smallest d at which the loss reaches NEEDED = 1 logit; nearer keys
get weights within a factor e of each other. This is a bound in the head's favour: planes whose phases do not agree add
less, and `gap` says what the scores really do. Planes that turn with the row are left out, since within a row they say
(almost) nothing, and so are columns so far apart that the frequencies come round again.

Shape letters: H heads, P planes, N keys, L lengths, R rows.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from jaxtyping import Float, Int

NEEDED = 1.0  # logits by which the key of a wrong column must lose
_FIRST, _GROWTH, _HALVINGS = 1e-4, 1.02, 40


@dataclass(frozen=True)
class Collisions:
    """Pairs of source tokens of different columns that the best head of a layer does not tell apart.

    Attributes:
        head: the head of the layer that resolves most.
        score: sum of its amplitudes, logits: what the column can add to a score at most.
        resolution: columns; keys nearer than this differ by less than NEEDED logits. inf where all are.
        lengths: int[L] string lengths n; the last is the string's own.
        pairs: int[L] pairs of the n source tokens and B1 that are nearer.
        neighbours: int[L] those of them that follow each other.
        nearest: float[L] columns between the two nearest.
        located_by: the head whose scores tell most sources from both neighbours; None where scores were not given.
        gap: float[R] by how much, logits: score of the source minus the better of its neighbours', whatever the tokens.
    """

    head: int
    score: float
    resolution: float
    lengths: Int[np.ndarray, "L"]
    pairs: Int[np.ndarray, "L"]
    neighbours: Int[np.ndarray, "L"]
    nearest: Float[np.ndarray, "L"]
    located_by: int | None = None
    gap: Float[np.ndarray, "R"] | None = None

    @property
    def first(self) -> int | None:
        """The first of `lengths` at which two columns collide; None where none do."""
        hit = np.flatnonzero(self.pairs)
        return int(self.lengths[hit[0]]) if len(hit) else None


def collisions(
    columns: Float[np.ndarray, "N"],
    frequencies: Float[np.ndarray, "P"],
    amplitudes: Float[np.ndarray, "H P"],
    lengths: Int[np.ndarray, "L"] | None = None,
    gaps: Float[np.ndarray, "H R"] | None = None,
) -> Collisions:
    """Count the keys that come nearer than the layer's best head resolves.

    Args:
        columns: of the source tokens in their order, and of B1, which locates EOS. A token's column depends on what
            stands before it alone, so the first n + 1 of them are those of a string of length n.
        frequencies: rad per column.
        amplitudes: logits.
        lengths: of the beginnings of the string that are counted; about ten, evenly spaced, by default.
        gaps: measured, see `placement.neighbour_gaps`.
    """
    found = [resolution(frequencies, of_head) for of_head in amplitudes]
    head = int(np.argmin(found))
    nearer = found[head]
    whole = len(columns) - 1
    at = np.unique(np.linspace(0, whole, 11).round().astype(int))[1:] if lengths is None else np.asarray(lengths)
    counts = [_count(columns[: n + 1], nearer) for n in at.tolist()]
    pairs, neighbours, nearest = (np.array(part) for part in zip(*counts, strict=True))
    best = None if gaps is None else int((gaps > 0).sum(1).argmax())
    gap = None if gaps is None or best is None else gaps[best]
    return Collisions(head, float(amplitudes[head].sum()), nearer, at, pairs, neighbours, nearest, best, gap)


def loss(
    frequencies: Float[np.ndarray, "P"], amplitudes: Float[np.ndarray, "P"], distance: Float[np.ndarray, "N"]
) -> Float[np.ndarray, "N"]:
    """Logits that a key loses at each distance (columns)."""
    return ((1 - np.cos(np.multiply.outer(distance, frequencies))) * amplitudes).sum(-1)


def resolution(
    frequencies: Float[np.ndarray, "P"], amplitudes: Float[np.ndarray, "P"], needed: float = NEEDED
) -> float:
    """Smallest distance (columns, to 2 %) at which a key loses `needed` logits; inf where none does.

    Distances are looked at up to half a turn of the slowest plane.
    """
    turning = np.abs(frequencies[(frequencies != 0) & (amplitudes > 0)])
    if not len(turning):
        return inf
    steps = int(np.log(np.pi / turning.min() / _FIRST) / np.log(_GROWTH)) + 2
    distance = _FIRST * _GROWTH ** np.arange(max(2, steps))
    reached = np.flatnonzero(loss(frequencies, amplitudes, distance) >= needed)
    if not len(reached):
        return inf
    low, high = (0.0 if not reached[0] else float(distance[reached[0] - 1])), float(distance[reached[0]])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if loss(frequencies, amplitudes, np.array([middle]))[0] >= needed:
            high = middle
        else:
            low = middle
    return high


def _count(columns: Float[np.ndarray, "N"], nearer: float) -> tuple[int, int, float]:
    """Pairs and neighbours nearer than `nearer`, and the smallest distance there is, in n log n."""
    ordered = np.sort(columns)
    reach = (
        np.searchsorted(ordered, ordered + nearer, side="left") if nearer < inf else np.full(len(ordered), len(ordered))
    )
    pairs = int((reach - np.arange(len(ordered)) - 1).clip(0).sum())
    neighbours = int((np.abs(np.diff(columns)) < nearer).sum())
    return pairs, neighbours, float(np.diff(ordered).min(initial=inf))
