"""What a construction is, and how its weights are written: a registry of models whose heads have a known role.

The model object says nothing of the roles: they stand in the registry alone, so that nothing that reads a model can
read them off it.

The residual stream, D wide, holds the token's one-hot vector (V), what heads write for later layers, the logits (V).
Shape letters: V vocabulary, D model width, E head width, P = E/2 rotary planes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Complex, Float
from torch import Tensor

from models.config import EvaluationSettings, Mark, ModelSettings, Recipe, TaskSettings
from models.distributions import DISTRIBUTIONS
from models.errors import UsageError
from models.layers import Attention
from models.positions.rotary import Rotary
from models.registry import Registry
from models.tasks import CopyTask, Vocabulary
from models.transformer import CopyTransformer

# Distributions that any alphabet has and that need no settings of their own.
ANY = ("uniform", "imbalanced", "recursive-flip", "repeat-structure")

Write = Callable[[CopyTransformer], None]


@dataclass(frozen=True)
class ExpectedRole:
    """The role that one head was built for, by the labels of `analyses.heads`."""

    layer: int
    head: int
    role: str


@dataclass(frozen=True)
class Construction:
    """Hand-built weights with heads of known role.

    Attributes:
        name: by which it is addressed, `built:NAME`.
        description: one line.
        task: what it reads.
        model: the architecture.
        write: sets the weights of a model whose weights are all zero but the embedding and the unembedding.
        roles: of every head, `roles[layer][head]`.
        distributions: on which the roles are defined (the model may not be exact on all of them).
        longest: length of the longest source string on which they are.
        marks: exact match that is claimed, as in a recipe; `at_most` is where it must fail. Empty where the model
            copies nothing.
        claims: what holds, and how far, in words.
    """

    name: str
    description: str
    task: TaskSettings
    model: ModelSettings
    write: Write
    roles: tuple[tuple[str, ...], ...]
    distributions: tuple[str, ...]
    longest: int
    marks: tuple[Mark, ...] = ()
    claims: tuple[str, ...] = ()

    @property
    def expected(self) -> tuple[ExpectedRole, ...]:
        """One a head, in order."""
        return tuple(
            ExpectedRole(layer, head, role) for layer, heads in enumerate(self.roles) for head, role in enumerate(heads)
        )

    @property
    def recipe(self) -> Recipe:
        """Task, architecture and marks, as tools expect them of a model; its training settings mean nothing."""
        lengths = [(n, n) for n in (20, 100, 500, 1000) if n <= self.longest]
        return Recipe(
            name=self.name,
            description=self.description,
            task=self.task,
            model=self.model,
            evaluation=EvaluationSettings(intervals=tuple(lengths), distributions=self.distributions),
            marks=self.marks,
        )

    def build(self, device: torch.device | str = "cpu") -> CopyTransformer:
        """Return the model."""
        vocabulary = CopyTask(self.task).vocabulary
        model = CopyTransformer(self.model, vocabulary)
        size = len(vocabulary)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.rsplit(".", 1)[-1] != "w":
                    weight.zero_()
            model.embed.W_E[:, :size] = torch.eye(size)
            model.unembed.W_U[-size:] = torch.eye(size)
            self.write(model)
        return model.to(device).eval()


CONSTRUCTIONS: Registry[Construction] = Registry("construction")


def add(construction: Construction) -> None:
    """File `construction` under its name; raises UsageError where the name is taken or a setting cannot be."""
    for name in construction.distributions:
        DISTRIBUTIONS[name]
    if tuple(len(heads) for heads in construction.roles) != construction.model.heads:
        raise UsageError(f"construction {construction.name!r}: give the role of every head")
    CONSTRUCTIONS.register(construction.name)(construction)


def architecture(vocabulary: Vocabulary, *, between: int = 0, **values: Any) -> ModelSettings:
    """Return an attention-only architecture without norms; `between` dimensions lie between tokens and logits."""
    plain: dict[str, Any] = {"d_mlp": 0, "normalization": "none", "final_norm": False, "tied": False}
    return ModelSettings.model_validate(plain | {"d_model": 2 * len(vocabulary) + between} | values)


def exact(lengths: tuple[int, ...], distributions: tuple[str, ...], strings: int = 10) -> tuple[Mark, ...]:
    """Marks that claim every string."""
    return tuple(Mark(length=n, distributions=distributions, strings=strings, at_least=1.0) for n in lengths)


def fails(lengths: tuple[int, ...], distributions: tuple[str, ...], at_most: float = 0.0) -> tuple[Mark, ...]:
    """Marks that claim failure."""
    return tuple(Mark(length=n, distributions=distributions, strings=10, at_most=at_most) for n in lengths)


def planes(values: Complex[np.ndarray, "P"]) -> Float[Tensor, "E"]:
    """Float32[E]: a complex number a rotary plane as adjacent pairs, the layout of `models.positions.rotate`."""
    return torch.tensor(np.stack([values.real, values.imag], axis=-1).ravel(), dtype=torch.float32)


def frequencies_of(attn: Attention) -> Float[np.ndarray, "P"]:
    """Rad per position of every plane of a layer whose scheme rotates."""
    assert isinstance(attn.scheme, Rotary)
    return attn.scheme.frequencies()


def attend_at(
    attn: Attention, head: int, offsets: Float[np.ndarray, "P"], gain: float | Float[np.ndarray, "P"], size: int
) -> None:
    """Make a head attend at fixed coordinate offsets, whatever the tokens.

    Key 1 and query gain_p exp(-i f_p offset_p) in every plane p give the score
    sum_p gain_p cos(f_p (c_p(query) - c_p(key) - offset_p)), largest where every coordinate lies `offset_p` back.
    """
    frequencies = frequencies_of(attn)
    query = gain * np.exp(-1j * np.remainder(frequencies * offsets, 2 * np.pi))
    attn.W_Q[head, :size] = planes(query) / attn.scale
    attn.W_K[head, :size] = planes(np.ones(len(frequencies)))


def write_logits(model: CopyTransformer, layer: int, head: int, weight: float = 1.0) -> None:
    """Make a head write the logit of the source token it attends to, and EOS for B1; anything else writes nothing."""
    attn, vocabulary = model.blocks[layer].attn, model.vocabulary
    logits = model.settings.d_model - len(vocabulary)
    answers = {token: token for token in range(vocabulary.alphabet)} | {vocabulary.delimiter[0]: vocabulary.eos}
    for dimension, (token, answer) in enumerate(answers.items()):
        attn.W_V[head, token, dimension] = 1.0
        attn.W_O[head, dimension, logits + answer] = weight
