"""Positional schemes, one registry.

`base.py` is the interface, `rotary.py`, `auto2d.py` and `unrotated.py` are the schemes.
"""

from models.positions.auto2d import Auto2D, compose_steps
from models.positions.base import (
    ALTERNATIONS,
    SCHEMES,
    Places,
    Scheme,
    SchemeSettings,
    build_scheme,
    parse_scheme,
)
from models.positions.rotary import geometric_frequencies, rotate
from models.positions.unrotated import ALiBi

__all__ = [
    "ALTERNATIONS",
    "SCHEMES",
    "ALiBi",
    "Auto2D",
    "Places",
    "Scheme",
    "SchemeSettings",
    "build_scheme",
    "compose_steps",
    "geometric_frequencies",
    "parse_scheme",
    "rotate",
]
