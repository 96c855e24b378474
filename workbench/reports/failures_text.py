"""The failures report as tables on the terminal (Markdown) and as CSV, one line a failure."""

import csv
from collections.abc import Sequence
from io import StringIO

from workbench.content.failures import FailuresContent
from workbench.reports.failures_words import value_text

COLUMNS = (
    "subject",
    "step",
    "distribution",
    "length",
    "string",
    "first_error",
    "symptom",
    "right",
    "predicted",
    "logit_right",
    "logit_predicted",
    "cause",
    "confirmed",
    "also",
    "trial_share",
    "trial_control",
    "mass_source",
    "mass_competitors",
    "slip",
    "recovers_at",
    "stops_at",
)


def named(content: FailuresContent) -> str:
    """A subject, with the step where it was trained."""
    return f"{content.subject} at step {content.step:,}" if content.step else content.subject


def scheme_of(content: FailuresContent) -> str:
    """Short name of the positional schemes."""
    return "+".join(dict.fromkeys(content.schemes))


def markdown(content: FailuresContent) -> str:
    """A heading, the finding, tables of causes and of groups, the law, the regression, and the notes."""
    lines = [
        f"## Failures of {named(content)}",
        "",
        content.finding + ".",
        *(["", content.advice] if content.advice else []),
        "",
        "| cause | failures | confirmed | unconfirmed | tried on | mended | as predicted | control |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, cause in content.causes.items():
        shares = (
            value_text(found) if cause.tried else "-" for found in (cause.repaired, cause.supported, cause.control)
        )
        tried = [cause.confirmed, cause.unconfirmed, cause.tried] if name != "other" else ["-"] * 3
        counts = [str(n) for n in (cause.failures, *tried)]
        lines.append("| " + " | ".join([name, *counts, *shares]) + " |")
    lengths = sorted({group.length for group in content.groups})
    lines += [
        "",
        "Exact match:",
        "",
        "| distribution | " + " | ".join(f"{n:,}" for n in lengths) + " |",
        "|---|" + "---:|" * len(lengths),
    ]
    for name in dict.fromkeys(group.distribution for group in content.groups):
        by_length = {group.length: group.exact_match for group in content.groups if group.distribution == name}
        lines.append("| " + " | ".join([name, *(f"{by_length[n]:.2f}" for n in lengths)]) + " |")
    lines += ["", *([content.law_summary.sentence] if content.law_summary else []), content.regression.sentence]
    lines += ["", *(f"- {note}" for note in content.notes)]
    return "\n".join(lines).rstrip() + "\n"


def comma_separated(contents: Sequence[FailuresContent]) -> str:
    """CSV with COLUMNS, a line a failure."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for content in contents:
        for failure in content.failures:
            trial = next((trial for trial in failure.trials if trial.cause == failure.cause), None)
            attended = failure.evidence["attended"]
            after = failure.aftermath
            values = [
                content.subject,
                content.step,
                failure.distribution,
                failure.length,
                failure.string,
                failure.first_error,
                failure.symptom,
                failure.right,
                failure.predicted,
                failure.logit_right,
                failure.logit_predicted,
                failure.cause,
                failure.confirmed,
                " ".join(failure.also),
                None if trial is None else trial.share,
                None if trial is None else trial.control,
                attended["mass_source"],
                attended["mass_competitors"],
                after.slip,
                after.recovers_at,
                after.stops_at,
            ]
            writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()
