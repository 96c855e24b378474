"""Training into the store: interruptions, kills and divergence lose nothing but time."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.runs import Run, Status, Store, read_metrics

Workbench = Callable[..., tuple[int, str, str]]

REPOSITORY = Path(__file__).resolve().parent.parent


def command(*argv: object) -> list[str]:
    return [sys.executable, "-m", "workbench", *map(str, argv)]


def error_line(stderr: str) -> str:
    """The one line an error is."""
    lines = [line for line in stderr.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("error: "), stderr
    return lines[0]


def weights(run: Run) -> bytes:
    return (run.path / "weights.safetensors").read_bytes()


def start_long_training(
    recipe: Path, store: Path, preexec_fn: Callable[[], None], *more: object
) -> subprocess.Popen[bytes]:
    """A training that has passed its first checkpoint and is far from its end."""
    argv = command("train", recipe, "--store", store, "--no-evaluate", "--device", "cpu", *more)
    process = subprocess.Popen(
        argv, cwd=REPOSITORY, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=preexec_fn
    )
    deadline = time.monotonic() + 60
    while not list(store.glob("*/checkpoints/state.safetensors")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1]
        time.sleep(0.005)
    return process


LONG = ("--set", "train.steps=150", "--set", "train.evaluate_every=0", "--set", "train.checkpoint_every=7")


def records(run: Run) -> list[tuple[int, float]]:
    return [(record["step"], record["loss"]) for record in read_metrics(run)[0]]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, tiny_text: str) -> Run:
    """The run that LONG gives when nothing stops it."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "tiny.toml").write_text(tiny_text)
    argv = ["train", str(folder / "tiny.toml"), "--store", str(folder / "s"), "--device", "cpu", "--no-evaluate", *LONG]
    assert main(argv) == 0
    return Store(folder / "s").open("latest")


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_stopped_run_resumes_to_the_same_bits(
    workbench: Workbench,
    uninterrupted: Run,
    tiny_recipe: Path,
    tmp_path: Path,
    in_foreground: Callable[[], None],
    number: signal.Signals,
) -> None:
    store = Store(tmp_path / "stopped")
    process = start_long_training(tiny_recipe, store.root, in_foreground, *LONG)
    assert store.open("latest").status is Status.TRAINING
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    (run,) = store.runs()
    assert 0 < run.step < 150 and run.exact_match is None
    if number == signal.SIGKILL:
        assert run.status is Status.KILLED
    else:
        assert run.status is Status.INTERRUPTED and process.returncode == 130
        assert (
            f"workbench train --resume {run.id} --store {store.root}\n" in err.decode()
            and "Traceback" not in err.decode()
        )
    assert workbench("train", "--resume", run.id, "--store", store.root, "--device", "cpu")[0] == 0

    resumed = store.open(run.id)
    assert resumed.status is Status.FINISHED and resumed.step == 150 and weights(resumed) == weights(uninterrupted)
    assert resumed.exact_match is not None, "it is evaluated after all"
    assert records(resumed) == records(uninterrupted), "no record is lost or doubled"
    assert set(uninterrupted.checkpoints) <= set(resumed.checkpoints)
    assert not (resumed.path / "checkpoints" / "state.safetensors").exists()


def test_the_seed_decides_every_bit(workbench: Workbench, tiny_recipe: Path, tmp_path: Path) -> None:
    for store, seed in (("a", 1), ("b", 1), ("c", 2)):
        workbench("train", tiny_recipe, "--store", tmp_path / store, "--seed", seed, "--no-evaluate", "--device", "cpu")
    a, b, c = (weights(Store(tmp_path / store).open("latest")) for store in "abc")
    assert a == b != c


def test_a_run_being_trained_is_listed_and_protected(
    workbench: Workbench, tiny_recipe: Path, tmp_path: Path, in_foreground: Callable[[], None]
) -> None:
    process = start_long_training(
        tiny_recipe, tmp_path / "s", in_foreground, "--set", "train.steps=100000", "--seed", 5
    )
    try:
        (listed,) = json.loads(workbench("runs", "--store", tmp_path / "s", "--json", "-")[1])["runs"]
        assert listed["status"] == "training" and 0 < listed["step"] < listed["steps"] == 100_000
        assert workbench("evaluate", "latest", "--store", tmp_path / "s", "--lengths", "3")[0] == 0
        for argv in (["rm", "latest", "--yes"], ["train", "--resume", "latest"]):
            code, _, err = workbench(*argv, "--store", tmp_path / "s")
            assert code == 1 and "train" in error_line(err)
    finally:
        process.kill()
        process.wait()


def test_divergence_fails_the_run_and_keeps_its_checkpoint(
    workbench: Workbench, tiny_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models import training

    monkeypatch.setattr(training, "learning_rate", lambda settings, step: 1e-3 if step <= 10 else 1e30)
    code, _, err = workbench("train", tiny_recipe, "--store", tmp_path / "s", "--device", "cpu")
    (run,) = Store(tmp_path / "s").runs()
    assert code == 1 and "diverged at step 12" in err and "Traceback" not in err
    assert run.status is Status.FAILED and run.message and "diverged at step 12" in run.message
    assert run.step == 10 and run.checkpoints == (5, 10)
    assert "failed" in workbench("runs", "--store", tmp_path / "s")[1]
    monkeypatch.undo()
    assert workbench("train", "--resume", run.id, "--store", tmp_path / "s", "--device", "cpu")[0] == 0


def test_an_interrupted_evaluation_shows_what_was_finished(
    workbench: Workbench, trained_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models import evaluation

    whole = evaluation.evaluate

    def interrupted(*args: object, **named: object) -> object:
        scores = whole(*args, **named)  # type: ignore[arg-type]
        yield next(scores)
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "evaluate", interrupted)
    code, out, err = workbench("evaluate", "latest", "--store", trained_store, "--lengths", "3,4", "--json", "-")
    assert code == 130 and len(json.loads(out)["results"]) == 1 and json.loads(out)["interrupted"]
    assert "interrupted after 1 of 6" in err


def test_a_run_interrupted_before_its_evaluation_is_evaluated_on_resume(
    workbench: Workbench, tiny_recipe: Path, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "s")
    assert workbench("train", tiny_recipe, *store, "--no-evaluate")[0] == 0
    run = Store(tmp_path / "s").open("latest")
    assert run.evaluation is None
    code, out, _ = workbench("train", "--resume", run.id, *store, "--json", "-")
    assert code == 0 and json.loads(out)["steps"] == 20 and json.loads(out)["loss"] > 0
    assert run.evaluation is not None
    code, _, err = workbench("train", "--resume", run.id, *store)
    assert code == 2 and "nothing to resume" in error_line(err)
