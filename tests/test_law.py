"""The law, margins and regressions on models whose answer is known."""

import json
from functools import cache

import numpy as np
import pytest
import torch

from analyses.copies import Copies, read_copies, read_margins, shared_context
from analyses.law import PERIODS, Law, handled_length, how_handled, law, law_pairs, slope_of
from analyses.regression import PREDICTORS, concordance, predict_failures
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.evaluation import answer, evaluate, wilson
from models.tasks import CopyTask
from models.transformer import CopyTransformer

MIXED = ("uniform", "unique-context", "repeat-structure")


@cache
def built(name: str) -> tuple[CopyTransformer, CopyTask]:
    return CONSTRUCTIONS[name].build(), CopyTask(CONSTRUCTIONS[name].task)


@cache
def by_context() -> Law:
    """An induction head over contexts of three tokens, at a length at which a flip may part all of them."""
    model, task = built("induction-3")
    return law(model, task, how_handled(model, task, 20), strings=20)


# ------------------------------------------------------------------ copies


def test_copies_are_those_of_an_evaluation() -> None:
    model, task = built("induction-3")
    seen: list[float] = []
    copies = read_copies(
        model, task, lengths=[20, 50], distributions=["uniform", "unique-context"], strings=6, progress=seen.append
    )
    scores = evaluate(
        model, task, intervals=[(20, 20), (50, 50)], distributions=["uniform", "unique-context"], strings=6
    )
    curve = [(s.length, s.strings, round(s.exact_match * 6), s.interval) for s in scores]
    assert copies.curve("uniform") + copies.curve("unique-context") == curve
    assert seen == sorted(seen) and seen[-1] == 1 and len(copies) == 24


def test_a_margin_is_negative_exactly_where_a_copy_fails() -> None:
    model, task = built("induction-3")
    batch = task.sample(30, torch.Generator().manual_seed(0), lengths=(5, 60), distribution="uniform")
    exact, margin = read_margins(model, batch)
    assert (exact == answer(model, batch).exact.numpy()).all() and 0 < exact.sum() < 30
    assert (margin[exact] >= 0).all() and (margin[~exact] <= 0).all()
    alone = [float(read_margins(model, batch.select([row]))[1][0]) for row in range(5)]
    np.testing.assert_allclose(alone, margin[:5], rtol=1e-4, atol=1e-4)


def test_repetition_is_the_mean_shared_context() -> None:
    """In 0101 the positions after 0 and 010 share one token, those after 01 and 0101 share two."""
    assert shared_context(np.array([0, 1, 0, 1]), 2) == pytest.approx((1 + 2 + 1 + 2) / 5)
    model, task = built("rope2d-aligned")
    found = read_copies(model, task, lengths=[16], distributions=["repeat-structure", "unique-context"], strings=8)
    assert found.shared[:8].mean() > found.shared[8:].mean()
    np.testing.assert_allclose(found.repetition, np.log2(1 + found.shared))


# ------------------------------------------------------------------ the law


def test_pairs_are_those_of_the_paper_that_fit() -> None:
    pairs = law_pairs(100)
    assert {period for period, _ in pairs} == set(PERIODS) and len(pairs) == 16
    assert all((1 - flip) ** period >= 0.3 for period, flip in pairs)
    assert (4, 0.25) in pairs and (4, 0.3) not in pairs
    assert {period for period, _ in law_pairs(12)} == {4, 6}


def test_a_model_that_goes_by_context_obeys_the_law_and_one_that_goes_by_position_does_not() -> None:
    context = by_context()
    assert context.margin_slope.interval is not None and context.margin_slope.interval[1] < 0
    model, task = built("rope2d-aligned")
    position = law(model, task, how_handled(model, task, 40), strings=5)
    assert {point.exact_match for point in position.points} == {1.0} and not position.holds
    assert position.margin_slope.value == pytest.approx(0, abs=1e-3)


def test_points_hold_what_evaluation_says_with_wilson_intervals() -> None:
    for point in by_context().points:
        assert point.interval == wilson(point.exact, point.strings)
        assert point.survival == pytest.approx((1 - point.flip) ** point.period)
    order = [(point.period, point.survival) for point in by_context().points]
    assert order == sorted(order)
    read = json.loads(json.dumps(by_context().as_dict()))
    assert read["handled"] and {"period", "flip", "survival", "strings", "exact_match", "interval"} <= set(
        read["points"][0]
    )


def test_the_law_holds_where_exact_match_falls_with_survival() -> None:
    rng = np.random.default_rng(0)
    survival = np.repeat(np.linspace(0.3, 0.95, 14), 40)
    exact = (rng.random(len(survival)) < 1 - survival).astype(float)
    falling, none = slope_of(exact, survival, 0), slope_of(rng.permutation(exact), survival, 0)
    assert falling.interval is not None and falling.interval[0] < -1 < falling.interval[1] < 0
    assert none.interval is not None and none.interval[0] < 0 < none.interval[1]
    assert slope_of(exact, np.ones(len(exact)), 0).value is None


