"""Look-back, sink, self, duplicate and entropy: on hand-built heads, on ideal patterns, and against plain loops."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from analyses.estimates import Estimate
from analyses.measures.base import MEASURES
from analyses.measures.offsets import Offsets
from analyses.passes import Measured, ReadString, read_all
from analyses.relations import Relations
from analyses.samples import Sample, draw_samples
from models.blockwise import RowBlock
from models.config import TaskSettings
from models.constructions import CONSTRUCTIONS
from models.constructions.base import ANY
from models.tasks import CopyTask

Pattern = Callable[[Relations], np.ndarray]  # weights [H, T, T] of one layer


@cache
def samples_of(
    lengths: tuple[int, ...] = (20, 40), kinds: tuple[str, ...] = ("plain",), alphabet: int = 2
) -> tuple[Sample, ...]:
    task = CopyTask(TaskSettings(alphabet=alphabet))
    return draw_samples(task, lengths=lengths, distributions=("uniform",), strings=6, seed=0, kinds=kinds)


def seen(n_tokens: int, strict: bool = False) -> np.ndarray:
    return np.tril(np.ones((n_tokens, n_tokens), bool), -int(strict))


def feed(pattern: Pattern, samples: tuple[Sample, ...], *, rows: int = 1000, strict: bool = False) -> Measured:
    """Measure heads whose pattern is a function of the string."""
    measure = Offsets((pattern(next(samples[0].strings())[1]).shape[0],))
    strings = [(sample, relations) for sample in samples for _, relations in sample.strings()]
    for key, (sample, relations) in enumerate(strings):
        n = len(relations)
        weights = pattern(relations).astype(np.float32)
        scores = np.where(seen(n, strict), np.float32(0), -np.inf) + np.zeros_like(weights)
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


def back(offset: Callable[[Relations], int]) -> Pattern:
    """All mass on one diagonal, the first token where it is not there."""

    def pattern(relations: Relations) -> np.ndarray:
        return spread(np.eye(len(relations), k=-offset(relations), dtype=bool))[None]

    return pattern


def at_random(relations: Relations) -> np.ndarray:
    weights = np.random.default_rng(int(relations.tokens.sum())).random((2, len(relations), len(relations)))
    weights *= seen(len(relations))
    return weights / weights.sum(-1, keepdims=True)


def head(measured: Measured, layer: int = 0, index: int = 0) -> dict[str, Estimate]:
    return {name: score.at(layer, index) for name, score in measured.scores.items()}


# ------------------------------------------------------------------ hand-built models


@cache
def construction(name: str, lengths: tuple[int, ...]) -> Measured:
    entry = CONSTRUCTIONS[name]
    samples = draw_samples(
        CopyTask(entry.task),
        lengths=lengths,
        distributions=entry.distributions,
        strings=4,
        seed=1,
        kinds=("plain",),
    )
    measure = MEASURES["offsets"](entry.model.heads)
    read_all(entry.build(), samples, [measure])
    return measure.measured(0)


LENGTHS = [(20,), (100,), (20, 60)]
SCORED = {"lookback": "lookback.mass", "sink": "sink.mass", "self": "self.mass", "duplicate": "duplicate.lift"}


def dominant(found: dict[str, Estimate]) -> dict[str, float]:
    return {role: found[score].value for role, score in SCORED.items() if found[score].measurable}


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    ("name", "at", "k"),
    [
        ("look-back", (0, 0), 3),
        ("alibi-previous", (0, 0), 1),
        ("induction", (0, 0), 1),
        ("induction-3", (0, 1), 2),
        ("rope-hybrid", (0, 3), 3),
    ],
)
def test_look_back_heads_have_their_offset(name: str, at: tuple[int, int], k: int, lengths: tuple[int, ...]) -> None:
    found = head(construction(name, lengths), *at)
    assert found["lookback.k"].value == k and found["lookback.k"].interval == (k, k)
    assert found["lookback.mass"].value > 0.95 and found["lookback.mass"].chance < 0.1
    assert max(value for role, value in dominant(found).items() if role != "lookback") < 0.2


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("role", ["sink", "self", "duplicate"])
def test_other_heads_have_their_role_and_no_other(role: str, lengths: tuple[int, ...]) -> None:
    found = head(construction(role, lengths))
    scores = dominant(found)
    assert scores.pop(role) > 0.99 and max(scores.values()) < 0.2
    assert found[f"{role}.mass"].value > 0.99 and found[f"{role}.mass"].chance < 0.5


@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_uniform_head_is_at_chance(lengths: tuple[int, ...]) -> None:
    found = head(construction("uniform", lengths))
    assert found["entropy"].value == pytest.approx(1, abs=1e-5)
    for name in ("lookback.mass", "sink.mass", "self.mass", "duplicate.mass", "duplicate.lift"):
        estimate = found[name]
        assert estimate.value == pytest.approx(estimate.chance, abs=1e-5), name
        assert estimate.interval[0] - 1e-5 <= estimate.chance <= estimate.interval[1] + 1e-5


@pytest.mark.parametrize("lengths", [(10,), (12,), (20,)])
@pytest.mark.parametrize(
    ("name", "at"),
    [("rope2d-aligned", (0, 0)), ("rope-locator", (0, 0)), ("rope-locator", (1, 0)), ("duplicate", (0, 0))],
)
def test_copying_heads_do_not_look_back_even_at_a_single_length(
    name: str, at: tuple[int, int], lengths: tuple[int, ...]
) -> None:
    """With n = 10 the source lies 13, its token's first occurrence 14 back: inside the offsets that are looked at."""
    assert head(construction(name, lengths), *at)["lookback.mass"].value < 0.15


