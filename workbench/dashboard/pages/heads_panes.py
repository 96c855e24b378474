"""What is drawn of all heads at once: one score by layer and head, the space of all scores, or how they formed."""

from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.content.heads import HeadsContent, HistoryContent
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages.heads_parts import as_table, bare, label_look, text_of
from workbench.dashboard.pages.heads_reports import Chosen, Reports
from workbench.dashboard.pages.heads_spaces import Preparing, Spaces
from workbench.dashboard.parts import Nothing, link, message
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure
from workbench.figures.head_grid import finding as grid_finding
from workbench.figures.head_grid import score_grid
from workbench.figures.heads import history_lines, label_changes
from workbench.figures.space import finding as space_finding
from workbench.figures.space import head_space
from workbench.figures.style import TRUTH

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


def draw(reports: Reports, spaces: Spaces, chosen: Chosen, view: ViewState) -> Pane:
    """Return the pane that a view shows."""
    if view.pane == "space":
        return space_pane(reports, spaces, chosen, view)
    if view.pane == "history":
        return history_pane(reports, chosen)
    return score_pane(chosen)


def score_pane(chosen: Chosen) -> Pane:
    """One score of every head."""
    heads, score = chosen.content.heads, chosen.view.score
    if score is None:
        return Pane("No score of this report lies between 0 and 1.", _nothing())
    figure = score_grid(
        heads, score, selected=(chosen.head.layer, chosen.head.head), schemes=chosen.content.schemes, title=""
    )
    columns = [("Layer", "number"), *((f"Head {head}", "number") for head in range(max(chosen.counts)))]
    at = {(head.layer, head.head): head for head in heads}
    rows: list[list[Any]] = []
    for layer in range(len(chosen.counts)):
        found = [at.get((layer, head)) for head in range(max(chosen.counts))]
        estimates = [head.scores.get(score) if head else None for head in found]
        rows.append([str(layer), *("" if estimate is None else text_of(estimate) for estimate in estimates)])
    said = f"{sentence(visible_text(grid_finding(heads, score)))} Click a head to open it in Attention."
    return Pane(said, figure, [as_table(columns, rows, f"{visible_text(score)} by layer and head")])


def space_pane(reports: Reports, spaces: Spaces, chosen: Chosen, view: ViewState) -> Pane:
    """The heads of this run and of all that are ticked, along the principal components of their scores."""
    contents, notes = space_contents(reports, chosen, view)
    try:
        space = spaces.of(contents)
    except Preparing as preparing:
        return Pane(html.Span(sentence(str(preparing)), role="status"), _nothing(_SPACE), notes, waits=True)
    figure = bare(head_space(space, title=" "))
    figure.layout.margin.t, figure.layout.xaxis2.title.text = 40, "correlation"
    for trace in figure.data:
        if trace.ids is not None:
            own = [at for at, i in enumerate(trace.ids) if space.points[int(i)].run == chosen.content.subject]
            trace.selectedpoints, trace.unselected = own, {"marker": {"opacity": _PALE}}
    here = next(
        i for i, p in enumerate(space.points)
        if (p.run, p.layer, p.head) == (chosen.content.subject, chosen.head.layer, chosen.head.head)
    )  # fmt: skip
    if space.coordinates.shape[1]:
        x, y = (*space.coordinates[here].tolist(), 0.0)[:2]
        figure.add_scatter(
            x=[x], y=[y], mode="markers", name="selected", hoverinfo="skip",
            marker={"symbol": "circle-open", "size": 22, "color": TRUTH, "line": {"width": 3}},
        )  # fmt: skip
    rows: list[list[Any]] = [
        [
            visible_text(point.run),
            f"{point.layer}.{point.head}",
            html.Span(**label_look(point.label or "")),
            *(f"{value:+.2f}" for value in space.coordinates[i, :2]),
            "" if space.cluster is None else str(int(space.cluster[i]) + 1),
        ]
        for i, point in enumerate(space.points[:_MOST_ROWS])
    ]
    axes = [(f"Component {number + 1}", "number") for number in range(min(2, space.coordinates.shape[1]))]
    columns = [("Run", "id"), ("Head", ""), ("Label", ""), *axes, ("Cluster", "number")]
    more = len(space.points) - _MOST_ROWS
    rest = [html.P(f"The first {_MOST_ROWS} heads; {more} more are drawn.", className="quiet")] if more > 0 else []
    pale = " Those of other runs are pale." if len(contents) > 1 else ""
    said = f"{sentence(visible_text(space_finding(space)))}{pale} Click a head to open it in Attention."
    return Pane(said, figure, [*notes, as_table(columns, rows, "Heads in score space"), *rest])


def space_contents(reports: Reports, chosen: Chosen, view: ViewState) -> tuple[list[HeadsContent], list[Component]]:
    """The reports whose heads share a space: this one and the newest of every ticked run; and notes about the rest."""
    contents, lacking, damaged = [chosen.content], [], []
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
    if not view.runs:
        ticked = link("Tick runs", "/runs" + view.query())
        notes.append(html.P([ticked, " to see their heads in the same space."], className="quiet"))
    return contents, notes


def history_pane(reports: Reports, chosen: Chosen) -> Pane:
    """How the selected head formed, and the labels of all heads over the checkpoints."""
    content = reports.history(chosen.run.id)
    if content is None:
        nothing = Nothing(
            "no report over checkpoints is kept. Where a run kept several checkpoints "
            "(--set train.keep_checkpoints=true), it says when each head formed",
            reports.command(chosen.run.id, more=" --checkpoints"),
        )
        return Pane(message(nothing), _nothing())
    layer, head = chosen.head.layer, chosen.head.head
    single = _of_one(content, layer, head)
    if single is None:
        return Pane(f"The report over checkpoints does not know head {layer}.{head}.", _nothing())
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


def point_of(click: Any) -> dict[str, Any] | None:
    """The point that a click fell on, None where it is none."""
    points = click.get("points") if isinstance(click, dict) else None
    point = points[0] if isinstance(points, list) and points else None
    return point if isinstance(point, dict) else None


def clicked_head(
    reports: Reports, spaces: Spaces, chosen: Chosen, view: ViewState, click: Any
) -> tuple[str, int, int] | None:
    """The run, layer and head that a click on the pane's figure fell on, None where it fell on none."""
    point = point_of(click)
    if point is None:
        return None
    if view.pane == "scores":
        layer, head = (_whole(point.get(side)) for side in ("y", "x"))
        known = {(one.layer, one.head) for one in chosen.content.heads}
        return (chosen.run.id, layer, head) if (layer, head) in known else None
    if view.pane == "space":
        found, space = point.get("id"), spaces.of(space_contents(reports, chosen, view)[0])
        index = (
            int(found) if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 9 else -1
        )
        if 0 <= index < len(space.points):
            there = space.points[index]
            return there.run, there.layer, there.head
    return None


def _whole(value: Any) -> int:
    """A whole number, -1 for anything else."""
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 1e9 else -1


def _of_one(content: HistoryContent, layer: int, head: int) -> HistoryContent | None:
    """A history of one head alone, None where it has none."""
    kept = []
    for checkpoint in content.checkpoints:
        found = tuple(one for one in checkpoint.heads if (one.layer, one.head) == (layer, head))
        if not found:
            return None
        kept.append(checkpoint.model_copy(update={"heads": found}))
    return content.model_copy(update={"checkpoints": tuple(kept)})


def _nothing(height: int = _EMPTY) -> go.Figure:
    figure = empty_figure("")
    figure.layout.height = height
    return figure
