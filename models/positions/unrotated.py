"""Schemes that do not rotate: NoPE, local attention, ALiBi, and those added to the embedding."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from models.errors import UsageError
from models.positions.base import SCHEMES, DoubleTables, Scheme, SchemeSettings
from models.positions.rotary import TWO_PI, Base, Period, geometric_frequencies

Slope = Annotated[float, Field(ge=0, le=1e6)]


@SCHEMES.register("nope")
class NoPE(Scheme):
    """No positional information but the causal mask."""

    class Settings(SchemeSettings):
        """Settings of NoPE."""

        scheme: Literal["nope"] = "nope"


@SCHEMES.register("local")
class Local(Scheme):
    """NoPE that sees only the `window` most recent tokens. Any other scheme takes a `window` too."""

    class Settings(SchemeSettings):
        """Settings of local attention."""

        scheme: Literal["local"] = "local"
        window: int | None = Field(16, ge=1)


@SCHEMES.register("alibi")
class ALiBi(Scheme):
    """Adds -slope_h * (i - j) to the score, slope_h = 2^(-8h/H) for h = 1..H (Press et al. 2022)."""

    n_coords = 1
    has_bias = True

    class Settings(SchemeSettings):
        """Settings of ALiBi.

        Attributes:
            slopes: one a head, instead of the ones above (for hand-built models).
        """

        scheme: Literal["alibi"] = "alibi"
        slopes: tuple[Slope, ...] | None = None

    settings: "ALiBi.Settings"

    def __init__(self, settings: "ALiBi.Settings", **widths: int) -> None:
        super().__init__(settings, **widths)
        if settings.slopes is not None and len(settings.slopes) != self.n_heads:
            raise UsageError(f"{len(settings.slopes)} slopes for {self.n_heads} heads; give one a head")

    @property
    def slopes(self) -> list[float]:
        """One a head."""
        if self.settings.slopes is not None:
            return list(self.settings.slopes)
        return [2.0 ** (-8 * (h + 1) / self.n_heads) for h in range(self.n_heads)]

    def bias(self, query: Float[Tensor, "B Q 1"], key: Float[Tensor, "B K 1"]) -> Float[Tensor, "B H Q K"]:
        """See Scheme.bias."""
        distance = query[:, :, 0, None] - key[:, None, :, 0]
        slopes = torch.tensor(self.slopes, device=query.device, dtype=torch.float32)
        return -slopes[None, :, None, None] * distance[:, None]


class AtEmbedding(Scheme):
    """Base of absolute schemes: added once, to the token embedding; attention itself is position-free."""

    n_coords = 1
    at_embedding = True


@SCHEMES.register("learned")
class Learned(AtEmbedding):
    """A learned vector for every position below `max_positions`.

    Attributes:
        W_pos: [max_positions, D].
    """

    class Settings(SchemeSettings):
        """Settings of the learned table; positions at or past `max_positions` are an error."""

        scheme: Literal["learned"] = "learned"
        max_positions: int = Field(1024, ge=1, le=1_000_000)

    def __init__(self, settings: "Learned.Settings", **widths: int) -> None:
        super().__init__(settings, **widths)
        self.W_pos = nn.Parameter(torch.zeros(settings.max_positions, self.d_model))

    def embedding(self, coords: Float[Tensor, "B T 1"]) -> Float[Tensor, "B T D"]:
        """See Scheme.embedding. Raises UsageError for a position outside the table."""
        index = coords[..., 0].round().long()
        size = self.W_pos.shape[0]
        if index.numel() and (int(index.max()) >= size or int(index.min()) < 0):
            given = f"positions {int(index.min())} to {int(index.max())}"
            raise UsageError(
                f"{given} were given to a learned table of {size}; shorten the input, keep hooked coordinates inside "
                f"it, or raise max_positions and retrain"
            )
        return self.W_pos[index]


class SinusoidSettings(SchemeSettings):
    """Settings of sinusoids; `scale` multiplies them (the embedding's std is .02 at initialisation)."""

    scale: float = Field(0.02, gt=0, le=100)

    def check(self, d_head: int, d_model: int) -> None:
        """d_model must be even."""
        if d_model % 2:
            raise UsageError(f"d_model = {d_model} cannot hold sine-cosine pairs; it must be divisible by 2")


class SinusoidBase(DoubleTables, AtEmbedding):
    """Pairs (sin, cos) of an angle a plane, adjacent dimensions."""

    settings: SinusoidSettings
    _frequency: Tensor

    def angles(self, coordinate: Tensor) -> Tensor:
        """Float64[..., D/2] at float64[..., 1]."""
        raise NotImplementedError

    def embedding(self, coords: Float[Tensor, "B T 1"]) -> Float[Tensor, "B T D"]:
        """See Scheme.embedding."""
        angle = self.angles(coords.to(self._frequency.device).double()).float()
        pairs = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
        return self.settings.scale * pairs.to(coords.device)


@SCHEMES.register("sinusoidal")
class Sinusoidal(SinusoidBase):
    """sin and cos of index * theta^(-2j/D) (Vaswani et al. 2017)."""

    class Settings(SinusoidSettings):
        """Settings of sinusoids."""

        scheme: Literal["sinusoidal"] = "sinusoidal"
        theta: Base = 10_000.0

    def __init__(self, settings: "Sinusoidal.Settings", **widths: int) -> None:
        super().__init__(settings, **widths)
        frequencies = geometric_frequencies(settings.theta, self.d_model // 2, reduced=True)
        self.table("_frequency", torch.from_numpy(frequencies))

    def angles(self, coordinate: Tensor) -> Tensor:
        """See SinusoidBase.angles."""
        return (coordinate * self._frequency).remainder(TWO_PI)


@SCHEMES.register("periodic-sinusoidal")
class PeriodicSinusoidal(SinusoidBase):
    """sin and cos of 2 pi (i mod m_j) / m_j with an integer period a plane ([EXR], SiPE)."""

    class Settings(SinusoidSettings):
        """Settings of periodic sinusoids; `periods` are dealt to the planes in turn."""

        scheme: Literal["periodic-sinusoidal"] = "periodic-sinusoidal"
        periods: tuple[Period, ...] = Field((2, 3, 4, 5, 6, 7, 8), min_length=1)

    def __init__(self, settings: "PeriodicSinusoidal.Settings", **widths: int) -> None:
        super().__init__(settings, **widths)
        periods = torch.tensor(settings.periods, dtype=torch.float64)
        self.table("_frequency", periods[torch.arange(self.d_model // 2) % len(periods)])

    def angles(self, coordinate: Tensor) -> Tensor:
        """See SinusoidBase.angles."""
        return coordinate.remainder(self._frequency) / self._frequency * TWO_PI
