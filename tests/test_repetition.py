"""Repetition measures against brute force, on strings of known repetition, and their speed."""

import time
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.repetition import ORDERS, context_lengths, repetition, sorted_contexts, survival
from models.config import TaskSettings
from models.errors import UsageError
from models.tasks import CopyTask

strings = st.integers(1, 4).flatmap(
    lambda alphabet: st.lists(st.integers(0, alphabet - 1), min_size=1, max_size=60).map(np.array)
)


def shared(string: np.ndarray, i: int, j: int) -> int:
    """Tokens before i and j that agree, one by one."""
    length = 0
    while length < min(i, j) and string[i - 1 - length] == string[j - 1 - length]:
        length += 1
    return length


def draw(distribution: str, length: int, **values: object) -> np.ndarray:
    task = CopyTask(TaskSettings(**values))
    batch = task.sample(1, torch.Generator().manual_seed(1), lengths=length, distribution=distribution)
    return batch.strings[0].numpy()


@settings(deadline=None, max_examples=150)
@given(strings)
def test_competitors_and_longest_matches_are_those_of_brute_force(string: np.ndarray) -> None:
    found, positions = repetition(string), range(len(string) + 1)
    for i in positions:
        lengths = [shared(string, i, j) for j in positions if j != i]
        assert found.longest_match[i] == max(lengths)
        counts = [sum(length >= m for length in lengths) for m in range(1, ORDERS + 1)]
        assert found.competitors[:, i].tolist() == counts
        partner = int(found.partner[i])
        assert partner == -1 if max(lengths) == 0 else shared(string, i, partner) == max(lengths)


@settings(deadline=None, max_examples=100)
@given(strings)
def test_the_longest_repeat_occurs_twice_and_nothing_longer_does(string: np.ndarray) -> None:
    found = repetition(string)
    longest, text = found.longest_repeat, string.tolist()
    if found.repeat_starts is None:
        assert len(set(text)) == len(text)
    else:
        first, second = found.repeat_starts
        assert first < second and text[first : first + longest] == text[second : second + longest]
    longer = Counter(tuple(text[i : i + longest + 1]) for i in range(len(text) - longest))
    assert max(longer.values(), default=0) <= 1


@settings(deadline=None, max_examples=100)
@given(strings)
def test_positions_are_sorted_by_their_contexts_read_backwards(string: np.ndarray) -> None:
    order, common = sorted_contexts(string)
    backwards = [string[:i][::-1].tolist() for i in order]
    assert sorted(order.tolist()) == list(range(len(string) + 1)) and backwards == sorted(backwards)
    assert common.tolist() == [shared(string, i, j) for i, j in pairwise(order)]


@settings(deadline=None, max_examples=100)
@given(strings, st.data())
def test_context_lengths_are_those_of_brute_force(string: np.ndarray, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(string)))
    longest = data.draw(st.integers(1, 10))
    expected = [min(shared(string, at, j), longest) for j in range(len(string) + 1)]
    assert context_lengths(string, at, longest).tolist() == expected


