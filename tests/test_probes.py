"""Probes: they read what constructions were built to write, nothing else, and never what they were trained on."""

import json
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from analyses import ridge
from analyses.probes import ProbeResults, probe_model
from analyses.readings import ROWS, read_activations, targets_of
from analyses.ridge import REGRESSIONS, GroupedRidge, Neighbours, prepared
from analyses.samples import Sample, draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyTask
from models.transformer import CopyTransformer

LENGTHS = (20, 36, 52, 68, 84, 100)
FOUND: dict[str, dict[str, ProbeResults]] = {}


def samples_of(task: CopyTask, lengths: tuple[int, ...] = LENGTHS, strings: int = 3) -> tuple[Sample, ...]:
    return draw_samples(
        task, lengths=lengths, distributions=("uniform",), strings=strings, seed=0, kinds=("plain",), m=4
    )


def probed(name: str) -> dict[str, ProbeResults]:
    if name not in FOUND:
        task = CopyTask(CONSTRUCTIONS[name].task)
        FOUND[name] = probe_model(CONSTRUCTIONS[name].build(), samples_of(task))
    return FOUND[name]


def random_data(seed: int = 0, width: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(120, width))
    return x, x @ random.normal(size=(width, 3)) + random.normal(size=(120, 3)), np.arange(120) // 24


# ------------------------------------------------------------------ regressions


@pytest.mark.parametrize("alpha", [1e-4, 1.0])
def test_ridge_equals_the_library_at_the_same_penalty(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "ALPHAS", np.array([alpha]))
    x, y, groups = random_data()
    known = groups != 3
    expected = Ridge(alpha=alpha * known.sum()).fit(x[known], y[known]).predict(x[~known])
    np.testing.assert_allclose(GroupedRidge(x, y, groups).predict({0, 1, 2, 4}, 3), expected, rtol=1e-9, atol=1e-9)


def test_the_penalty_is_chosen_for_each_target() -> None:
    x, y, groups = random_data()
    y[:, 1] = np.random.default_rng(1).normal(size=len(y))  # nothing to learn
    y[:, 2] = x[:, 0]
    predicted = GroupedRidge(x, y, groups).predict({0, 1, 2, 4}, 3)
    truth = y[groups == 3]
    assert np.abs(predicted[:, 2] - truth[:, 2]).max() < 1e-5
    assert predicted[:, 1].std() < 0.2 * truth[:, 1].std()


@pytest.mark.parametrize("kind", list(REGRESSIONS))
def test_predictions_do_not_depend_on_the_labels_that_are_tested(kind: str) -> None:
    x, y, groups = random_data()
    before = REGRESSIONS[kind](x, y, groups).predict({0, 1, 2, 4}, 3)
    y[groups == 3] = 1e6
    np.testing.assert_array_equal(REGRESSIONS[kind](x, y, groups).predict({0, 1, 2, 4}, 3), before)


@pytest.mark.parametrize("kind", list(REGRESSIONS))
def test_predictions_do_not_depend_on_the_basis_or_the_unit(kind: str) -> None:
    x, y, groups = random_data(width=8)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(8, 8)))[0]
    plain, turned = (REGRESSIONS[kind](prepared(z), y, groups).predict({0, 1, 2}, 4) for z in (x, 50 * x @ rotation))
    np.testing.assert_allclose(plain, turned, atol=1e-8)


def test_neighbours_read_a_curve_that_is_no_line() -> None:
    angle = np.random.default_rng(0).uniform(0, 6, 300)
    x, groups = np.stack([np.cos(angle), np.sin(angle)], axis=1), np.arange(300) // 60
    predicted = Neighbours(x, angle[:, None], groups).predict({0, 1, 2, 3}, 4)[:, 0]
    assert np.abs(predicted - angle[groups == 4]).max() < 0.3


def test_rows_that_are_equally_near_all_count() -> None:
    y, groups = np.arange(100.0)[:, None], np.arange(100) // 20
    predicted = Neighbours(np.ones((100, 2)), y, groups).predict({0, 1, 2, 3}, 4)
    np.testing.assert_allclose(predicted, y[:80].mean())


def test_prepared_features_have_variance_one_in_all() -> None:
    x = prepared(7 + 1e3 * random_data()[0])
    assert np.isclose(x.var(0).sum(), 1)
    assert np.abs(x.mean(0)).max() < 1e-12


