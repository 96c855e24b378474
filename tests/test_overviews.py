"""Overviews in the background: computed once however many ask, kept, and never in the way of an answer."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from models.attention import CapturedString, open_capture
from models.errors import UsageError, WorkbenchError
from models.overview import Overview, build_overview, ensure_overview, load_overview, overview_path
from tests import fake_store
from workbench.dashboard import data as data_module
from workbench.dashboard import overviews as module
from workbench.dashboard.data import Data
from workbench.dashboard.overviews import Overviews, Pending
from workbench.runs import Store


@pytest.fixture
def string(tmp_path: Path) -> CapturedString:
    run = tmp_path / fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2])
    return open_capture(fake_store.add_capture(run, ["rope"], [2], n=300, strings=1)).string(0)


class Slow:
    """`ensure_overview` that waits to be let go, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.go = 0, threading.Event()
        monkeypatch.setattr(module, "ensure_overview", self)
        monkeypatch.setattr(module, "_PATIENCE", 0.01)

    def __call__(self, string: CapturedString, layer: int, head: int, progress: object = None) -> Overview:
        self.calls += 1
        progress(0.25)  # type: ignore[operator]
        assert self.go.wait(10)
        return ensure_overview(string, layer, head)


def wait_for(overviews: Overviews, string: CapturedString) -> Overview:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            return overviews.get("stamp", string, 0, 0)
        except Pending:
            time.sleep(0.01)
    pytest.fail("never done")


def test_many_tabs_that_ask_at_once_compute_it_once(string: CapturedString, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, overviews = Slow(monkeypatch), Overviews()
    shares: list[float] = []

    def ask() -> None:
        with pytest.raises(Pending) as pending:
            overviews.get("stamp", string, 0, 0)
        shares.append(pending.value.share)

    tabs = [threading.Thread(target=ask) for _ in range(8)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert slow.calls == 1
    assert set(shares) <= {0.0, 0.25}
    assert overviews.share("stamp", string, 0, 0) == 0.25
    slow.go.set()
    overview = wait_for(overviews, string)
    assert slow.calls == 1
    assert overviews.share("stamp", string, 0, 0) is None
    assert overviews.has("stamp", string, 0, 0)
    exact = build_overview(string.head(0, 0))
    assert all(np.array_equal(a, b) for a, b in zip(overview.levels, exact.levels, strict=True))
    assert load_overview(string, 0, 0) is not None, "kept with the capture"


def test_a_kept_one_is_there_at_once(string: CapturedString, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_overview(string, 0, 0)
    monkeypatch.setattr(module, "ensure_overview", lambda *_: pytest.fail("computed again"))
    assert Overviews().get("stamp", string, 0, 0).length == len(string.tokens)


def test_a_capture_that_cannot_be_written_is_viewed_from_memory(
    string: CapturedString, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_overview(string.head(0, 0))
    monkeypatch.setattr(module, "ensure_overview", lambda *_: built)
    overviews = Overviews()
    assert wait_for(overviews, string) is built
    assert not overview_path(string, 0, 0).exists()
    assert overviews.has("stamp", string, 0, 0)
    assert overviews.get("stamp", string, 0, 0) is built


def test_what_fails_is_told_once_and_tried_again(string: CapturedString, monkeypatch: pytest.MonkeyPatch) -> None:
    overviews = Overviews()
    monkeypatch.setattr(module, "ensure_overview", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        wait_for(overviews, string)
    monkeypatch.setattr(module, "ensure_overview", ensure_overview)
    assert wait_for(overviews, string).length == len(string.tokens)


def test_closing_ends_what_is_being_computed(string: CapturedString, monkeypatch: pytest.MonkeyPatch) -> None:
    started, overviews = threading.Event(), Overviews()

    def endless(string: CapturedString, layer: int, head: int, progress: object) -> Overview:
        started.set()
        while True:
            progress(0.5)  # type: ignore[operator]
            time.sleep(0.01)

    monkeypatch.setattr(module, "ensure_overview", endless)
    with pytest.raises(Pending):
        overviews.get("stamp", string, 0, 0)
    assert started.wait(5)
    overviews.close()
    with pytest.raises(WorkbenchError, match="stopped"):
        wait_for(overviews, string)


def test_a_head_that_is_not_there_starts_nothing(string: CapturedString) -> None:
    overviews = Overviews()
    with pytest.raises(UsageError, match="no head 7"):
        overviews.get("stamp", string, 0, 7)
    assert overviews.share("stamp", string, 0, 7) is None


def test_a_changed_capture_asks_for_a_new_one(string: CapturedString) -> None:
    overviews = Overviews()
    first = wait_for(overviews, string)
    assert overviews.get("stamp", string, 0, 0) is first
    assert overviews.get("another", string, 0, 0) is not first


@pytest.mark.usefixtures("string")
@pytest.mark.parametrize("part", [(0, 606, 0, 606), (100, 606, 3, 500), (300, 420, 0, 606), (590, 606, 580, 606)])
def test_every_cell_of_a_long_map_is_the_largest_weight_it_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: tuple[int, int, int, int]
) -> None:
    monkeypatch.setattr("models.overview.LEVELS", (128, 64, 32))
    monkeypatch.setattr("models.overview.LONG", 128)
    monkeypatch.setattr(module, "AT_ONCE", 200)
    monkeypatch.setattr(data_module, "AT_ONCE", 200)
    data = Data(Store(tmp_path))
    capture = data.capture("rope-2l-s0-0000", data.run("rope-2l-s0-0000").captures[0])
    rows, cols = slice(*part[:2]), slice(*part[2:])
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            seen = data.pooled(capture, 0, 0, 1, rows, cols, 64)
            break
        except Pending:
            time.sleep(0.01)
    assert max(seen.values.shape) <= 64
    assert seen.row_edges[0] <= rows.start and seen.row_edges[-1] >= rows.stop
    assert seen.col_edges[0] <= cols.start and seen.col_edges[-1] >= cols.stop
    dense = capture.string(0).head(0, 1).tile(slice(0, 606), slice(0, 606))
    for r in range(len(seen.values)):
        band = dense[seen.row_edges[r] : seen.row_edges[r + 1]].max(axis=0)
        expected = [band[a:b].max() for a, b in zip(seen.col_edges[:-1], seen.col_edges[1:], strict=True)]
        assert seen.values[r] == pytest.approx(np.array(expected), abs=1e-6)
