"""What goes wrong on the command line is one line and an exit code, and nothing is left behind."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.runs import Run, Store

Workbench = Callable[..., tuple[int, str, str]]

REPOSITORY = Path(__file__).resolve().parent.parent
STATE = "state.safetensors"


def command(*argv: object) -> list[str]:
    return [sys.executable, "-m", "workbench", *map(str, argv)]


def error_line(stderr: str) -> str:
    """The one line an error is."""
    lines = [line for line in stderr.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("error: "), stderr
    return lines[0]


def weights(run: Run) -> bytes:
    return (run.path / "weights.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["trian"], 2, "Did you mean 'train'"),
        (["runs", "--stor", "x"], 2, "--store"),
        (["train"], 2, "say what to train"),
        (["train", "demo-rope2"], 2, "Did you mean 'demo-rope"),
        (["train", "nowhere.toml"], 2, "nowhere.toml cannot be read"),
        (["train", "TINY", "--set", "model.d_modle=3"], 2, "unknown field 'model.d_modle'"),
        (["train", "TINY", "--set", "model.d_head=6"], 2, "6"),
        (["train", "TINY", "--set", "nonsense"], 2, "field.field=value"),
        (["train", "TINY", "--set", "model.positions=rope3d"], 2, "rope3d"),
        (["train", "TINY", "--set", "task.lengths=[9, 2]"], 2, "task.lengths"),
        (["train", "TINY", "--steps", "0"], 2, "--steps"),
        (["train", "TINY", "--seed", "-1"], 2, "--seed"),
        (["train", "TINY", "--device", "quantum"], 2, "unknown device 'quantum'"),
        (["train", "TINY", "--json", "no/such/folder/x.json"], 2, "there is no folder"),
        (["train", "TINY", "--json", "/tmp"], 2, "that is a folder; give a file"),
        (["train", "TINY", "--json", "/dev/null"], 2, "no regular file"),
        (["train", "TINY", "--set", "model.n_ctx=21"], 2, "takes 22 positions, model.n_ctx is 21"),
        (["train", "TINY", "--set", "model.n_ctx=37"], 2, "takes 38 positions, model.n_ctx is 37"),
        (["train", "TINY", "--set", 'model.positions={scheme="learned", max_positions=30}'], 2, "max_positions is 30"),
        (["train", "TINY", "--set", 'task.distribution="unique-context"', "--set", "task.context=3"], 2, "impossible"),
        (["train", "--resume", "latest"], 2, "nothing to resume"),
        (["train", "--resume", "latest", "--steps", "9"], 2, "keeps its settings"),
        (["train", "demo-rope", "--resume", "latest"], 2, "'tiny', not 'demo-rope'"),
        (["train", "rope", "--resume", "latest"], 2, "unknown recipe 'rope'"),
        (["evaluate", "nope"], 2, "unknown run 'nope'"),
        (["evaluate", "../../etc"], 2, "not a run name"),
        (["evaluate", "built:inductoin"], 2, "Did you mean 'induction'"),
        (["evaluate", "built:induction", "--checkpoint", "7"], 2, "never trained"),
        (["evaluate", "hf:some/where"], 2, "not available in this version"),
        (["evaluate", "latest", "--lengths", "0"], 2, "'0' is no length"),
        (["evaluate", "latest", "--lengths", "9-3"], 2, "'9-3' is no length"),
        (["evaluate", "latest", "--lengths", "99999999999"], 2, "no length"),
        (["evaluate", "latest", "--lengths", "5", "--distributions", "unifrom"], 2, "Did you mean 'uniform'"),
        (["evaluate", "latest", "--strings", "0"], 2, "--strings"),
        (["evaluate", "latest", "--checkpoint", "7"], 2, "Kept: 5, 10, 15, 20"),
        (["show", "nope"], 2, "Known: tiny"),
        (["rm", "nope", "--yes"], 2, "unknown run"),
        (["app", "--port", "99999"], 2, "--port"),
        (["demo", "--port", "0"], 2, "--port"),
    ],
)
def test_errors_are_one_line(
    workbench: Workbench,
    own_store: Path,
    tiny_recipe: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("COPY_WORKBENCH_STORE", str(own_store))
    before = sorted(own_store.rglob("*"))
    got, out, err = workbench(*(str(tiny_recipe) if word == "TINY" else word for word in argv))
    assert got == code and out == "", err
    assert said in error_line(err)
    assert sorted(own_store.rglob("*")) == before, "nothing is left behind"


@pytest.mark.skipif("__import__('torch').cuda.is_available()")
def test_a_gpu_that_is_not_there_is_said(workbench: Workbench, tiny_recipe: Path, tmp_path: Path) -> None:
    code, _, err = workbench("train", tiny_recipe, "--store", tmp_path / "s", "--device", "cuda")
    assert code == 2 and "'cuda'" in error_line(err) and not (tmp_path / "s").exists()


def test_damaged_files_are_failures(workbench: Workbench, own_store: Path) -> None:
    run = Store(own_store).open("latest")
    good = weights(run)
    (run.path / "weights.safetensors").write_bytes(good[: len(good) // 2])
    code, _, err = workbench("evaluate", run.id, "--store", own_store)
    assert code == 1 and "weights.safetensors is truncated" in error_line(err)
    out = workbench("runs", "--store", own_store)[1]
    assert "unreadable" in out and "weights.safetensors is truncated" in out
    (run.path / "weights.safetensors").write_bytes(good)
    (run.path / "config.toml").write_text("[task")
    for verb in ("evaluate", "show"):
        code, _, err = workbench(verb, "latest", "--store", own_store)
        assert code == 1 and "config.toml is not valid TOML" in error_line(err)
    assert workbench("runs", "--store", own_store)[0] == 0


def test_weights_of_another_shape_are_a_clear_error(workbench: Workbench, own_store: Path) -> None:
    run = Store(own_store).open("latest")
    text = run.config_text
    assert "d_model = 16" in text
    (run.path / "config.toml").write_text(text.replace("d_model = 16", "d_model = 32"))
    code, _, err = workbench("evaluate", "latest", "--store", own_store)
    assert code == 1 and run.id in error_line(err) and "shape" in error_line(err)


def test_a_checkpoint_that_does_not_fit_is_a_failure_of_the_run(workbench: Workbench, own_store: Path) -> None:
    from safetensors.numpy import load_file, save_file

    run = Store(own_store).open("latest")
    info = json.loads((run.path / "run.json").read_text()) | {"state": "interrupted"}
    (run.path / "run.json").write_text(json.dumps(info))
    weights = load_file(run.checkpoint_path(5))
    save_file({f"weights.{name}": value[:1] for name, value in weights.items()}, run.path / "checkpoints" / STATE)
    code, _, err = workbench("train", "--resume", run.id, "--store", own_store)
    assert code == 1 and "is damaged" in error_line(err)
    code, _, err = workbench("train", "--resume", run.id, "--store", own_store, "--device", "quantum")
    assert code == 2 and "unknown device" in error_line(err)


def test_a_damaged_evaluation_is_remarked_on(workbench: Workbench, own_store: Path) -> None:
    run = Store(own_store).open("latest")
    assert workbench("show", run.id, "--store", own_store)[2] == ""
    (run.path / "evaluation.json").write_text("{")
    code, _, err = workbench("show", run.id, "--store", own_store)
    assert code == 0 and "evaluation.json is not valid JSON" in err and f"train --resume {run.id}" in err
    assert workbench("train", "--resume", run.id, "--store", own_store)[0] == 0
    assert workbench("show", run.id, "--store", own_store)[2] == ""


@pytest.mark.parametrize("state", ["interrupted", "failed"])
def test_weights_of_an_unfinished_run_are_said_to_be(workbench: Workbench, own_store: Path, state: str) -> None:
    run = Store(own_store).open("latest")
    ask = ("latest", "--store", own_store, "--lengths", "3", "--strings", 1)
    assert "unfinished" not in workbench("evaluate", *ask)[2]
    info = json.loads((run.path / "run.json").read_text()) | {"state": state}
    (run.path / "run.json").write_text(json.dumps(info))
    said = f"run {run.id} is unfinished ({state}); using its checkpoint at step 20"
    assert said in workbench("evaluate", *ask)[2].splitlines()
    assert "unfinished" not in workbench("evaluate", *ask, "--checkpoint", 5)[2]


def test_a_store_that_is_a_file_is_said(workbench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for verb in (["runs"], ["show", "latest"], ["app"], ["demo"]):
        code, _, err = workbench(*verb, "--store", tmp_path / "file")
        assert code == 2 and "is a file" in error_line(err)


def test_broken_folders_do_not_break_a_command(workbench: Workbench, own_store: Path) -> None:
    (own_store / "[bold]photos").mkdir()
    (own_store / "broken").mkdir()
    (own_store / "broken" / "run.json").write_text("{")
    code, out, _ = workbench("runs", "--store", own_store)
    assert code == 0 and "[bold]photos" in out and "foreign" in out and "unreadable" in out
    code, out, _ = workbench("runs", "--store", own_store, "--json", "-")
    statuses = {run["id"]: run["status"] for run in json.loads(out)["runs"]}
    assert statuses["broken"] == "unreadable" and statuses["[bold]photos"] == "foreign"
    assert workbench("show", "latest", "--store", own_store)[0] == 0
    code, _, err = workbench("show", "broken", "--store", own_store)
    assert code == 1 and "run.json is not valid JSON" in error_line(err)
    assert workbench("rm", "broken", "--yes", "--store", own_store)[0] == 0
    code, _, err = workbench("rm", "[bold]photos", "--yes", "--store", own_store)
    assert code == 2 and "left alone" in error_line(err) and (own_store / "[bold]photos").exists()


@pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("n\n", False), ("", False)])
def test_rm_asks_first(own_store: Path, answer: str, removed: bool) -> None:
    asked = subprocess.run(
        command("rm", "latest", "--store", own_store), cwd=REPOSITORY, input=answer, capture_output=True, text=True
    )
    assert asked.returncode == (0 if removed else 1) and "Traceback" not in asked.stderr
    assert removed or "nothing was changed" in asked.stderr
    assert "finished" in asked.stderr and bool(Store(own_store).runs()) is not removed


def test_a_busy_port_names_the_next_free_one(workbench: Workbench, tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        for verb in (["app"], ["demo"]):
            code, _, err = workbench(*verb, "--store", tmp_path, "--port", port)
            assert code == 1 and f"port {port} is in use" in error_line(err)
            offered = int(error_line(err).split("--port ")[1])
            with socket.socket() as free:
                free.bind(("127.0.0.1", offered))


def test_unexpected_errors_are_one_line_until_asked(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(self: Store) -> list[Run]:
        raise ZeroDivisionError("of two\nlines")

    monkeypatch.setattr(Store, "runs", fail)
    code, _, err = workbench("runs", "--store", tmp_path)
    assert code == 1 and "unexpected ZeroDivisionError: of two lines" in error_line(err)
    monkeypatch.setenv("COPY_WORKBENCH_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        workbench("runs", "--store", tmp_path)


def test_a_reader_that_leaves_is_no_error(trained_store: Path) -> None:
    writing = subprocess.Popen(
        command("runs", "--store", trained_store, "--json", "-"),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writing.stdout is not None and writing.stderr is not None
    writing.stdout.close()
    assert b"rror" not in writing.stderr.read().split(b"Runs in")[0] and writing.wait() == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_a_full_output_is_one_line(trained_store: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("runs", "--store", trained_store), cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1 and "no space left" in error_line(done.stderr)
