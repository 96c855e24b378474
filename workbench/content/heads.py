"""The content of a heads report."""

from typing import Any

from pydantic import Field

from workbench.content.base import SCHEMAS, About, Content, EstimateContent


class EvidenceContent(EstimateContent):
    """A score that a label rests on."""

    score: str
    condition: str | None = Field(description="what it had to meet, null where it is only shown beside")


class HeadContent(Content):
    """One attention head."""

    layer: int
    head: int
    label: str
    margin: float = Field(description="0 at the nearest threshold of its rule, 1 at best, negative where no rule fits")
    certain: bool = Field(description="no value inside the scores' intervals would change the label")
    doubts: tuple[str, ...] = ()
    evidence: tuple[EvidenceContent, ...] = ()
    shares: dict[str, float | None] = Field({}, description="of each pure head in its pattern, by one non-negative fit")
    scores: dict[str, EstimateContent]
    expected: str | None = Field(None, description="the role it was built for; hand-built models only")
    intervention: dict[str, Any] = Field(
        {}, description="what was done, its control, the effects, and whether they confirm the label"
    )


class RuleContent(Content):
    """A rule of the label table."""

    label: str
    conditions: tuple[str, ...]
    sentence: str


class PathContent(Content):
    """What one head's output does through another head's input."""

    sender: tuple[int, int] = Field(description="layer, head")
    receiver: tuple[int, int]
    input: str = Field(description="q, k or v")
    source_mass: EstimateContent = Field(description="change of the receiver's attention to the true source")
    logit_difference: EstimateContent
    composition: float | None = Field(description="norm of composition above that of random weights")


class Strings(Content):
    """The strings that heads were judged on."""

    kind: str
    distribution: str
    length: int
    strings: int


@SCHEMAS.register("heads")
class HeadsContent(Content):
    """What `workbench heads SUBJECT --json` writes."""

    format: int = 1
    subject: str = Field(description="a run's id, or built:NAME")
    recipe: str
    step: int = Field(description="optimiser steps its weights have seen, 0 for hand-built models")
    schemes: tuple[str, ...] = Field(description="positional scheme of each layer")
    finding: str = Field(description="the labels in one sentence")
    heads: tuple[HeadContent, ...]
    strings: tuple[Strings, ...]
    notes: tuple[str, ...] = ()
    rules: tuple[RuleContent, ...] = Field(
        description="in order; thresholds are on (value - chance) / (1 - chance) where a chance is known"
    )
    expectations: dict[str, dict[str, str]] = Field(description="what every label predicts of an intervention")
    labels: dict[str, dict[str, Any]] = Field(
        {}, description="what each label predicts, done to all its heads together"
    )
    repetition: dict[str, dict[str, Any]] = Field(
        {}, description="effects of ablating all heads of a label, on strings that repeat themselves"
    )
    paths: tuple[PathContent, ...] = Field((), description="the strongest paths between heads of different layers")
    probes: tuple[dict[str, Any], ...] = Field((), description="what can be read where, one entry a kind of probe")
    about: About


class AgreementContent(Content):
    """How far two subjects of the same shape have the same labels; heads of a layer may stand in any order."""

    first: str
    second: str
    agreement: float = Field(description="share of heads, 0 to 1, that find one of the same label in the same layer")
    certain: float | None = Field(
        default=None,
        description="the same of certain labels alone, as a share of those of the subject that has more; None where "
        "neither has one",
    )


class LabelCount(Content):
    """How many heads of one layer of one subject have a label."""

    subject: str
    layer: int
    label: str
    heads: int


class PointContent(Content):
    """A head in the space of standardised scores."""

    subject: str
    layer: int
    head: int
    label: str
    coordinates: tuple[float, ...]
    cluster: int | None


class SpaceContent(Content):
    """Principal components and clusters of all heads compared."""

    scores: tuple[str, ...]
    explained: tuple[float, ...] = Field(description="share of the variance of each component")
    loadings: tuple[tuple[float, ...], ...] = Field(description="correlation of every score with each component")
    points: tuple[PointContent, ...]
    silhouette: float | None
    agreement: float | None = Field(description="adjusted Rand index of clusters and labels")
    reason: str = Field("", description="why there are no clusters")


@SCHEMAS.register("heads-comparison")
class ComparisonContent(Content):
    """What `workbench heads SUBJECT SUBJECT ... --json` writes."""

    format: int = 1
    finding: str
    reports: tuple[HeadsContent, ...]
    counts: tuple[LabelCount, ...]
    agreement: tuple[AgreementContent, ...]
    space: SpaceContent | None
    about: About


class CheckpointContent(Content):
    """The heads at one checkpoint; scores that labels rest on, without interventions."""

    step: int
    heads: tuple[HeadContent, ...]
    exact_match: float | None = Field(None, description="within the training range, in training's newest evaluation")


@SCHEMAS.register("heads-history")
class HistoryContent(Content):
    """What `workbench heads RUN --checkpoints --json` writes."""

    format: int = 1
    subject: str
    recipe: str
    finding: str = Field(description="when each head formed, in one sentence")
    strings: tuple[Strings, ...]
    rules: tuple[RuleContent, ...]
    checkpoints: tuple[CheckpointContent, ...]
    about: About
