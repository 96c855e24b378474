"""Why one copy failed: repetition, length, stop or other, and the counterfactual that says so.

Everything is asked at the *first* wrong row, where the model has seen the same tokens as in a right copy.

- *repetition*: competitors won, other places with the same context;
- *length*: the string is longer than the model was trained for, and that alone is too much;
- *stop*: EOS comes early, or not in time, whatever the string;
- *other*: none of these.

A cause is *confirmed* where its trial's share is at least CONFIRMED above the control's, *refuted* where it is less
than REFUTED above it, unconfirmed between (`trials.py`). Where several are confirmed, taking any one of them away
prevents the failure; repetition is named first, the others in `also`. Where all are refuted the cause is other.
"""

from dataclasses import dataclass
from typing import Any

from analyses.attention_at import Attended, attended_at
from analyses.coordinate_ranges import CoordinateRange, TrainedRanges
from analyses.questions import Question
from analyses.trials import DRAWS, Trial, random_for, try_length, try_repetition, try_stopping
from models.tasks import CopyTask
from models.transformer import CopyTransformer

CAUSES = ("repetition", "length", "stop", "other")


@dataclass(frozen=True)
class Explanation:
    """Why one copy failed.

    Attributes:
        length: tokens in the string.
        first_error: index of the first wrong token; `length` where only EOS is wrong.
        trained: longest string the model was trained on.
        symptom: "wrong token", "early EOS" (it came before the end) or "late EOS" (a token came in its place).
        cause: one of CAUSES.
        confirmed: by its trial; false for other.
        also: other confirmed causes.
        attended: what the row attended to.
        coordinates: of the row and its source, beside those of trained strings.
        trials: that could be made, in the order of CAUSES.
    """

    length: int
    first_error: int
    trained: int
    symptom: str
    cause: str
    confirmed: bool
    also: tuple[str, ...]
    attended: Attended
    coordinates: tuple[CoordinateRange, ...]
    trials: tuple[Trial, ...] = ()

    @property
    def by_length_alone(self) -> str:
        """What a rule that looks at nothing but length would say."""
        return "length" if self.length > self.trained else "repetition"

    @property
    def out_of_range(self) -> bool:
        """The row or its source has coordinates, or an offset between them, that training never showed."""
        return any(found.outside for found in self.coordinates)

    def trial(self, cause: str) -> Trial | None:
        """The trial of a cause; None where there was nothing to try."""
        return next((trial for trial in self.trials if trial.cause == cause), None)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "length": self.length,
            "first_error": self.first_error,
            "symptom": self.symptom,
            "cause": self.cause,
            "confirmed": self.confirmed,
            "also": list(self.also),
            "evidence": {
                "trained": self.trained,
                "attended": self.attended.as_dict(),
                "out_of_range": self.out_of_range,
                "coordinates": [found.as_dict() for found in self.coordinates],
                "trials": {trial.cause: trial.as_dict() for trial in self.trials},
            },
        }


class Explainer:
    """Says why copies of one model failed; what does not depend on the failure is read once.

    Attributes:
        model: that failed.
        task: prefix, delimiter and alphabet.
        trained: longest string it was trained on.
        draws: edited strings of each trial and control, and of each of the two asked tokens.
        seed: of the edits; an explanation depends on its own failure and the seed alone.
    """

    def __init__(
        self, model: CopyTransformer, task: CopyTask, *, trained: int, draws: int = DRAWS, seed: int = 0
    ) -> None:
        self.model, self.task, self.trained, self.draws, self.seed = model, task, trained, draws, seed
        self._ranges = TrainedRanges(model, trained)
        self._stops: dict[int, dict[str, Trial]] = {}

    def explain(self, failure: Question) -> Explanation:
        """Explain the first wrong row of a copy."""
        model = self.model
        attended = attended_at(model, [failure])[0]
        rng = random_for(failure, self.seed)
        symptom = _symptom(attended, model.vocabulary.eos)
        tried = (
            try_repetition(model, failure, attended, rng, self.draws),
            try_length(model, failure, attended, self.trained, rng, self.draws),
            None if symptom == "wrong token" else self._stopping(min(failure.length, self.trained))[symptom],
        )
        trials = tuple(trial for trial in tried if trial is not None)
        confirmed = [trial.cause for trial in trials if trial.verdict == "confirmed"]
        unconfirmed = [trial.cause for trial in trials if trial.verdict == "unconfirmed"]
        return Explanation(
            length=failure.length,
            first_error=failure.index,
            trained=self.trained,
            symptom=symptom,
            cause=(*confirmed, *unconfirmed, "other")[0],
            confirmed=bool(confirmed),
            also=tuple(confirmed[1:]),
            attended=attended,
            coordinates=self._ranges.of(failure),
            trials=trials,
        )

    def _stopping(self, length: int) -> dict[str, Trial]:
        if length not in self._stops:
            self._stops[length] = try_stopping(self.model, self.task, length, self.seed)
        return self._stops[length]


def _symptom(attended: Attended, eos: int) -> str:
    if attended.right == eos:
        return "late EOS"
    return "early EOS" if attended.rival == eos else "wrong token"
