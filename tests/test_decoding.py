"""Copies token by token: free-running equals decoding one token at a time, teacher-forced equals evaluation."""

from pathlib import Path

import numpy as np
import pytest
import torch

from analyses.decoding import free_running, teacher_forced
from analyses.passes import read_string
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.evaluation import answer, greedy_copy
from models.recipes import parse_recipe
from models.tasks import CopyTask
from models.transformer import CopyTransformer, build_model
from workbench.runs import Store
from workbench.subjects import load_subject

RECIPE = """
[model]
heads = [2, 1]
d_model = 32
d_head = 16
init_std = 0.4
positions = [{positions}]
"""


def random_model(positions: str) -> tuple[CopyTransformer, CopyTask]:
    recipe = parse_recipe(RECIPE.format(positions=positions), "test")
    return build_model(recipe, torch.device("cpu")), CopyTask(recipe.task)


@pytest.mark.parametrize("positions", ['"rope", "auto2d"', '"rope2d"', '"nope", "alibi"'])
@pytest.mark.parametrize("n", [1, 9, 40])
def test_free_running_is_greedy_decoding(positions: str, n: int) -> None:
    model, task = random_model(positions)
    for seed in range(3):
        batch = task.sample(1, torch.Generator().manual_seed(seed), lengths=n, distribution="uniform")
        decoded = free_running(model, batch)
        assert decoded.predicted.tolist() == greedy_copy(model, batch)[0]
        assert decoded.free and not decoded.cut
        fed = decoded.string.tokens[decoded.rows[0] + 1 : decoded.last_row + 1]
        assert fed.tolist() == decoded.predicted[:-1].tolist(), "it was fed its own predictions"


def test_free_running_of_a_trained_model_is_greedy_decoding(trained_store: Path) -> None:
    subject = load_subject(Store(trained_store), "latest", "cpu")
    task = CopyTask(subject.recipe.task)
    for string in ("0", "0110", "011010011001", "1" * 30):
        batch = task.encode([string])
        assert free_running(subject.model, batch).predicted.tolist() == greedy_copy(subject.model, batch)[0]


def test_teacher_forced_is_what_evaluation_scores() -> None:
    model, task = random_model('"rope", "auto2d"')
    batch = task.encode(["0110100110"])
    decoded, outcome = teacher_forced(model, batch), answer(model, batch)
    assert decoded.predicted.tolist() == outcome.predicted[0].tolist()
    assert decoded.exact == bool(outcome.exact[0])
    first = int(outcome.first_error[0])
    assert decoded.first_error == (None if first < 0 else first)
    assert decoded.targets.tolist() == batch.targets[0][batch.targets[0] >= 0].tolist()
    with torch.inference_mode():
        probabilities = model(batch.tokens)[0].softmax(-1)[torch.from_numpy(decoded.rows)].numpy()
    at = np.arange(len(decoded.rows))
    assert np.allclose(decoded.confidence, probabilities[at, decoded.predicted], atol=1e-5)
    assert np.allclose(decoded.right_probability, probabilities[at, decoded.targets], atol=1e-5)
    assert decoded.coords[0].shape == (26, 1) and decoded.coords[1].shape == (26, 2)
    assert decoded.steps[0] is None and decoded.steps[1].shape == (26, 2)
    read = read_string(model, batch, 0)
    assert np.array_equal(decoded.string.head(1, 0).row(20), read.head(1, 0).row(20))


@pytest.mark.parametrize("positions", ['"rope", "auto2d"', '"rope2d"'])
def test_a_token_that_is_fed_otherwise_changes_what_follows_it_and_nothing_before(positions: str) -> None:
    model, task = random_model(positions)
    batch = task.encode(["0110100110"])
    right, wrong = teacher_forced(model, batch), teacher_forced(model, batch, {4: 0, 7: 1})
    fed = right.string.tokens.copy()
    first = right.rows[0] + 1
    assert fed[first + 4] == 1 and fed[first + 7] == 1, "one is wrong, one is the right token after all"
    fed[first + 4] = 0
    assert wrong.string.tokens.tolist() == fed.tolist()
    assert wrong.targets.tolist() == right.targets.tolist(), "what would be right is what the string says"
    with torch.inference_mode():
        probabilities = model(torch.from_numpy(fed)[None])[0].softmax(-1)[torch.from_numpy(wrong.rows)].numpy()
    assert np.allclose(wrong.confidence, probabilities.max(-1), atol=1e-5)
    assert np.array_equal(wrong.confidence[:5], right.confidence[:5]), "row 5 is the first that reads it"
    assert not np.allclose(wrong.right_probability[5:], right.right_probability[5:], atol=1e-6)
    assert batch.tokens[0].tolist() == right.string.tokens.tolist(), "the batch is not changed"


@pytest.mark.parametrize("fed", [{10: 0}, {-1: 0}, {0: 2}, {0: -1}])
def test_a_token_cannot_be_fed_outside_the_copy_or_the_alphabet(fed: dict[int, int]) -> None:
    model, task = random_model('"rope"')
    with pytest.raises(UsageError, match="index from 0 to 9 and a token from 0 to 1"):
        teacher_forced(model, task.encode(["0110100110"]), fed)


def test_an_exact_model_copies_alike_both_ways() -> None:
    name = next(name for name in CONSTRUCTIONS if CONSTRUCTIONS[name].marks)
    construction = CONSTRUCTIONS[name]
    model = construction.build()
    batch = CopyTask(construction.task).sample(
        1,
        torch.Generator().manual_seed(0),
        lengths=min(12, construction.longest),
        distribution=construction.distributions[0],
    )
    forced, free = teacher_forced(model, batch), free_running(model, batch)
    assert forced.exact == free.exact == bool(answer(model, batch).exact[0])
    if forced.exact:
        assert forced.predicted.tolist() == free.predicted.tolist()
        assert np.allclose(forced.confidence, free.confidence)


def test_a_copy_that_takes_too_long_is_cut() -> None:
    model, task = random_model('"rope"')
    batch = task.sample(1, torch.Generator().manual_seed(1), lengths=60, distribution="uniform")
    whole, cut = free_running(model, batch), free_running(model, batch, most_work=1)
    assert cut.cut and 0 < len(cut.predicted) <= len(whole.predicted)
    assert cut.predicted.tolist() == whole.predicted[: len(cut.predicted)].tolist()
    assert not cut.exact or len(cut.predicted) == len(cut.targets)


def test_several_strings_cannot_be_decoded_at_once() -> None:
    model, task = random_model('"rope"')
    with pytest.raises(UsageError, match="one string"):
        teacher_forced(model, task.encode(["01", "10"]))