def test_rounding_is_not_blown_up_into_a_feature() -> None:
    x = np.ones((50, 4)) + 1e-7 * np.random.default_rng(0).normal(size=(50, 4))
    assert not prepared(x).any()
    assert not prepared(np.zeros((50, 4))).any()


def test_directions_that_do_not_vary_cost_nothing() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(90, 3)) @ random.normal(size=(3, 40))
    narrow = prepared(x)
    assert narrow.shape == (90, 3)
    full = x - x.mean(0)
    full /= np.sqrt(np.square(full).sum() / len(x))
    np.testing.assert_allclose(narrow @ narrow.T, full @ full.T, atol=1e-10)


def test_of_wide_features_the_largest_directions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "WIDEST", 2)
    x = np.random.default_rng(0).normal(size=(200, 4)) * [1, 5, 3, 2]
    narrow = prepared(x)
    assert narrow.shape == (200, 2)
    assert narrow[:, 0].std() > narrow[:, 1].std()
    assert abs(np.corrcoef(narrow[:, 0], x[:, 1])[0, 1]) > 0.95


# -------------------------------------------------------------------- known answers


def test_a_locator_makes_the_index_readable_and_the_embedding_does_not() -> None:
    results = probed("rope-locator")["linear"]
    for rows in ROWS:
        for site in ("head 0.0", "resid_pre 1", "resid_post 1"):
            assert results.at(site, "index", rows).value > 0.97
            assert results.at(site, "index", rows, "beyond").value > 0.97
        embedding = results.at("resid_pre 0", "index", rows)
        assert abs(embedding.value - embedding.chance) < 0.02
    assert results.at("head 0.0", "row", "both").value > 0.99


def test_a_locators_code_gives_the_index_and_not_the_position() -> None:
    results = probed("rope-locator")["linear"]
    assert results.at("head 0.0", "distance to A1").value < 0.8
    assert results.at("head 0.0", "distance to B1").value == results.at("head 0.0", "index").value


def test_positions_that_live_in_the_rotation_alone_cannot_be_read() -> None:
    for kind, tolerance in (("linear", 0.02), ("neighbours", 0.2)):
        results = probed("rope2d-aligned")[kind]
        for site in results.sites:
            for rows in ROWS:
                found = results.at(site.name, "index", rows)
                assert abs(found.value - found.chance) < tolerance, (kind, site.name, rows)
                assert found.value < 0.05


def test_what_an_aligned_head_writes_tells_the_rows_apart_but_not_linearly() -> None:
    """A source row writes its own token, a copy row that of its source: the same token or another."""
    both = probed("rope2d-aligned")
    assert both["linear"].at("resid_post 0", "row", "both").value < 0.05
    assert both["neighbours"].at("resid_post 0", "row", "both").value > 0.2


def test_a_sink_and_a_self_head_tell_nothing() -> None:
    for name in ("sink", "self"):
        results = probed(name)["linear"]
        assert all(results.at("head 0.0", "index", rows).value < 0.02 for rows in ROWS)


def test_a_uniform_head_counts_which_is_read_along_a_curve() -> None:
    """A1 has the weight 1 / (position + 1), so a source row's index can be read, but not by a straight line."""
    results = probed("uniform")
    assert results["neighbours"].at("head 0.0", "index", "source").value > 0.7
    assert results["linear"].at("head 0.0", "index", "source").value < 0.5


def test_absolute_positions_are_readable_before_any_head() -> None:
    task = CopyTask(TaskSettings())
    settings = ModelSettings(d_model=32, d_head=16, heads=(2, 1), positions="sinusoidal")
    results = probe_model(CopyTransformer(settings, task.vocabulary), samples_of(task), kinds=("linear",))["linear"]
    assert [site.name for site in results.sites] == [
        "resid_pre 0", "head 0.0", "head 0.1", "resid_pre 1", "head 1.0", "resid_post 1",
    ]  # fmt: skip
    assert results.at("resid_pre 0", "index", "source").value > 0.9
    assert results.at("resid_pre 0", "distance to A1", "copy").value > 0.9
    assert results.at("resid_pre 0", "index", "copy").value < 0.7, "where the copy begins depends on the length"


# ---------------------------------------------------------------------- invariances


