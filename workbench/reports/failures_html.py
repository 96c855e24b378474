"""The failures report as one offline HTML file: causes beside their controls, every failure, the law, the curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.content.failures import CauseContent, FailuresContent
from workbench.figures.curves import LengthCurve, length_generalisation
from workbench.figures.failures import (
    cause_bars,
    coefficient_dots,
    fixed_length_dots,
    law_lines,
)
from workbench.reports.failures_strings import add_failures, add_heads
from workbench.reports.failures_text import named, scheme_of
from workbench.reports.failures_words import TRIED, value_text
from workbench.reports.html import Document, Mark


def render(content: FailuresContent) -> str:
    """The file's text."""
    return document(content).render()


def document(content: FailuresContent) -> Document:
    """The page."""
    page = Document(f"Failures of {named(content)}", f"{content.finding[:1].upper()}{content.finding[1:]}.")
    page.section("Causes", *([content.advice] if content.advice else []))
    if content.failures:
        add_meaning(page)
        add_causes(page, content)
        add_failures(page, content)
        add_heads(page, content)
    page.section("Length", _trained_text(content))
    add_curves(page, [content])
    _law(page, content)
    _prediction(page, content)
    _method(page, content)
    return page


def add_meaning(page: Document) -> None:
    """Add what each cause says, how it is tried, and when it counts as confirmed."""
    page.paragraphs(
        "Each cause has a counterfactual that should prevent the error, and a control that should not. A failure's "
        "cause is confirmed where the counterfactual mends at least half of the edited strings beyond the control's "
        "share, unconfirmed where it is less clear; where every cause is refuted the failure is put under other. The "
        "last columns of the counts are over all failures that a counterfactual could be tried on, whatever they were "
        "put down to."
    )
    page.table(
        ["cause", "what it says", "counterfactual", "mended as predicted where", "control"],
        [[Mark(name, "strong"), *words] for name, words in TRIED.items()],
    )


def add_causes(page: Document, content: FailuresContent) -> None:
    """Add how many failures each cause has, beside the controls, and the bars by length and distribution."""
    page.table(
        [
            "cause",
            ">failures",
            ">confirmed",
            ">unconfirmed",
            ">tried on",
            ">mended",
            ">as predicted",
            ">by the control",
        ],
        [
            [
                Mark(name, "strong"),
                f"{cause.failures:,}",
                *([f"{cause.confirmed:,}", _unconfirmed(cause), f"{cause.tried:,}"] if name in TRIED else ["–"] * 3),
                *_shares(cause),
            ]
            for name, cause in content.causes.items()
        ],
    )
    page.figure(
        cause_bars(content.groups, content.failures),
        "Share of strings that fail, stacked by cause; hatched where the cause is not confirmed.",
    )


def add_curves(page: Document, contents: Sequence[FailuresContent]) -> None:
    """Add exact match over length, one panel a distribution, the training ranges shaded."""
    names = list(dict.fromkeys(point.distribution for content in contents for point in content.curves))
    page.figure(
        length_generalisation(
            [_curve(content, name) for content in contents for name in names if _has(content, name)],
            [content.trained for content in contents],
            names,
            title="Exact match by length",
        ),
        "Exact match by length and distribution with 95 % Wilson intervals; lengths of training are shaded.",
    )


def _law(page: Document, content: FailuresContent) -> None:
    summary = content.law_summary
    if summary is None:
        return
    page.section(
        "The law: exact match against survival",
        summary.sentence,
        "Strings are a random block of m tokens, tiled, each token then flipped with probability p; a block is left as "
        f"it was with probability (1 − p)^m. The length is one at which strings without repeats ({summary.control}) "
        f"are copied in {summary.control_exact_match:.0%}. A margin is the smallest, over a string's rows, of the "
        "right token's logit over the largest other one: negative where the copy fails, and shrinking before it does.",
    )
    page.figure(law_lines(content.law), "Exact match and margins against survival, with 95 % intervals.")
    page.table(
        [">period", ">flip", ">survival", ">strings", ">exact match", ">margin (logits)"],
        [
            [
                point.period,
                f"{point.flip:.2f}",
                f"{point.survival:.2f}",
                point.strings,
                f"{point.exact_match:.2f} [{point.interval[0]:.2f}, {point.interval[1]:.2f}]",
                value_text(point.margin),
            ]
            for point in content.law
        ],
    )


