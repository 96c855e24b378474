"""Auto-2D-RoPE: coordinates composed from learned steps, then rotated like 2D-RoPE ([C2D] appendix F).

Coordinates are not whole-numbered, so frequencies cannot be reduced modulo 2 pi beforehand. At coordinate 10^6 the
factor is off by less than 3e-7 for bases from 1e-4 up, by 2e-3 at 1e-8, and is meaningless at 1e-12.
"""

from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from models.positions.base import SCHEMES, Places
from models.positions.rotary import Geometric, Rotary2DSettings


@SCHEMES.register("auto2d")
class Auto2D(Geometric):
    """Token i moves its successor: column' = u column + v, row' = row + (1 - u), both from 0.

    (a, b) = W_pos h + b_pos, u = alpha sigmoid(a), v = alpha sigmoid(b), shared by the heads of a layer. u = v = 1
    is "next column", u = v = 0 is "new row". Token i uses the value before its own update. A column that never
    resets saturates at v / (1 - u).

    Attributes:
        W_pos: [D, 2].
        b_pos: [2].
    """

    n_coords = 2
    learns_steps = True
    reduced = False

    class Settings(Rotary2DSettings):
        """Settings of Auto-2D-RoPE.

        Attributes:
            alpha: scale of the steps.
            reads: h is the normed attention input (the paper's synthetic code) or the raw residual (its LLM code).
            bias_init: initial b_pos for u and v: sigmoid(2) = .88, between counting columns and starting rows.
        """

        scheme: Literal["auto2d"] = "auto2d"
        alpha: float = Field(1.0, gt=0, le=2)
        reads: Literal["normed", "raw"] = "normed"
        bias_init: float = Field(2.0, ge=-50, le=50)

    settings: "Auto2D.Settings"

    def __init__(self, settings: "Auto2D.Settings", **widths: int) -> None:
        super().__init__(settings, **widths)
        self.W_pos = nn.Parameter(torch.zeros(self.d_model, 2))
        self.b_pos = nn.Parameter(torch.full((2,), float(settings.bias_init)))

    def steps(self, normed: Float[Tensor, "B T D"], raw: Float[Tensor, "B T D"]) -> Float[Tensor, "B T 2"]:
        """Float32[B, T, 2]: (u, v) of every token, in (0, alpha)."""
        h = normed if self.settings.reads == "normed" else raw
        with torch.autocast(h.device.type, enabled=False):
            return self.settings.alpha * torch.sigmoid(h.float() @ self.W_pos.float() + self.b_pos.float())

    def coordinates(self, places: Places, steps: Float[Tensor, "B T 2"] | None) -> Float[Tensor, "B T 2"]:
        """Float32[B, T, 2]: (row, column) by composing the steps; padding does not move."""
        assert steps is not None
        u, v = steps.unbind(-1)
        if places.pad_mask is not None:
            u = torch.where(places.pad_mask, 1.0, u)
            v = torch.where(places.pad_mask, 0.0, v)
        column, row = compose_steps(u, v)
        return torch.stack([row, column], dim=-1)


def compose_steps(u: Float[Tensor, "B T"], v: Float[Tensor, "B T"]) -> tuple[Tensor, Tensor]:
    """Columns and rows (float32[B, T]) before each token's own step, by an associative scan in O(log T) steps.

    The maps column -> u column + v compose as (u2, v2) o (u1, v1) = (u2 u1, u2 v1 + v2). Scanned in float64 where
    the device has it, so that rounding does not grow with T; differentiable in u and v.
    """
    wide = torch.float32 if u.device.type == "mps" else torch.float64
    gain, offset = u.to(wide), v.to(wide)
    row = (1 - gain).cumsum(1)
    span = 1
    while span < gain.shape[1]:
        offset = torch.cat([offset[:, :span], gain[:, span:] * offset[:, :-span] + offset[:, span:]], dim=1)
        gain = torch.cat([gain[:, :span], gain[:, span:] * gain[:, :-span]], dim=1)
        span *= 2
    start = torch.zeros_like(row[:, :1])
    shift = [torch.cat([start, after[:, :-1]], dim=1).float() for after in (offset, row)]
    return shift[0], shift[1]
