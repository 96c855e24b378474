"""Hand-built models with heads of known role: ground truth for whatever classifies heads.

`base.py` is the registry, one file a family; `theorem.py` is theorem 3.1 of [C2D] as a check that runs.
"""

from models.constructions import aligned, fixed, hybrid, induction, locator
from models.constructions.base import CONSTRUCTIONS, Construction, ExpectedRole
from models.constructions.theorem import Case, Contradiction, contradict

__all__ = [
    "CONSTRUCTIONS",
    "Case",
    "Construction",
    "Contradiction",
    "ExpectedRole",
    "aligned",
    "contradict",
    "fixed",
    "hybrid",
    "induction",
    "locator",
]
