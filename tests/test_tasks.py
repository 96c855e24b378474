"""The copy task: layout, scored positions and their sources, against a token-by-token construction."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import TaskSettings
from models.distributions import DISTRIBUTIONS
from models.errors import UsageError
from models.tasks import IGNORE, CopyBatch, CopyTask, Vocabulary


def assert_same_batch(left: CopyBatch, right: CopyBatch) -> None:
    assert left.vocabulary == right.vocabulary
    for field in fields(CopyBatch):
        value, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(value, torch.Tensor):
            assert value.dtype == other.dtype, field.name
            assert value.tolist() == other.tolist(), field.name


@st.composite
def tasks_and_strings(draw: st.DrawFn) -> tuple[CopyTask, list[list[int]]]:
    alphabet = draw(st.integers(2, 12))
    settings = TaskSettings(
        a=draw(st.integers(1, 5)),
        b=draw(st.integers(1, 5)),
        alphabet=alphabet,
        separator=draw(st.sampled_from(["\n", "*"])),
    )
    string = st.lists(st.integers(0, alphabet - 1), min_size=1, max_size=12)
    return CopyTask(settings), draw(st.lists(string, min_size=1, max_size=5))


def slow_row(settings: TaskSettings, string: Sequence[int]) -> dict[str, list]:
    """One string laid out token by token: what each position holds, must predict, and copies from."""
    first_a, first_b = settings.alphabet, settings.alphabet + settings.a
    eos = settings.alphabet + settings.a + settings.b
    tokens: list[int] = []
    anchors: list[int] = []
    source_of_copy: list[int] = []
    for i in range(settings.a):
        anchors.append(len(tokens))
        tokens.append(first_a + i)
    for token in string:
        source_of_copy.append(len(tokens))
        tokens.append(token)
    source_of_copy.append(len(tokens))  # B1, the source of EOS
    for i in range(settings.b):
        anchors.append(len(tokens))
        tokens.append(first_b + i)
    targets = [IGNORE] * (len(tokens) - 1)
    sources = [-1] * (len(tokens) - 1)
    for answer, source in zip([*string, eos], source_of_copy, strict=True):
        targets.append(answer)  # predicted at the position before the one it is written to
        sources.append(source)
        tokens.append(answer)
    tokens.pop()  # EOS is never an input
    return {"tokens": tokens, "targets": targets, "source_position": sources, "anchor_positions": anchors}


@given(tasks_and_strings())
@settings(deadline=None)
def test_layout_equals_the_slow_construction(case: tuple[CopyTask, list[list[int]]]) -> None:
    task, strings = case
    batch = task.encode(strings)
    width = task.settings.a + task.settings.b + 2 * max(map(len, strings))
    assert batch.tokens.shape == batch.targets.shape == batch.pad_mask.shape == (len(strings), width)
    fills = {"tokens": batch.vocabulary.pad, "targets": IGNORE, "source_position": -1}
    for row, string in enumerate(strings):
        expected = slow_row(task.settings, string)
        used = len(expected["tokens"])
        for name, fill in fills.items():
            assert getattr(batch, name)[row].tolist() == expected[name] + [fill] * (width - used), name
        assert batch.anchor_positions[row].tolist() == expected["anchor_positions"]
        assert batch.pad_mask[row].tolist() == [False] * used + [True] * (width - used)
        assert batch.loss_mask[row].tolist() == [t != IGNORE for t in batch.targets[row].tolist()]
        assert batch.lengths[row] == len(string)
        assert batch.strings[row, : len(string)].tolist() == string
        assert set(batch.strings[row, len(string) :].tolist()) <= {batch.vocabulary.pad}


@given(tasks_and_strings())
@settings(deadline=None)
def test_every_scored_position_predicts_the_token_at_its_source(case: tuple[CopyTask, list[list[int]]]) -> None:
    task, strings = case
    batch = task.encode(strings)
    vocabulary = batch.vocabulary
    rows, positions = batch.loss_mask.nonzero(as_tuple=True)
    at_source = batch.tokens[rows, batch.source_position[rows, positions]]
    answers = batch.targets[rows, positions]
    ends = answers == vocabulary.eos
    assert torch.equal(at_source[~ends], answers[~ends])
    assert (at_source[ends] == vocabulary.delimiter[0]).all()
    assert ends.sum() == len(strings)  # one EOS a string
    assert batch.loss_mask.sum() == sum(len(s) + 1 for s in strings)
    assert not (batch.loss_mask & batch.pad_mask).any()


@given(tasks_and_strings())
@settings(deadline=None)
def test_scored_rows_are_the_loss_mask(case: tuple[CopyTask, list[list[int]]]) -> None:
    task, strings = case
    batch = task.encode(strings)
    positions, exists = batch.scored_rows
    for row in range(len(batch)):
        assert positions[row][exists[row]].tolist() == batch.loss_mask[row].nonzero()[:, 0].tolist()
        assert (positions[row][~exists[row]] == positions[row][exists[row]][-1]).all()


@given(tasks_and_strings(), st.data())
@settings(deadline=None)
def test_a_selection_equals_encoding_only_those_strings(
    case: tuple[CopyTask, list[list[int]]], data: st.DataObject
) -> None:
    task, strings = case
    rows = data.draw(st.lists(st.integers(-len(strings), len(strings) - 1), min_size=1, max_size=6))
    assert_same_batch(task.encode(strings).select(rows), task.encode([strings[row] for row in rows]))


def test_a_boolean_mask_selects_the_true_rows() -> None:
    task = CopyTask(TaskSettings())
    strings = ["0", "0110", "11"]
    batch = task.encode(strings)
    assert_same_batch(batch.select(batch.lengths < 4), task.encode(["0", "11"]))


@pytest.mark.parametrize(
    "rows", [[], [2], [-3], torch.zeros(2, dtype=torch.bool), torch.ones(3, dtype=torch.bool)], ids=repr
)
def test_an_impossible_selection_is_refused(rows: Sequence[int]) -> None:
    with pytest.raises(UsageError):
        CopyTask(TaskSettings()).encode(["0", "11"]).select(rows)


@given(a=st.integers(1, 6), b=st.integers(1, 6), string=st.lists(st.integers(0, 1), min_size=1, max_size=9))
@settings(deadline=None)
def test_query_positions_follow_the_formulas_of_the_paper(a: int, b: int, string: list[int]) -> None:
    batch = CopyTask(TaskSettings(a=a, b=b)).encode([string])
    n = len(string)
    queries = batch.loss_mask[0].nonzero()[:, 0]
    assert queries.tolist() == [a + n + b - 1 + k for k in range(n + 1)]
    assert batch.source_position[0][queries].tolist() == [a + k for k in range(n + 1)]


@pytest.mark.parametrize("distribution", list(DISTRIBUTIONS))
def test_the_same_seed_gives_the_same_batch_and_another_seed_another(distribution: str) -> None:
    task = CopyTask(TaskSettings(distribution=distribution, lengths=(10, 60)))
    draws = [task.sample(8, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert_same_batch(draws[0], draws[1])
    assert draws[0].tokens.tolist() != draws[2].tokens.tolist()


def test_a_sample_ignores_the_global_generator_and_advances_its_own() -> None:
    task = CopyTask(TaskSettings(lengths=(20, 20)))
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    first, second = task.sample(4, generator), task.sample(4, generator)
    torch.manual_seed(2)
    assert_same_batch(first, task.sample(4, torch.Generator().manual_seed(0)))
    assert first.tokens.tolist() != second.tokens.tolist()


@pytest.mark.parametrize("lengths", [3, (3, 3), (1, 9), [2, 5], np.int64(4)])
def test_lengths_are_drawn_from_the_whole_range_and_nowhere_else(lengths: Any) -> None:
    task = CopyTask(TaskSettings(lengths=(50, 60)))
    low, high = lengths if isinstance(lengths, tuple | list) else (lengths, lengths)
    batch = task.sample(300, torch.Generator().manual_seed(0), lengths=lengths)
    assert set(batch.lengths.tolist()) == set(range(low, high + 1))
    rebuilt = task.encode([row[:n].tolist() for row, n in zip(batch.strings, batch.lengths, strict=True)])
    assert_same_batch(batch, rebuilt)


def test_the_settings_decide_where_nothing_else_is_asked_for() -> None:
    task = CopyTask(TaskSettings(lengths=(7, 7), distribution="imbalanced", probabilities=(1.0,)))
    generator = torch.Generator().manual_seed(0)
    assert task.sample(3, generator).strings.tolist() == [[0] * 7] * 3
    assert 1 in task.sample(3, generator, distribution="uniform").strings


def test_printable_names() -> None:
    task = CopyTask(TaskSettings(a=2, b=3, alphabet=12))
    batch = task.encode([[11, 0], [3]])
    assert batch.token_names(0) == ["A1", "A2", "11", "0", "⏎", "B2", "B3", "11", "0"]
    assert batch.token_names(1) == ["A1", "A2", "3", "⏎", "B2", "B3", "3"]
    assert batch.vocabulary.names[batch.vocabulary.eos] == "EOS"
    starred = CopyTask(TaskSettings(a=1, b=1, separator="*")).encode(["1"])
    assert starred.token_names(0) == ["A1", "1", "*", "1"]


@given(alphabet=st.integers(2, 30), a=st.integers(1, 9), b=st.integers(1, 9), separator=st.sampled_from("\n*"))
@settings(deadline=None)
def test_a_vocabulary_names_every_id_once(alphabet: int, a: int, b: int, separator: str) -> None:
    vocabulary = Vocabulary(alphabet, a, b, separator)
    ids = [*range(alphabet), *vocabulary.prefix, *vocabulary.delimiter, vocabulary.eos, vocabulary.pad]
    assert ids == list(range(len(vocabulary)))
    assert len(vocabulary.names) == len(set(vocabulary.names)) == len(vocabulary)
    assert vocabulary.newline == (vocabulary.delimiter[0] if separator == "\n" else None)


def test_moving_a_batch_moves_every_tensor() -> None:
    moved = CopyTask(TaskSettings()).encode(["01", "1"]).to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 8
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize(
    "strings", ["0101", [], [""], [[]], ["012"], ["0 1"], [[0, 2]], [[-1]], [[0.5]], [[None]], [3]], ids=repr
)
def test_strings_that_cannot_be_copied_are_refused(strings: list) -> None:
    with pytest.raises(UsageError):
        CopyTask(TaskSettings()).encode(strings)


def test_the_message_shows_the_string_and_the_alphabet() -> None:
    with pytest.raises(UsageError, match=r"cannot copy '013'.*0 to 2"):
        CopyTask(TaskSettings(alphabet=3)).encode(["01", "013"])


@pytest.mark.parametrize("lengths", [0, -1, (0, 3), (5, 4), (1,), (1, 2, 3), 2.5, "12", (1, None)], ids=repr)
def test_impossible_lengths_are_refused(lengths: int) -> None:
    with pytest.raises(UsageError, match="impossible"):
        CopyTask(TaskSettings()).sample(2, torch.Generator(), lengths=lengths)


def test_a_sample_of_nothing_or_from_nowhere_is_refused() -> None:
    task = CopyTask(TaskSettings())
    with pytest.raises(UsageError, match="0 strings"):
        task.sample(0, torch.Generator())
    with pytest.raises(UsageError, match="Did you mean 'uniform'"):
        task.sample(1, torch.Generator(), distribution="unifrm")


def test_a_selection_by_fractions_is_refused() -> None:
    batch = CopyTask(TaskSettings()).encode(["01", "1"])
    with pytest.raises(UsageError, match="no indices of strings"):
        batch.select([0.7])  # type: ignore[list-item]
