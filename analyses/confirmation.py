"""Does an intervention agree with a head's label: what every label predicts, and whether it happens.

A head's pattern says where it looks, not whether anything depends on it. Each label names an intervention that must
harm the answers more than a control does (EXPECTATIONS). On strings without repeats the true source and the token after
the matching context are one key, so for aligned and induction heads it must happen on conflict strings too, on rows
where the two are different keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyses.effects import ControlledEffect, heads_by_label, intervene_controlled
from analyses.estimates import Estimate
from analyses.expectations import EXPECTATIONS, MORE, Build, family_of
from analyses.outcomes import Heads, Outcomes, copied, read_outcomes
from analyses.passes import Progress
from analyses.samples import Sample
from models.transformer import CopyTransformer

STATES = ("confirmed", "not confirmed", "no effect", "not measurable")
# Smaller effects count as none: logits, as a share of the baseline's logit difference, and nats a row.
LEAST_SHARE, LEAST_DIVERGENCE = 0.05, 1e-3
BEYOND = 0.5  # share of an intervention's harm that must be beyond its control's
LEFT = 0.1  # share of the control's harm that may be left where a label predicts none
DEFAULT_ORDER = 1  # tokens of context of an induction head where nothing else is known: contains all longer ones


@dataclass(frozen=True)
class Confirmation:
    """Whether an intervention agrees with a label.

    Attributes:
        label: of the heads.
        heads: (layer, head) pairs that were intervened on together.
        state: one of STATES: "confirmed" (what the label predicts happens), "not confirmed" (the intervention or the
            control has an effect, but not that), "no effect" (neither has), "not measurable".
        expected: what a confirmation means, in words.
        measure: of harm, "logit difference" (its fall) or "divergence"; "" where nothing was measured.
        effects: the intervention beside its control; None where nothing was measured.
        conflict: the same on conflict strings, where it was asked for.
        reason: why it is not measurable, or how far it is confirmed and how far it is not.
    """

    label: str
    heads: Heads
    state: str
    expected: str
    measure: str = ""
    effects: ControlledEffect | None = None
    conflict: ControlledEffect | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values: dict[str, Any] = {
            "state": self.state,
            "expected": self.expected,
            "heads": [list(head) for head in self.heads],
            "measure": self.measure,
        }
        if self.effects is not None:
            values |= self.effects.as_dict()
        if self.conflict is not None:
            values["conflict"] = self.conflict.as_dict()
        return values | ({"reason": self.reason} if self.reason else {})


def confirm(
    label: str, effects: ControlledEffect | None, conflict: ControlledEffect | None = None, *, heads: Heads = ()
) -> Confirmation:
    """Say whether `effects`, of what EXPECTATIONS names for the label, agree with it.

    Harm is the fall of the logit difference (right minus best wrong, mean over scored rows) where the model copies some
    string exactly, else, and on conflict strings and for diffuse heads, the divergence of its predictions (KL, nats a
    row). Harm of less than LEAST_SHARE of the baseline's logit difference, or than LEAST_DIVERGENCE, is none, and so is
    harm whose interval holds zero.

    Confirmed means that there is harm, and that harm minus the control's, paired by string, has an interval above zero
    and is at least BEYOND of the harm; for diffuse heads, that the control harms, the interval is below zero, and all
    but LEFT of the control's harm is missing. On conflict strings it must hold too, where they have rows on which it
    can be asked. No effect means neither harm nor divergence, of either. A confirmation does not mean that no other
    label would be confirmed: over two kinds of tokens the true source is often an occurrence of the query's token too.
    """
    expectation = EXPECTATIONS[family_of(label)[0]]
    if not expectation.effect or effects is None:
        reason = expectation.sentence if not expectation.effect else "no intervention was made"
        return Confirmation(label, heads, "not measurable", expectation.sentence, reason=reason)
    exact = effects.effect.exact_match.baseline.value or 0.0
    measure = "logit_difference" if exact > 0 and expectation.effect == MORE else "divergence"
    state, reason = _state(effects, measure, expectation.effect), ""
    if expectation.conflict is not None and state == "confirmed":
        if conflict is None or not conflict.effect.removed.measurable:
            reason = "on plain strings only, where the true source and the token after the context may be one key"
        elif (on_conflicts := _state(conflict, "divergence", expectation.effect)) != "confirmed":
            state, reason = "not confirmed", f"on conflict strings: {on_conflicts}"
    words = measure.replace("_", " ")
    return Confirmation(label, heads, state, expectation.sentence, words, effects, conflict, reason)


def _state(effects: ControlledEffect, measure: str, expected: str) -> str:
    if measure == "divergence":
        harm, beside, beyond = effects.effect.divergence, effects.control.divergence, effects.beyond["divergence"]
        least, sign = LEAST_DIVERGENCE, 1
    else:
        baseline = effects.effect.logit_difference.baseline.value or 0.0
        harm, beside = effects.effect.logit_difference.difference, effects.control.logit_difference.difference
        beyond, least, sign = effects.beyond["logit_difference"], LEAST_SHARE * abs(baseline), -1
    harmed, control_harmed = _direction(harm, least) * sign, _direction(beside, least) * sign
    diverged = any(_direction(e.divergence, LEAST_DIVERGENCE) for e in (effects.effect, effects.control))
    if not (harmed or control_harmed or diverged):
        return "no effect"
    if expected == MORE:
        agrees = harmed > 0 and _direction(beyond, BEYOND * abs(harm.value or 0.0)) * sign > 0
    else:
        agrees = control_harmed > 0 and _direction(beyond, (1 - LEFT) * abs(beside.value or 0.0)) * sign < 0
    return "confirmed" if agrees else "not confirmed"


def _direction(estimate: Estimate, least: float) -> int:
    """1 or -1 where it is surely above or below zero by more than `least`, else 0."""
    if estimate.value is None or estimate.interval is None or abs(estimate.value) <= least:
        return 0
    low, high = estimate.interval
    return int(low > 0) - int(high < 0)


def confirm_heads(
    model: CopyTransformer,
    samples: Sequence[Sample],
    labels: Sequence[Sequence[str]],
    *,
    orders: Mapping[tuple[int, int], int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[tuple[int, int], Confirmation]:
    """Make the intervention that every head's label names, on that head alone.

    A role that several heads share may show no effect in each; see `confirm_labels`. Where the model copies, only
    distributions and lengths count of which it copies some plain string exactly: elsewhere nothing can be harmed.

    Args:
        model: not changed.
        samples: plain strings, and corrupted ones if conflicts are to be asked about; others are not used.
        labels: `labels[layer][head]`.
        orders: tokens of context of induction heads, by (layer, head); DEFAULT_ORDER where it is not given.
        seed: of replacements, random keys and intervals.
        progress: called with the share that is done.

    Raises:
        UsageError: an unknown label, no plain strings, or strings too long to write out their patterns.
    """
    groups = [(label, ((layer, head),)) for layer, row in enumerate(labels) for head, label in enumerate(row)]
    found = _confirm_groups(model, samples, groups, orders or {}, seed, progress)
    return {confirmation.heads[0]: confirmation for confirmation in found}


def confirm_labels(
    model: CopyTransformer,
    samples: Sequence[Sample],
    labels: Sequence[Sequence[str]],
    *,
    orders: Mapping[tuple[int, int], int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Confirmation]:
    """Make the intervention that every label names on all heads that have it, see `confirm_heads`."""
    found = _confirm_groups(model, samples, list(heads_by_label(labels).items()), orders or {}, seed, progress)
    return {confirmation.label: confirmation for confirmation in found}


def _confirm_groups(
    model: CopyTransformer,
    samples: Sequence[Sample],
    groups: Sequence[tuple[str, Heads]],
    orders: Mapping[tuple[int, int], int],
    seed: int,
    progress: Progress | None,
) -> list[Confirmation]:
    plain, conflicts = ([sample for sample in samples if sample.kind == kind] for kind in ("plain", "corrupted"))
    families = [family_of(label) for label, _ in groups]
    baseline = read_outcomes(model, plain)
    plain, baseline = copied(plain, baseline)
    sets = {(sample.distribution, sample.length) for sample in plain}
    conflicts = [sample for sample in conflicts if (sample.distribution, sample.length) in sets]
    asked = conflicts and any(EXPECTATIONS[family].conflict for family, _ in families)
    baseline_conflicts = read_outcomes(model, conflicts) if asked else ()
    found = []
    for done, ((label, heads), (family, number)) in enumerate(zip(groups, families, strict=True), start=1):
        expectation = EXPECTATIONS[family]
        order = number if number is not None else min(orders.get(head, DEFAULT_ORDER) for head in heads)
        # An aligned head has no context: the corrupted one, whose m tokens surely do not precede the true source.
        conflict_order = max(sample.m for sample in conflicts) if conflicts and family == "aligned" else order
        effects = _effects(model, plain, expectation.build, heads, order, baseline, seed)
        conflict = None
        if conflicts:
            build = expectation.conflict
            conflict = _effects(model, conflicts, build, heads, conflict_order, baseline_conflicts, seed)
        found.append(confirm(label, effects, conflict, heads=heads))
        if progress is not None:
            progress(done / len(groups))
    return found


def _effects(
    model: CopyTransformer,
    samples: Sequence[Sample],
    build: Build | None,
    heads: Heads,
    number: int,
    baseline: Outcomes,
    seed: int,
) -> ControlledEffect | None:
    if build is None:
        return None
    intervention, control = build(heads, number)
    return intervene_controlled(model, samples, intervention, control, baseline=baseline, seed=seed)
