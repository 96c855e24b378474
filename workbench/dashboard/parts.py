"""Small components that every page is built of."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.guard import message_of, sentence
from workbench.figures.style import SchemeStyle, scheme_style
from workbench.figures.tokens import visible

# A minus-free path a marker, drawn in a 12 x 12 box: the shapes plotly draws, for table rows and legends.
_SHAPES = {
    "circle": "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z",
    "square": "M2 2h8v8h-8z",
    "diamond": "M6 .5L11.5 6L6 11.5L.5 6z",
}


class Nothing(WorkbenchError):
    """There is nothing to show yet; says what to do next.

    Attributes:
        commands: what to type for it.
    """

    def __init__(self, message: str, *commands: str) -> None:
        super().__init__(message)
        self.commands = commands


def message(error: Exception) -> Component:
    """Return the panel that stands where something could not be shown."""
    if isinstance(error, Nothing):
        commands = [html.Pre(html.Code(command), className="command", tabIndex=0) for command in error.commands]
        return html.Div([html.P(sentence(str(error))), *commands], className="empty")
    return html.Div(html.P(message_of(error), role="alert"), className="empty problem")


def link(label: Any, href: str, **more: Any) -> Component:
    """Return a link inside the dashboard; assets/workbench.js follows it without loading the page anew."""
    return html.A(label, href=href, **more)


def switch(label: str, choices: Sequence[tuple[str, str, bool]], *, named: bool = True) -> Component:
    """Return a segmented choice made of links.

    Args:
        label: what is chosen.
        choices: (text, address, whether it is the current one) of each segment.
        named: whether the label is seen, not only read out.
    """
    segments = [
        link(text, href, className="segment", **({"aria-current": "true"} if current else {}))
        for text, href, current in choices
    ]
    name = [html.Span(label, className="switch-label")] if named else []
    return html.Div(
        [*name, html.Span(segments, className="segments")], className="switch", role="group", **_named(label)
    )


def panel(title: str | None, *children: Any, id: str | None = None, className: str = "") -> Component:
    """Return a titled region of a page."""
    heading = [html.H2(title)] if title else []
    named = {"id": id} if id else {}
    return html.Section([*heading, *children], className=f"panel {className}".strip(), **named)


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], caption: str, **more: Any) -> Component:
    """Return a plain table.

    Args:
        columns: (heading, class) of each column, "" for one without a heading; the class "number" aligns right.
        rows: the cells, components or text.
        caption: what the table lists, read by screen readers.
        **more: properties of the html.Table.
    """
    head = html.Tr(
        [html.Th(name, className=kind, scope="col") if name else html.Td(className=kind) for name, kind in columns]
    )
    body = [
        html.Tr([html.Td(cell, className=kind) for cell, (_, kind) in zip(row, columns, strict=True)]) for row in rows
    ]
    return html.Table([html.Caption(caption, className="unseen"), html.Thead(head), html.Tbody(body)], **more)


def token(name: str) -> Component:
    """Return a token's name as it is shown in running text: visible, isolated from what is beside it."""
    return html.Bdi(visible(name), className="token")


def swatch(scheme: str, label: bool = True, repeat: int = 0) -> Component:
    """Return the line, marker and name by which a scheme is known in every figure, for its `repeat`-th run there."""
    style = scheme_style(scheme)
    if repeat:
        style = replace(style, marker=f"{style.marker.removesuffix('-open')}-open")
    mark = html.Img(src=_swatch_uri(style), alt="", width=30, height=12, className="swatch")
    return html.Span([mark, style.label] if label else [mark], className="scheme")


def mark(marker: str, color: str) -> str:
    """Return the address of a figure's marker as a picture of 12 x 12, for tables beside the figure."""
    shape = _SHAPES.get(marker.removesuffix("-open")) or _polygon(marker.removesuffix("-open"))
    filled = "none" if marker.endswith("-open") else color
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12"><path d="{shape}" fill="{filled}" '
        f'stroke="{color}"/></svg>'
    )
    return _data_uri(svg)


def ago(seconds: float) -> str:
    """Return an age in the largest unit that fits: "now", "4 min", "3 h", "12 d"."""
    if seconds < 60:
        return "now"
    for size, unit in ((86_400 * 2, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // (86_400 if unit == 'd' else size))} {unit}"
    return "now"


def _named(label: str) -> dict[str, str]:
    return {"aria-label": label}


def _swatch_uri(style: SchemeStyle) -> str:
    dash = {"solid": "", "dot": "2 3", "dash": "6 4", "dashdot": "6 3 2 3", "longdash": "9 4", "longdashdot": "9 3 2 3"}
    marker = style.marker.removesuffix("-open")
    shape = _SHAPES.get(marker) or _polygon(marker)
    filled = "none" if style.marker.endswith("-open") else style.color
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 12"><path d="M0 6H30" stroke="{style.color}" '
        f'stroke-width="2" stroke-dasharray="{dash[style.dash]}"/><path transform="translate(9 0)" d="{shape}" '
        f'fill="{filled}" stroke="{style.color}"/></svg>'
    )
    return _data_uri(svg)


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def _polygon(marker: str) -> str:
    points = {
        "triangle-up": "6,1 11,10 1,10",
        "triangle-down": "1,2 11,2 6,11",
        "triangle-left": "1,6 10,1 10,11",
        "pentagon": "6,1 11,5 9,11 3,11 1,5",
        "hexagon": "6,.5 11,3 11,9 6,11.5 1,9 1,3",
        "x": "1,3 3,1 6,4 9,1 11,3 8,6 11,9 9,11 6,8 3,11 1,9 4,6",
        "cross": "4,1 8,1 8,4 11,4 11,8 8,8 8,11 4,11 4,8 1,8 1,4 4,4",
        "star": "6,.5 7.6,4.3 11.5,4.6 8.5,7.2 9.5,11.2 6,9 2.5,11.2 3.5,7.2 .5,4.6 4.4,4.3",
        "bowtie": "1,2 6,6 11,2 11,10 6,6 1,10",
        "hourglass": "2,1 10,1 6,6 10,11 2,11 6,6",
        "star-diamond": "6,0 7.5,4.5 12,6 7.5,7.5 6,12 4.5,7.5 0,6 4.5,4.5",
        "star-square": "1,1 6,3.5 11,1 8.5,6 11,11 6,8.5 1,11 3.5,6",
        "hexagram": "6,.5 7.8,3.2 11,3.2 9.4,6 11,8.8 7.8,8.8 6,11.5 4.2,8.8 1,8.8 2.6,6 1,3.2 4.2,3.2",
    }.get(marker, "6,2 10,6 6,10 2,6")
    return "M" + "L".join(points.split(" ")) + "z"