def _prediction(page: Document, content: FailuresContent) -> None:
    found = content.regression
    page.section(
        "What predicts failure",
        found.sentence,
        "Repetition of a string is log2(1 + mean context that a position shares with another one); its mean here is "
        f"{found.means['repetition']:.2f}, one standard deviation {found.deviations['repetition']:.2f}. Length is "
        f"log2(tokens): {found.means['length']:.2f}, {found.deviations['length']:.2f}. The regression of failures is "
        "logistic with a ridge penalty, so that what separates perfectly gets a large coefficient and not an infinite "
        "one; the regression of margins is least squares.",
    )
    figure = coefficient_dots(found)
    if figure is not None:
        page.figure(figure, "Coefficients with 95 % intervals, by bootstrap over strings.")
    names = list(found.margin.coefficients)
    page.table(
        ["regression", ">strings", ">failed", *(f">{name.replace(' x ', ' × ')}" for name in names)],
        [
            [label, f"{one.strings:,}", f"{one.failed:,}", *_coefficients(one.coefficients, names)]
            for label, one in (
                ("failure (log odds)", found.failure),
                ("margin (logits)", found.margin),
                ("margin, right copies", found.margin_of_right),
            )
        ],
    )
    page.subheading("At fixed length")
    fixed = fixed_length_dots(found.fixed_length.lengths)
    if fixed is not None:
        page.figure(fixed, "Of lengths at which some strings fail and some do not; 0.5 is chance.")
    page.table(
        [">length", ">strings", ">failed", ">P(failed one is more repetitive)", ">margin, for one standard deviation"],
        [
            [
                f"{one.length:,}",
                one.strings,
                one.failed,
                value_text(one.auc) if one.auc.value is not None else "–",
                value_text(one.margin_slope, sign=True),
            ]
            for one in found.fixed_length.lengths
        ],
    )


def _method(page: Document, content: FailuresContent) -> None:
    page.section(
        "Method",
        f"{_weights_text(content)} Layers: {', '.join(content.schemes)}.",
        "Strings are those of workbench evaluate with the same seed. A share of a counterfactual is the smaller of "
        "two: with the asked token as it is and with another in its place, so that a token that happens to be right "
        "does not count. Intervals of shares of strings are Wilson's, all others are by bootstrap over strings.",
    )
    page.table(
        ["distribution", ">length", ">strings", ">failed", ">explained", ">exact match"],
        [
            [
                group.distribution,
                f"{group.length:,}",
                group.strings,
                group.failed,
                group.explained,
                f"{group.exact_match:.2f} [{group.interval[0]:.2f}, {group.interval[1]:.2f}]",
            ]
            for group in content.groups
        ],
    )
    page.about(content.about)


def _weights_text(content: FailuresContent) -> str:
    if content.step:
        return f"Weights after {content.step:,} steps of {content.recipe}."
    return f"Hand-built weights of {content.recipe}."


def _trained_text(content: FailuresContent) -> str:
    low, high = content.trained
    return f"{'Trained on' if content.step else 'Built for'} strings of {low:,} to {high:,} tokens."


def _unconfirmed(cause: CauseContent) -> Mark | str:
    return Mark(f"{cause.unconfirmed:,}", "bad") if cause.unconfirmed else "0"


def _shares(cause: CauseContent) -> list[str]:
    shares = (cause.repaired, cause.supported, cause.control)
    return [value_text(share) if cause.tried else "–" for share in shares]


def _coefficients(coefficients: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [value_text(coefficients[name], sign=True) for name in names]


def _has(content: FailuresContent, name: str) -> bool:
    return any(point.distribution == name for point in content.curves)


def _curve(content: FailuresContent, name: str) -> LengthCurve:
    points = [point for point in content.curves if point.distribution == name]
    return LengthCurve(
        run=named(content),
        scheme=scheme_of(content),
        distribution=name,
        lengths=np.array([point.length for point in points]),
        exact_match=np.array([point.exact_match for point in points]),
        low=np.array([point.interval[0] for point in points]),
        high=np.array([point.interval[1] for point in points]),
        strings=np.array([point.strings for point in points]),
    )
