"""The report on length generalisation as one offline HTML file: curves over seeds, how far each group copies."""

import plotly.graph_objects as go

from workbench.content.lengths import LengthsContent, SpreadContent
from workbench.figures.lengths import length_spread
from workbench.reports.html import Document
from workbench.reports.lengths import COPIES, reach
from workbench.reports.lengths_text import groups_of, interruption, table_of


def render(content: LengthsContent) -> str:
    """The file's text."""
    page = Document("Exact match by length", f"{content.finding}.")
    names = list(dict.fromkeys(point.distribution for point in content.spread))
    page.section("Curves", *([interruption(content)] if content.interrupted else []))
    page.figure(figure(content), _seen(content))
    if len({point.trained for point in content.spread}) > 1:
        page.figure(
            length_spread(content.spread, title="The same over length relative to training", relative=True),
            "Groups were trained on different lengths; here each is drawn over its own.",
        )
    page.section(
        "How far each group copies",
        f"Longest length through which the mean exact match is at least {COPIES:.2f} at every length asked.",
    )
    page.table(
        ["group", ">seeds", ">trained ≤", *(f">{name}" for name in names)],
        [
            [points[0].group, max(p.subjects for p in points), f"{points[0].trained:,}", *_reaches(points, names)]
            for points in groups_of(content.spread)
        ],
    )
    page.section("Numbers", "Mean over seeds; in brackets the lowest and the highest seed, where they differ.")
    for name in names:
        columns, rows = table_of([point for point in content.spread if point.distribution == name])
        page.table([">length", *(f">{column}" for column in columns)], rows, caption=name)
    page.section(
        "Subjects",
        "Subjects of one group differ in their seeds alone: task, model and training settings and the step are equal.",
    )
    page.table(
        ["subject", "group", "recipe", ">step", ">seed", ">trained", "layers"],
        [
            [
                subject.subject,
                subject.group,
                subject.recipe,
                f"{subject.step:,}",
                subject.seed,
                "{:,}-{:,}".format(*subject.trained),
                ", ".join(subject.schemes),
            ]
            for subject in content.subjects
        ],
    )
    page.section("Method", *_method(content))
    page.about(content.about)
    return page.render()


def figure(content: LengthsContent) -> go.Figure:
    """The report's first figure, which is also drawn as a picture."""
    return length_spread(content.spread, title="Exact match by string length")


def _seen(content: LengthsContent) -> str:
    several = any(point.subjects > 1 for point in content.spread)
    band = "the band is from the lowest to the highest seed" if several else "bands are 95 % Wilson intervals"
    if several and any(point.subjects == 1 for point in content.spread):
        band += " (of a single seed its 95 % Wilson interval)"
    return f"Mean exact match by length and distribution; {band}. Lengths of training are shaded."


def _reaches(points: list[SpreadContent], names: list[str]) -> list[str]:
    cells = []
    for name in names:
        mine = [point for point in points if point.distribution == name]
        length = reach(mine)
        last = max((point.length for point in mine), default=0)
        cells.append("–" if length is None else f"≥ {length:,}" if length == last else f"{length:,}")
    return cells


def _method(content: LengthsContent) -> list[str]:
    strings = sorted({score.strings for score in content.scores})
    kept = sum(score.kept for score in content.scores)
    said = [
        "Exact match: every token of the copy and EOS right, by one teacher-forced pass. "
        f"{' or '.join(map(str, strings))} strings of each distribution and length, the same for all subjects (seed "
        f"{content.about.seed}). Intervals of a single subject are Wilson's."
    ]
    if kept:
        said.append(
            f"{kept:,} of {len(content.scores):,} scores are those of the runs' own evaluations of the same strings."
        )
    return said
