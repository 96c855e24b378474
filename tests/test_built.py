"""Hand-built models as runs: captured by name, found again, and shown like any other run."""

import json
from pathlib import Path

import pytest
import torch

from models.attention import open_capture
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyTask
from workbench.built import find_built, keep_built
from workbench.cli import main
from workbench.dashboard import create_app
from workbench.runs import Status, Store
from workbench.subjects import load_run

NAME = "built:rope-locator"


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_a_run_of_a_hand_built_model_answers_as_it_does(name: str, tmp_path: Path) -> None:
    run = keep_built(Store(tmp_path), f"built:{name}")
    assert (run.status, run.step, run.steps) == (Status.FINISHED, 0, 0)
    construction = CONSTRUCTIONS[name]
    batch = CopyTask(construction.task).sample(2, torch.Generator().manual_seed(0), lengths=8)
    with torch.no_grad():
        assert torch.equal(load_run(run).model(batch.tokens), construction.build()(batch.tokens))


def test_a_hand_built_model_is_kept_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert find_built(store, NAME) is None
    first = keep_built(store, NAME)
    assert keep_built(store, NAME).id == first.id
    assert keep_built(store, "built:rope-locator-4").id != first.id
    with pytest.raises(UsageError, match="unknown construction 'nothing'"):
        keep_built(store, "built:nothing")


def test_captures_of_a_hand_built_model_are_those_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "told.json"
    common = ["--strings", "2", "--store", str(tmp_path / "runs"), "--json", str(told)]
    for length in ("10", "12"):
        assert main(["capture", NAME, "--length", length, *common]) == 0
    assert capsys.readouterr().err.count("is now run built-rope-locator") == 1
    (run,) = Store(tmp_path / "runs").runs()
    assert json.loads(told.read_text())["run"] == run.id
    captures = sorted((run.path / "captures").iterdir())
    assert [len(open_capture(path)) for path in captures] == [2, 2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--checkpoint", "3"], "was never trained and has no checkpoint 3"),
        (["--budget", "1B"], "the budget is 1 B"),
        (["--length", "99999999"], "--length"),
        (["--name", "a/b"], "is not a name for a new capture"),
    ],
)
def test_a_refused_capture_leaves_no_run(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", NAME, *more, "--store", str(tmp_path / "runs")]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_pages_show_a_run_that_was_never_trained(tmp_path: Path) -> None:
    run = keep_built(Store(tmp_path), NAME)
    app = create_app(tmp_path)
    client = app.server.test_client()
    assert client.get("/").status_code == 200
    row = next(row for row in app.server.extensions["workbench"].runs() if row.id == run.id)
    assert row.readable
    assert (row.step, row.steps) == (0, 0)


def test_a_step_where_a_whole_run_is_asked_for_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = keep_built(Store(tmp_path), NAME)
    assert main(["export", f"{run.id}@3", "--out", str(tmp_path / "pages"), "--store", str(tmp_path)]) == 2
    assert f"a whole run is asked for here: give {run.id}" in capsys.readouterr().err


def test_a_capture_of_a_step_is_named_as_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path)]
    assert main(["capture", f"{NAME}@3", *store]) == 2
    assert "was never trained and has no checkpoint 3" in capsys.readouterr().err
    assert main(["capture", f"{NAME}@3", "--checkpoint", "4", *store]) == 2
    assert "says its step already" in capsys.readouterr().err
