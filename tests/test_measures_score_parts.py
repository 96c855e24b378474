"""Where scores come from: an unbiased split, known heads, and rotary planes that add up."""

import numpy as np
import pytest
import torch

from analyses.measures.score_parts import (
    STRINGS,
    Split,
    plane_covariances,
    random_strings,
    score_parts,
    split_scores,
)
from analyses.passes import Measured, read_string
from analyses.samples import draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.tasks import CopyTask
from models.transformer import CopyTransformer

PARTS = ("scores.position", "scores.token", "scores.interaction")


def measure(model: CopyTransformer, task: CopyTask, length: int = 60) -> Measured:
    samples = draw_samples(task, lengths=[length], distributions=["uniform"], strings=1, seed=0, kinds=["plain"])
    return score_parts(model, task, samples, seed=0)


def built(name: str, length: int = 60) -> Measured:
    construction = CONSTRUCTIONS[name]
    return measure(construction.build(), CopyTask(construction.task), length)


def synthetic(rng: np.random.Generator, position: float, token: float, noise: float) -> Split:
    """Scores of known variances, rows of unknown constants, and an anchor among the keys."""
    strings, rows, keys, size = 24, 20, 50, 4
    visible = np.arange(keys) <= np.arange(rows)[:, None] + keys - rows
    q, k = rng.integers(0, size, (strings, rows)), rng.integers(0, size, (strings, keys))
    k[:, 7] = size
    pairs = rng.normal(size=(size, size + 1))
    pairs = (pairs - pairs[:, :size].mean(1, keepdims=True)) / pairs[:, :size].std(1, keepdims=True)
    place = rng.normal(size=(rows, keys))
    place = (place - place.mean(1, keepdims=True)) / place.std(1, keepdims=True)
    scores = position**0.5 * place + token**0.5 * pairs[q[..., None], k[:, None]]
    scores = scores + noise**0.5 * rng.normal(size=scores.shape) + 5 * rng.normal(size=(strings, rows, 1))
    scores[:, ~visible] = -np.inf
    return split_scores(scores, visible, q, k, np.arange(keys) == 7)


@pytest.mark.parametrize("variances", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (0.1, 0.2, 4)])
def test_the_split_is_unbiased(variances: tuple[float, float, float]) -> None:
    """Plain analysis of variance would find position at noise / 24 and tokens too."""
    rng = np.random.default_rng(0)
    found = np.mean([synthetic(rng, *variances).parts(np.ones((1, 24)))[0, :3] for _ in range(20)], axis=0)
    scale = sum(variances)
    assert found == pytest.approx(np.array(variances), abs=0.04 * max(scale, 1) if variances[0] else 0.12)
    if variances[:2] == (0, 0):
        assert np.abs(found[:2]).max() < 2e-3


@pytest.mark.parametrize(
    ("name", "layer", "head", "part"),
    [
        ("rope2d-aligned", 0, 0, "scores.position"),
        ("rope2d-aligned-100", 0, 0, "scores.position"),
        ("look-back", 0, 0, "scores.position"),
        ("self", 0, 0, "scores.position"),
        ("alibi-previous", 0, 0, "scores.position"),
        ("rope-locator", 1, 0, "scores.position"),
        ("induction", 0, 0, "scores.position"),
        ("sink", 0, 0, "scores.token"),
        ("rope-locator", 0, 0, "scores.token"),
        ("duplicate", 0, 0, "scores.token"),
        ("induction", 1, 0, "scores.interaction"),
        ("induction-3", 1, 0, "scores.interaction"),
    ],
)
def test_known_heads(name: str, layer: int, head: int, part: str) -> None:
    scores = built(name, 100).scores
    assert scores[part].value[layer, head] > 0.9
    assert sum(scores[other].value[layer, head] for other in PARTS) == pytest.approx(1.0)
    content = scores["scores.token"].value[layer, head] - scores["scores.anchors"].value[layer, head]
    assert content == pytest.approx(1.0 if name == "duplicate" else 0.0, abs=0.05)


def test_heads_that_score_all_keys_alike_are_not_measurable() -> None:
    for part in PARTS:
        found = built("uniform").scores[part].at(0, 0)
        assert not found.measurable and "alike" in found.reason and found.rows == 0


