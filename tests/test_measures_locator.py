"""Locators: the index is read from the split, not from the mass; stripes go on until they break, however long T is."""

from functools import cache

import numpy as np
import pytest
import torch

from analyses.estimates import Estimates
from analyses.measures.continuity import RUN, STRIPE, Continuity, first_break
from analyses.measures.decoding import Split, decode, stands_out
from analyses.measures.locator import Locator
from analyses.passes import Measured, PassMeasure, read_all, read_string
from analyses.samples import draw_samples
from models.constructions import CONSTRUCTIONS
from models.tasks import CopyTask
from models.transformer import CopyTransformer

OTHERS = [
    (name, role.layer, role.head)
    for name in CONSTRUCTIONS
    for role in CONSTRUCTIONS[name].expected
    if role.role != "locator"
]


def measured(
    measure: type,
    model: CopyTransformer,
    name: str,
    lengths: tuple[int, ...],
    distributions: tuple[str, ...],
    strings: int,
) -> Measured:
    task = CopyTask(CONSTRUCTIONS[name].task)
    samples = draw_samples(
        task, lengths=lengths, distributions=distributions, strings=strings, seed=0, kinds=("plain",)
    )
    found: PassMeasure = measure(model.settings.heads)
    read_all(model, samples, [found])
    return found.measured(0)


@cache
def built(name: str) -> CopyTransformer:
    return CONSTRUCTIONS[name].build()


@cache
def locators(name: str, lengths: tuple[int, ...] = (20, 60, 100), strings: int = 3) -> dict[str, Estimates]:
    return dict(measured(Locator, built(name), name, lengths, CONSTRUCTIONS[name].distributions[:2], strings).scores)


@cache
def stripes(name: str, lengths: tuple[int, ...] = (20, 100), strings: int = 2) -> Measured:
    return measured(Continuity, built(name), name, lengths, CONSTRUCTIONS[name].distributions[:1], strings)


@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("rope-locator", (12, 16, 20)),
        ("rope-locator", (60, 100, 150, 200)),
        ("rope-locator-4", (20, 100)),
        ("rope-locator-4", (100, 350, 500)),
        ("rope-hybrid", (20, 60, 100)),
    ],
)
def test_a_locators_index_is_read_on_lengths_that_were_left_out(name: str, lengths: tuple[int, ...]) -> None:
    scores = locators(name, lengths, 2)
    for ending in ("", ".source"):
        assert scores[f"locator.decoding{ending}"].low[0, 0] > 0.95
        assert scores[f"locator.mass{ending}"].low[0, 0] > 0.99


@pytest.mark.parametrize("distribution", CONSTRUCTIONS["rope-locator-4"].distributions)
def test_what_stands_in_the_strings_does_not_matter(distribution: str) -> None:
    name = "rope-locator-4"
    scores = measured(Locator, built(name), name, (20, 60, 100), (distribution,), 2).scores
    assert scores["locator.decoding"].low[0, 0] > 0.95


@pytest.mark.parametrize(("name", "layer", "head"), OTHERS)
def test_no_other_head_tells_the_index(name: str, layer: int, head: int) -> None:
    scores = locators(name)
    for ending in ("", ".source"):
        value = scores[f"locator.decoding{ending}"].value[layer, head]
        assert np.isnan(value) or value < 0.2


def test_a_sink_has_the_mass_and_not_the_split() -> None:
    scores = locators("sink")
    assert scores["locator.mass"].at(0, 0).value == pytest.approx(1, abs=1e-5)
    assert scores["locator.mass.A1"].at(0, 0).value == pytest.approx(1, abs=1e-5)
    assert abs(scores["locator.decoding"].value[0, 0]) < 0.3


def test_a_uniform_heads_weights_follow_the_index_and_its_split_does_not() -> None:
    scores = locators("uniform")
    mass = scores["locator.mass"].at(0, 0)
    assert mass.value == pytest.approx(mass.chance, rel=1e-5)
    assert not scores["locator.decoding"].at(0, 0).measurable
    assert "too few rows" in scores["locator.decoding"].at(0, 0).reason


