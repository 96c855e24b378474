"""HookedTransformer's interface, as far as it is not the forward pass: caching, tokens, weights and `cfg`.

TransformerLens 4 removed the class; its users and tools (ActivationCache, patching, detect_head) call these names.

Shape letters: B batch, T tokens, L layers, H heads, D model width, E head width, M MLP width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens.ActivationCache import ActivationCache
from transformer_lens.FactoredMatrix import FactoredMatrix
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule
from transformer_lens.utilities.slice import Slice

from models.caching import NamesFilter, check_budget, match_names
from models.errors import UsageError
from models.tasks import Vocabulary


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


class HookedInterface(HookedRootModule):
    """What TransformerLens' tools call on a model, beside running it.

    Attributes:
        vocabulary: ids and names of its tokens.
        cfg: HookedConfig.
        others: weights under TransformerLens' names, see CopyTransformer.
    """

    vocabulary: Vocabulary
    cfg: HookedConfig
    embed: Any
    blocks: Any
    ln_final: Any
    unembed: Any

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

    def _enable_hook(self, name: str | Callable[[str], bool], hook: Callable, dir: Literal["fwd", "bwd"]) -> None:
        """As HookedRootModule's; UsageError for a name that no hook has, and for a filter that no hook passes."""
        match_names(name, self.hook_dict)
        super()._enable_hook(name, hook, dir)

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
            raise UsageError(
                f"tokens of shape {tuple(tokens.shape)} and {tokens.dtype} were given; expected long[B, T]"
            )
        if tokens.shape[1] > self.cfg.n_ctx:
            raise UsageError(
                f"{tokens.shape[1]} tokens are over the model's n_ctx of {self.cfg.n_ctx}; shorten the input"
            )
        if tokens.device.type == "cpu" and len(tokens):
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= self.cfg.d_vocab:
                bad = low if low < 0 else high
                raise UsageError(
                    f"token id {bad} is outside the vocabulary of {self.cfg.d_vocab} (0 to {self.cfg.d_vocab - 1})"
                )
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

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Float[Tensor, "D"]:
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

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "HookedInterface":
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
