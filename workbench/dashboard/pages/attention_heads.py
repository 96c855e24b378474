"""The layers and heads of a capture as a grid of small maps."""

from dash import html
from dash.development.base_component import Component

from workbench.dashboard import thumbnails
from workbench.dashboard.data import Data
from workbench.dashboard.parts import link
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState


def ready(data: Data, chosen: Selection) -> set[tuple[int, int]]:
    """Return the (layer, head) whose small map needs no long computation."""
    capture, index = chosen.capture, chosen.index
    heads = [(layer, head) for layer, count in enumerate(capture.heads) for head in range(count)]
    return {(layer, head) for layer, head in heads if data.has_map(capture, index, layer, head)}


def head_grid(chosen: Selection, view: ViewState, path: str, drawn: set[tuple[int, int]]) -> Component:
    """Return the layer x head grid of thumbnails; layers with fewer heads leave cells empty.

    Args:
        chosen: the selection.
        view: the view its links change.
        path: address of the page.
        drawn: the (layer, head) that have a thumbnail; any other gets one when it is opened.
    """
    capture, at = chosen.capture, chosen.view
    assert at.run and at.capture and at.string is not None
    width = max(capture.heads)
    corner = html.Span("layer", className="grid-corner")
    cells: list[Component] = [corner, *(html.Span(f"head {h}" if width <= 4 else str(h)) for h in range(width))]
    for layer, count in enumerate(capture.heads):
        cells.append(html.Span(str(layer), className="grid-layer", title=capture.rules[layer].scheme))
        for head in range(width):
            if head >= count:
                cells.append(html.Span(className="no-head", title=f"layer {layer} has {count} heads"))
                continue
            source = thumbnails.address(at.run, at.capture, at.string, layer, head, at.palette, at.scale)
            title = f"Layer {layer}, head {head}"
            picture: Component = html.Img(
                alt=f"Attention pattern of layer {layer}, head {head}", **{"data-src": source}
            )
            if (layer, head) not in drawn:
                picture = html.Span("not computed", className="no-overview")
                title += ": open it to compute its overview"
            current = {"aria-current": "true"} if (layer, head) == (at.layer, at.head) else {}
            here = path + view.change(layer=layer, head=head).query()
            cells.append(link(picture, here, className="thumbnail", title=title, **current))
    heading = html.H2(
        [
            "Heads",
            html.Span(
                f"{sum(capture.heads)} in {capture.n_layers} layer{'s' * (capture.n_layers > 1)}", className="count"
            ),
        ]
    )
    columns = f"1.3rem repeat({width}, minmax({'0.8rem' if width > 4 else '3rem'}, 6rem))"
    grid = html.Div(cells, className="heads", style={"gridTemplateColumns": columns})
    return html.Div([heading, html.Div(grid, className="heads-scroll")])
