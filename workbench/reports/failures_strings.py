"""Failures string by string in an HTML report: a table of all, where their rows looked, and heads of a few."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.content.failures import FailureContent, FailuresContent
from workbench.figures.failures import row_dots
from workbench.reports.failures_words import TRIED, aftermath_text, value_text
from workbench.reports.html import Document, Mark, Tokens

BEFORE, AFTER = 14, 6  # tokens shown before and after an error
# Where a head's attention went, by kind of key.
KINDS = {
    "source": "true source",
    "competitor": "competitors",
    "string": "rest of the string",
    "copy": "copy so far",
    "anchor": "anchors",
}


def add_failures(page: Document, content: FailuresContent) -> None:
    """Add every failure as a row of a table, and where failed rows looked beside right and random ones."""
    page.section(
        "Every failure",
        "The first wrong token of each string, where the model has read the same as in a right copy. The string is "
        f"shown around it, at most {BEFORE} tokens before: the token that should have been copied is underlined, the "
        "places whose context is the same and that were attended to have a coloured ground.",
        "Under each cause that could be tried: the share of edited strings that its counterfactual mends as predicted, "
        "and the share that its control mends. The JSON says more of each, and the CSV has one failure a line.",
    )
    page.paragraphs(*(note[:1].upper() + note[1:] + "." for note in content.notes))
    page.table(
        ["distribution", ">length", ">index", "string around it", "error", ">logits", "cause",
         *(f">{cause}" for cause in TRIED), "then, in tokens"],
        [
            [
                failure.distribution,
                f"{failure.length:,}",
                f"{failure.first_error:,}",
                _around(failure),
                f"{failure.right} → {failure.predicted}",
                f"{failure.logit_right:.1f} < {failure.logit_predicted:.1f}",
                _cause(failure),
                *(_tried(failure, cause) for cause in TRIED),
                aftermath_text(failure.aftermath, failure),
            ]
            for failure in content.failures
        ],
    )  # fmt: skip
    page.subheading("Where failed rows looked")
    page.paragraphs(
        "On few tokens nearly every row has competitors, wrong or right. So failed rows stand beside right rows and "
        "random rows of the same copies, and competitors beside as many random places of the string."
    )
    page.figure(row_dots(content.rows), "Mean share of the deciding attention, with 95 % intervals over strings.")
    page.table(
        ["rows", *(f">{name.replace('_', ' ')}" for name in content.rows["failed"]), ">rows measured"],
        [
            [kind, *(value_text(found) for found in by.values()), f"{next(iter(by.values())).rows:,}"]
            for kind, by in content.rows.items()
        ],
    )


def add_heads(page: Document, content: FailuresContent) -> None:
    """Add the heads of a few failures of every cause."""
    shown = [failure for failure in content.failures if failure.anatomy is not None]
    page.section(
        "Looked into",
        "Heads of the last layers at the first wrong row, for a few failures of each cause: their attention by kind of "
        "key, which token the attended mix would have copied, and what it adds to the two logits.",
    )
    for failure in shown:
        anatomy = failure.anatomy or {}
        sure = failure.confirmed or failure.cause == "other"
        page.subheading(
            f"{failure.distribution}, {failure.length:,} tokens, index {failure.first_error:,}: {failure.right} became "
            f"{failure.predicted} ({failure.cause}{'' if sure else ', unconfirmed'})"
        )
        heads = anatomy.get("heads", [])
        page.table(
            ["head", *(f">{label}" for label in KINDS.values()), "of these", ">context of competitors", "would copy",
             f">to {failure.right}", f">to {failure.predicted}"],
            [
                [
                    Mark(f"{head['layer']}.{head['head']}", "strong"),
                    *(f"{head['mass'][kind]:.2f}" for kind in KINDS),
                    _anchors(head["anchors"]),
                    _number(head["match"], 1),
                    head["copied"] or "–",
                    f"{head['to_right']:+.2f}",
                    f"{head['to_predicted']:+.2f}",
                ]
                for head in heads
            ],
        )  # fmt: skip
        page.paragraphs(*_stripes(anatomy.get("stripes", []), content.trained[1]))


def _cause(failure: FailureContent) -> Mark:
    if failure.cause == "other":
        return Mark("other", "quiet")
    if not failure.confirmed:
        return Mark(f"{failure.cause}, unconfirmed", "bad")
    return Mark(failure.cause + "".join(f" (also {cause})" for cause in failure.also), "strong")


def _tried(failure: FailureContent, cause: str) -> Mark | str:
    trial = next((trial for trial in failure.trials if trial.cause == cause), None)
    if trial is None:
        return "–"
    share = trial.share if trial.left is None else trial.left
    return Mark(f"{share:.0%}, {trial.control:.0%}", "good" if trial.verdict == "confirmed" else "quiet")


def _around(failure: FailureContent) -> Tokens:
    spaced = " " in failure.string
    tokens = failure.string.split() if spaced else list(failure.string)
    competitors = {found.index for found in failure.competitors}
    k = failure.first_error
    start, stop = max(0, k - BEFORE), min(len(tokens), k + 1 + AFTER)
    parts: list[Any] = [Mark("…", "quiet")] if start else []
    for index in range(start, stop):
        mark = "bad" if index == k else "competitor" if index in competitors else ""
        parts += [" "] if spaced and parts else []
        parts.append(Mark(tokens[index], mark) if mark else tokens[index])
    if k == len(tokens):
        parts += [" ", Mark("EOS", "bad")]
    elif stop < len(tokens):
        parts.append(Mark("…", "quiet"))
    return Tokens(parts)


def _anchors(weights: Mapping[str, float]) -> str:
    shown = [f"{name} {weight:.2f}" for name, weight in weights.items() if weight >= 0.05]
    return ", ".join(shown) or "–"


def _stripes(stripes: Sequence[Mapping[str, Any]], trained: int) -> list[str]:
    broken = [
        f"the {stripe['stripe']} stripe of head {stripe['layer']}.{stripe['head']} breaks at index {stripe['at']:,} "
        f"({stripe['relative']:.2f} of {trained:,})"
        for stripe in stripes
        if stripe["at"] is not None
    ]
    return [f"{'; '.join(broken)}.".capitalize()] if broken else []


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
