"""Heads: every score of every head, and what each is called.

    from analyses.heads import classify
    report = classify(model, task)
    print(report)

Strings are drawn from the task at several lengths inside the range it is trained on, plain ones and two kinds on which
position and context point to different places (`analyses.samples`); one pass over all patterns feeds all measures
(`analyses.measures`), and one table of thresholds gives the labels (`analyses.labels`).

Shape letters: L layers, H heads of the widest layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from analyses import templates
from analyses.estimates import Estimate, Estimates
from analyses.labels import RULES, HeadLabel, Rule, label_head
from analyses.measures import (
    context,
    continuity,
    locator,
    modular,
    moved,
    offsets,
    outputs,
    paths,
    periodicity,
    score_parts,
    sidelobes,
    symbolic,
)
from analyses.measures.base import MEASURES, MODEL_MEASURES
from analyses.passes import Measured, Progress, read_all
from analyses.samples import Sample, draw_samples
from models.errors import UsageError
from models.tasks import CopyTask
from models.transformer import CopyTransformer

__all__ = ["HeadReport", "HeadScores", "classify", "default_lengths", "label_heads", "score_heads"]

# Modules of measures, named so that importing this one registers them.
REGISTERED = (
    *(templates, context, continuity, locator, modular, offsets, periodicity),
    *(moved, outputs, paths, score_parts, sidelobes, symbolic),
)
# Strings that any copy model is judged on, beside those of its own training distribution.
DISTRIBUTIONS = ("uniform", "unique-context")
CONFLICT = 4  # tokens of context that conflict strings alter, fewer where strings are too short for that
SHORTEST = 10  # default lengths are at least this, where the task has them
DECIDING = ("moved",)  # model measures that labels rest on
PASS_SHARE = 0.5  # of the progress that is reported


@dataclass(frozen=True)
class SampleSet:
    """Strings that heads were judged on, in words.

    Attributes:
        kind, distribution, length: of the strings, see `analyses.samples`.
        m: tokens of context that were altered, 0 for plain strings.
        strings: how many.
    """

    kind: str
    distribution: str
    length: int
    m: int
    strings: int


@dataclass(frozen=True)
class HeadScores:
    """Every score of every head of a model.

    Attributes:
        heads: real heads of each layer.
        scores: Estimates [L, H] by name; what each means stands in its measure's docstring.
        profiles: arrays behind the scores, float[L, H, ...], by name.
        samples: the strings.
        seed: of strings and bootstrap.
        notes: what could not be drawn or measured, in sentences.
    """

    heads: tuple[int, ...]
    scores: Mapping[str, Estimates]
    profiles: Mapping[str, Float[np.ndarray, "L H *rest"]]
    samples: tuple[SampleSet, ...]
    seed: int
    notes: tuple[str, ...] = ()

    def at(self, score: str, layer: int, head: int) -> Estimate:
        """One score of one head; UsageError where there is none of that name or no such head."""
        if score not in self.scores:
            raise UsageError(f"no score is called {score!r}; known: {', '.join(self.scores)}")
        if not (0 <= layer < len(self.heads) and 0 <= head < self.heads[layer]):
            raise UsageError(f"there is no head {layer}.{head}; layers have {self.heads} heads")
        return self.scores[score].at(layer, head)


@dataclass(frozen=True)
class HeadReport:
    """Scores and labels of a model's heads.

    Attributes:
        scores: what was measured.
        labels: one a head, by layer and head.
        rules: the table that gave the labels.
    """

    scores: HeadScores
    labels: tuple[HeadLabel, ...]
    rules: tuple[Rule, ...] = RULES

    def label(self, layer: int, head: int) -> HeadLabel:
        """The label of one head; UsageError where there is none."""
        for label in self.labels:
            if (label.layer, label.head) == (layer, head):
                return label
        raise UsageError(f"there is no head {layer}.{head}; layers have {self.scores.heads} heads")

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        names = self.scores.scores
        return {
            "seed": self.scores.seed,
            "samples": [vars(sample) for sample in self.scores.samples],
            "notes": list(self.scores.notes),
            "rules": [
                {"label": r.label, "conditions": [str(c) for c in r.conditions], "sentence": r.sentence}
                for r in self.rules
            ],
            "heads": [
                label.as_dict() | {"scores": {n: self.scores.at(n, label.layer, label.head).as_dict() for n in names}}
                for label in self.labels
            ],
        }

    def __str__(self) -> str:
        lines = ["head  label          margin  certain  evidence"]
        for label in self.labels:
            values = [
                f"{e.score} {'n/a' if e.estimate.value is None else format(e.estimate.value, '.2f')}"
                for e in label.evidence
            ]
            certain = "yes" if label.certain else "no"
            name = f"{label.layer}.{label.head}"
            lines.append(f"{name:<6}{label.label:<15}{label.margin:>6.2f}  {certain:<7}  {', '.join(values)}")
        return "\n".join(lines)


def classify(model: CopyTransformer, task: CopyTask, **options: Any) -> HeadReport:
    """Score and label every head; options as `score_heads` has them."""
    scores = score_heads(model, task, **options)
    return HeadReport(scores, label_heads(scores))


def label_heads(scores: HeadScores, rules: Sequence[Rule] = RULES) -> tuple[HeadLabel, ...]:
    """Label every head by `rules`, in order of layer and head."""
    return tuple(
        label_head(scores.scores, layer, head, rules) for layer, n in enumerate(scores.heads) for head in range(n)
    )


def default_lengths(task: CopyTask) -> tuple[int, ...]:
    """Quarters of the longest string that the task is trained on, and the shortest on which conflicts can be made."""
    low, high = task.settings.lengths
    quarters = {max(low, min(SHORTEST, high), round(high * quarter / 4)) for quarter in (1, 2, 3, 4)}
    conflict = 4 * CONFLICT + 2
    return tuple(sorted(quarters | ({max(low, conflict)} if conflict <= high < 2 * conflict else set())))


def score_heads(
    model: CopyTransformer,
    task: CopyTask,
    *,
    lengths: Sequence[int] | None = None,
    distributions: Sequence[str] | None = None,
    strings: int = 6,
    seed: int = 0,
    beyond_labels: bool = True,
    progress: Progress | None = None,
) -> HeadScores:
    """Measure every score of every head.

    Args:
        model: any copy model.
        task: what it reads; without `lengths` and `distributions` they come from its settings.
        lengths: of source strings; several, or neither an index's decoding nor a fixed offset can be told.
        distributions: registered names; those that cannot have a length are left out there, with a note.
        strings: of each kind, distribution and length; an even number, as half of them choose what the others measure.
        seed: the same seed gives the same scores.
        beyond_labels: also measure what no label rests on (outputs, score parts, paths, ...), which takes longer.
        progress: called with the share that is done.

    Raises:
        UsageError: an odd number of strings, an unknown distribution, or nothing that can be drawn.
    """
    if strings < 2 or strings % 2:
        raise UsageError(f"{strings} strings of each kind were asked for; give an even number, at least 2")
    lengths = default_lengths(task) if lengths is None else tuple(sorted(set(lengths)))
    if distributions is None:
        distributions = tuple(dict.fromkeys((task.settings.distribution, *DISTRIBUTIONS)))
    samples, notes = _draw(task, lengths, distributions, strings, seed)
    measures = [MEASURES[name](model.cfg.heads) for name in MEASURES]
    extra = [MODEL_MEASURES[name] for name in (MODEL_MEASURES if beyond_labels else DECIDING)]
    steps = _Steps(progress, [PASS_SHARE] + [(1 - PASS_SHARE) / len(extra)] * len(extra))
    read_all(model, samples, measures, steps.next())
    found = [measure.measured(seed) for measure in measures]
    found += [measure(model, task, samples, seed=seed, progress=steps.next()) for measure in extra]
    described = tuple(SampleSet(s.kind, s.distribution, s.length, s.m, len(s.batch)) for s in samples)
    merged = _merged(found)
    return HeadScores(tuple(model.cfg.heads), merged.scores, merged.profiles, described, seed, notes)


def _draw(
    task: CopyTask, lengths: Sequence[int], distributions: Sequence[str], strings: int, seed: int
) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """Samples of all kinds, and what could not be drawn."""
    m = max(1, min(CONFLICT, (max(lengths) - 2) // 4))
    samples: list[Sample] = []
    notes: list[str] = []
    for index, distribution in enumerate(distributions):
        for length in lengths:
            draw = seed + 1000 * index + length
            try:
                samples += draw_samples(
                    task, lengths=[length], distributions=[distribution], strings=strings, seed=draw, m=m
                )
            except UsageError as error:
                if distribution not in DISTRIBUTIONS:
                    raise
                notes.append(f"{distribution} strings of {length} tokens are left out: {error}")
    if not samples:
        raise UsageError("no strings can be drawn: " + "; ".join(notes))
    return tuple(samples), tuple(notes)


def _merged(found: Sequence[Measured]) -> Measured:
    """All scores and profiles; UsageError where two measures give one name."""
    scores: dict[str, Estimates] = {}
    profiles: dict[str, np.ndarray] = {}
    for measured in found:
        twice = (scores.keys() & measured.scores.keys()) | (profiles.keys() & measured.profiles.keys())
        if twice:
            raise UsageError(f"two measures give {', '.join(sorted(twice))}; rename one")
        scores |= measured.scores
        profiles |= measured.profiles
    return Measured(scores, profiles)


class _Steps:
    """Progress over several steps of known shares."""

    def __init__(self, progress: Progress | None, shares: Sequence[float]) -> None:
        self.progress, self.shares, self.done = progress, list(shares), 0.0

    def next(self) -> Progress | None:
        """Progress of the next step."""
        begin, share = self.done, self.shares.pop(0)
        self.done += share
        progress = self.progress
        return None if progress is None else lambda part: progress(begin + share * part)
