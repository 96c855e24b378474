"""The interface between a positional scheme and the one attention module, and where tokens stand.

A scheme answers up to four questions for its layer: what coordinates the tokens have, how a coordinate rotates
queries and keys, what a pair of coordinates adds to a score, and (for schemes `at_embedding`) what a coordinate
adds to the embedding. Everything else (masks, softmax, hooks) is the attention module's.

Shape letters: B batch (1 where all strings agree), T tokens, H heads, E head width, P = E/2 rotary planes,
D model width, C coordinates (1, or 2 = row, column), Q/K query and key positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Complex, Float, Int
from pydantic import Field
from torch import Tensor, nn

from models.errors import UsageError
from models.registry import Registry, unknown
from models.settings import Settings, parse

SCHEMES: Registry[type["Scheme"]] = Registry("positional scheme")

# Schemes that are only an alternation over layers: a name that stands for several schemes.
ALTERNATIONS: dict[str, tuple[str, ...]] = {"rnope": ("rope", "nope"), "hrope": ("rope", "rope2d")}


class SchemeSettings(Settings):
    """Settings common to all schemes.

    Attributes:
        scheme: the registered name.
        window: local attention, a query sees only its `window` most recent visible tokens; unset sees all.
    """

    scheme: str
    window: int | None = Field(None, ge=1)

    def check(self, d_head: int, d_model: int) -> None:
        """Raise UsageError where the scheme cannot have this head or model width."""


@dataclass(frozen=True)
class Places:
    """Where the tokens of a batch stand; padding takes no place.

    Attributes:
        tokens: Long[B, T].
        pad_mask: Bool[B, T] true at padding, or None where there is none.
        newline: id of the token after which a new row starts, or None.
    """

    tokens: Int[Tensor, "B T"]
    pad_mask: Bool[Tensor, "B T"] | None = None
    newline: int | None = None

    @cached_property
    def index(self) -> Int[Tensor, "B T"]:
        """Long[B or 1, T]: 0-based index among the real tokens; a pad has its predecessor's (0 at the start)."""
        if self.pad_mask is None:
            return torch.arange(self.tokens.shape[1], device=self.tokens.device)[None]
        return ((~self.pad_mask).long().cumsum(1) - 1).clamp_min(0)

    @cached_property
    def row_column(self) -> Int[Tensor, "B T 2"]:
        """Long[B, T, 2]: (row, column) by line breaks; the break itself is still on the old row ([C2D] section 4.1)."""
        index = self.index.expand(self.tokens.shape)
        if self.newline is None:
            return torch.stack([torch.zeros_like(index), index], dim=-1)
        is_break = self.tokens == self.newline
        if self.pad_mask is not None:
            is_break = is_break & ~self.pad_mask
        row = is_break.long().cumsum(1) - is_break.long()
        # A break ends its row, so it says where the next one starts; the last slot takes what the others write.
        starts = torch.zeros(len(row), row.shape[1] + 2, dtype=torch.long, device=row.device)
        starts.scatter_(1, torch.where(is_break, row + 1, row.shape[1] + 1), index + 1)
        return torch.stack([row, (index - starts.gather(1, row)).clamp_min(0)], dim=-1)


