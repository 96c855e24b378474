"""Where every token stands in its segment, so that strings of different lengths can be laid upon each other.

Segments by what a query there is for: *prefix* A1..Aa, *source* s, *delimiter* B1..B(b-1), and *copy*, the scored rows:
the last token of the delimiter, which predicts the first copied token, has index 0 there, the last copied token, which
predicts EOS, index n.

Shape letters: B batch, T tokens, S the four segments.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from models.tasks import CopyBatch

SEGMENTS = ("prefix", "source", "delimiter", "copy")
PREFIX, SOURCE, DELIMITER, COPY = range(len(SEGMENTS))


@dataclass(frozen=True)
class Segments:
    """Segments of a batch.

    Attributes:
        segment: long[B, T] number in SEGMENTS, -1 at padding.
        index: long[B, T] index in the segment, -1 at padding.
        starts, sizes: long[B, S].
    """

    segment: Int[Tensor, "B T"]
    index: Int[Tensor, "B T"]
    starts: Int[Tensor, "B S"]
    sizes: Int[Tensor, "B S"]

    def counterparts(self, other: "Segments") -> Int[Tensor, "B T"]:
        """Positions in `other` of the same segment and index as each position here, -1 where there is none."""
        segment = self.segment.clamp_min(0)
        there = other.starts.gather(1, segment) + self.index
        exists = (self.segment >= 0) & (self.index < other.sizes.gather(1, segment))
        return torch.where(exists, there, -1)


def segments_of(batch: CopyBatch) -> Segments:
    """Segments of every string of a batch."""
    a, b, n = batch.vocabulary.a, batch.vocabulary.b, batch.lengths
    starts = torch.stack([torch.zeros_like(n), torch.full_like(n, a), a + n, a + n + b - 1], 1)
    sizes = torch.stack([torch.full_like(n, a), n, torch.full_like(n, b - 1), n + 1], 1)
    t = torch.arange(batch.tokens.shape[1], device=n.device).expand(len(batch), -1)
    segment = (t[:, :, None] >= starts[:, None]).sum(2) - 1
    index = t - starts.gather(1, segment)
    return Segments(segment.masked_fill(batch.pad_mask, -1), index.masked_fill(batch.pad_mask, -1), starts, sizes)
