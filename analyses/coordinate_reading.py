"""Where the layers of a model put the tokens of a batch, and what that does for copying (`coordinates.py`).

Shape letters: T tokens, H heads, E head width.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from analyses.coordinates import CoordinateNumbers, measure
from analyses.placement import Placed, column_planes, neighbour_gaps, plane_amplitudes
from models.errors import UsageError
from models.positions import Places
from models.positions.rotary import Rotary
from models.tasks import CopyBatch
from models.transformer import CopyTransformer


def measure_model(model: CopyTransformer, batch: CopyBatch, layer: int) -> list[CoordinateNumbers]:
    """Measure the coordinates of one layer on every string of a batch. UsageError where there is no such layer."""
    return [measure(placed) for placed in place(model, batch, layer)]


@torch.inference_mode()
def place(model: CopyTransformer, batch: CopyBatch, layer: int) -> list[Placed]:
    """Return where a layer puts the tokens of every string of a batch.

    Args:
        model: any mode; not changed.
        batch: strings; each is run by itself, so that padding plays no part.
        layer: which.

    Raises:
        UsageError: there is no such layer.
    """
    if not 0 <= layer < model.cfg.n_layers:
        raise UsageError(f"there is no layer {layer}; the model has layers 0 to {model.cfg.n_layers - 1}")
    return [_place_one(model, batch.select([row]).to("cpu"), layer) for row in range(len(batch))]


def _place_one(model: CopyTransformer, single: CopyBatch, layer: int) -> Placed:
    attn = model.blocks[layer].attn
    kept: dict[str, np.ndarray] = {}

    def keep(tensor: Tensor, hook: HookPoint, name: str) -> None:
        kept[name] = tensor[0].float().cpu().numpy()

    points = {name: f"blocks.{layer}.attn.hook_{name}" for name in ("coords", "step", "rot_q", "rot_k")}
    hooks = [(hook, partial(keep, name=name)) for name, hook in points.items() if hook in model.hook_dict]
    with model.hooks(fwd_hooks=hooks):
        model(single.tokens, return_type=None)
    queries = np.flatnonzero(single.loss_mask[0].numpy())
    sources = single.source_position[0].numpy()[queries]
    known = attn.scheme.plane_frequencies if isinstance(attn.scheme, Rotary) else None
    turning = amplitudes = gaps = None
    if known is not None:
        axes = attn.scheme.n_coords
        turning = column_planes(known, axes)
        q, k = kept["rot_q"][queries] * attn.scale, kept["rot_k"][sources]
        heads = range(attn.n_real)
        amplitudes = column_planes(np.stack([plane_amplitudes(q[:, head], k[:, head]) for head in heads]), axes)
        gaps = np.stack([neighbour_gaps(q[:, head], k[:, head]) for head in heads])
    rule = Places(single.tokens, None, single.vocabulary.delimiter[0]).row_column[0]
    return Placed(
        scheme=attn.scheme.settings.scheme,
        coords=kept.get("coords"),
        steps=kept.get("step"),
        rule=rule.numpy(),
        queries=queries,
        sources=sources,
        tokens=single.tokens[0].numpy(),
        names=single.vocabulary.names,
        frequencies=turning,
        amplitudes=amplitudes,
        gaps=gaps,
    )
