"""The report on a model's failed copies: why each failed, how they depend on repetition and length, and the law.

`explain` does the work and returns the content (JSON with a published schema); `failures_html.py`, `failures_text.py`
write it down, `failures_words.py` says it in sentences.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from analyses.aftermath import aftermath
from analyses.anatomy import anatomy
from analyses.copies import Copies, read_copies
from analyses.failures import Failure, Failures, explain_failures, text_of
from analyses.law import UNIQUE, Law, handled_length, how_handled, law, law_pairs, longest_unique
from analyses.questions import Question
from analyses.regression import Prediction, predict_failures
from analyses.trials import CONFIRMED, Trial
from models.evaluation import wilson
from models.tasks import CopyTask
from workbench.content.base import About, EstimateContent, finite
from workbench.content.failures import (
    AftermathContent,
    CauseContent,
    CompetitorContent,
    FailureContent,
    FailuresContent,
    GroupContent,
    LawContent,
    LawSummary,
    PredictionContent,
    ScoreContent,
    TrialContent,
)
from workbench.reports.failures_words import (
    advice_of,
    evidence_sentence,
    finding_of,
    law_sentence,
    prediction_sentence,
)
from workbench.subjects import Subject, trained_lengths
from workbench.train import library_versions

Progress = Callable[[float, str], None]

SHARES = (0.5, 1.0, 1.5, 2.0, 4.0)  # of the training length that are asked by default
CURVE_SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)  # at which the curves and the regression read strings
LONGEST = 200  # training length beyond which the default lengths do not grow
ALWAYS = ("uniform", "recursive-flip", "repeat-structure")  # distributions, beside the trained one
CURVE_STRINGS = 20  # strings of each distribution and length of curves, at least
LAW_STRINGS = 20
LOOKED_INTO = 2  # failures of each cause whose heads are reported
COMPETITORS = 12  # that are listed of a failure


def explain(
    subject: Subject,
    *,
    lengths: Sequence[int] | None = None,
    distributions: Sequence[str] | None = None,
    strings: int = 10,
    most: int | None = None,
    law_length: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FailuresContent:
    """Find and explain the failures of a subject.

    Args:
        subject: the model, with its recipe.
        lengths: of the strings; by default SHARES of the training length.
        distributions: registered names; by default the trained one and ALWAYS.
        strings: of each distribution and length.
        most: failures explained of each distribution and length; all by default.
        law_length: of the strings of the law; by default the longest that the model can handle.
        seed: of the strings and of the edits.
        progress: called with the share that is done and what is being done.

    Raises:
        UsageError: an impossible length or name.
    """
    say = progress or (lambda share, what: None)
    model, task = subject.model, CopyTask(subject.recipe.task)
    shortest, trained = trained_range(subject)
    base = min(trained, LONGEST)
    if law_length is not None:
        law_pairs(law_length)
    asked, names = _asked(task, base, lengths, distributions)
    say(0.0, "copying")
    copies = read_copies(
        model,
        task,
        lengths=sorted({*asked, *(n for n in _shares(base, CURVE_SHARES) if n <= max(asked))}),
        distributions=names,
        strings=max(strings, CURVE_STRINGS),
        seed=seed,
        progress=lambda share: say(0.1 * share, "copying"),
    )
    found = explain_failures(
        model,
        task,
        trained=trained,
        lengths=asked,
        distributions=names,
        strings=strings,
        most=most,
        seed=seed,
        progress=lambda share: say(0.1 + 0.6 * share, "explaining"),
    )
    failures = tuple(_failures(subject, found, lambda share: say(0.7 + 0.18 * share, "looking inside")))
    say(0.88, "measuring the law")
    handled = (
        handled_length(model, task, trained, seed=seed)
        if law_length is None
        else how_handled(model, task, law_length, seed=seed)
    )
    measured = law(
        model,
        task,
        handled,
        strings=max(strings, LAW_STRINGS),
        seed=seed,
        progress=lambda share: say(0.88 + 0.07 * share, "measuring the law"),
    )
    say(0.95, "fitting")
    prediction = predict_failures(copies, seed=seed)
    say(1.0, "")
    causes = _causes(found)
    groups = tuple(GroupContent(**finite(group.as_dict())) for group in found.groups)
    return FailuresContent(
        subject=subject.name,
        recipe=subject.recipe.name,
        step=subject.step,
        schemes=tuple(block.attn.scheme.settings.scheme for block in model.blocks),
        trained=(shortest, trained),
        finding=finding_of(groups, causes, trained),
        advice=advice_of(groups, trained, subject.step > 0),
        strings=sum(group.strings for group in groups),
        failed=sum(group.failed for group in groups),
        groups=groups,
        causes=causes,
        failures=failures,
        rows={
            kind: {name: EstimateContent(**finite(value.as_dict())) for name, value in by.items()}
            for kind, by in found.rows.items()
        },
        curves=tuple(_curves(copies, names)),
        law=tuple(LawContent(**finite(point.as_dict())) for point in measured.points),
        law_summary=_law_summary(measured),
        regression=_prediction(prediction),
        notes=tuple(_notes(found, most)),
        about=About(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=library_versions(),
            seed=seed,
            device=str(model.device),
        ),
    )


def trained_range(subject: Subject) -> tuple[int, int]:
    """Shortest and longest trained string; of a hand-built model, those it was built for."""
    return trained_lengths(subject.name, subject.recipe)


def _asked(
    task: CopyTask, base: int, lengths: Sequence[int] | None, distributions: Sequence[str] | None
) -> tuple[list[int], list[str]]:
    """Lengths and distributions; where one is left to us, so that strings of unique contexts are possible."""
    names = list(distributions or dict.fromkeys((task.settings.distribution, *ALWAYS)))
    limit = longest_unique(task) if UNIQUE in names else None
    if lengths:
        impossible = limit is not None and max(lengths) > limit and not distributions
        return sorted(set(lengths)), [name for name in names if not (impossible and name == UNIQUE)]
    return [length for length in _shares(base, SHARES) if limit is None or length <= limit], names


def _shares(longest: int, shares: Sequence[float]) -> list[int]:
    return sorted({max(1, round(share * longest)) for share in shares})


def _failures(subject: Subject, found: Failures, progress: Callable[[float], None]) -> list[FailureContent]:
    contents: list[FailureContent] = []
    looked: Counter[tuple[str, bool]] = Counter()
    for done, failure in enumerate(found.failures, start=1):
        kind = (failure.explanation.cause, failure.explanation.confirmed)
        looked[kind] += 1
        contents.append(_failure(subject, failure, found.trained, looked[kind] <= LOOKED_INTO))
        progress(done / len(found.failures))
    return contents


def _failure(subject: Subject, failure: Failure, trained: int, inside: bool) -> FailureContent:
    explanation, names = failure.explanation, subject.model.vocabulary.names
    attended = explanation.attended
    question = Question(np.array(failure.string, np.int64), explanation.first_error)
    return FailureContent(
        distribution=failure.distribution,
        length=explanation.length,
        string=text_of(failure.string),
        first_error=explanation.first_error,
        symptom=explanation.symptom,
        predicted=names[attended.rival],
        right=names[attended.right],
        logit_predicted=attended.logits[1],
        logit_right=attended.logits[0],
        cause=explanation.cause,
        confirmed=explanation.confirmed,
        also=explanation.also,
        sentence=evidence_sentence(explanation),
        competitors=_competitors(failure),
        trials=tuple(TrialContent(**finite(trial.as_dict())) for trial in explanation.trials),
        aftermath=AftermathContent(**aftermath(subject.model, question).as_dict()),
        repetition=finite(failure.repetition.as_dict()),
        evidence=finite(explanation.as_dict()["evidence"]),
        anatomy=_anatomy(subject, question, trained) if inside else None,
    )


def _competitors(failure: Failure) -> tuple[CompetitorContent, ...]:
    rivals = failure.explanation.attended.rivals
    strong = np.flatnonzero(rivals.strong)
    ranked = strong[np.argsort(-rivals.mass[strong], kind="stable")][:COMPETITORS]
    return tuple(
        CompetitorContent(index=i, mass=float(rivals.mass[i]), context=int(rivals.match[i])) for i in ranked.tolist()
    )


def _anatomy(subject: Subject, question: Question, trained: int) -> dict[str, Any]:
    batch = CopyTask(subject.recipe.task).encode([question.string.tolist()])
    values = anatomy(subject.model, batch, 0, trained=trained, steps=1).as_dict()
    kept = ("query", "wrong_rows", "heads", "stripes", "coordinates")
    return dict(finite({name: values[name] for name in kept}))


def _causes(found: Failures) -> dict[str, CauseContent]:
    return {
        summary.cause: CauseContent(
            failures=summary.failures,
            confirmed=summary.confirmed,
            unconfirmed=summary.failures - summary.confirmed,
            tried=summary.tried,
            repaired=_share([trial.share for trial in trials]),
            supported=_share([trial.share if trial.left is None else trial.left for trial in trials]),
            control=_share([trial.control for trial in trials]),
        )
        for summary in found.causes
        for trials in (_trials(found, summary.cause),)
    }


def _trials(found: Failures, cause: str) -> list[Trial]:
    tried = (failure.explanation.trial(cause) for failure in found.failures)
    return [trial for trial in tried if trial is not None]


def _share(values: Sequence[float]) -> EstimateContent:
    """How many of the values are those of a trial that went so on most draws, with its Wilson interval."""
    n, hits = len(values), sum(value >= CONFIRMED for value in values)
    if not n:
        return EstimateContent(value=None, interval=None, rows=0, reason="no failure on which it could be tried")
    return EstimateContent(value=hits / n, interval=wilson(hits, n), rows=n, strings=n)


def _curves(copies: Copies, names: Sequence[str]) -> list[ScoreContent]:
    return [
        ScoreContent(distribution=name, length=length, strings=strings, exact_match=exact / strings, interval=interval)
        for name in names
        for length, strings, exact, interval in copies.curve(name)
    ]


def _law_summary(measured: Law) -> LawSummary:
    values = finite(measured.as_dict())
    del values["points"]
    return LawSummary(**values, sentence=law_sentence(measured))


def _prediction(prediction: Prediction) -> PredictionContent:
    return PredictionContent(**finite(prediction.as_dict()), sentence=prediction_sentence(prediction))


def _notes(found: Failures, most: int | None) -> list[str]:
    left = sum(group.failed - group.explained for group in found.groups)
    if not left:
        return []
    return [f"{left} failures are counted and not explained: at most {most} of each distribution and length are"]
