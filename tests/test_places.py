"""Where tokens stand: index, row and column, with line breaks and padding anywhere."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.config import TaskSettings
from models.positions import Places
from models.tasks import CopyTask

BREAK, PAD = 7, 8


def tokens_of(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.long)


def slow_places(tokens: Sequence[int], newline: int | None) -> list[tuple[int, int, int]]:
    """(index, row, column) of every token, one at a time."""
    row = column = 0
    stands = []
    for index, token in enumerate(tokens):
        stands.append((index, row, column))
        row, column = (row + 1, 0) if token == newline else (row, column + 1)
    return stands


@pytest.mark.parametrize(
    ("tokens", "rows", "columns"),
    [
        ([0, 0, 0], [0, 0, 0], [0, 1, 2]),  # none
        ([BREAK, 0, 0], [0, 1, 1], [0, 0, 1]),  # the first token
        ([BREAK], [0], [0]),  # nothing else
        ([0, BREAK, BREAK, 0], [0, 0, 1, 2], [0, 1, 0, 0]),  # two in a row: an empty row between
        ([BREAK, BREAK, BREAK], [0, 1, 2], [0, 0, 0]),
        ([0, 0, BREAK], [0, 0, 0], [0, 1, 2]),  # the last token is still on its row
        ([0, BREAK, 0, 0, BREAK, 0], [0, 0, 1, 1, 1, 2], [0, 1, 0, 1, 2, 0]),
    ],
)
def test_a_row_starts_after_a_line_break(tokens: list[int], rows: list[int], columns: list[int]) -> None:
    places = Places(tokens_of([tokens]), newline=BREAK)
    assert places.row_column[0].T.tolist() == [rows, columns]


@given(st.lists(st.sampled_from([0, 1, BREAK]), min_size=1, max_size=40), st.sampled_from([None, BREAK]))
@settings(deadline=None)
def test_places_equal_the_slow_walk(tokens: list[int], newline: int | None) -> None:
    places = Places(tokens_of([tokens]), newline=newline)
    index, rows, columns = zip(*slow_places(tokens, newline), strict=True)
    assert places.index.expand(1, len(tokens)).tolist() == [list(index)]
    assert places.row_column[0].T.tolist() == [list(rows), list(columns)]


padded_strings = st.lists(
    st.tuples(st.lists(st.sampled_from([0, 1, BREAK]), min_size=1, max_size=12), st.integers(0, 3)),
    min_size=1,
    max_size=4,
)


def pad_each(strings: list[tuple[list[int], int]], left: bool, pad: int) -> tuple[Tensor, Tensor]:
    """Tokens and pad mask; each string is padded on one side to the longest of string + its extra pads."""
    width = max(len(string) + extra for string, extra in strings)
    tokens, masks = [], []
    for string, _ in strings:
        fill = width - len(string)
        tokens.append([pad] * fill + string if left else string + [pad] * fill)
        masks.append([True] * fill + [False] * len(string) if left else [False] * len(string) + [True] * fill)
    return tokens_of(tokens), torch.tensor(masks)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("pad", [PAD, BREAK])  # a pad that looks like a line break starts no row
@given(strings=padded_strings)
@settings(deadline=None)
def test_padding_takes_no_place(left: bool, pad: int, strings: list[tuple[list[int], int]]) -> None:
    tokens, mask = pad_each(strings, left, pad)
    places = Places(tokens, mask, newline=BREAK)
    for row, (string, _) in enumerate(strings):
        index, rows, columns = zip(*slow_places(string, BREAK), strict=True)
        real = ~mask[row]
        assert places.index[row][real].tolist() == list(index)
        assert places.row_column[row][real].T.tolist() == [list(rows), list(columns)]
    coordinates = torch.cat([places.index[..., None], places.row_column], dim=-1)
    assert coordinates.min() >= 0  # pads too: whole numbers below T, as tables need
    assert coordinates.max() < tokens.shape[1]


@given(a=st.integers(1, 6), b=st.integers(1, 6), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3))
@settings(deadline=None)
def test_the_column_offset_of_the_copy_task_is_a_minus_b_plus_2(a: int, b: int, lengths: list[int]) -> None:
    batch = CopyTask(TaskSettings(a=a, b=b)).encode([[0] * n for n in lengths])
    stands = Places(batch.tokens, batch.pad_mask, batch.vocabulary.newline).row_column
    strings, queries = batch.loss_mask.nonzero(as_tuple=True)
    query, source = stands[strings, queries], stands[strings, batch.source_position[strings, queries]]
    columns = source[:, 1] - query[:, 1]
    row_steps = query[:, 0] - source[:, 0]
    # With b = 1 the query for the first copied token is B1 itself, still at the end of row 0.
    at_break = queries == a + batch.lengths[strings]
    assert at_break.any() == (b == 1)
    assert columns[~at_break].eq(a - b + 2).all()
    assert row_steps[~at_break].eq(1).all()
    assert row_steps[at_break].eq(0).all()


def test_another_separator_starts_no_row() -> None:
    batch = CopyTask(TaskSettings(separator="*")).encode(["0110"])
    stands = Places(batch.tokens, batch.pad_mask, batch.vocabulary.newline).row_column[0]
    assert stands.T.tolist() == [[0] * 14, list(range(14))]
