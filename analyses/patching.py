"""Activation patching between clean and corrupted strings: which heads, and which places, carry the answer.

*Denoising* runs the corrupted string with activations of the clean one and asks how much of the right answer comes
back; *noising* runs the clean string with activations of the corrupted one and asks how much of it goes. With LD the
logit of the right answer minus that of the wrong one at the scored query,

    recovered (denoising) = (LD(patched) - LD(corrupted)) / (LD(clean) - LD(corrupted))
    destroyed (noising)   = (LD(clean) - LD(patched)) / (LD(clean) - LD(corrupted)),

means over strings above and below the line, so that a string on which nothing changes does not blow up. 0 is nothing,
1 everything. Strings of different lengths are aligned by segment and index; a position without a counterpart keeps its
own activation. On strings of one length the heads' values are those of TransformerLens'
`patching.get_act_patch_attn_head_out_all_pos`, which knows no other alignment.

Shape letters: B batch, T tokens, L layers, H heads, E head width, D model width, C classes of positions.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.estimates import Estimate, Estimates, from_draws, ratios, resample
from analyses.pairs import Pairs
from analyses.passes import Progress
from analyses.segments import COPY, DELIMITER, PREFIX, SOURCE, Segments
from models.errors import UsageError
from models.registry import unknown
from models.tasks import CopyBatch
from models.transformer import CopyTransformer

DIRECTIONS = ("denoising", "noising")
# Where in a string the stream is patched; together all that the query can see.
POSITIONS = ("prefix", "source", "true source", "decoy", "delimiter", "copy", "query")
LEAST_DIFFERENCE = 1e-3  # logits between clean and corrupted, below which there is nothing to recover


@dataclass(frozen=True)
class Patched:
    """Effects of patching single activations.

    Attributes:
        kind: of the pairs.
        direction: a name in DIRECTIONS.
        heads: [L, H] share recovered or destroyed by a head's output, at all positions together.
        stream: [L, C] by the residual stream that enters a layer, at one class of positions (POSITIONS): the prefix,
            other source tokens, the true source, the decoy (ambiguous pairs), the delimiter up to B(b-1), earlier
            scored queries, the scored query itself.
        clean, corrupted: logit differences without patching.
    """

    kind: str
    direction: str
    heads: Estimates
    stream: Estimates
    clean: Estimate
    corrupted: Estimate

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; heads and positions without a value are left out of the list."""
        n_layers, n_heads = self.heads.value.shape
        heads = [
            {"layer": layer, "head": head, **self.heads.at(layer, head).as_dict()}
            for layer in range(n_layers)
            for head in range(n_heads)
            if self.heads.rows[layer, head]
        ]
        stream = [
            {"layer": layer, "positions": name, **self.stream.at(layer, c).as_dict()}
            for layer in range(n_layers)
            for c, name in enumerate(POSITIONS)
            if self.stream.rows[layer, c]
        ]
        return {
            "kind": self.kind,
            "direction": self.direction,
            "clean": self.clean.as_dict(),
            "corrupted": self.corrupted.as_dict(),
            "heads": heads,
            "stream": stream,
        }


