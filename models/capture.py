"""Writing captures: what `models/attention.py` needs to recompute any view of the exact pattern, in O(T) a head.

A capture is a folder: `capture.json` and one safetensors file a string with `q.{layer}`, `k.{layer}` (rotated,
[H, T, E]), `lse.{layer}` ([H, T]), `coords.{layer}`, `steps.{layer}`, `norms.{layer}` (output norm of every head,
[H, T]), tokens, targets, predictions and positions, and `extra.{hook name}` ([T, ...]) for every hook asked for.
`models/capture_cost.py` says beforehand what it will take.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from models.attention import ABOUT_FILE, EXTRA, FORMAT, PARTIAL, string_file
from models.caching import is_pattern
from models.errors import UsageError
from models.evaluation import TOKENS_AT_ONCE, Outcome, answer
from models.layers import BLOCK_ELEMENTS
from models.masks import Visibility
from models.positions import ALiBi, Places
from models.positions.rotary import Rotary
from models.registry import unknown
from models.tasks import IGNORE, CopyBatch, CopyTask
from models.transformer import CopyTransformer

SEARCH_BATCH = 32  # strings tried at once when looking for failures, fewer where they are long
NORM_BLOCK = 1 << 12  # tokens whose head outputs are written out at once


def hooks_named(model: CopyTransformer, names: Iterable[str]) -> tuple[str, ...]:
    """Return the hooks that `names` stand for, in the order of `model.hook_dict`.

    Args:
        model: whose hooks they are.
        names: full hook names, or short ones that stand for the hook in every layer ("resid_post").

    Raises:
        UsageError: no hook is called so, or it is a pattern, which a capture recomputes and never stores.
    """
    wanted: set[str] = set()
    for name in names:
        matching = [hook for hook in model.hook_dict if hook == name or hook.rsplit(".", 1)[-1] == f"hook_{name}"]
        if not matching:
            short = dict.fromkeys(hook.rsplit(".", 1)[-1].removeprefix("hook_") for hook in model.hook_dict)
            raise UsageError(unknown("activation", name, [hook for hook in short if not is_pattern(f".hook_{hook}")]))
        if is_pattern(matching[0]):
            raise UsageError(
                f"{name} is of size T x T and is not stored: any part of it is recomputed exactly from the capture "
                f"(models.attention.open_capture(...).string(i).head(layer, head): .tile(), .row(), .scores())"
            )
        wanted.update(matching)
    return tuple(hook for hook in model.hook_dict if hook in wanted)


def capture_strings(
    model: CopyTransformer,
    batch: CopyBatch,
    folder: Path,
    about: dict[str, Any],
    progress: Callable[[float], None] | None = None,
    extra: Sequence[str] = (),
) -> None:
    """Write a capture of `batch` into `folder`, which must not exist; nothing is left behind when it fails.

    Args:
        model: any mode; not changed.
        batch: strings, written in this order.
        folder: created under a temporary name and renamed when complete.
        about: more entries of capture.json (id, run, step, distribution, ...).
        progress: called with the number of strings further, in fractions where a string is long.
        extra: activations to store beside what every capture holds, see `hooks_named`.

    Raises:
        UsageError: the folder exists, or an activation is unknown or of size T x T.
    """
    if folder.exists():
        raise UsageError(f"capture {folder} exists already; remove it first or choose another name")
    hooks = hooks_named(model, extra)
    building = folder.with_name(f"{PARTIAL}{folder.name}")
    _remove(building)
    building.mkdir(parents=True)
    try:
        strings = []
        for index in range(len(batch)):
            single = batch.select([index])
            tensors, outcome = capture_one(model, single, hooks, progress)
            save_file(tensors, building / string_file(index))
            _sync(building / string_file(index))
            first_error = int(outcome.first_error[0])
            strings.append(
                {
                    "length": int(single.lengths[0]),
                    "exact": bool(outcome.exact[0]),
                    "first_error": None if first_error < 0 else first_error,
                    "tokens": single.tokens.shape[1],
                }
            )
        text = json.dumps(
            describe(model) | about | {"format": FORMAT, "extra": list(hooks), "strings": strings}, indent=1
        )
        (building / ABOUT_FILE).write_text(text, encoding="utf-8")
        _sync(building / ABOUT_FILE)
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
                "frequencies": scheme.plane_frequencies.tolist() if isinstance(scheme, Rotary) else None,
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
def capture_one(
    model: CopyTransformer,
    single: CopyBatch,
    extra: Sequence[str] = (),
    progress: Callable[[float], None] | None = None,
) -> tuple[dict[str, Tensor], Outcome]:
    """Return the tensors of one string, as written to its file, and what the model answered.

    Args:
        model: any mode; not changed.
        single: a batch of one string.
        extra: full names of hooks to keep besides.
        progress: called with shares of the work that add up to 1: half for the pass, half for the log-sum-exps.
    """
    progress = progress or (lambda share: None)
    kept: dict[str, Tensor] = {}

    def keep(tensor: Tensor, hook: HookPoint, name: str) -> None:
        copy = name.startswith(EXTRA)  # a layer's output is the next one's input: files hold no shared memory
        kept[name] = tensor[0].to("cpu", torch.float32, copy=copy)

    hooks = [(name, partial(keep, name=EXTRA + name)) for name in extra]
    for layer in range(model.cfg.n_layers):
        for point, name in (("rot_q", "q"), ("rot_k", "k"), ("z", "z"), ("coords", "coords"), ("step", "steps")):
            hook_name = f"blocks.{layer}.attn.hook_{point}"
            if hook_name in model.hook_dict:
                hooks.append((hook_name, partial(keep, name=f"{name}.{layer}")))
    single = single.to("cpu")
    rows, exists = single.scored_rows
    with model.hooks(fwd_hooks=hooks):  # in one pass, so that every hook sees every token once
        predicted = model(single.tokens, rows=rows.to(model.device)).argmax(-1).cpu()
    progress(0.5)
    outcome = Outcome(predicted, predicted == single.targets.gather(1, rows), exists)

    tensors = {name: value.contiguous() for name, value in kept.items() if name.startswith(EXTRA)}
    for layer, block in enumerate(model.blocks):
        real = block.attn.n_real
        q, k, z = (kept[f"{name}.{layer}"].transpose(0, 1)[:real] for name in ("q", "k", "z"))
        tensors[f"q.{layer}"], tensors[f"k.{layer}"] = q.contiguous(), k.contiguous()
        coords = kept.get(f"coords.{layer}")
        tensors[f"lse.{layer}"] = torch.empty(q.shape[:2])
        for queries, part in row_log_sum_exp(block.attn, q, k, coords):
            tensors[f"lse.{layer}"][:, queries] = part
            progress((queries.stop**2 - queries.start**2) / q.shape[1] ** 2 / (2 * model.cfg.n_layers))
        W_O = block.attn.W_O[:real].float().cpu()
        tensors[f"norms.{layer}"] = torch.cat([(part @ W_O).norm(dim=-1) for part in z.split(NORM_BLOCK, 1)], dim=1)
        for name in ("coords", "steps"):
            if f"{name}.{layer}" in kept:
                tensors[f"{name}.{layer}"] = kept[f"{name}.{layer}"].contiguous()
    answers = torch.full_like(single.tokens[0], IGNORE)
    answers[rows[0]] = predicted[0]
    # By the separator itself, also where `*` is one that rule-based schemes do not see.
    rule = Places(single.tokens, None, single.vocabulary.delimiter[0]).row_column[0]
    integers = {
        "tokens": single.tokens[0],
        "targets": single.targets[0],
        "predicted": answers,
        "source_position": single.source_position[0],
        "anchor_positions": single.anchor_positions[0],
        "rule_coords": rule,
    }
    return tensors | {name: value.int().contiguous() for name, value in integers.items()}, outcome


def row_log_sum_exp(
    attn: Any, q: Float[Tensor, "H T E"], k: Float[Tensor, "H T E"], coords: Float[Tensor, "T C"] | None
) -> Iterator[tuple[slice, Float[Tensor, "H Q"]]]:
    """Log-sum-exp of every row's visible scores, +inf where there are none; in blocks of rows, O(T) memory.

    Yields:
        The rows of a block and their log-sum-exps.
    """
    n = q.shape[1]
    visible = Visibility(None, attn.strict, attn.scheme.settings.window)
    block = max(1, BLOCK_ELEMENTS // (len(q) * n))
    for start in range(0, n, block):
        queries = torch.arange(start, min(start + block, n))
        first, last = visible.key_range(start, int(queries[-1]))
        keys = torch.arange(first, last)
        scores = (q[:, queries] @ k[:, first:last].transpose(1, 2)).mul_(attn.scale)
        if attn.scheme.has_bias:
            assert coords is not None
            scores.add_(attn.scheme.bias(coords[None, queries], coords[None, first:last])[0])
        scores.masked_fill_(~visible.mask(queries, keys), -torch.inf)
        lse = scores.logsumexp(-1)
        yield slice(start, start + len(queries)), lse.masked_fill(lse == -torch.inf, torch.inf)


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
    longest = length if isinstance(length, int) else length[1]
    at_once = min(SEARCH_BATCH, max(1, TOKENS_AT_ONCE // (2 * longest)))
    while len(found) < strings and tried < tries:
        batch = task.sample(min(at_once, tries - tried), generator, lengths=length, distribution=distribution)
        tried += len(batch)
        wrong = (~answer(model, batch).exact).nonzero()[:, 0].tolist()
        found += [batch.strings[row, : int(batch.lengths[row])].tolist() for row in wrong]
        if progress is not None:
            progress(len(batch))
    return (task.encode(found[:strings]) if found else None), tried


def _sync(file: Path) -> None:
    """Let the content reach the disk before the capture gets its name."""
    with open(file, "rb+") as opened:
        os.fsync(opened.fileno())


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
