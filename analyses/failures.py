"""Every failed copy explained: which strings fail, why each does, and what the same measures say of right rows.

Nearly every wrong bit has some competitor on a small alphabet, and so does nearly every right one. So nothing here
stands without its control: what a failed row attended to beside right rows and random rows of the same strings, and
what a counterfactual mends beside what as many other changes mend (`trials.py`).

Shape letters: N strings, R scored rows.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from analyses.attention_at import Attended, attended_at
from analyses.attribution import CAUSES, Explainer, Explanation
from analyses.estimates import Estimate, ratios
from analyses.passes import Progress
from analyses.questions import Question
from analyses.repetition import Repetition, repetition
from analyses.trials import CONFIRMED, DRAWS, random_for
from models.errors import UsageError
from models.evaluation import TOKENS_AT_ONCE, answer, in_parts, wilson
from models.tasks import CopyTask
from models.transformer import CopyTransformer

ROWS = ("failed", "right", "random")
# What rows are compared by.
MEASURES: Mapping[str, Callable[[Attended], float]] = {
    "has_competitors": lambda row: float(row.rivals.strong.any()),
    "competitors": lambda row: float(row.rivals.strong.sum()),
    "longest_context": lambda row: float(row.rivals.match[row.rivals.strong].max(initial=0)),
    "mass_competitors": lambda row: row.competitors,
    "mass_random": lambda row: row.random_places,
    "mass_source": lambda row: row.source,
}


@dataclass(frozen=True)
class Failure:
    """One string that was not copied exactly.

    Attributes:
        distribution: registered name.
        string: token ids.
        explanation: of its first error.
        repetition: of the string.
        rows: what the failed row attended to, and a right row and a random row of the same copy ("right" is missing
            where no row is).
    """

    distribution: str
    string: tuple[int, ...]
    explanation: Explanation
    repetition: Repetition
    rows: Mapping[str, Attended]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"string": text_of(self.string), "distribution": self.distribution, **self.explanation.as_dict()}


@dataclass(frozen=True)
class Group:
    """Strings of one distribution and length.

    Attributes:
        distribution, length: which.
        strings, failed, explained: how many.
        interval: 95 % Wilson interval of the share that is copied exactly.
    """

    distribution: str
    length: int
    strings: int
    failed: int
    explained: int

    @property
    def exact_match(self) -> float:
        """Share that is copied exactly."""
        return 1 - self.failed / self.strings

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of `exact_match`."""
        return wilson(self.strings - self.failed, self.strings)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "exact_match": self.exact_match, "interval": list(self.interval)}


@dataclass(frozen=True)
class CauseSummary:
    """One cause over all failures.

    Attributes:
        cause: one of CAUSES.
        failures: attributed to it.
        confirmed: of these, by a trial.
        tried: failures on which its trial could be made, whatever they were attributed to.
        repaired: share of these that the trial mends on most draws (for stop: that recur on fresh strings).
        control: the same of its control.
    """

    cause: str
    failures: int
    confirmed: int
    tried: int
    repaired: Estimate
    control: Estimate

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "repaired": self.repaired.as_dict(), "control": self.control.as_dict()}


@dataclass(frozen=True)
class Failures:
    """What was found.

    Attributes:
        trained: longest string the model was trained on.
        groups: one a distribution and length.
        failures: that were explained.
        causes: one each of CAUSES.
        rows: means of MEASURES, `rows["failed"]["mass_source"]`, over failed, right and random rows.
    """

    trained: int
    groups: tuple[Group, ...]
    failures: tuple[Failure, ...]
    causes: tuple[CauseSummary, ...]
    rows: Mapping[str, Mapping[str, Estimate]]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "trained": self.trained,
            "strings": sum(group.strings for group in self.groups),
            "failed": sum(group.failed for group in self.groups),
            "failures": [failure.as_dict() for failure in self.failures],
            "groups": [group.as_dict() for group in self.groups],
            "causes": [cause.as_dict() for cause in self.causes],
            "rows": {kind: {name: found.as_dict() for name, found in by.items()} for kind, by in self.rows.items()},
        }


