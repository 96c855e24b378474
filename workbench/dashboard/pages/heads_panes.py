"""What is drawn of all heads at once: one score by layer and head, the space of all scores, or how they formed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.content.heads import HeadContent, HeadsContent, HistoryContent
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages.heads_compare import HeadsPair, compared, swapped
from workbench.dashboard.pages.heads_parts import as_table, bare, label_look, text_of
from workbench.dashboard.pages.heads_reports import Chosen, Reports
from workbench.dashboard.pages.heads_spaces import Preparing, Spaces
from workbench.dashboard.parts import Nothing, link, message
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure
from workbench.figures.difference import SECOND
from workbench.figures.head_grid import finding as grid_finding
from workbench.figures.head_grid import score_grid
from workbench.figures.head_pair import SECOND_TRACES
from workbench.figures.heads import history_lines, label_changes
from workbench.figures.numbers import signed
from workbench.figures.space import finding as space_finding
from workbench.figures.space import head_space
from workbench.figures.style import TRUTH

NO_SCORE = "No score of this report lies between 0 and 1."
OPENS = "Click a head to open it in Attention."
PANES = {"scores": "One score", "space": "Score space", "history": "History"}
_MOST_ROWS = 200  # of a table below a figure
_PALE = 0.5  # opacity of other runs' heads
_EMPTY, _SPACE = 120, 460  # px of a figure that is not there, and of one that is to come


@dataclass(frozen=True)
class Pane:
    """What stands in the panel below the table.

    Attributes:
        said: what is seen in the figure, or why there is none.
        figure: the figure.
        below: notes and the figure's numbers.
        waits: whether there is more to come.
    """

    said: Any
    figure: go.Figure
    below: list[Component] = field(default_factory=list)
    waits: bool = False


def score_pane(chosen: Chosen, beside: HeadContent | None = None) -> Pane:
    """One score of every head; `beside` is another one that the selected head is compared with."""
    heads, score = chosen.content.heads, chosen.view.score
    if score is None:
        return Pane(NO_SCORE, nothing())
    figure = score_grid(
        heads,
        score,
        selected=(chosen.head.layer, chosen.head.head),
        beside=(beside.layer, beside.head) if beside else None,
        schemes=chosen.content.schemes,
        title="",
    )
    columns = [("Layer", "number"), *((f"Head {head}", "number") for head in range(max(chosen.counts)))]
    at = {(head.layer, head.head): head for head in heads}
    rows: list[list[Any]] = []
    for layer in range(len(chosen.counts)):
        found = [at.get((layer, head)) for head in range(max(chosen.counts))]
        estimates = [head.scores.get(score) if head else None for head in found]
        rows.append([str(layer), *("" if estimate is None else text_of(estimate) for estimate in estimates)])
    said = f"{sentence(visible_text(grid_finding(heads, score)))} {OPENS}"
    return Pane(said, figure, [as_table(columns, rows, f"{visible_text(score)} by layer and head")])


def space_pane(
    reports: Reports, spaces: Spaces, chosen: Chosen, view: ViewState, pair: HeadsPair | None = None
) -> Pane:
    """The heads of this run and of all that are ticked, along the principal components of their scores.

    Of two subjects, those of the second report are there too, and marked.
    """
    contents, notes = space_contents(reports, chosen, view, pair)
    ours, theirs = chosen.content.subject, _subject(reports, pair)
    try:
        space = spaces.of(contents)
    except Preparing as preparing:
        return Pane(html.Span(sentence(str(preparing)), role="status"), nothing(_SPACE), notes, waits=True)
    figure = bare(head_space(space, title=" "))
    figure.layout.margin.t, figure.layout.xaxis2.title.text = 40, "correlation"
    for trace in figure.data:
        if trace.ids is not None:
            own = [at for at, i in enumerate(trace.ids) if space.points[int(i)].run in (ours, theirs)]
            trace.selectedpoints, trace.unselected = own, {"marker": {"opacity": _PALE}}
    rings: list[tuple[str, str, Sequence[HeadContent], str, int, str]]
    rings = [("selected", ours, [chosen.head], "circle-open", 22, TRUTH)]
    if pair is not None:
        others = [pair.second.head] if pair.one_report else pair.second.content.heads
        rings += [("second", theirs, others, "square-open", 19, SECOND)]
        if not pair.one_report:
            rings += [("selected in the second", theirs, [pair.second.head], "diamond-open", 28, SECOND)]
    for name, subject, heads, symbol, size, color in rings:
        wanted = {(head.layer, head.head) for head in heads}
        at = [i for i, p in enumerate(space.points) if p.run == subject and (p.layer, p.head) in wanted]
        if space.coordinates.shape[1]:
            places = [(*space.coordinates[i].tolist(), 0.0)[:2] for i in at]
            figure.add_scatter(
                x=[x for x, _ in places], y=[y for _, y in places], mode="markers", name=name, hoverinfo="skip",
                marker={"symbol": symbol, "size": size, "color": color, "line": {"width": 2 + (size == 22)}},
            )  # fmt: skip
    rows: list[list[Any]] = [
        [
            visible_text(point.run),
            f"{point.layer}.{point.head}",
            html.Span(**label_look(point.label or "")),
            *(signed(value) for value in space.coordinates[i, :2]),
            "" if space.cluster is None else str(int(space.cluster[i]) + 1),
        ]
        for i, point in enumerate(space.points[:_MOST_ROWS])
    ]
    axes = [(f"Component {number + 1}", "number") for number in range(min(2, space.coordinates.shape[1]))]
    columns = [("Run", "id"), ("Head", ""), ("Label", ""), *axes, ("Cluster", "number")]
    more = len(space.points) - _MOST_ROWS
    rest = [html.P(f"The first {_MOST_ROWS} heads; {more} more are drawn.", className="quiet")] if more > 0 else []
    pale = " Those of other runs are pale." if len(contents) > (2 if pair and not pair.one_report else 1) else ""
    marked = " Squares mark the second." if pair else ""
    said = f"{sentence(visible_text(space_finding(space)))}{pale}{marked} {OPENS}"
    return Pane(said, figure, [*notes, as_table(columns, rows, "Heads in score space"), *rest])


def space_contents(
    reports: Reports, chosen: Chosen, view: ViewState, pair: HeadsPair | None = None
) -> tuple[list[HeadsContent], list[Component]]:
    """The reports whose heads share a space, and notes about those that are not there.

    They are this one, the second of two that are compared, and the newest of every ticked run.
    """
    contents, lacking, damaged = [chosen.content], [], []
    if pair is not None and not pair.one_report:
        second = pair.second.content
        contents.append(reports.stepped(second) if second.subject == chosen.content.subject else second)
    for run_id in view.runs:
        if run_id == chosen.run.id:
            continue
        try:
            steps = reports.steps(run_id)
            if not steps:
                lacking.append(run_id)
            else:
                content = reports.heads(run_id, steps[0])
                if content.subject not in {known.subject for known in contents}:
                    contents.append(content)
        except WorkbenchError as error:
            damaged.append(message(error))
    notes: list[Component] = damaged[:5]
    if lacking:
        which = f"{len(lacking)} ticked runs keep" if len(lacking) > 1 else f"The ticked run {lacking[0]} keeps"
        notes.append(message(Nothing(f"{which} no report on heads yet", reports.command(*lacking))))
    if not view.runs and pair is None:
        ticked = link("Tick runs", "/runs" + view.query())
        notes.append(html.P([ticked, " to see their heads in the same space."], className="quiet"))
    return contents, notes


def history_pane(reports: Reports, chosen: Chosen) -> Pane:
    """How the selected head formed, and the labels of all heads over the checkpoints."""
    content = reports.history(chosen.run.id)
    if content is None:
        return Pane(message(no_history(reports, chosen)), nothing())
    layer, head = chosen.head.layer, chosen.head.head
    single = of_one(content, layer, head)
    if single is None:
        return Pane(f"The report over checkpoints does not know head {layer}.{head}.", nothing())
    step, label = label_changes(single, 0)[-1]
    figure = bare(history_lines(single, title=" "))
    figure.layout.height, figure.layout.margin.t, figure.layout.margin.b = 300, 26, 84
    figure.layout.legend.y = -0.24
    for note in figure.layout.annotations[:1]:
        note.text = ""
    columns = [("Head", ""), *((f"{c.step:,}", "") for c in content.checkpoints)]
    rows: list[list[Any]] = []
    for one in content.checkpoints[-1].heads:
        labels = [next(h for h in c.heads if (h.layer, h.head) == (one.layer, one.head)) for c in content.checkpoints]
        cells = [html.Span(**label_look(h.label + ("" if h.certain else " ?"))) for h in labels]
        rows.append([f"{one.layer}.{one.head}", *cells])
    matches = [html.Span("–" if c.exact_match is None else f"{c.exact_match:.2f}") for c in content.checkpoints]
    rows.append([html.Span("exact match", className="quiet"), *matches])
    said = (
        f"Head {layer}.{head} is {visible_text(label)} from step {step:,} on; lines are the scores its label rests on."
    )
    return Pane(said, figure, [as_table(columns, rows, "Labels of all heads by step; ? is uncertain")])


def no_history(reports: Reports, chosen: Chosen, of: str = "") -> Nothing:
    """Why there is no history of a run, and how to get one; `of` says whose, ending in ", "."""
    return Nothing(
        f"{of}no report over checkpoints is kept. Where a run kept several checkpoints "
        "(--set train.keep_checkpoints=true), it says when each head formed",
        reports.command(chosen.run.id, more=" --checkpoints"),
    )


def point_of(click: Any) -> dict[str, Any] | None:
    """The point that a click fell on, None where it is none."""
    points = click.get("points") if isinstance(click, dict) else None
    point = points[0] if isinstance(points, list) and points else None
    return point if isinstance(point, dict) else None


def clicked_head(
    reports: Reports, spaces: Spaces, chosen: Chosen, view: ViewState, click: Any
) -> tuple[ViewState, int, int] | None:
    """The view of the report, the layer and the head that a click on the pane's figure fell on, None for none.

    Of two reports, the view of the second has it as its first subject, so that the comparison goes along.
    """
    point = point_of(click)
    if point is None:
        return None
    pair = compared(reports, chosen, view)
    if view.pane == "scores":
        layer, head = (_whole(point.get(side)) for side in ("y", "x"))
        of_second = pair is not None and not pair.one_report and point.get("curveNumber") in SECOND_TRACES
        content = pair.second.content if pair is not None and of_second else chosen.content
        there = swapped(pair, view) if pair is not None and of_second else view
        return (there, layer, head) if (layer, head) in {(one.layer, one.head) for one in content.heads} else None
    if view.pane == "space":
        found, space = point.get("id"), spaces.of(space_contents(reports, chosen, view, pair)[0])
        index = (
            int(found) if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 9 else -1
        )
        if 0 <= index < len(space.points):
            at = space.points[index]
            if at.run == chosen.content.subject:
                return view, at.layer, at.head
            theirs = pair is not None and at.run == _subject(reports, pair)
            return swapped(pair, view) if pair is not None and theirs else view.change(run=at.run), at.layer, at.head
    return None


def _subject(reports: Reports, pair: HeadsPair | None) -> str:
    """What the second report of two is called in the space; "" where there is none."""
    if pair is None:
        return ""
    first, second = pair.first.content, pair.second.content
    return second.subject if pair.one_report or second.subject != first.subject else reports.stepped(second).subject


def _whole(value: Any) -> int:
    """A whole number, -1 for anything else."""
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 1e9 else -1


def of_one(content: HistoryContent, layer: int, head: int) -> HistoryContent | None:
    """A history of one head alone, None where it has none."""
    kept = []
    for checkpoint in content.checkpoints:
        found = tuple(one for one in checkpoint.heads if (one.layer, one.head) == (layer, head))
        if not found:
            return None
        kept.append(checkpoint.model_copy(update={"heads": found}))
    return content.model_copy(update={"checkpoints": tuple(kept)})


def nothing(height: int = _EMPTY) -> go.Figure:
    """A figure that is not there, in the place that it would take."""
    figure = empty_figure("")
    figure.layout.height = height
    return figure