def test_the_length_is_the_longest_that_is_handled() -> None:
    model, task = built("rope-locator-4")
    longest = CONSTRUCTIONS["rope-locator-4"].longest
    assert handled_length(model, task, longest, strings=4).length == min(longest, 200)
    beyond = how_handled(model, task, 8 * longest, strings=4)
    assert not beyond.enough
    with pytest.raises(UsageError, match="at least 8"):
        law_pairs(7)


# ------------------------------------------------------------------ what predicts failure


def synthetic(by_repetition: float, by_length: float, product: float, n: int = 1200) -> Copies:
    """Copies that fail with the log odds of a known regression."""
    rng = np.random.default_rng(1)
    length = rng.choice([16, 32, 64, 128], n)
    shared = np.maximum(2 ** rng.normal(2, 0.5, n) - 1, 0)
    repetition, log_length = (
        (values - values.mean()) / values.std() for values in (np.log2(1 + shared), np.log2(length))
    )
    odds = by_repetition * repetition + by_length * log_length + product * repetition * log_length
    exact = rng.random(n) >= 1 / (1 + np.exp(-odds))
    return Copies(np.repeat("uniform", n), length, shared, exact, -2 * odds + rng.normal(0, 0.1, n))


def test_a_regression_finds_the_coefficients_that_made_the_failures() -> None:
    found = predict_failures(synthetic(1.0, 0.5, -0.4))
    assert list(found.failure.coefficients) == ["intercept", *PREDICTORS]
    for name, true in zip(("intercept", *PREDICTORS), (0.0, 1.0, 0.5, -0.4), strict=True):
        odds, margin = found.failure.coefficients[name], found.margin.coefficients[name]
        assert odds.interval is not None and odds.interval[0] < true < odds.interval[1]
        assert margin.value == pytest.approx(-2 * true, abs=0.05)
    assert found.answer == "yes" and found.margin_slope.value is not None and found.margin_slope.value < -1


def test_what_repetition_does_not_do_is_not_found() -> None:
    found = predict_failures(synthetic(0.0, 2.0, 0.0))
    assert found.answer == "no"
    coefficient = found.failure.coefficients["repetition"]
    assert coefficient.interval is not None and coefficient.interval[0] < 0 < coefficient.interval[1]
    assert predict_failures(synthetic(-1.0, 0.0, 0.0)).answer == "reversed"


def test_concordance_is_the_share_of_pairs_and_looks_within_groups_only() -> None:
    values = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 2)
    failed = np.array(([False] * 5 + [True] * 5) * 2)
    groups = np.repeat([0, 1], 10)
    assert concordance(values, failed, groups, 0).value == 1
    assert concordance(-values, failed, groups, 0).value == 0
    assert concordance(np.ones(20), failed, groups, 0).value == 0.5
    apart = np.where(failed, 1, 0)
    assert concordance(values, failed, apart, 0).value is None


def test_induction_fails_by_repetition_at_fixed_length_and_a_locator_by_length() -> None:
    model, task = built("induction-3")
    induction = predict_failures(read_copies(model, task, lengths=[20, 40], distributions=MIXED, strings=12))
    assert induction.answer == "yes" and induction.margin_slope.interval is not None
    assert induction.margin_slope.interval[1] < 0
    model, task = built("rope-locator-4")
    longest = CONSTRUCTIONS["rope-locator-4"].longest
    lengths = [longest // 2, longest, 4 * longest]
    locator = predict_failures(read_copies(model, task, lengths=lengths, distributions=["uniform"], strings=10))
    assert locator.answer == "not measurable"
    length = locator.failure.coefficients["length"]
    assert length.interval is not None and length.interval[0] > 0


def test_nothing_that_fails_is_said_and_ready_for_json() -> None:
    model, task = built("rope2d-aligned")
    found = predict_failures(read_copies(model, task, lengths=[10, 20], distributions=MIXED, strings=5))
    assert found.failure.coefficients["repetition"].reason == "no string fails" == found.auc.reason
    assert found.answer == "not measurable" and found.margin.coefficients["length"].value is not None
    read = json.loads(json.dumps(found.as_dict()))
    assert [one["length"] for one in read["fixed_length"]["lengths"]] == [10, 20]


def test_the_same_seed_gives_the_same_numbers() -> None:
    copies = synthetic(1.0, 0.5, 0.0, n=200)
    assert predict_failures(copies).as_dict() == predict_failures(copies).as_dict()
