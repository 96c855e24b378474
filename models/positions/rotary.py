"""Rotary schemes: RoPE, partial, random-frequency and periodic RoPE, and 2D-RoPE.

Layout: plane j of a head is the adjacent pair of dimensions (2j, 2j + 1), turned as one complex number. In the 2D
schemes the first half of the planes turns with the row, the second half with the column.

Precision: frequencies are computed with 80 digits and reduced modulo 2 pi before they become float64 (exact for
whole-numbered coordinates), and angle = coordinate * frequency is reduced in float64 before cos and sin are taken
in float32. At position 10^6 the angle is off by less than 1e-9 rad for every base from 1e-12 to 1e12, and the
float32 factor by less than 3e-7.
"""

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Complex, Float
from pydantic import Field
from torch import Tensor

from models.errors import UsageError
from models.positions.base import SCHEMES, DoubleTables, Scheme, SchemeSettings

TWO_PI = 2 * torch.pi
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")

Base = Annotated[float, Field(ge=1e-30, le=1e30)]
Period = Annotated[int, Field(ge=1, le=1_000_000)]


class PlaneSettings(SchemeSettings):
    """Settings of a scheme that turns planes; d_head must be divisible by `divisor`: 2, or 4 for rows and columns."""

    divisor: ClassVar[int] = 2

    def check(self, d_head: int, d_model: int) -> None:
        """d_head must be divisible by the divisor."""
        if d_head % self.divisor:
            split = "pairs of dimensions" if self.divisor == 2 else "rows and columns of pairs"
            raise UsageError(
                f"d_head = {d_head} cannot be split into {split} by {self.scheme}; "
                f"it must be divisible by {self.divisor}"
            )


class RotarySettings(PlaneSettings):
    """Settings of rotary schemes.

    Attributes:
        theta: base of the frequencies.
        frequencies: one a plane in rad per position, instead of the ones from theta (for hand-built models).
    """

    theta: Base = 10_000.0
    frequencies: tuple[float, ...] | None = None

    def check(self, d_head: int, d_model: int) -> None:
        """See PlaneSettings.check; explicit frequencies must be one a plane."""
        super().check(d_head, d_model)
        if self.frequencies is not None and len(self.frequencies) != d_head // 2:
            raise UsageError(
                f"{len(self.frequencies)} frequencies for {d_head // 2} planes (d_head / 2); give one a plane"
            )


class Rotary2DSettings(RotarySettings):
    """Settings of the 2D rotary schemes; theta 100 is the paper's for synthetic data, 1000 for language."""

    divisor: ClassVar[int] = 4
    theta: Base = 100.0


def geometric_frequencies(theta: float, n: int, *, reduced: bool) -> np.ndarray:
    """Float64[n] frequencies theta^(-j/n), j = 0..n-1, in rad per position.

    With n = d_head/2 planes this is RoPE's theta^(-2j/d_head), with n = d_head/4 it is 2D-RoPE's theta^(-4j/d_head)
    ([C2D] section 4.1). `reduced` takes them modulo 2 pi, which changes nothing at whole-numbered positions.
    """
    return np.array(_geometric(theta, n, reduced))


@lru_cache(maxsize=64)
def _geometric(theta: float, n: int, reduced: bool) -> tuple[float, ...]:
    with localcontext() as context:
        context.prec = 80
        log_theta = Decimal(theta).ln()
        exact = [(-log_theta * j / n).exp() for j in range(n)]
        return tuple(float(value % (2 * _PI) if reduced else value) for value in exact)


class Rotary(DoubleTables, Scheme):
    """Base of the rotary schemes: plane j turns by frequency[j] * coordinate[axis[j]] ([C2D] appendix G)."""

    n_coords = 1
    _frequency: Tensor

    def __init__(self, settings: SchemeSettings, **widths: int) -> None:
        super().__init__(settings, **widths)
        self.table("_frequency", torch.from_numpy(self.frequencies()))

    def frequencies(self) -> np.ndarray:
        """Float64[P] in rad per unit of coordinate."""
        raise NotImplementedError

    @property
    def plane_frequencies(self) -> np.ndarray:
        """Float64[P] rad by which every plane turns from one unit of its coordinate to the next."""
        return self.frequencies()

    def angles(self, coordinate: Float[Tensor, "... 1"], planes: slice) -> Float[Tensor, "... P"]:
        """Float64[..., P] angles in [0, 2 pi) of the planes `planes` at `coordinate` (float64[..., 1])."""
        return (coordinate * self._frequency[planes]).remainder(TWO_PI)

    def rotation(self, coords: Float[Tensor, "B T C"], *, whole: bool) -> Complex[Tensor, "B T P"]:
        """See Scheme.rotation. Whole-numbered coordinates look their angle up in a table of T rows."""
        planes = self.d_head // 2 // self.n_coords
        parts = []
        for axis in range(self.n_coords):
            part = slice(axis * planes, (axis + 1) * planes)
            coordinate = coords[..., axis].to(self._frequency.device)
            if whole:
                every = torch.arange(coords.shape[1], device=self._frequency.device, dtype=torch.float64)
                table = _unit(self.angles(every[:, None], part))
                parts.append(table[coordinate.long()])
            else:
                parts.append(_unit(self.angles(coordinate.double()[..., None], part)))
        factors = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return factors.to(coords.device)


