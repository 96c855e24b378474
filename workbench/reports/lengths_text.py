"""The report on length generalisation as tables on the terminal (Markdown) and as CSV, one line a score."""

import csv
from collections.abc import Sequence
from io import StringIO

from workbench.content.lengths import LengthsContent, SpreadContent

COLUMNS = (
    "group",
    "subject",
    "recipe",
    "scheme",
    "seed",
    "step",
    "trained",
    "distribution",
    "shortest",
    "length",
    "strings",
    "exact_match",
    "low",
    "high",
    "token_accuracy",
    "kept",
)


def markdown(content: LengthsContent) -> str:
    """The finding, and one table a distribution: mean and spread of every group, a row a length."""
    lines = ["## Exact match by length", "", content.finding + "."]
    if content.interrupted:
        lines += ["", interruption(content)]
    for name in dict.fromkeys(point.distribution for point in content.spread):
        columns, rows = table_of([point for point in content.spread if point.distribution == name])
        lines += ["", f"| {name} | " + " | ".join(columns) + " |", "|---:|" + "---:|" * len(columns)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def comma_separated(content: LengthsContent) -> str:
    """CSV with COLUMNS, a line a score."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    subjects = {(subject.subject, subject.step): subject for subject in content.subjects}
    for score in content.scores:
        subject = subjects[score.subject, score.step]
        writer.writerow(
            [
                subject.group,
                subject.subject,
                subject.recipe,
                "+".join(dict.fromkeys(subject.schemes)),
                subject.seed,
                subject.step,
                subject.trained[1],
                score.distribution,
                score.shortest,
                score.length,
                score.strings,
                score.exact_match,
                *score.interval,
                score.token_accuracy,
                score.kept,
            ]
        )
    return text.getvalue()


def interruption(content: LengthsContent) -> str:
    """How much was measured before an interruption, in words."""
    return f"Interrupted after {len(content.scores):,} of {content.asked:,} scores; means are over what was measured."


def length_of(point: SpreadContent) -> str:
    """A length, or a range of lengths."""
    shortest = point.length if point.shortest is None else point.shortest
    return f"{point.length:,}" if shortest == point.length else f"{shortest:,}-{point.length:,}"


def value_of(point: SpreadContent) -> str:
    """Mean, and the lowest and highest subject where there are several that differ."""
    if point.lowest == point.highest:
        return f"{point.mean:.2f}"
    return f"{point.mean:.2f} [{point.lowest:.2f}, {point.highest:.2f}]"


def table_of(points: Sequence[SpreadContent]) -> tuple[list[str], list[list[str]]]:
    """The groups, and for every length a row: the length, and the value of every group.

    Args:
        points: of one distribution.
    """
    groups = groups_of(points)
    rows = []
    for length in dict.fromkeys(map(length_of, sorted(points, key=lambda point: point.length))):
        found = ([point for point in group if length_of(point) == length] for group in groups)
        rows.append([length, *("-" if not mine else value_of(mine[0]) for mine in found)])
    return [named(group) for group in groups], rows


def named(group: Sequence[SpreadContent]) -> str:
    """A group with the number of its subjects, where there are several."""
    subjects = max(point.subjects for point in group)
    return group[0].group + (f" ({subjects} seeds)" if subjects > 1 else "")


def groups_of(points: Sequence[SpreadContent]) -> list[list[SpreadContent]]:
    """The points of every group, in the order in which groups come."""
    by_group: dict[str, list[SpreadContent]] = {}
    for point in points:
        by_group.setdefault(point.group, []).append(point)
    return list(by_group.values())
