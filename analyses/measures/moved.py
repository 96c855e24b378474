"""Moved positions: the same tokens with the copy's positions shifted by one, which tells position from context.

An aligned head finds its source by where it stands, so it slips to the next token. An induction head finds it by the
tokens, which have not changed, so it stays.

Shape letters: T tokens, C coordinates, N strings, L layers, H heads, R rows, K keys around the true source, D
resamples.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from analyses.estimates import from_draws, resample
from analyses.measures.base import MODEL_MEASURES
from analyses.passes import Measured, Progress, ReadString, read_string
from analyses.relations import LONGEST_CONTEXT, Relations
from analyses.samples import Sample
from models.positions.unrotated import Learned
from models.tasks import CopyTask
from models.transformer import CopyTransformer

REACH = (-2, -1, 0, 1, 2)  # keys around the true source; all but the first are compared with what is one before
ABOVE_CHANCE = 2.0  # a head with less mass on the true source than this many visible keys' share attends elsewhere
DISTINCT = 0.99  # squared cosine of profile and shifted profile above which one cannot tell them apart
BLOCK = 256  # rows at once
REASON = (
    "no layer up to this one has positions, or the true source gets less than twice its chance share, or the pattern "
    "is the same one key further"
)


@MODEL_MEASURES.register("moved")
@torch.inference_mode()
def moved_positions(
    model: CopyTransformer, task: CopyTask, samples: Sequence[Sample], *, seed: int, progress: Progress | None = None
) -> Measured:
    """`moved.slip` and `moved.stays`, on plain strings.

    What is shifted: the coordinates of the copied tokens, in every layer and at the embedding at once, through
    `hook_coords`, by the step from the row's true source to the token after it. That is index + 1 in 1D schemes,
    column + 1 in rule-based 2D schemes and the learned step in Auto-2D. Prefix, source and delimiter stay, so that a
    gap opens before the copy, and every locator that reads its distance to some anchor encodes the next index,
    whichever anchors those are. All layers are moved together, since positions may reach a head through earlier ones.

    Formula. With p(d) and p'(d) the mean weight on the d-th token after the true source before and after,

        p'(d)  ~  stays * p(d) + slip * p(d - 1),    d = -1, 0, 1, 2,

    fitted by non-negative least squares and capped at 1. A blunt pattern that moves as a whole has slip 1 too; a head
    that goes by both gets some of each. Rows: queries of copied token k for min(8, n / 2) < k < n, whose last tokens
    are all on one side of the gap, so that previous-token heads below an induction head work as before; EOS, whose
    source ends a row, is left out. Without positions in the row's own or an earlier layer, or with less than twice the
    chance share on the true source, there is nothing to move: not measurable. Chance of slip is 0.

    Scores:
        moved.slip: slip of the fit p'(d) ~ stays p(d) + slip p(d - 1); chance is 0.
        moved.stays: stays of the same fit.

    Args:
        model: any.
        task: not needed.
        samples: plain strings are read.
        seed: of the bootstrap.
        progress: called with the share that is done.
    """
    strings = [(s, row) for s in samples if s.kind == "plain" for row in range(len(s.batch))]
    n_layers, widest = model.cfg.n_layers, max(model.cfg.heads)
    before, after = np.zeros((2, len(strings), n_layers, widest, len(REACH)))
    rows, chance = np.zeros(before.shape[:3], np.int64), np.zeros(len(strings))
    first = _first_layer(model)
    names = [name for name in model.hook_dict if name.rsplit(".", 1)[-1] == "hook_coords"]
    for index, (sample, row) in enumerate(strings):
        string = read_string(model, sample.batch, row) if names else None
        if string is not None and _fits(model, len(string.relations)):
            hook = partial(shift_copy, relations=string.relations)
            with model.hooks(fwd_hooks=[(name, hook) for name in names]):
                moved = read_string(model, sample.batch, row)
            queries = _rows(string.relations)
            chance[index] = (1 / (queries + 1)).sum()
            for layer in range(first, n_layers):
                for head in range(string.heads[layer]):
                    before[index, layer, head] = _around(string, layer, head, queries)
                    after[index, layer, head] = _around(moved, layer, head, queries)
                    rows[index, layer, head] = len(queries)
        if progress is not None:
            progress((index + 1) / len(strings))
    counts = np.concatenate([np.ones((1, len(strings))), resample(len(strings), seed)])
    drawn = _fit(np.tensordot(counts, before, 1), np.tensordot(counts, after, 1))
    measurable = before.sum(0)[..., REACH.index(0)] > ABOVE_CHANCE * chance.sum()
    scores = {}
    for name, values, without in zip(("moved.slip", "moved.stays"), drawn, (0.0, np.nan), strict=True):
        value = np.where(measurable, values[0], np.nan)
        scores[name] = from_draws(values[1:], value, rows.sum(0), (rows > 0).sum(0), chance=without, reason=REASON)
    return Measured(scores)


def shift_copy(coords: Float[Tensor, "B T C"], hook: HookPoint, relations: Relations) -> Float[Tensor, "B T C"]:
    """Shift copied token j, the query of token j + 1, by the step from source token j + 1 to the one after it.

    The last one, the query of EOS, is shifted by the step before. Made for strings of one length.
    """
    start = int(relations.copy_rows[0]) + 1
    source = slice(relations.a, relations.a + relations.n + 1)
    steps = coords[:, source].diff(dim=1)
    asked = torch.arange(1, relations.n + 1, device=coords.device).clamp_max(relations.n - 1)
    return torch.cat([coords[:, :start], coords[:, start:] + steps[:, asked]], dim=1)


def _first_layer(model: CopyTransformer) -> int:
    """The first layer whose patterns positions can reach."""
    if model.pos_embed is not None:
        return 0
    named = (layer for layer in range(model.cfg.n_layers) if f"blocks.{layer}.attn.hook_coords" in model.hook_dict)
    return next(named, model.cfg.n_layers)


def _fits(model: CopyTransformer, tokens: int) -> bool:
    """Is there a position after the last one; a learned table may have none."""
    table: Any = model.pos_embed
    return not isinstance(table, Learned) or tokens < len(table.W_pos)


def _rows(relations: Relations) -> Int[np.ndarray, "R"]:
    return relations.copy_rows[1 + min(LONGEST_CONTEXT, relations.n // 2) : -1]


def _around(string: ReadString, layer: int, head: int, queries: Int[np.ndarray, "R"]) -> Float[np.ndarray, "K"]:
    """Weights on keys REACH from the true source, summed over consecutive queries."""
    pattern, sources = string.head(layer, head), string.relations.source_position[queries]
    total = np.zeros(len(REACH))
    for begin in range(0, len(queries), BLOCK):
        rows, at = queries[begin : begin + BLOCK], sources[begin : begin + BLOCK]
        left = int(at[0]) + REACH[0]
        tile = pattern.tile(slice(int(rows[0]), int(rows[-1]) + 1), slice(left, int(at[-1]) + REACH[-1] + 1))
        total += tile[np.arange(len(rows))[:, None], at[:, None] + REACH - left].sum(0, dtype=np.float64)
    return total


def _fit(
    before: Float[np.ndarray, "*S K"], after: Float[np.ndarray, "*S K"]
) -> tuple[Float[np.ndarray, "*S"], Float[np.ndarray, "*S"]]:
    """Slip and stays of the non-negative least-squares fit, capped at 1; NaN where they cannot be told apart."""
    here, further, found = before[..., 1:], before[..., :-1], after[..., 1:]
    own, both, other = (here**2).sum(-1), (here * further).sum(-1), (further**2).sum(-1)
    with_own, with_other = (found * here).sum(-1), (found * further).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = own * other - both**2
        stays = (with_own * other - with_other * both) / determinant
        slip = (with_other * own - with_own * both) / determinant
        alone = np.where(slip < 0, 0.0, with_other / other), np.where(stays < 0, 0.0, with_own / own)
        negative = (slip < 0) | (stays < 0)
        known = both**2 < DISTINCT * own * other
    slip, stays = (np.where(negative, one, fit) for one, fit in zip(alone, (slip, stays), strict=True))
    return np.where(known, slip.clip(0, 1), np.nan), np.where(known, stays.clip(0, 1), np.nan)
