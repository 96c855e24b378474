"""Positional and symbolic cosines: known heads, what chance means, and what cannot be told."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from analyses.measures.symbolic import draw_blocks, exchanged, symbolic_scores
from analyses.passes import Measured
from analyses.samples import Sample, draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.tasks import CopyTask
from models.transformer import CopyTransformer

POSITIONAL = [
    ("rope2d-aligned", 0, 0),
    ("alibi-previous", 0, 0),
    ("self", 0, 0),
    ("look-back", 0, 0),
    ("induction-3", 0, 1),
    ("rope-locator", 1, 0),
    ("rope-hybrid", 1, 0),
]
SYMBOLIC = [("induction", 1, 0), ("induction-3", 1, 0), ("duplicate", 0, 0)]


def measure(name: str, length: int) -> Measured:
    construction = CONSTRUCTIONS[name]
    task = CopyTask(construction.task)
    samples = draw_samples(
        task, lengths=[length], distributions=construction.distributions[:1], strings=3, seed=0, kinds=["plain"]
    )
    return symbolic_scores(construction.build(), task, samples, seed=0)


@pytest.mark.parametrize("length", [20, 90])
@pytest.mark.parametrize(
    ("name", "layer", "head", "kind"), [(*h, "positional") for h in POSITIONAL] + [(*h, "symbolic") for h in SYMBOLIC]
)
def test_heads_of_one_kind_score_one_and_chance(name: str, layer: int, head: int, kind: str, length: int) -> None:
    scores = measure(name, length).scores
    other = "symbolic" if kind == "positional" else "positional"
    mine, theirs = scores[kind].at(layer, head), scores[other].at(layer, head)
    assert mine.value == pytest.approx(1.0, abs=1e-3)
    assert theirs.chance is not None and theirs.value == pytest.approx(theirs.chance, abs=1e-3)
    assert theirs.chance < 0.5 and mine.rows == theirs.rows > 0


def test_context_that_the_exchange_breaks_costs_little() -> None:
    found = measure("rope-hybrid", 90).scores
    assert found["symbolic"].value[1, 1] > 0.8 > found["positional"].value[1, 1] + 0.5


@pytest.mark.parametrize(("name", "layer"), [("sink", 0), ("uniform", 0), ("modular", 0), ("rope-locator", 0)])
def test_heads_that_score_source_tokens_alike_are_not_measurable(name: str, layer: int) -> None:
    for kind in ("positional", "symbolic"):
        found = measure(name, 40).scores[kind].at(layer, 0)
        assert not found.measurable and found.rows == 0 and "alike" in found.reason


def test_strings_whose_blocks_are_the_same_tell_nothing() -> None:
    construction = CONSTRUCTIONS["induction-3"]
    task = CopyTask(construction.task)
    batch = task.encode([[5] * 30, [1, 2, 3, 4] * 2])
    model = construction.build()
    samples = [Sample("plain", "uniform", int(n), 0, batch.select([row])) for row, n in enumerate(batch.lengths)]
    found = symbolic_scores(model, task, samples, seed=0).scores["symbolic"]
    assert np.isnan(found.value[1, 0]), "one token only, and too short for blocks"
    assert found.value[0, 0] < 0.9, "look-back heads score by distance on any string"


def test_a_mixed_head_is_neither() -> None:
    """Scores that depend on token and position alike get half of each."""
    task = CopyTask(TaskSettings(alphabet=8))
    settings = {"heads": (2,), "d_model": 32, "d_head": 32, "positions": "rope", "init_std": 1.0}
    model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary)
    samples = draw_samples(task, lengths=[60], distributions=["uniform"], strings=4, seed=0, kinds=["plain"])
    scores = symbolic_scores(model, task, samples, seed=0).scores
    for kind in ("positional", "symbolic"):
        assert (scores[kind].value < 0.9).all() and (np.abs(scores[kind].chance) < 0.3).all()


@given(n=st.integers(2, 60), data=st.data())
def test_blocks_are_disjoint_and_inside(n: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, n // 2))
    first, second = draw_blocks(n, size, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert first >= 0 and first + size <= second <= n - size


def test_an_exchange_undoes_itself_and_spares_the_copy() -> None:
    task = CopyTask(TaskSettings(alphabet=50))
    batch = task.sample(1, torch.Generator().manual_seed(0), lengths=20)
    once = exchanged(batch, 2, 11, 6)
    assert torch.equal(once.tokens[0, 4:10], batch.tokens[0, 13:19])
    assert torch.equal(once.tokens[0, 22:], batch.tokens[0, 22:])
    assert torch.equal(exchanged(once, 2, 11, 6).tokens, batch.tokens)


def test_absent_heads_and_local_windows() -> None:
    task = CopyTask(TaskSettings())
    positions = ({"scheme": "rope", "window": 5}, "rope")
    settings = {"heads": (1, 2), "d_model": 16, "d_head": 8, "positions": positions, "init_std": 0.5}
    model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary)
    samples = draw_samples(task, lengths=[40], distributions=["uniform"], strings=2, seed=0, kinds=["plain"])
    found = symbolic_scores(model, task, samples, seed=0).scores["positional"]
    assert np.isnan(found.value[0]).all(), "no query of the copy sees both blocks, and head 1 does not exist"
    assert np.isfinite(found.value[1]).all()
