"""The table of rules: labels, margins, doubts, and what keeps overlapping heads apart."""

from collections.abc import Mapping

import numpy as np
import pytest

from analyses.estimates import Estimate, Estimates
from analyses.heads import REGISTERED
from analyses.labels import MIXED, RULES, UNCLEAR, Condition, HeadLabel, at_least, at_most, label_head
from analyses.measures.base import MEASURES, MODEL_MEASURES
from models.errors import UsageError

NOTHING = {
    "locator.mass": 0.1,
    "sink.mass": 0.0,
    "modular.score": 0.0,
    "modular.contrast": 0.0,
    "self.mass": 0.0,
    "lookback.mass": 0.0,
    "aligned.mass": 0.0,
    "aligned.near": 0.0,
    "aligned.share": 0.0,
    "induction.mass": 0.0,
    "induction.conflict": 0.0,
    "duplicate.mass": 0.0,
    "duplicate.lift": 0.0,
    "entropy": 0.3,
    "share.second": 0.4,
    "share.residual": 0.1,
}


def estimates(value: float, low: float | None = None, high: float | None = None, chance: float = np.nan) -> Estimates:
    one = np.ones((1, 1))
    ends = (value if low is None else low) * one, (value if high is None else high) * one
    return Estimates(value * one, *ends, one.astype(int) * 9, one.astype(int) * 3, chance * one)


def label(**changed: float | Estimates | None) -> HeadLabel:
    """Label of a head that scores NOTHING but for `changed`; two underscores stand for a dot, None for no value."""
    scores: dict[str, Estimates] = {name: estimates(value) for name, value in NOTHING.items()}
    for name, value in changed.items():
        score = np.nan if value is None else value
        scores[name.replace("__", ".")] = score if isinstance(score, Estimates) else estimates(score)
    return label_head(scores, 0, 0)


PURE: Mapping[str, Mapping[str, float]] = {
    "locator": {"locator__mass": 0.9, "locator__decoding": 0.95},
    "sink": {"sink__mass": 0.95, "locator__mass": 0.95, "locator__decoding": 0.0},
    "modular(4)": {"modular__score": 0.9, "modular__contrast": 0.9, "modular__m": 4, "sink__mass": 0.25},
    "self": {"self__mass": 0.8},
    "look-back(3)": {"lookback__mass": 0.9, "lookback__k": 3},
    "aligned": {"aligned__mass": 0.9, "aligned__near": 0.9, "induction__mass": 0.9, "aligned__share": 0.9},
    "induction": {"induction__mass": 0.9, "induction__conflict": 0.9, "aligned__mass": 0.9},
    "duplicate": {"duplicate__mass": 0.9, "duplicate__lift": 0.9},
    "diffuse": {"entropy": 0.99},
    "mixed": {},
}


@pytest.mark.parametrize("expected", list(PURE))
def test_every_label_can_be_had_and_is_certain(expected: str) -> None:
    found = label(**PURE[expected])
    assert found.label == expected and found.certain and found.margin > 0 and not found.doubts
    assert found.kind == expected.partition("(")[0]


def test_the_table_has_every_label_once_and_asks_only_for_scores_that_are_measured() -> None:
    assert [rule.label for rule in RULES] == [*(name.partition("(")[0] for name in PURE), UNCLEAR]
    assert REGISTERED and {"context", "offsets", "locator", "modular", "templates"} <= set(MEASURES)
    assert "moved" in MODEL_MEASURES


def test_a_sink_is_a_locator_only_where_its_split_tells_the_index() -> None:
    both = {"sink__mass": 0.7, "locator__mass": 0.95}
    assert label(**both, locator__decoding=0.9).label == "locator"
    assert label(**both, locator__decoding=0.1).label == "sink"
    unknown = label(**both, locator__decoding=None)
    assert unknown.label == "sink" and not unknown.certain
    assert "may be locator" in unknown.doubts[0]


def test_aligned_and_induction_are_decided_where_they_disagree() -> None:
    plain = {"aligned__mass": 0.95, "induction__mass": 0.95}
    assert label(**plain, aligned__near=0.95).label == "aligned"
    assert label(**plain, induction__conflict=0.95).label == "induction"
    unknown = label(**plain, aligned__near=None, induction__conflict=None)
    assert unknown.label == MIXED and not unknown.certain
    assert any("may be aligned" in doubt for doubt in unknown.doubts)
    assert any("may be induction" in doubt for doubt in unknown.doubts)


def test_induction_does_not_favour_the_true_source_among_equal_contexts() -> None:
    context = {"induction__mass": 0.95, "induction__conflict": 0.95}
    assert label(**context, aligned__share=0.2).certain
    assert label(**context, aligned__share=0.8).label == MIXED
    unique = label(**context, aligned__share=None)  # strings on which no context comes twice
    assert unique.label == "induction" and unique.certain


