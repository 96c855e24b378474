"""Periodicity: the string's own period, sidelobes of rotary planes and modular heads are told apart."""

from functools import cache

import numpy as np
import pytest
import torch

from analyses.estimates import Estimates
from analyses.measures.harmonics import PERIODS, best, shares
from analyses.measures.modular import MODULI, Modular, residue_share
from analyses.measures.periodicity import CLEAR, Periodicity, own_period
from analyses.measures.sidelobes import cause, sidelobes, wavelengths
from analyses.passes import PassMeasure, read_all
from analyses.samples import draw_samples
from models.config import TaskSettings
from models.constructions import CONSTRUCTIONS
from models.constructions.base import architecture, attend_at
from models.positions import SCHEMES
from models.positions.rotary import Rotary
from models.tasks import CopyTask
from models.transformer import CopyTransformer

TASK = TaskSettings(period=6, flip=0.05)
OFFSETS = np.arange(-32, 33)
ALL = tuple(CONSTRUCTIONS)


def scores_of(
    model: CopyTransformer, task: CopyTask, lengths: tuple[int, ...], distributions: tuple[str, ...], strings: int
) -> dict[str, Estimates]:
    samples = draw_samples(
        task, lengths=lengths, distributions=distributions, strings=strings, seed=0, kinds=("plain",)
    )
    measures: list[PassMeasure] = [Periodicity(model.settings.heads), Modular(model.settings.heads)]
    read_all(model, samples, measures)
    found = [measure.measured(0) for measure in measures] + [sidelobes(model, task, samples, seed=0)]
    return {name: estimates for part in found for name, estimates in part.scores.items()}


@cache
def built(name: str, lengths: tuple[int, ...] = (20, 100)) -> dict[str, Estimates]:
    entry = CONSTRUCTIONS[name]
    return scores_of(entry.build(), CopyTask(entry.task), lengths, entry.distributions, 2)


def waving(period: float, gain: float, scheme: str = "rope") -> CopyTransformer:
    """One head that scores gain * cos(2 pi distance / period), whatever the tokens."""
    vocabulary, planes = CopyTask(TASK).vocabulary, 4
    positions = {"scheme": scheme, "frequencies": (0.0,) * (planes - 1) + (2 * np.pi / period,)}
    model = CopyTransformer(architecture(vocabulary, heads=(1,), d_head=2 * planes, positions=positions), vocabulary)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.embed.W_E[:, : len(vocabulary)] = torch.eye(len(vocabulary))
        gains = np.append(np.zeros(planes - 1), gain)
        attend_at(model.blocks[0].attn, 0, np.zeros(planes), gains, len(vocabulary))
    return model.eval()


@pytest.mark.parametrize("period", [2, 2.7, 5, 2 * np.pi, 8, 12.5])
@pytest.mark.parametrize("shape", ["wave", "spikes"])
def test_a_period_is_found_whole_or_not_and_not_its_multiples(period: float, shape: str) -> None:
    phase = OFFSETS / period - np.round(OFFSETS / period)
    series = np.cos(2 * np.pi * phase) if shape == "wave" else (np.abs(phase) <= 0.5 / period + 1e-9).astype(float)
    found = shares(series + OFFSETS / 50, 1e-3)
    chosen = int(best(found))
    assert PERIODS[chosen] == pytest.approx(period, rel=0.02)
    assert found[chosen] > (0.95 if shape == "wave" else 0.4)


@pytest.mark.parametrize("series", [
    0 * OFFSETS, OFFSETS, np.exp(OFFSETS / 20), OFFSETS == 0, np.exp(-np.abs(OFFSETS) / 5), np.exp(-(OFFSETS**2) / 50),
])  # fmt: skip
def test_slopes_and_peaks_are_no_periods(series: np.ndarray) -> None:
    assert np.nanmax(shares(series.astype(float), 1e-3)) < CLEAR


def test_noise_explains_nothing_on_average() -> None:
    noise = np.random.default_rng(0).normal(size=(3000, len(OFFSETS)))
    np.testing.assert_allclose(shares(noise, 0.0).mean(0), 0, atol=0.01)


@pytest.mark.parametrize(("m", "length"), [(2, 40), (4, 40), (5, 100), (16, 100)])
def test_the_share_between_residues(m: int, length: int) -> None:
    at = np.arange(length)
    dilution = 1 / (at + 1)
    weights = (at % m == 1) * 0.6 + dilution
    values = np.array([residue_share(weights, weights - dilution, int(other)) for other in MODULI])
    assert values[m - 2] > 0.97
    assert all(np.isnan(v) or (v > 0.9) == (other % m == 0) for v, other in zip(values, MODULI, strict=True))
    noise = np.random.default_rng(0).random(size=(2000, length))
    assert abs(residue_share(noise, noise, m).mean()) < 0.06
    assert residue_share(dilution, dilution, m) < 0.1
    assert residue_share(weights, 0 * weights, m) == 0


@pytest.mark.parametrize("length", [20, 100, 500])
def test_the_modular_head_is_named(length: int) -> None:
    scores = built("modular", (length,))
    assert scores["modular.score"].low[0, 0] > 0.99
    assert scores["modular.contrast"].low[0, 0] > 0.99
    assert (scores["modular.m"].value[0, 0], scores["modular.r"].value[0, 0]) == (4, 1)
    assert cause(scores, 0, 0) == "query"


@pytest.mark.parametrize("distribution", CONSTRUCTIONS["modular"].distributions)
def test_the_modular_head_is_named_on_every_distribution(distribution: str) -> None:
    entry = CONSTRUCTIONS["modular"]
    scores = scores_of(entry.build(), CopyTask(entry.task), (20, 60), (distribution,), 2)
    assert (scores["modular.m"].value[0, 0], scores["modular.r"].value[0, 0]) == (4, 1)


