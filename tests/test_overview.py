"""Pyramids of long patterns: views from them equal the maximum over the exact cells they cover."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.attention import CapturedString, open_capture
from models.capture import capture_strings
from models.config import ModelSettings, TaskSettings
from models.errors import UsageError
from models.overview import build_overview, ensure_overview, load_overview, overview_path, view
from models.tasks import CopyTask
from models.transformer import CopyTransformer


@pytest.fixture
def small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pyramids of 32, 16 and 8 bins, so that 200 tokens count as long."""
    monkeypatch.setattr("models.overview.LEVELS", (32, 16, 8))
    monkeypatch.setattr("models.overview.LONG", 32)


@pytest.fixture
def string(tmp_path: Path) -> CapturedString:
    settings_ = {"heads": [2], "d_model": 16, "d_head": 8, "init_std": 0.4, "positions": "rope2d"}
    task = CopyTask(TaskSettings())
    model = CopyTransformer(ModelSettings.model_validate(settings_), task.vocabulary, seed=2)
    capture_strings(
        model, task.sample(1, torch.Generator().manual_seed(0), lengths=97), tmp_path / "one", {"id": "one"}
    )
    return open_capture(tmp_path / "one").string(0)


@pytest.mark.usefixtures("small_levels")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_view_is_the_maximum_over_the_cells_it_says_it_covers(string: CapturedString, data: st.DataObject) -> None:
    n = len(string.tokens)
    dense = string.head(0, 1).tile(slice(0, n), slice(0, n))
    rows = sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))
    cols = sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))
    out = data.draw(st.integers(1, 64))
    seen = view(string, 0, 1, slice(*rows), slice(*cols), out)
    assert max(seen.values.shape) <= out
    assert seen.row_edges[0] <= rows[0] and seen.row_edges[-1] >= rows[1]
    assert seen.col_edges[0] <= cols[0] and seen.col_edges[-1] >= cols[1]
    for r in range(len(seen.values)):
        for c in range(seen.values.shape[1]):
            cells = dense[seen.row_edges[r] : seen.row_edges[r + 1], seen.col_edges[c] : seen.col_edges[c + 1]]
            assert seen.values[r, c] == pytest.approx(cells.max(), abs=1e-6)


@pytest.mark.usefixtures("small_levels")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_narrow_side_comes_out_cell_by_cell_however_long_the_other_is(
    string: CapturedString, data: st.DataObject
) -> None:
    n = len(string.tokens)
    out = data.draw(st.integers(1, 64))
    size = data.draw(st.integers(1, out))
    first = data.draw(st.integers(0, n - size))
    begin, end = sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))
    narrow, long = slice(first, first + size), slice(begin, end)
    for rows, cols in ((narrow, long), (long, narrow)):
        seen = view(string, 0, 1, rows, cols, out)
        edges, others = (seen.row_edges, seen.col_edges) if rows is narrow else (seen.col_edges, seen.row_edges)
        assert edges.tolist() == list(range(first, first + size + 1))
        assert (others[0], others[-1]) == (begin, end)
        tile = string.head(0, 1).tile(rows, cols)
        exact = np.maximum.reduceat(tile, others[:-1] - begin, axis=int(rows is narrow))
        assert seen.values == pytest.approx(exact, abs=1e-6)


@pytest.mark.usefixtures("small_levels")
def test_a_pyramid_is_computed_once_and_a_damaged_one_again(string: CapturedString) -> None:
    assert load_overview(string, 0, 0) is None
    shares: list[float] = []
    built = ensure_overview(string, 0, 0, shares.append)
    assert shares[-1] == pytest.approx(1.0)
    kept = load_overview(string, 0, 0)
    assert kept is not None and kept.widths == built.widths
    assert all(np.array_equal(a, b) for a, b in zip(kept.levels, built.levels, strict=True))
    again: list[float] = []
    ensure_overview(string, 0, 0, again.append)
    assert again == []
    path = overview_path(string, 0, 0)
    path.write_bytes(path.read_bytes()[:100])
    assert load_overview(string, 0, 0) is None
    ensure_overview(string, 0, 0)
    assert load_overview(string, 0, 0) is not None
    assert not [p for p in path.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.usefixtures("small_levels")
def test_every_level_is_the_whole_pattern(string: CapturedString) -> None:
    overview = build_overview(string.head(0, 0))
    n = len(string.tokens)
    dense = string.head(0, 0).tile(slice(0, n), slice(0, n))
    for level, width in zip(overview.levels, overview.widths, strict=True):
        assert level.shape == (-(-n // width),) * 2
        assert level[-1].max() == pytest.approx(dense[(len(level) - 1) * width :].max(), abs=1e-6)
        assert level.max() == pytest.approx(dense.max(), abs=1e-6)


def test_wrong_views_are_named(string: CapturedString) -> None:
    for request, message in (
        (lambda: view(string, 0, 0, out=0), "at least 1"),
        (lambda: view(string, 0, 9), "no head 9"),
        (lambda: view(string, 0, 0, rows=slice(500, 600)), "hold no position"),
    ):
        with pytest.raises(UsageError, match=message):
            request()
