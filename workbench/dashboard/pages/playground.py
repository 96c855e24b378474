"""Playground: a string of one's own, how a model copies it, and where its heads look while it does."""

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from workbench.dashboard.data import Data
from workbench.dashboard.live_models import LiveModels, live_models
from workbench.dashboard.numbers import at_most, listed, numbers_of, register_numbers
from workbench.dashboard.pages import playground_choices, playground_row
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.playground_copy import Cell, Line, answer_cells, instead, token_grid, verdict
from workbench.dashboard.pages.playground_row import Query, default_row
from workbench.dashboard.pages.playground_strings import OF_STRINGS, Chosen, choose, follow_live
from workbench.dashboard.parts import link, panel, switch, token
from workbench.dashboard.regions import EVERYTHING, memory
from workbench.dashboard.state import ViewState
from workbench.figures import TokenPath, coordinate_path, empty_figure, index_line
from workbench.figures.style import scheme_style

if TYPE_CHECKING:
    from analyses.decoding import Decoded

PATH = "/playground"
_CONFIG = {"displaylogo": False, "displayModeBar": False, "showTips": False}
_PINNED = -1  # what the browser says while no token is pointed at
_NAMED = 8  # places fed otherwise that are named one by one
_HINTS = {
    "string": "Point at a token to look from it, click to keep it, type a digit over the string to change it.",
    "fed": "Point at a token to look from it, click to keep it, type a digit over the string or over what is fed to "
    "change it.",
}
_MODES = (("both", "Both"), ("forced", "Teacher-forced"), ("free", "Free-running"))


