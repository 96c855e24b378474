"""Failures of several subjects beside each other: the mean and spread over seeds, the law, what predicts failure."""

from collections.abc import Sequence

from workbench.content.failures import FailuresComparison, FailuresContent, SpreadContent
from workbench.figures.failures import spread_lines
from workbench.reports.failures_html import add_causes, add_curves, add_meaning
from workbench.reports.failures_text import named, scheme_of
from workbench.reports.failures_words import value_text
from workbench.reports.html import Document

_PREDICTORS = ("repetition", "length", "repetition x length")


def compare(contents: Sequence[FailuresContent]) -> FailuresComparison:
    """Put reports beside each other."""
    return FailuresComparison(
        finding="; ".join(f"{named(content)}: {content.finding}" for content in contents),
        reports=tuple(contents),
        spread=tuple(spread(contents)),
        about=contents[0].about,
    )


def spread(contents: Sequence[FailuresContent]) -> list[SpreadContent]:
    """Mean, lowest and highest exact match over subjects of one scheme, training range and number of steps.

    Of lengths and distributions that all of them were asked.
    """
    kinds: dict[tuple[str, int, int], list[FailuresContent]] = {}
    for content in contents:
        kinds.setdefault((scheme_of(content), content.trained[1], content.step), []).append(content)
    found = []
    for (scheme, trained, _), same in kinds.items():
        points: dict[tuple[str, int], list[float]] = {}
        for content in same:
            for point in content.curves:
                points.setdefault((point.distribution, point.length), []).append(point.exact_match)
        found += [
            SpreadContent(
                scheme=scheme,
                trained=trained,
                distribution=distribution,
                length=length,
                subjects=len(values),
                mean=sum(values) / len(values),
                lowest=min(values),
                highest=max(values),
            )
            for (distribution, length), values in points.items()
            if len(values) == len(same) > 1
        ]
    return found


def render(compared: FailuresComparison) -> str:
    """The comparison as one offline HTML file."""
    contents = compared.reports
    page = Document(f"Failures of {', '.join(named(content) for content in contents)}", f"{compared.finding}.")
    page.section("Length", "Lengths of training are shaded.")
    add_curves(page, contents)
    if compared.spread:
        page.figure(
            spread_lines(compared.spread), "Mean over subjects of one scheme; the band is from lowest to highest."
        )
    page.section("The law, side by side")
    page.table(
        ["subject", "scheme", ">length", ">slope of exact match", ">slope of margins (logits)", "says"],
        [
            [
                named(content),
                scheme_of(content),
                law.length,
                value_text(law.slope, sign=True),
                value_text(law.margin_slope, sign=True),
                law.sentence,
            ]
            for content in contents
            for law in (content.law_summary,)
            if law is not None
        ],
    )
    page.section("What predicts failure, side by side", "Coefficients for one standard deviation, log odds of failure.")
    page.table(
        ["subject", "scheme", *(f">{name.replace(' x ', ' × ')}" for name in _PREDICTORS), "at fixed length"],
        [
            [
                named(content),
                scheme_of(content),
                *(value_text(content.regression.failure.coefficients[name], sign=True) for name in _PREDICTORS),
                content.regression.sentence,
            ]
            for content in contents
        ],
    )
    page.section("Causes, side by side")
    add_meaning(page)
    for content in contents:
        page.subheading(named(content))
        page.paragraphs(
            f"{content.finding[:1].upper()}{content.finding[1:]}.", *([content.advice] if content.advice else [])
        )
        if content.failures:
            add_causes(page, content)
    page.section("Method", "The report of each subject alone has every failure, its evidence, and the method.")
    page.about(compared.about)
    return page.render()