def explain_failures(
    model: CopyTransformer,
    task: CopyTask,
    *,
    trained: int,
    lengths: Sequence[int],
    distributions: Sequence[str],
    strings: int = 10,
    most: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Failures:
    """Draw strings, explain every one that is not copied exactly, and compare with rows that are right.

    The strings are those of `models.evaluation.evaluate` with the same seed and intervals (length, length).

    Args:
        model: that copies.
        task: prefix, delimiter and alphabet.
        trained: longest string it was trained on.
        lengths: of the strings.
        distributions: registered names.
        strings: of each distribution and length.
        most: failures explained of each distribution and length, the first ones; all by default.
        draws: edited strings of each counterfactual.
        seed: of the strings and of the edits.
        progress: called with the share that is done.

    Raises:
        UsageError: nothing to draw, or an impossible length or name.
    """
    if not lengths or not distributions or strings < 1:
        raise UsageError("no failures to look for: give at least one length, one distribution and one string")
    pairs = [(distribution, length) for distribution in distributions for length in lengths]
    work = np.cumsum([0.0, *(float(length) ** 2 for _, length in pairs)])
    explainer = Explainer(model, task, trained=trained, draws=draws, seed=seed)
    groups: list[Group] = []
    failures: list[Failure] = []
    for at, (distribution, length) in enumerate(pairs):
        found = _failed(model, task, distribution, length, strings, seed)
        chosen = found[:most]
        for done, (question, right) in enumerate(chosen):
            failures.append(_explained(explainer, distribution, question, right))
            if progress is not None:
                progress((work[at] + (done + 1) / len(chosen) * (work[at + 1] - work[at])) / work[-1])
        groups.append(Group(distribution, length, strings, len(found), len(chosen)))
    if progress is not None:
        progress(1.0)
    return Failures(trained, tuple(groups), tuple(failures), _by_cause(failures, seed), _by_rows(failures, seed))


def text_of(string: Sequence[int]) -> str:
    """Digits in a row where every token is one, else ids separated by spaces."""
    return ("" if max(string) < 10 else " ").join(str(token) for token in string)


def _failed(
    model: CopyTransformer, task: CopyTask, distribution: str, length: int, strings: int, seed: int
) -> list[tuple[Question, Bool[np.ndarray, "R"]]]:
    """First error of every string that fails, and which of its rows are right."""
    name = f"{seed}/{distribution}/{length}-{length}"
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    batch = task.sample(strings, generator, lengths=length, distribution=distribution)
    found = []
    for part in in_parts(batch, TOKENS_AT_ONCE):
        outcome = answer(model, part)
        for row in (~outcome.exact).nonzero()[:, 0].tolist():
            question = Question(part.strings[row].cpu().numpy(), int(outcome.first_error[row]))
            found.append((question, outcome.right[row].numpy()))
    return found


def _explained(explainer: Explainer, distribution: str, failure: Question, right: Bool[np.ndarray, "R"]) -> Failure:
    model, rng = explainer.model, random_for(failure, explainer.seed)
    explanation = explainer.explain(failure)
    others = {"random": int(rng.integers(len(right)))}
    if right.any():
        others["right"] = int(rng.choice(np.flatnonzero(right)))
    rows = attended_at(model, [Question(failure.string, index) for index in others.values()])
    return Failure(
        distribution,
        tuple(failure.string.tolist()),
        explanation,
        repetition(failure.string, alphabet=model.vocabulary.alphabet),
        {"failed": explanation.attended, **dict(zip(others, rows, strict=True))},
    )


def _by_cause(failures: Sequence[Failure], seed: int) -> tuple[CauseSummary, ...]:
    summaries = []
    for cause in CAUSES:
        of_cause = [failure.explanation for failure in failures if failure.explanation.cause == cause]
        trials = [trial for failure in failures for trial in failure.explanation.trials if trial.cause == cause]
        reason = "no failure on which it could be tried"
        summaries.append(
            CauseSummary(
                cause,
                len(of_cause),
                sum(explanation.confirmed for explanation in of_cause),
                len(trials),
                _mean([float(trial.share >= CONFIRMED) for trial in trials], seed, reason),
                _mean([float(trial.control >= CONFIRMED) for trial in trials], seed, reason),
            )
        )
    return tuple(summaries)


def _by_rows(failures: Sequence[Failure], seed: int) -> dict[str, dict[str, Estimate]]:
    found: dict[str, dict[str, Estimate]] = {}
    for kind in ROWS:
        rows = [failure.rows[kind] for failure in failures if kind in failure.rows]
        found[kind] = {name: _mean([of(row) for row in rows], seed, f"no {kind} row") for name, of in MEASURES.items()}
    return found


def _mean(values: Sequence[float], seed: int, reason: str) -> Estimate:
    """Mean with an interval over strings; not measurable without any."""
    if not values:
        return Estimate(None, None, 0, 0, None, reason)
    return ratios(np.array(values), np.ones(len(values)), seed=seed).at()
