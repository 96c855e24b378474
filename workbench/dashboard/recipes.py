"""The recipes that can be trained from a page, and what is typed to change one, read without torch.

Fields and values of settings are known to `models.config`, which brings torch: the command line checks them before
anything is made, and what it says is shown.
"""

import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import models
from models.errors import UsageError

MOST_SEED = 2**32 - 1
_MOST_LINES = 40
_LONGEST_LINE = 300
_FIELD = re.compile(r"[a-z][a-z_]*(\.[a-z_]+)*", re.ASCII)
_COSTLY = re.compile(r"task\.|model\.|train\.(batch_size|accumulation|micro_batch|precision|compile|evaluat)")
_MINUTE = 60


@dataclass(frozen=True)
class KnownRecipe:
    """A recipe that comes with the workbench.

    Attributes:
        name, description: of the recipe.
        device: where it is meant to run, "cpu" or "gpu".
        minutes: measured training time there, None where it was not measured.
        steps: optimiser steps.
        lengths: shortest and longest training string.
    """

    name: str
    description: str
    device: str
    minutes: float | None
    steps: int
    lengths: tuple[int, int]


@cache
def known_recipes() -> MappingProxyType[str, KnownRecipe]:
    """The recipes by name: those for this machine's processor first, each group in alphabetical order."""
    folder = Path(models.__file__ or "").parent / "recipes"
    read = [_read(path.stem, tomllib.loads(path.read_text(encoding="utf-8"))) for path in folder.glob("*.toml")]
    return MappingProxyType({recipe.name: recipe for recipe in sorted(read, key=lambda r: (r.device, r.name))})


def read_settings(text: str) -> tuple[str, ...]:
    """Read overrides, one `field=value` a line; empty lines are passed over.

    Raises:
        UsageError: a line that is none; says which, and what is expected.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > _MOST_LINES:
        raise UsageError(f"{len(lines)} overrides were given, at most {_MOST_LINES} are taken")
    for number, line in lines:
        field, equals, value = line.partition("=")
        if len(line) > _LONGEST_LINE or not line.isprintable():
            raise UsageError(
                f"line {number} is longer than {_LONGEST_LINE} characters, or holds one that does not print"
            )
        if not equals or not value.strip() or not _FIELD.fullmatch(field.strip()):
            raise UsageError(f"line {number}, {line[:60]!r}, is not of the form field=value, as in train.steps=30")
        if field.strip() == "seed":
            raise UsageError(f"line {number}: the seed has a field of its own")
    return tuple(f"{field.strip()}={value.strip()}" for field, _, value in (line.partition("=") for _, line in lines))


def require_seed(seed: int) -> int:
    """Return `seed`; UsageError where it is no seed."""
    if type(seed) is not int or not 0 <= seed <= MOST_SEED:
        raise UsageError(f"the seed must be a whole number from 0 to {MOST_SEED:,}")
    return seed


def estimate(recipe: KnownRecipe, settings: tuple[str, ...]) -> str:
    """How long a training takes, in words: measured, and scaled to the steps that are asked for."""
    fields = dict(setting.split("=", 1) for setting in settings)
    if recipe.minutes is None:
        return "not timed, meant for a GPU" if recipe.device == "gpu" else "not timed"
    share = 1.0
    with suppress(ValueError):
        share = max(1, int(fields.pop("train.steps", recipe.steps))) / recipe.steps
    where = "on 2 cores" if recipe.device == "cpu" else "on a GPU"
    as_it_is = " as it is" if any(_COSTLY.match(field) for field in fields) else ""
    return f"about {_duration(recipe.minutes * share)} {where}{as_it_is}, then evaluation"


def _duration(minutes: float) -> str:
    if minutes < 1:
        return f"{max(1, round(minutes * _MINUTE))} s"
    return f"{minutes:.0f} min" if minutes < 2 * _MINUTE else f"{minutes / _MINUTE:.0f} h"


def _read(name: str, content: dict[str, Any]) -> KnownRecipe:
    low, high = content["task"]["lengths"]
    return KnownRecipe(
        name=name,
        description=str(content.get("description", "")),
        device=str(content.get("device_hint", "cpu")),
        minutes=content.get("minutes"),
        steps=int(content["train"]["steps"]),
        lengths=(low, high),
    )
