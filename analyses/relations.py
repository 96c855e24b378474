"""What every hypothesis about a head says about every row of one string: sources, contexts, duplicates, offsets.

Read from the tokens as the model saw them and from the batch's own positions; nothing is derived twice.

Two words, once and for all. *True source* of a scored query: the position of the source token it has to copy
(`CopyBatch.source_position`; B1 for EOS). *Candidates* of order m: keys whose m preceding tokens equal the query's own
last m tokens, the query's token included: the key is the token AFTER an earlier occurrence of the context (induction).

Shape letters: T tokens, R scored rows, A anchors, Q/K query and key positions.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from models.tasks import CopyBatch

LONGEST_CONTEXT = 8  # tokens of context that candidates are told apart by


@dataclass(frozen=True)
class Relations:
    """One string.

    Attributes:
        tokens: int64[T] as the model saw them, without padding.
        source_position: int64[T] true source of scored queries, -1 elsewhere.
        targets: int64[T] right answers at scored queries, IGNORE elsewhere.
        anchors: int64[A] positions of A1..Aa, B1..Bb.
        a, b, n: tokens in the prefix, in the delimiter, in the string.
    """

    tokens: Int[np.ndarray, "T"]
    source_position: Int[np.ndarray, "T"]
    targets: Int[np.ndarray, "T"]
    anchors: Int[np.ndarray, "A"]
    a: int
    b: int
    n: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def copy_rows(self) -> Int[np.ndarray, "R"]:
        """Scored queries in order: the one at index k predicts copied token k, the last one EOS."""
        first = self.a + self.n + self.b - 1
        return np.arange(first, first + self.n + 1)

    @property
    def source_rows(self) -> Int[np.ndarray, "N"]:
        """Positions of the source string."""
        return np.arange(self.a, self.a + self.n)

    def index_of(self, queries: Int[np.ndarray, "Q"]) -> Int[np.ndarray, "Q"]:
        """Index in its segment: k of a scored query, i of a source position; -1 elsewhere."""
        first = self.a + self.n + self.b - 1
        in_copy = (queries >= first) & (queries <= first + self.n)
        in_source = (queries >= self.a) & (queries < self.a + self.n)
        return np.where(in_copy, queries - first, np.where(in_source, queries - self.a, -1))

    def context_matches(self, first: int, last: int, longest: int = LONGEST_CONTEXT) -> Int[np.ndarray, "Q K"]:
        """Length of the context that queries [first, last) share with what precedes each key 0..last-1.

        Entry (q, k) is the largest m <= `longest` with tokens[k-1-j] == tokens[q-j] for all j < m; 0 where k > q and
        where the tokens differ at once. A key is a candidate of order m where the entry is at least m.
        """
        queries, keys = np.arange(first, last)[:, None], np.arange(last)[None]
        going = keys <= queries
        length = np.zeros((last - first, last), np.int8)
        for back in range(longest):
            own, before = queries - back, keys - 1 - back
            same = self.tokens[np.maximum(own, 0)] == self.tokens[np.maximum(before, 0)]
            going = going & same & (own >= 0) & (before >= 0)
            length += going
        return length

    def intact(self, m: int) -> Bool[np.ndarray, "T"]:
        """Scored queries whose last m tokens are all copied tokens and the right ones (the copied prefix is intact)."""
        rows = self.copy_rows
        matches = np.zeros(len(self), np.int64)  # copied tokens in a row, up to here, that equal their source
        for k, row in enumerate(rows[1:], start=1):
            right = self.tokens[row] == self.tokens[self.source_position[rows[k - 1]]]
            matches[row] = matches[row - 1] + 1 if right else 0
        found = np.zeros(len(self), bool)
        found[rows] = matches[rows] >= m
        return found

    def in_copy(self, m: int) -> Bool[np.ndarray, "T"]:
        """Scored queries whose last m tokens are all copied tokens, right or wrong."""
        found = np.zeros(len(self), bool)
        found[self.copy_rows[m:]] = True
        return found


def relations_of(batch: CopyBatch, row: int) -> Relations:
    """Relations of string `row` of a batch, padding removed."""
    kept = ~batch.pad_mask[row]
    vocabulary = batch.vocabulary
    return Relations(
        tokens=batch.tokens[row][kept].cpu().numpy(),
        source_position=batch.source_position[row][kept].cpu().numpy(),
        targets=batch.targets[row][kept].cpu().numpy(),
        anchors=batch.anchor_positions[row].cpu().numpy(),
        a=vocabulary.a,
        b=vocabulary.b,
        n=int(batch.lengths[row]),
    )
