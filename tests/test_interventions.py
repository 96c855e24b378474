"""Effects of interventions: what is compared with what, paired by string, and ready for JSON."""

import json

import numpy as np
import pytest
import torch

from analyses.effects import compare, compare_controlled, heads_by_label
from analyses.interventions import (
    Ablation,
    Knockout,
    ablate_labels,
    intervene,
    intervene_controlled,
    read_outcomes,
)
from analyses.outcomes import Outcomes, StringOutcome, patterns_at_once
from analyses.samples import Sample, draw_samples
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.evaluation import answer
from models.tasks import CopyTask
from models.transformer import CopyTransformer


def subject(name: str, distribution: str = "uniform", lengths: tuple[int, ...] = (20, 40)) -> tuple[
    CopyTransformer, tuple[Sample, ...]
]:  # fmt: skip
    entry = CONSTRUCTIONS[name]
    samples = draw_samples(
        CopyTask(entry.task), lengths=lengths, distributions=(distribution,), strings=5, seed=0, kinds=("plain",)
    )
    return entry.build(), samples


def outcome(right: list[bool], margins: list[float]) -> StringOutcome:
    logits = np.stack([np.array(margins), np.zeros(len(margins))], 1)
    log_probs = logits - np.logaddexp(logits[:, 0], logits[:, 1])[:, None]
    return StringOutcome(np.array(right), np.array(margins, np.float32), log_probs.astype(np.float32))


def test_answers_are_those_of_an_evaluation() -> None:
    model, samples = subject("induction-3", "repeat-structure")
    found = read_outcomes(model, samples)
    expected = [answer(model, sample.batch) for sample in samples]
    rights = [one.right[i][one.exists[i]].numpy() for one in expected for i in range(len(one.right))]
    assert all(np.array_equal(string.right, right) for string, right in zip(found, rights, strict=True))
    for string in found:
        assert (
            string.right[string.margins > 0].all() and (string.margins[string.right] >= 0).all()
        )  # ties go either way
        assert np.allclose(np.exp(string.log_probs).sum(1), 1, atol=1e-5)


def test_measures_are_means_over_rows_and_differences_are_paired() -> None:
    before: Outcomes = (outcome([True, True], [2.0, 1.0]), outcome([True], [3.0]))
    after: Outcomes = (outcome([True, False], [1.0, -1.0]), outcome([True], [3.0]))
    effect = compare(before, after, "something")
    assert (effect.exact_match.baseline.value, effect.exact_match.changed.value) == (1.0, 0.5)
    assert effect.token_accuracy.difference.value == pytest.approx(-1 / 3)
    assert effect.logit_difference.difference.value == pytest.approx(-1.0)
    assert effect.logit_difference.difference.interval == pytest.approx((-1.5, 0.0))
    assert (effect.exact_match.baseline.rows, effect.token_accuracy.baseline.rows) == (2, 3)
    probabilities = [1 / (1 + np.exp(-margin)) for margin in (2, 1, 1, -1)]
    expected = sum(
        p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        for p, q in zip(probabilities[:2], probabilities[2:], strict=True)
    )
    assert effect.divergence.value == pytest.approx(expected / 3, rel=1e-4)
    assert not effect.removed.measurable and effect.removed.reason == "no attention is removed"


def test_nothing_done_changes_nothing_and_a_control_equal_to_the_effect_leaves_nothing_beyond() -> None:
    model, samples = subject("rope-locator")
    baseline = read_outcomes(model, samples)
    nothing = compare(baseline, baseline, "nothing")
    assert nothing.logit_difference.difference.interval == (0.0, 0.0) and nothing.divergence.value == 0.0
    changed = read_outcomes(model, samples, Ablation(((0, 0),), "zero"))
    same = compare_controlled(baseline, changed, changed, "a", "b")
    assert all(estimate.value == 0.0 and estimate.interval == (0.0, 0.0) for estimate in same.beyond.values())
    assert same.effect.divergence.value > 0.1 and same.control.intervention == "b"


