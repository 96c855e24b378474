"""What the pages read from a store, and what an open view stands for."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from models.errors import UsageError, WorkbenchError
from tests import fake_store
from workbench.coordinate_views import token_kinds
from workbench.dashboard.caching import Cache
from workbench.dashboard.data import Data, scheme_name
from workbench.dashboard.pages.attention_map import weight_on_source
from workbench.dashboard.parts import Nothing
from workbench.dashboard.selection import failed_first, select
from workbench.dashboard.state import ViewState, Zoom
from workbench.runs import Status, Store
from workbench.views import tokens_of


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("dashboard") / "store"
    return root, fake_store.fill(root)


@pytest.fixture
def data(filled: tuple[Path, dict[str, str]]) -> Data:
    return Data(Store(filled[0]))


# ---- data ------------------------------------------------------------------------------------------------------------


def test_every_folder_of_the_store_is_listed_as_what_it_is(data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    rows = {row.id: row for row in data.runs()}
    ids_by_role = filled[1]
    assert rows[ids_by_role["rope"]].status is Status.FINISHED
    assert rows[ids_by_role["killed"]].status is Status.KILLED
    assert rows[ids_by_role["failed"]].status is Status.FAILED
    assert rows["rope-2l-s9-dead"].status is Status.UNREADABLE
    assert rows["old notes"].status is Status.FOREIGN
    assert rows[ids_by_role["rope"]].scheme == "rope"
    assert rows[ids_by_role["rope"]].heads == (2, 1)
    assert rows[ids_by_role["killed"]].exact_match is not None, "what training itself last measured"


def test_the_scheme_of_an_alternation_joins_its_layers() -> None:
    positions = [{"scheme": "rope"}, {"scheme": "nope"}]
    assert scheme_name({"model": {"heads": [1, 1], "positions": positions}}) == "rope+nope"
    assert scheme_name({"model": {"heads": [1], "positions": positions}}) == "rope"
    assert scheme_name({"model": {"heads": [1, 1], "positions": "rope2d"}}) == "rope2d"
    assert scheme_name({"model": 3}) == ""


def test_curves_are_read_from_where_the_last_read_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.dashboard import data as module

    training = fake_store.Training(tmp_path, steps=400)
    data = Data(Store(tmp_path))
    read: list[int] = []
    original = module.read_records
    monkeypatch.setattr(module, "read_records", lambda path, offset: read.append(offset) or original(path, offset))
    training.advance(100)
    row = data.run(training.folder.name)
    assert row.status is Status.TRAINING
    first = data.training_curve(row)
    size = (training.folder / "metrics.jsonl").stat().st_size
    training.advance(60)
    second = data.training_curve(row)
    assert read[-1] == size
    assert first.steps[-1] == 100
    assert second.steps[-1] == 160
    assert len(second.evaluated) == 3
    training.close()


def test_a_resumed_run_takes_records_back(tmp_path: Path) -> None:
    training = fake_store.Training(tmp_path, steps=400)
    training.advance(120)
    data = Data(Store(tmp_path))
    row = data.run(training.folder.name)
    assert data.training_curve(row).steps[-1] == 120
    metrics = training.folder / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:80]))
    assert data.training_curve(row).steps[-1] == 80
    training.step = 80
    training.advance(5)
    steps = data.training_curve(row).steps
    assert np.array_equal(steps, np.arange(1, 86))
    training.close()


def test_fifty_runs_of_ten_thousand_records_stay_responsive(tmp_path: Path) -> None:
    fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    line = '{"step": %d, "loss": 0.5, "seconds": 1.0}\n'
    text = "".join(line % step for step in range(10_000))
    config, info = ((tmp_path / "rope-2l-s0-0000" / name).read_text() for name in ("config.toml", "run.json"))
    for i in range(1, 51):
        folder = tmp_path / f"rope-2l-s{i}-0000"
        folder.mkdir()
        (folder / "config.toml").write_text(config)
        (folder / "run.json").write_text(info.replace("finished", "interrupted"))
        (folder / "metrics.jsonl").write_text(text)
    data = Data(Store(tmp_path))
    rows = data.runs()
    assert len(rows) == 51
    curves = [data.training_curve(row) for row in rows]
    assert max(len(curve.steps) for curve in curves) <= 402
    start = time.perf_counter()
    for row in data.runs():
        data.training_curve(row)
    assert time.perf_counter() - start < 0.5


def test_a_broken_evaluation_draws_nothing(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    for content in ('{"results": [3, {"distribution": "uniform"}]}', '{"results": 1}', "[]", "{"):
        (tmp_path / run_id / "evaluation.json").write_text(content)
        data = Data(Store(tmp_path))
        assert data.length_curves(data.run(run_id)) == []


def test_the_cache_keeps_to_its_budget_and_builds_once() -> None:
    cache: Cache[bytes] = Cache(10, len)
    built: list[str] = []

    def build(name: str) -> bytes:
        built.append(name)
        return b"1234"

    for name in ("a", "b", "a", "c", "a", "b"):
        cache.get(name, lambda name=name: build(name))
    assert built == ["a", "b", "c", "b"]
    assert len(cache) == 2
    with pytest.raises(ZeroDivisionError):
        cache.get("d", lambda: 1 // 0)


# ---- selection -------------------------------------------------------------------------------------------------------


def test_an_open_view_shows_the_newest_run_with_a_capture_and_its_first_failure(
    data: Data, filled: tuple[Path, dict[str, str]]
) -> None:
    chosen = select(data, ViewState())
    assert chosen.run.id == filled[1]["auto2d"]
    entries = chosen.capture.about["strings"]
    assert not entries[chosen.index]["exact"]
    first_wrong = chosen.string.predicted[chosen.row] != chosen.string.targets[chosen.row]
    assert first_wrong
    assert chosen.row == fake_store.A + chosen.string.length + fake_store.B - 1 + entries[chosen.index]["first_error"]


def test_failed_strings_come_first(data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    chosen = select(data, ViewState(run=filled[1]["rope"]))
    assert failed_first(chosen.capture) == (1, 3, 5, 0, 2, 4)


def test_numbers_out_of_range_are_replaced_with_a_note(data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    view = ViewState(run=filled[1]["rope"], string=99, layer=7, head=3, row=5000, zoom=Zoom(0, 9999, 5000, 6000))
    chosen = select(data, view)
    assert (chosen.index, chosen.view.layer, chosen.view.head) == (5, 1, 0)
    assert chosen.row == chosen.n_tokens - 1
    assert len(chosen.notes) == 4
    assert "Layer 1 has no head 3; showing head 0, the last one." in chosen.notes
    assert chosen.view.zoom == Zoom(0, chosen.n_tokens, chosen.n_tokens - 1, chosen.n_tokens)


def test_what_is_missing_says_what_to_do(data: Data, filled: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    with pytest.raises(Nothing) as empty:
        select(Data(Store(tmp_path / "none")), ViewState())
    assert "make demo" in empty.value.commands
    with pytest.raises(Nothing) as uncaptured:
        select(data, ViewState(run=filled[1]["nope"]))
    assert any(filled[1]["nope"] in command for command in uncaptured.value.commands)
    for view in (ViewState(run="no-such-run"), ViewState(run=filled[1]["rope"], capture="none")):
        with pytest.raises(UsageError):
            select(data, view)
    with pytest.raises(WorkbenchError, match="again"):
        select(data, ViewState(run=filled[1]["again"]))


def test_the_command_that_captures_a_run_works(own_store: Path) -> None:
    shutil.rmtree(next(own_store.glob("*/captures")))
    with pytest.raises(Nothing) as empty:
        select(Data(Store(own_store)), ViewState())
    home = Path(__file__).resolve().parent.parent
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = empty.value.commands[0]
    assert command.startswith("workbench capture ")
    command = command.replace("workbench", f"{shlex.quote(sys.executable)} -m workbench", 1)
    subprocess.run(["bash", "-c", command], cwd=home, env={**os.environ, "PATH": path}, check=True)
    assert len(select(Data(Store(own_store)), ViewState()).capture)


def test_kinds_follow_the_layout_of_the_task(data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    string = select(data, ViewState(run=filled[1]["rope"])).string
    kinds = token_kinds(string)
    n = string.length
    expected = ["prefix"] * 2 + ["source"] * n + ["separator"] + ["delimiter"] * 3 + ["copy"] * n
    assert kinds == expected
    assert tokens_of(string).wrong.sum() > 0


def test_the_weight_on_the_source_is_the_mean_over_scored_rows(data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    chosen = select(data, ViewState(run=filled[1]["rope"], layer=1, string=0))
    pattern = chosen.string.head(1, 0)
    rows = np.flatnonzero(chosen.string.source_position >= 0)
    expected = np.mean([pattern.row(int(row))[chosen.string.source_position[row]] for row in rows])
    assert weight_on_source(chosen) == pytest.approx(expected, abs=1e-6)
