"""Failures of known cause are attributed to it, and controls say what is no evidence."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from analyses.attribution import CAUSES, Explainer, Explanation
from analyses.failures import ROWS, Failures, explain_failures, text_of
from analyses.questions import Question
from analyses.trials import CONFIRMED, REFUTED, Trial
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.evaluation import answer, evaluate
from models.tasks import CopyTask
from models.transformer import CopyTransformer

ANY = ("uniform", "imbalanced", "recursive-flip", "repeat-structure")


def noisy(name: str, level: float, seed: int) -> CopyTransformer:
    """A construction with Gaussian noise on its attention, `level` times the spread of each matrix."""
    model, generator = CONSTRUCTIONS[name].build(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for block in model.blocks:
            for matrix in ("W_Q", "W_K", "W_V", "W_O"):
                weight = getattr(block.attn, matrix)
                weight += level * weight.std() * torch.randn(weight.shape, generator=generator)
    return model


def without_stop(name: str) -> CopyTransformer:
    """B1 has no value: the row that should stop reads nothing from it."""
    model = CONSTRUCTIONS[name].build()
    with torch.no_grad():
        model.blocks[-1].attn.W_V[:, model.vocabulary.delimiter[0]] = 0
    return model


def stops_too_soon() -> CopyTransformer:
    """Wherever the token 1 is due, EOS is a little likelier."""
    model = CONSTRUCTIONS["rope2d-aligned"].build()
    with torch.no_grad():
        eos = model.settings.d_model - len(model.vocabulary) + model.vocabulary.eos
        model.blocks[0].attn.W_O[0, 1, eos] = 1.5
    return model


@cache
def built(name: str) -> CopyTransformer:
    return CONSTRUCTIONS[name].build()


def first_errors(model: CopyTransformer, task: CopyTask, length: int, distribution: str, n: int) -> list[Question]:
    batch = task.sample(n, torch.Generator().manual_seed(1), lengths=length, distribution=distribution)
    errors = answer(model, batch).first_error.tolist()
    return [Question(batch.strings[row].numpy(), k) for row, k in enumerate(errors) if k >= 0]


def explained(
    model: CopyTransformer, name: str, length: int, distributions: tuple[str, ...], n: int
) -> Iterator[Explanation]:
    """Of every failed string; a construction's range stands for its training range."""
    task = CopyTask(CONSTRUCTIONS[name].task)
    explainer = Explainer(model, task, trained=CONSTRUCTIONS[name].longest, draws=4)
    for distribution in distributions:
        for failure in first_errors(model, task, length, distribution, n):
            yield explainer.explain(failure)


@cache
def by_repetition() -> list[Explanation]:
    """The induction circuit on repeats; the hybrid on strings that are long, repetitive and both."""
    found = [*explained(built("induction"), "induction", 80, ANY, 8)]
    found += explained(built("induction-3"), "induction-3", 150, ANY, 8)
    for length in (90, 160):
        found += explained(built("rope-hybrid"), "rope-hybrid", length, (*ANY, "unique-context"), 5)
    return found


@cache
def by_length() -> list[Explanation]:
    """The locator past its length, on strings of every kind."""
    return [e for length in (420, 800) for e in explained(built("rope-locator"), "rope-locator", length, ANY, 3)]


@cache
def by_stop() -> list[Explanation]:
    """Models that never stop, or too soon."""
    found = [*explained(stops_too_soon(), "rope2d-aligned", 40, ANY[:2], 5)]
    for name, distribution in (
        ("rope2d-aligned", "recursive-flip"),
        ("rope-locator", "imbalanced"),
        ("induction-3", "unique-context"),
        ("rope-hybrid", "repeat-structure"),
    ):
        found += explained(without_stop(name), name, 50, (distribution,), 5)
    return found


@cache
def by_noise() -> list[Explanation]:
    """Models that copy by position, with noise, within their length."""
    found = []
    for name, level in (("rope2d-aligned-100", 0.3), ("rope-locator", 1e-3), ("rope-locator-4", 1e-3)):
        for seed in (0, 1):
            found += explained(noisy(name, level, seed), name, 100, ANY, 4)
    return found


