"""What an intervention changes in a model's answers, beside a control.

Four measures, all teacher-forced and at scored rows (those that predict a copied token or EOS): *exact match* (every
scored row of a string is right), *token accuracy* (share of right rows), *logit difference* (logit of the right token
minus the largest other one) and *divergence* (KL of the predictions from those without the intervention), which is
there for models that copy nothing. Differences are paired: all runs read the same strings.

Shape letters: N strings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.ablation import WAYS, Ablation
from analyses.estimates import Estimate, Estimates, ratios
from analyses.outcomes import Heads, Intervention, Outcomes, read_outcomes
from analyses.passes import Progress
from analyses.samples import Sample
from models.errors import UsageError
from models.registry import unknown
from models.transformer import CopyTransformer


@dataclass(frozen=True)
class Change:
    """One measure without and with an intervention.

    Attributes:
        baseline: without it.
        changed: with it.
        difference: changed minus baseline, paired by string.
    """

    baseline: Estimate
    changed: Estimate
    difference: Estimate

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name).as_dict() for name in ("baseline", "changed", "difference")}


@dataclass(frozen=True)
class Effect:
    """What one intervention does to a model's answers.

    Attributes:
        intervention: in words.
        exact_match: share of strings copied exactly, 0 to 1.
        token_accuracy: share of right answers at scored rows, 0 to 1.
        logit_difference: logit of the right token minus the largest other one, mean over scored rows.
        divergence: KL(predictions without it || with it), nats a scored row.
        removed: attention removed, mean over heads and rows on which there was something to remove; not measurable
            for interventions that remove no attention.
    """

    intervention: str
    exact_match: Change
    token_accuracy: Change
    logit_difference: Change
    divergence: Estimate
    removed: Estimate

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "intervention": self.intervention,
            **{name: getattr(self, name).as_dict() for name in _CHANGES},
            "divergence": self.divergence.as_dict(),
            "removed": self.removed.as_dict(),
        }


_CHANGES = ("exact_match", "token_accuracy", "logit_difference")


@dataclass(frozen=True)
class ControlledEffect:
    """An intervention beside its control.

    Attributes:
        effect: of the intervention.
        control: of the control, on the same strings.
        beyond: effect minus control of every measure, paired by string: "exact_match", "token_accuracy",
            "logit_difference", "divergence".
    """

    effect: Effect
    control: Effect
    beyond: dict[str, Estimate]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "effect": self.effect.as_dict(),
            "control": self.control.as_dict(),
            "beyond": {name: estimate.as_dict() for name, estimate in self.beyond.items()},
        }


def compare(baseline: Outcomes, changed: Outcomes, words: str, *, seed: int = 0) -> Effect:
    """Return the effect of what turned `baseline` into `changed`; both are of the same strings."""
    sums, rows = _sums(baseline, baseline)
    after, _ = _sums(baseline, changed)
    at = {name: i for i, name in enumerate((*_CHANGES, "divergence"))}
    before_all, after_all, difference = (ratios(x, rows, seed=seed) for x in (sums, after, after - sums))

    def change(name: str) -> Change:
        return Change(before_all.at(at[name]), after_all.at(at[name]), difference.at(at[name]))

    removed = ratios(
        np.array([s.removed for s in changed]),
        np.array([s.removed_rows for s in changed]),
        seed=seed,
        reason="no attention is removed",
    )
    return Effect(
        words,
        change("exact_match"),
        change("token_accuracy"),
        change("logit_difference"),
        after_all.at(at["divergence"]),
        removed.at(),
    )


def compare_controlled(
    baseline: Outcomes, changed: Outcomes, control: Outcomes, words: str, control_words: str, *, seed: int = 0
) -> ControlledEffect:
    """Return the effects of an intervention and of its control, and what the first has beyond the second."""
    after, rows = _sums(baseline, changed)
    beside, _ = _sums(baseline, control)
    beyond: Estimates = ratios(after - beside, rows, seed=seed)
    return ControlledEffect(
        compare(baseline, changed, words, seed=seed),
        compare(baseline, control, control_words, seed=seed),
        {name: beyond.at(i) for i, name in enumerate((*_CHANGES, "divergence"))},
    )


def contrast(
    first: tuple[Outcomes, Outcomes], second: tuple[Outcomes, Outcomes], *, seed: int = 0
) -> dict[str, Estimate]:
    """Return what an intervention changes in one subject minus what it changes in another, by measure.

    Differences are paired by string: both subjects, as two models or two heads of one, read the same strings.

    Args:
        first: answers of one subject without and with the intervention.
        second: those of the other.
        seed: of the intervals.

    Raises:
        UsageError: not as many strings, or several that differ in length.
    """
    if len(first[0]) != len(second[0]):
        raise UsageError(f"strings come in pairs; the first has {len(first[0])}, the second {len(second[0])}")
    changes, rows = [], []
    for baseline, changed in (first, second):
        before, at = _sums(baseline, baseline)
        changes.append((_sums(baseline, changed)[0] - before) / at)
        rows.append(at)
    if len(first[0]) > 1 and not np.array_equal(rows[0], rows[1]):
        raise UsageError("strings come in pairs of the same length; give the same strings to both")
    apart = ratios((changes[0] - changes[1]) * rows[0], rows[0], seed=seed)
    return {name: apart.at(i) for i, name in enumerate((*_CHANGES, "divergence"))}


def _sums(baseline: Outcomes, changed: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Float64[N, 4] sums of every string's measures, in the order of _CHANGES and divergence, and their rows."""
    sums, rows = np.zeros((len(changed), 4)), np.zeros((len(changed), 4))
    for i, (before, after) in enumerate(zip(baseline, changed, strict=True)):
        n = len(after.right)
        p = np.exp(before.log_probs.astype(np.float64))
        divergence = (p * (before.log_probs.astype(np.float64) - after.log_probs)).sum()
        divergence = max(divergence, 0.0)  # rounding
        sums[i] = float(after.right.all()), after.right.sum(), after.margins.sum(dtype=np.float64), divergence
        rows[i] = 1, n, n, n
    return sums, rows


