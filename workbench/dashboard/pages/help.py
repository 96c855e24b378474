"""Help: what each page answers, how a map is read, words, labels, keys, commands, files."""

from collections.abc import Iterable

from dash import Dash, Output, html
from dash.development.base_component import Component

from analyses.labels import RULES
from workbench.dashboard.data import Data
from workbench.dashboard.pages import help_words as words
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.heads_parts import label_look
from workbench.dashboard.pages.help_pictures import picture
from workbench.dashboard.parts import link, panel, table
from workbench.dashboard.regions import EVERYTHING, follow, memory
from workbench.dashboard.shortcuts import shortcut_table
from workbench.dashboard.state import ViewState

PATH = "/help"
_SECTIONS = {
    "pages": "The pages",
    "map": "How to read a map",
    "words": "Words",
    "labels": "Labels of heads",
    "compare": "Two subjects side by side",
    "keys": "Keys",
    "commands": "Commands that fill the store",
    "links": "Links",
    "files": "Files",
    "safety": "Safety",
}


def layout() -> Component:
    """Return the page; its links and commands are put right once the view and the store are known."""
    contents = html.Nav(
        html.Ul([html.Li(html.A(title, href=f"#help-{name}")) for name, title in _SECTIONS.items()]),
        className="help-contents",
        **{"aria-label": "On this page"},
    )
    sections = [
        _section("pages", html.Div(page_list(ViewState()), id="help-pages-list")),
        _section("map", _map()),
        _section("words", _words()),
        _section("labels", _labels()),
        _section("compare", *map(_paragraph, words.COMPARE), _named(words.COMPARED)),
        _section("keys", _paragraph("Not while something is typed into a field."), shortcut_table(where=True)),
        _section("commands", html.Div(commands(""), id="help-commands-list")),
        _section("links", *map(_paragraph, words.LINKS)),
        _section("files", html.Div(id="help-store"), _described(words.FILES)),
        _section("safety", *map(_paragraph, words.SAFETY)),
    ]
    return html.Div([memory("help-pages"), contents, html.Div(sections, className="help-text")], className="help")


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""

    def render(view: ViewState) -> tuple[Component, Component, Component]:
        return page_list(view), commands(data.store.option), where(data)

    follow(
        app,
        "help-pages",
        [Output(f"help-{name}", "children") for name in ("pages-list", "commands-list", "store")],
        EVERYTHING,
        render,
    )


def page_list(view: ViewState) -> Component:
    """Return what each page answers, with links that keep the view."""
    from workbench.dashboard.pages import PAGES  # the registry imports this page

    entries: list[Component] = []
    for page in (PAGES[path] for path in PAGES if path != PATH):
        entries += [html.Dt(link(page.title, page.path + view.query())), html.Dd(page.purpose)]
    return html.Dl(entries, className="terms")


def commands(option: str) -> Component:
    """Return the commands; `option` names the store where it is not the usual one."""
    entries: list[Component] = []
    for command, does in words.COMMANDS:
        entries += [html.Dt(html.Code(f"workbench {command}{option}")), html.Dd(does)]
    return html.Dl(entries, className="terms commands")


def where(data: Data) -> Component:
    """Return where the store is and how another one is chosen."""
    said = ["Runs are read from ", html.Code(html.Bdi(str(data.store.root))), "; another store is given by "]
    said += [html.Code("--store DIR"), " or ", html.Code("COPY_WORKBENCH_STORE"), ". A run is a folder there:"]
    return html.P(said)


def _section(name: str, *children: Component) -> Component:
    return panel(_SECTIONS[name], *children, id=f"help-{name}")


def _paragraph(text: str) -> Component:
    return html.P(text)


def _map() -> Component:
    task = html.Pre(html.Code(words.TASK), className="command", tabIndex=0, **{"aria-label": "A sequence of the task"})
    asked = html.P(
        "A sequence is a prefix of a tokens, a string s of n tokens, a delimiter of b tokens that begins with a line "
        "break, and the string again, which the model has to write:"
    )
    shapes = [
        html.Figure([html.Img(src=picture(label), alt=f"Pattern of a pure {label} head"), html.Figcaption(said)])
        for label, said in words.SHAPES.items()
    ]
    return html.Div([asked, task, *map(_paragraph, words.MAP), html.Div(shapes, className="help-shapes")])


def _words() -> Component:
    entries: list[Component] = []
    for term in words.TERMS:
        source = [html.Span(term.source, className="term-source")] if term.source else []
        entries += [html.Dt(term.name), html.Dd([term.means, " ", *source])]
    papers = _paragraph(
        "[C2D] is arXiv 2607.16072, Frontier Language Models Struggle to Copy: Text Can Be Better Viewed in 2D; [EXR] "
        "is arXiv 2608.11909, Disentangling the Expressivity of RoPE. Words without a source are the workbench's own."
    )
    return html.Div([html.Dl(entries, className="terms"), papers])


def _labels() -> Component:
    """Return the table of rules, as the classifier has it, with the look that each label has in every figure."""
    rows = []
    for rule in RULES:
        drawn = picture(rule.label)
        shown = html.Img(src=drawn, alt="", className="help-pattern") if drawn else html.Span("–", className="quiet")
        name = html.Span(**label_look(rule.label))
        asked = [html.Div(str(condition)) for condition in rule.conditions] or [html.Div("none of the above")]
        called = [name, *([html.Div(f"({rule.parameter})", className="quiet")] if rule.parameter else [])]
        rows.append([html.Div(called), shown, html.Div(asked, className="help-conditions"), rule.sentence])
    columns = (("Label", ""), ("Pure pattern", ""), ("Asked for", ""), ("What it does", ""))
    listed = table(columns, rows, "Labels of heads, the first whose conditions hold", className="help-labels")
    said = _paragraph(
        "A head has the first label whose conditions all hold. Scores count from chance, where a chance is known. The "
        "report of a run says the formula of every score."
    )
    return html.Div([said, html.Div(listed, className="scroll", tabIndex=0, role="group", **{"aria-label": "Labels"})])


def _named(entries: Iterable[tuple[str | Component, str]]) -> Component:
    cells: list[Component] = []
    for name, says in entries:
        cells += [html.Dt(name), html.Dd(says)]
    return html.Dl(cells, className="terms")


def _described(entries: tuple[tuple[str, str], ...]) -> Component:
    return _named((html.Code(name), says) for name, says in entries)


HELP = Page(
    name="help",
    path=PATH,
    title="Help",
    purpose="What can be asked here, how is what is drawn read, and what do the words and keys mean?",
    layout=layout,
    register=register,
)
