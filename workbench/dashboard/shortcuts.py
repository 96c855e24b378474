"""The keys of the dashboard: one list, which the Help page prints and from which `?` shows those of the open page.

A key follows a link that names it in `aria-keyshortcuts` (assets/workbench.js; `m` presses a button, compare.js), so a
page has the keys whose controls it shows; `here` says where the other ones work. A new key is one entry below.
"""

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

_NAMES = {"ArrowLeft": "←", "ArrowRight": "→", "ArrowUp": "↑", "ArrowDown": "↓", "Escape": "Esc"}
_SPOKEN = {"ArrowLeft": "left", "ArrowRight": "right", "ArrowUp": "up", "ArrowDown": "down", "Escape": "Escape"}


@dataclass(frozen=True)
class Shortcut:
    """What some keys do.

    Attributes:
        keys: as the browser names them, "ArrowLeft".
        does: what happens, in a line.
        here: CSS selector of what is on a page where they work; None for a control that names one of these keys.
        where: the same in words, for the Help page.
    """

    keys: tuple[str, ...]
    does: str
    where: str
    here: str | None = None

    @property
    def selector(self) -> str:
        """CSS selector that finds something on the pages where the keys work."""
        return self.here or ", ".join(f'[aria-keyshortcuts="{key}"]' for key in self.keys)


SHORTCUTS: tuple[Shortcut, ...] = (
    Shortcut(("ArrowLeft", "ArrowRight"), "head before, head after", "wherever a head is chosen"),
    Shortcut(("ArrowUp", "ArrowDown"), "layer before, layer after", "wherever a head is chosen"),
    Shortcut(("[", "]"), "string before, string after", "wherever a string is chosen"),
    Shortcut(("f",), "failed strings only, or all", "wherever a string is chosen"),
    Shortcut(("c",), "compare with a second subject, or stop", "wherever two can stand side by side"),
    Shortcut(("m",), "maximise the map, or put it back", "Attention"),
    Shortcut((",", "."), "checkpoint before, checkpoint after", "wherever there is a slider over checkpoints"),
    Shortcut(
        ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"),
        "with the focus on a token: the token beside, above or below",
        "Playground, Failures",
        ".cell[data-k]",
    ),
    Shortcut(
        ("0", "…", "9"),
        "with the focus on a token of the string: type over it",
        "Playground, Failures",
        ".cell.source, .cell[data-flip]",
    ),
    Shortcut(
        ("0", "…", "9"),
        "with the focus on a fed token: feed another in its place",
        "Playground",
        ".cell.fed",
    ),
    Shortcut(("?",), "this list", "everywhere", "body"),
    Shortcut(("Escape",), "close what lies over the page", "everywhere", "body"),
    Shortcut(("Tab",), "next control; Shift and Tab for the one before", "everywhere", "body"),
)


def shortcut_table(*, where: bool) -> Component:
    """Return the list of keys.

    Args:
        where: whether a column says where they work; without it every row carries the selector by which
            assets/keys.js hides what does not work on the open page.
    """
    rows = []
    for shortcut in SHORTCUTS:
        told = {} if where else {"data-here": shortcut.selector}
        cells = [html.Td(_keys(shortcut.keys), className="keys-cell"), html.Td(shortcut.does)]
        rows.append(html.Tr([*cells, *([html.Td(shortcut.where, className="quiet")] if where else [])], **told))
    names = ("Key", "What it does", *(("Where",) if where else ()))
    heading = html.Thead(html.Tr([html.Th(name, scope="col") for name in names]))
    caption = html.Caption("Keys and what they do", className="unseen")
    return html.Table([caption, heading, html.Tbody(rows)], className="shortcuts")


def _keys(keys: tuple[str, ...]) -> list[Component]:
    """Return keys as they stand on a keyboard; arrows are also named, for those who cannot see them."""
    shown = []
    for key in keys:
        spoken = [html.Span(f"{_SPOKEN[key]} arrow", className="unseen")] if key.startswith("Arrow") else []
        seen = html.Span(_NAMES.get(key, key), **({"aria-hidden": "true"} if spoken else {}))
        shown.append(html.Span([seen, *spoken]) if key == "…" else html.Kbd([seen, *spoken]))
    return shown
