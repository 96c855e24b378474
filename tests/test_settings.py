"""Settings: every wrong value is one clear clause, every right one survives unchanged."""

from typing import Annotated, Any

import pydantic
import pytest
from pydantic import Field

from models.config import EvaluationSettings, ModelSettings, Recipe, TaskSettings
from models.errors import UsageError
from models.positions import ALTERNATIONS, SCHEMES, parse_scheme
from models.settings import Settings, parse


class Leaf(Settings):
    size: int = Field(1, ge=1)


class Tree(Settings):
    leaf: Leaf = Leaf()
    leaves: tuple[Leaf, ...] = ()
    weights: tuple[Annotated[float, Field(ge=0)], ...] = Field((1.0,), min_length=1)
    note: str | None = None


def message(kind: type[Settings], values: Any) -> str:
    with pytest.raises(UsageError) as raised:
        parse(kind, values, "here")
    text = str(raised.value)
    assert text.startswith("here: ")
    assert "\n" not in text
    return text.removeprefix("here: ")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"leaf": {"size": 0}}, "leaf.size = 0: input should be greater than or equal to 1"),
        (
            {"leaf": {"size": "big"}},
            "leaf.size = 'big': input should be a valid integer, unable to parse string as an integer",
        ),
        ({"weights": [1.0, -2.0]}, "weights.1 = -2.0: input should be greater than or equal to 0"),
        ({"weights": [-2.0]}, "weights.0 = -2.0: input should be greater than or equal to 0"),
        ({"weights": [float("nan")]}, "weights.0 = nan: input should be a finite number"),
        ({"weights": [float("inf")]}, "weights.0 = inf: input should be a finite number"),
        ({"weights": []}, "weights: 0 given, at least 1 needed"),
        (3, "settings = 3: input should be a valid dictionary or instance of Tree"),
        (
            {"laef": {}},
            "unknown field 'laef'. Did you mean 'leaf'? Known: leaf, leaves, weights, note",
        ),
        ({"leaf": {"siz": 2}}, "unknown field 'leaf.siz'. Did you mean 'leaf.size'? Known: leaf.size"),
        (
            {"leaves": [{}, {"siz": 2}]},
            "unknown field 'leaves.1.siz'. Did you mean 'leaves.1.size'? Known: leaves.1.size",
        ),
    ],
)
def test_each_problem_is_one_clause_with_field_value_and_what_is_allowed(values: Any, expected: str) -> None:
    assert message(Tree, values) == expected


def test_several_problems_are_all_told_once() -> None:
    clauses = message(Tree, {"leaf": {"size": 0}, "weights": [-1.0], "note": 5}).split("; ")
    assert [clause.split(" = ")[0] for clause in clauses] == ["leaf.size", "weights.0", "note"]


def test_a_long_value_is_not_repeated() -> None:
    assert len(message(Tree, {"leaf": "x" * 10_000})) < 200


def test_a_missing_field_is_named() -> None:
    assert message(Recipe, {"marks": [{"at_least": 0.9}]}) == "field 'marks.0.length' is missing"


def test_settings_are_immutable_and_hashable() -> None:
    settings = TaskSettings()
    with pytest.raises(pydantic.ValidationError):
        settings.a = 3  # type: ignore[misc]
    assert hash(settings) == hash(TaskSettings())


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (TaskSettings, {"lengths": [5, 4]}, "[shortest, longest]"),
        (TaskSettings, {"lengths": [0, 4]}, "lengths.0 = 0"),
        (TaskSettings, {"lengths": [4]}, "lengths"),
        (TaskSettings, {"separator": "x"}, "separator = 'x'"),
        (TaskSettings, {"alphabet": 1}, "alphabet = 1"),
        (TaskSettings, {"probabilities": []}, "probabilities: 0 given"),
        (TaskSettings, {"probabilities": [1.5]}, "probabilities.0 = 1.5"),
        (TaskSettings, {"distribution": "unifrom"}, "Did you mean 'uniform'?"),
        (ModelSettings, {"heads": []}, "heads: 0 given"),
        (ModelSettings, {"heads": [0]}, "heads.0 = 0"),
        (ModelSettings, {"positions": []}, "positions: 0 given"),
        (ModelSettings, {"positions": "roep"}, "Did you mean 'rope'?"),
        (ModelSettings, {"positions": ["rope", "nope"]}, "2 positional schemes for 1 layers"),
        (ModelSettings, {"d_head": 6}, "d_head = 6"),
        (EvaluationSettings, {"intervals": [[1, 2], [4, 3]]}, "[shortest, longest]"),
        (EvaluationSettings, {"distributions": ["uniform", "x"]}, "unknown distribution 'x'"),
    ],
)
def test_a_wrong_recipe_value_is_told_once(kind: type[Settings], values: dict, expected: str) -> None:
    text = message(kind, values)
    assert expected in text
    assert ";" not in text.replace("; it must be", "").replace("; name at most", "")


@pytest.mark.parametrize("name", list(SCHEMES))
def test_a_scheme_survives_writing_and_reading(name: str) -> None:
    settings = ModelSettings(positions=parse_scheme({"scheme": name, "window": 5}))  # type: ignore[arg-type]
    again = parse(ModelSettings, settings.model_dump(), "model")
    assert again == settings
    assert type(again.positions[0]) is SCHEMES[name].Settings
    assert again.positions[0].window == 5


@pytest.mark.parametrize(
    ("positions", "names"),
    [
        ("rope", ["rope"] * 4),
        (["rope", "nope"], ["rope", "nope"] * 2),
        ("rnope", ["rope", "nope"] * 2),
        ("hrope", ["rope", "rope2d"] * 2),
        (["hrope", "alibi"], ["rope", "rope2d", "alibi", "rope"]),
        ([{"scheme": "rope", "theta": 7}, "nope", "nope"], ["rope", "nope", "nope", "rope"]),
    ],
)
def test_a_scheme_per_layer_or_an_alternation(positions: Any, names: list[str]) -> None:
    settings = parse(ModelSettings, {"heads": [2] * 4, "positions": positions}, "model")
    assert [settings.scheme_of(layer).scheme for layer in range(4)] == names


def test_alternations_are_made_of_registered_schemes_and_shadow_none() -> None:
    assert all(part in SCHEMES for parts in ALTERNATIONS.values() for part in parts)
    assert not set(ALTERNATIONS) & set(SCHEMES)


@pytest.mark.parametrize("name", list(ALTERNATIONS))
def test_an_alternation_given_where_one_scheme_is_expected_says_what_it_stands_for(name: str) -> None:
    with pytest.raises(UsageError, match="alternates over layers") as raised:
        parse_scheme({"scheme": name, "theta": 3})
    assert all(part in str(raised.value) for part in ALTERNATIONS[name])


@pytest.mark.parametrize("value", [None, 5, [], {}, {"theta": 3}, {"scheme": 3}])
def test_no_scheme_at_all_is_a_usage_error(value: Any) -> None:
    with pytest.raises(UsageError, match="is no positional scheme"):
        parse_scheme(value)


@pytest.mark.parametrize("name", list(SCHEMES))
def test_an_unknown_scheme_field_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="unknown field 'thteta'") as raised:
        parse_scheme({"scheme": name, "thteta": 3})
    assert "window" in str(raised.value)