def test_strings_of_one_length_cannot_tell() -> None:
    estimate = locators("rope-locator", (50,))["locator.decoding"].at(0, 0)
    assert not estimate.measurable and "one length" in estimate.reason


def test_masses_are_those_of_the_pattern() -> None:
    name, length = "rope-hybrid", 200
    task = CopyTask(CONSTRUCTIONS[name].task)
    samples = draw_samples(task, lengths=(length,), distributions=("uniform",), strings=1, seed=3, kinds=("plain",))
    found = Locator(built(name).settings.heads)
    read_all(built(name), samples, [found])
    scores = found.measured(0).scores
    string = read_string(built(name), samples[0].batch, 0)
    names = ("A1", "A2", "⏎", "B2", "B3", "B4")
    for layer, head in ((0, 0), (0, 2), (1, 1)):
        weights = string.head(layer, head).column_mass(string.relations.anchors)[string.relations.copy_rows[:-1]]
        each = [scores[f"locator.mass.{anchor}"].value[layer, head] for anchor in names]
        np.testing.assert_allclose(each, weights.mean(0), atol=1e-6)
        assert scores["locator.mass"].value[layer, head] == pytest.approx(sum(each), abs=1e-6)


def test_scores_follow_their_heads() -> None:
    name, order = "rope-hybrid", [2, 0, 3, 1]
    model = CONSTRUCTIONS[name].build()
    attn = model.blocks[0].attn
    with torch.no_grad():
        for weight in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O):
            weight[:] = weight[order].clone()
    for measure in (Locator, Continuity):
        scores = measured(measure, built(name), name, (20, 60), ("uniform",), 2).scores
        permuted = measured(measure, model, name, (20, 60), ("uniform",), 2).scores
        for key, estimates in scores.items():
            np.testing.assert_allclose(permuted[key].value[0], estimates.value[0][order], atol=1e-4)


def synthetic(shares: str, mass: float, lengths: tuple[int, ...] = (30, 40, 50)) -> list[Split]:
    """Strings of one head with two anchors, three a length."""
    strings = []
    for length in np.repeat(lengths, 3):
        index = np.arange(length)
        odds = {"varies": np.sin(index / 30), "constant": 0 * index, "length": 0 * index + length / 20}[shares]
        weights = mass * np.stack([1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))], axis=-1)
        strings.append(Split(int(length), weights[None], np.ones((length, 2), bool), index + length + 4))
    return strings


def explained(strings: list[Split]) -> float:
    reads = decode(strings, 0, [[0, 1]], seed=0)
    assert stands_out(reads)
    return 1 - sum(read.wrong for read in reads) / sum(read.spread for read in reads)


@pytest.mark.parametrize(("mass", "shares", "low", "high"), [
    (1.0, "varies", 0.99, 1.0),
    (0.2, "varies", 0.9, 1.0),
    (1.0, "constant", -0.5, 0.2),
    (1.0, "length", -0.5, 0.2),
])  # fmt: skip
def test_decoding_needs_a_split_that_varies_with_the_index(mass: float, shares: str, low: float, high: float) -> None:
    assert low <= explained(synthetic(shares, mass)) <= high


@pytest.mark.parametrize("mass", [0.03, 1e-12, 0.0])
def test_a_split_of_hardly_any_mass_says_nothing(mass: float) -> None:
    assert not stands_out(decode(synthetic("varies", mass), 0, [[0, 1]], seed=0))


def test_rows_that_no_other_length_has_are_left_out() -> None:
    reads = decode(synthetic("varies", 1.0, (30, 50)), 0, [[0, 1]], seed=0)
    assert [read.possible for read in reads] == [30] * 6
    assert max(int(read.index.max()) for read in reads) == 29