@pytest.mark.parametrize("name", [name for name in ALL if name != "modular"])
def test_no_other_head_is_modular(name: str) -> None:
    scores = built(name)
    assert np.isnan(scores["modular.m"].value).all() and np.isnan(scores["modular.r"].value).all()
    assert np.nanmax(scores["modular.score"].value) < 0.2


def test_a_sink_that_ripples_has_little_contrast() -> None:
    heads = Modular((1,))
    for key in range(4):
        weights = 0.9 + 0.01 * (np.arange(80) % 4 == 1)
        heads._strings[key] = (weights[None, None], np.tile(weights, (1, 1, len(MODULI), 1)))
    scores = heads.measured(0).scores
    assert scores["modular.m"].value[0, 0] == 4 and scores["modular.score"].value[0, 0] > 0.9
    assert scores["modular.contrast"].value[0, 0] == pytest.approx(0.01, rel=0.01)


def test_one_string_cannot_choose_a_modulus_and_confirm_it() -> None:
    entry = CONSTRUCTIONS["modular"]
    scores = scores_of(entry.build(), CopyTask(entry.task), (50,), ("uniform",), 1)
    estimate = scores["modular.score"].at(0, 0)
    assert not estimate.measurable and "one string" in estimate.reason


@pytest.mark.parametrize("period", [4, 6, 8, 10])
def test_a_strings_own_period(period: int) -> None:
    block = np.random.default_rng(period).permutation(np.arange(period) % 2)
    tiled = np.tile(block, 20)[:100]
    found = own_period(tiled)
    assert found is not None and period % found == 0 and (tiled[found:] == tiled[:-found]).all()


def test_strings_without_a_period_and_strings_that_cannot_be_told() -> None:
    rng = np.random.default_rng(0)
    assert all(own_period(rng.integers(0, 2, 100)) is None for _ in range(50))
    assert own_period(np.zeros(50, int)) == 0
    assert own_period(np.arange(100)) is None
    assert all(own_period(rng.integers(0, 2, 12)) in (0, None) for _ in range(50))


@pytest.mark.parametrize(("name", "layer", "head"), [("induction-3", 1, 0), ("rope-hybrid", 1, 1)])
def test_an_induction_head_has_the_period_of_its_string(name: str, layer: int, head: int) -> None:
    entry = CONSTRUCTIONS[name]
    scores = scores_of(entry.build(), CopyTask(entry.task), (100,), ("repeat-structure", "unique-context"), 4)
    assert scores["periodic.repeats"].low[layer, head] > CLEAR
    assert not scores["periodic.period"].at(layer, head).measurable
    assert cause(scores, layer, head) == "string"


@pytest.mark.parametrize("period", [7.0, 2 * np.pi])
@pytest.mark.parametrize("scheme", ["rope", "rope2d"])
def test_sidelobes_stay_where_no_string_has_a_period(period: float, scheme: str) -> None:
    model, task = waving(period, 2.0, scheme), CopyTask(TASK)
    for distributions in (("uniform",), ("uniform", "repeat-structure")):
        scores = scores_of(model, task, (20, 80), distributions, 3)
        assert scores["periodic.strength"].low[0, 0] > 0.5
        assert scores["periodic.period"].value[0, 0] == pytest.approx(period, rel=0.03)
        assert scores["periodic.period.scores"].value[0, 0] == pytest.approx(period, rel=0.03)
        assert scores["periodic.wavelength"].value[0, 0] == pytest.approx(period, rel=1e-6)
        assert scores["periodic.planes"].low[0, 0] > 0.95 > 0.5 > scores["periodic.planes"].chance[0, 0]
        assert cause(scores, 0, 0) == "planes"


def test_a_single_plane_shows_in_scores_where_weights_have_no_sidelobes() -> None:
    scores = built("look-back")
    assert not scores["periodic.period"].at(0, 0).measurable
    assert scores["periodic.strength.scores"].value[0, 0] > 0.95
    assert scores["periodic.period.scores"].value[0, 0] == pytest.approx(2 * np.pi, rel=0.02)
    assert scores["periodic.wavelength"].value[0, 0] == pytest.approx(2 * np.pi)


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("modular", "rope-hybrid", "induction-3")])
def test_other_heads_have_no_period(name: str) -> None:
    scores = built(name)
    for layer, heads in enumerate(CONSTRUCTIONS[name].roles):
        for head in range(len(heads)):
            assert not scores["periodic.period"].at(layer, head).measurable
            assert cause(scores, layer, head) == "none"


def test_wavelengths_are_those_that_whole_offsets_see() -> None:
    settings = SCHEMES["rope"].Settings(frequencies=(1.0, 0.0, 5.0, 0.1))
    scheme = SCHEMES["rope"](settings, d_model=8, d_head=8, n_heads=1, layer=0)
    assert isinstance(scheme, Rotary)
    tau = 2 * np.pi
    np.testing.assert_allclose(wavelengths(scheme, np.ones(1)), [tau, np.inf, tau / (tau - 5), tau / 0.1])
    np.testing.assert_allclose(wavelengths(scheme, np.full(1, 0.5)), [2 * tau, np.inf, tau / 2.5, tau / 0.05])


def test_without_plain_strings_nothing_is_measurable() -> None:
    for measure in (Periodicity, Modular):
        scores = measure((2, 1)).measured(0).scores
        assert scores and all(np.isnan(estimates.value).all() for estimates in scores.values())
    model = CONSTRUCTIONS["modular"].build()
    scores = sidelobes(model, CopyTask(TASK), (), seed=0).scores
    assert all(not estimates.at(0, 0).measurable for estimates in scores.values())
