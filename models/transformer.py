"""The one decoder: a `HookedRootModule` with HookedTransformer's hook names, weight names and `cfg`.

The path of a batch: tokens -> embedding (+ absolute positions) -> blocks -> final norm -> unembedding.

Shape letters: B batch, T tokens, R queried rows, L layers, H heads, D model width, E head width, M MLP width,
V vocabulary.
"""

import math
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.config import ModelSettings, Recipe
from models.errors import UsageError
from models.hooked import HookedConfig, HookedInterface
from models.layers import MLP, Attention, Rows, look_up, take_rows
from models.norm import Norm, hooked
from models.positions import SCHEMES, Places, Scheme, build_scheme, parse_scheme
from models.tasks import IGNORE, CopyTask, Vocabulary

ReturnType = Literal["logits", "loss", "both"] | None


class Embed(nn.Module):
    """Token embedding; W_E: [V, D]."""

    def __init__(self, d_vocab: int, d_model: int) -> None:
        super().__init__()
        self.W_E = nn.Parameter(torch.zeros(d_vocab, d_model))

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Look the tokens up."""
        return F.embedding(tokens, self.W_E)


class Unembed(nn.Module):
    """Unembedding without bias; W_U: [D, V], the transposed embedding where they are tied."""

    def __init__(self, embed: Embed, tied: bool) -> None:
        super().__init__()
        self._embed = [embed] if tied else []  # in a list: not a submodule a second time
        if not tied:
            self.W_U = nn.Parameter(torch.zeros(embed.W_E.shape[1], embed.W_E.shape[0]))

    def __getattr__(self, name: str) -> Any:
        """W_U of tied embeddings, and a zero b_U, are derived."""
        if name == "W_U" and self.__dict__.get("_embed"):
            return self._embed[0].W_E.T
        if name == "b_U":
            return self.W_U.new_zeros(self.W_U.shape[1])
        return super().__getattr__(name)

    def forward(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R V"]:
        """Return logits."""
        return x @ self.W_U


class Block(nn.Module):
    """Attention and MLP, each added to the residual stream; norms before (ln1, ln2) or after (ln1_post, ln2_post).

    Without a residual connection (`settings.residual`) each replaces the stream instead.
    """

    hook_out_is_single_residual_stream = True
    hook_resid_pre: HookPoint
    hook_attn_out: HookPoint
    hook_resid_mid: HookPoint
    hook_resid_post: HookPoint

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        n_real = settings.heads[layer]
        named = settings.scheme_of(layer)
        if SCHEMES[named.scheme].at_embedding:  # the model adds it once, attention itself is position-free
            named = parse_scheme({"scheme": "nope", "window": named.window})
        scheme = build_scheme(named, d_model=settings.d_model, d_head=settings.d_head, n_heads=n_real, layer=layer)
        pre = settings.normalization if settings.norm_placement == "pre" else "none"
        post = settings.normalization if settings.norm_placement == "post" else "none"
        norm = partial(Norm, width=settings.d_model, eps=settings.eps)
        self.residual = settings.residual
        self.ln1 = norm(pre)
        self.ln1_post = norm(post) if post != "none" else None
        self.attn = Attention(
            scheme,
            d_model=settings.d_model,
            d_head=settings.d_head,
            n_heads=max(settings.heads),
            n_real=n_real,
            strict=settings.strict_mask,
            scale=settings.d_head**-0.5,
        )
        for name in ("hook_resid_pre", "hook_attn_out", "hook_resid_mid", "hook_resid_post"):
            setattr(self, name, HookPoint())
        self.mlp: MLP | None = None
        if settings.mlp_width:
            self.ln2 = norm(pre)
            self.ln2_post = norm(post) if post != "none" else None
            self.mlp = MLP(
                d_model=settings.d_model,
                d_mlp=settings.mlp_width,
                gated=settings.gated_mlp,
                act_fn=settings.act_fn,
            )
            self.hook_mlp_in = HookPoint()
            self.hook_mlp_out = HookPoint()

    def forward(
        self,
        resid: Float[Tensor, "B T D"],
        places: Places,
        rows: Rows | None = None,
        kept: Int[Tensor, "N"] | None = None,
        by_token: bool = False,
    ) -> Float[Tensor, "B R D"] | Float[Tensor, "N D"]:
        """The residual stream after the block, at all positions or at `rows`; [N, D] with `kept`.

        Args:
            resid: the stream that enters; with `by_token` that of every token of the vocabulary, [1, V, D].
            places: tokens and padding.
            rows: positions that are needed.
            kept: indices into the B * R rows; only these go on after attention.
            by_token: see Attention.forward.
        """
        resid = self.hook_resid_pre(resid)
        written = _keep(self.attn(resid, self.ln1, places, rows, by_token), kept)
        written = self.hook_attn_out(written if self.ln1_post is None else self.ln1_post(written))
        if self.residual:
            source = places.tokens if by_token else resid
            source = _keep(source if rows is None else take_rows(source, rows), kept)
            written = (look_up(resid, source) if by_token else source) + written
        resid = self.hook_resid_mid(written)
        if self.mlp is not None:
            written = self.mlp(self.ln2(self.hook_mlp_in(resid)))
            written = self.hook_mlp_out(written if self.ln2_post is None else self.ln2_post(written))
            resid = resid + written if self.residual else written
        return self.hook_resid_post(resid)


def _keep(x: Tensor, kept: Int[Tensor, "N"] | None) -> Tensor:
    """X [B, R, ...] as [N, ...], or as it is."""
    return x if kept is None else x.flatten(0, 1).index_select(0, kept)


class CopyTransformer(HookedInterface):
    """A decoder with any positional schemes, usable wherever a HookedTransformer was.

    Attributes:
        settings: what it was built from.
        vocabulary: ids and names of its tokens.
        cfg: HookedConfig.
        embed.W_E, blocks[l].attn.W_Q/W_K/W_V/W_O, blocks[l].mlp.W_in/W_out, unembed.W_U: weights.
        hook_embed, hook_pos_embed, blocks.*, ln_final.*: hook points, all listed in `hook_dict`.
    """

    def __init__(
        self, settings: ModelSettings, vocabulary: Vocabulary, *, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__()
        self.settings, self.vocabulary = settings, vocabulary
        self.embed = Embed(len(vocabulary), settings.d_model)
        self.hook_embed = HookPoint()
        self.pos_embed = _absolute_scheme(settings)
        if self.pos_embed is not None:
            self.hook_pos_embed = HookPoint()
            self.hook_coords = HookPoint()
        self.blocks = nn.ModuleList(Block(settings, layer) for layer in range(settings.n_layers))
        self.ln_final = Norm(settings.normalization if settings.final_norm else "none", settings.d_model, settings.eps)
        self.unembed = Unembed(self.embed, settings.tied)
        self.cfg = HookedConfig(
            n_layers=settings.n_layers,
            n_heads=max(settings.heads),
            heads=settings.heads,
            d_model=settings.d_model,
            d_head=settings.d_head,
            d_mlp=settings.mlp_width or None,
            d_vocab=len(vocabulary),
            n_ctx=settings.n_ctx,
            act_fn=settings.act_fn,
            normalization_type=None if settings.normalization == "none" else settings.normalization,
            eps=settings.eps,
            attn_only=not settings.mlp_width,
            gated_mlp=settings.gated_mlp,
            device=torch.device("cpu"),
            dtype=torch.float32,
            seed=seed,
            model_name=f"copy-{settings.scheme_name}-{settings.n_layers}l",
            init_range=settings.init_std,
            tie_word_embeddings=settings.tied,
            positional_embedding_type=settings.scheme_name,
        )
        self.init_weights(seed)
        self.setup()
        self.to(device)
        self.eval()

    def init_weights(self, seed: int) -> None:
        """Draw all matrices from N(0, init_std), those that write to the residual stream divided by sqrt(2 L).

        Gains stay one, Auto-2D's step projection and absent heads zero. The same seed gives the same weights.
        """
        generator = torch.Generator().manual_seed(seed)
        std = self.settings.init_std
        with torch.no_grad():
            for name, weight in self.named_parameters():
                kind = name.rsplit(".", 1)[-1]
                if kind in ("w", "b_pos"):
                    continue
                scale = std / math.sqrt(2 * self.settings.n_layers) if kind in ("W_O", "W_out") else std
                if kind == "W_E":
                    scale = self.settings.embed_std or std
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
            for block in self.blocks:
                for weight in (block.attn.W_Q, block.attn.W_K, block.attn.W_V, block.attn.W_O):
                    weight[block.attn.n_real :] = 0.0

    # ------------------------------------------------------------------ running

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        return_type: ReturnType = "logits",
        *,
        pad_mask: Bool[Tensor, "B T"] | None = None,
        targets: Int[Tensor, "B T"] | None = None,
        loss_per_token: bool = False,
        rows: Rows | None = None,
        keep: Bool[Tensor, "B R"] | None = None,
        start_at_layer: int = 0,
        resid: Float[Tensor, "B T D"] | None = None,
        stop_at_layer: int | None = None,
    ) -> Any:
        """Run the model.

        Args:
            tokens: long[B, T] or long[T].
            return_type: "logits", "loss" (mean cross-entropy in nats over scored positions), "both", or None.
            pad_mask: true at padding; by default wherever the PAD id stands.
            targets: long[B, T], -100 where nothing is scored; by default every next token but padding.
            loss_per_token: return float[B, T] (zero where unscored) in place of the mean.
            rows: positions whose logits are wanted, long[B, R] or one range for all strings: logits are [B, R, V],
                and the last layer's query side is computed for those alone.
            keep: which of `rows` are wanted, where strings have different numbers of them: logits are [N, V], string
                after string, and nothing is computed after the last attention for the others.
            start_at_layer: begin with this layer, on `resid`.
            resid: the residual stream that enters `start_at_layer`; by default the embedding of `tokens`.
            stop_at_layer: return the residual stream that enters this layer instead.

        Raises:
            UsageError: token ids outside the vocabulary, more tokens than n_ctx, or `keep` without `rows`.
        """
        if keep is not None and rows is None:
            raise UsageError("keep was given without rows; give the rows that it chooses from")
        tokens = self.to_tokens(tokens)
        if pad_mask is None:
            is_pad = tokens == self.vocabulary.pad
            pad_mask = is_pad if bool(is_pad.any()) else None
        else:
            pad_mask = pad_mask.to(tokens.device) if bool(pad_mask.any()) else None
        places = Places(tokens, pad_mask, self.vocabulary.newline)
        watched = self._watched()
        cut = None if watched else rows
        kept = None if keep is None else keep.flatten().nonzero()[:, 0].to(tokens.device)
        # Before the first attention a token's stream depends on nothing but the token, unless positions are added.
        by_token = resid is None and not watched and self.pos_embed is None and self.cfg.d_vocab < tokens.numel()
        by_token = by_token and start_at_layer == 0 and stop_at_layer != 0
        if resid is None:
            resid = self.embed.W_E[None] if by_token else self._embed(places)
        last = self.cfg.n_layers - 1
        for layer in range(start_at_layer, self.cfg.n_layers):
            if layer == stop_at_layer:
                return resid
            only = (cut, None if cut is None else kept) if layer == last else (None, None)
            resid = self.blocks[layer](resid, places, *only, by_token=by_token and layer == 0)
        if stop_at_layer is not None:
            return resid
        logits = self.unembed(self.ln_final(resid))
        if rows is not None and cut is None:
            logits = _keep(take_rows(logits, rows), kept)
        if return_type in ("logits", None):
            return logits if return_type else None
        loss = self.loss(
            logits, tokens, pad_mask=pad_mask, targets=targets, rows=rows, keep=keep, per_token=loss_per_token
        )
        return loss if return_type == "loss" else (logits, loss)

    def _watched(self) -> bool:
        """Is anything hooked, on a hook point or on another module: then every value must exist, at all positions."""
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        return any(getattr(module, kind) for module in self.modules() for kind in kinds)

    def _embed(self, places: Places) -> Float[Tensor, "B T D"]:
        resid = self.hook_embed(self.embed(places.tokens))
        if self.pos_embed is None:
            return resid
        coords = self.pos_embed.coordinates(places, None)
        if hooked(self.hook_coords):
            coords = self.hook_coords(coords.expand(len(resid), -1, -1).clone())
        added = self.pos_embed.embedding(coords).to(resid.dtype).expand(len(resid), -1, -1)
        return resid + self.hook_pos_embed(added)

    def loss(
        self,
        logits: Float[Tensor, "B R V"] | Float[Tensor, "N V"],
        tokens: Int[Tensor, "B T"],
        *,
        pad_mask: Bool[Tensor, "B T"] | None = None,
        targets: Int[Tensor, "B T"] | None = None,
        rows: Rows | None = None,
        keep: Bool[Tensor, "B R"] | None = None,
        per_token: bool = False,
    ) -> Float[Tensor, ""] | Float[Tensor, "B R"] | Float[Tensor, "N"]:
        """Cross-entropy in nats over the scored positions, see `forward`; padding never counts."""
        if targets is None:
            shifted = F.pad(tokens[:, 1:], (0, 1), value=IGNORE)
            no_target = F.pad(pad_mask[:, 1:], (0, 1), value=True) | pad_mask if pad_mask is not None else shifted < 0
            targets = shifted.masked_fill(no_target, IGNORE)
        targets = targets.to(logits.device)
        if rows is not None and targets.shape != logits.shape[:-1]:
            targets = take_rows(targets, rows)
        if keep is not None:
            targets = targets[keep.to(targets.device)]
        flat = logits.float().flatten(0, -2)
        losses = F.cross_entropy(flat, targets.flatten(), ignore_index=IGNORE, reduction="none")
        if per_token:
            return losses.view(targets.shape)
        return losses.sum() / (targets != IGNORE).sum().clamp_min(1)


def _absolute_scheme(settings: ModelSettings) -> Scheme | None:
    """The scheme that adds to the embedding, if a layer names one; two different ones are an error."""
    named = dict.fromkeys(settings.scheme_of(layer) for layer in range(settings.n_layers))
    absolute = [scheme for scheme in named if SCHEMES[scheme.scheme].at_embedding]
    if len(absolute) > 1:
        names = ", ".join(scheme.scheme for scheme in absolute)
        raise UsageError(f"only one scheme can add to the embedding, but {names} were given; keep one")
    if not absolute:
        return None
    return build_scheme(absolute[0], d_model=settings.d_model, d_head=settings.d_head, n_heads=1, layer=0)


def build_model(recipe: Recipe, device: torch.device | str = "cpu") -> CopyTransformer:
    """Return the recipe's model with its initial weights."""
    return CopyTransformer(recipe.model, CopyTask(recipe.task).vocabulary, seed=recipe.seed, device=device)
