"""What is drawn of two subjects on the Heads page: one score of both and its difference, or how both heads formed."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.content.heads import HistoryContent
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages.heads_compare import HeadsPair
from workbench.dashboard.pages.heads_compare_table import compared_scores
from workbench.dashboard.pages.heads_panes import (
    NO_SCORE,
    OPENS,
    Pane,
    history_pane,
    no_history,
    nothing,
    of_one,
    score_pane,
)
from workbench.dashboard.pages.heads_parts import as_table, difference_text, label_look, overlap_text, text_of
from workbench.dashboard.pages.heads_reports import Chosen, Reports
from workbench.dashboard.parts import message
from workbench.dashboard.pickers import visible_text
from workbench.figures.head_pair import Matched, finding, history_pair, pair_grids, told_apart
from workbench.figures.heads import label_changes

_COLUMNS = (
    ("Head", ""), ("First", "number"), ("Second", "number"), ("First − second", "number"), ("95 % intervals", ""),
    ("Labels", ""),
)  # fmt: skip


def scores(pair: HeadsPair) -> Pane:
    """One score of both subjects: three grids of two reports, or one grid in which two heads are outlined."""
    score = pair.first.view.score
    if score is None:
        return Pane(NO_SCORE, nothing())
    if pair.one_report:
        pane = score_pane(pair.first, pair.second.head)
        ours, theirs = pair.selected.estimates(score)
        values = [
            f"head {_name(one)} {text_of(estimate) if estimate else 'not measurable'}"
            for one, estimate in zip(_both(pair), (ours, theirs), strict=True)
        ]
        told = {None: "", True: ", distinguishable", False: ", not distinguishable: their intervals overlap"}
        apart = told[told_apart(ours, theirs)]
        said = f"{visible_text(score)}: {values[0]}, {values[1]} (dashed)"
        said += f"; difference {difference_text(ours, theirs)}{apart}"
        return Pane(f"{said}. {OPENS}", pane.figure, pane.below)
    first, second = pair.first.content, pair.second.content
    figure = pair_grids(
        first.heads,
        second.heads,
        score,
        selected=(pair.first.head.layer, pair.first.head.head),
        beside=(pair.second.head.layer, pair.second.head.head),
        schemes=first.schemes if first.schemes == second.schemes else (),
    )
    heads = pair.heads
    rows = [_row(m, score) for m in heads]
    said = f"{sentence(visible_text(finding(heads, score)))} {OPENS}"
    return Pane(said, figure, [as_table(_COLUMNS, rows, f"{visible_text(score)} of the heads of both")])


def history(reports: Reports, pair: HeadsPair) -> Pane:
    """How the selected head of each formed: the scores that decide their labels, over the checkpoints of each run."""
    contents: list[HistoryContent] = []
    for which, chosen in zip(("first", "second"), _both(pair), strict=True):
        try:
            content = reports.history(chosen.run.id)
        except WorkbenchError as error:
            return _without(reports, pair, message(error))
        if content is None:
            return _without(reports, pair, message(no_history(reports, chosen, f"of the {which}, {chosen.run.id}, ")))
        single = of_one(content, chosen.head.layer, chosen.head.head)
        if single is None:
            lacking = f"The report over checkpoints of {chosen.run.id} does not know head {_name(chosen)}."
            return _without(reports, pair, html.P(lacking))
        contents.append(single)
    ends = [content.checkpoints[-1].heads[0] for content in contents]
    names = compared_scores(Matched(0, 0, *ends))
    figure = history_pair((contents[0], contents[1]), names)
    said = " ".join(
        f"{which}: head {_name(chosen)} is {visible_text(label)} from step {step:,} on."
        for which, chosen, (step, label) in zip(
            ("First", "Second"), _both(pair), (label_changes(content, 0)[-1] for content in contents), strict=True
        )
    )
    return Pane(f"{said} The second is dashed.", figure, [_history_table(contents, names)])


def _without(reports: Reports, pair: HeadsPair, why: Component) -> Pane:
    """What is known of the first alone, and why there are no two."""
    try:
        pane = history_pane(reports, pair.first)
    except WorkbenchError:
        return Pane(why, nothing())
    return Pane([html.P(pane.said) if isinstance(pane.said, str) else "", why], pane.figure, pane.below)


def _history_table(contents: list[HistoryContent], names: list[str]) -> Component:
    """Labels and scores of both heads by step; a step that one has no checkpoint of stays open."""
    known = [{checkpoint.step: checkpoint.heads[0] for checkpoint in content.checkpoints} for content in contents]
    rows: list[list[Any]] = []
    for step in sorted({*known[0], *known[1]}):
        cells: list[Any] = [f"{step:,}"]
        for heads in known:
            head = heads.get(step)
            cells.append("–" if head is None else html.Span(**label_look(head.label + ("" if head.certain else " ?"))))
            cells += ["–" if head is None or name not in head.scores else text_of(head.scores[name]) for name in names]
        rows.append(cells)
    titles = [visible_text(name) for name in names]
    columns = [("Step", "number")]
    for which in ("First", "Second"):
        columns += [(f"{which}: label", ""), *((f"{which}: {title}", "number") for title in titles)]
    return as_table(columns, rows, "Labels and deciding scores of both heads by step; ? is uncertain")


def _row(m: Matched, score: str) -> list[Any]:
    ours, theirs = m.estimates(score)
    labels = [
        visible_text(head.label) + ("" if head.certain else " ?") if head else "–" for head in (m.first, m.second)
    ]
    return [
        m.name,
        *("–" if estimate is None else text_of(estimate) for estimate in (ours, theirs)),
        difference_text(ours, theirs),
        overlap_text(ours, theirs),
        f"{labels[0]} → {labels[1]}" if m.changed or None in (m.first, m.second) else labels[0],
    ]


def _both(pair: HeadsPair) -> tuple[Chosen, Chosen]:
    return pair.first, pair.second


def _name(chosen: Chosen) -> str:
    return f"{chosen.head.layer}.{chosen.head.head}"
