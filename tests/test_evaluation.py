"""Evaluation: one teacher-forced pass decides exactness, and says so with an interval."""

import pytest
import torch

from models.config import ModelSettings, Recipe, TaskSettings
from models.errors import UsageError
from models.evaluation import answer, evaluate, greedy_copy, in_parts, wilson
from models.tasks import CopyTask
from models.training import Trainer
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings(lengths=(1, 12)))


@pytest.fixture(scope="module")
def half_trained() -> CopyTransformer:
    """A model that copies some strings and fails on others."""
    recipe = Recipe.model_validate(
        {
            "task": {"lengths": [1, 12]},
            "model": {"heads": [2], "d_model": 32, "d_head": 16, "positions": "rope2d"},
            "train": {"steps": 90, "learning_rate": 5e-3, "warmup": 10, "evaluate_every": 0, "evaluation_strings": 1},
        }
    )
    trainer = Trainer(recipe, "cpu")
    list(trainer.run())
    return trainer.model


def test_one_pass_agrees_with_free_running_greedy_decoding(half_trained: CopyTransformer) -> None:
    batch = TASK.sample(60, torch.Generator().manual_seed(5))
    outcome = answer(half_trained, batch)
    assert 5 < int(outcome.exact.sum()) < 55, "the model must both copy and fail for this to say something"
    for row, copy in enumerate(greedy_copy(half_trained, batch)):
        n = int(batch.lengths[row])
        wanted = [*batch.strings[row, :n].tolist(), batch.vocabulary.eos]
        assert bool(outcome.exact[row]) == (copy == wanted)
        differs = [k for k in range(n + 1) if k >= len(copy) or copy[k] != wanted[k]]
        assert int(outcome.first_error[row]) == (differs[0] if differs else -1)


def test_scores_count_strings_and_tokens(half_trained: CopyTransformer) -> None:
    scores = list(
        evaluate(half_trained, TASK, intervals=[(3, 9), (12, 12)], distributions=["uniform", "imbalanced"], strings=30)
    )
    assert [(s.distribution, s.shortest, s.length) for s in scores] == [
        ("uniform", 3, 9),
        ("uniform", 12, 12),
        ("imbalanced", 3, 9),
        ("imbalanced", 12, 12),
    ]
    for score in scores:
        assert len(score.first_errors) == round((1 - score.exact_match) * 30)
        assert all(0 <= k <= score.length for k in score.first_errors)
        assert score.interval[0] <= score.exact_match <= score.interval[1]
        assert score.exact_match <= score.token_accuracy


def test_an_interval_is_scored_the_same_whatever_else_is(
    half_trained: CopyTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = list(evaluate(half_trained, TASK, intervals=[(2, 5), (8, 12)], distributions=["uniform"], strings=20))
    monkeypatch.setattr("models.evaluation.TOKENS_AT_ONCE", 40)
    done: list[float] = []
    alone = list(
        evaluate(half_trained, TASK, intervals=[(8, 12)], distributions=["uniform"], strings=20, progress=done.append)
    )
    assert alone[0] == both[1]
    assert sum(done) == pytest.approx(20) and len(done) > 5
    other_seed = list(evaluate(half_trained, TASK, intervals=[(8, 12)], distributions=["uniform"], strings=20, seed=1))
    assert other_seed[0].first_errors != alone[0].first_errors


def test_a_long_string_is_scored_in_chunks_with_the_same_result(
    half_trained: CopyTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = TASK.sample(1, torch.Generator().manual_seed(3), lengths=50)
    whole = answer(half_trained, batch)
    monkeypatch.setattr("models.evaluation.ROWS_AT_ONCE", 7)
    shares: list[float] = []
    chunked = answer(half_trained, batch, shares.append)
    assert torch.equal(chunked.predicted, whole.predicted) and torch.equal(chunked.right, whole.right)
    assert sum(shares) == pytest.approx(1) and len(shares) == 8


def test_parts_hold_every_string_once_and_fit() -> None:
    batch = TASK.sample(33, torch.Generator().manual_seed(0))
    parts = list(in_parts(batch, 100))
    assert sorted(tuple(s) for p in parts for s in _strings(p)) == sorted(tuple(s) for s in _strings(batch))
    assert all(part.tokens.numel() <= 100 for part in parts)
    assert [len(part) for part in in_parts(batch, 1)] == [1] * 33


def _strings(batch: object) -> list[list[int]]:
    return [row[:n].tolist() for row, n in zip(batch.strings, batch.lengths, strict=True)]


def test_wilson_interval_known_values() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-4)


def test_bad_requests_are_named(half_trained: CopyTransformer) -> None:
    for intervals, distributions, strings, message in (
        ([], ["uniform"], 1, "nothing to evaluate"),
        ([(5, 4)], ["uniform"], 1, "shortest <= longest"),
        ([(1, 2)], ["unifrom"], 1, "Did you mean 'uniform'"),
        ([(1, 2)], ["uniform"], 0, "nothing to evaluate"),
    ):
        with pytest.raises(UsageError, match=message):
            list(evaluate(half_trained, TASK, intervals=intervals, distributions=distributions, strings=strings))


def test_long_strings_take_memory_linear_in_length() -> None:
    """A 10,000-token string on one layer: a T x T float pattern alone would be 1.6 GB a head."""
    import resource

    model = CopyTransformer(
        ModelSettings.model_validate({"heads": [1], "d_model": 16, "d_head": 8, "positions": "rope2d"}), TASK.vocabulary
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    list(evaluate(model, TASK, intervals=[(10_000, 10_000)], distributions=["uniform"], strings=1))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 400e6