def _unit(angles: Tensor) -> Tensor:
    """exp(i * angle) as complex64, the angle reduced in float64 before."""
    small = angles.float()
    return torch.complex(small.cos(), small.sin())


def rotate(x: Float[Tensor, "B T H E"], factors: Complex[Tensor, "B T P"]) -> Float[Tensor, "B T H E"]:
    """Turn every plane of every head, in float32 whatever x's dtype; the result has x's dtype."""
    planes = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(planes * factors[:, :, None]).flatten(-2).to(x.dtype)


class Geometric(Rotary):
    """Base of schemes whose frequencies fall geometrically, the same along each axis, or are given one a plane."""

    settings: RotarySettings
    reduced: ClassVar[bool] = True

    def frequencies(self) -> np.ndarray:
        """See Rotary.frequencies."""
        if self.settings.frequencies is not None:
            return np.array(self.settings.frequencies, dtype=np.float64)
        planes = self.d_head // 2 // self.n_coords
        return np.tile(geometric_frequencies(self.settings.theta, planes, reduced=self.reduced), self.n_coords)


@SCHEMES.register("rope")
class RoPE(Geometric):
    """Plane j turned by index * theta^(-2j/d_head) (Su et al. 2024)."""

    class Settings(RotarySettings):
        """Settings of RoPE."""

        scheme: Literal["rope"] = "rope"


@SCHEMES.register("rope2d")
class RoPE2D(Geometric):
    """2D-RoPE: half of the planes turned by row, half by column, frequencies theta^(-4j/d_head) shared ([C2D] 4.1)."""

    n_coords = 2

    class Settings(Rotary2DSettings):
        """Settings of 2D-RoPE."""

        scheme: Literal["rope2d"] = "rope2d"


@SCHEMES.register("partial-rope")
class PartialRoPE(Rotary):
    """RoPE on the first `fraction` of the planes; the others are not turned and see content only.

    The turned planes have the frequencies of a head of their own width, theta^(-j/turned).
    """

    class Settings(PlaneSettings):
        """Settings of partial RoPE; `fraction` is the share of planes that turn."""

        scheme: Literal["partial-rope"] = "partial-rope"
        theta: Base = 10_000.0
        fraction: float = Field(0.5, ge=0, le=1)

    settings: "PartialRoPE.Settings"

    def frequencies(self) -> np.ndarray:
        """See Rotary.frequencies: zero for the planes that are left alone."""
        planes = self.d_head // 2
        turned = round(self.settings.fraction * planes)
        return np.append(geometric_frequencies(self.settings.theta, turned, reduced=True), np.zeros(planes - turned))


class RandomSettings(PlaneSettings):
    """Settings of random-frequency schemes; `seed` decides the frequencies, each layer has its own."""

    seed: int = Field(0, ge=0, lt=2**32)


class RandomFrequencies(Rotary):
    """Frequencies drawn from U[0, 2 pi], independent for every plane: what theorems 4.1 and 4.2 of [C2D] assume."""

    settings: RandomSettings

    def frequencies(self) -> np.ndarray:
        """See Rotary.frequencies."""
        rng = np.random.default_rng([self.settings.seed, self.layer])
        return rng.uniform(0, 2 * np.pi, self.d_head // 2)


@SCHEMES.register("random-rope")
class RandomRoPE(RandomFrequencies):
    """RoPE with random frequencies."""

    class Settings(RandomSettings):
        """Settings of random-frequency RoPE."""

        scheme: Literal["random-rope"] = "random-rope"


@SCHEMES.register("random-rope2d")
class RandomRoPE2D(RandomFrequencies):
    """2D-RoPE with d_head/2 independent random frequencies."""

    n_coords = 2

    class Settings(RandomSettings):
        """Settings of random-frequency 2D-RoPE."""

        divisor: ClassVar[int] = 4
        scheme: Literal["random-rope2d"] = "random-rope2d"


@SCHEMES.register("periodic-rope")
class PeriodicRoPE(Rotary):
    """Plane j has an integer period m_j: angle 2 pi (i mod m_j) / m_j ([EXR]); period 1 is an unturned plane.

    The remainder is taken before the angle, never by rounding i * frequency, so the pattern repeats exactly.
    """

    class Settings(PlaneSettings):
        """Settings of periodic RoPE; `periods` are dealt to the planes in turn."""

        scheme: Literal["periodic-rope"] = "periodic-rope"
        periods: tuple[Period, ...] = Field((1, 2, 3, 4, 5, 6, 7, 8), min_length=1)

    settings: "PeriodicRoPE.Settings"

    def frequencies(self) -> np.ndarray:
        """Float64[P]: the periods themselves stand in for frequencies, see `angles`."""
        return np.resize(np.array(self.settings.periods, dtype=np.float64), self.d_head // 2)

    @property
    def plane_frequencies(self) -> np.ndarray:
        """See Rotary.plane_frequencies: 2 pi / m_j."""
        return TWO_PI / self.frequencies()

    def angles(self, coordinate: Float[Tensor, "... 1"], planes: slice) -> Float[Tensor, "... P"]:
        """See Rotary.angles."""
        period = self._frequency[planes]
        return coordinate.remainder(period) / period * TWO_PI
