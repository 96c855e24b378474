"""The comparison of several subjects as one offline HTML file, their own reports' heads included."""

from collections.abc import Sequence

from analyses.space import ScoreSpace
from workbench.content.heads import ComparisonContent
from workbench.figures.heads import label_counts
from workbench.figures.space import head_space
from workbench.reports.heads import Examined
from workbench.reports.heads_html import LABELLING, add_heads
from workbench.reports.html import Document


def render(content: ComparisonContent, space: ScoreSpace, examined: Sequence[Examined]) -> str:
    """The file's text."""
    names = ", ".join(report.subject for report in content.reports)
    page = Document(f"Heads of {names}", f"{content.finding}.")
    page.section("Labels by layer")
    page.figure(label_counts(content), "How many heads of every layer have each label.")
    if content.agreement:
        page.section(
            "Agreement",
            "Share of heads that find one of the same label in the same layer of the other subject, for subjects of "
            "one shape; heads of a layer may stand in any order. Certain: the same of certain labels alone, as a "
            "share of those of the subject that has more.",
        )
        page.table(
            ["subject", "other", ">agreement", ">certain"],
            [
                [
                    pair.first,
                    pair.second,
                    f"{pair.agreement:.2f}",
                    "–" if pair.certain is None else f"{pair.certain:.2f}",
                ]
                for pair in content.agreement
            ],
        )
    page.section("Heads in score space", "Principal components of the standardised scores of all heads.")
    page.figure(head_space(space), "Heads as points; those of one label lie together where labels are of one kind.")
    if content.space is not None and content.space.reason:
        page.paragraphs(content.space.reason[:1].upper() + content.space.reason[1:] + ".")
    for one in examined:
        page.section(f"Heads of {one.content.subject}", f"{one.content.finding[:1].upper()}{one.content.finding[1:]}.")
        add_heads(page, one)
    page.section(
        "Method",
        LABELLING,
        "`workbench heads SUBJECT --out FILE` gives each subject's own scores, formulas and effects.",
    )
    first = content.reports[0]
    page.table(
        ["label", "conditions", "what it says"],
        [[rule.label, ", ".join(rule.conditions), rule.sentence] for rule in first.rules],
        "Rules, in order; the first that holds gives the label",
    )
    page.table(
        ["subject", "kind", "distribution", ">length", ">strings"],
        [[report.subject, *dict(s).values()] for report in content.reports for s in report.strings],
        "Strings",
    )
    page.about(content.about)
    return page.render()
