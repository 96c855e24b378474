"""The demo: trains, evaluates, captures, reuses; its dashboard lives exactly as long as it does."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from models.attention import open_capture
from models.errors import WorkbenchError
from models.recipes import load_recipe, recipe_names
from workbench import demo
from workbench.captures import find_samples
from workbench.ports import is_free, next_free, require_free
from workbench.records import mean_exact_match
from workbench.runs import Status, Store

Workbench = Callable[..., tuple[int, str, str]]
REPOSITORY = Path(__file__).resolve().parent.parent
QUIET = Console(quiet=True)


def test_the_three_recipes_are_there_and_short() -> None:
    assert set(demo.RECIPES) <= set(recipe_names())
    recipes = [load_recipe(name) for name in demo.RECIPES]
    assert [recipe.model.scheme_name for recipe in recipes] == ["rope2d", "rope", "auto2d"]
    for recipe in recipes:
        longest = recipe.task.lengths[1]
        reached = [range(low, high + 1) for low, high in recipe.evaluation.intervals]
        assert recipe.device_hint == "cpu" and recipe.marks
        assert all(any(at in interval for interval in reached) for at in (longest, 2 * longest, 4 * longest))


def test_it_trains_evaluates_and_captures_once(tiny_recipe: Path, tmp_path: Path) -> None:
    store, names = Store(tmp_path / "store"), (str(tiny_recipe),)
    (row,) = demo.run_recipes(QUIET, store, names)
    run = store.open(row.run)
    assert run.status is Status.FINISHED and run.evaluation is not None and len(run.captures) == 1
    assert not row.reused and row.steps == 20 and row.seconds > 0
    results = run.evaluation["results"]
    assert row.exact_match[1] == mean_exact_match(results, (1, 8))
    for multiple in (2, 4):
        at = [score["exact_match"] for score in results if score["length"] == 8 * multiple]
        assert len(at) == 3 and row.exact_match[multiple] == pytest.approx(sum(at) / 3)

    (again,) = demo.run_recipes(QUIET, store, names)
    assert again.reused and again.run == row.run and len(store.runs()) == 1 and len(run.captures) == 1
    tiny_recipe.write_text(tiny_recipe.read_text().replace("steps = 20", "steps = 21"))
    (other,) = demo.run_recipes(QUIET, store, names)
    assert not other.reused and other.run != row.run, "another recipe of the same name is not reused"


def test_it_makes_up_for_what_an_interrupted_demo_left(tiny_recipe: Path, tmp_path: Path) -> None:
    store, names = Store(tmp_path / "store"), (str(tiny_recipe),)
    (row,) = demo.run_recipes(QUIET, store, names)
    run = store.open(row.run)
    (run.path / "evaluation.json").unlink()
    (run.path / "captures" / run.captures[0] / "capture.json").unlink()
    info = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(info | {"state": "interrupted", "step": 0}))
    (again,) = demo.run_recipes(QUIET, store, names)
    run = store.open(row.run)
    assert again.run == row.run and run.status is Status.FINISHED and run.evaluation and run.captures


def test_captured_samples_are_failures_first_then_copies(trained_store: Path) -> None:
    run = Store(trained_store).open("latest")
    capture = open_capture(run.capture_path(run.captures[0]))
    about = capture.about
    assert about["run"] == run.id and about["step"] == run.step and about["distribution"] == "imbalanced"
    exact = [capture.string(i).exact for i in range(len(capture))]
    assert exact == sorted(exact) and not exact[0]
    assert about["length"] == capture.string(0).length and about["tried"] >= 2


@pytest.mark.parametrize(("reach", "failing"), [(8, 9), (20, 24), (80, None)])
def test_failures_are_looked_for_just_past_what_is_copied(
    tiny_recipe: Path, monkeypatch: pytest.MonkeyPatch, reach: int, failing: int | None
) -> None:
    """With a stand-in model that copies exactly the strings of at most `reach` tokens."""
    import torch

    from models import capture
    from models.evaluation import Outcome
    from workbench import captures

    def answer(model: object, batch: object) -> Outcome:
        right = (batch.lengths <= reach)[:, None]  # type: ignore[attr-defined]
        return Outcome(torch.zeros_like(right), right, torch.ones_like(right))

    monkeypatch.setattr(capture, "answer", answer)
    monkeypatch.setattr(captures, "answer", answer)
    found = find_samples(None, load_recipe(str(tiny_recipe)), distribution="uniform")  # type: ignore[arg-type]
    assert [len(string) for string in found.failed] == ([failing] * 2 if failing else [])
    assert [len(string) for string in found.copied] == [8, 8]
    assert found.length == (failing or 8)


def test_without_the_app_it_ends_with_its_table(
    workbench: Workbench, tiny_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RECIPES", (str(tiny_recipe),))
    code, out, err = workbench("demo", "--no-app", "--store", tmp_path / "store")
    assert code == 0 and re.search(r"tiny\s+tiny-s0-\S+\s+20\s", out) and "tiny: 20/20" in err
    code, out, _ = workbench("demo", "--no-app", "--store", tmp_path / "store", "--json", "-")
    (row,) = json.loads(out)["runs"]
    assert code == 0 and row["reused"] and row["exact_match"].keys() == {"1", "2", "4"}


def test_the_dashboard_answers_while_it_is_needed(trained_store: Path, free_port: int) -> None:
    with demo.dashboard(Store(trained_store), free_port, False) as process:
        with urllib.request.urlopen(demo.url(free_port)) as page:
            assert page.status == 200
        assert process.poll() is None
    assert process.poll() is not None and is_free(free_port)


def test_a_dashboard_that_cannot_start_says_why(trained_store: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        port = busy.getsockname()[1]
        with (
            pytest.raises(WorkbenchError, match=f"did not start.*{port} is in use"),
            demo.dashboard(Store(trained_store), port, False),
        ):
            pass


def test_a_dashboard_that_ends_by_itself_ends_the_demo() -> None:
    with pytest.raises(WorkbenchError, match="ended by itself with code 3"):
        demo.wait_for_ctrl_c(subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]), lambda: None)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_ends_the_demo_and_its_dashboard(
    tiny_recipe: Path, tmp_path: Path, free_port: int, in_foreground: Callable[[], None], number: signal.Signals
) -> None:
    run = (
        "import sys; from workbench import demo; from workbench.cli import main; "
        f"demo.RECIPES = ({str(tiny_recipe)!r},); sys.exit(main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", run, "demo", "--store", str(tmp_path / "s"), "--port", str(free_port), "--no-open"]
    process = subprocess.Popen(
        argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=in_foreground
    )
    assert process.stderr is not None
    said = ""
    while "Ctrl-C ends it" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    assert f"http://127.0.0.1:{free_port}" in said.split("training")[0], "the address comes before the training"
    assert not is_free(free_port)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and "Traceback" not in said + err and "Exact match" in out
    deadline = time.monotonic() + 5
    while not is_free(free_port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_free(free_port)


def test_ports() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert not is_free(port) and (next_free(port) or 0) > port
        with pytest.raises(WorkbenchError, match=f"port {port} is in use"):
            require_free(port)
    require_free(port)
