"""What a head writes: does it copy the token it attends to, and how much does it add to the right and a wrong logit.

Shape letters: V source tokens, N strings, L layers, H heads, R scored rows, D model width, E head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.estimates import Estimates, from_draws, ratios
from analyses.measures.base import MODEL_MEASURES
from analyses.passes import Measured, Progress
from analyses.samples import Sample
from models.norm import Norm
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

BLOCK = 1024  # scored rows at once
SILENT = 1e-5  # a circuit smaller than this share of its factors is float32's rounding: it writes nothing
COPYING_REASON = "the embedding or the logits are not in this layer's reach, or the head writes no source logit"
LOGIT_REASON = "what the head writes does not reach the logits directly: a sublayer without residual connection follows"


@dataclass(frozen=True)
class Attribution:
    """Contributions to two centred logits (minus the mean over the vocabulary) at every scored row of one string.

    Attributes:
        heads: float64[R, L, H, 2] of every head, to the right token and to the strongest wrong source token; zero for
            heads that a layer has not.
        rest: float64[R, 2] of the embedding, added positions and MLPs.
        total: float64[R, 2] the model's own centred logits.
    """

    heads: Float[np.ndarray, "R L H 2"]
    rest: Float[np.ndarray, "R 2"]
    total: Float[np.ndarray, "R 2"]


@MODEL_MEASURES.register("outputs")
@torch.inference_mode()
def outputs(
    model: CopyTransformer, task: CopyTask, samples: Sequence[Sample], *, seed: int, progress: Progress | None = None
) -> Measured:
    """`ov.copying`, `ov.eigenvalues`, and `logit.right`, `logit.wrong`, `logit.difference` on plain strings.

    `ov.copying`, from the weights: M[t, u] is what the head adds to the logit of source token u, minus the mean over
    source tokens, when it attends to source token t straight from the embedding: W_E[t], the layer's norm, W_V W_O,
    the gains of the norms that follow, W_U. The cosine of M with the matrix of a head that copies, I - 1/V:

        copying = trace(M) / (sqrt(V - 1) |M|),

    1 for a head that raises every token's own logit alike, -1 for one that lowers it, 0 (chance) for one that writes
    the same whatever it attends to. `ov.eigenvalues` beside it: sum Re(lambda) / sum |lambda| over M's eigenvalues
    (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"); with V = 2 there is one, so only its sign
    counts. What earlier layers have written does not enter; no strings, so the interval is the value itself.

    `logit.right`, in nats, from activations: what the head adds at a scored row to the logit of the right token (EOS
    included), over the mean of the vocabulary, all norms' scales frozen at their values (direct logit attribution);
    `logit.wrong` the same for the source token with the largest logit that is not right, `logit.difference` right
    minus wrong. With what the embedding, positions and MLPs add, heads sum to the logits (`attribute`).

    Scores:
        ov.copying: trace(M) / (sqrt(V - 1) |M|); chance is 0.
        ov.eigenvalues: sum Re(lambda) / sum |lambda| over the eigenvalues of M; chance is 0.
        logit.right: mean over scored rows of what the head adds to the right token's logit, over the vocabulary's mean.
        logit.wrong: the same for the source token with the largest logit that is not right.
        logit.difference: logit.right - logit.wrong.

    Args:
        model: any.
        task: not needed.
        samples: plain strings are read.
        seed: of the bootstrap.
        progress: called with the share that is done.
    """
    strings = [(s, row) for s in samples if s.kind == "plain" for row in range(len(s.batch))]
    shape = (len(strings), model.cfg.n_layers, max(model.cfg.heads))
    sums, rows = np.zeros((*shape, 2)), np.zeros(shape)
    direct = np.array([reaches_logits(model, layer) for layer in range(model.cfg.n_layers)])
    exists = model.real_heads.numpy() & direct[:, None]
    for index, (sample, row) in enumerate(strings):
        found = attribute(model, sample.batch.select([row]))
        sums[index], rows[index] = found.heads.sum(0), np.where(exists, len(found.heads), 0)
        if progress is not None:
            progress((index + 1) / len(strings))
    right, wrong = np.moveaxis(sums, -1, 0)
    parts = {"logit.right": right, "logit.wrong": wrong, "logit.difference": right - wrong}
    logits = {name: ratios(part, rows, seed=seed, reason=LOGIT_REASON) for name, part in parts.items()}
    return Measured(copying(model) | logits)


@torch.inference_mode()
def copying(model: CopyTransformer) -> dict[str, Estimates]:
    """`ov.copying` and `ov.eigenvalues` of every head, see `outputs`; they rest on V tokens and no strings."""
    size = model.vocabulary.alphabet
    scores = np.full((2, model.cfg.n_layers, max(model.cfg.heads)), np.nan)
    logits = _centred(_before(model.ln_final, model.W_U.T[:size].double()))
    for layer, block in enumerate(model.blocks):
        if not reaches_logits(model, layer) or (layer and not model.settings.residual):
            continue
        tokens = block.ln1.unhooked(model.W_E[:size]).double()
        for head in range(block.attn.n_real):
            read = tokens @ block.attn.W_V[head].double()
            written = block.attn.W_O[head].double() @ _before(block.ln1_post, logits).T
            # M = read @ written is V x V and not needed: E x E products have its norm, trace and eigenvalues.
            norm = ((read.T @ read) * (written @ written.T)).sum().clamp_min(0).sqrt()
            if norm > SILENT * read.norm() * block.attn.W_O[head].norm() * logits.norm():
                scores[0, layer, head] = (read * written.T).sum() / (np.sqrt(size - 1) * norm)
                eigenvalues = torch.linalg.eigvals(written @ read)
                scores[1, layer, head] = eigenvalues.real.sum() / eigenvalues.abs().sum()
    rows = np.where(np.isnan(scores[0]), 0, size)
    return {
        name: from_draws(value[None], value, rows, np.zeros_like(rows), chance=0.0, reason=COPYING_REASON)
        for name, value in zip(("ov.copying", "ov.eigenvalues"), scores, strict=True)
    }


def reaches_logits(model: CopyTransformer, layer: int) -> bool:
    """Does what a layer's heads write reach the unembedding on a path without another sublayer."""
    return model.settings.residual or (layer == model.cfg.n_layers - 1 and model.blocks[layer].mlp is None)


@torch.inference_mode()
def attribute(model: CopyTransformer, single: CopyBatch) -> Attribution:
    """Direct logit attribution at the scored rows of a batch of one string.

    Without residual connections only the last sublayer reaches the logits, and all others contribute nothing.
    """
    direct = [layer for layer in range(model.cfg.n_layers) if reaches_logits(model, layer)]
    posts = [layer for layer in direct if model.blocks[layer].ln1_post is not None]
    added = _added(model)
    names = ["ln_final.hook_scale", *added, *(f"blocks.{layer}.attn.hook_z" for layer in direct)]
    names += [f"blocks.{layer}.ln1_post.hook_scale" for layer in posts]
    logits, cache = model.run_with_cache(single.tokens, names_filter=names, return_cache_object=False)
    rows = single.scored_rows[0][0].to(model.device)
    kept = {name: cache[name][0, rows].double() for name in names}
    logits, targets = logits[0, rows].double(), single.targets.to(model.device)[0, rows]
    tokens = torch.arange(model.vocabulary.alphabet, device=model.device)
    wrong = logits[:, tokens].masked_fill(tokens == targets[:, None], -torch.inf).argmax(1)
    asked = torch.stack([targets, wrong], dim=1)

    directions = _centred(_before(model.ln_final, model.W_U.T.double()))
    heads = np.zeros((len(rows), model.cfg.n_layers, max(model.cfg.heads), 2))
    rest = np.zeros((len(rows), 2))
    for begin in range(0, len(rows), BLOCK):
        at = slice(begin, begin + BLOCK)
        wanted = directions[asked[at]] / kept["ln_final.hook_scale"][at, :, None]
        for name in added:
            rest[at] += torch.einsum("rd,rcd->rc", kept[name][at], wanted).cpu().numpy()
        for layer in direct:
            attn, post = model.blocks[layer].attn, model.blocks[layer].ln1_post
            read = (
                wanted
                if post is None
                else _before(post, wanted) / kept[f"blocks.{layer}.ln1_post.hook_scale"][at, None]
            )
            written = torch.einsum("rhe,hed->rhd", kept[f"blocks.{layer}.attn.hook_z"][at], attn.W_O.double())
            heads[at, layer] = torch.einsum("rhd,rcd->rhc", written, read).cpu().numpy()
    total = logits.gather(1, asked) - logits.mean(1, keepdim=True)
    return Attribution(heads, rest, total.cpu().numpy())


def _added(model: CopyTransformer) -> list[str]:
    """Hooks of what is added to the stream that is unembedded, beside what heads write."""
    if not model.settings.residual:
        return [] if model.blocks[-1].mlp is None else [f"blocks.{model.cfg.n_layers - 1}.hook_mlp_out"]
    streams = ["hook_embed"] + ["hook_pos_embed"] * (model.pos_embed is not None)
    return streams + [
        f"blocks.{layer}.hook_mlp_out" for layer, block in enumerate(model.blocks) if block.mlp is not None
    ]


def _before(norm: Norm | None, directions: Float[Tensor, "*S D"]) -> Float[Tensor, "*S D"]:
    """What directions after a norm read before it, with its scale left out: the gain, and layer norm's centring."""
    if norm is None or norm.w is None:
        return directions
    scaled = directions * norm.w.double()
    return scaled - scaled.mean(-1, keepdim=True) if norm.kind == "LN" else scaled


def _centred(directions: Float[Tensor, "V D"]) -> Float[Tensor, "V D"]:
    """Directions of logits as directions of logits minus their mean."""
    return directions - directions.mean(0)