@torch.inference_mode()
def patch(
    model: CopyTransformer,
    pairs: Pairs,
    direction: str = "denoising",
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Patched:
    """Patch every head's output, and the stream that enters every layer at every class of positions, one at a time.

    Args:
        model: not changed.
        pairs: see `analyses.pairs.make_pairs`; best of strings that the model copies.
        direction: a name in DIRECTIONS.
        seed: of the intervals.
        progress: called with the share that is done.

    Raises:
        UsageError: an unknown direction.
    """
    if direction not in DIRECTIONS:
        raise UsageError(unknown("direction of patching", direction, DIRECTIONS))
    clean, corrupted = _Run(model, pairs, pairs.clean), _Run(model, pairs, pairs.corrupted)
    to_corrupted, to_clean = pairs.counterparts
    base, donor, there = (corrupted, clean, to_clean) if direction == "denoising" else (clean, corrupted, to_corrupted)
    segments = pairs.segments[1 if direction == "denoising" else 0]
    classes = _classes(pairs, base.batch, segments)
    span = clean.difference - corrupted.difference
    sign = 1 if direction == "denoising" else -1

    counts, n_layers = model.cfg.heads, model.cfg.n_layers
    heads = np.zeros((len(pairs), n_layers, max(counts)))
    stream = np.zeros((len(pairs), n_layers, len(POSITIONS)))
    for layer, count in enumerate(counts):
        for head in range(count):
            heads[:, layer, head] = sign * (base.with_head(layer, head, donor, there) - base.difference)
        for c in range(len(POSITIONS)):
            stream[:, layer, c] = sign * (base.with_stream(layer, donor, there, classes == c) - base.difference)
        if progress is not None:
            progress((layer + 1) / n_layers)
    real = np.arange(max(counts))[None] < np.array(counts)[:, None]
    present = np.array([bool((classes == c).any()) for c in range(len(POSITIONS))])
    n = len(pairs)
    return Patched(
        pairs.kind,
        direction,
        _shares(heads, span, real, seed),
        _shares(stream, span, np.broadcast_to(present, stream.shape[1:]), seed),
        ratios(clean.difference, np.ones(n), seed=seed).at(),
        ratios(corrupted.difference, np.ones(n), seed=seed).at(),
    )


class _Run:
    """One of the two strings as the model reads it.

    Attributes:
        difference: float64[B] logit of the right minus of the wrong answer at the scored query.
        resid, z: by layer, the stream that enters it and what its heads write.
    """

    def __init__(self, model: CopyTransformer, pairs: Pairs, batch: CopyBatch) -> None:
        self.model, self.pairs, self.batch = model, pairs, batch
        self.rows = batch.scored_rows[0].gather(1, pairs.index[:, None])
        layers = range(model.cfg.n_layers)
        names = [f"blocks.{layer}.{point}" for layer in layers for point in ("hook_resid_pre", "attn.hook_z")]
        logits, cache = model.run_with_cache(
            batch.tokens, rows=self.rows.to(model.device), names_filter=names, return_cache_object=False
        )
        self.resid: list[Float[Tensor, "B T D"]] = [cache[f"blocks.{layer}.hook_resid_pre"] for layer in layers]
        self.z: list[Float[Tensor, "B T H E"]] = [cache[f"blocks.{layer}.attn.hook_z"] for layer in layers]
        self.difference = self._read(logits)

    def _read(self, logits: Float[Tensor, "B 1 V"]) -> Float[np.ndarray, "B"]:
        last = logits[:, 0].double().cpu()
        right, wrong = (last.gather(1, ids[:, None])[:, 0] for ids in (self.pairs.right, self.pairs.wrong))
        return (right - wrong).numpy()

    def _run_from(self, layer: int, resid: Tensor) -> Float[np.ndarray, "B"]:
        rows = self.rows.to(self.model.device)
        return self._read(self.model(self.batch.tokens, rows=rows, start_at_layer=layer, resid=resid))

    def with_head(self, layer: int, head: int, donor: "_Run", there: Int[Tensor, "B T"]) -> Float[np.ndarray, "B"]:
        """The difference with one head's output taken from the donor, wherever it has a counterpart."""
        values = _taken(self.z[layer], donor.z[layer], there, there >= 0)
        hook = partial(_set_head, head=head, values=values)
        with self.model.hooks(fwd_hooks=[(f"blocks.{layer}.attn.hook_z", hook)]):
            return self._run_from(layer, self.resid[layer])

    def with_stream(
        self, layer: int, donor: "_Run", there: Int[Tensor, "B T"], where: Bool[Tensor, "B T"]
    ) -> Float[np.ndarray, "B"]:
        """The difference with the stream that enters a layer taken from the donor at `where`."""
        return self._run_from(layer, _taken(self.resid[layer], donor.resid[layer], there, where & (there >= 0)))


def _taken(own: Tensor, donor: Tensor, there: Int[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Tensor:
    """`own` [B, T, ...] with the donor's values of counterparts at `where`."""
    strings = torch.arange(len(own), device=own.device)[:, None]
    values = donor[strings, there.clamp_min(0).to(own.device)]
    mask = where.to(own.device).reshape(*where.shape, *[1] * (own.ndim - 2))
    return torch.where(mask, values, own)


def _set_head(z: Tensor, hook: object, *, head: int, values: Tensor) -> Tensor:
    z = z.clone()
    z[:, :, head] = values[:, :, head]
    return z


def _classes(pairs: Pairs, batch: CopyBatch, segments: Segments) -> Int[Tensor, "B T"]:
    """Number in POSITIONS of every position, -1 at padding and after the query."""
    names = {segment: POSITIONS.index(name) for segment, name in _BY_SEGMENT.items()}
    classes = torch.full(batch.tokens.shape, -1)
    for segment, number in names.items():
        classes[segments.segment == segment] = number
    query = batch.scored_rows[0].gather(1, pairs.index[:, None])
    classes.scatter_(1, batch.source_position.gather(1, query), POSITIONS.index("true source"))
    has_decoy = pairs.decoy >= 0
    if bool(has_decoy.any()):
        classes[has_decoy.nonzero()[:, 0], pairs.decoy[has_decoy]] = POSITIONS.index("decoy")
    classes.scatter_(1, query, POSITIONS.index("query"))
    return classes.masked_fill(torch.arange(classes.shape[1])[None] > query, -1)


_BY_SEGMENT = {PREFIX: "prefix", SOURCE: "source", DELIMITER: "delimiter", COPY: "copy"}


def _shares(
    changes: Float[np.ndarray, "B *S"], span: Float[np.ndarray, "B"], real: Bool[np.ndarray, "*S"], seed: int
) -> Estimates:
    """Sum of changes over sum of spans, strings resampled; not measurable where the spans may come to nothing."""
    n = len(span)
    whole = ratios(span, np.ones(n), seed=seed).at()
    assert whole.interval is not None
    measurable = whole.interval[0] > LEAST_DIFFERENCE
    counts = resample(n, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(real & measurable, changes.sum(0) / span.sum(), np.nan)
        draws = np.tensordot(counts, changes, 1) / (counts @ span).reshape(-1, *[1] * real.ndim)
    reason = "the two strings do not differ in their answers" if not measurable else "no such head or position"
    return from_draws(draws, value, real * n, real * n, chance=0.0, reason=reason)
