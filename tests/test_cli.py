"""The command line: its help, and its contract with scripts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UsageError
from workbench.cli.evaluation import parse_lengths
from workbench.cli.output import lengths_text, share
from workbench.runs import Store

Workbench = Callable[..., tuple[int, str, str]]

REPOSITORY = Path(__file__).resolve().parent.parent

VERBS = ("recipes", "train", "evaluate", "runs", "show", "rm", "demo", "app", "bench")
VERBS += ("constructions", "capture", "captures", "rm-capture", "export-view")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(workbench: Workbench, verb: str) -> None:
    code, out, _ = workbench(verb, "--help")
    assert code == 0 and verb in out and "Usage" in out


@pytest.mark.parametrize(
    "argv", [["--help"], ["runs"], ["app", "--help"], ["capture", "--help"], ["export-view", "--help"]]
)
def test_light_verbs_do_without_torch(argv: list[str], tmp_path: Path) -> None:
    check = f"import sys; from workbench.cli import main; main({argv!r}); sys.exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=REPOSITORY, env=os.environ | {"COPY_WORKBENCH_STORE": str(tmp_path)}
    )
    assert done.returncode == 0


def test_recipes(workbench: Workbench) -> None:
    code, out, _ = workbench("recipes", "--json", "-")
    recipes = json.loads(out)["recipes"]
    assert code == 0 and {"demo-rope2d", "demo-rope", "demo-auto2d"} <= {recipe["name"] for recipe in recipes}
    for recipe in recipes:
        assert recipe.keys() >= {"name", "scheme", "n_layers", "heads", "d_head", "train_lengths", "device_hint"}
        assert len(recipe["heads"]) == recipe["n_layers"] and recipe["train_lengths"][0] <= recipe["train_lengths"][1]
    assert all(recipe["name"] in workbench("recipes")[1] for recipe in recipes)


def test_train_then_runs_then_evaluate(workbench: Workbench, tiny_recipe: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    code, out, err = workbench("train", tiny_recipe, "--store", store, "--seed", 3, "--steps", 12, "--json", "-")
    report = json.loads(out)
    assert code == 0 and "Exact match" in err
    assert report.keys() >= {"id", "steps", "seconds", "tokens_per_second", "loss"}
    assert report["steps"] == 12 and report["loss"] > 0 and report["tokens_per_second"] > 0 and report["seconds"] > 0
    assert report["id"].startswith("tiny-s3-")

    code, out, _ = workbench("runs", "--store", store, "--json", "-")
    (listed,) = json.loads(out)["runs"]
    assert listed.keys() >= {"id", "recipe", "status", "step", "steps", "exact_match"}
    expected = {"id": report["id"], "recipe": "tiny", "status": "finished", "step": 12, "steps": 12}
    assert {key: listed[key] for key in expected} == expected and 0 <= listed["exact_match"] <= 1

    ask = ("--lengths", "5,3-9", "--distributions", "uniform,recursive-flip", "--strings", 6, "--seed", 1)
    code, out, err = workbench("evaluate", "latest", "--store", store, *ask, "--json", "-")
    measured = json.loads(out)
    assert code == 0 and measured["seconds"] > 0 and measured["peak_memory_bytes"] > 10_000_000
    pairs = [(score["distribution"], score["shortest"], score["length"]) for score in measured["results"]]
    names = ("uniform", "recursive-flip")
    assert pairs == [(name, *lengths) for name in names for lengths in ((5, 5), (3, 9))]
    for score in measured["results"]:
        assert score.keys() >= {"distribution", "length", "strings", "exact_match", "token_accuracy", "interval"}
        low, high = score["interval"]
        assert score["strings"] == 6 and 0 <= low <= score["exact_match"] <= high <= 1
        assert len(score["first_errors"]) == round(6 * (1 - score["exact_match"]))
    again = json.loads(workbench("evaluate", report["id"], "--store", store, *ask, "--json", "-")[1])
    assert again["results"] == measured["results"]


def test_evaluate_measures_as_the_recipe_says_and_at_any_checkpoint(workbench: Workbench, trained_store: Path) -> None:
    run = Store(trained_store).open("latest")
    newest = json.loads(workbench("evaluate", "latest", "--store", trained_store, "--json", "-")[1])
    assert run.evaluation is not None and newest["results"] == run.evaluation["results"]
    at = {
        step: json.loads(
            workbench("evaluate", run.id, "--store", trained_store, "--checkpoint", step, "--json", "-")[1]
        )
        for step in (5, 20)
    }
    assert at[20]["results"] == newest["results"] and at[5]["step"] == 5
    assert at[5]["results"] != newest["results"]


def test_show_is_the_whole_run(workbench: Workbench, trained_store: Path, tmp_path: Path) -> None:
    path = tmp_path / "shown.json"
    code, out, _ = workbench("show", "latest", "--store", trained_store, "--json", path)
    run, shown = Store(trained_store).open("latest"), json.loads(path.read_text())
    assert code == 0 and shown["config"] == run.config and shown["checkpoints"] == [5, 10, 15, 20]
    assert run.evaluation is not None and shown["results"] == run.evaluation["results"]
    assert shown["captures"] == list(run.captures) != []
    for text in (run.id, "model.d_model", "17-32", "recursive-flip", run.captures[0]):
        assert text in out


def test_json_to_a_file_prints_the_table_too(workbench: Workbench, trained_store: Path, tmp_path: Path) -> None:
    code, out, _ = workbench("runs", "--store", trained_store, "--json", tmp_path / "runs.json")
    assert code == 0 and "tiny" in out and json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert os.listdir(tmp_path) == ["runs.json"]


def test_bench(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench import bench

    result = {"measurements": [bench.Measurement("steps", 2.5, "1/s").as_dict()], "machine": {"cores": 2}}

    def run(progress: Callable[[str], None]) -> dict:
        progress("measuring")
        return result

    monkeypatch.setattr(bench, "run", run)
    code, out, err = workbench("bench", "--json", "-")
    assert code == 0 and json.loads(out) == result and "measuring" in err


@given(st.lists(st.tuples(st.integers(1, 9999), st.integers(0, 9999)), min_size=1, unique=True))
def test_lengths_are_read_as_they_are_written(pairs: list[tuple[int, int]]) -> None:
    intervals = [(low, low + more) for low, more in pairs]
    assert parse_lengths(", ".join(lengths_text(*pair) for pair in intervals)) == list(dict.fromkeys(intervals))


@given(st.text(alphabet="0123456789-, x.", max_size=12))
def test_no_lengths_but_possible_ones_are_accepted(text: str) -> None:
    try:
        intervals = parse_lengths(text)
    except UsageError as error:
        assert "--lengths" in str(error)
    else:
        assert intervals and all(1 <= low <= high for low, high in intervals)


def test_only_a_perfect_share_is_printed_as_one() -> None:
    assert [share(value) for value in (1.0, 0.99999, 0.5, None)] == ["1.000", "0.999", "0.500", "-"]
