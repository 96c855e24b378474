"""The report over checkpoints as one offline HTML file."""

from workbench.content.heads import HeadContent, HistoryContent
from workbench.figures.heads import history_lines
from workbench.reports.heads_html import LABELLING
from workbench.reports.heads_text import name_of
from workbench.reports.html import Document, Mark


def render(content: HistoryContent) -> str:
    """The file's text."""
    return document(content).render()


def document(content: HistoryContent) -> Document:
    """The page."""
    page = Document(f"Heads of {content.subject} over training", f"{content.finding[:1].upper()}{content.finding[1:]}.")
    page.section(
        "When heads form",
        "The scores that decide each head's final label, on the same strings at every checkpoint, and its label.",
    )
    page.figure(history_lines(content), "Scores and labels of every head over optimiser steps.")
    page.section("Labels")
    last = content.checkpoints[-1].heads
    page.table(
        [">step", ">exact match", *(name_of(head) for head in last)],
        [
            [
                f"{checkpoint.step:,}",
                "" if checkpoint.exact_match is None else f"{checkpoint.exact_match:.2f}",
                *(
                    Mark(head.label, "strong") if head.certain else f"{head.label} (uncertain)"
                    for head in checkpoint.heads
                ),
            ]
            for checkpoint in content.checkpoints
        ],
    )
    page.section("Method")
    page.table(["kind", "distribution", ">length", ">strings"], [list(dict(s).values()) for s in content.strings])
    page.paragraphs(LABELLING)
    page.table(
        ["label", "conditions", "what it says"],
        [[rule.label, ", ".join(rule.conditions), rule.sentence] for rule in content.rules],
        "Rules, in order; the first that holds gives the label",
    )
    page.about(content.about)
    return page


def _label(head: HeadContent) -> Mark | str:
    return Mark(head.label, "strong") if head.certain else f"{head.label} (uncertain)"
