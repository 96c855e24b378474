"""Recipe files: TOML <-> `Recipe`, by name (`models/recipes/NAME.toml`) or by path."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from models.config import Recipe
from models.errors import UsageError
from models.registry import unknown
from models.settings import parse

FOLDER = Path(__file__).parent / "recipes"


def recipe_names() -> list[str]:
    """Names of the recipes that come with the workbench, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Return the recipe called `name`, or the one in the file of that path, with overrides applied.

    Args:
        name: a known name, or a path that ends in `.toml`.
        overrides: `field.field=value`, value in TOML ("model.heads=[2,1]"); a bare word is a string.

    Raises:
        UsageError: an unknown name or field, an unreadable file, an impossible value.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not name.endswith(".toml") and name not in recipe_names():
        raise UsageError(unknown("recipe", name, recipe_names()) + ". A file is given by its path, ending in .toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"recipe file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _build(_parse_toml(text, f"recipe {path.name}"), f"recipe {path.name}", path.stem, overrides)


def parse_recipe(text: str, where: str = "recipe") -> Recipe:
    """Return the recipe written in `text`; `where` names it in errors. Raises UsageError."""
    return _build(_parse_toml(text, where), where, None, ())


def dump_recipe(recipe: Recipe) -> str:
    """Return the recipe as TOML, every field spelled out, such that `parse_recipe` gives it back."""
    return tomli_w.dumps(_without_none(recipe.model_dump(mode="json")))


def override(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Return the recipe with `field.field=value` overrides applied; UsageError where one does not fit."""
    return _build(_without_none(recipe.model_dump(mode="json")), f"recipe {recipe.name}", None, overrides)


def _build(values: dict[str, Any], where: str, stem: str | None, overrides: Sequence[str]) -> Recipe:
    if stem is not None:
        values.setdefault("name", stem)
    for assignment in overrides:
        _assign(values, assignment)
    return parse(Recipe, values, where)


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not valid TOML: {error}") from None


def _assign(values: dict[str, Any], assignment: str) -> None:
    field, equals, text = assignment.partition("=")
    if not equals or not field.strip():
        raise UsageError(f"override {assignment!r} is not of the form field.field=value, as in model.d_model=64")
    *parents, last = field.strip().split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise UsageError(f"override {assignment!r}: {parent} has no fields of its own")
    try:
        values[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        values[last] = text.strip()


def _without_none(value: Any) -> Any:
    """TOML has no null: an unset field is left out."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
