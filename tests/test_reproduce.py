"""Marks: seeds are averaged, claims are judged, runs are reused, and the recipes' own claims hold (slow)."""

import json
from pathlib import Path

import pytest

from models.config import Mark, Recipe
from models.errors import UsageError
from models.recipes import dump_recipe, load_recipe, recipe_names
from workbench.cli import main
from workbench.reproduce import MarkResult, recipes_with_marks

MARKED = [name for name in recipe_names() if load_recipe(name).marks]
CLAIMING = [name for name in MARKED if any(m.at_least > 0 or m.at_most < 1 for m in load_recipe(name).marks)]


def result(*exact_match: float, at_least: float = 0.0, at_most: float = 1.0) -> MarkResult:
    return MarkResult("r", 9, "uniform", 5, exact_match, at_least, at_most)


def test_a_claim_is_about_the_mean_over_seeds() -> None:
    assert result(0.8, 1.0, at_least=0.9).met is True
    assert result(0.79, 1.0, at_least=0.9).met is False
    assert result(0.2, 0.0, at_most=0.1).met is True
    assert result(0.3, 0.0, at_most=0.1).met is False
    assert result(0.3).met is None


def test_only_recipes_with_marks_can_be_reproduced() -> None:
    assert [recipe.name for recipe in recipes_with_marks()] == MARKED
    with pytest.raises(UsageError, match="claims no marks"):
        recipes_with_marks(["paper-12l-rope"])


def test_reproduce_trains_each_seed_once_and_exits_by_the_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = Recipe.model_validate(
        {
            "name": "tiny",
            "task": {"lengths": [1, 4]},
            "model": {"heads": [1], "d_model": 8, "d_head": 4},
            "train": {"steps": 2, "batch_size": 2, "evaluation_strings": 1},
            "marks": [Mark(length=3, strings=4, at_most=1.0), Mark(length=4, strings=4, at_least=1.0)],
        }
    )
    path = tmp_path / "tiny.toml"
    path.write_text(dump_recipe(recipe))
    command = ["reproduce", str(path), "--seeds", "2", "--store", str(tmp_path / "runs"), "--json", "-"]
    assert main(command) == 1
    first = json.loads(capsys.readouterr().out)
    assert [(r["length"], r["met"], len(r["seeds"])) for r in first["results"]] == [(3, None, 2), (4, False, 2)]
    runs = {folder.name for folder in (tmp_path / "runs").iterdir()}
    assert main(command) == 1
    assert json.loads(capsys.readouterr().out) == first
    assert {folder.name for folder in (tmp_path / "runs").iterdir()} == runs and len(runs) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMING)
def test_recipes_reach_their_marks(name: str, tmp_path: Path) -> None:
    output = tmp_path / "marks.json"
    code = main(["reproduce", name, "--seeds", "3", "--store", str(tmp_path / "runs"), "--json", str(output)])
    missed = [r for r in json.loads(output.read_text())["results"] if r["met"] is False]
    assert code == 0, missed
