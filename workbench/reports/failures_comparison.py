"""Failures of several subjects beside each other: the mean and spread over seeds, the law, what predicts failure."""

from collections.abc import Sequence

from workbench.content.failures import FailuresComparison, FailuresContent, SpreadContent
from workbench.figures.lengths import length_spread
from workbench.reports.failures_html import add_causes, add_curves, add_meaning
from workbench.reports.failures_kinds import PREDICTORS, add_kinds, by_kind, kind_names, lead
from workbench.reports.failures_text import named, scheme_of
from workbench.reports.failures_words import value_text
from workbench.reports.html import Document
from workbench.reports.spread import Measured, spread

FEW = 3  # subjects that a title names


def compare(contents: Sequence[FailuresContent]) -> FailuresComparison:
    """Put reports beside each other."""
    return FailuresComparison(
        finding="; ".join(f"{named(content)}: {content.finding}" for content in contents),
        reports=tuple(contents),
        spread=tuple(over_seeds(contents)),
        kinds=tuple(by_kind(contents)),
        about=contents[0].about,
    )


def over_seeds(contents: Sequence[FailuresContent]) -> list[SpreadContent]:
    """Mean, lowest and highest exact match over subjects of one scheme, training range, recipe and number of steps.

    Of lengths and distributions that all of them were asked, where there are several.
    """
    groups = kind_names(contents, steps=True)
    measured = [
        Measured(
            group=group,
            scheme=scheme_of(content),
            trained=content.trained[1],
            distribution=point.distribution,
            shortest=point.length,
            length=point.length,
            strings=point.strings,
            exact_match=point.exact_match,
        )
        for group, content in zip(groups, contents, strict=True)
        for point in content.curves
    ]
    return [point for point in spread(measured) if 1 < point.subjects == groups.count(point.group)]


def render(compared: FailuresComparison) -> str:
    """The comparison as one offline HTML file."""
    contents = compared.reports
    few = len(contents) <= FEW
    names = ", ".join(named(content) for content in contents) if few else f"{len(contents)} subjects"
    page = Document(f"Failures of {names}", f"{compared.finding if few else lead(compared.kinds)}.")
    add_kinds(page, compared.kinds)
    page.section("Length", "Lengths of training are shaded.")
    add_curves(page, contents)
    if compared.spread:
        page.figure(
            length_spread(compared.spread, title="Exact match over seeds"),
            "Mean over subjects that differ in their seeds alone; the band is from the lowest to the highest.",
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
        ["subject", "scheme", *(f">{name.replace(' x ', ' × ')}" for name in PREDICTORS), "at fixed length"],
        [
            [
                named(content),
                scheme_of(content),
                *(value_text(content.regression.failure.coefficients[name], sign=True) for name in PREDICTORS),
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
