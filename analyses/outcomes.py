"""What a model answers to strings while something is done to it: what an intervention is, and how it is run.

Shape letters: N strings, R scored rows, V vocabulary, B batch, T tokens, H heads, Q query positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float32
from torch import Tensor

from analyses.passes import Progress
from analyses.samples import Sample
from models.errors import UsageError
from models.tasks import CopyBatch
from models.transformer import CopyTransformer

Heads = tuple[tuple[int, int], ...]  # (layer, head)
Hook = tuple[str, Callable[..., Tensor]]
PATTERN_TOKENS = 2048  # longest string whose T x T pattern is written out to be altered
_PATTERN_ELEMENTS = 1 << 24  # of one layer's patterns, written out for several strings at once


class Tally:
    """Attention that an intervention removed, summed over heads and rows on which it had something to remove."""

    def __init__(self, n_strings: int) -> None:
        self.mass, self.rows = np.zeros(n_strings), np.zeros(n_strings, np.int64)

    def add(self, mass: Float32[Tensor, "B H Q"], rows: Bool[Tensor, "B H Q"]) -> None:
        """Add what one layer's heads lost in every row, and which rows count."""
        self.mass += (mass.detach() * rows).sum((1, 2)).double().cpu().numpy()
        self.rows += rows.sum((1, 2)).cpu().numpy()


class Intervention(Protocol):
    """What is done to a model while it reads strings; a frozen dataclass whose repr is the code that makes it."""

    @property
    def words(self) -> str:
        """What is done, in words."""
        ...

    def strings_at_once(self, model: CopyTransformer, width: int) -> int | None:
        """How many strings of `width` tokens go through a pass; None for all of a sample."""
        ...

    def hooks(self, model: CopyTransformer, batch: CopyBatch, rng: np.random.Generator, tally: Tally) -> list[Hook]:
        """Forward hooks that do it to `batch`."""
        ...


@dataclass(frozen=True)
class StringOutcome:
    """The answers to one string.

    Attributes:
        right: Bool[R] the right token has the largest logit.
        margins: float32[R] logit of the right token minus the largest other one.
        log_probs: float32[R, V] of the next token, in nats.
        removed, removed_rows: attention removed, summed over heads and rows, and how many (head, row) those are.
    """

    right: Bool[np.ndarray, "R"]
    margins: Float32[np.ndarray, "R"]
    log_probs: Float32[np.ndarray, "R V"]
    removed: float = 0.0
    removed_rows: int = 0


Outcomes = tuple[StringOutcome, ...]


def check_heads(model: CopyTransformer, heads: Heads | None) -> dict[int, list[int]]:
    """Return heads by layer, all of them for None; UsageError where one does not exist, or none is named."""
    counts = model.cfg.heads
    if heads is None:
        return {layer: list(range(count)) for layer, count in enumerate(counts)}
    by_layer: dict[int, list[int]] = {}
    for layer, head in sorted(set(heads)):
        if not (0 <= layer < len(counts) and 0 <= head < counts[layer]):
            raise UsageError(f"there is no head {layer}.{head}; layers have {', '.join(map(str, counts))} heads")
        by_layer.setdefault(layer, []).append(head)
    if not by_layer:
        raise UsageError("no head was named to intervene on; give (layer, head) pairs, or None for all heads")
    return by_layer


def name_heads(heads: Heads | None) -> str:
    """Heads as "0.1, 1.0"."""
    return "all heads" if heads is None else ", ".join(f"{layer}.{head}" for layer, head in heads)


def patterns_at_once(model: CopyTransformer, width: int) -> int:
    """Strings of `width` tokens whose patterns are written out together; UsageError where even one is too long."""
    if width > PATTERN_TOKENS:
        anchors = model.vocabulary.a + model.vocabulary.b
        raise UsageError(
            f"patterns of {width} x {width} tokens would have to be written out; at most {PATTERN_TOKENS} tokens are "
            f"possible: give strings of at most {(PATTERN_TOKENS - anchors) // 2}"
        )
    return max(1, _PATTERN_ELEMENTS // (model.cfg.n_heads * width**2))


@torch.inference_mode()
def read_outcomes(
    model: CopyTransformer,
    samples: Sequence[Sample],
    intervention: Intervention | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Outcomes:
    """Return the answers to every string of `samples`, in order; the same seed draws the same replacements.

    Raises:
        UsageError: no strings, a head that does not exist, or strings too long for what is to be done.
    """
    if not samples:
        raise UsageError("nothing to intervene on: give at least one sample")
    outcomes: list[StringOutcome] = []
    for number, sample in enumerate(samples):
        batch = sample.batch
        at_once = None if intervention is None else intervention.strings_at_once(model, batch.tokens.shape[1])
        for first in range(0, len(batch), at_once or len(batch)):
            part = batch.select(list(range(first, min(first + (at_once or len(batch)), len(batch)))))
            tally, hooks = Tally(len(part)), []
            if intervention is not None:
                hooks = intervention.hooks(model, part, np.random.default_rng([seed, number, first]), tally)
            outcomes += _answer(model, part, hooks, tally)
        if progress is not None:
            progress((number + 1) / len(samples))
    return tuple(outcomes)


def _answer(model: CopyTransformer, batch: CopyBatch, hooks: list[Hook], tally: Tally) -> list[StringOutcome]:
    rows, exists = batch.scored_rows
    with model.hooks(fwd_hooks=hooks):
        logits = model(batch.tokens, rows=rows.to(model.device), pad_mask=batch.pad_mask).float().cpu()
    targets = batch.targets.gather(1, rows).cpu()[..., None]
    best_wrong = logits.scatter(2, targets, -torch.inf).amax(-1)
    margins = (logits.gather(2, targets)[..., 0] - best_wrong).numpy()
    right, log_probs = (logits.argmax(-1) == targets[..., 0]).numpy(), logits.log_softmax(-1).numpy()
    kept = exists.cpu().numpy()
    return [
        StringOutcome(
            right[i][kept[i]], margins[i][kept[i]], log_probs[i][kept[i]], float(tally.mass[i]), int(tally.rows[i])
        )
        for i in range(len(batch))
    ]


def copied(samples: Sequence[Sample], outcomes: Outcomes) -> tuple[list[Sample], Outcomes]:
    """Those of `samples` of which some string is copied exactly, with their outcomes; all where none is.

    Where a model copies nothing its answers are arbitrary, and nothing can be harmed.
    """
    ends = np.cumsum([len(sample.batch) for sample in samples])
    parts = [outcomes[end - len(sample.batch) : end] for sample, end in zip(samples, ends, strict=True)]
    kept = [any(string.right.all() for string in part) for part in parts]
    kept = kept if any(kept) else [True] * len(kept)
    return (
        [sample for sample, keep in zip(samples, kept, strict=True) if keep],
        tuple(string for part, keep in zip(parts, kept, strict=True) if keep for string in part),
    )
