"""Recipe files: every one parses, round-trips and builds; bad ones are named."""

from pathlib import Path

import pytest

from models.config import Recipe
from models.errors import UsageError
from models.recipes import dump_recipe, load_recipe, override, parse_recipe, recipe_names
from models.training import Trainer

PAPER = [name for name in recipe_names() if name.startswith("paper-")]


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_round_trips_and_describes_itself(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description
    assert parse_recipe(dump_recipe(recipe)) == recipe


@pytest.mark.parametrize("name", [name for name in recipe_names() if name not in PAPER])
def test_cpu_recipes_take_a_step(name: str) -> None:
    recipe = override(load_recipe(name), ["train.steps=1", "train.batch_size=2", "train.evaluation_strings=1"])
    (record,) = Trainer(recipe, "cpu").run()
    assert record.loss > 0


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "12l" in name else []) for name in PAPER]
)
def test_paper_recipes_have_the_papers_shape_and_take_a_step_at_full_width(name: str) -> None:
    recipe = load_recipe(name)
    one_layer = name.startswith("paper-1l")
    assert recipe.device_hint == "gpu"
    assert recipe.model.heads == ((2,) if one_layer else (12,) * 12)
    assert (recipe.model.d_model, recipe.model.d_head) == ((1024, 512) if one_layer else (1536, 128))
    trainer = Trainer(recipe, "cpu")
    loss, norm, tokens = trainer.train_on([trainer.task.encode(["011", "100"])])
    assert loss > 0 and norm > 0 and tokens == 2 * (recipe.task.a + recipe.task.b + 6)


def test_overrides_are_toml_values_or_words() -> None:
    recipe = override(
        Recipe(), ["model.heads=[2,1]", "model.positions=hrope", "train.learning_rate=1e-3", "task.separator='*'"]
    )
    assert recipe.model.heads == (2, 1)
    assert recipe.model.scheme_name == "rope+rope2d"
    assert recipe.train.learning_rate == 1e-3
    assert recipe.task.separator == "*"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.d_head=6"], r"d_head = 6 .*divisible by 4"),
        (["model.positions=rop"], r"unknown positional scheme 'rop'. Did you mean 'rope'"),
        (["modle.d_head=8"], r"unknown field 'modle'"),
        (["model.nlayers=8"], r"unknown field 'model.nlayers'.*Known: model.heads, "),
        (["task.lengths=[9,3]"], r"task.lengths = \[9, 3\]"),
        (["task.distribution=unifrom"], "Did you mean 'uniform'"),
        (["train.steps=0"], "train.steps = 0: "),
        (["train.learning_rate=nan"], "train.learning_rate"),
        (["model.positions=[]"], "model.positions"),
        (['model.positions=["rope","nope","rope"]'], "3 positional schemes for 1 layers"),
        (["steps"], "not of the form"),
        (["name.x=1"], "name has no fields"),
    ],
)
def test_bad_overrides_are_named(overrides: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        override(Recipe(), overrides)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown recipe 'nope-1l'"):
        load_recipe("nope-1l")
    with pytest.raises(UsageError, match="cannot be read"):
        load_recipe(str(tmp_path / "absent.toml"))
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        load_recipe(str(tmp_path / "bad.toml"))
    (tmp_path / "mine.toml").write_text("description = 'mine'\n[model]\nd_model = 32\n")
    assert load_recipe(str(tmp_path / "mine.toml"), ["model.d_head=32"]).model.d_head == 32
