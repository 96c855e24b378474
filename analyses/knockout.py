"""Knocking out attention to a class of keys, beside a control that removes the same mass at random keys.

*Masking* sets the scores of the keys to -inf before the softmax: what they held goes to the other keys. *Zeroing* sets
their weights to zero after it: what they held is lost. A row that sees no other key attends to nothing either way.

The control takes, in every row, keys outside the class in random order, each where it brings the mass removed closer to
what the class held. Where the class holds more than half of a row's mass there is not as much elsewhere, and where few
keys share the rest it cannot be met exactly: `Effect.removed` of both says what was removed.

Shape letters: B batch, T tokens, H heads, Q/K query and key positions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analyses.outcomes import Heads, Hook, Tally, check_heads, name_heads, patterns_at_once
from analyses.relations import LONGEST_CONTEXT, Relations, relations_of
from models.errors import UsageError
from models.registry import unknown
from models.tasks import CopyBatch
from models.transformer import CopyTransformer

Class = Callable[[Relations, int], Bool[np.ndarray, "T T"]]
HOW = {"mask": "masked (the rest is renormalised)", "zero": "zeroed (the rest is not renormalised)"}
ROWS = ("scored", "all")


def _at(relations: Relations, keys: np.ndarray) -> np.ndarray:
    """The key `keys[q]` of every query q, none where it is negative."""
    found = np.zeros((len(relations), len(relations)), bool)
    queries = np.flatnonzero(keys >= 0)
    found[queries, keys[queries]] = True
    return found


def _anchors(relations: Relations, _: int) -> np.ndarray:
    return np.isin(np.arange(len(relations)), relations.anchors)[None].repeat(len(relations), 0)


def _source(relations: Relations, _: int) -> np.ndarray:
    return _at(relations, relations.source_position)


def _candidates(relations: Relations, m: int) -> np.ndarray:
    return relations.context_matches(0, len(relations), longest=m) >= m


def _wrong_candidates(relations: Relations, m: int) -> np.ndarray:
    return _candidates(relations, m) & ~_source(relations, 0)


def _conflict(relations: Relations, m: int) -> np.ndarray:
    """Rows on which the true source is no candidate of order m although there are some, Bool[T, 1]."""
    candidates = _candidates(relations, m)
    scored = relations.source_position >= 0
    return (scored & candidates.any(1) & ~(candidates & _source(relations, 0)).any(1))[:, None]


def _back(relations: Relations, k: int) -> np.ndarray:
    return _at(relations, np.arange(len(relations)) - k)


def _first(relations: Relations, _: int) -> np.ndarray:
    return _at(relations, np.zeros(len(relations), np.int64))


def _duplicates(relations: Relations, _: int) -> np.ndarray:
    same = relations.tokens[:, None] == relations.tokens[None]
    return np.tril(same, -1)


# What attention can be taken away from: whether a number in brackets follows, and the keys of every query.
CLASSES: dict[str, tuple[str, Class]] = {
    "anchors": ("", _anchors),
    "source": ("", _source),
    "candidates": ("m", _candidates),
    "wrong-candidates": ("m", _wrong_candidates),
    "conflict-source": ("m", lambda relations, m: _conflict(relations, m) & _source(relations, 0)),
    "conflict-candidates": ("m", lambda relations, m: _conflict(relations, m) & _candidates(relations, m)),
    "back": ("k", _back),
    "first": ("", _first),
    "self": ("", lambda relations, _: _back(relations, 0)),
    "duplicates": ("", _duplicates),
}
_WORDS = {
    "anchors": "the anchors",
    "source": "the true source",
    "candidates": "all keys after the query's last {} tokens",
    "wrong-candidates": "keys after the query's last {} tokens that are not the true source",
    "conflict-source": "the true source where no key after the query's last {} tokens is it",
    "conflict-candidates": "keys after the query's last {} tokens where none of them is the true source",
    "back": "the token {} back",
    "first": "the first token",
    "self": "the query's own position",
    "duplicates": "earlier occurrences of the query's token",
}


@dataclass(frozen=True)
class Knockout:
    """Take away attention to a class of keys.

    Attributes:
        keys: a name in CLASSES with its number: "anchors", "source", "candidates(m)", "wrong-candidates(m)",
            "conflict-source(m)", "conflict-candidates(m)", "back(k)", "first", "self" or "duplicates"; see
            `analyses.relations` for what a true source and candidates are.
        heads: (layer, head) pairs; None for all.
        how: "mask" or "zero".
        rows: "scored" queries only, or "all".
        control: remove the same mass at random keys outside the class instead.
    """

    keys: str
    heads: Heads | None = None
    how: str = "mask"
    rows: str = "scored"
    control: bool = False

    def __post_init__(self) -> None:
        self._parsed()
        if self.how not in HOW:
            raise UsageError(unknown("way of knocking out", self.how, HOW))
        if self.rows not in ROWS:
            raise UsageError(unknown("rows", self.rows, ROWS))

    def _parsed(self) -> tuple[str, int]:
        """Name of the class and its number."""
        name, number = re.fullmatch(r"(.*?)(?:\((\d+)\))?", self.keys, re.DOTALL).groups()  # type: ignore[union-attr]
        if name not in CLASSES:
            raise UsageError(unknown("class of keys", name, CLASSES))
        letter = CLASSES[name][0]
        if bool(letter) != bool(number):
            raise UsageError(f"class of keys {self.keys!r}: write {name}{f'({letter})' * bool(letter)}")
        value = int(number or 0)
        if letter == "m" and not 1 <= value <= LONGEST_CONTEXT:
            raise UsageError(f"class of keys {self.keys!r}: m is 1 to {LONGEST_CONTEXT}")
        return name, value

    @property
    def matched(self) -> "Knockout":
        """Its control."""
        return replace(self, control=True)

    @property
    def words(self) -> str:
        """What is done, in words."""
        name, number = self._parsed()
        target = _WORDS[name].format(number)
        what = f"random keys with the mass of {target}" if self.control else target
        return f"attention of {name_heads(self.heads)} from {self.rows} rows to {what} {HOW[self.how]}"

    def strings_at_once(self, model: CopyTransformer, width: int) -> int | None:
        """As many as their patterns allow; UsageError where strings are too long."""
        return patterns_at_once(model, width)

    def hooks(self, model: CopyTransformer, batch: CopyBatch, rng: np.random.Generator, tally: Tally) -> list[Hook]:
        """Forward hooks that do it to `batch`."""
        heads = check_heads(model, self.heads)
        keys = self.matrix(batch).to(model.device)
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        point, act = ("attn_scores", _mask) if self.how == "mask" else ("pattern", _zero)
        random = generator if self.control else None
        return [
            (f"blocks.{layer}.attn.hook_{point}", partial(act, heads=indices, keys=keys, random=random, tally=tally))
            for layer, indices in heads.items()
        ]

    def matrix(self, batch: CopyBatch) -> Bool[Tensor, "B T T"]:
        """The class: which keys of which queries, those included that the query may not see."""
        name, number = self._parsed()
        found = torch.zeros(len(batch), batch.tokens.shape[1], batch.tokens.shape[1], dtype=torch.bool)
        for i in range(len(batch)):
            relations = relations_of(batch, i)
            matrix = CLASSES[name][1](relations, number)
            if self.rows == "scored":
                scored = np.isin(np.arange(len(relations)), relations.copy_rows)
                matrix = matrix & scored[:, None]
            found[i, : len(relations), : len(relations)] = torch.from_numpy(matrix)
        return found


def _mask(
    scores: Tensor, hook: object, *, heads: list[int], keys: Tensor, random: torch.Generator | None, tally: Tally
) -> Tensor:
    chosen = scores[:, heads]
    weights = torch.nan_to_num(chosen.softmax(-1))  # a row that sees nothing
    gone = _gone(weights, chosen > -torch.inf, keys, random, tally)
    scores = scores.clone()
    scores[:, heads] = chosen.masked_fill(gone, -torch.inf)
    return scores


def _zero(
    pattern: Tensor, hook: object, *, heads: list[int], keys: Tensor, random: torch.Generator | None, tally: Tally
) -> Tensor:
    weights = pattern[:, heads]
    gone = _gone(weights, torch.ones_like(weights, dtype=torch.bool), keys, random, tally)
    pattern = pattern.clone()
    pattern[:, heads] = weights.masked_fill(gone, 0.0)
    return pattern


def _gone(
    weights: Float[Tensor, "B H Q K"],
    visible: Bool[Tensor, "B H Q K"],
    keys: Bool[Tensor, "B Q K"],
    random: torch.Generator | None,
    tally: Tally,
) -> Bool[Tensor, "B H Q K"]:
    """Cells to be removed: the class, or in its place random keys of the same mass."""
    target = keys[:, None] & visible
    eligible = target.any(-1)
    gone = target if random is None else same_mass(weights, target, random)
    tally.add((weights * gone).sum(-1), eligible)
    return gone


def same_mass(
    weights: Float[Tensor, "B H Q K"], target: Bool[Tensor, "B H Q K"], random: torch.Generator
) -> Bool[Tensor, "B H Q K"]:
    """Random cells outside `target` whose weights in each row come as close to the target's as a greedy choice does."""
    rows = target.any(-1)
    held, outside = weights[rows], weights.masked_fill(target, 0.0)[rows]  # [rows, K]
    wanted = (held * target[rows]).sum(-1)
    order = torch.rand(outside.shape, generator=random).to(weights.device).argsort(-1)
    shuffled = outside.gather(1, order)
    taken, total = torch.zeros_like(shuffled, dtype=torch.bool), torch.zeros_like(wanted)
    for place in range(shuffled.shape[1]):
        weight = shuffled[:, place]
        closer = (weight > 0) & ((total + weight - wanted).abs() < (total - wanted).abs())
        taken[:, place] = closer
        total = total + weight * closer
    gone = torch.zeros_like(target)
    gone[rows] = torch.zeros_like(taken).scatter(1, order, taken)
    return gone


@dataclass(frozen=True)
class Flatten:
    """Let heads attend to all keys they see alike.

    Attributes:
        heads: (layer, head) pairs; None for all.
    """

    heads: Heads | None

    @property
    def words(self) -> str:
        """What is done, in words."""
        return f"attention of {name_heads(self.heads)} spread evenly over all visible keys"

    def strings_at_once(self, model: CopyTransformer, width: int) -> int | None:
        """As many as their patterns allow; UsageError where strings are too long."""
        return patterns_at_once(model, width)

    def hooks(self, model: CopyTransformer, batch: CopyBatch, rng: np.random.Generator, tally: Tally) -> list[Hook]:
        """Forward hooks that do it to `batch`."""
        return [
            (f"blocks.{layer}.attn.hook_attn_scores", partial(_flatten, heads=indices))
            for layer, indices in check_heads(model, self.heads).items()
        ]


def _flatten(scores: Tensor, hook: object, *, heads: list[int]) -> Tensor:
    scores = scores.clone()
    scores[:, heads] = torch.where(scores[:, heads] > -torch.inf, 0.0, -torch.inf)
    return scores
