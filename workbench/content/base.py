"""What reports hold, as pydantic models: their JSON is what these dump to, their published schema what these say.

A schema changes only by additions; anything else raises its `format`.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from models.errors import UsageError
from models.registry import Registry, unknown


class Content(BaseModel):
    """Part of a report; unknown fields are refused, numbers are finite or null."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class EstimateContent(Content):
    """A number with its 95 % bootstrap interval over strings."""

    value: float | None = Field(description="null where it is not measurable; `reason` says why")
    interval: tuple[float, float] | None
    rows: int = Field(description="query rows it rests on")
    strings: int = Field(0, description="strings those rows are from")
    chance: float | None = Field(None, description="what a head without the property would score")
    reason: str = ""


class About(Content):
    """How a report came about."""

    created: str = Field(description="ISO 8601, UTC; the only part that differs between two runs of one command")
    versions: dict[str, str]
    seed: int
    device: str


def finite(value: Any) -> Any:
    """Return `value` with NaN and infinities as None, in nested dicts and lists too."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


SCHEMAS: Registry[type[Content]] = Registry("report")


def schema(name: str) -> dict[str, Any]:
    """The JSON schema of a report; UsageError for an unknown one."""
    if name not in SCHEMAS:
        raise UsageError(unknown(SCHEMAS.kind, name, SCHEMAS))
    return SCHEMAS[name].model_json_schema()