KNOWN = {"repetition": by_repetition, "length": by_length, "stop": by_stop, "other": by_noise}


@pytest.mark.parametrize("cause", CAUSES)
def test_failures_of_a_known_cause_are_attributed_to_it(cause: str) -> None:
    found = KNOWN[cause]()
    assert len(found) >= 20
    assert np.mean([explanation.cause == cause for explanation in found]) >= 0.95
    if cause != "other":
        assert np.mean([explanation.confirmed for explanation in found]) >= 0.95


def test_a_rule_that_looks_at_length_alone_does_worse() -> None:
    right, by_length_alone = [], []
    for cause, known in KNOWN.items():
        right.append(np.mean([explanation.cause == cause for explanation in known()]))
        by_length_alone.append(np.mean([explanation.by_length_alone == cause for explanation in known()]))
    assert min(right) >= 0.95 and np.mean(by_length_alone) < 0.6
    hybrid = [explanation for explanation in by_repetition() if explanation.trained == 100]
    assert len(hybrid) >= 10 and all(explanation.by_length_alone == "length" for explanation in hybrid)


def test_the_hybrid_needs_both_to_fail() -> None:
    """Neither short repetitive strings nor long ones of unique contexts fail; of the rest either change mends all."""
    hybrid = [explanation for explanation in by_repetition() if explanation.trained == 100]
    assert all(explanation.length == 160 and explanation.also == ("length",) for explanation in hybrid)
    unique = [*explained(built("rope-hybrid"), "rope-hybrid", 160, ("unique-context",), 5)]
    assert not unique


def test_a_competitor_is_no_evidence_on_two_tokens() -> None:
    """Most rows where the locator fails attend to some competitor; broken or not, it changes nothing that counts."""
    trials = [explanation.trial("repetition") for explanation in by_length()]
    tried = [trial for trial in trials if trial is not None]
    assert len(tried) > len(trials) / 2
    assert all(trial.verdict == "refuted" and trial.left == 0 for trial in tried)


def test_length_is_no_cause_within_the_trained_range() -> None:
    assert all(explanation.trial("length") is None for explanation in by_noise())
    assert all(explanation.out_of_range for explanation in by_length())
    assert not any(explanation.out_of_range for explanation in by_noise())


def test_symptoms_are_told_from_causes() -> None:
    """An induction head that stops where the string's last tokens have stood before is wrong by repetition."""
    task = CopyTask(CONSTRUCTIONS["induction"].task)
    string = np.array([1, 2, 3, 9, 4, 5, 6, 7, 9])
    model = built("induction")
    late = Question(string, len(string))
    assert not answer(model, task.encode([string.tolist()])).right[0, -1]
    found = Explainer(model, task, trained=128).explain(late)
    assert (found.symptom, found.cause, found.confirmed) == ("late EOS", "repetition", True)
    assert {explanation.symptom for explanation in by_stop()} == {"late EOS", "early EOS"}


@pytest.mark.parametrize(
    ("share", "control", "left", "verdict"),
    [
        (1.0, 0.0, None, "confirmed"),
        (1.0, 1.0, None, "refuted"),
        (1.0, 0.0, 0.0, "refuted"),
        (CONFIRMED, 0.0, CONFIRMED, "confirmed"),
        (0.4, 0.0, None, "unconfirmed"),
        (REFUTED, 0.01, None, "refuted"),
    ],
)
def test_verdicts_are_by_the_excess_over_the_control(
    share: float, control: float, left: float | None, verdict: str
) -> None:
    assert Trial("repetition", share, control, 4, left=left).verdict == verdict


def test_an_explanation_depends_on_its_failure_alone() -> None:
    task = CopyTask(CONSTRUCTIONS["induction-3"].task)
    failures = first_errors(built("induction-3"), task, 60, "recursive-flip", 3)
    one, two = (Explainer(built("induction-3"), task, trained=2000) for _ in range(2))
    forwards = [one.explain(failure).as_dict() for failure in failures]
    backwards = [two.explain(failure).as_dict() for failure in failures[::-1]]
    assert forwards == backwards[::-1]


