"""Which keys a query may attend to: causal or strict, a local window, padding.

Shape letters: B batch (1 where all strings agree), Q/K query and key positions.
"""

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Bool
from torch import Tensor


@dataclass(frozen=True)
class Visibility:
    """The mask of one layer, as a rule rather than as a T x T tensor.

    Attributes:
        pad_mask: Bool[B, T] true at padding, which nobody attends to and which attends to nobody; None for none.
        strict: a token does not attend to itself.
        window: only the `window` most recent visible tokens; None for all.
    """

    pad_mask: Bool[Tensor, "B T"] | None = None
    strict: bool = False
    window: int | None = None

    @cached_property
    def plainly_causal(self) -> bool:
        """True where the causal mask alone gives every real query the right keys: pads, if any, all at the end."""
        if self.strict or self.window is not None:
            return False
        return self.pad_mask is None or not bool((self.pad_mask[:, :-1] & ~self.pad_mask[:, 1:]).any())

    def mask(self, queries: Tensor, keys: Tensor) -> Bool[Tensor, "B Q K"]:
        """Bool[B, Q, K]: may queries at positions `queries` (long[Q] or long[B, Q]) see keys at `keys` (long[K])."""
        distance = queries[..., None] - keys
        distance = distance if distance.ndim == 3 else distance[None]
        visible = distance >= (1 if self.strict else 0)
        if self.window is not None:
            visible = visible & (distance < self.window + (1 if self.strict else 0))
        if self.pad_mask is not None:
            visible = visible & ~self.pad_mask[:, keys][:, None]
            visible = visible & ~self._at(queries)[..., None]
        return visible

    def _at(self, queries: Tensor) -> Bool[Tensor, "B Q"]:
        """Bool[B, Q]: is there padding at the query positions."""
        assert self.pad_mask is not None
        if queries.ndim == 1:
            return self.pad_mask[:, queries]
        return self.pad_mask.gather(1, queries.expand(len(self.pad_mask), -1))

    def key_range(self, first: int, last: int) -> tuple[int, int]:
        """Half-open range of key positions that queries `first` to `last` (inclusive) can possibly see."""
        start = 0 if self.window is None else max(0, first - self.window + (0 if self.strict else 1))
        return start, last + 1