@pytest.mark.parametrize("length", [2000, 5000])
def test_long_strings_agree_with_hashed_windows(length: int) -> None:
    """Beyond 32 tokens codes are ranked anew; compared with counting whole windows."""
    string = np.tile(draw("uniform", 70), 100)[:length]
    string[:: length // 3] ^= 1
    found = repetition(string, orders=64)
    for m in (1, 16, 33, 64):
        windows = Counter(string[i - m : i].tobytes() for i in range(m, length + 1))
        expected = [0] * m + [windows[string[i - m : i].tobytes()] - 1 for i in range(m, length + 1)]
        assert found.competitors[m - 1].tolist() == expected


@settings(deadline=None, max_examples=50)
@given(strings, st.permutations(range(5)))
def test_renaming_tokens_changes_nothing(string: np.ndarray, names: list[int]) -> None:
    first, second = repetition(string, alphabet=5), repetition(np.array(names)[string], alphabet=5)
    assert first.as_dict() == second.as_dict()
    assert first.as_dict() == repetition("".join("abcde"[i] for i in string), alphabet=5).as_dict()


@settings(deadline=None, max_examples=50)
@given(strings)
def test_longer_contexts_are_never_shared_more_often(string: np.ndarray) -> None:
    found = repetition(string)
    assert (np.diff(found.competitors, axis=0) <= 0).all()
    assert (np.diff(found.repeated_share) <= 0).all() and (np.diff(found.mean_competitors) <= 0).all()


def test_unique_contexts_have_no_competitors_and_shorter_ones_do() -> None:
    found = repetition(draw("unique-context", 500, context=9))
    assert found.longest_repeat <= 8 and not found.repeated_share[8:].any() and found.repeated_share[2] > 0.9


def test_a_constant_string_is_all_repeats() -> None:
    found = repetition([0] * 50)
    assert found.longest_repeat == 49 and found.repeat_starts == (0, 1)
    assert found.competitors[0].tolist() == [0] + [49] * 50
    assert found.repeated_share[15] == pytest.approx((51 - 16) / 51)


def test_a_string_without_repeats() -> None:
    found = repetition("abcdefg")
    assert (found.longest_repeat, found.repeat_starts, found.alphabet) == (0, None, 7)
    assert not found.competitors.any() and (found.partner == -1).all()


def phrases_of(string: np.ndarray) -> int:
    """The parse of 1976 by its definition."""
    text, phrases, i = string[::-1].tolist(), 0, 0
    while i < len(text):
        length = 0
        while any(text[j : j + length + 1] == text[i : i + length + 1] for j in range(i)) and i + length < len(text):
            length += 1
        i, phrases = i + length + 1, phrases + 1
    return phrases


@settings(deadline=None, max_examples=150)
@given(strings)
def test_phrases_are_those_of_the_definition(string: np.ndarray) -> None:
    assert repetition(string).phrases == phrases_of(string)


def test_phrases_of_a_known_parse() -> None:
    """0 . 001 . 10 . 100 . 1000 . 101, the example of Lempel and Ziv; and a constant string: one token, the rest."""
    assert repetition("0001101001000101"[::-1]).phrases == 6
    assert repetition("0" * 50).phrases == 2


def test_complexity_is_one_for_random_strings_and_falls_with_repetition() -> None:
    random = repetition(draw("uniform", 2000), alphabet=2).complexity
    assert random == pytest.approx(1, abs=0.03)
    flips = (0.5, 0.2, 0.05, 0.0)
    found = [repetition(draw("repeat-structure", 2000, flip=flip), alphabet=2).complexity for flip in flips]
    assert found[0] == pytest.approx(1, abs=0.03) and found == sorted(found, reverse=True)
    assert found[1] < 0.9 and found[3] < 0.05


def test_survival_is_known_where_period_and_flip_are() -> None:
    assert survival(8, 0.1) == pytest.approx(0.9**8) == repetition("0101", period=8, flip=0.1).survival
    assert repetition("0101").survival is None and repetition("0101", period=8).survival is None


@pytest.mark.parametrize("kind", ["uniform", "zeros", "periodic", "fibonacci", "large alphabet"])
def test_a_string_of_100_000_takes_less_than_a_second(kind: str) -> None:
    length, rng = 100_000, np.random.default_rng(0)
    before, fibonacci = [0], [0, 1]
    while len(fibonacci) < length:
        before, fibonacci = fibonacci, fibonacci + before
    string = {
        "uniform": rng.integers(2, size=length),
        "zeros": np.zeros(length, np.int64),
        "periodic": np.tile(rng.integers(2, size=8), length // 8),
        "fibonacci": np.array(fibonacci[:length]),
        "large alphabet": rng.integers(50_000, size=length),
    }[kind]
    took = []
    for _ in range(2):
        start = time.process_time()  # of this process: others on the machine do not count
        repetition(string)
        took.append(time.process_time() - start)
    assert min(took) < 1


@pytest.mark.parametrize("string", ["", [], [0.5, 1.5], [[0, 1]], [[0], [0, 1]]])
def test_what_is_no_string_is_refused(string: object) -> None:
    with pytest.raises(UsageError, match="no string of tokens"):
        repetition(string)  # type: ignore[arg-type]


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="alphabet of 2"):
        repetition("012", alphabet=2)
    with pytest.raises(UsageError, match="at least 1 order"):
        repetition("012", orders=0)
