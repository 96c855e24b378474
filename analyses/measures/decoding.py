"""Can the index of a row be read from how a head splits its mass among anchors, on strings of a length never seen.

The split and not the mass: a head that attends uniformly has weights 1/T, from which any index follows, and its split
is constant. A sink's is constant too. What theorem 3.2 of [C2D] encodes the index in is the split.

Rows count where the anchors stand out: where an anchor weighs at least ADVANTAGE times as much as another key.
Elsewhere a split may well vary with the index, as e^-30 to e^-31, but nothing reads it. Weights are read to RESOLUTION
for the same reason.

Shape letters: N strings, R rows of a segment, M rows that count, A anchors, H heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.neighbors import KNeighborsRegressor

ADVANTAGE = 2.0
RESOLUTION = 1e-3
NEIGHBOURS = 8
FEWEST = 2 * NEIGHBOURS  # rows to learn from
FOLDS = 5
MOST_ROWS = 1000  # of a string; longer ones are read at evenly spaced rows
SHARE = 0.3  # of the rows in which anchors must stand out, or there is no split to speak of


@dataclass(frozen=True)
class Split:
    """How the heads of a layer split their mass among anchors on one segment of one string.

    Attributes:
        length: tokens of the source string.
        weights: float32[H, R, A] of the rows of index 0..R-1.
        anchors: bool[R, A] which anchors a row sees.
        keys: int[R] how many keys it sees.
    """

    length: int
    weights: Float[np.ndarray, "H R A"]
    anchors: Bool[np.ndarray, "R A"]
    keys: Int[np.ndarray, "R"]


@dataclass(frozen=True)
class Read:
    """The index of one string's rows as read from one head's split, learned on strings of other lengths.

    Attributes:
        possible: rows whose index some string of another length has too; the others are left out.
        index, read: int[M], float64[M] true and read index of the possible rows in which the anchors stand out.
    """

    possible: int
    index: Int[np.ndarray, "M"]
    read: Float[np.ndarray, "M"]

    @property
    def wrong(self) -> float:
        """Sum of squared errors."""
        return float(((self.read - self.index) ** 2).sum())

    @property
    def spread(self) -> float:
        """Sum of squares about the mean index: the squared errors of the best constant."""
        return float(((self.index - self.index.mean()) ** 2).sum()) if len(self.index) else 0.0


def decode(strings: Sequence[Split], head: int, groups: Sequence[Sequence[int]], seed: int) -> list[Read]:
    """Read the index of every row by the nearest splits in strings of other lengths; one entry a string.

    Features are the shares of the anchors of one group in that group's mass. Which group is best differs between
    heads: in the copy the distance to B's is the index, while that to A's depends on the length too. Half of the
    strings choose the group that the other half is read by.

    Args:
        strings: of at least two lengths.
        head: which.
        groups: of anchors.
        seed: of the noise that stands for RESOLUTION, the same for every head.
    """
    every = [_decode_group(strings, head, list(group), seed) for group in groups]
    found = [reads for reads in every if stands_out(reads)] or every
    halves = alternate([string.length for string in strings])
    chosen = {half: max(found, key=lambda reads: _score(reads, halves != half)) for half in (False, True)}
    return [chosen[bool(half)][i] for i, half in enumerate(halves)]


def stands_out(reads: Sequence[Read]) -> bool:
    """Do the anchors stand out in enough rows for their split to mean anything."""
    rows = sum(len(read.index) for read in reads)
    return rows >= max(FEWEST, SHARE * sum(read.possible for read in reads))


def alternate(lengths: Sequence[int]) -> Bool[np.ndarray, "N"]:
    """Halves of strings: true for every second one of each length."""
    seen: dict[int, int] = {}
    halves = np.zeros(len(lengths), bool)
    for i, length in enumerate(lengths):
        halves[i] = seen.get(length, 0) % 2 == 1
        seen[length] = seen.get(length, 0) + 1
    return halves


def _score(reads: Sequence[Read], part: Bool[np.ndarray, "N"]) -> float:
    """R^2 on some of the strings, or on all where there are none of them."""
    kept = [read for read, used in zip(reads, part, strict=True) if used] or list(reads)
    spread = sum(read.spread for read in kept)
    return 1 - sum(read.wrong for read in kept) / spread if spread else -np.inf


def _decode_group(strings: Sequence[Split], head: int, group: list[int], seed: int) -> list[Read]:
    rows = [_features(string, head, group, np.random.default_rng([seed, i])) for i, string in enumerate(strings)]
    lengths = np.array([string.length for string in strings])
    reads = [Read(0, np.zeros(0, int), np.zeros(0))] * len(strings)
    for held_out in np.array_split(np.unique(lengths), min(FOLDS, len(np.unique(lengths)))):
        tested = np.isin(lengths, held_out)
        common = min(lengths[tested].max(), lengths[~tested].max())
        x, y, _ = _below(common, [row for row, out in zip(rows, tested, strict=True) if not out])
        asked, index, ends = _below(common, [row for row, out in zip(rows, tested, strict=True) if out])
        if len(y) < FEWEST:  # nothing to learn from: no row counts
            asked, index, ends = asked[:0], index[:0], np.zeros_like(ends)
        read = KNeighborsRegressor(NEIGHBOURS).fit(x, y).predict(asked) if len(index) else np.zeros(0)
        parts = zip(np.flatnonzero(tested).tolist(), np.split(index, ends), np.split(read, ends), strict=True)
        for i, own, decoded in parts:
            reads[i] = Read(int((_read_rows(strings[i]) < common).sum()), own, decoded)
    return reads


def _below(
    limit: int, rows: Sequence[tuple[Float[np.ndarray, "M A"], Int[np.ndarray, "M"]]]
) -> tuple[Float[np.ndarray, "M A"], Int[np.ndarray, "M"], Int[np.ndarray, "N-1"]]:
    """Features and indices of the rows whose index is below `limit`, of several strings, and where strings begin."""
    kept = [(x[index < limit], index[index < limit]) for x, index in rows]
    x, index = np.concatenate([x for x, _ in kept]), np.concatenate([index for _, index in kept])
    return x, index, np.cumsum([len(index) for _, index in kept])[:-1]


def _read_rows(string: Split) -> Int[np.ndarray, "R"]:
    """Indices of the rows that are read."""
    return np.arange(0, len(string.keys), -(-len(string.keys) // MOST_ROWS) or 1)


def _features(
    string: Split, head: int, group: list[int], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "M A"], Int[np.ndarray, "M"]]:
    """Shares of the group's anchors in its mass, and the index, of the rows in which they stand out."""
    index = _read_rows(string)
    noise = rng.normal(0, RESOLUTION, (len(index), string.anchors.shape[1]))
    weights = string.weights[head, index].astype(np.float64)
    mass, anchors = weights[:, group].sum(1), string.anchors[index][:, group].sum(1)
    counts = mass * (string.keys[index] - anchors) >= ADVANTAGE * anchors * (1 - mass)
    counts &= mass > 0
    return ((weights + noise)[counts][:, group] / mass[counts, None]), index[counts]
