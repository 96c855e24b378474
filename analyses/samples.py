"""Strings that heads are judged on: plain ones, and two kinds on which position and context point to different places.

*corrupted*: the last m copied tokens before a query are replaced by m tokens that stand elsewhere in the source, so
the context points there while the position has not moved. *exchanged*: two blocks of the source only change places, so
the copy's context has moved and its position has not. On both the batch's `source_position` stays where the position
points; what the context points to is read from the tokens (`analyses.relations`).

Shape letters: B batch, T tokens, N source string.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from analyses.relations import Relations, relations_of
from models.errors import UsageError
from models.tasks import CopyBatch, CopyTask

KINDS = ("plain", "corrupted", "exchanged")
CORRUPTED_EVERY = 2  # a corrupted context of m tokens every CORRUPTED_EVERY * m tokens


@dataclass(frozen=True)
class Sample:
    """Strings of one kind, distribution and length.

    Attributes:
        kind: "plain", "corrupted" or "exchanged".
        distribution: registered name.
        length: tokens in each source string.
        m: tokens of context that a corruption replaces, or tokens in an exchanged block; 0 for plain strings.
        batch: the strings, altered where the kind says so.
    """

    kind: str
    distribution: str
    length: int
    m: int
    batch: CopyBatch

    def strings(self) -> Iterator[tuple[int, Relations]]:
        """Index and relations of every string."""
        return ((row, relations_of(self.batch, row)) for row in range(len(self.batch)))


def draw_samples(
    task: CopyTask,
    *,
    lengths: Sequence[int],
    distributions: Sequence[str],
    strings: int,
    seed: int,
    kinds: Sequence[str] = KINDS,
    m: int = 4,
) -> tuple[Sample, ...]:
    """`strings` strings of every kind, distribution and length; the same seed gives the same strings.

    Args:
        task: prefix, delimiter and alphabet.
        lengths: of the source strings; a conflict of m tokens needs at least 4 m + 2.
        distributions: registered names.
        strings: of each kind, distribution and length.
        seed: of all draws.
        kinds: which of KINDS.
        m: tokens of context that conflicts alter.

    Raises:
        UsageError: an unknown kind or distribution, or a length that a distribution cannot have.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"unknown kind of sample {kind!r}; known: {', '.join(KINDS)}")
    generator = torch.Generator().manual_seed(seed)
    samples = []
    for distribution in distributions:
        for length in lengths:
            for kind in kinds:
                batch = task.sample(strings, generator, lengths=length, distribution=distribution)
                if kind == "plain":
                    samples.append(Sample(kind, distribution, length, 0, batch))
                elif length >= 4 * m + 2:
                    alter = corrupt_copy if kind == "corrupted" else exchange_blocks
                    samples.append(Sample(kind, distribution, length, m, alter(batch, m, generator)))
    return tuple(samples)


def corrupt_copy(batch: CopyBatch, m: int, generator: torch.Generator) -> CopyBatch:
    """Replace m copied tokens in a row, every 2 m tokens, by m tokens that stand elsewhere in the same source."""
    tokens = batch.tokens.clone()
    vocabulary = batch.vocabulary
    for row in range(len(batch)):
        n = int(batch.lengths[row])
        copy = vocabulary.a + n + vocabulary.b
        source = batch.strings[row, :n]
        for end in range(CORRUPTED_EVERY * m, n + 1, CORRUPTED_EVERY * m):
            own = source[end - m : end]
            starts = [s for s in range(n - m) if s != end - m and not torch.equal(source[s : s + m], own)]
            if starts:
                start = starts[int(torch.randint(len(starts), (1,), generator=generator))]
                tokens[row, copy + end - m : copy + end] = source[start : start + m]
    return replace(batch, tokens=tokens)


def exchange_blocks(batch: CopyBatch, m: int, generator: torch.Generator) -> CopyBatch:
    """Exchange two disjoint blocks of a third of the source (at least m tokens) there, and leave the copy alone."""
    tokens = batch.tokens.clone()
    a = batch.vocabulary.a
    for row in range(len(batch)):
        n = int(batch.lengths[row])
        size = max(m, n // 3)
        first = int(torch.randint(0, n - 2 * size + 1, (1,), generator=generator))
        second = int(torch.randint(first + size, n - size + 1, (1,), generator=generator))
        order = np.arange(n)
        order[first : first + size], order[second : second + size] = (
            np.arange(second, second + size),
            np.arange(first, first + size),
        )
        tokens[row, a : a + n] = batch.strings[row, :n][torch.from_numpy(order)]
    return replace(batch, tokens=tokens)
