"""Aligned against induction: the two hypotheses are told apart where they disagree, on heads whose role is known."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from analyses.estimates import Estimate
from analyses.measures.base import MEASURES
from analyses.measures.context import Context
from analyses.passes import Measured, ReadString, read_all
from analyses.relations import Relations
from analyses.samples import KINDS, Sample, draw_samples
from models.blockwise import RowBlock
from models.config import TaskSettings
from models.constructions import CONSTRUCTIONS
from models.constructions.base import ANY
from models.tasks import CopyTask

Pattern = Callable[[Relations], np.ndarray]  # weights [H, T, T] of one layer


@cache
def samples_of(
    alphabet: int = 2,
    lengths: tuple[int, ...] = (40,),
    distribution: str = "uniform",
    kinds: tuple[str, ...] = KINDS,
    strings: int = 8,
) -> tuple[Sample, ...]:
    task = CopyTask(TaskSettings(alphabet=alphabet))
    return draw_samples(task, lengths=lengths, distributions=(distribution,), strings=strings, seed=0, kinds=kinds, m=4)


def seen(n_tokens: int, strict: bool = False, window: int | None = None) -> np.ndarray:
    offset = np.arange(n_tokens)[:, None] - np.arange(n_tokens)
    return (offset >= int(strict)) & (offset < (n_tokens if window is None else window))


def feed(
    pattern: Pattern,
    samples: tuple[Sample, ...],
    *,
    rows: int = 1000,
    visible: Callable[[int], np.ndarray] = seen,
) -> Measured:
    """Measure heads whose pattern is a function of the string."""
    measure = Context((pattern(next(samples[0].strings())[1]).shape[0],))
    strings = [(sample, relations) for sample in samples for _, relations in sample.strings()]
    for key, (sample, relations) in enumerate(strings):
        n = len(relations)
        mask = visible(n)
        weights = pattern(relations).astype(np.float32) * mask
        scores = np.where(mask, np.float32(0), -np.inf) + np.zeros_like(weights)
        string = ReadString(key, relations, (), np.zeros(0, bool), np.zeros(0, int))
        for first in range(0, n, rows):
            last = min(first + rows, n)
            block = RowBlock(0, first, last, scores[:, first:last, :last], weights[:, first:last, :last])
            measure.update(sample, string, block)
    return measure.measured(0)


def spread(keys: np.ndarray) -> np.ndarray:
    """Weights that are even over `keys` [T, T], all on the first token where a row has none."""
    keys = keys.copy()
    keys[~keys.any(1), 0] = True
    return keys / keys.sum(1, keepdims=True)


def on_candidates(m: int, source_only: bool = False) -> Pattern:
    def pattern(relations: Relations) -> np.ndarray:
        keys = relations.context_matches(0, len(relations)) >= m
        if source_only:
            keys &= np.arange(len(relations)) <= relations.a + relations.n
        return spread(keys)[None]

    return pattern


def on_source(relations: Relations) -> np.ndarray:
    at = relations.source_position
    return spread((at[:, None] == np.arange(len(relations))) & (at >= 0)[:, None])[None]


def evenly(relations: Relations) -> np.ndarray:
    return spread(seen(len(relations)))[None]


def at_random(relations: Relations) -> np.ndarray:
    weights = np.random.default_rng(int(relations.tokens.sum())).random((2, len(relations), len(relations)))
    weights *= seen(len(relations))
    return weights / weights.sum(-1, keepdims=True)


def head(measured: Measured, layer: int = 0, index: int = 0) -> dict[str, Estimate]:
    return {name: score.at(layer, index) for name, score in measured.scores.items()}


def values(measured: Measured) -> dict[str, float | None]:
    return {name: estimate.value for name, estimate in head(measured).items()}


# ------------------------------------------------------------------ hand-built models


@cache
def construction(name: str, lengths: tuple[int, ...], distributions: tuple[str, ...]) -> Measured:
    entry = CONSTRUCTIONS[name]
    strings = 4 if len(distributions) > 1 else 8
    samples = draw_samples(CopyTask(entry.task), lengths=lengths, distributions=distributions, strings=strings, seed=1)
    measure = MEASURES["context"](entry.model.heads)
    read_all(entry.build(), samples, [measure])
    return measure.measured(0)


@pytest.mark.parametrize("lengths", [(20,), (100,)])
@pytest.mark.parametrize(
    ("name", "at"), [("rope2d-aligned", (0, 0)), ("rope-locator", (1, 0)), ("rope-hybrid", (1, 0))]
)
def test_aligned_heads_follow_the_position(name: str, at: tuple[int, int], lengths: tuple[int, ...]) -> None:
    found = head(construction(name, lengths, ANY), *at)
    assert found["aligned.conflict"].value > 0.9 and found["induction.conflict"].value < 0.02
    assert found["aligned.mass"].value > 0.9 and found["aligned.share"].value > 0.99
    assert found["induction.wrong"].value < 0.01 and found["aligned.share"].chance < 0.35
    assert found["aligned.conflict"].rows > 50 and found["aligned.conflict"].chance < 0.05


@pytest.mark.parametrize(
    ("name", "at", "m", "lengths", "distributions"),
    [
        ("induction", (1, 0), 1, (20,), ("unique-context",)),
        ("induction", (1, 0), 1, (100,), ("unique-context",)),
        ("induction-3", (1, 0), 3, (20,), ("unique-context",)),
        ("induction-3", (1, 0), 3, (100,), ("unique-context",)),
        ("induction-3", (1, 0), 3, (20, 100), ("unique-context", "uniform")),
        ("rope-hybrid", (1, 1), 3, (20,), (*ANY, "unique-context")),
        ("rope-hybrid", (1, 1), 3, (100,), ("recursive-flip",)),
        ("rope-hybrid", (1, 1), 3, (100,), ("repeat-structure",)),
        ("rope-hybrid", (1, 1), 3, (100,), ("imbalanced",)),
    ],
)
def test_induction_heads_follow_the_context_and_their_order_is_found(
    name: str, at: tuple[int, int], m: int, lengths: tuple[int, ...], distributions: tuple[str, ...]
) -> None:
    found = head(construction(name, lengths, distributions), *at)
    assert found["induction.m"].value == m
    assert found["induction.conflict"].value > 0.95 and found["aligned.conflict"].value < 0.02
    assert found["induction.mass"].value > 0.95 and found["induction.conflict"].chance < 0.2


def test_lifts_fall_to_nothing_beyond_the_order() -> None:
    lift = construction("rope-hybrid", (100,), ("repeat-structure",)).profiles["induction.lift"][1, 1]
    assert (lift[:3] > 0.85).all() and (np.abs(lift[3:6]) < 0.35).all()


@pytest.mark.parametrize("name", ["uniform", "sink", "modular"])
def test_heads_without_the_property_are_not_above_chance(name: str) -> None:
    found = head(construction(name, (20, 60), ANY))
    for score, estimate in found.items():
        if score != "induction.m":
            assert estimate.value < estimate.chance + 0.03, score
    assert found["induction.m"].value == 1


@pytest.mark.parametrize("name", ["uniform", "sink"])
def test_shares_of_heads_that_ignore_the_context_are_at_chance(name: str) -> None:
    found = head(construction(name, (20, 60), ANY))
    scores = ["aligned.share", "induction.wrong"] + (["induction.mass", "aligned.mass"] if name == "uniform" else [])
    for score in scores:
        estimate = found[score]
        assert estimate.value == pytest.approx(estimate.chance, abs=1e-5), score
        assert estimate.interval[0] - 1e-5 <= estimate.chance <= estimate.interval[1] + 1e-5


# ------------------------------------------------------------------ heads that are given by their pattern


@pytest.mark.parametrize("m", range(1, 8))
def test_the_order_of_an_ideal_induction_head_is_found_among_nested_contexts(m: int) -> None:
    found = feed(on_candidates(m), samples_of(strings=16, lengths=(40, 80)))
    scores = head(found)
    assert scores["induction.m"].value == m == scores["induction.m"].interval[0]
    assert scores["induction.conflict"].value == pytest.approx(1) and scores["aligned.conflict"].value == 0
    assert scores["induction.mass"].value == pytest.approx(1)
    lift = found.profiles["induction.lift"][0, 0]
    assert lift[m - 1] > 0.95 and (np.abs(np.nan_to_num(lift[m:])) < 1e-6).all()
    aligned = found.profiles["aligned.lift"][0, 0]
    assert (np.abs(np.nan_to_num(aligned[m - 1 :])) < 1e-3).all() and (np.nan_to_num(aligned[: m - 1]) > 0.01).all()


def test_an_aligned_head_has_the_source_to_itself_at_every_order() -> None:
    lift = feed(on_source, samples_of(strings=16, lengths=(40, 80))).profiles["aligned.lift"][0, 0]
    assert np.isfinite(lift[:4]).all() and (lift[np.isfinite(lift)] > 0.98).all()


@pytest.mark.parametrize("source_only", [False, True])
def test_induction_gives_the_source_its_share_and_no_more(source_only: bool) -> None:
    """Also a head that looks for contexts in the source alone: it does not know the position."""
    found = head(feed(on_candidates(3, source_only), samples_of()))
    share, wrong = found["aligned.share"], found["induction.wrong"]
    assert share.value == pytest.approx(share.chance, abs=1e-3) and share.rows == wrong.rows > 50
    assert wrong.value == pytest.approx(1 - share.value) and wrong.chance == pytest.approx(1 - share.chance)


def test_on_strings_without_repeats_only_conflict_rows_separate_the_hypotheses() -> None:
    aligned = values(feed(on_source, samples_of(alphabet=100, lengths=(30,))))
    context = values(feed(on_candidates(1), samples_of(alphabet=100, lengths=(30,))))
    assert aligned["aligned.mass"] == 1 and context["aligned.mass"] > 0.8
    assert aligned["induction.mass"] > 0.95 and context["induction.mass"] == pytest.approx(1)
    assert (aligned["aligned.conflict"], aligned["induction.conflict"]) == (1, 0)
    assert (context["aligned.conflict"], context["induction.conflict"]) == (0, pytest.approx(1))


def test_half_and_half_is_half_and_half() -> None:
    def both(relations: Relations) -> np.ndarray:
        return (on_source(relations) + on_candidates(3)(relations)) / 2

    found = values(feed(both, samples_of()))
    assert found["induction.m"] == 3
    assert found["aligned.conflict"] == pytest.approx(0.5) == found["induction.conflict"]


def test_scores_are_what_their_formulas_say() -> None:
    """Row by row, in plain loops, at the order that was chosen."""
    samples = samples_of()
    found = feed(at_random, samples)
    sums: dict[str, list[float]] = {name: [] for name in found.scores}
    key = -1
    for sample in samples:
        for _, relations in sample.strings():
            key += 1
            weights = at_random(relations)[0]
            tokens = relations.tokens.tolist()
            for index, q in enumerate(relations.copy_rows):
                source = int(relations.source_position[q])
                if sample.kind == "plain":
                    sums["aligned.mass"].append(weights[q, source])
                if index == relations.n or key % 2 == 0:
                    continue
                candidates = [k for k in range(1, q + 1) if tokens[k - 1] == tokens[q]]
                inside = [k for k in candidates if relations.a <= k <= relations.a + relations.n]
                if source not in candidates and candidates:
                    sums["aligned.conflict"].append(weights[q, source])
                    sums["aligned.near"].append(weights[q, source - 1 : source + 2].sum())
                    sums["induction.conflict"].append(weights[q, candidates].sum())
                if sample.kind != "plain" or not candidates:
                    continue
                sums["induction.mass"].append(weights[q, candidates].sum())
                if source in inside and len(inside) > 1:
                    blend = 0.01 / (q + 1)
                    share = (weights[q, source] + blend) / (weights[q, inside].sum() + blend * len(inside))
                    sums["aligned.share"].append(share)
                    sums["induction.wrong"].append(1 - share)
    scores = head(found)
    assert scores.pop("induction.m").value == 1
    for name, estimate in scores.items():
        assert estimate.rows == len(sums[name]) > 0, name
        assert estimate.value == pytest.approx(np.mean(sums[name]), rel=1e-5), name


def test_a_blunt_aligned_head_stays_near_the_source_where_context_points_elsewhere() -> None:
    def blunt(relations: Relations) -> np.ndarray:
        pattern = on_source(relations)
        return (np.roll(pattern, -1, axis=2) + pattern + np.roll(pattern, 1, axis=2)) / 3

    aligned = values(feed(blunt, samples_of(alphabet=100, lengths=(30,))))
    context = values(feed(on_candidates(1), samples_of(alphabet=100, lengths=(30,))))
    assert aligned["aligned.near"] == pytest.approx(1) and aligned["aligned.conflict"] == pytest.approx(1 / 3)
    assert context["aligned.near"] < 0.2


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_blocks_do_not_matter(rows: int) -> None:
    whole, cut = feed(at_random, samples_of()), feed(at_random, samples_of(), rows=rows)
    for name, score in whole.scores.items():
        np.testing.assert_allclose(cut.scores[name].value, score.value, rtol=1e-5)
        np.testing.assert_array_equal(cut.scores[name].rows, score.rows)
    np.testing.assert_allclose(
        cut.profiles["induction.lift"], whole.profiles["induction.lift"], rtol=1e-4, atol=1e-5, equal_nan=True
    )


def test_order_of_heads_does_not_matter() -> None:
    given = feed(at_random, samples_of())
    turned = feed(lambda relations: at_random(relations)[::-1], samples_of())
    for name, score in given.scores.items():
        np.testing.assert_array_equal(turned.scores[name].value[:, ::-1], score.value)


def test_hidden_keys_are_neither_candidates_nor_chance() -> None:
    def mask(n: int) -> np.ndarray:
        return seen(n, strict=True, window=30)

    def pattern(relations: Relations) -> np.ndarray:
        return spread(mask(len(relations)))[None]

    found = head(feed(pattern, samples_of(lengths=(20,)), visible=mask))
    for name in ("aligned.mass", "induction.mass", "aligned.share", "aligned.conflict", "induction.conflict"):
        assert found[name].value == pytest.approx(found[name].chance, abs=1e-6), name
    assert found["aligned.mass"].chance == pytest.approx(1 / 30, rel=0.2)


def test_a_source_out_of_sight_is_not_measurable() -> None:
    def mask(n: int) -> np.ndarray:
        return seen(n, window=10)

    found = head(feed(evenly, samples_of(), visible=mask))
    for name in ("aligned.mass", "aligned.conflict", "aligned.share"):
        assert not found[name].measurable and found[name].rows == 0 and found[name].reason


def test_without_conflict_strings_the_reason_is_given() -> None:
    found = head(feed(on_candidates(3), samples_of(kinds=("plain",))))
    for name in ("aligned.conflict", "induction.conflict", "induction.m"):
        assert not found[name].measurable and "source is none" in found[name].reason
    assert found["aligned.share"].measurable and found["induction.mass"].value > 0.5


def test_layers_with_fewer_heads_are_not_measurable_beyond_them() -> None:
    found = construction("rope-hybrid", (20,), (*ANY, "unique-context"))
    assert all(score.value.shape == (2, 4) for score in found.scores.values())
    assert all(not score.at(1, 2).measurable for score in found.scores.values())