def test_shifted_positions_have_the_last_word_where_there_are_any() -> None:
    aligned, context = PURE["aligned"], PURE["induction"]
    assert label(**aligned, moved__slip=0.9).certain and label(**context, moved__slip=0.1).certain
    assert label(**aligned, moved__slip=0.1).label == MIXED == label(**context, moved__slip=0.9).label
    assert label(**aligned, moved__slip=None).certain  # a model without positions
    assert not label(**aligned, moved__slip=estimates(0.6, 0.4, 0.7)).certain


def test_what_is_expected_by_chance_is_no_evidence() -> None:
    """Half of the keys are duplicates in a binary string: .6 of the mass on them is little, .9 is much."""
    common = {"duplicate__lift": 0.9}
    assert label(**common, duplicate__mass=estimates(0.6, chance=0.5)).label == MIXED
    assert label(**common, duplicate__mass=estimates(0.9, chance=0.5)).label == "duplicate"
    condition = at_least("duplicate.mass", 0.5)
    assert condition.margin(Estimate(0.75, (0.7, 0.8), 9, 3, chance=0.5)) == pytest.approx(0)


def test_margins_are_zero_at_the_threshold_and_one_at_best() -> None:
    def at(value: float) -> Estimate:
        return Estimate(value, (value, value), 9, 3)

    above, below = at_least("x", 0.5), at_most("x", 0.2)
    assert [above.margin(at(v)) for v in (0.5, 0.75, 1.0, 1.7, 0.25)] == [0, 0.5, 1, 1, -0.5]
    assert [below.margin(at(v)) for v in (0.2, 0.1, 0.0, -3)] == [0, 0.5, 1, 1] and below.margin(at(0.6)) < 0
    assert str(above) == "x ≥ 0.5" and str(below) == "x ≤ 0.2"
    assert str(at_most("x", 0.2, waived=True)) == "x ≤ 0.2, where measurable"
    found = label(locator__mass=0.9, locator__decoding=0.6)
    assert found.margin == pytest.approx(0.2) == min(e.condition.margin(e.estimate) for e in found.evidence[:2])


@pytest.mark.parametrize(
    ("changed", "certain"),
    [
        ({"self__mass": estimates(0.55, 0.52, 0.6)}, True),
        ({"self__mass": estimates(0.55, 0.48, 0.6)}, False),  # its own threshold lies inside
        ({"self__mass": estimates(0.45, 0.4, 0.6)}, False),  # mixed, but it may well be self
        ({"self__mass": 0.9, "locator__mass": 0.9, "locator__decoding": estimates(0.45, 0.4, 0.6)}, False),
        ({"self__mass": 0.9, "entropy": estimates(0.89, 0.85, 0.95)}, True),  # a later rule cannot matter
        ({"share__second": 0.05}, False),  # nothing fits
    ],
)
def test_a_label_is_uncertain_where_an_interval_holds_a_threshold_that_matters(
    changed: Mapping[str, float | Estimates], certain: bool
) -> None:
    found = label(**changed)
    assert found.certain is certain and bool(found.doubts) is not certain


def test_what_fits_no_rule_is_unclear_and_says_so() -> None:
    found = label(share__second=0.05, share__shifted=0.8)
    assert found.label == UNCLEAR and not found.certain
    assert found.doubts[-1] == "no rule fits; 80% of it is shifted"
    assert found.margin == pytest.approx((0.05 - 0.15) / 0.85), "of the nearest rule"


def test_a_head_is_mixed_only_where_pure_heads_account_for_most_of_it() -> None:
    assert label(share__residual=0.4).label == MIXED
    assert label(share__residual=0.6).label == UNCLEAR
    assert not label(share__residual=estimates(0.45, 0.4, 0.55)).certain


def test_the_last_rule_must_take_all() -> None:
    with pytest.raises(UsageError, match="the last rule, mixed, must have no conditions"):
        label_head({}, 0, 0, RULES[:-1])


def test_scores_that_were_not_measured_do_not_stand_in_the_way() -> None:
    scores = {"self.mass": estimates(0.9)}
    assert label_head(scores, 0, 0).label == "self"


def test_labels_are_readable_by_machines() -> None:
    values = label(**PURE["induction"]).as_dict()
    assert values["evidence"][0] == {
        "score": "induction.mass",
        "condition": "induction.mass ≥ 0.5",
        "value": 0.9,
        "interval": [0.9, 0.9],
        "rows": 9,
        "strings": 3,
    }
    assert (values["label"], values["certain"], values["doubts"]) == ("induction", True, [])


def test_conditions_are_data() -> None:
    assert Condition("x", 0.5) == at_least("x", 0.5)
    assert all(0 < c.threshold < 1 for rule in RULES for c in rule.conditions)
