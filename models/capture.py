"""Writing captures: what `models/attention.py` needs to recompute any view of the exact pattern, in O(T) a head.

A capture is a folder: `capture.json` and one safetensors file a string with `q.{layer}`, `k.{layer}` (rotated,
[H, T, E]), `lse.{layer}` ([H, T]), `coords.{layer}`, `steps.{layer}`, `norms.{layer}` (output norm of every head,
[H, T]), tokens, targets, predictions and positions.
"""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from models.attention import ABOUT_FILE, FORMAT, string_file
from models.errors import UsageError
from models.evaluation import Outcome, answer
from models.layers import BLOCK_ELEMENTS
from models.masks import Visibility
from models.positions import ALiBi, Places
from models.tasks import IGNORE, CopyBatch, CopyTask
from models.transformer import CopyTransformer

SEARCH_BATCH = 32  # strings tried at once when looking for failures


def capture_strings(
    model: CopyTransformer,
    batch: CopyBatch,
    folder: Path,
    about: dict[str, Any],
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a capture of `batch` into `folder`, which must not exist; nothing is left behind when it fails.

    Args:
        model: any mode; not changed.
        batch: strings, written in this order.
        folder: created under a temporary name and renamed when complete.
        about: more entries of capture.json (id, run, step, distribution, ...).
        progress: called with the number of strings just written.

    Raises:
        UsageError: the folder exists.
    """
    if folder.exists():
        raise UsageError(f"capture {folder} exists already; remove it first or choose another name")
    building = folder.with_name(f".{folder.name}.partial")
    _remove(building)
    building.mkdir(parents=True)
    try:
        strings = []
        for index in range(len(batch)):
            single = batch.select([index])
            tensors, outcome = capture_one(model, single)
            save_file(tensors, building / string_file(index))
            first_error = int(outcome.first_error[0])
            strings.append(
                {
                    "length": int(single.lengths[0]),
                    "exact": bool(outcome.exact[0]),
                    "first_error": None if first_error < 0 else first_error,
                    "tokens": single.tokens.shape[1],
                }
            )
            if progress is not None:
                progress(1)
        text = json.dumps(describe(model) | about | {"format": FORMAT, "strings": strings}, indent=1)
        with open(building / ABOUT_FILE, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(building, folder)
    except BaseException:
        _remove(building)
        raise


def describe(model: CopyTransformer) -> dict[str, Any]:
    """What capture.json says about the model: heads, schemes, how scores come about, token names."""
    layers = []
    for block in model.blocks:
        scheme = block.attn.scheme
        layers.append(
            {
                "scheme": scheme.settings.scheme,
                "scale": block.attn.scale,
                "strict": block.attn.strict,
                "window": scheme.settings.window,
                "slopes": scheme.slopes if isinstance(scheme, ALiBi) else None,
                "n_coords": scheme.n_coords,
            }
        )
    absolute = model.pos_embed
    return {
        "heads": list(model.cfg.heads),
        "d_head": model.cfg.d_head,
        "layers": layers,
        "schemes": [layer["scheme"] for layer in layers],
        "embedding_scheme": None if absolute is None else absolute.settings.scheme,
        "separator": model.vocabulary.separator,
        "vocabulary": {"names": list(model.vocabulary.names)},
    }


@torch.inference_mode()
def capture_one(model: CopyTransformer, single: CopyBatch) -> tuple[dict[str, Tensor], Outcome]:
    """Tensors of one string, as written to its file, and what the model answered."""
    kept: dict[str, Tensor] = {}

    def keep(tensor: Tensor, hook: HookPoint, name: str) -> None:
        kept[name] = tensor[0].float().cpu()

    hooks = []
    for layer in range(model.cfg.n_layers):
        for point, name in (("rot_q", "q"), ("rot_k", "k"), ("z", "z"), ("coords", "coords"), ("step", "steps")):
            hook_name = f"blocks.{layer}.attn.hook_{point}"
            if hook_name in model.hook_dict:
                hooks.append((hook_name, partial(keep, name=f"{name}.{layer}")))
    with model.hooks(fwd_hooks=hooks):
        outcome = answer(model, single)

    tensors: dict[str, Tensor] = {}
    for layer, block in enumerate(model.blocks):
        real = block.attn.n_real
        q, k, z = (kept[f"{name}.{layer}"].transpose(0, 1)[:real] for name in ("q", "k", "z"))
        tensors[f"q.{layer}"], tensors[f"k.{layer}"] = q.contiguous(), k.contiguous()
        coords = kept.get(f"coords.{layer}")
        tensors[f"lse.{layer}"] = row_log_sum_exp(block.attn, q, k, coords)
        tensors[f"norms.{layer}"] = (z @ block.attn.W_O[:real].float().cpu()).norm(dim=-1)
        for name in ("coords", "steps"):
            if f"{name}.{layer}" in kept:
                tensors[f"{name}.{layer}"] = kept[f"{name}.{layer}"].contiguous()
    rows, _ = single.scored_rows
    predicted = torch.full_like(single.tokens[0], IGNORE)
    predicted[rows[0]] = outcome.predicted[0]
    # By the separator itself, also where `*` is one that rule-based schemes do not see.
    rule = Places(single.tokens, None, single.vocabulary.delimiter[0]).row_column[0]
    integers = {
        "tokens": single.tokens[0],
        "targets": single.targets[0],
        "predicted": predicted,
        "source_position": single.source_position[0],
        "anchor_positions": single.anchor_positions[0],
        "rule_coords": rule,
    }
    return tensors | {name: value.int().contiguous() for name, value in integers.items()}, outcome


def row_log_sum_exp(
    attn: Any, q: Float[Tensor, "H T E"], k: Float[Tensor, "H T E"], coords: Float[Tensor, "T C"] | None
) -> Float[Tensor, "H T"]:
    """Log-sum-exp of every row's visible scores, +inf where there are none; in blocks of rows, O(T) memory."""
    n = q.shape[1]
    visible = Visibility(None, attn.strict, attn.scheme.settings.window)
    block = max(1, BLOCK_ELEMENTS // (len(q) * n))
    parts = []
    for start in range(0, n, block):
        queries = torch.arange(start, min(start + block, n))
        first, last = visible.key_range(start, int(queries[-1]))
        keys = torch.arange(first, last)
        scores = q[:, queries] @ k[:, first:last].transpose(1, 2) * attn.scale
        if attn.scheme.has_bias:
            assert coords is not None
            scores = scores + attn.scheme.bias(coords[None, queries], coords[None, first:last])[0]
        scores = scores.masked_fill(~visible.mask(queries, keys), -torch.inf)
        parts.append(scores.logsumexp(-1))
    lse = torch.cat(parts, dim=1)
    return lse.masked_fill(lse == -torch.inf, torch.inf)


def find_failures(
    model: CopyTransformer,
    task: CopyTask,
    *,
    strings: int,
    length: int | tuple[int, int],
    distribution: str,
    seed: int,
    tries: int,
    progress: Callable[[int], None] | None = None,
) -> tuple[CopyBatch | None, int]:
    """Look for strings the model copies wrongly.

    Args:
        model: as it is.
        task: prefix, delimiter and alphabet.
        strings: stop after this many failures.
        length: of the strings, or an inclusive range.
        distribution: registered name.
        seed: of the strings tried.
        tries: stop after this many strings.
        progress: called with the number of strings just tried.

    Returns:
        The failures found (None for none, at most `strings`), and how many strings were tried.
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[list[int]] = []
    tried = 0
    while len(found) < strings and tried < tries:
        batch = task.sample(min(SEARCH_BATCH, tries - tried), generator, lengths=length, distribution=distribution)
        tried += len(batch)
        wrong = (~answer(model, batch).exact).nonzero()[:, 0].tolist()
        found += [batch.strings[row, : int(batch.lengths[row])].tolist() for row in wrong]
        if progress is not None:
            progress(len(batch))
    return (task.encode(found[:strings]) if found else None), tried


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