def layout() -> Component:
    """Return the skeleton of the page."""
    drawn = [
        html.P(id="playground-finding"),
        html.Div(dcc.Graph(id="playground-row", config=_CONFIG, className="graph", figure=empty_figure("")),
                 id="playground-row-figure", className="row-figure", role="img"),
        html.Div(id="playground-keys"),
    ]  # fmt: skip
    return html.Div(
        [
            *(memory(f"playground-{region}") for region in ("bar", "copy", "query", "coordinates")),
            dcc.Store(id="playground-at", data=_PINNED),
            playground_choices.columns(
                "playground",
                panel(
                    None,
                    html.Div(id="playground-bar", className="toolbar"),
                    html.Div(id="playground-verdicts"),
                    html.Div(id="playground-copy", className="copy-area"),
                    className="copy-panel",
                ),
                panel(None, html.Div(id="playground-row-bar", className="toolbar"), *drawn, className="query-panel"),
                panel(
                    None,
                    html.Figure(
                        [
                            html.Figcaption(id="playground-places-said", className="unseen"),
                            dcc.Graph(
                                id="playground-places", config=_CONFIG, className="graph", figure=empty_figure("")
                            ),
                            numbers_of("playground-places"),
                        ]
                    ),
                    className="places-panel",
                ),
            ),
        ]
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    models = live_models(app, data)
    playground_choices.register(app, models, "playground", PATH)
    follow_live(
        app,
        models,
        "playground",
        "bar",
        [Output("playground-bar", "children")],
        EVERYTHING,
        lambda chosen, view: (toolbar(chosen, view),),
    )
    follow_live(
        app,
        models,
        "playground",
        "copy",
        [Output("playground-verdicts", "children"), Output("playground-copy", "children")],
        (*OF_STRINGS, "mode", "fed"),
        lambda chosen, view: copies(models, chosen),
    )

    def render_query(chosen: Chosen, view: ViewState, at: int) -> tuple[Any, ...]:
        query, notes = query_at(models, chosen, at)
        bar = playground_row.bar(query, view, PATH, notes)
        said = playground_row.finding(query)
        return bar, said, playground_row.figure(query), said, playground_row.keys_table(query)

    follow_live(
        app,
        models,
        "playground",
        "query",
        [
            Output("playground-row-bar", "children"),
            Output("playground-finding", "children"),
            Output("playground-row", "figure"),
            Output("playground-row-figure", "aria-label"),
            Output("playground-keys", "children"),
        ],
        EVERYTHING,
        render_query,
        also=Input("playground-at", "data"),
    )
    follow_live(
        app,
        models,
        "playground",
        "coordinates",
        [Output("playground-places", "figure"), Output("playground-places-said", "children")],
        (*OF_STRINGS, "mode", "layer", "fed"),
        lambda chosen, view: places(models, chosen),
    )
    register_numbers(app, "playground-places", lambda view: places_table(models, choose(models, view)))
    app.clientside_callback(
        ClientsideFunction("live", "mark"),
        Output("playground-row-bar", "title"),
        Input("playground-row-bar", "children"),
        Input("playground-copy", "children"),
    )


def toolbar(chosen: Chosen, view: ViewState) -> Component:
    """Return what is copied, and the choice of copy."""
    modes = [(label, PATH + view.change(mode=mode).query(), view.mode == mode) for mode, label in _MODES]
    notes = [html.P(note, className="note") for note in chosen.notes]
    told = html.Span(["Copies ", html.B(chosen.words)], className="copied-words")
    return html.Div([html.Div([switch("Copy", modes, named=False), told], className="controls"), *notes])


def copies(models: LiveModels, chosen: Chosen) -> tuple[list[Component], list[Component]]:
    """Return how each copy went, and all of them token by token below the string."""
    decoded = [copy_of(models, chosen, free) for free in modes(chosen.view)]
    names, first = chosen.names, chosen.live.task.a
    targets = decoded[0].targets
    source: list[Cell | None] = [
        Cell(names[t], f"{names[t]} at position {first + k}", "source", None, 2 * (first + k))
        for k, t in enumerate(chosen.tokens)
    ]
    end = chosen.live.vocabulary.delimiter[0]
    source.append(Cell(names[end], "B1, by which EOS is located", "anchor", None, 2 * (first + chosen.length)))
    lines = [Line("string", source)]
    for copy in decoded:
        predicted, confidence, rows = (part.tolist() for part in (copy.predicted, copy.confidence, copy.rows))
        cells = answer_cells(names, predicted, targets.tolist(), confidence, rows, copy.free)
        lines.append(Line("free" if copy.free else "forced", cells))
        if not copy.free and (chosen.fed or chosen.view.mode == "forced"):
            lines.append(Line("fed", fed_cells(chosen, rows)))
    legend = html.P(
        [
            html.Span([html.Span(className="legend-bar"), "probability of the answer"], className="legend-part"),
            html.Span([html.Span("0", className="cell wrong legend-cell"), "wrong"], className="legend-part"),
            html.Span(
                [html.Span("0", className="cell wrong first legend-cell"), "first error"], className="legend-part"
            ),
            html.Span(_HINTS["fed" if any(line.label == "fed" for line in lines) else "string"]),
        ],
        className="legend quiet",
    )
    label = "The string and its copies, token by token; arrow keys move"
    return [told(copy, chosen) for copy in decoded], [token_grid(lines, "playground-grid", label), legend]


def copy_of(models: LiveModels, chosen: Chosen, free: bool) -> "Decoded":
    """Return one copy of the string, the teacher-forced one fed as the view asks."""
    return models.decoded(chosen.live, chosen.tokens, free=free, fed=chosen.fed)


def fed_cells(chosen: Chosen, rows: list[int]) -> list[Cell | None]:
    """Return the copied tokens that the teacher-forced copy is fed; each looks from the query that reads it."""
    names, otherwise = chosen.names, dict(chosen.fed)
    cells: list[Cell | None] = []
    for k, right in enumerate(chosen.tokens):
        token = otherwise.get(k, right)
        said = f"fed {names[token]}" + (f" in place of {names[right]}" if k in otherwise else ", the right one")
        cells.append(Cell(names[token], said, "fed changed" if k in otherwise else "fed", None, 2 * (rows[k] + 1)))
    return cells


def told(copy: "Decoded", chosen: Chosen) -> Component:
    """Return in a line how a copy went."""
    label, n, k = ("Free-running" if copy.free else "Teacher-forced"), chosen.length, copy.first_error
    more: list[Any] = []
    if k is not None:
        more = [": ", *instead(chosen.names, int(copy.predicted[k]), int(copy.targets[k]))]
        more.append(f" at {copy.confidence[k]:.2f}")
    hits = copy.predicted == copy.targets[: len(copy.predicted)]
    more.append(f" · {int(hits.sum()):,} of {n + 1:,} right · mean probability {float(copy.confidence.mean()):.2f}")
    if chosen.fed and not copy.free:
        more += after_fed(chosen, hits)
    if copy.cut:
        more.append(f" · stopped after {len(copy.predicted):,} tokens, as decoding further would take too long")
    elif copy.free and len(copy.predicted) < n + 1:
        more.append(f" · ended itself at token {len(copy.predicted) - 1:,}")
    elif copy.free and copy.predicted[-1] != copy.targets[-1]:
        more.append(" · did not end in time")
    return verdict(label, k, n, *more)


def after_fed(chosen: Chosen, hits: np.ndarray) -> list[Any]:
    """Return what was fed in place of right tokens, how the copy goes on from there, and the way back."""
    places = [index for index, _ in chosen.fed]
    listed_places = ", ".join(f"{index:,}" for index in places[:_NAMED]) + (", …" if len(places) > _NAMED else "")
    behind = hits[places[0] + 1 :]
    said = f" · fed otherwise at {listed_places}: {int(behind.sum()):,} of {len(behind):,} behind the first are right "
    back = PATH + chosen.view.change(fed=None).query()
    return [said, link("Feed the right copy", back, title="Undo what is fed in place of right tokens")]


def modes(view: ViewState) -> tuple[bool, ...]:
    """Return which copies are shown: False stands for teacher-forced, True for free-running."""
    return {"both": (False, True), "forced": (False,), "free": (True,)}[view.mode]


def query_at(models: LiveModels, chosen: Chosen, at: int) -> tuple[Query, tuple[str, ...]]:
    """Return the query that is pointed at, else the pinned one, else the first error; and what was replaced."""
    shown = modes(chosen.view)
    pointed = at >= 0 and bool(at % 2) in shown
    free = bool(at % 2) if pointed else shown[0]
    decoded = copy_of(models, chosen, free)
    row = at // 2 if pointed else chosen.view.row
    if row is None:
        return Query(chosen, decoded, default_row(decoded)), ()
    if row <= decoded.last_row:
        return Query(chosen, decoded, row), ()
    note = f"The copy has no query {row:,}; showing its last one."
    return Query(chosen, decoded, decoded.last_row), () if pointed else (note,)


def places(models: LiveModels, chosen: Chosen) -> tuple[go.Figure, str]:
    """Return where the chosen layer places the tokens of the copy, and that in a line."""
    decoded = copy_of(models, chosen, modes(chosen.view)[0])
    layer = chosen.view.layer
    coords, end = decoded.coords[layer], decoded.last_row + 1
    scheme = scheme_style(chosen.live.schemes[layer]).label
    if coords is None:
        said = f"Layer {layer} ({scheme}) gives tokens no coordinates."
        return empty_figure(said), said
    names = [chosen.names[i] for i in decoded.string.tokens[:end]]
    kinds = token_kinds(chosen, end)
    coords = coords[:end]
    if coords.shape[1] == 1:
        path = TokenPath(names, kinds, np.zeros(end), coords[:, 0])
        title = f"Layer {layer}, {scheme}: coordinate of every token"
        said = f"{title}, {coords.min():.1f} to {coords.max():.1f}"
        return index_line(path, title=title, value_name="coordinate"), said
    path = TokenPath(names, kinds, coords[:, 0], coords[:, 1])
    rows = f"rows {coords[:, 0].min():.1f} to {coords[:, 0].max():.1f}"
    title = f"Layer {layer}, {scheme}: {rows}, columns {coords[:, 1].min():.1f} to {coords[:, 1].max():.1f}"
    return coordinate_path(path, title=title, column_name="column (tokens)", row_name="row"), title


def places_table(models: LiveModels, chosen: Chosen) -> Component:
    """Return the coordinates of the tokens of the copy as a table."""
    decoded = copy_of(models, chosen, modes(chosen.view)[0])
    coords, end = decoded.coords[chosen.view.layer], decoded.last_row + 1
    if coords is None:
        return html.P("This layer gives tokens no coordinates.", className="quiet")
    names = ("Coordinate",) if coords.shape[1] == 1 else ("Row", "Column")
    rows = [
        [str(i), token(chosen.names[decoded.string.tokens[i]]), *(f"{value:.3f}" for value in coords[i])]
        for i in at_most(end).tolist()
    ]
    columns = [("Index", "number"), ("Token", ""), *((name, "number") for name in names)]
    rest = "All of them: capture the string, and open Coordinates."
    return listed(columns, rows, "Coordinates of every token", of=end, rest=rest)


def token_kinds(chosen: Chosen, count: int) -> list[str]:
    """Return the kind of the first `count` tokens, keys of figures.style.KIND_STYLES."""
    a, b = chosen.live.task.a, chosen.live.task.b
    kinds = ["prefix"] * a + ["source"] * chosen.length + ["separator"] + ["delimiter"] * (b - 1)
    return (kinds + ["copy"] * count)[:count]


PLAYGROUND = Page(
    name="playground",
    path=PATH,
    title="Playground",
    purpose="How does this model copy a string of my own, token by token, and where does it look while it does?",
    layout=layout,
    register=register,
)
