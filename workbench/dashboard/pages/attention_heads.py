"""The layers and heads of a capture as a grid of small maps, each with its label where a report is kept."""

from collections.abc import Mapping

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.content.heads import HeadContent
from workbench.dashboard import thumbnails
from workbench.dashboard.data import Data
from workbench.dashboard.pages.heads_evidence import neighbours
from workbench.dashboard.pages.heads_parts import PATH as HEADS_PATH
from workbench.dashboard.pages.heads_parts import label_look, text_of
from workbench.dashboard.pages.heads_reports import Reports, counts_of
from workbench.dashboard.pages.maximise import maximise
from workbench.dashboard.parts import link
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState

_ROOMY = 4  # heads of a layer up to which labels are written out; their shapes alone beyond

Known = Mapping[tuple[int, int], HeadContent]


def ready(data: Data, chosen: Selection) -> set[tuple[int, int]]:
    """Return the (layer, head) whose small map needs no long computation."""
    capture, index = chosen.capture, chosen.index
    heads = [(layer, head) for layer, count in enumerate(capture.heads) for head in range(count)]
    return {(layer, head) for layer, head in heads if data.has_map(capture, index, layer, head)}


def known_heads(reports: Reports, chosen: Selection) -> Known:
    """Return what a kept report says of every head at the step that is shown; nothing where none is kept."""
    run_id, step = chosen.run.id, chosen.step
    try:
        heads = reports.heads(run_id, step).heads if step in reports.steps(run_id) else None
        if heads is None:
            history = reports.history(run_id)
            heads = next((c.heads for c in history.checkpoints if c.step == step), None) if history else None
    except WorkbenchError:  # the Heads page says what is wrong with it
        return {}
    if heads is None or counts_of(heads) != chosen.capture.heads:
        return {}
    return {(head.layer, head.head): head for head in heads}


def head_grid(
    chosen: Selection, view: ViewState, path: str, drawn: set[tuple[int, int]], known: Known | None = None
) -> Component:
    """Return the layer x head grid of thumbnails; layers with fewer heads leave cells empty.

    Args:
        chosen: the selection.
        view: the view its links change.
        path: address of the page.
        drawn: the (layer, head) that have a thumbnail; any other gets one when it is opened.
        known: what a report says of the heads.
    """
    capture, at, known = chosen.capture, chosen.view, known or {}
    assert at.string is not None
    width = max(capture.heads)
    corner = html.Span("layer", className="grid-corner")
    cells: list[Component] = [corner, *(html.Span(f"head {h}" if width <= _ROOMY else str(h)) for h in range(width))]
    keys = {to: key for key, to in neighbours(capture.heads, at.layer, at.head).items() if to is not None}
    for layer, count in enumerate(capture.heads):
        cells.append(html.Span(str(layer), className="grid-layer", title=capture.rules[layer].scheme))
        for head in range(width):
            if head >= count:
                cells.append(html.Span(className="no-head", title=f"layer {layer} has {count} heads"))
                continue
            source = thumbnails.address(chosen.owner.id, chosen.name, at.string, layer, head, at.palette, at.scale)
            title = f"Layer {layer}, head {head}"
            picture: Component = html.Img(
                alt=f"Attention pattern of layer {layer}, head {head}", **{"data-src": source}
            )
            if (layer, head) not in drawn:
                picture = html.Span("not computed", className="no-overview")
                title += ": open it to compute its overview"
            more = {"aria-current": "true"} if (layer, head) == (at.layer, at.head) else {}
            if (layer, head) in keys:
                more["aria-keyshortcuts"] = keys[layer, head]
            here = path + view.change(layer=layer, head=head).query()
            small = link(picture, here, className="thumbnail", title=title, **more)
            label = known.get((layer, head))
            cells.append(
                html.Div([small, _caption(label, chosen, view, width)], className="head-cell") if label else small
            )
    total = f"{sum(capture.heads)} in {capture.n_layers} layer{'s' * (capture.n_layers > 1)}"
    more_room = maximise("attention-heads", "all heads")
    heading = html.H2(["Heads", html.Span([html.Span(total, className="count"), more_room], className="heads-ends")])
    columns = f"1.3rem repeat({width}, minmax({'0.8rem' if width > _ROOMY else '3rem'}, var(--thumbnail, 6rem)))"
    grid = html.Div(cells, className="heads", style={"gridTemplateColumns": columns, "--layers": str(capture.n_layers)})
    return html.Div([heading, html.Div(grid, className="heads-scroll")])


def _caption(head: HeadContent, chosen: Selection, view: ViewState, width: int) -> Component:
    """The head's label in the shape and colour it has everywhere, its deciding score, and the way to its evidence."""
    decided = next((e for e in head.evidence if e.condition is not None and e.value is not None), None)
    score = "" if decided is None or decided.value is None else f"{decided.value:.2f}"
    look = label_look(head.label)
    surely = "" if head.certain else " (uncertain)"
    why = "" if decided is None else f": {decided.score} {text_of(decided)}"
    there = HEADS_PATH + view.change(checkpoint=chosen.step, layer=head.layer, head=head.head).query()
    roomy = width <= _ROOMY
    said = [html.Span(look["children"], className="caption-label"), html.Span(score)] if roomy else []
    return link(
        said,
        there,
        className="head-label" + ("" if roomy else " shape-only"),
        style=look["style"],
        title=f"{look['children']}{surely}{why}. Open in Heads",
        **{"aria-label": f"{look['children']}{surely} {score}, head {head.layer}.{head.head} in Heads"},
    )
