"""The content of a failures report."""

from typing import Any

from pydantic import Field

from workbench.content.base import SCHEMAS, About, Content, EstimateContent
from workbench.content.lengths import SpreadContent


class TrialContent(Content):
    """A counterfactual beside its control, both shares of edited strings, 0 to 1."""

    cause: str = Field(description="that it tests")
    share: float = Field(description="on which the copy is right again; for stop, on which EOS is wrong again")
    control: float
    draws: int = Field(description="edited strings of each")
    changed: float = Field(description="mean number of tokens flipped or removed")
    left: float | None = Field(description="repetition: share on which attention has left the competitors besides")
    outside: float | None = Field(description="repetition: share of the control's flips in no competitor's context")
    verdict: str = Field(description="confirmed, unconfirmed or refuted")


class CompetitorContent(Content):
    """A place with the same context that the failed row attended to."""

    index: int = Field(description="in the string; its length stands for the delimiter, the source of EOS")
    mass: float = Field(description="share of the attention that decides the answer, 0 to 1")
    context: int = Field(description="tokens of context that it shares with the right place")


class AftermathContent(Content):
    """What the model goes on with from the first error on, left to itself."""

    continuation: tuple[int, ...] = Field(description="token ids")
    slip: int | None = Field(description="positions it is ahead of the string; null where it follows none of it")
    follows: int
    recovers_at: int | None
    stops_at: int | None


class FailureContent(Content):
    """One string that was not copied exactly."""

    distribution: str
    length: int
    string: str = Field(description="digits in a row, or ids separated by spaces where a token has several digits")
    first_error: int = Field(description="index of the first wrong token; `length` where only EOS is wrong")
    symptom: str = Field(description="wrong token, early EOS or late EOS")
    predicted: str = Field(description="token")
    right: str = Field(description="token")
    logit_predicted: float
    logit_right: float
    cause: str = Field(description="repetition, length, stop or other")
    confirmed: bool = Field(description="by its counterfactual")
    also: tuple[str, ...] = Field(description="other causes that are confirmed")
    sentence: str = Field(description="the evidence in words")
    competitors: tuple[CompetitorContent, ...] = Field(description="most attended first")
    trials: tuple[TrialContent, ...]
    aftermath: AftermathContent
    repetition: dict[str, Any] = Field(description="of the string")
    evidence: dict[str, Any] = Field(description="attention at the row, coordinates beside trained ones, trials")
    anatomy: dict[str, Any] | None = Field(None, description="every head at the row; of some failures of each cause")


class CauseContent(Content):
    """One cause over all failures."""

    failures: int = Field(description="attributed to it")
    confirmed: int = Field(description="of these, by a counterfactual")
    unconfirmed: int
    tried: int = Field(description="failures on which its counterfactual could be tried, whatever their cause")
    repaired: EstimateContent = Field(description="share of these that it mends; for stop, that recur")
    supported: EstimateContent = Field(
        description="share of these that it mends as the cause predicts; for repetition, attention leaves competitors"
    )
    control: EstimateContent = Field(description="share of these that the control mends")


class GroupContent(Content):
    """Strings of one distribution and length."""

    distribution: str
    length: int
    strings: int
    failed: int
    explained: int
    exact_match: float
    interval: tuple[float, float] = Field(description="95 % Wilson interval")


class ScoreContent(Content):
    """A point of a length curve."""

    distribution: str
    length: int
    strings: int
    exact_match: float
    interval: tuple[float, float] = Field(description="95 % Wilson interval")


class LawContent(Content):
    """Exact match and margin of strings made of a repeated block."""

    period: int
    flip: float
    survival: float = Field(description="(1 - flip) ^ period")
    strings: int
    exact_match: float
    interval: tuple[float, float] = Field(description="95 % Wilson interval")
    margin: EstimateContent = Field(description="mean of the strings' smallest logit margins")


