"""What the drawn runs' heads became while they were trained, where a report over checkpoints is kept."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.content.heads import HistoryContent
from workbench.dashboard.data import RunRow
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.parts import link, table
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.heads import label_changes

_MOST_HEADS = 24  # of a run; all of them are on the Heads page
_COLUMNS = (("Run", ""), ("Head", ""), ("What it was, and from which step on", ""), ("Surest evidence now", "number"))


def formation(reports: Reports, rows: Sequence[RunRow], view: ViewState) -> list[Component]:
    """Return the panel's content; nothing where none of the runs keeps such a report."""
    kept = [(row, content) for row in rows if (content := _history(reports, row)) is not None and content.checkpoints]
    if not kept:
        return []
    cells = [line for row, content in kept for line in _lines(row, content, view)]
    behind = [
        html.P(f"{row.id} has come to step {row.step:,}: press History to look again.", className="quiet")
        for row, content in kept
        if row.step > content.checkpoints[-1].step
    ]
    finding = sentence(visible_text(kept[0][1].finding)) if len(kept) == 1 else ""
    heading = html.H2(["Heads as they formed", html.Span(finding, className="count")])
    return [heading, html.Div(table(_COLUMNS, cells, "Labels of heads over training"), className="scroll"), *behind]


def stamp(reports: Reports, rows: Sequence[RunRow]) -> str:
    """What changes whenever such a report is written, or a run goes beyond it."""
    return str([(row.id, row.step, id(_history(reports, row))) for row in rows if _history(reports, row)])


def _history(reports: Reports, row: RunRow) -> HistoryContent | None:
    """The report of a run; none where it is damaged, which the Heads page says."""
    try:
        return reports.history(row.id)
    except WorkbenchError:
        return None


def _lines(row: RunRow, content: HistoryContent, view: ViewState) -> list[list[Any]]:
    heads = content.checkpoints[-1].heads[:_MOST_HEADS]
    lines: list[list[Any]] = []
    for at, head in enumerate(heads):
        there = view.change(run=row.id).change(pane="history", layer=head.layer, head=head.head)
        name = link(f"{head.layer}.{head.head}", "/heads" + there.query(), title="its scores over training")
        became: list[Any] = []
        for step, label in label_changes(content, at):
            became += [html.Span(" → ", className="quiet")] if became else []
            became += [html.B(visible_text(label)), html.Span(f" from {step:,}", className="quiet")]
        lines.append([html.Bdi(row.id, className="id") if at == 0 else "", name, html.Span(became), _evidence(head)])
    return lines


def _evidence(head: Any) -> str:
    known = [e for e in head.evidence if e.condition is not None and e.value is not None]
    if not known:
        return "–"
    best = max(known, key=lambda e: e.value)
    return f"{visible_text(best.score)} {best.value:.2f}"
