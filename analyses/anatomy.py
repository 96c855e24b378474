"""Anatomy of one failed copy: what was answered, where every head looked, what it would have copied, and what follows.

Nothing of size T x T is kept; the stripes take one pass over the patterns of the string.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.aftermath import STEPS, Aftermath, aftermath
from analyses.attention_at import LAYERS, Attended, attended_at
from analyses.coordinate_ranges import CoordinateRange, TrainedRanges
from analyses.measures.continuity import RUN, Continuity, first_break
from analyses.passes import ReadString, read_all, read_string
from analyses.questions import Question
from analyses.row_views import HeadView, head_views
from analyses.samples import Sample
from models.errors import UsageError
from models.evaluation import answer
from models.tasks import CopyBatch
from models.transformer import CopyTransformer


@dataclass(frozen=True)
class StripeBreak:
    """Where a head's stripe breaks along this copy.

    Attributes:
        layer, head: which.
        stripe: "locator" (on the anchors) or "aligned" (on the true source), whose margin falls below half of what is
            usual (`measures/continuity.py`); "split", where a locator no longer tells one index from the next: its
            split among the anchors changes by less than half of what is usual in the trained range.
        at: index of the first of several broken rows; None where the stripe does not break.
        relative: `at` over the training length.
    """

    layer: int
    head: int
    stripe: str
    at: int | None
    relative: float | None


@dataclass(frozen=True)
class Anatomy:
    """One failed copy.

    Attributes:
        string: token ids.
        trained: longest trained string.
        first_error: index of the first wrong token, n where only EOS is wrong.
        query: position of the row that should have predicted it.
        right, predicted: printable tokens.
        logits: of right and predicted.
        wrong_rows: share of the scored rows after the first error that are wrong too, given the right tokens before.
        attended: all heads together, weighted by what they decide.
        heads: of the last layers.
        stripes: of all heads that have one to begin with.
        coordinates: of the row and its source, beside those of trained strings.
        aftermath: what the model goes on with by itself.
    """

    string: tuple[int, ...]
    trained: int
    first_error: int
    query: int
    right: str
    predicted: str
    logits: tuple[float, float]
    wrong_rows: float
    attended: Attended
    heads: tuple[HeadView, ...]
    stripes: tuple[StripeBreak, ...]
    coordinates: tuple[CoordinateRange, ...]
    aftermath: Aftermath

    @property
    def margin(self) -> float:
        """Logit of the predicted token over the right one."""
        return self.logits[1] - self.logits[0]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = ("trained", "first_error", "query", "right", "predicted", "margin", "wrong_rows")
        return {
            "string": list(self.string),
            **{name: getattr(self, name) for name in plain},
            "logits": list(self.logits),
            "attended": self.attended.as_dict(),
            "heads": [head.as_dict() for head in self.heads],
            "stripes": [vars(stripe) for stripe in self.stripes],
            "coordinates": [found.as_dict() for found in self.coordinates],
            "aftermath": self.aftermath.as_dict(),
        }


def anatomy(
    model: CopyTransformer,
    batch: CopyBatch,
    row: int,
    *,
    trained: int,
    layers: int = LAYERS,
    steps: int = STEPS,
    ranges: TrainedRanges | None = None,
) -> Anatomy:
    """Look into the first error of string `row` of a batch.

    Args:
        model: that failed.
        batch: plain strings.
        row: which of them.
        trained: longest string the model was trained on.
        layers: how many of the last layers' heads are shown.
        steps: tokens of the free continuation.
        ranges: of trained strings, where they have been read already.

    Raises:
        UsageError: the string is copied rightly.
    """
    single = batch.select([row])
    outcome = answer(model, single)
    index = int(outcome.first_error[0])
    if index < 0:
        raise UsageError(f"string {row} is copied without an error; look into one that fails")
    failure = Question(single.strings[0, : int(single.lengths[0])].cpu().numpy(), index)
    vocabulary = model.vocabulary
    attended = attended_at(model, [failure], layers)[0]
    later = ~outcome.right[0, index + 1 :]
    return Anatomy(
        string=tuple(failure.string.tolist()),
        trained=trained,
        first_error=index,
        query=len(failure.prompt(vocabulary)) - 1,
        right=vocabulary.names[attended.right],
        predicted=vocabulary.names[attended.rival],
        logits=attended.logits,
        wrong_rows=float(later.float().mean()) if len(later) else 0.0,
        attended=attended,
        heads=head_views(model, failure, attended, layers),
        stripes=stripe_breaks(model, single, trained),
        coordinates=(ranges or TrainedRanges(model, trained)).of(failure),
        aftermath=aftermath(model, failure, steps),
    )


def stripe_breaks(model: CopyTransformer, single: CopyBatch, trained: int) -> tuple[StripeBreak, ...]:
    """Where the stripes of all heads break along the copy of one string."""
    measure = Continuity(model.cfg.heads)
    read_all(model, [Sample("plain", "", int(single.lengths[0]), 0, single)], [measure])
    scores = measure.measured(0).scores
    string = read_string(model, single, 0)
    found = []
    for stripe in ("locator", "aligned"):
        continuity, breaks = scores[f"{stripe}.continuity"].value, scores[f"{stripe}.break"].value
        for layer, head in np.argwhere(~np.isnan(continuity)).tolist():
            at = breaks[layer, head]
            found.append(_stripe(layer, head, stripe, None if np.isnan(at) else int(at), trained))
            if stripe == "locator":
                found.append(_stripe(layer, head, "split", _split_break(string, layer, head, trained), trained))
    return tuple(found)


def _stripe(layer: int, head: int, stripe: str, at: int | None, trained: int) -> StripeBreak:
    return StripeBreak(layer, head, stripe, at, None if at is None else at / trained)


def _split_break(string: ReadString, layer: int, head: int, trained: int) -> int | None:
    """First of RUN steps from one index to the next that change the split among anchors by less than half the usual.

    Usual is the median over indices in the trained range.
    """
    relations = string.relations
    rows = relations.copy_rows[:-1]
    mass = string.head(layer, head).column_mass(relations.anchors.tolist(), slice(int(rows[0]), int(rows[-1]) + 1))
    split = mass / np.maximum(mass.sum(1, keepdims=True), np.finfo(np.float32).tiny)
    steps = np.linalg.norm(np.diff(split, axis=0), axis=1)
    if len(steps) < RUN:
        return None
    at = int(first_break((steps < np.median(steps[:trained]) / 2)[None])[0])
    return at if at < len(steps) else None
