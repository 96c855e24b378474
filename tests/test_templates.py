"""The non-negative fit: shares of mixed patterns come back, whatever the blocks, and never add up to more than one."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from analyses.passes import ReadString, read_all
from analyses.relations import relations_of
from analyses.samples import Sample, draw_samples
from analyses.templates import (
    GROUPS,
    TemplateFit,
    fit_shares,
    group_of,
    one_key,
    several_keys,
    template_names,
)
from models.blockwise import RowBlock
from models.config import TaskSettings
from models.constructions import CONSTRUCTIONS
from models.tasks import CopyBatch, CopyTask

TASK = CopyTask(TaskSettings(alphabet=4, context=3))
NAMES = template_names(2, 4)


def batch(length: int = 24, n: int = 3, seed: int = 0) -> CopyBatch:
    generator = torch.Generator().manual_seed(seed)
    return TASK.sample(n, generator, lengths=length, distribution="uniform")


def templates(strings: CopyBatch, row: int) -> np.ndarray:
    """Every template, [P, Q, K], on all rows of a string; rows that are not scored are zero."""
    relations = relations_of(strings, row)
    n = len(relations)
    queries = relations.copy_rows
    visible = queries[:, None] >= np.arange(n)
    masks = several_keys(relations, queries, visible).astype(float)
    several = masks / np.maximum(masks.sum(-1, keepdims=True), 1)
    keys = one_key(relations, queries)
    one = (keys[..., None] == np.arange(n)) & visible
    out = np.zeros((len(NAMES), n, n))
    out[:, queries] = np.concatenate([several, one])
    return out


def fed(patterns: list[np.ndarray], strings: CopyBatch, rows: int = 1000) -> TemplateFit:
    """A fit that has been handed patterns [H, T, T], one a string, in blocks of `rows`."""
    fit = TemplateFit((len(patterns[0]),))
    sample = Sample("plain", "uniform", int(strings.lengths[0]), 0, strings)
    for row, pattern in enumerate(patterns):
        relations = relations_of(strings, row)
        string = ReadString(row, relations, ((),), np.zeros(0, bool), np.zeros(0, int))
        for first in range(0, len(relations), rows):
            last = min(first + rows, len(relations))
            weights = pattern[:, first:last, :last].astype(np.float32)
            hidden = np.arange(first, last)[:, None] < np.arange(last)
            scores = np.where(hidden, -np.inf, 0.0).astype(np.float32)[None].repeat(len(pattern), 0)
            fit.update(sample, string, RowBlock(0, first, last, scores, weights))
    return fit


def test_every_template_has_a_name_and_a_label() -> None:
    strings = batch()
    assert len(templates(strings, 0)) == len(NAMES) == len(set(NAMES))
    assert {group_of(name) for name in NAMES} == set(GROUPS)


def test_templates_are_distributions_over_visible_keys() -> None:
    strings = batch()
    for row in range(len(strings)):
        mass = templates(strings, row).sum(-1)
        assert ((abs(mass - 1) < 1e-9) | (mass == 0)).all()
        assert (np.triu(templates(strings, row), 1) == 0).all()


@pytest.mark.parametrize(
    "recipe",
    [
        {"true source": 1.0},
        {"candidates(2)": 0.6, "offset(1)": 0.4},
        {"first token": 0.3, "B2": 0.3, "true source": 0.4},
        {"self": 0.2, "duplicates": 0.5, "even": 0.3},
        {"offset(3)": 0.25, "offset(1)": 0.25, "candidates(1)": 0.5},
    ],
)
def test_a_mixture_of_templates_comes_back(recipe: dict[str, float]) -> None:
    strings = batch(n=4)
    patterns = []
    for row in range(len(strings)):
        parts = templates(strings, row)
        patterns.append(sum(share * parts[NAMES.index(name)] for name, share in recipe.items())[None])
    fit = fed(patterns, strings)
    found = fit.measured(0)
    present = {name: found.profiles["shares"][0, 0, NAMES.index(name)] for name in NAMES}
    relations = [relations_of(strings, row) for row in range(len(strings))]
    rows = np.concatenate([templates(strings, row)[:, relations[row].copy_rows].sum(-1) for row in range(4)], axis=1)
    for name, share in present.items():
        assert share == pytest.approx(recipe.get(name, 0) * rows[NAMES.index(name)].mean(), abs=5e-3), name
    assert found.scores["share.residual"].value[0, 0] < 1e-4


def test_shares_are_non_negative_and_add_up_to_at_most_one() -> None:
    rng = np.random.default_rng(0)
    strings = batch(n=5)
    size = len(relations_of(strings, 0))
    patterns = [np.exp(rng.normal(0, 3, (6, size, size))) * np.tri(size) for _ in range(5)]
    patterns = [p / p.sum(-1, keepdims=True) for p in patterns]
    found = fed(patterns, strings).measured(0)
    shares = found.profiles["shares"][0]
    assert shares.min() >= 0 and shares.sum(-1).max() <= 1 + 1e-6
    for name in GROUPS:
        assert (found.scores[f"share.{name}"].low >= 0).all() and (found.scores[f"share.{name}"].high <= 1 + 1e-6).all()
    assert (found.scores["share.residual"].value > 0.05).all()


def test_overlapping_templates_cannot_claim_the_same_mass_twice() -> None:
    """A key that two templates share half of each is explained by both together; their shares stay within one."""
    gram = np.array([[0.5, 0.25], [0.25, 0.5]]) * 10
    free, _ = nnls(np.linalg.cholesky(gram).T, np.linalg.solve(np.linalg.cholesky(gram), np.array([5.0, 5.0])))
    assert free.sum() > 1.3
    held = fit_shares(gram, np.array([[5.0, 5.0]]), np.array([10.0]), np.ones(2))
    np.testing.assert_allclose(held[0, :2], 0.5, atol=1e-3)


def test_where_the_sum_does_not_bind_it_is_plain_non_negative_least_squares() -> None:
    rng = np.random.default_rng(1)
    inputs = np.abs(rng.normal(size=(400, 7)))
    outputs = 0.1 * inputs[:, [0, 3]].sum(1) + 0.02 * rng.normal(size=400)
    expected, distance = nnls(inputs, outputs)
    assert expected.sum() < 1
    square = np.array([outputs @ outputs])
    found = fit_shares(inputs.T @ inputs, (inputs.T @ outputs)[None], square, np.ones(7))[0]
    np.testing.assert_allclose(found[:-1], expected, atol=1e-5)
    assert found[-1] == pytest.approx(distance**2 / square[0], rel=1e-3)


@pytest.mark.parametrize("rows", [1, 7, 16])
def test_blocks_do_not_matter(rows: int) -> None:
    rng = np.random.default_rng(2)
    strings = batch(n=2)
    size = len(relations_of(strings, 0))
    patterns = [np.exp(rng.normal(0, 2, (2, size, size))) * np.tri(size) for _ in range(2)]
    patterns = [p / p.sum(-1, keepdims=True) for p in patterns]
    whole, parts = fed(patterns, strings).measured(0), fed(patterns, strings, rows).measured(0)
    np.testing.assert_allclose(whole.profiles["shares"], parts.profiles["shares"], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("rope2d-aligned", {(0, 0): "aligned"}),
        ("induction-3", {(0, 0): "look-back", (0, 2): "look-back", (1, 0): "induction"}),
        ("rope-locator", {(0, 0): "locator", (1, 0): "aligned"}),
        ("sink", {(0, 0): "sink"}),
        ("uniform", {(0, 0): "diffuse"}),
        ("self", {(0, 0): "self"}),
        ("duplicate", {(0, 0): "duplicate"}),
    ],
)
def test_pure_heads_are_made_of_one_thing(name: str, shares: dict[tuple[int, int], str]) -> None:
    entry = CONSTRUCTIONS[name]
    samples = draw_samples(
        CopyTask(entry.task), lengths=(20, 30), distributions=entry.distributions[:1], strings=3, seed=0
    )
    fit = TemplateFit(entry.model.heads)
    read_all(entry.build(), samples, [fit])
    scores = fit.measured(0).scores
    for (layer, head), group in shares.items():
        assert scores[f"share.{group}"].value[layer, head] > 0.75, (layer, head)
    absent = [(layer, head) for layer, n in enumerate(entry.model.heads) for head in range(n, max(entry.model.heads))]
    assert all(np.isnan(scores["share.aligned"].value[at]) for at in absent)
