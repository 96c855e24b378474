"""Ablation of heads: what they write is set to zero, to a mean, or to what they write elsewhere.

What a locator writes depends on the position and not on the tokens, so the usual means over strings at the same
position, and resampling from strings of the same length, put back what was taken away. Here a mean runs over all
positions of a segment as well as over strings, and a resampled value comes from another index in the same segment
(prefix, source, delimiter, copy) of another, shorter string. Resampling from the same place of another string is there
too, as the control that tells what depends on the place from what depends on the tokens.

Shape letters: B batch, T tokens, H heads, E head width.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analyses.outcomes import Heads, Hook, Tally, check_heads, name_heads
from analyses.segments import SEGMENTS, Segments, segments_of
from models.config import TaskSettings
from models.errors import UsageError
from models.registry import unknown
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

WAYS = {
    "zero": "set to zero",
    "mean": "set to their mean over the positions of a segment and over strings",
    "resample": "taken from another index in the same segment of another string of another length",
    "same-place": "taken from the same place in another string",
}


@dataclass(frozen=True)
class Ablation:
    """Replace what heads write (`hook_z`), everywhere.

    Attributes:
        heads: (layer, head) pairs; None for all.
        way: a name in WAYS.
    """

    heads: Heads | None
    way: str = "resample"

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise UsageError(unknown("way of ablation", self.way, WAYS))

    @property
    def words(self) -> str:
        """What is done, in words."""
        return f"outputs of {name_heads(self.heads)} {WAYS[self.way]}"

    def strings_at_once(self, model: CopyTransformer, width: int) -> int | None:
        """All: replacements come from the other strings."""
        return None

    def hooks(self, model: CopyTransformer, batch: CopyBatch, rng: np.random.Generator, tally: Tally) -> list[Hook]:
        """Forward hooks that do it to `batch`."""
        heads = check_heads(model, self.heads)
        values = replacements(model, batch, self.way, tuple(heads), rng)
        return [
            (f"blocks.{layer}.attn.hook_z", partial(_replace, heads=indices, values=values[layer]))
            for layer, indices in heads.items()
        ]


def _replace(z: Tensor, hook: object, *, heads: list[int], values: Tensor) -> Tensor:
    z = z.clone()
    z[:, :, heads] = values[:, :, heads]
    return z


def replacements(
    model: CopyTransformer, batch: CopyBatch, way: str, layers: tuple[int, ...], rng: np.random.Generator
) -> dict[int, Float[Tensor, "B T H E"]]:
    """By layer, what `hook_z` is replaced by at every position of `batch`.

    Rows are drawn once for all layers and heads, so that heads ablated together agree on where their values are from.

    Raises:
        UsageError: no other string to take values from, or strings of one token, of which there is no shorter one.
    """
    own = segments_of(batch)
    if way in ("resample", "same-place"):
        if len(batch) < 2:
            raise UsageError("values are taken from other strings; give at least 2 strings to a sample")
        turn = int(rng.integers(1, len(batch)))
        others = [(i + turn) % len(batch) for i in range(len(batch))]
        donors = batch.select(others) if way == "same-place" else shorter(batch, others, rng)
        rows = _rows(own, segments_of(donors), rng if way == "resample" else None)
        there = torch.arange(len(batch))[:, None]
        return {layer: z[there, rows] for layer, z in _outputs(model, donors, layers).items()}
    outputs = _outputs(model, batch, layers)
    if way == "zero":
        return {layer: torch.zeros_like(z) for layer, z in outputs.items()}
    return {layer: _segment_means(z, own) for layer, z in outputs.items()}


def _outputs(model: CopyTransformer, batch: CopyBatch, layers: tuple[int, ...]) -> dict[int, Float[Tensor, "B T H E"]]:
    names = [f"blocks.{layer}.attn.hook_z" for layer in layers]
    _, cache = model.run_with_cache(batch.tokens, return_type=None, names_filter=names, return_cache_object=False)
    return {layer: cache[name] for layer, name in zip(layers, names, strict=True)}


def _segment_means(z: Float[Tensor, "B T H E"], own: Segments) -> Float[Tensor, "B T H E"]:
    means = torch.zeros_like(z)
    for number in range(len(SEGMENTS)):
        here = own.segment.to(z.device) == number
        if bool(here.any()):
            means[here] = z[here].mean(0)
    return means


def shorter(batch: CopyBatch, others: list[int], rng: np.random.Generator) -> CopyBatch:
    """The strings `others`, each cut to a length of its own between half of string i's length and one less.

    Every distribution's shorter strings are beginnings of its longer ones (`models.distributions`).
    """
    vocabulary = batch.vocabulary
    strings = []
    for own, other in enumerate(others):
        n = min(int(batch.lengths[own]), int(batch.lengths[other]))
        if n < 2:
            raise UsageError("values are taken from shorter strings; give strings of at least 2 tokens")
        strings.append(batch.strings[other, : int(rng.integers(-(-n // 2), n))].tolist())
    settings = TaskSettings(
        a=vocabulary.a, b=vocabulary.b, alphabet=vocabulary.alphabet, separator=vocabulary.separator
    )
    return CopyTask(settings).encode(strings)


def _rows(own: Segments, donors: Segments, rng: np.random.Generator | None) -> Int[Tensor, "B T"]:
    """Positions in `donors` that values are taken from: in the same segment, at the same index or at any other.

    Where a segment of the donor has no other index (or not the same one), its only (or last) one is taken.
    """
    segment, index = own.segment.clamp_min(0), own.index.clamp_min(0)
    sizes = donors.sizes.gather(1, segment)
    if rng is None:
        picked = torch.minimum(index, sizes - 1)
    else:
        choices = (sizes - (index < sizes).long()).clamp_min(1)
        picked = torch.from_numpy(rng.random(segment.shape)).mul(choices).long()
        picked = torch.where((index < sizes) & (picked >= index) & (sizes > 1), picked + 1, picked)
    return donors.starts.gather(1, segment) + picked
