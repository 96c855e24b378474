"""The content of a report on length generalisation, and the spread over seeds that other reports have too."""

from pydantic import Field

from workbench.content.base import SCHEMAS, About, Content


class SpreadContent(Content):
    """Exact match over subjects that differ in their seeds alone."""

    group: str = Field("", description="name of the subjects' group")
    scheme: str = Field(description="positional schemes of the layers")
    trained: int = Field(description="longest trained string")
    distribution: str
    length: int = Field(description="of the strings; the longest where it is a range")
    shortest: int | None = Field(None, description="the shortest where it is a range, else the length")
    subjects: int
    strings: int = Field(0, description="of all subjects together")
    mean: float
    lowest: float
    highest: float
    interval: tuple[float, float] | None = Field(
        None, description="95 % Wilson interval, of a single subject; over several, lowest and highest say more"
    )


class LengthSubject(Content):
    """A model that was measured."""

    subject: str = Field(description="a run's id, or built:NAME")
    recipe: str
    step: int = Field(description="optimiser steps its weights have seen, 0 for hand-built models")
    seed: int
    schemes: tuple[str, ...] = Field(description="positional scheme of each layer")
    trained: tuple[int, int] = Field(description="shortest and longest trained string")
    group: str = Field(description="subjects of one group differ in their seeds alone")


class LengthScore(Content):
    """How one subject copied the strings of one distribution and length."""

    subject: str
    step: int
    distribution: str
    shortest: int
    length: int
    strings: int
    exact_match: float = Field(description="share copied exactly, EOS included, 0 to 1")
    token_accuracy: float = Field(description="share of right tokens, 0 to 1")
    interval: tuple[float, float] = Field(description="95 % Wilson interval of exact_match")
    kept: bool = Field(description="taken from the run's evaluation.json, which answers the same request")


@SCHEMAS.register("lengths")
class LengthsContent(Content):
    """What `workbench lengths SUBJECT ... --json` writes."""

    format: int = 1
    finding: str = Field(description="how far each group copies, in one sentence")
    subjects: tuple[LengthSubject, ...]
    scores: tuple[LengthScore, ...] = Field(description="of every subject, in the order of subjects")
    spread: tuple[SpreadContent, ...] = Field(description="mean, lowest and highest over each group's subjects")
    asked: int = Field(description="scores there are when nothing interrupts")
    interrupted: bool
    about: About
