"""Clean and corrupted strings for activation patching: they differ in one respect and are compared at one query.

*flipped*: one source token is another one; the copy is that of the clean string, and the query that has to copy the
token is scored, so nothing else that it sees has changed. *ambiguous*: the last m tokens before the query's source are
repeated at a later place of the source, followed by another token; the copy up to the query, and the right answer, are
the same in both strings. *length*: the corrupted string is another, shorter one, scored at the same index.

Shape letters: B batch, T tokens of the clean string, U of the corrupted one.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from analyses.ablation import shorter
from analyses.segments import Segments, segments_of
from models.errors import UsageError
from models.registry import unknown
from models.tasks import CopyBatch

PAIRS = ("flipped", "ambiguous", "length")


@dataclass(frozen=True)
class Pairs:
    """Pairs of strings, one scored query each.

    Attributes:
        kind: a name in PAIRS.
        clean, corrupted: the strings; their source positions are where positions point, whatever was altered.
        index: long[B] index of the scored query in the copy.
        right: long[B] the answer to the clean string.
        wrong: long[B] the answer that the corruption calls for.
        decoy: long[B] position, in both strings, of the later place that an ambiguous context was put before, else -1.
    """

    kind: str
    clean: CopyBatch
    corrupted: CopyBatch
    index: Int[Tensor, "B"]
    right: Int[Tensor, "B"]
    wrong: Int[Tensor, "B"]
    decoy: Int[Tensor, "B"]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def counterparts(self) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B U"]]:
        """Positions in the corrupted string by segment and index of the clean one's, and the other way; -1 for none."""
        clean, corrupted = self.segments
        return clean.counterparts(corrupted), corrupted.counterparts(clean)

    @property
    def segments(self) -> tuple[Segments, Segments]:
        """Of the clean and of the corrupted strings."""
        return segments_of(self.clean), segments_of(self.corrupted)


def make_pairs(batch: CopyBatch, kind: str, *, m: int = 4, seed: int = 0) -> Pairs:
    """Make one pair from every string of `batch`, with queries drawn at random.

    Args:
        batch: plain copy strings.
        kind: a name in PAIRS.
        m: tokens of context that are repeated in an ambiguous string.
        seed: of all draws.

    Raises:
        UsageError: an unknown kind, or strings too short for it.
    """
    if kind not in PAIRS:
        raise UsageError(unknown("kind of pairs", kind, PAIRS))
    rng = np.random.default_rng(seed)
    if kind == "length":
        return _other_length(batch, rng)
    least = 1 if kind == "flipped" else 2 * m + 2
    if int(batch.lengths.min()) < least:
        raise UsageError(f"pairs of kind {kind} with m = {m} need strings of at least {least} tokens")
    a, alphabet = batch.vocabulary.a, batch.vocabulary.alphabet
    tokens = batch.tokens.clone()
    index, right, wrong, decoy = (torch.full((len(batch),), -1) for _ in range(4))
    for i in range(len(batch)):
        n, source = int(batch.lengths[i]), batch.strings[i]
        k = int(rng.integers(n)) if kind == "flipped" else int(rng.integers(m, n - m - 1))
        index[i], right[i] = k, source[k]
        wrong[i] = (int(source[k]) + int(rng.integers(1, alphabet))) % alphabet
        place = k
        if kind == "ambiguous":
            place = int(rng.integers(k + m + 1, n))
            tokens[i, a + place - m : a + place] = source[k - m : k]
            decoy[i] = a + place
        tokens[i, a + place] = wrong[i]
    return Pairs(kind, batch, replace(batch, tokens=tokens), index, right, wrong, decoy)


def _other_length(batch: CopyBatch, rng: np.random.Generator) -> Pairs:
    if len(batch) < 2:
        raise UsageError("pairs of kind length are made of different strings; give at least 2")
    corrupted = shorter(batch, [(i + 1) % len(batch) for i in range(len(batch))], rng)
    kept, index, right, wrong = [], [], [], []
    for i in range(len(batch)):
        n = int(corrupted.lengths[i])
        own, other = batch.strings[i, :n], corrupted.strings[i, :n]
        different = (own != other).nonzero()[:, 0].tolist()
        if different:
            k = different[int(rng.integers(len(different)))]
            kept.append(i)
            index.append(k)
            right.append(int(own[k]))
            wrong.append(int(other[k]))
    if not kept:
        raise UsageError("no two of the strings differ, so no pair of kind length can be made of them")
    values = (torch.tensor(values) for values in (index, right, wrong, [-1] * len(kept)))
    return Pairs("length", batch.select(kept), corrupted.select(kept), *values)
