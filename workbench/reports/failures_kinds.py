"""Failures by kind of subject: what the seeds of a recipe have in common, as means with their lowest and highest."""

from collections import Counter
from collections.abc import Iterable, Sequence

from workbench.content.base import EstimateContent
from workbench.content.failures import FailuresContent, KindContent, RangeContent
from workbench.figures.style import scheme_style
from workbench.reports.failures_text import scheme_of
from workbench.reports.html import Document
from workbench.reports.spread import distinct_names

PREDICTORS = ("repetition", "length", "repetition x length")
_ANSWERS = {
    "yes": "the more repetitive fail",
    "reversed": "the less repetitive fail",
    "no": "neither",
    "not measurable": "not measurable",
}


def by_kind(contents: Sequence[FailuresContent]) -> list[KindContent]:
    """Put the subjects of each scheme, recipe and training range together.

    Several checkpoints of one run are no seeds: where a run comes twice, each step is a kind of its own.
    """
    names = kind_names(contents, steps=len({content.subject for content in contents}) < len(contents))
    return [
        _kind(name, [c for n, c in zip(names, contents, strict=True) if n == name]) for name in dict.fromkeys(names)
    ]


def kind_names(contents: Sequence[FailuresContent], *, steps: bool) -> list[str]:
    """Name of the kind of every subject: its scheme, and what else tells it from the others.

    Args:
        contents: of the subjects.
        steps: subjects after different numbers of steps are of different kinds.
    """
    return distinct_names(
        [
            (
                scheme_style(scheme_of(content)).label,
                content.recipe,
                f"trained ≤ {content.trained[1]:,}",
                f"step {content.step:,}" if steps else "",
            )
            for content in contents
        ]
    )


def add_kinds(page: Document, kinds: Sequence[KindContent]) -> None:
    """Add the table of kinds: the law, and what predicts failure."""
    page.section(
        "By scheme",
        "Means over seeds; in brackets the lowest and the highest (intervals within a subject stand further down). "
        "Slopes of the law are from survival 0 to 1, below 0 where repeats do harm. Coefficients are log odds of "
        "failure for one standard deviation. At fixed length: the probability that a failed string is more repetitive "
        "than a right one, 0.5 by chance, and the change of the margin for one standard deviation of repetition.",
    )
    page.table(
        ["scheme", ">seeds", ">steps", ">exact match", ">law at", ">slope", ">slope of margins (logits)"],
        [
            [
                kind.kind,
                len(kind.subjects),
                numbers(kind.steps),
                range_text(kind.exact_match),
                numbers(kind.law_lengths),
                range_text(kind.law_slope, sign=True),
                range_text(kind.law_margin_slope, sign=True),
            ]
            for kind in kinds
        ],
    )
    page.table(
        [
            "scheme",
            *(f">{name.replace(' x ', ' × ')}" for name in PREDICTORS),
            ">P(failed one more repetitive)",
            ">margin (logits)",
            "at fixed length",
        ],
        [
            [
                kind.kind,
                *(range_text(kind.coefficients[name], sign=True) for name in PREDICTORS),
                range_text(kind.auc),
                range_text(kind.margin_slope, sign=True),
                ", ".join(f"{_ANSWERS[answer]} ({n})" for answer, n in kind.answers.items()),
            ]
            for kind in kinds
        ],
    )


def lead(kinds: Sequence[KindContent]) -> str:
    """How much each kind copies of the strings asked, in one sentence."""
    said = [
        f"{kind.kind} copies {range_text(kind.exact_match)} of the strings"
        + (f" ({len(kind.subjects)} seeds)" if len(kind.subjects) > 1 else "")
        for kind in kinds
    ]
    return "; ".join(said)


def markdown(kinds: Sequence[KindContent]) -> str:
    """The kinds as a table for the terminal."""
    lines = [
        "## By scheme: mean over seeds, lowest and highest",
        "",
        "| scheme | seeds | steps | exact match | law's slope | of margins | repetition | length | "
        "P(failed one more repetitive) | margin |",
        "|---|---:|---|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        cells = [
            kind.kind,
            str(len(kind.subjects)),
            numbers(kind.steps),
            range_text(kind.exact_match),
            range_text(kind.law_slope, sign=True),
            range_text(kind.law_margin_slope, sign=True),
            *(range_text(kind.coefficients[name], sign=True) for name in PREDICTORS[:2]),
            range_text(kind.auc),
            range_text(kind.margin_slope, sign=True),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def range_text(found: RangeContent, sign: bool = False) -> str:
    """Mean, and lowest and highest where there are several."""
    if found.mean is None or found.lowest is None or found.highest is None:
        return "not measurable"
    form = "+.2f" if sign else ".2f"
    between = f" [{found.lowest:{form}}, {found.highest:{form}}]" if found.subjects > 1 else ""
    return f"{found.mean:{form}}{between}"


def numbers(values: Iterable[int]) -> str:
    """Different numbers in ascending order."""
    return ", ".join(f"{value:,}" for value in sorted(set(values)))


def _kind(name: str, contents: Sequence[FailuresContent]) -> KindContent:
    laws = [content.law_summary for content in contents if content.law_summary is not None]
    fixed = [content.regression.fixed_length for content in contents]
    return KindContent(
        kind=name,
        trained=contents[0].trained[1],
        subjects=tuple(content.subject for content in contents),
        steps=tuple(content.step for content in contents),
        exact_match=_range([1 - content.failed / content.strings for content in contents]),
        law_lengths=tuple(law.length for law in laws),
        law_slope=_estimates(law.slope for law in laws),
        law_margin_slope=_estimates(law.margin_slope for law in laws),
        coefficients={
            name: _estimates(content.regression.failure.coefficients[name] for content in contents)
            for name in PREDICTORS
        },
        auc=_estimates(found.auc for found in fixed),
        margin_slope=_estimates(found.margin_slope for found in fixed),
        answers=dict(Counter(found.answer for found in fixed)),
    )


def _estimates(estimates: Iterable[EstimateContent]) -> RangeContent:
    return _range([estimate.value for estimate in estimates if estimate.value is not None])


def _range(values: Sequence[float]) -> RangeContent:
    if not values:
        return RangeContent(subjects=0, mean=None, lowest=None, highest=None)
    return RangeContent(subjects=len(values), mean=sum(values) / len(values), lowest=min(values), highest=max(values))
