"""What a head is called: thresholds on its scores, all in one table, RULES.

Thresholds are on what a score has beyond chance, (value - chance) / (1 - chance), where a chance is known: half of the
keys are duplicates in a string of zeros and ones, and mass on them says nothing. The first rule whose conditions all
hold gives the label; conditions that keep overlapping rules apart are written into both, so order decides nothing for a
clear head; the last rule has none and takes what no other does. A label's margin is the smallest over its rule's
conditions of how far the score lies from its threshold, 0 at the threshold and 1 at the best value there is; that of a
head that fits no rule is how far it is from the nearest one, below 0. A label is certain where nothing within the
scores' intervals would change it: its own conditions hold throughout, and every rule before it fails throughout.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.estimates import Estimate, Estimates
from models.errors import UsageError

MIXED = "mixed"
UNCLEAR = "unclear"

# What the shares of a pattern are summed by: labels, and "shifted" for a few keys before or after the true source,
# where a head reads the source's token if an earlier layer has moved it there.
GROUPS = ("diffuse", "induction", "duplicate", "aligned", "shifted", "self", "look-back", "sink", "locator")


@dataclass(frozen=True)
class Condition:
    """A score on one side of a threshold.

    Attributes:
        score: its name; beyond chance, it lies between 0 and 1 or is cut to that.
        threshold: between 0 and 1, itself on the wanted side.
        above: is the wanted side above.
        waived: it holds where the score is not measurable: what it excludes has not come up.
    """

    score: str
    threshold: float
    above: bool = True
    waived: bool = False

    def margin(self, estimate: Estimate) -> float:
        """How far the score is on the wanted side: 0 at the threshold, 1 at the best value, negative beyond it.

        One that is not measurable counts as 0, or as at best where the condition is waived.
        """
        if self.waived and estimate.value is None:
            return 1.0
        return self._margin(0.0 if estimate.value is None else estimate.value, estimate.chance)

    def holds(self, estimate: Estimate) -> bool:
        """Is the score on the wanted side."""
        return self.margin(estimate) >= 0

    def sure(self, estimate: Estimate) -> bool:
        """Is all of its interval on the side where the score is; not where it is not measurable, unless waived."""
        if estimate.interval is None:
            return self.waived
        low, high = (self._margin(end, estimate.chance) >= 0 for end in estimate.interval)
        return low == high

    def _margin(self, value: float, chance: float | None) -> float:
        if chance is not None and chance < 1:
            value = (value - chance) / (1 - chance)
        value = min(max(value, 0.0), 1.0)
        if self.above:
            return (value - self.threshold) / (1 - self.threshold)
        return (self.threshold - value) / self.threshold

    def __str__(self) -> str:
        waived = ", where measurable" if self.waived else ""
        return f"{self.score} {'≥' if self.above else '≤'} {self.threshold:g}{waived}"


@dataclass(frozen=True)
class Rule:
    """When a head gets a label.

    Attributes:
        label: its name, without parameter.
        conditions: all of them have to hold; none for the rule that takes what no other does.
        sentence: what such a head does, and what tells it from its neighbours.
        parameter: score that stands in brackets behind the label, as in look-back(3).
        beside: scores shown with it that decide nothing.
    """

    label: str
    conditions: tuple[Condition, ...]
    sentence: str
    parameter: str | None = None
    beside: tuple[str, ...] = ()


def at_least(score: str, threshold: float, *, waived: bool = False) -> Condition:
    """The condition that `score` is at least `threshold`."""
    return Condition(score, threshold, waived=waived)


def at_most(score: str, threshold: float, *, waived: bool = False) -> Condition:
    """The condition that `score` is at most `threshold`."""
    return Condition(score, threshold, above=False, waived=waived)


RULES: tuple[Rule, ...] = (
    Rule(
        "locator",
        (at_least("locator.mass", 0.5), at_least("locator.decoding", 0.5)),
        "Most of its mass is on the anchors, and how it is split among them tells the index, on lengths that the "
        "decoder has not seen. A sink's split tells nothing.",
        beside=("locator.mass.source", "locator.decoding.source", "locator.continuity"),
    ),
    Rule(
        "sink",
        (at_least("sink.mass", 0.5), at_most("locator.decoding", 0.5)),
        "Most of its mass is on the first token at every position; the split among anchors does not tell the index.",
    ),
    Rule(
        "modular",
        (at_least("modular.score", 0.5), at_least("modular.contrast", 0.5)),
        "It attends to the first token at positions i = r (mod m) and not at the others.",
        parameter="modular.m",
        beside=("modular.r",),
    ),
    Rule(
        "self",
        (at_least("self.mass", 0.5),),
        "Most of its mass is on the query's own position.",
    ),
    Rule(
        "look-back",
        (at_least("lookback.mass", 0.5),),
        "Most of its mass is k tokens back, the same k on strings of different lengths; an aligned head's distance "
        "grows with the length.",
        parameter="lookback.k",
    ),
    Rule(
        "aligned",
        (
            at_least("aligned.mass", 0.5),
            at_least("aligned.near", 0.5),
            at_least("moved.slip", 0.5, waived=True),
        ),
        "It attends to the true source, stays within one key of it where the tokens before it are not those before the "
        "query, and slips by one when the copy's positions are shifted by one.",
        beside=("aligned.conflict", "aligned.share", "aligned.continuity"),
    ),
    Rule(
        "induction",
        (
            at_least("induction.mass", 0.5),
            at_least("induction.conflict", 0.5),
            at_most("aligned.share", 0.5, waived=True),
            at_most("moved.slip", 0.5, waived=True),
        ),
        "It attends to what followed the same tokens before, also where that is not the true source; it does not "
        "favour the true source where it is one of several such tokens, nor follow shifted positions.",
        beside=("induction.m", "moved.stays"),
    ),
    Rule(
        "duplicate",
        (at_least("duplicate.mass", 0.5), at_least("duplicate.lift", 0.5)),
        "It attends to earlier occurrences of the query's own token, more than their number accounts for.",
    ),
    Rule(
        "diffuse",
        (at_least("entropy", 0.9),),
        "It attends to all that it sees nearly alike.",
    ),
    Rule(
        MIXED,
        (at_least("share.second", 0.15), at_most("share.residual", 0.5)),
        "No rule of a pure head fits; the shares of at least two pure heads in its pattern are substantial, and "
        "together the pure heads account for most of it.",
    ),
    Rule(
        UNCLEAR,
        (),
        "It fits no rule. Never certain.",
        beside=("share.second", "share.residual"),
    ),
)


@dataclass(frozen=True)
class Evidence:
    """A score that a label rests on.

    Attributes:
        score: its name.
        estimate: what was measured.
        condition: that it had to meet, None where it is only shown beside.
    """

    score: str
    estimate: Estimate
    condition: Condition | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        condition = None if self.condition is None else str(self.condition)
        return {"score": self.score, "condition": condition} | self.estimate.as_dict()


@dataclass(frozen=True)
class HeadLabel:
    """What one head is called, and why.

    Attributes:
        layer, head: which.
        label: as in "locator" or "look-back(3)".
        margin: 0 at the nearest threshold of its rule, 1 at best; for a head that fits no rule, that of the nearest
            rule, negative.
        certain: would no value inside the scores' intervals change the label.
        evidence: the scores of its rule, deciding ones first.
        shares: of each pure head in its pattern, largest first, see `analyses.templates`.
        doubts: what else it could be, or why it could not be told, one sentence each; empty where it is certain.
    """

    layer: int
    head: int
    label: str
    margin: float
    certain: bool
    evidence: tuple[Evidence, ...]
    shares: Mapping[str, float]
    doubts: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The label without its parameter."""
        return self.label.partition("(")[0]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "layer": self.layer,
            "head": self.head,
            "label": self.label,
            "margin": self.margin,
            "certain": self.certain,
            "doubts": list(self.doubts),
            "evidence": [evidence.as_dict() for evidence in self.evidence],
            "shares": dict(self.shares),
        }