class LawSummary(Content):
    """The length that the law was measured at, and what came out."""

    length: int
    control: str = Field(description="distribution of strings without repeats that the length was chosen by")
    control_exact_match: float
    handled: bool = Field(description="the model copies at least half of these")
    slope: EstimateContent = Field(description="of exact match over survival; below 0 where the law holds")
    margin_slope: EstimateContent = Field(description="of the margin over survival, logits")
    sentence: str


class RegressionContent(Content):
    """Coefficients of one regression, for one standard deviation of each predictor."""

    outcome: str
    strings: int
    failed: int
    coefficients: dict[str, EstimateContent]


class AtLengthContent(Content):
    """Does repetition predict failure among strings of one length."""

    length: int
    strings: int
    failed: int
    auc: EstimateContent = Field(description="probability that a failed string is more repetitive than a right one")
    margin_slope: EstimateContent


class FixedLengthContent(Content):
    """Does repetition predict failure at fixed length."""

    answer: str = Field(description="yes, no, reversed (failed strings are less repetitive) or not measurable")
    auc: EstimateContent
    margin_slope: EstimateContent
    lengths: tuple[AtLengthContent, ...]


class PredictionContent(Content):
    """What predicts failures and margins."""

    means: dict[str, float]
    deviations: dict[str, float]
    failure: RegressionContent
    margin: RegressionContent
    margin_of_right: RegressionContent
    fixed_length: FixedLengthContent
    sentence: str


@SCHEMAS.register("failures")
class FailuresContent(Content):
    """What `workbench failures SUBJECT --json` writes."""

    format: int = 1
    subject: str = Field(description="a run's id, or built:NAME")
    recipe: str
    step: int = Field(description="optimiser steps its weights have seen, 0 for hand-built models")
    schemes: tuple[str, ...] = Field(description="positional scheme of each layer")
    trained: tuple[int, int] = Field(description="shortest and longest trained string")
    finding: str = Field(description="what fails and why, in one sentence")
    advice: str = Field("", description="what to do where too little fails to say anything")
    strings: int
    failed: int
    groups: tuple[GroupContent, ...]
    causes: dict[str, CauseContent]
    failures: tuple[FailureContent, ...] = Field(description="that were explained")
    rows: dict[str, dict[str, EstimateContent]] = Field(
        description="what failed rows attended to, beside right rows and random rows of the same strings"
    )
    curves: tuple[ScoreContent, ...] = Field(description="exact match by length and distribution")
    law: tuple[LawContent, ...]
    law_summary: LawSummary | None
    regression: PredictionContent
    notes: tuple[str, ...] = ()
    about: About


class RangeContent(Content):
    """A value over several subjects."""

    subjects: int = Field(description="of which it could be measured")
    mean: float | None
    lowest: float | None
    highest: float | None


class KindContent(Content):
    """Subjects of one scheme, recipe and training range beside each other, each a run of its own: seeds."""

    kind: str
    trained: int = Field(description="longest trained string")
    subjects: tuple[str, ...]
    steps: tuple[int, ...] = Field(description="of each subject")
    exact_match: RangeContent = Field(description="of the strings asked, of all distributions together")
    law_lengths: tuple[int, ...] = Field(description="that the law was measured at")
    law_slope: RangeContent = Field(description="of exact match over survival")
    law_margin_slope: RangeContent = Field(description="of the margin over survival, logits")
    coefficients: dict[str, RangeContent] = Field(
        description="log odds of failure, for one standard deviation of the subject's own strings"
    )
    auc: RangeContent = Field(description="at fixed length, a failed string is more repetitive than a right one")
    margin_slope: RangeContent = Field(description="at fixed length, logits for one standard deviation of repetition")
    answers: dict[str, int] = Field(description="subjects by answer: does repetition predict failure at fixed length")


@SCHEMAS.register("failures-comparison")
class FailuresComparison(Content):
    """What `workbench failures SUBJECT SUBJECT ... --json` writes."""

    format: int = 1
    finding: str
    reports: tuple[FailuresContent, ...]
    spread: tuple[SpreadContent, ...]
    kinds: tuple[KindContent, ...] = Field((), description="one for each scheme, recipe and training range")
    about: About
