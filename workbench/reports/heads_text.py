"""The heads report as a table on the terminal (Markdown) and as CSV, one line a head and score."""

import csv
from collections.abc import Sequence
from io import StringIO

from workbench.content.base import EstimateContent
from workbench.content.heads import HeadContent, HeadsContent, HistoryContent

HEAD_COLUMNS = ("subject", "step", "layer", "head", "label", "margin", "certain", "intervention")
COLUMNS = (*HEAD_COLUMNS, "score", "value", "low", "high", "rows", "strings", "chance")


def markdown(content: HeadsContent) -> str:
    """A heading, the finding, one table of heads, and the notes."""
    lines = [
        f"## Heads of {content.subject} at step {content.step}",
        "",
        content.finding + ".",
        "",
        "| head | label | margin | certain | evidence | intervention |",
        "|---|---|---:|---|---|---|",
    ]
    for head in content.heads:
        label = head.label if head.expected in (None, head.label) else f"{head.label} (built as {head.expected})"
        deciding = [f"{e.score} {number(e)}" for e in head.evidence if e.condition is not None]
        state = str(head.intervention.get("state", "-"))
        cells = [
            name_of(head),
            label,
            f"{head.margin:.2f}",
            "yes" if head.certain else "no",
            ", ".join(deciding),
            state,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        *(f"- {head_doubt}" for head_doubt in doubts(content.heads)),
        *(f"- {note}" for note in content.notes),
    ]
    return "\n".join(lines).rstrip() + "\n"


def history_markdown(content: HistoryContent) -> str:
    """A heading, the finding, and one table: a line a checkpoint, a column a head."""
    last = content.checkpoints[-1].heads
    lines = [
        f"## Heads of {content.subject} over {len(content.checkpoints)} checkpoints",
        "",
        content.finding + ".",
        "",
        "| step | exact match | " + " | ".join(name_of(head) for head in last) + " |",
        "|---:|---:|" + "---|" * len(last),
    ]
    for checkpoint in content.checkpoints:
        exact = "-" if checkpoint.exact_match is None else f"{checkpoint.exact_match:.2f}"
        labels = [head.label + ("" if head.certain else " (?)") for head in checkpoint.heads]
        lines.append("| " + " | ".join([str(checkpoint.step), exact, *labels]) + " |")
    return "\n".join(lines) + "\n"


def comma_separated(contents: Sequence[HeadsContent]) -> str:
    """CSV with COLUMNS, a line a score."""
    return _table([(content.subject, content.step, content.heads) for content in contents])


def history_comma_separated(content: HistoryContent) -> str:
    """CSV with COLUMNS, a line a checkpoint and score."""
    return _table([(content.subject, checkpoint.step, checkpoint.heads) for checkpoint in content.checkpoints])


def _table(parts: Sequence[tuple[str, int, Sequence[HeadContent]]]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for subject, step, heads in parts:
        for head in heads:
            who = [subject, step, head.layer, head.head, head.label, head.margin, head.certain]
            state = head.intervention.get("state", "")
            for score, estimate in head.scores.items():
                low, high = estimate.interval or ("", "")
                value = "" if estimate.value is None else estimate.value
                chance = "" if estimate.chance is None else estimate.chance
                writer.writerow([*who, state, score, value, low, high, estimate.rows, estimate.strings, chance])
    return text.getvalue()


def name_of(head: HeadContent) -> str:
    """Layer and head, "0.1"."""
    return f"{head.layer}.{head.head}"


def number(estimate: EstimateContent) -> str:
    """Value and interval, ".93 [.90, .95]", or why there is none."""
    if estimate.value is None or estimate.interval is None:
        return "not measurable"
    low, high = estimate.interval
    return f"{estimate.value:.2f} [{low:.2f}, {high:.2f}]"


def doubts(heads: Sequence[HeadContent]) -> list[str]:
    """What could not be told, a sentence a doubt."""
    return [f"head {name_of(head)}: {doubt}" for head in heads for doubt in head.doubts]