def test_no_hook_stays_behind_also_after_an_error() -> None:
    model, samples = subject("rope-locator")
    before = read_outcomes(model, samples)
    intervene(model, samples, Ablation(None, "zero"))
    with pytest.raises(UsageError):
        intervene(model, samples, Ablation(((3, 0),), "zero"))
    after = read_outcomes(model, samples)
    assert all(np.array_equal(x.log_probs, y.log_probs) for x, y in zip(before, after, strict=True))
    assert not any(point.fwd_hooks for point in model.hook_points())


def test_effects_are_json() -> None:
    model, samples = subject("rope-locator")
    knockout = Knockout("source", ((1, 0),))
    found = intervene_controlled(model, samples, knockout, knockout.matched)
    loaded = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert loaded["effect"]["exact_match"]["changed"]["value"] == 0.0
    assert loaded["effect"]["removed"]["value"] == pytest.approx(1.0)
    assert loaded["beyond"].keys() == {"exact_match", "token_accuracy", "logit_difference", "divergence"}
    assert loaded["effect"]["intervention"].startswith("attention of 1.0 from scored rows to the true source masked")


def test_labels_are_ablated_as_a_class() -> None:
    model, samples = subject("rope-hybrid", "uniform", (40,))
    labels = CONSTRUCTIONS["rope-hybrid"].roles
    assert heads_by_label(labels)["look-back(2)"] == ((0, 2),)
    shared = [["look-back(1)" if "look-back" in label else label for label in row] for row in labels]
    effects = ablate_labels(model, samples, shared)
    assert effects.keys() == {"locator", "look-back(1)", "aligned", "induction"}
    assert effects["locator"]["resample"].logit_difference.difference.interval[1] < -3
    for way in ("zero", "mean", "resample"):
        # Up to index 100 position alone decides, whatever becomes of the induction circuit.
        assert effects["look-back(1)"][way].exact_match.changed.value == 1.0
        assert effects["look-back(1)"][way].logit_difference.difference.interval[1] < 0
    assert effects["look-back(1)"]["zero"].intervention == "outputs of 0.1, 0.2, 0.3 set to zero"
    with pytest.raises(UsageError, match="unknown way"):
        ablate_labels(model, samples, labels, ways=("half",))


def test_the_cause_of_a_hybrids_failures_on_repeats_is_found() -> None:
    """Beyond index 100 its induction head spreads over wrong sources; without them it is right."""
    model, samples = subject("rope-hybrid", "repeat-structure", (150,))
    baseline = read_outcomes(model, samples)
    without = intervene(model, samples, Ablation(((1, 1),), "zero"), baseline=baseline)
    assert without.token_accuracy.difference.interval[1] < -0.1
    repaired = intervene(model, samples, Knockout("wrong-candidates(3)", ((1, 1),)), baseline=baseline)
    assert repaired.exact_match.baseline.value == 0.0 and repaired.exact_match.changed.value == 1.0


def test_long_patterns_go_through_in_parts() -> None:
    model, _ = subject("rope-hybrid")
    assert patterns_at_once(model, 100) > 100 and patterns_at_once(model, 2048) == 1
    with pytest.raises(UsageError, match="at most 2048"):
        patterns_at_once(model, 2049)


def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    model, samples = subject("rope-locator")
    knockout = Knockout("anchors", ((0, 0),), "zero")
    whole = intervene(model, samples, knockout)
    monkeypatch.setattr("analyses.outcomes._PATTERN_ELEMENTS", 2 * 86**2)
    shares: list[float] = []
    parts = intervene(model, samples, knockout)
    assert parts.logit_difference.changed.value == pytest.approx(whole.logit_difference.changed.value, rel=1e-5)
    read_outcomes(model, samples, progress=shares.append)
    assert shares == [0.5, 1.0]


def test_padded_strings_are_answered_as_alone() -> None:
    entry = CONSTRUCTIONS["rope2d-aligned"]
    batch = CopyTask(entry.task).sample(4, torch.Generator().manual_seed(0), lengths=(3, 30), distribution="uniform")
    model = entry.build()
    knockout = Knockout("source", ((0, 0),))
    together = read_outcomes(model, (Sample("plain", "uniform", 30, 0, batch),), knockout)
    for i, string in enumerate(together):
        (alone,) = read_outcomes(model, (Sample("plain", "uniform", 30, 0, batch.select([i])),), knockout)
        assert np.allclose(string.margins, alone.margins, atol=1e-4) and len(string.right) == batch.lengths[i] + 1
