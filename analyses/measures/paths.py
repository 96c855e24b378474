"""Path patching: what an earlier head tells a later one through its queries, keys or values (1.12).

A sender's output at every position is replaced by what it writes at another index of another, shorter string
(`analyses.ablation`), but only in what one receiver reads as its query, key or value input; everything between them is
fixed. Two effects, mean over scored rows with the path's information less without it:

    attention = change of the receiver's weight on the true source
    logits    = change of the logit difference (right minus best wrong), everything after the receiver recomputed

Both are negative where the path carries what the answer needs. Beside them stand composition norms, which read weights
only and know neither positions nor inputs (Elhage et al., 2021): with W_OV = W_V W_O and W_QK = W_Q W_K^T,

    Q: |W_OV W_QK| / (|W_OV| |W_QK|),  K: |W_OV W_QK^T| / (|W_OV| |W_QK|),  V: |W_OV W_OV'| / (|W_OV| |W_OV'|)

in Frobenius norms, gains of the norms between them included, less 1/sqrt(D), which is the root mean square if either
head were turned at random.

Shape letters: N strings, B batch, T tokens, R scored rows, P paths, L layers, H heads, E head width, D model width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.ablation import replacements
from analyses.estimates import Estimate, Estimates, ratios
from analyses.measures.base import MODEL_MEASURES
from analyses.outcomes import Heads, Hook, check_heads, copied, patterns_at_once, read_outcomes
from analyses.passes import Measured, Progress
from analyses.samples import Sample
from models.errors import UsageError
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

INPUTS = ("q", "k", "v")
MAX_PATHS = 1000  # more are not patched unless senders and receivers are named: each is one pass a sample

Path = tuple[int, int, int, int, int]  # sender's layer and head, receiver's layer and head, number of the input


@dataclass(frozen=True)
class Paths:
    """Effects of every path from a sender to a receiver; NaN where there is none.

    Attributes:
        attention: Estimates [L, H, L, H, 3] change of the receiver's weight on the true source, -1 to 1. The last axis
            is INPUTS; zero through v.
        logits: Estimates [L, H, L, H, 3] change of the logit difference.
        composition: float[L, H, L, H, 3] composition norm less 1/sqrt(D).
    """

    attention: Estimates
    logits: Estimates
    composition: Float[np.ndarray, "L H L H 3"]

    def at(self, sender: tuple[int, int], receiver: tuple[int, int], name: str) -> tuple[Estimate, Estimate, float]:
        """Effects on attention and logits, and the composition norm, through input "q", "k" or "v"."""
        index = (*sender, *receiver, INPUTS.index(name))
        return self.attention.at(*index), self.logits.at(*index), float(self.composition[index])

    def strongest(self, n: int = 10) -> list[dict[str, Any]]:
        """The `n` paths with the largest effects on the logits, JSON-ready."""
        there = np.argwhere(self.logits.rows > 0)
        sizes = np.abs(self.logits.value[tuple(there.T)])
        found = []
        for layer, head, later, receiver, number in there[np.argsort(-sizes, kind="stable")[:n]].tolist():
            attention, logits, composition = self.at((layer, head), (later, receiver), INPUTS[number])
            found.append(
                {
                    "sender": [layer, head],
                    "receiver": [later, receiver],
                    "input": INPUTS[number],
                    "attention": attention.as_dict(),
                    "logits": logits.as_dict(),
                    "composition": composition,
                }
            )
        return found


def path_patching(
    model: CopyTransformer,
    samples: Sequence[Sample],
    *,
    senders: Heads | None = None,
    receivers: Heads | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Paths:
    """Patch every path from `senders` to `receivers` of later layers.

    Args:
        model: not changed.
        samples: plain strings, at least two to a sample, best of lengths that the model copies.
        senders: (layer, head) pairs; None for all.
        receivers: the same.
        seed: of replacements and intervals.
        progress: called with the share that is done.

    Raises:
        UsageError: no strings, unknown heads, more than MAX_PATHS paths, a model without residual connections (nothing
            goes past a layer), or strings too long to write out their patterns.
    """
    if not samples:
        raise UsageError("nothing to patch: give at least one sample")
    if not model.settings.residual:
        raise UsageError("a model without residual connections has no paths past a layer")
    paths = paths_between(model, senders, receivers)
    if len(paths) > MAX_PATHS:
        raise UsageError(f"{len(paths)} paths are over {MAX_PATHS}; name fewer senders or receivers")
    shape = (*_heads_shape(model), *_heads_shape(model), len(INPUTS))
    sums: list[Float[np.ndarray, "B P 2"]] = []
    rows: list[int] = []
    for number, sample in enumerate(samples):
        sums.append(_patch_sample(model, sample.batch, paths, np.random.default_rng([seed, number])))
        rows += (sample.batch.lengths + 1).tolist()
        if progress is not None:
            progress((number + 1) / len(samples))
    flat = ratios(np.concatenate(sums), np.array(rows), seed=seed)
    composition = np.full(shape, np.nan)
    for path in paths:
        composition[path] = _composition(model, path)
    return Paths(_spread(flat, 0, paths, shape), _spread(flat, 1, paths, shape), composition)


def paths_between(model: CopyTransformer, senders: Heads | None, receivers: Heads | None) -> list[Path]:
    """Paths into every input, by receiver; UsageError for heads that do not exist."""
    sending, receiving = check_heads(model, senders), check_heads(model, receivers)
    return [
        (layer, head, later, receiver, number)
        for later, listening in receiving.items()
        for receiver in listening
        for layer, telling in sending.items()
        if layer < later
        for head in telling
        for number in range(len(INPUTS))
    ]


def _heads_shape(model: CopyTransformer) -> tuple[int, int]:
    return model.cfg.n_layers, max(model.cfg.heads)


@torch.inference_mode()
def _patch_sample(
    model: CopyTransformer, batch: CopyBatch, paths: Sequence[Path], rng: np.random.Generator
) -> Float[np.ndarray, "B P 2"]:
    """Change of the weight on the true source and of the logit difference, summed over each string's scored rows."""
    sums = np.zeros((len(batch), len(paths), 2))
    if not paths:
        return sums
    layers = tuple(dict.fromkeys(path[0] for path in paths))
    resampled = replacements(model, batch, "resample", layers, rng)
    at_once = patterns_at_once(model, batch.tokens.shape[1])
    for first in range(0, len(batch), at_once):
        part = slice(first, min(first + at_once, len(batch)))
        reader = _Reader(model, batch.select(list(range(part.start, part.stop))))
        plain: dict[tuple[int, int], Float[np.ndarray, "B 2"]] = {}
        for i, (layer, head, later, receiver, number) in enumerate(paths):
            if (later, receiver) not in plain:
                plain[later, receiver] = reader.read(later, receiver, [])
            told = reader.told(layer, head, resampled[layer][part])
            hook = partial(_add, head=receiver, told=told)
            changed = reader.read(later, receiver, [(f"blocks.{later}.attn.hook_{INPUTS[number]}_input", hook)])
            sums[part, i] = changed - plain[later, receiver]
    return sums


