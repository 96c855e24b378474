"""Every head at one row of one copy: what it attended to, by kind of key, and what its attended mix would have copied.

Shape letters: T tokens up to the query, H heads, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from analyses.attention_at import Attended
from analyses.direct_effects import read_rows
from analyses.questions import Question, encode
from analyses.repetition import context_lengths
from models.tasks import Vocabulary
from models.transformer import CopyTransformer

KINDS = ("source", "competitor", "anchor", "string", "copy")
KEYS = 12  # listed a head
SILENT = 1e-6  # spread over the vocabulary below which a head says nothing


@dataclass(frozen=True)
class KeyView:
    """One key that a head attended to.

    Attributes:
        position: in the sequence.
        kind: "source" (the true one, in the string), "competitor" (another place whose context is shared, in the string
            or the copy so far; the source's image in the copy does not exist yet), "anchor" (A's and B's), or another
            token of the "string" or the "copy".
        index: in the string; n for B1, -1 for other anchors.
        token: printable.
        weight: 0 to 1.
        match: tokens of context that the place shares with the asked one.
        to_right, to_predicted: what the key adds directly, through this head, to the two logits.
    """

    position: int
    kind: str
    index: int
    token: str
    weight: float
    match: int
    to_right: float
    to_predicted: float


@dataclass(frozen=True)
class HeadView:
    """One head.

    Attributes:
        layer, head: which.
        mass: attention by kind of key; the kinds sum to 1.
        anchors: weight on each anchor, by printable name.
        match: mean match of the competitors, by weight; None where the head attends to none.
        copied: printable token whose logit the attended mix raises most; None where it raises none above the others.
        to_right, to_predicted: what the mix adds directly to the two logits.
        keys: the most attended ones, largest weight first.
    """

    layer: int
    head: int
    mass: Mapping[str, float]
    anchors: Mapping[str, float]
    match: float | None
    copied: str | None
    to_right: float
    to_predicted: float
    keys: tuple[KeyView, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "keys": [vars(key) for key in self.keys]}


@dataclass(frozen=True, eq=False)
class _Places:
    """What stands at every position up to the query."""

    kind: np.ndarray
    index: Int[np.ndarray, "T"]
    match: Int[np.ndarray, "T"]
    names: list[str]
    anchors: Int[np.ndarray, "A"]


def head_views(model: CopyTransformer, question: Question, attended: Attended, layers: int) -> tuple[HeadView, ...]:
    """Views of all heads of the last `layers` layers at one row."""
    vocabulary = model.vocabulary
    chosen = range(max(0, model.cfg.n_layers - layers), model.cfg.n_layers)
    reading = read_rows(model, *encode(vocabulary, [question]), chosen)
    places = _places(vocabulary, question)
    pair = [torch.tensor([token], device=model.device) for token in (attended.right, attended.rival)]
    views = []
    for layer in chosen:
        weights = reading.weights[layer][0].cpu().numpy()
        logits = reading.head_logits(layer)[0].cpu().numpy()
        effects = np.stack([reading.key_effects(layer, token)[0].cpu().numpy() for token in pair], axis=-1)
        for head in range(len(weights)):
            best = int(logits[head].argmax())
            competing = np.where(places.kind == "competitor", weights[head], 0.0)
            views.append(
                HeadView(
                    layer=layer,
                    head=head,
                    mass={kind: float(weights[head][places.kind == kind].sum()) for kind in KINDS},
                    anchors={places.names[j]: float(weights[head, j]) for j in places.anchors},
                    match=float(competing @ places.match / competing.sum()) if competing.any() else None,
                    copied=vocabulary.names[best] if np.ptp(logits[head]) > SILENT else None,
                    to_right=float(logits[head, attended.right]),
                    to_predicted=float(logits[head, attended.rival]),
                    keys=_keys(places, weights[head], effects[head]),
                )
            )
    return tuple(views)


def _keys(places: _Places, weights: np.ndarray, effects: np.ndarray) -> tuple[KeyView, ...]:
    order = np.argsort(-weights, kind="stable")[:KEYS]
    return tuple(
        KeyView(
            position=int(j),
            kind=str(places.kind[j]),
            index=int(places.index[j]),
            token=places.names[j],
            weight=float(weights[j]),
            match=int(places.match[j]),
            to_right=float(effects[j, 0]),
            to_predicted=float(effects[j, 1]),
        )
        for j in order[weights[order] > 0]
    )


def _places(vocabulary: Vocabulary, question: Question) -> _Places:
    prompt = question.prompt(vocabulary)
    source, copied = question.key_positions(vocabulary)
    by_index = context_lengths(question.string, question.index)
    kind = np.full(len(prompt), "anchor", dtype=object)
    index, match = np.full(len(prompt), -1), np.zeros(len(prompt), np.int64)
    kind[source[:-1]], kind[copied] = "string", "copy"
    index[source], index[copied] = np.arange(len(source)), np.arange(len(copied))
    match[source], match[copied] = by_index, by_index[: len(copied)]
    kind[match > 0] = "competitor"
    kind[source[question.index]] = "source"
    anchors = np.concatenate([np.arange(vocabulary.a), source[-1] + np.arange(vocabulary.b)])
    return _Places(kind, index, match, [vocabulary.names[i] for i in prompt], anchors)
