"""The one decoder: a `HookedRootModule` with HookedTransformer's hook names, weight names and `cfg`.

The path of a batch: tokens -> embedding (+ absolute positions) -> blocks -> final norm -> unembedding.

Shape letters: B batch, T tokens, R queried rows, L layers, H heads, D model width, E head width, M MLP width,
V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens.ActivationCache import ActivationCache
from transformer_lens.FactoredMatrix import FactoredMatrix
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule
from transformer_lens.utilities.slice import Slice

from models.caching import NamesFilter, check_budget, match_names
from models.config import ModelSettings, Recipe
from models.errors import UsageError
from models.layers import MLP, Attention, Norm, hooked, take_rows
from models.positions import SCHEMES, Places, Scheme, build_scheme, parse_scheme
from models.tasks import IGNORE, CopyTask, Vocabulary

ReturnType = Literal["logits", "loss", "both"] | None


@dataclass
class HookedConfig:
    """What TransformerLens' tools read from `model.cfg`; names and meanings are theirs.

    Attributes:
        heads: real heads of each layer; `n_heads` is the largest, layers with fewer are padded with zero heads.
        others: see TransformerLens.
    """

    n_layers: int
    n_heads: int
    heads: tuple[int, ...]
    d_model: int
    d_head: int
    d_mlp: int | None
    d_vocab: int
    n_ctx: int
    act_fn: str
    normalization_type: str | None
    eps: float
    attn_only: bool
    gated_mlp: bool
    device: torch.device
    dtype: torch.dtype
    seed: int
    model_name: str
    init_range: float
    tie_word_embeddings: bool
    positional_embedding_type: str
    n_key_value_heads: int | None = None
    use_attn_result: bool = False
    use_split_qkv_input: bool = False
    use_attn_in: bool = False
    use_hook_mlp_in: bool = False
    parallel_attn_mlp: bool = False
    default_prepend_bos: bool = False
    final_rms: bool = False


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
    """Attention and MLP, each added to the residual stream; norms before (ln1, ln2) or after (ln1_post, ln2_post)."""

    hook_out_is_single_residual_stream = True

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        n_real = settings.heads[layer]
        named = settings.scheme_of(layer)
        if SCHEMES[named.scheme].at_embedding:  # the model adds it once, attention itself is position-free
            named = parse_scheme({"scheme": "nope", "window": named.window})
        scheme = build_scheme(
            named, d_model=settings.d_model, d_head=settings.d_head, n_heads=n_real, layer=layer
        )
        pre = settings.normalization if settings.norm_placement == "pre" else "none"
        post = settings.normalization if settings.norm_placement == "post" else "none"
        norm = partial(Norm, width=settings.d_model, eps=settings.eps)
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
        self, resid: Float[Tensor, "B T D"], places: Places, rows: Int[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B R D"]:
        """The residual stream after the block, at all positions or at `rows`."""
        resid = self.hook_resid_pre(resid)
        written = self.attn(resid, self.ln1, places, rows)
        written = self.hook_attn_out(written if self.ln1_post is None else self.ln1_post(written))
        resid = self.hook_resid_mid((resid if rows is None else take_rows(resid, rows)) + written)
        if self.mlp is not None:
            written = self.mlp(self.ln2(self.hook_mlp_in(resid)))
            resid = resid + self.hook_mlp_out(written if self.ln2_post is None else self.ln2_post(written))
        return self.hook_resid_post(resid)


class CopyTransformer(HookedRootModule):
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
        rows: Int[Tensor, "B R"] | None = None,
        stop_at_layer: int | None = None,
    ) -> Any:
        """Run the model.

        Args:
            tokens: long[B, T] or long[T].
            return_type: "logits", "loss" (mean cross-entropy in nats over scored positions), "both", or None.
            pad_mask: true at padding; by default wherever the PAD id stands.
            targets: long[B, T], -100 where nothing is scored; by default every next token but padding.
            loss_per_token: return float[B, T] (zero where unscored) in place of the mean.
            rows: long[B, R] positions whose logits are wanted: logits are [B, R, V], computed for those alone.
            stop_at_layer: return the residual stream that enters this layer instead.

        Raises:
            UsageError: token ids outside the vocabulary, or more tokens than n_ctx.
        """
        tokens = self.to_tokens(tokens)
        if pad_mask is None:
            is_pad = tokens == self.vocabulary.pad
            pad_mask = is_pad if bool(is_pad.any()) else None
        else:
            pad_mask = pad_mask.to(tokens.device) if bool(pad_mask.any()) else None
        places = Places(tokens, pad_mask, self.vocabulary.newline)
        cut = None if rows is None or hooked(*self.hook_points()) else rows
        resid = self._embed(places)
        last = self.cfg.n_layers - 1
        for layer, block in enumerate(self.blocks):
            if layer == stop_at_layer:
                return resid
            resid = block(resid, places, cut if layer == last else None)
        if stop_at_layer is not None:
            return resid
        logits = self.unembed(self.ln_final(resid))
        if rows is not None and cut is None:
            logits = take_rows(logits, rows)
        if return_type in ("logits", None):
            return logits if return_type else None
        loss = self.loss(logits, tokens, pad_mask=pad_mask, targets=targets, rows=rows, per_token=loss_per_token)
        return loss if return_type == "loss" else (logits, loss)

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
        logits: Float[Tensor, "B R V"],
        tokens: Int[Tensor, "B T"],
        *,
        pad_mask: Bool[Tensor, "B T"] | None = None,
        targets: Int[Tensor, "B T"] | None = None,
        rows: Int[Tensor, "B R"] | None = None,
        per_token: bool = False,
    ) -> Float[Tensor, ""] | Float[Tensor, "B R"]:
        """Cross-entropy in nats over the scored positions, see `forward`; padding never counts."""
        if targets is None:
            shifted = F.pad(tokens[:, 1:], (0, 1), value=IGNORE)
            no_target = F.pad(pad_mask[:, 1:], (0, 1), value=True) | pad_mask if pad_mask is not None else shifted < 0
            targets = shifted.masked_fill(no_target, IGNORE)
        targets = targets.to(logits.device)
        if rows is not None and targets.shape != logits.shape[:2]:
            targets = take_rows(targets, rows)
        losses = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none")
        if per_token:
            return losses.view(targets.shape)
        return losses.sum() / (targets != IGNORE).sum().clamp_min(1)

    def run_with_cache(
        self,
        *args: Any,
        names_filter: NamesFilter = None,
        return_cache_object: bool = True,
        remove_batch_dim: bool = False,
        budget: int | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ActivationCache | dict[str, Tensor]]:
        """Run the model and keep activations; see HookedRootModule for the arguments not listed.

        Args:
            args: those of `forward`.
            names_filter: hook names, or a function that picks them; None keeps everything.
            return_cache_object: an ActivationCache, or a plain dict.
            remove_batch_dim: drop the batch axis of a single string.
            budget: bytes the cache may take; half of the free memory by default.
            kwargs: those of `forward` and HookedRootModule.run_with_cache.

        Raises:
            UsageError: nothing matches `names_filter`, or the cache would be over budget; before anything runs.
        """
        tokens = self.to_tokens(args[0])
        names = match_names(names_filter, self.hook_dict)
        check_budget(self, names, len(tokens), tokens.shape[1], budget)
        if remove_batch_dim and len(tokens) != 1:
            raise UsageError(f"cannot remove the batch axis of {len(tokens)} strings; give one string")
        args = (tokens, *args[1:])
        out, cache = super().run_with_cache(*args, names_filter=names, remove_batch_dim=remove_batch_dim, **kwargs)
        if return_cache_object:
            return out, ActivationCache(cache, self, has_batch_dim=not remove_batch_dim)
        return out, cache

    def get_caching_hooks(
        self,
        names_filter: NamesFilter = None,
        incl_bwd: bool = False,
        device: torch.device | str | None = None,
        remove_batch_dim: bool = False,
        cache: dict[str, Tensor] | None = None,
        pos_slice: Any = None,
    ) -> tuple[dict[str, Tensor], list, list]:
        """As HookedRootModule's, but `pos_slice` cuts the position axis of every activation, `hook_rot_q` included."""
        names = match_names(names_filter, self.hook_dict)
        kept: dict[str, Tensor] = {} if cache is None else cache
        pos_slice = Slice.unwrap(pos_slice)
        self.is_caching = True

        def save(tensor: Tensor, hook: HookPoint, suffix: str = "") -> None:
            tensor = tensor.detach().to(device or tensor.device)
            tensor = pos_slice.apply(tensor, dim=hook.pos_dim or 1)
            kept[f"{hook.name}{suffix}"] = tensor[0] if remove_batch_dim else tensor

        forward = [(name, save) for name in names]
        backward = [(name, partial(save, suffix="_grad")) for name in names] if incl_bwd else []
        return kept, forward, backward

    # ------------------------------------------- what TransformerLens' tools call

    def to_tokens(self, tokens: Any, **_: Any) -> Int[Tensor, "B T"]:
        """Token tensors, lists of ids or of names ("A1", "0"), as long[B, T] on the model's device.

        Raises:
            UsageError: something else, an id outside the vocabulary, or more than n_ctx tokens.
        """
        if isinstance(tokens, list | tuple) and tokens and isinstance(tokens[0], str):
            tokens = [self.to_single_token(name) for name in tokens]
        if not isinstance(tokens, Tensor):
            try:
                tokens = torch.tensor(tokens, dtype=torch.long)
            except (TypeError, ValueError):
                raise UsageError(f"{tokens!r} is no token tensor; encode strings with CopyTask.encode first") from None
        tokens = tokens[None] if tokens.ndim == 1 else tokens
        if tokens.ndim != 2 or tokens.is_floating_point() or not tokens.shape[1]:
            raise UsageError(f"tokens of shape {tuple(tokens.shape)} and {tokens.dtype} were given; expected long[B, T]")
        if tokens.shape[1] > self.cfg.n_ctx:
            raise UsageError(f"{tokens.shape[1]} tokens are over the model's n_ctx of {self.cfg.n_ctx}; shorten the input")
        if tokens.device.type == "cpu" and len(tokens):
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= self.cfg.d_vocab:
                bad = low if low < 0 else high
                raise UsageError(f"token id {bad} is outside the vocabulary of {self.cfg.d_vocab} (0 to {self.cfg.d_vocab - 1})")
        return tokens.long().to(self.device)

    def to_single_token(self, name: str) -> int:
        """Id of a printable token name; UsageError where there is none."""
        try:
            return self.vocabulary.names.index(name)
        except ValueError:
            raise UsageError(f"no token is called {name!r}; known: {', '.join(self.vocabulary.names[:40])}") from None

    def to_str_tokens(self, tokens: Any, **_: Any) -> list[str]:
        """Printable names of one sequence of tokens."""
        return [self.vocabulary.names[i] for i in self.to_tokens(tokens)[0].tolist()]

    def tokens_to_residual_directions(self, tokens: Any) -> Float[Tensor, "*T D"]:
        """Directions that raise each token's logit, the final norm's gain included, so `logit_attrs` sums to logits."""
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)
        ids = torch.as_tensor(tokens, dtype=torch.long, device=self.device)
        directions = self.W_U.T[ids]
        return directions if self.ln_final.w is None else directions * self.ln_final.w

    def accumulated_bias(self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True) -> Float[Tensor, "D"]:
        """Zero: the model has no biases."""
        return torch.zeros(self.cfg.d_model, device=self.device)

    def set_use_attn_result(self, use: bool) -> None:
        """Kept for TransformerLens: `hook_result` fires whenever something is hooked on it."""
        self.cfg.use_attn_result = use

    def set_use_split_qkv_input(self, use: bool) -> None:
        """Kept for TransformerLens: the per-head inputs exist whenever something is hooked on them."""
        self.cfg.use_split_qkv_input = use

    def set_use_attn_in(self, use: bool) -> None:
        """Kept for TransformerLens: `hook_attn_in` fires whenever something is hooked on it."""
        self.cfg.use_attn_in = use

    def all_head_labels(self) -> list[str]:
        """Labels L0H0.. of all heads, absent ones included, in the order of `stack_head_results`."""
        return [f"L{layer}H{head}" for layer in range(self.cfg.n_layers) for head in range(self.cfg.n_heads)]

    @property
    def real_heads(self) -> Bool[Tensor, "L H"]:
        """Bool[L, H]: false for the zero heads that pad a layer with fewer heads than the widest."""
        counts = torch.tensor(self.cfg.heads)
        return torch.arange(self.cfg.n_heads)[None] < counts[:, None]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embed.W_E.device

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "CopyTransformer":
        super()._apply(fn, recurse)
        self.cfg.device, self.cfg.dtype = self.device, self.embed.W_E.dtype
        return self

    # ------------------------------------------------------------------ weights

    def _stack(self, part: str, name: str) -> Tensor:
        return torch.stack([getattr(getattr(block, part), name) for block in self.blocks])

    @property
    def W_E(self) -> Float[Tensor, "V D"]:
        """Embedding."""
        return self.embed.W_E

    @property
    def W_U(self) -> Float[Tensor, "D V"]:
        """Unembedding."""
        return self.unembed.W_U

    @property
    def b_U(self) -> Float[Tensor, "V"]:
        """Zero bias of the unembedding."""
        return self.unembed.b_U

    @property
    def W_Q(self) -> Float[Tensor, "L H D E"]:
        """Query weights of all layers."""
        return self._stack("attn", "W_Q")

    @property
    def W_K(self) -> Float[Tensor, "L H D E"]:
        """Key weights of all layers."""
        return self._stack("attn", "W_K")

    @property
    def W_V(self) -> Float[Tensor, "L H D E"]:
        """Value weights of all layers."""
        return self._stack("attn", "W_V")

    @property
    def W_O(self) -> Float[Tensor, "L H E D"]:
        """Output weights of all layers."""
        return self._stack("attn", "W_O")

    @property
    def W_in(self) -> Float[Tensor, "L D M"]:
        """MLP input weights of all layers."""
        return self._stack("mlp", "W_in")

    @property
    def W_out(self) -> Float[Tensor, "L M D"]:
        """MLP output weights of all layers."""
        return self._stack("mlp", "W_out")

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of all heads, [L, H, D, D]; without positions, norms and scale."""
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-1, -2))

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of all heads, [L, H, D, D]."""
        return FactoredMatrix(self.W_V, self.W_O)

    @property
    def n_params(self) -> int:
        """Trainable numbers, zero heads not counted."""
        absent = sum(self.cfg.n_heads - n for n in self.cfg.heads) * 4 * self.cfg.d_model * self.cfg.d_head
        return sum(weight.numel() for weight in self.parameters()) - absent


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