class _Reader:
    """Some strings and the activations that are held fixed."""

    def __init__(self, model: CopyTransformer, batch: CopyBatch) -> None:
        self.model, self.batch = model, batch
        self.rows, exists = batch.scored_rows
        self.exists = exists.double().cpu()
        self.sources = batch.source_position.gather(1, self.rows).clamp_min(0)
        self.targets = batch.targets.gather(1, self.rows)[..., None].cpu()
        points = ("hook_resid_pre", "attn.hook_z", "hook_attn_out")
        names = [f"blocks.{layer}.{point}" for layer in range(model.cfg.n_layers) for point in points]
        _, self.cache = model.run_with_cache(
            batch.tokens, return_type=None, names_filter=names, return_cache_object=False
        )

    def told(self, layer: int, head: int, values: Float[Tensor, "B T H E"]) -> Float[Tensor, "B T D"]:
        """How the stream after a layer's attention differs with one head's output replaced."""
        block = self.model.blocks[layer]
        z = self.cache[f"blocks.{layer}.attn.hook_z"].clone()
        z[:, :, head] = values[:, :, head]
        written = torch.einsum("bthe,hed->btd", z, block.attn.W_O)
        if block.ln1_post is not None:
            written = block.ln1_post(written)
        return written - self.cache[f"blocks.{layer}.hook_attn_out"]

    def read(self, layer: int, head: int, hooks: list[Hook]) -> Float[np.ndarray, "B 2"]:
        """Weight of a head on the true source and logit difference, summed over scored rows."""
        weights: list[Tensor] = []
        rows, sources = (x.to(self.model.device) for x in (self.rows, self.sources))
        strings = torch.arange(len(rows), device=rows.device)[:, None]

        def keep(pattern: Tensor, hook: object) -> None:
            weights.append(pattern[strings, head, rows, sources].double().cpu())

        with self.model.hooks(fwd_hooks=[*hooks, (f"blocks.{layer}.attn.hook_pattern", keep)]):
            resid = self.cache[f"blocks.{layer}.hook_resid_pre"]
            logits = self.model(self.batch.tokens, rows=rows, start_at_layer=layer, resid=resid).double().cpu()
        margins = logits.gather(2, self.targets)[..., 0] - logits.scatter(2, self.targets, -torch.inf).amax(-1)
        return torch.stack([(weights[0] * self.exists).sum(1), (margins * self.exists).sum(1)], 1).numpy()