def test_a_rotation_of_the_residual_stream_and_another_order_of_heads_change_nothing() -> None:
    model = CONSTRUCTIONS["rope-hybrid"].build()
    task = CopyTask(CONSTRUCTIONS["rope-hybrid"].task)
    samples = samples_of(task, (20, 40, 60, 80), 2)
    before = probe_model(model, samples, kinds=("linear",))["linear"]
    rotation = torch.linalg.qr(torch.randn(2 * [model.cfg.d_model], generator=torch.Generator().manual_seed(0)))[0]
    order = [2, 0, 3, 1]
    with torch.no_grad():
        model.embed.W_E.copy_(model.W_E @ rotation)
        model.unembed.W_U.copy_(rotation.T @ model.W_U)
        for block in model.blocks:
            for weight in (block.attn.W_Q, block.attn.W_K, block.attn.W_V):
                weight.copy_(rotation.T @ weight)
            block.attn.W_O.copy_(block.attn.W_O @ rotation)
        for weight in (getattr(model.blocks[0].attn, f"W_{name}") for name in "QKVO"):
            weight.copy_(weight[order].clone())
    after = probe_model(model, samples, kinds=("linear",))["linear"]
    for regime in ("inside", "beyond"):
        for target in ("index", "row", "distance to A1"):
            for site in ("resid_pre 0", "resid_pre 1", "head 1.0", "head 1.1", "resid_post 1"):
                values = [results.at(site, target, "both", regime).value for results in (before, after)]
                assert values[0] == pytest.approx(values[1], abs=0.02)
            for new, old in enumerate(order):
                expected = before.at(f"head 0.{old}", target, "both", regime).value
                assert after.at(f"head 0.{new}", target, "both", regime).value == pytest.approx(expected, abs=0.02)


def test_strings_of_one_length_or_of_many_at_once_give_the_same() -> None:
    task = CopyTask(CONSTRUCTIONS["rope-locator"].task)
    model = CONSTRUCTIONS["rope-locator"].build()
    samples = samples_of(task, (12, 20, 30, 44), 2)
    strings = [
        sample.batch.strings[row, : sample.length].tolist()
        for sample in reversed(samples)
        for row in reversed(range(2))
    ]
    mixed = (Sample("plain", "uniform", 44, 0, task.encode(strings)),)
    one, many = (probe_model(model, chosen, kinds=("linear",))["linear"] for chosen in (samples, mixed))
    assert one.groups == many.groups == ((12,), (20,), (30,), (44,))
    for name in ("inside", "beyond"):
        np.testing.assert_allclose(one.regime(name).value, many.regime(name).value, atol=1e-3)
        np.testing.assert_array_equal(one.regime(name).rows, many.regime(name).rows)


def test_the_same_seed_gives_the_same_numbers_and_valid_json() -> None:
    task = CopyTask(CONSTRUCTIONS["sink"].task)
    texts = [
        json.dumps(results.as_dict(), allow_nan=False)
        for _ in range(2)
        for results in probe_model(CONSTRUCTIONS["sink"].build(), samples_of(task, (8, 12, 16, 20))).values()
    ]
    assert texts[:2] == texts[2:]
    read = json.loads(texts[0])
    assert read["lengths"] == [[8], [12], [16], [20]]
    assert all(len(site["inside"]) == len(site["beyond"]) == len(read["targets"]) for site in read["sites"])


def test_intervals_hold_the_value_and_rows_are_counted() -> None:
    results = probed("rope-locator")["linear"]
    for name, lengths in (("inside", LENGTHS[1:-1]), ("beyond", LENGTHS[3:])):
        found = results.regime(name)
        assert (found.low <= found.value).all() and (found.value <= found.high).all()
        assert (found.value >= -1).all() and (found.chance >= -1).all()
        estimate = results.at("head 0.0", "index", "copy", name)
        assert estimate.strings == 3 * len(lengths)
        assert estimate.rows == 3 * sum(min(48, n - 1) for n in lengths)


def test_the_model_is_left_as_it_was() -> None:
    model, task = CONSTRUCTIONS["rope-locator"].build(), CopyTask(CONSTRUCTIONS["rope-locator"].task)
    probe_model(model, samples_of(task, (4, 6, 8, 10)), kinds=("linear",))
    assert not any(point.fwd_hooks for point in model.hook_points())


# ------------------------------------------------------------------ what is asked


def test_no_group_is_trained_on_while_it_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Spy(GroupedRidge):
        def predict(self, train: Iterable[int], test: int) -> np.ndarray:
            asked.append((tuple(sorted(train)), test))
            return super().predict(train, test)

    monkeypatch.setitem(REGRESSIONS._entries, "spy", Spy)
    task = CopyTask(TaskSettings())
    probe_model(CONSTRUCTIONS["sink"].build(), samples_of(task), kinds=("spy",))
    inside = [(tuple(sorted(set(range(6)) - {group})), group) for group in (1, 2, 3, 4)]
    beyond = [((0, 1, 2), group) for group in (3, 4, 5)]
    assert set(asked) == set(inside + beyond)


