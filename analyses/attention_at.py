"""Where the answer of one row was read: attention on the true source, on competitors, on anchors.

Heads are weighted by how much they decide between the right answer and its rival: head h counts in proportion to the
sum over keys of |direct effect on logit(rival) - logit(right)| (`direct_effects.py`). The mass of a place is then its
weighted attention; all masses sum to 1. An index of the source and its image in the copy so far are one place.

Shape letters: N questions, T tokens, L layers, H heads, P = n + 1 indices (index n is B1, EOS's source).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from analyses.counterfactual import Rivals
from analyses.direct_effects import RowReading, read_rows
from analyses.questions import Question, encode, in_batches, targets
from analyses.repetition import context_lengths
from models.transformer import CopyTransformer

LAYERS = 2  # last layers whose heads are looked at
STRONG = 0.1  # least mass of a competitor that is called attended to, as a share of the strongest one's
LEAST = 0.02  # least mass of all of these
MOST_CONTEXT = 4  # tokens of shared context that make a competitor of what was not attended to, at most


@dataclass(frozen=True, eq=False)
class Attended:
    """What one row attended to.

    Attributes:
        right: id of the right answer.
        rival: id of the largest other one: the model's answer where it is wrong.
        logits: of right and rival.
        source: mass on the true source, 0 to 1.
        anchors: mass on A1..Aa, B2..Bb.
        rivals: competitors, and the mass on every index.
        elected: mass on strong competitors that hold the rival answer.
    """

    right: int
    rival: int
    logits: tuple[float, float]
    source: float
    anchors: float
    rivals: Rivals
    elected: float

    @property
    def is_right(self) -> bool:
        """The right answer has the largest logit; a draw goes to the smaller id, as in decoding."""
        return (-self.logits[0], self.right) < (-self.logits[1], self.rival)

    @property
    def competitors(self) -> float:
        """Mass on strong competitors."""
        return float(self.rivals.mass[self.rivals.strong].sum())

    @property
    def random_places(self) -> float:
        """What as many places of the string, drawn at random from all but the asked one, would have between them."""
        others = len(self.rivals.mass) - 1
        return float(self.rivals.strong.sum() * (self.rivals.mass.sum() - self.source) / max(1, others))

    @property
    def chance(self) -> float:
        """Share of all other indices that share as much context as every strong competitor does."""
        others = len(self.rivals.match) - 1
        return float((self.rivals.match >= self.rivals.order).sum() - 1) / max(1, others)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        strong = self.rivals.strong
        return {
            "right": self.right,
            "rival": self.rival,
            "logit_right": self.logits[0],
            "logit_rival": self.logits[1],
            "mass_source": self.source,
            "mass_anchors": self.anchors,
            "mass_competitors": self.competitors,
            "mass_random": self.random_places,
            "mass_elected": self.elected,
            "competitors": int(strong.sum()),
            "context": self.rivals.order if strong.any() else 0,
            "longest_context": int(self.rivals.match[strong].max()) if strong.any() else 0,
            "context_by_chance": self.chance if strong.any() else None,
        }


def attended_at(model: CopyTransformer, questions: Sequence[Question], layers: int = LAYERS) -> list[Attended]:
    """Read the rows of questions, from the heads of the last `layers` layers."""
    found: dict[int, Attended] = {}
    chosen = range(max(0, model.cfg.n_layers - layers), model.cfg.n_layers)
    for part in in_batches(model.vocabulary, questions):
        asked = [questions[i] for i in part]
        reading = read_rows(model, *encode(model.vocabulary, asked), chosen)
        right = torch.from_numpy(targets(model.vocabulary, asked)).to(reading.logits.device)
        rival = reading.logits.scatter(1, right[:, None], -torch.inf).argmax(1)
        masses = _masses(reading, rival, right).cpu().numpy()
        logits = torch.stack([reading.logits.gather(1, ids[:, None])[:, 0] for ids in (right, rival)], 1).cpu()
        for row, i in enumerate(part):
            pair = (float(logits[row, 0]), float(logits[row, 1]))
            found[i] = _attended(model, asked[row], int(right[row]), int(rival[row]), pair, masses[row])
    return [found[i] for i in range(len(questions))]


def _masses(
    reading: RowReading, rival: Int[torch.Tensor, "N"], right: Int[torch.Tensor, "N"]
) -> Float[torch.Tensor, "N T"]:
    """Attention of the heads, weighted by what they decide; of equal weight where none decides anything."""
    weights = torch.cat(list(reading.weights.values()), dim=1)
    says = torch.cat([reading.key_effects(layer, rival, right).abs().sum(-1) for layer in reading.weights], dim=1)
    total = says.sum(1, keepdim=True)
    says = torch.where(total > 0, says / total, 1.0 / says.shape[1])
    return torch.einsum("nh,nht->nt", says, weights)


def _attended(
    model: CopyTransformer, question: Question, right: int, rival: int, logits: tuple[float, float], mass: np.ndarray
) -> Attended:
    vocabulary = model.vocabulary
    source, copied = question.key_positions(vocabulary)
    by_index = mass[source].astype(np.float64)
    by_index[: question.index] += mass[copied]
    match = context_lengths(question.string, question.index)
    competes = match >= 1
    competes[question.index] = False
    strongest = by_index[competes].max(initial=0.0)
    strong = competes & (by_index >= STRONG * strongest) & (strongest > 0)
    strong &= by_index[strong].sum() >= LEAST
    order = min(MOST_CONTEXT, _median(match[strong], by_index[strong])) if strong.any() else 1
    answers = np.append(question.string, vocabulary.eos)
    anchors = [*range(vocabulary.a), *range(source[-1] + 1, source[-1] + vocabulary.b)]
    return Attended(
        right=right,
        rival=rival,
        logits=logits,
        source=float(by_index[question.index]),
        anchors=float(mass[anchors].sum()),
        rivals=Rivals(strong, match, by_index, order),
        elected=float(by_index[strong & (answers == rival)].sum()),
    )


def _median(values: Int[np.ndarray, "C"], weights: Float[np.ndarray, "C"]) -> int:
    """Weighted median."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return int(values[order][np.searchsorted(below, below[-1] / 2)])