def intervene(
    model: CopyTransformer,
    samples: Sequence[Sample],
    intervention: Intervention,
    *,
    baseline: Outcomes | None = None,
    seed: int = 0,
) -> Effect:
    """Return the effect of an intervention on the answers to `samples`.

    Args:
        model: not changed.
        samples: strings; plain ones unless conflicts are meant.
        intervention: what is done.
        baseline: `read_outcomes(model, samples)` where it is known already.
        seed: of replacements, random keys and intervals.

    Raises:
        UsageError: no strings, a head that does not exist, or strings too long for what is to be done.
    """
    baseline = read_outcomes(model, samples) if baseline is None else baseline
    return compare(baseline, read_outcomes(model, samples, intervention, seed=seed), intervention.words, seed=seed)


def intervene_controlled(
    model: CopyTransformer,
    samples: Sequence[Sample],
    intervention: Intervention,
    control: Intervention,
    *,
    baseline: Outcomes | None = None,
    seed: int = 0,
) -> ControlledEffect:
    """Return the effects of an intervention and of its control on the same strings, see `intervene`."""
    baseline = read_outcomes(model, samples) if baseline is None else baseline
    changed, beside = (read_outcomes(model, samples, done, seed=seed) for done in (intervention, control))
    return compare_controlled(baseline, changed, beside, intervention.words, control.words, seed=seed)


def heads_by_label(labels: Sequence[Sequence[str]]) -> dict[str, Heads]:
    """The heads that have each label, `labels[layer][head]`."""
    found: dict[str, Heads] = {}
    for layer, row in enumerate(labels):
        for head, label in enumerate(row):
            found[label] = (*found.get(label, ()), (layer, head))
    return found


def ablate_labels(
    model: CopyTransformer,
    samples: Sequence[Sample],
    labels: Sequence[Sequence[str]],
    *,
    ways: Sequence[str] = ("zero", "mean", "resample"),
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, dict[str, Effect]]:
    """Ablate all heads of a label together, and return the effects by label and way of ablation.

    On strings with repeats this says whether induction heads cause the failures there: exact match rises without them.

    Args:
        model: not changed.
        samples: strings.
        labels: `labels[layer][head]`.
        ways: names in `analyses.ablation.WAYS`.
        seed: of replacements and intervals.
        progress: called with the share that is done.

    Raises:
        UsageError: an unknown way, or strings that it cannot be done on.
    """
    for way in ways:
        if way not in WAYS:
            raise UsageError(unknown("way of ablation", way, WAYS))
    groups = heads_by_label(labels)
    baseline = read_outcomes(model, samples)
    effects: dict[str, dict[str, Effect]] = {}
    for done, (label, heads) in enumerate(groups.items(), start=1):
        effects[label] = {
            way: intervene(model, samples, Ablation(heads, way), baseline=baseline, seed=seed) for way in ways
        }
        if progress is not None:
            progress(done / len(groups))
    return effects