class Scheme(nn.Module):
    """What one layer knows about position. The base class knows nothing: it is NoPE.

    Attributes:
        Settings: the pydantic class of the scheme's settings.
        n_coords: coordinates a token has: 0, 1 (index), or 2 (row, column).
        at_embedding: true where the scheme adds to the embedding and attention itself is position-free.
        learns_steps: true where coordinates are composed from learned steps (u, v), see Auto-2D.
        has_bias: true where `bias` adds to the scores.
        settings: this instance's settings.
        d_model, d_head, n_heads: the widths it serves.
    """

    Settings: ClassVar[type[SchemeSettings]] = SchemeSettings
    n_coords: ClassVar[int] = 0
    at_embedding: ClassVar[bool] = False
    learns_steps: ClassVar[bool] = False
    has_bias: ClassVar[bool] = False

    def __init__(self, settings: SchemeSettings, *, d_model: int, d_head: int, n_heads: int, layer: int) -> None:
        super().__init__()
        self.settings = settings
        self.d_model, self.d_head, self.n_heads, self.layer = d_model, d_head, n_heads, layer

    def steps(self, normed: Float[Tensor, "B T D"], raw: Float[Tensor, "B T D"]) -> Float[Tensor, "B T 2"]:
        """Learned steps (u, v) of every token, for schemes with `learns_steps`."""
        raise NotImplementedError(f"{type(self).__name__} does not learn steps")

    def coordinates(self, places: Places, steps: Float[Tensor, "B T 2"] | None) -> Float[Tensor, "B T C"]:
        """Float32[B or 1, T, C] coordinates of every token."""
        return places.index[..., None].float() if self.n_coords == 1 else places.row_column.float()

    def rotation(self, coords: Float[Tensor, "B T C"], *, whole: bool) -> Complex[Tensor, "B T P"] | None:
        """Complex64[B or 1, T, P] factors that turn each plane, or None where nothing is rotated.

        `whole` says that every coordinate is a whole number below T, which allows a table.
        """
        return None

    def bias(self, query: Float[Tensor, "B Q C"], key: Float[Tensor, "B K C"]) -> Float[Tensor, "B H Q K"]:
        """Float32[B or 1, H, Q, K] added to the scaled scores, for schemes with `has_bias`."""
        raise NotImplementedError(f"{type(self).__name__} adds nothing to the scores")

    def embedding(self, coords: Float[Tensor, "B T C"]) -> Float[Tensor, "B T D"]:
        """What is added to the token embedding, for schemes `at_embedding`."""
        raise NotImplementedError(f"{type(self).__name__} adds nothing to the embedding")


def parse_scheme(value: Any) -> SchemeSettings:
    """Return scheme settings from a name, a table `{scheme = "rope", theta = 100}`, or settings.

    Raises UsageError for an unknown scheme or field.
    """
    if isinstance(value, SchemeSettings):
        return value
    table = {"scheme": value} if isinstance(value, str) else value
    if not isinstance(table, dict) or not isinstance(table.get("scheme"), str):
        raise UsageError(f"{value!r} is no positional scheme; give a name, or a table with a `scheme` field")
    name = table["scheme"]
    if name in ALTERNATIONS:
        parts = ", ".join(ALTERNATIONS[name])
        raise UsageError(f"{name!r} alternates over layers and is not one scheme; give a list of its schemes: {parts}")
    if name not in SCHEMES:
        raise UsageError(unknown(SCHEMES.kind, name, [*SCHEMES, *ALTERNATIONS]))
    return parse(SCHEMES[name].Settings, table, f"scheme {name}")


def build_scheme(settings: SchemeSettings, *, d_model: int, d_head: int, n_heads: int, layer: int) -> Scheme:
    """Return the module that implements `settings` for one layer."""
    settings.check(d_head, d_model)
    return SCHEMES[settings.scheme](settings, d_model=d_model, d_head=d_head, n_heads=n_heads, layer=layer)


class DoubleTables(nn.Module):
    """Keeps float64 tables float64 whatever dtype the model is cast to; they follow it between devices only.

    MPS has no float64: there the tables stay on the CPU.
    """

    def table(self, name: str, values: Tensor) -> None:
        """Register a float64 table that is rebuilt from settings and so not part of the state dict."""
        self.register_buffer(name, values.double(), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "DoubleTables":
        tables, self._buffers = self._buffers, {}
        super()._apply(fn, recurse)
        probe = fn(torch.zeros(1))
        device = torch.device("cpu") if probe.device.type == "mps" else probe.device
        self._buffers = {name: None if buffer is None else buffer.to(device) for name, buffer in tables.items()}
        return self
