"""What a cache of activations would cost, before it is allocated."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import psutil
import torch

from models.errors import UsageError

if TYPE_CHECKING:
    from models.transformer import CopyTransformer

NamesFilter = str | Sequence[str] | Callable[[str], bool] | None


def match_names(names_filter: NamesFilter, known: Iterable[str]) -> list[str]:
    """Return the hook names that `names_filter` picks; None picks all.

    Raises:
        UsageError: nothing matches, or a name does not exist.
    """
    known = list(known)
    if names_filter is None:
        return known
    if callable(names_filter):
        picked = [name for name in known if names_filter(name)]
    else:
        wanted = [names_filter] if isinstance(names_filter, str) else list(names_filter)
        missing = [name for name in wanted if name not in known]
        if missing:
            raise UsageError(f"no hook is called {missing[0]!r}; model.hook_dict lists the {len(known)} there are")
        picked = [name for name in known if name in wanted]
    if not picked:
        raise UsageError(
            "the filter matches no hook, so nothing would be cached or hooked; model.hook_dict lists the names"
        )
    return picked


def cache_bytes(model: "CopyTransformer", names: Iterable[str], batch: int, length: int) -> int:
    """Bytes that the activations `names` of `batch` sequences of `length` tokens take."""
    return batch * length * sum(_per_token(model, name, length) for name in names)


def check_budget(model: "CopyTransformer", names: Sequence[str], batch: int, length: int, budget: int | None) -> None:
    """Raise UsageError where the cache would take more than `budget` bytes (half of the free memory by default)."""
    if budget is None:
        on_gpu = model.device.type == "cuda"
        budget = (torch.cuda.mem_get_info(model.device)[0] if on_gpu else psutil.virtual_memory().available) // 2
    needed = cache_bytes(model, names, batch, length)
    if needed > budget:
        largest = max(names, key=lambda name: _per_token(model, name, length))
        share = cache_bytes(model, [largest], batch, length)
        raise UsageError(
            f"caching {len(names)} activations of {batch} x {length} tokens takes {needed / 1e9:.1f} GB, the budget is "
            f"{budget / 1e9:.1f} GB; crop the input, leave names out (largest: {largest}, {share / 1e9:.1f} GB), "
            f"or raise budget"
        )


def token_width(model: "CopyTransformer", name: str) -> int:
    """Numbers that the activation `name` holds a token; those of shape T x T have none."""
    cfg = model.cfg
    point = name.rsplit(".", 1)[-1]
    if re.fullmatch(r"hook_(rot_)?[qkvz]", point):
        return cfg.n_heads * cfg.d_head
    if point in ("hook_result", "hook_q_input", "hook_k_input", "hook_v_input", "hook_attn_in"):
        return cfg.n_heads * cfg.d_model
    if ".mlp." in name:
        return cfg.d_mlp or 0
    if point == "hook_coords":
        layered = name.startswith("blocks.")
        scheme: Any = model.blocks[int(name.split(".")[1])].attn.scheme if layered else model.pos_embed
        return scheme.n_coords
    return {"hook_scale": 1, "hook_step": 2}.get(point, cfg.d_model)


def is_pattern(name: str) -> bool:
    """Whether the activation `name` has the shape H x T x T."""
    return name.endswith((".hook_attn_scores", ".hook_pattern"))


def _per_token(model: "CopyTransformer", name: str, length: int) -> int:
    """Bytes a token of one activation."""
    if is_pattern(name):
        return model.cfg.n_heads * length * 4
    return token_width(model, name) * torch.finfo(model.cfg.dtype).bits // 8