@pytest.mark.parametrize("scheme", ["rope", "rope2d", "partial-rope", "auto2d", "periodic-rope"])
def test_planes_add_up(scheme: str) -> None:
    task = CopyTask(TaskSettings(alphabet=20))
    settings = {"heads": (2, 1), "d_model": 24, "d_head": 8, "init_std": 0.5, "positions": scheme}
    model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary)
    found = measure(model, task, 20)
    planes = found.profiles["planes"]
    assert planes.shape == (2, 2, 4) and np.isnan(planes[1, 1]).all()
    assert planes.sum(-1)[[0, 0, 1], [0, 1, 0]] == pytest.approx(np.ones(3), abs=1e-4)
    row, column = found.scores["planes.row"], found.scores["planes.column"]
    if scheme.endswith("2d"):
        assert np.allclose(row.value, planes[..., :2].sum(-1), equal_nan=True)
        assert np.allclose(row.value + column.value, planes.sum(-1), equal_nan=True)
    else:
        assert np.isnan(row.value).all() and "row and column" in row.reason


def test_plane_covariances_are_those_of_the_dense_terms() -> None:
    task = CopyTask(TaskSettings())
    settings = {"heads": (1,), "d_model": 24, "d_head": 8, "init_std": 0.5, "positions": "rope2d"}
    model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary)
    string = read_string(model, task.sample(1, torch.Generator().manual_seed(0), lengths=9), 0)
    pattern, rows = string.head(0, 0), np.array([14, 19])
    scores = np.concatenate([pattern.scores(slice(row, row + 1), slice(0, 20)) for row in rows])
    expected = np.zeros(4)
    for row, query in enumerate(rows):
        keys = np.arange(query + 1)
        for plane in range(4):
            pair = slice(2 * plane, 2 * plane + 2)
            term = pattern.rule.scale * (pattern.k[keys, pair] @ pattern.q[query, pair]).astype(np.float64)
            expected[plane] += np.cov(term, scores[row, keys], bias=True)[0, 1] / len(rows)
    assert plane_covariances(pattern, rows, scores) == pytest.approx(expected, rel=1e-4)


def test_an_aligned_head_by_columns_uses_column_planes() -> None:
    construction = CONSTRUCTIONS["rope2d-aligned"]
    model = construction.build()
    model.blocks[0].attn.W_Q.data[..., : model.cfg.d_head // 2] = 0  # no row planes
    found = measure(model, CopyTask(construction.task)).scores
    assert found["planes.column"].value[0, 0] == pytest.approx(1.0, abs=1e-4)
    assert found["planes.row"].value[0, 0] == pytest.approx(0.0, abs=1e-4)
    assert found["scores.position"].value[0, 0] > 0.9


def test_random_strings_share_no_token_between_source_and_copy_but_by_chance() -> None:
    task = CopyTask(TaskSettings(alphabet=200))
    batch = random_strings(task, 500, np.random.default_rng(0))
    source, copy = batch.tokens[:, 2:502], batch.tokens[:, -500:]
    assert len(batch) == STRINGS and len(source.unique()) <= 16
    assert float((source == copy).double().mean()) == pytest.approx(1 / 16, abs=0.01)


@pytest.mark.parametrize("positions", ["alibi", {"scheme": "rope", "window": 7}, "sinusoidal"])
def test_any_scheme_and_mask(positions: object) -> None:
    task = CopyTask(TaskSettings())
    settings = {"heads": (1, 2), "d_model": 16, "d_head": 8, "init_std": 0.5, "positions": positions}
    model = CopyTransformer(ModelSettings.model_validate(settings | {"strict_mask": True}), task.vocabulary)
    scores = measure(model, task, 12).scores
    total = sum(scores[part].value for part in PARTS)
    assert np.allclose(total, [[1, np.nan], [1, 1]], equal_nan=True)
    assert all((scores[part].value[1] >= 0).all() for part in PARTS)
    low, high = scores["scores.position"].low[1], scores["scores.position"].high[1]
    assert (low <= scores["scores.position"].value[1]).all() and (high >= scores["scores.position"].value[1]).all()


def test_lengths_are_pooled_and_progress_reaches_one() -> None:
    construction = CONSTRUCTIONS["alibi-previous"]
    task = CopyTask(construction.task)
    samples = draw_samples(task, lengths=[20, 40], distributions=["uniform"], strings=1, seed=0)
    shares: list[float] = []
    found = score_parts(construction.build(), task, samples, seed=0, progress=shares.append).scores
    assert shares == [0.5, 1.0]
    assert found["scores.position"].strings[0, 0] == 2 * STRINGS
    assert found["scores.position"].rows[0, 0] == STRINGS * (21 + 41)
