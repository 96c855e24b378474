"""What stands around every page: bar, navigation that keeps the selection, and notes about the address."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from workbench.dashboard.data import Data
from workbench.dashboard.numbers import plain
from workbench.dashboard.pages.base import Page
from workbench.dashboard.parts import link, panel
from workbench.dashboard.shortcuts import shortcut_table
from workbench.dashboard.state import ViewState

NAME = "Copy Workbench"
_ICON = Path(__file__).parent / "assets" / "icon.svg"
HELP = "/help"


def index_page() -> str:
    """Return the HTML page that Dash fills.

    The theme is set before anything is painted. The icon stands in the page, since a browser asks for its file anew at
    every change of the address. Plotly is fetched at once, not when the first graph is met; as a
    prefetch, of which a browser does not complain on pages that draw none.
    """
    icon = "data:image/svg+xml," + quote(_ICON.read_text(encoding="utf-8").strip())
    return """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{%title%}</title>
<link rel="icon" href="{icon}" type="image/svg+xml">
<script>
(function () {
  var kept = null;
  try { kept = localStorage.getItem("copy-workbench-theme"); } catch (error) { kept = null; }
  var dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = kept || (dark ? "dark" : "light");
})();
</script>
<link rel="prefetch" as="script" href="/_dash-component-suites/plotly/package_data/plotly.min.js">
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>""".replace("{icon}", icon)


def layout(data: Data) -> Component:
    """Return the frame; the page is put into it when the address is known."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            html.A("Skip to the page", href="#page", className="skip"),
            html.Header(
                [
                    html.Div(
                        [html.Img(src="/assets/icon.svg", alt="", width=22, height=22), html.Span(NAME)],
                        className="brand",
                    ),
                    html.Nav(id="nav", **{"aria-label": "Pages"}),
                    html.Div(
                        [
                            html.Span(
                                html.Bdi(str(data.store.root)),
                                className="store",
                                title="the store: where runs are read from",
                            ),
                            html.Span(id="link-said", role="status"),
                            _button("copy-link", "Copy link", "Copy the address of this view"),
                            _button("theme", "Theme", "Switch between light and dark"),
                            _button("keys", "?", "Keys of this page: ?", **{"aria-label": "Keys of this page"}),
                        ],
                        className="bar-end",
                    ),
                ],
                className="bar",
            ),
            keys_list(),
            html.Div(id="notes", role="status"),
            html.Div(id="problem"),
            html.Main(id="page", tabIndex=-1),
        ],
        className="shell",
    )


def keys_list() -> Component:
    """Return the closed list of keys; assets/keys.js opens it and hides what does not work on the open page."""
    close = html.Button("Close", type="button", className="closes")
    more = html.P(["All keys, and what the words mean: ", link("Help", HELP)], className="quiet")
    return html.Dialog(
        [
            html.Div([html.H2("Keys of this page", id="keys-title"), close], className="row-head"),
            plain(shortcut_table(where=False)),
            more,
        ],
        id="keys-list",
        **{"aria-labelledby": "keys-title"},
    )


def _button(name: str, text: str, title: str, **more: str) -> Component:
    return html.Button(html.Span(text), id=name, type="button", title=title, **more)


def register(app: Dash, data: Data, pages: Sequence[Page]) -> None:
    """Register navigation and page choice on `app`."""

    @app.callback(
        Output("nav", "children"), Output("notes", "children"), Input("url", "pathname"), Input("url", "search")
    )
    def navigate(path: Any, query: Any) -> tuple[list[Component], list[Component]]:
        view, notes = ViewState.parse(query)
        current = page_at(pages, path)
        links = [
            link(page.title, page.path + view.query(), **({"aria-current": "page"} if page is current else {}))
            for page in pages
        ]
        return links, [html.P(note) for note in notes]

    @app.callback(Output("page", "children"), Output("problem", "children"), Input("url", "pathname"))
    def open_page(path: Any) -> tuple[Component, list[Component]]:
        page = page_at(pages, path)
        return (framed(page) if page else missing(pages)), []

    app.clientside_callback(
        ClientsideFunction("workbench", "entitle"),
        Output("page", "title"),
        Input("nav", "children"),
        State("url", "pathname"),
    )


def page_at(pages: Sequence[Page], path: Any) -> Page | None:
    """Return the page at an address; the first page stands at "/" too."""
    if path in (None, "", "/"):
        return pages[0]
    return next((page for page in pages if page.path == path), None)


def framed(page: Page) -> Component:
    """Return a page under its heading and the question it answers."""
    heading = html.Div([html.H1(page.title), html.P(page.purpose)], className="heading")
    return html.Div([heading, page.layout()], className=f"page page-{page.name}")


def missing(pages: Sequence[Page]) -> Component:
    """Return what is shown for an address that is no page."""
    known = [html.Li(link(page.title, page.path)) for page in pages]
    return panel("There is no such page", html.P("These pages exist:"), html.Ul(known))