def _add(inputs: Tensor, hook: object, *, head: int, told: Tensor) -> Tensor:
    inputs = inputs.clone()
    inputs[:, :, head] += told
    return inputs


def _spread(flat: Estimates, which: int, paths: Sequence[Path], shape: tuple[int, ...]) -> Estimates:
    """Estimates [P, 2] of one effect as an array over senders and receivers."""
    index = tuple(np.array(paths, dtype=np.int64).reshape(-1, len(shape)).T)

    def place(values: np.ndarray, empty: float) -> np.ndarray:
        array = np.full(shape, empty, values.dtype)
        array[index] = values[:, which]
        return array

    return Estimates(
        place(flat.value, np.nan),
        place(flat.low, np.nan),
        place(flat.high, np.nan),
        place(flat.rows, 0),
        place(flat.strings, 0),
        np.full(shape, 0.0),
        "no path leads from the one to the other",
    )


@torch.inference_mode()
def _composition(model: CopyTransformer, path: Path) -> float:
    """Composition norm less 1/sqrt(D), by products of the E-wide factors, in float64."""
    layer, head, later, receiver, number = path
    sender, listener = model.blocks[layer], model.blocks[later]
    value, output = sender.attn.W_V[head].double(), sender.attn.W_O[head].double()
    if sender.ln1_post is not None and sender.ln1_post.w is not None:
        output = output * sender.ln1_post.w.double()
    gain = 1.0 if listener.ln1.w is None else listener.ln1.w.double()[:, None]
    left, right = {
        "q": (listener.attn.W_Q, listener.attn.W_K),
        "k": (listener.attn.W_K, listener.attn.W_Q),
        "v": (listener.attn.W_V, listener.attn.W_O.transpose(1, 2)),
    }[INPUTS[number]]
    first, second = left[receiver].double() * gain, right[receiver].double()
    if INPUTS[number] != "v":
        second = second * gain
    within = torch.eye(value.shape[1], dtype=torch.float64, device=value.device)
    norm = _norm(value, output @ first, second)
    scale = _norm(value, within, output.T) * _norm(first, within, second)
    return math.nan if scale == 0 else norm / scale - value.shape[0] ** -0.5


def _norm(left: Float[Tensor, "D E"], middle: Float[Tensor, "E F"], right: Float[Tensor, "D F"]) -> float:
    """Frobenius norm of left middle right^T."""
    return float((middle.T @ (left.T @ left) @ middle * (right.T @ right)).sum().clamp_min(0).sqrt())


@MODEL_MEASURES.register("paths")
def paths(
    model: CopyTransformer,
    task: CopyTask,
    samples: Sequence[Sample],
    *,
    seed: int,
    progress: Progress | None = None,
) -> Measured:
    """Path patching between all heads, on plain strings of distributions and lengths that the model copies, if any.

    Profiles: "paths.attention", "paths.logits" and "paths.composition", float[L, H, L, H, 3], see `Paths`; none for a
    model of one layer or without residual connections, where there are no paths, and none for one of more than
    MAX_PATHS, where `path_patching` between named heads (locators and retrieval heads) has to be asked for.
    """
    plain = [sample for sample in samples if sample.kind == "plain"]
    n_paths = len(paths_between(model, None, None))
    if not plain or not model.settings.residual or not 0 < n_paths <= MAX_PATHS:
        return Measured()
    plain, _ = copied(plain, read_outcomes(model, plain))
    found = path_patching(model, plain, seed=seed, progress=progress)
    return Measured(
        profiles={
            "paths.attention": found.attention.value,
            "paths.logits": found.logits.value,
            "paths.composition": found.composition,
        }
    )
