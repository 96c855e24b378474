"""The base of all settings: pydantic models that are immutable and refuse unknown fields."""

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from models.errors import UsageError
from models.registry import unknown

_LONGEST_VALUE = 80  # characters of a given value that an error repeats

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """Immutable settings; an unknown field, NaN or infinity is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def parse(kind: type[S], values: Any, where: str) -> S:
    """Build `kind` from `values`, or raise UsageError with one clause per problem: field, value, what is allowed.

    Args:
        kind: a Settings class.
        values: what was read from a file or given by a caller.
        where: what the values are, for the message ("recipe my.toml").
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{where}: {describe(error, kind)}") from None


def describe(error: ValidationError, kind: type[BaseModel]) -> str:
    """Return the problems of a validation as one line that names each field, its value and what is allowed."""
    problems = error.errors()
    places = [problem["loc"] for problem in problems]
    # A tuple that lost its only item to an error is reported as too short as well: only the item is worth a word.
    told = [
        problem
        for problem in problems
        if problem["type"] != "too_short" or not any(_inside(place, problem["loc"]) for place in places)
    ]
    return "; ".join(_describe_one(problem, kind) for problem in told)


def _inside(place: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return len(place) > len(outer) and place[: len(outer)] == outer


def _describe_one(problem: Any, kind: type[BaseModel]) -> str:
    field = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return unknown("field", field, _fields_at(kind, problem["loc"][:-1]))
    if problem["type"] == "missing":
        return f"field {field!r} is missing"
    if problem["type"] == "too_short":
        return f"{field}: {len(problem['input'])} given, at least {problem['ctx']['min_length']} needed"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = repr(problem["input"])
    if isinstance(problem["input"], dict) or len(given) > _LONGEST_VALUE:  # where it stands says enough
        return f"{field}: {message}" if field else message
    return f"{field or 'settings'} = {given}: {message}"


def _fields_at(kind: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Dotted names of the fields that may stand beside the one found at `path`; empty where `path` leaves settings."""
    for part in path:
        if isinstance(part, int):  # an item of a tuple, whose type the field before it has given
            continue
        field = kind.model_fields.get(part)
        nested = _settings_in(field.annotation) if field else None
        if nested is None:
            return []
        kind = nested
    return [".".join(map(str, (*path, name))) for name in kind.model_fields]


def _settings_in(annotation: Any) -> type[BaseModel] | None:
    """The settings class that `annotation` is or holds (`tuple[Mark, ...]`), or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _settings_in(part))), None)
