"""One self-contained HTML file: text, tables, pictures and interactive figures, without a single outside address.

Everything that comes from data is escaped here and nowhere else. The same content gives the same bytes.
"""

import base64
import html
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any
from urllib.parse import quote

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from workbench.content.base import About

STYLESHEET = "report.css"


class Document:
    """A report that is put together from top to bottom.

    Attributes:
        title: of the window and the first heading.
    """

    def __init__(self, title: str, lead: str) -> None:
        """Begin with a heading and the sentence that says what was found."""
        self.title = title
        self._parts = [f"<h1>{text(title)}</h1>", f'<p class="lead">{text(lead)}</p>']
        self._headings: list[tuple[str, str]] = []
        self._figures = 0

    def section(self, heading: str, *paragraphs: str) -> None:
        """Begin a section."""
        anchor = f"s{len(self._headings) + 1}"
        self._headings.append((anchor, heading))
        self._parts.append(f'<h2 id="{anchor}">{text(heading)}</h2>')
        self.paragraphs(*paragraphs)

    def paragraphs(self, *paragraphs: str) -> None:
        """Add text, one paragraph a string."""
        self._parts += [f"<p>{text(paragraph)}</p>" for paragraph in paragraphs]

    def subheading(self, heading: str) -> None:
        """Add a heading inside a section."""
        self._parts.append(f"<h3>{text(heading)}</h3>")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> None:
        """Add a table; a column whose name begins with `>` is right-aligned, and cells may be `Picture`s or `Mark`s."""
        right = [name.startswith(">") for name in columns]
        head = "".join(_cell("th", name.lstrip(">"), at) for name, at in zip(columns, right, strict=True))
        body = "".join(
            "<tr>" + "".join(_cell("td", cell, at) for cell, at in zip(row, right, strict=True)) + "</tr>"
            for row in rows
        )
        named = f"<caption>{text(caption)}</caption>" if caption else ""
        self._parts.append(
            f'<div class="wide"><table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def pictures(self, pictures: Sequence["Picture"]) -> None:
        """Add pictures in a grid."""
        self._parts.append('<div class="grid">' + "".join(picture.figure() for picture in pictures) + "</div>")

    def figure(self, figure: go.Figure, finding: str) -> None:
        """Add an interactive figure; `finding` is what a person should see in it, and its text alternative."""
        self._figures += 1
        body = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=f"figure-{self._figures}",
            config={"displaylogo": False, "responsive": True},
        )
        self._parts.append(
            f'<figure role="group" aria-label="{text(finding)}">{body}<figcaption>{text(finding)}</figcaption></figure>'
        )

    def about(self, about: About) -> None:
        """Add how the report came about: versions, seed, device and date."""
        self.subheading("Versions")
        rows = [*about.versions.items(), ("seed", about.seed), ("device", about.device), ("created", about.created)]
        self.table(["what", "value"], rows)

    def preformatted(self, content: str) -> None:
        """Add a block of code."""
        self._parts.append(f"<pre>{text(content)}</pre>")

    def render(self, script: str | None = None, pages: Sequence[tuple[str, str]] = (), current: str = "") -> str:
        """The file's text.

        Args:
            script: file beside it that holds plotly; by default it is written into the text.
            pages: file and name of every page of the folder that this one is part of, to go to from here.
            current: the file of this one.
        """
        style = resources.files("workbench.reports").joinpath(STYLESHEET).read_text(encoding="utf-8")
        contents = "".join(f'<li><a href="#{anchor}">{text(heading)}</a></li>' for anchor, heading in self._headings)
        plotly = f'<script src="{text(script)}"></script>' if script else f"<script>{get_plotlyjs()}</script>"
        plotly = plotly if self._figures else ""
        head, *rest = self._parts
        if pages:
            head = _page_links(pages, current) + head
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<title>{text(self.title)}</title><style>{style}</style>{plotly}</head>\n<body><main>{head}{rest[0]}"
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>\n' + "\n".join(rest[1:]) + "</main></body></html>\n"
        )


class Picture:
    """A PNG inside the file.

    Attributes:
        content: the PNG file.
        alternative: what it shows, in words.
        caption: below it.
        width: in CSS pixels.
    """

    def __init__(self, content: bytes, alternative: str, caption: str = "", width: int = 160) -> None:
        self.content, self.alternative, self.caption, self.width = content, alternative, caption, width

    def __html__(self) -> str:
        data = base64.b64encode(self.content).decode("ascii")
        return f'<img src="data:image/png;base64,{data}" alt="{text(self.alternative)}" width="{self.width}">'

    def figure(self) -> str:
        """With its caption."""
        return f"<figure>{self.__html__()}<figcaption>{text(self.caption)}</figcaption></figure>"


class Mark:
    """A word with a class of the stylesheet: "good", "bad", "quiet", "strong", or of a token "competitor"."""

    def __init__(self, content: str, kind: str) -> None:
        self.content, self.kind = content, kind

    def __html__(self) -> str:
        return f'<span class="{text(self.kind)}">{text(self.content)}</span>'


class Link:
    """A link to another file of the same folder, or a part of the same one."""

    def __init__(self, content: str, address: str) -> None:
        self.content, self.address = content, address

    def __html__(self) -> str:
        return f'<a href="{text(quote(self.address, safe="#"))}">{text(self.content)}</a>'


class Tokens:
    """Tokens side by side in one width, each a text or a `Mark`."""

    def __init__(self, parts: Sequence[object]) -> None:
        self.parts = parts

    def __html__(self) -> str:
        inside = "".join(part.__html__() if hasattr(part, "__html__") else text(part) for part in self.parts)
        return f'<span class="tokens">{inside}</span>'


def text(value: object) -> str:
    """Escape anything that comes from data; line breaks in it are not markup either."""
    return html.escape(str(value), quote=True)


def _page_links(pages: Sequence[tuple[str, str]], current: str) -> str:
    here = 'aria-current="page"'
    items = "".join(
        f"<li><b {here}>{text(name)}</b></li>" if file == current else f"<li>{Link(name, file).__html__()}</li>"
        for file, name in pages
    )
    return f'<nav class="pages" aria-label="Pages"><ul>{items}</ul></nav>'


def _cell(tag: str, value: object, right: bool) -> str:
    content = value.__html__() if hasattr(value, "__html__") else text(value)
    attribute = ' class="number"' if right else ""
    scope = ' scope="col"' if tag == "th" else ""
    return f"<{tag}{scope}{attribute}>{content}</{tag}>"