def test_many_lengths_are_held_out_in_groups_of_neighbours() -> None:
    task = CopyTask(TaskSettings())
    read = read_activations(CONSTRUCTIONS["sink"].build(), samples_of(task, tuple(range(5, 18)), 1), 48)
    assert [n for group in read.groups for n in group] == list(range(5, 18))
    assert len(read.groups) == 6
    for row in range(len(read.string)):
        assert read.values["index"][row] < max(read.groups[read.group[row]])


def test_targets_that_differ_by_a_constant_are_asked_for_once() -> None:
    task = CopyTask(TaskSettings())  # b = a + 2: a copied token and its source share a column
    targets, excluded = targets_of(read_activations(CONSTRUCTIONS["sink"].build(), samples_of(task), 48))
    named = {(target.name, target.rows): target.also for target in targets}
    distances = tuple(f"distance to B{j}" for j in range(1, 5))
    assert named == {
        ("index", "copy"): ("column", *distances),
        ("distance to A1", "copy"): ("distance to A2",),
        ("index", "source"): ("column", "distance to A1", "distance to A2"),
        ("index", "both"): ("column",),
        ("row", "both"): (),
        ("distance to A1", "both"): ("distance to A2",),
    }
    assert set(excluded) == {("row", "copy"), ("row", "source")} | {
        (name, rows) for name in distances for rows in ("source", "both")
    }


@pytest.mark.parametrize("separator", ["\n", "*"])
def test_rows_and_columns_are_those_of_the_separator(separator: str) -> None:
    task = CopyTask(TaskSettings(a=2, b=3, separator=separator))
    model = CopyTransformer(ModelSettings(d_model=16, d_head=8, heads=(1,), positions="nope"), task.vocabulary)
    read = read_activations(model, samples_of(task, (6, 7, 8, 9), 1), 48)
    np.testing.assert_array_equal(read.values["row"], read.in_copy)
    np.testing.assert_array_equal(read.values["column"], read.values["index"] + np.where(read.in_copy, 1, 2))
    assert ("column", "both") in {(target.name, target.rows) for target in targets_of(read)[0]}


def test_rows_whose_own_token_or_answer_tells_the_index_are_left_out() -> None:
    task = CopyTask(TaskSettings())
    read = read_activations(CONSTRUCTIONS["sink"].build(), samples_of(task, (6, 7, 8, 9), 1), 48)
    first = read.string == 0
    assert read.values["index"][first & read.in_copy].tolist() == [1, 2, 3, 4, 5]
    assert read.values["index"][first & ~read.in_copy].tolist() == [0, 1, 2, 3, 4, 5]
    embedded = read.features[0][first & read.in_copy]
    tokens = samples_of(task, (6, 7, 8, 9), 1)[0].batch.strings[0]
    np.testing.assert_array_equal(embedded.argmax(1), tokens[:5])


def test_targets_are_found_under_all_their_names_and_misses_are_explained() -> None:
    results = probed("sink")["linear"]
    assert results.at("head 0.0", "column", "source") == results.at("head 0.0", "index", "source")
    constant, unseen = results.at("head 0.0", "row", "copy"), results.at("head 0.0", "distance to B2", "source")
    assert not constant.measurable and "the same" in constant.reason
    assert not unseen.measurable and "behind" in unseen.reason
    with pytest.raises(UsageError, match=r"site 'head 0.7'.*head 0.0"):
        results.at("head 0.7", "index")
    with pytest.raises(UsageError, match=r"target 'indx \(copy\)'.*index \(copy\)"):
        results.at("head 0.0", "indx")
    with pytest.raises(UsageError, match="beyond"):
        results.at("head 0.0", "index", regime="below")


def test_too_few_lengths_and_unknown_probes_are_refused() -> None:
    task, model = CopyTask(TaskSettings()), CONSTRUCTIONS["sink"].build()
    with pytest.raises(UsageError, match="3 lengths above 1 were given; give at least 4"):
        probe_model(model, samples_of(task, (1, 5, 6, 7)))
    with pytest.raises(UsageError, match="unknown probe 'forest'"):
        probe_model(model, samples_of(task), kinds=("forest",))
