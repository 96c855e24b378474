"""One pass over the exact patterns of all heads on many strings, shared by every measure that reads patterns.

A measure is handed each string's rows in blocks and keeps sums a string, so that intervals can resample strings. The
patterns are recomputed from rotated q and k block by block (`models.blockwise`); nothing of size T x T is kept.

Shape letters: N strings, T tokens, L layers, H heads of the widest layer, Q/K query and key positions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from analyses.estimates import Estimates, ratios
from analyses.relations import Relations, relations_of
from analyses.samples import Sample
from models.attention import HeadPattern, rule_from
from models.blockwise import RowBlock, accumulate
from models.capture import capture_one, describe
from models.tasks import CopyBatch
from models.transformer import CopyTransformer

Progress = Callable[[float], None]


@dataclass(frozen=True)
class ReadString:
    """One string as a model read it.

    Attributes:
        key: tells the strings of a pass apart.
        relations: what every hypothesis says about its rows.
        patterns: of every head, `patterns[layer][head]`.
        right: Bool[R] the answer at each scored row is right.
        predicted: int64[R] the answers.
    """

    key: int
    relations: Relations
    patterns: tuple[tuple[HeadPattern, ...], ...]
    right: Bool[np.ndarray, "R"]
    predicted: Int[np.ndarray, "R"]

    @property
    def tokens(self) -> Int[np.ndarray, "T"]:
        """As the model saw them."""
        return self.relations.tokens

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return len(self.patterns)

    @property
    def heads(self) -> tuple[int, ...]:
        """Real heads of each layer."""
        return tuple(len(layer) for layer in self.patterns)

    def head(self, layer: int, head: int) -> HeadPattern:
        """The pattern of one head."""
        return self.patterns[layer][head]


def read_string(model: CopyTransformer, batch: CopyBatch, row: int, key: int = 0) -> ReadString:
    """Run string `row` of a batch; hooks that the caller has set (moved coordinates, ablations) are in force."""
    tensors, outcome = capture_one(model, batch.select([row]))
    layers = describe(model)["layers"]
    patterns = []
    for layer, values in enumerate(layers):
        rule = rule_from(values)
        q, k, lse = (tensors[f"{name}.{layer}"].numpy() for name in ("q", "k", "lse"))
        coords = tensors[f"coords.{layer}"].numpy() if rule.slopes is not None else None
        slopes = rule.slopes or (0.0,) * len(q)
        shared = len(q) // len(k)  # query heads a key head, 1 without grouping
        patterns.append(
            tuple(HeadPattern(q[h], k[h // shared], lse[h], rule, coords, slopes[h]) for h in range(len(q)))
        )
    return ReadString(
        key, relations_of(batch, row), tuple(patterns), outcome.right[0].numpy(), outcome.predicted[0].numpy()
    )


@dataclass(frozen=True)
class Measured:
    """What measures found.

    Attributes:
        scores: by name, Estimates of shape [L, H]; NaN where a layer has fewer heads.
        profiles: by name, arrays behind the scores for figures: float[L, H, ...], documented by their measure.
    """

    scores: Mapping[str, Estimates] = field(default_factory=dict)
    profiles: Mapping[str, Float[np.ndarray, "L H *rest"]] = field(default_factory=dict)


class PassMeasure(Protocol):
    """A measure that is accumulated in the pass; made anew, with the heads of each layer, for every pass."""

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in one block of rows of one string."""
        ...

    def measured(self, seed: int) -> Measured:
        """Everything taken in, as scores."""
        ...


class Totals:
    """Sums over rows, one entry a string, of something that every head has.

    Attributes:
        heads: real heads of each layer.
        shape: of what is summed, () for a number.
    """

    def __init__(self, heads: Sequence[int], shape: tuple[int, ...] = ()) -> None:
        self.heads, self.shape = tuple(heads), shape
        self._sums: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def add(
        self,
        string: int,
        layer: int,
        sums: Float[np.ndarray, "H *S"],
        rows: Int[np.ndarray, "*S"] | int,
        chance: Float[np.ndarray, "*S"] | float = 0.0,
    ) -> None:
        """Add to a string's sums.

        Args:
            string: its key; blocks of one string add up.
            layer: index.
            sums: over the eligible rows of the block, for every real head of the layer.
            rows: how many those are.
            chance: sum over the same rows of what chance gives.
        """
        key = (string, layer)
        if key not in self._sums:
            empty = np.zeros((self.heads[layer], *self.shape)), np.zeros(self.shape), np.zeros(self.shape)
            self._sums[key] = empty
        total, count, expected = self._sums[key]
        total += sums
        count += rows
        expected += chance

    def arrays(self) -> tuple[Float[np.ndarray, "N L H *S"], Float[np.ndarray, "N L H *S"], np.ndarray]:
        """Sums, rows and chance of every string, layer and head; no rows where a layer has fewer heads."""
        strings = list(dict.fromkeys(string for string, _ in self._sums)) or [0]
        shape = (len(strings), len(self.heads), max(self.heads), *self.shape)
        sums, rows, chance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for (string, layer), (total, count, expected) in self._sums.items():
            at, real = strings.index(string), self.heads[layer]
            sums[at, layer, :real], rows[at, layer, :real], chance[at, layer, :real] = total, count, expected
        return sums, rows, chance

    def estimates(self, seed: int, *, chance: bool = False, reason: str = "no eligible rows") -> Estimates:
        """Means over rows with intervals over strings, shape [L, H, *S]."""
        sums, rows, expected = self.arrays()
        return ratios(sums, rows, chance=expected if chance else None, seed=seed, reason=reason)


def read_all(
    model: CopyTransformer,
    samples: Iterable[Sample],
    measures: Sequence[PassMeasure],
    progress: Progress | None = None,
) -> None:
    """Hand every row of every head on every string of `samples` to every measure.

    `progress` is called with the share that is done, by tokens squared.
    """
    strings = [(sample, row) for sample in samples for row in range(len(sample.batch))]
    work = [float(sample.length) ** 2 for sample, _ in strings]
    done = 0.0
    for key, ((sample, row), cost) in enumerate(zip(strings, work, strict=True)):
        string = read_string(model, sample.batch, row, key)
        accumulate(string, [_Bound(sample, string, measure) for measure in measures])
        done += cost
        if progress is not None:
            progress(done / sum(work))


@dataclass(frozen=True)
class _Bound:
    """A measure that knows which string its blocks are from."""

    sample: Sample
    string: ReadString
    measure: PassMeasure

    def update(self, block: RowBlock) -> None:
        self.measure.update(self.sample, self.string, block)