@pytest.mark.parametrize(("name", "at", "score"), [("rope2d-aligned", (0, 0), "self"), ("rope-hybrid", (1, 0), "sink")])
def test_a_head_that_rests_while_it_reads_the_source_is_no_sink(name: str, at: tuple[int, int], score: str) -> None:
    """Half of all rows have their mass there, those of the source."""
    assert head(construction(name, (20, 60)), *at)[f"{score}.mass"].value < 0.01


# ------------------------------------------------------------------ heads that are given by their pattern


@pytest.mark.parametrize("k", [1, 2, 7, 16])
def test_a_fixed_diagonal_is_found_at_every_offset(k: int) -> None:
    found = feed(back(lambda relations: k), samples_of())
    scores = head(found)
    assert scores["lookback.k"].value == k and scores["lookback.mass"].value == 1
    assert found.profiles["lookback"].shape == (1, 1, 16)
    assert found.profiles["lookback"][0, 0].argmax() == k - 1


def test_a_diagonal_that_depends_on_the_length_passes_at_one_length_and_not_over_several() -> None:
    pattern = back(lambda relations: relations.n // 4)
    for length in (20, 40):
        single = head(feed(pattern, samples_of(lengths=(length,))))
        assert single["lookback.k"].value == length // 4 and single["lookback.mass"].value == 1
    assert head(feed(pattern, samples_of(lengths=(20, 40))))["lookback.mass"].value == 0


def test_the_offset_is_scored_on_strings_that_did_not_choose_it() -> None:
    found = head(feed(at_random, samples_of()))
    assert found["lookback.mass"].value == pytest.approx(found["lookback.mass"].chance, abs=0.01)


@pytest.mark.parametrize("alphabet", [2, 5])
def test_the_lift_of_duplicates_is_nothing_for_even_attention_and_one_at_best(alphabet: int) -> None:
    def even(relations: Relations) -> np.ndarray:
        return spread(seen(len(relations)))[None]

    def same(relations: Relations) -> np.ndarray:
        keys = (relations.tokens[:, None] == relations.tokens) & seen(len(relations), strict=True)
        return spread(keys)[None]

    nothing, all_of_it = (head(feed(pattern, samples_of(alphabet=alphabet))) for pattern in (even, same))
    assert nothing["duplicate.lift"].value == pytest.approx(0, abs=1e-6)
    assert nothing["duplicate.mass"].value == pytest.approx(1 / alphabet, rel=0.35)
    assert all_of_it["duplicate.lift"].value == pytest.approx(1) == all_of_it["duplicate.mass"].value
    assert all_of_it["duplicate.lift"].rows == all_of_it["duplicate.mass"].rows > 100


def test_scores_are_what_their_formulas_say() -> None:
    """Row by row, in plain loops; at one length, where nothing is taken over lengths."""
    samples = samples_of(lengths=(20,))
    found = head(feed(at_random, samples))
    k = int(found["lookback.k"].value)
    sums: dict[str, list[float]] = {}
    for key, (_, relations) in enumerate(samples[0].strings()):
        weights, tokens = at_random(relations)[0], relations.tokens.tolist()
        first_copied = relations.a + relations.n + relations.b
        for segment, rows, begins in (
            ("source", relations.source_rows, relations.a),
            ("copy", relations.copy_rows, first_copied),
        ):
            for q in rows:
                row = weights[q, : q + 1]
                if q - k >= begins and key % 2 == 1:
                    sums.setdefault("lookback.mass", []).append(row[q - k])
                sums.setdefault(f"sink.mass {segment}", []).append(row[0])
                sums.setdefault(f"self.mass {segment}", []).append(row[q])
                entropy = -sum(w * math.log(w) for w in row if w > 0) / math.log(q + 1)
                sums.setdefault("entropy", []).append(entropy)
                earlier = [j for j in range(q) if tokens[j] == tokens[q]]
                if earlier:
                    sums.setdefault("duplicate.mass", []).append(row[earlier].sum())
    for name in ("lookback.mass", "entropy", "duplicate.mass"):
        assert found[name].value == pytest.approx(np.mean(sums[name]), rel=1e-5), name
        assert found[name].rows == len(sums[name]), name
    for name in ("sink.mass", "self.mass"):
        segments = [sums[f"{name} source"], sums[f"{name} copy"]]
        assert any(found[name].value == pytest.approx(np.mean(part), rel=1e-5) for part in segments)
        assert found[name].rows == sum(map(len, segments))


@pytest.mark.parametrize("rows", [1, 7, 32])
def test_blocks_do_not_matter(rows: int) -> None:
    whole, cut = feed(at_random, samples_of()), feed(at_random, samples_of(), rows=rows)
    for name, score in whole.scores.items():
        np.testing.assert_allclose(cut.scores[name].value, score.value, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(cut.scores[name].rows, score.rows)


def test_order_of_heads_does_not_matter() -> None:
    given = feed(at_random, samples_of())
    turned = feed(lambda relations: at_random(relations)[::-1], samples_of())
    for name, score in given.scores.items():
        np.testing.assert_allclose(turned.scores[name].value[:, ::-1], score.value, rtol=1e-6)


def test_a_strict_mask_leaves_self_unmeasurable_and_says_so() -> None:
    found = head(feed(lambda r: spread(seen(len(r), strict=True))[None], samples_of(), strict=True))
    assert not found["self.mass"].measurable and "strict" in found["self.mass"].reason
    assert found["entropy"].value == pytest.approx(1, abs=1e-5)
    assert found["sink.mass"].value == pytest.approx(found["sink.mass"].chance, abs=1e-6)


def test_conflict_strings_take_no_part() -> None:
    plain = feed(at_random, samples_of(lengths=(40,)))
    found = feed(at_random, samples_of(lengths=(40,), kinds=("plain", "corrupted")))
    for name, score in plain.scores.items():
        np.testing.assert_array_equal(found.scores[name].rows, score.rows)
    nothing = head(feed(at_random, samples_of(lengths=(40,), kinds=("corrupted",))))
    assert all(not estimate.measurable and estimate.reason for estimate in nothing.values())


def test_layers_with_fewer_heads_are_not_measurable_beyond_them() -> None:
    found = construction("rope-hybrid", (20,))
    assert set(ANY) < set(CONSTRUCTIONS["rope-hybrid"].distributions)
    assert all(score.value.shape == (2, 4) for score in found.scores.values())
    assert all(not score.at(1, 2).measurable for score in found.scores.values())