def test_the_better_group_of_anchors_is_taken() -> None:
    strings = [
        Split(
            s.length, np.concatenate([0.5 * s.weights, 0.5 * t.weights], axis=-1), np.ones((s.length, 4), bool), s.keys
        )
        for s, t in zip(synthetic("constant", 1.0), synthetic("varies", 1.0), strict=True)
    ]
    reads = decode(strings, 0, [[0, 1], [2, 3]], seed=0)
    assert 1 - sum(read.wrong for read in reads) / sum(read.spread for read in reads) > 0.98


def test_a_break_is_a_run_and_not_a_gap() -> None:
    broken = np.zeros((3, 20), bool)
    broken[0, 5 : 5 + RUN - 1] = True
    broken[1, 5 : 5 + RUN] = True
    broken[2, 20 - RUN :] = True
    assert first_break(broken).tolist() == [20, 5, 20 - RUN]


@pytest.mark.parametrize(("name", "layer", "head", "stripe"), [
    ("rope-locator", 0, 0, "locator"),
    ("rope-locator", 1, 0, "aligned"),
    ("rope-locator-4", 0, 0, "locator"),
    ("rope-locator-4", 1, 0, "aligned"),
    ("rope-hybrid", 1, 0, "aligned"),
    ("rope2d-aligned", 0, 0, "aligned"),
    ("sink", 0, 0, "locator"),
])  # fmt: skip
def test_stripes_are_unbroken_as_far_as_their_model_copies(name: str, layer: int, head: int, stripe: str) -> None:
    scores = stripes(name).scores
    for ending in ("", ".mass"):
        assert scores[f"{stripe}.continuity{ending}"].value[layer, head] == 1
        assert not scores[f"{stripe}.break{ending}"].at(layer, head).measurable
    assert scores[f"{stripe}.coverage"].value[layer, head] == 1


@pytest.mark.parametrize("name", ["uniform", "self", "look-back", "alibi-previous"])
def test_where_there_is_no_stripe_there_is_nothing_to_break(name: str) -> None:
    for stripe in ("locator", "aligned"):
        estimate = stripes(name).scores[f"{stripe}.continuity"].at(0, 0)
        assert not estimate.measurable and "no stripe" in estimate.reason


def test_the_hybrids_aligned_head_gives_up_at_index_100() -> None:
    scores = stripes("rope-hybrid", (200,)).scores
    assert scores["aligned.break"].value[1, 0] == 101
    assert scores["aligned.break.mass"].value[1, 0] == 101
    assert scores["aligned.continuity"].value[1, 0] == pytest.approx(101 / 200)
    assert scores["locator.continuity"].value[0, 0] == 1  # its anchors still have all the mass, on A1 alone


def test_the_locators_aligned_head_blurs_where_its_model_fails() -> None:
    assert stripes("rope-locator", (200,), 1).scores["aligned.continuity.mass"].value[1, 0] == 1
    scores = stripes("rope-locator", (800,), 1).scores
    assert 300 < scores["aligned.break.mass"].value[1, 0] < 400
    assert scores["aligned.break"].value[1, 0] > scores["aligned.break.mass"].value[1, 0]


def test_margins_do_not_dilute() -> None:
    model = CONSTRUCTIONS["sink"].build()
    with torch.no_grad():
        model.blocks[0].attn.W_Q *= 0.1  # A1 scores 3, all else 0
    found = measured(Continuity, model, "sink", (400,), ("uniform",), 2)
    assert found.scores["locator.continuity"].value[0, 0] == 1
    margins = found.profiles["locator.margins"][0, 0]
    np.testing.assert_allclose(margins, np.log((np.exp(3) + 5) / 6), atol=1e-4)
    assert margins.min() > STRIPE
    short = measured(Locator, model, "sink", (20,), ("uniform",), 2).scores["locator.mass.A1"].value[0, 0]
    long = measured(Locator, model, "sink", (400,), ("uniform",), 2).scores["locator.mass.A1"].value[0, 0]
    assert long < short / 5


def test_without_plain_strings_nothing_is_measurable() -> None:
    for measure in (Locator, Continuity):
        scores = measure((2, 1)).measured(0).scores
        assert scores and all(np.isnan(estimates.value).all() for estimates in scores.values())
