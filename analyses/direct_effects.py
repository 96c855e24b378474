"""What every head attends to at one query row, and what that adds to the logits directly.

One row a prompt is read, in O(T) a string and head, for many strings in one batch. *Direct* is the path through
values, output weights, norms and the unembedding, with the norms' denominators as they were; what later layers make of
a head's output is not in it. On attention-only models the direct effects of all heads and of the embedding sum to the
logits.

Shape letters: N strings, T tokens, L layers, H heads of a layer, E head width, D model width, V vocabulary.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from models.layers import Attention
from models.masks import Visibility
from models.norm import Norm
from models.transformer import CopyTransformer


@dataclass(frozen=True)
class RowReading:
    """One query row of each of N prompts.

    Attributes:
        logits: float32[N, V] of the answer.
        weights: by layer that was read, float32[N, H, T] attention of the row, real heads only.
        values: by layer, float32[N, T, H, E].
        written: by layer, float32[N, D] what its heads add, before a norm that follows.
        resid: float32[N, D] what the final norm reads.
        model: whose weights the effects are taken through.
    """

    logits: Float[Tensor, "N V"]
    weights: Mapping[int, Float[Tensor, "N H T"]]
    values: Mapping[int, Float[Tensor, "N T H E"]]
    written: Mapping[int, Float[Tensor, "N D"]]
    resid: Float[Tensor, "N D"]
    model: CopyTransformer

    def key_effects(
        self, layer: int, plus: Int[Tensor, "N"], minus: Int[Tensor, "N"] | None = None
    ) -> Float[Tensor, "N H T"]:
        """What each key adds, through each head, to logit(plus), or to logit(plus) - logit(minus)."""
        W_U = self.model.W_U.detach().float()
        direction = W_U[:, plus].T if minus is None else (W_U[:, plus] - W_U[:, minus]).T
        for norm, before in reversed(self._norms(layer)):
            direction = _centred(norm, _gain(norm, direction)) / _scale(norm, before)
        read = torch.einsum("hed,nd->nhe", self._output_weights(layer), direction)
        return self.weights[layer] * torch.einsum("nthe,nhe->nht", self.values[layer], read)

    def head_logits(self, layer: int) -> Float[Tensor, "N H V"]:
        """What each head adds to every logit: what its attended mix would answer alone."""
        mix = torch.einsum("nht,nthe->nhe", self.weights[layer], self.values[layer])
        x = torch.einsum("nhe,hed->nhd", mix, self._output_weights(layer))
        for norm, before in self._norms(layer):
            x = _gain(norm, _centred(norm, x) / _scale(norm, before)[:, None])
        return x @ self.model.W_U.detach().float()

    def _norms(self, layer: int) -> list[tuple[Norm, Float[Tensor, "N D"]]]:
        """Norms between the heads of a layer and the logits, and what each of them read."""
        post = self.model.blocks[layer].ln1_post
        last = (self.model.ln_final, self.resid)
        return [last] if post is None else [(post, self.written[layer]), last]

    def _output_weights(self, layer: int) -> Float[Tensor, "H E D"]:
        """W_O of the real heads; zero where no path leads past later layers."""
        block = self.model.blocks[layer]
        W_O = block.attn.W_O[: block.attn.n_real].detach().float()
        replaced = not block.residual and (block.mlp is not None or layer < self.model.cfg.n_layers - 1)
        return torch.zeros_like(W_O) if replaced else W_O


@torch.inference_mode()
def read_rows(
    model: CopyTransformer, prompts: Int[Tensor, "N T"], at: Int[Tensor, "N"], layers: Iterable[int] | None = None
) -> RowReading:
    """Run prompts and read row `at` of each; tokens behind it may be anything (but PAD) and are not seen.

    `layers` are those that are read, all by default.
    """
    chosen = list(range(model.cfg.n_layers) if layers is None else layers)
    kept: dict[str, Tensor] = {}
    every = torch.arange(len(prompts), device=model.device)
    at = at.to(model.device)

    def keep(tensor: Tensor, hook: HookPoint) -> None:
        kept[hook.name or ""] = tensor

    def keep_row(tensor: Tensor, hook: HookPoint) -> None:
        kept[hook.name or ""] = tensor[every, at].float()

    last_block = f"blocks.{model.cfg.n_layers - 1}."
    hooks = [(f"{last_block}hook_resid_post", keep_row)]
    for layer in chosen:
        point = f"blocks.{layer}.attn.hook_"
        hooks += [(f"{point}rot_k", keep), (f"{point}v", keep), (f"{point}rot_q", keep_row), (f"{point}z", keep_row)]
        if model.blocks[layer].attn.scheme.has_bias:
            hooks.append((f"{point}coords", keep))
    with model.hooks(fwd_hooks=hooks):
        logits = model(prompts, rows=at[:, None])[:, 0].float()
    weights, values, written = {}, {}, {}
    for layer in chosen:
        attn = model.blocks[layer].attn
        names = (f"blocks.{layer}.attn.hook_{name}" for name in ("rot_q", "rot_k", "v", "z", "coords"))
        q, k, v, z, coords = (kept.get(name) for name in names)
        assert q is not None and k is not None and v is not None and z is not None
        real = attn.n_real
        weights[layer] = _row_weights(attn, q[:, :real], k[:, :, :real].float(), coords, at)
        values[layer] = v[:, :, :real].float()
        written[layer] = z.flatten(1) @ attn.W_O.flatten(0, 1).float()
    return RowReading(logits, weights, values, written, kept[f"{last_block}hook_resid_post"], model)


def _row_weights(
    attn: Attention, q: Float[Tensor, "N H E"], k: Float[Tensor, "N T H E"], coords: Tensor | None, at: Int[Tensor, "N"]
) -> Float[Tensor, "N H T"]:
    """Attention of one row a string; zero where it sees nothing."""
    scores = torch.einsum("nhe,nthe->nht", q, k) * attn.scale
    if coords is not None:
        own = coords[torch.arange(len(coords), device=coords.device), at][:, None]
        scores = scores + attn.scheme.bias(own, coords)[:, :, 0]
    keys = torch.arange(k.shape[1], device=k.device)
    visible = Visibility(None, attn.strict, attn.scheme.settings.window).mask(at[:, None], keys)
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return torch.where(visible.any(-1, keepdim=True), weights, 0.0)


def _centred(norm: Norm, x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True) if norm.kind == "LN" else x


def _gain(norm: Norm, x: Tensor) -> Tensor:
    return x if norm.w is None else x * norm.w.detach().float()


def _scale(norm: Norm, before: Float[Tensor, "N D"]) -> Float[Tensor, "N 1"]:
    """The denominator."""
    if norm.w is None:
        return torch.ones_like(before[:, :1])
    return (_centred(norm, before).square().mean(-1, keepdim=True) + norm.eps).sqrt()