def label_head(scores: Mapping[str, Estimates], layer: int, head: int, rules: Sequence[Rule] = RULES) -> HeadLabel:
    """Label one head; scores that are missing count as not measured.

    Args:
        scores: by name.
        layer: of the head.
        head: in its layer.
        rules: in order; the last one has no conditions and takes what no other does.

    Raises:
        UsageError: the last rule has conditions.
    """

    def measured(score: str) -> Estimate:
        return scores[score].at(layer, head) if score in scores else Estimate(None, None, 0, 0, reason="not measured")

    if rules[-1].conditions:
        raise UsageError(f"the last rule, {rules[-1].label}, must have no conditions: it takes what no other does")
    doubts: list[str] = []
    chosen, found = rules[-1], []
    nearest = -math.inf
    for rule in rules[:-1]:
        found = [(condition, measured(condition.score)) for condition in rule.conditions]
        margin = min(condition.margin(estimate) for condition, estimate in found)
        nearest = max(nearest, margin)
        if margin >= 0:
            chosen = rule
            break
        doubts += _open(rule, found)
    shares = _shares(scores, layer, head)
    if chosen is rules[-1]:
        found = []
        most = "".join(f"; {share:.0%} of it is {name}" for name, share in [*shares.items()][:1])
        doubts.append(f"no rule fits{most}")
    doubts += [
        f"not sure of {condition}: {_said(estimate)}" for condition, estimate in found if not condition.sure(estimate)
    ]
    evidence = [Evidence(condition.score, estimate, condition) for condition, estimate in found]
    evidence += [Evidence(score, measured(score)) for score in chosen.beside]
    return HeadLabel(
        layer,
        head,
        _named(chosen, None if chosen.parameter is None else measured(chosen.parameter)),
        nearest,
        not doubts,
        tuple(evidence),
        shares,
        tuple(doubts),
    )


def _open(rule: Rule, found: Sequence[tuple[Condition, Estimate]]) -> list[str]:
    """Why a rule that does not fire might, nothing where one of its conditions surely fails or nothing was measured."""
    failing = [(condition, estimate) for condition, estimate in found if not condition.holds(estimate)]
    known = any(estimate.measurable for _, estimate in found)
    if not known or any(condition.sure(estimate) for condition, estimate in failing):
        return []
    reasons = " and ".join(f"{condition} not excluded by {_said(e)}" for condition, e in failing)
    return [f"may be {rule.label}: {reasons}"]


def _said(estimate: Estimate) -> str:
    if estimate.value is None or estimate.interval is None:
        return f"not measurable ({estimate.reason})"
    low, high = estimate.interval
    chance = f", by chance {estimate.chance:.2f}" if estimate.chance else ""
    return f"{estimate.value:.2f} [{low:.2f}, {high:.2f}]{chance}"


def _named(rule: Rule, parameter: Estimate | None) -> str:
    if parameter is None or parameter.value is None:
        return rule.label
    return f"{rule.label}({round(parameter.value)})"


def _shares(scores: Mapping[str, Estimates], layer: int, head: int) -> dict[str, float]:
    shares = {name: float(scores[f"share.{name}"].value[layer, head]) for name in GROUPS if f"share.{name}" in scores}
    return dict(sorted(shares.items(), key=lambda item: -np.nan_to_num(item[1])))