# ------------------------------------------------------------------ all of a model's failures


@cache
def all_failures() -> tuple[Failures, list[float]]:
    seen: list[float] = []
    found = explain_failures(
        built("induction-3"),
        CopyTask(CONSTRUCTIONS["induction-3"].task),
        trained=2000,
        lengths=[20, 60],
        distributions=["uniform", "repeat-structure"],
        strings=6,
        most=3,
        draws=4,
        progress=seen.append,
    )
    return found, seen


def test_the_strings_are_those_of_an_evaluation() -> None:
    found, seen = all_failures()
    scores = evaluate(
        built("induction-3"),
        CopyTask(CONSTRUCTIONS["induction-3"].task),
        intervals=[(20, 20), (60, 60)],
        distributions=["uniform", "repeat-structure"],
        strings=6,
    )
    for group, score in zip(found.groups, scores, strict=True):
        assert (group.distribution, group.length) == (score.distribution, score.length)
        assert group.exact_match == pytest.approx(score.exact_match) and group.interval == score.interval
        of_group = [f for f in found.failures if (f.distribution, len(f.string)) == (group.distribution, group.length)]
        assert len(of_group) == group.explained == min(3, group.failed)
        assert {f.explanation.first_error for f in of_group} <= set(score.first_errors)
    assert seen == sorted(seen) and seen[-1] == 1 and min(seen) > 0


def test_failed_rows_differ_from_right_ones_where_repetition_is_the_cause() -> None:
    found, _ = all_failures()
    assert set(found.rows) == set(ROWS)
    failed, right = (found.rows[kind]["mass_competitors"] for kind in ("failed", "right"))
    assert failed.value is not None and right.value is not None and failed.value > right.value
    assert found.rows["failed"]["has_competitors"].value == 1
    random = found.rows["failed"]["mass_random"].value
    assert random is not None and failed.value > 3 * random
    source = [found.rows[kind]["mass_source"].value for kind in ("failed", "right")]
    assert source[0] is not None and source[1] is not None and source[0] < source[1]


def test_shares_confirmed_stand_beside_their_control() -> None:
    found, _ = all_failures()
    by_cause = {summary.cause: summary for summary in found.causes}
    summary = by_cause["repetition"]
    assert summary.failures == summary.confirmed == summary.tried == len(found.failures) > 0
    assert (summary.repaired.value, summary.control.value) == (1, 0) and summary.repaired.strings == summary.tried
    assert by_cause["length"].repaired.value is None and by_cause["length"].repaired.reason


def test_all_is_ready_for_json_and_strings_can_be_read_back() -> None:
    found, _ = all_failures()
    read = json.loads(json.dumps(found.as_dict()))
    assert read["strings"] == 24 and read["failed"] == sum(group["failed"] for group in read["groups"])
    for failure in read["failures"]:
        assert {"string", "length", "first_error", "cause", "confirmed", "evidence"} <= set(failure)
        assert len(failure["string"].split()) == failure["length"]
    assert (text_of((0, 1, 1)), text_of((3, 12))) == ("011", "3 12")


def test_a_model_that_never_fails_has_nothing_to_explain() -> None:
    task = CopyTask(CONSTRUCTIONS["rope2d-aligned"].task)
    found = explain_failures(
        built("rope2d-aligned"), task, trained=2000, lengths=[20], distributions=["uniform"], strings=3
    )
    assert not found.failures and found.groups[0].exact_match == 1 and found.rows["failed"]["mass_source"].value is None
    json.dumps(found.as_dict())


def test_nothing_to_look_at_is_refused() -> None:
    task = CopyTask(replace(CONSTRUCTIONS["induction"]).task)
    with pytest.raises(UsageError, match="at least one length"):
        explain_failures(built("induction"), task, trained=128, lengths=[], distributions=["uniform"])
