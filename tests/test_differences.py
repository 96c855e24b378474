"""Patterns subtracted cell by cell, and the range of their colours."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.attention import HeadPattern, LayerRule
from models.errors import WorkbenchError
from workbench.differences import Difference, subtract, subtract_maxima
from workbench.figures.difference import reach_of


def pattern(seed: int, length: int) -> HeadPattern:
    rng = np.random.default_rng(seed)
    q, k = (rng.normal(0, 1.5, (length, 8)).astype(np.float32) for _ in range(2))
    scores = np.where(np.tril(np.ones((length, length), bool)), q @ k.T, -np.inf)
    top = scores.max(axis=1)
    lse = (top + np.log(np.exp(scores - top[:, None]).sum(axis=1))).astype(np.float32)
    return HeadPattern(q, k, lse, LayerRule("rope", 1.0))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 330), st.integers(1, 40), st.data())
def test_a_difference_is_that_of_the_dense_patterns(length: int, bins: int, draw: st.DataObject) -> None:
    """Every cell holds the difference furthest from zero of its block; rows give half the absolute sum, exactly."""
    top, left = (draw.draw(st.integers(0, length - 1)) for _ in range(2))
    bottom, right = (draw.draw(st.integers(at + 1, length)) for at in (top, left))
    one, other = pattern(1, length), pattern(2, length)
    whole = slice(0, length)
    dense = one.tile(whole, whole) - other.tile(whole, whole)
    found = subtract(one, other, slice(top, bottom), slice(left, right), bins)
    assert found.moved == pytest.approx(np.abs(dense[top:bottom]).sum(axis=1) / 2, abs=1e-4)
    assert not found.of_maxima
    for row, (first, last) in enumerate(zip(found.row_edges[:-1], found.row_edges[1:], strict=True)):
        for col, (begin, end) in enumerate(zip(found.col_edges[:-1], found.col_edges[1:], strict=True)):
            block = dense[first:last, begin:end]
            if begin > last - 1:
                assert np.isnan(found.values[row, col])
            else:
                assert abs(found.values[row, col]) == pytest.approx(np.abs(block).max(), abs=1e-5)


def test_swapped_patterns_give_the_opposite_difference() -> None:
    one, other = pattern(1, 300), pattern(2, 300)
    there = subtract(one, other, slice(0, 300), slice(0, 300), 60)
    back = subtract(other, one, slice(0, 300), slice(0, 300), 60)
    assert np.nan_to_num(there.values) == pytest.approx(-np.nan_to_num(back.values), abs=1e-5)
    assert there.moved == pytest.approx(back.moved, abs=1e-4)
    same = subtract(one, one, slice(0, 300), slice(0, 300), 60)
    assert not np.nan_to_num(same.values).any() and not same.moved.any()  # type: ignore[union-attr]


def test_maxima_of_other_cells_are_not_subtracted() -> None:
    one, other = pattern(1, 40), pattern(2, 40)
    found = subtract_maxima(one.pooled(out=10), other.pooled(out=10))
    assert found.of_maxima and found.moved is None
    with pytest.raises(WorkbenchError, match="zoom in"):
        subtract_maxima(one.pooled(out=10), other.pooled(out=8))


@pytest.mark.parametrize("largest", [0.0, 0.004, 0.3, 1.0])
def test_a_colour_range_holds_every_difference(largest: float) -> None:
    found = Difference(np.array([[largest, -largest / 2]], np.float32), np.arange(2), np.arange(3), None)
    assert largest <= reach_of(found) <= 1
