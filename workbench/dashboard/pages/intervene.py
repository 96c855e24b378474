"""Intervene: heads ablated, or attention knocked out, and what that changes in the copy."""

import time
from typing import Any

from dash import Dash, Output, dcc, html
from dash.development.base_component import Component

from workbench.dashboard.data import Data
from workbench.dashboard.live_models import LiveModels, live_models
from workbench.dashboard.numbers import numbers_of, register_numbers
from workbench.dashboard.pages import intervene_compare, intervene_outcome, playground_choices
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.pages.intervene_code import COMPANIONS, takes_from_others
from workbench.dashboard.pages.intervene_compare import Both
from workbench.dashboard.pages.intervene_compare_tables import effects_table, margins_of_both, tokens_of_both
from workbench.dashboard.pages.intervene_compare_tables import heading as heading_of_both
from workbench.dashboard.pages.intervene_outcome import Done, words_of
from workbench.dashboard.pages.intervene_tables import as_text, effect_table, margins_table, strings_table, tokens
from workbench.dashboard.pages.intervene_what import what
from workbench.dashboard.pages.playground_pairs import start_link
from workbench.dashboard.pages.playground_strings import OF_STRINGS, Chosen, choose, follow_live, settings_of
from workbench.dashboard.parts import link, panel
from workbench.dashboard.regions import EVERYTHING, memory
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure
from workbench.figures.intervene import compared_differences, logit_differences

PATH = "/intervene"
_CONFIG = {"displaylogo": False, "displayModeBar": False, "showTips": False}
_OF_OUTCOME = (*OF_STRINGS, "count", "heads", "way", "keys", "how", "layer", "head", "beside")


def layout() -> Component:
    """Return the skeleton of the page."""
    copying = html.Button("Copy code", type="button", **{"data-copies": "intervene-code"})
    code = [
        html.Div([html.H2("The same in a notebook"), copying], className="row-head"),
        html.Pre(html.Code(id="intervene-code"), className="command code", tabIndex=0),
    ]
    graph = dcc.Graph(id="intervene-graph", config=_CONFIG, className="graph", figure=empty_figure(""))
    return html.Div(
        [
            memory("intervene-what"),
            memory("intervene-outcome"),
            playground_choices.columns(
                "intervene",
                panel(None, id="intervene-beside", className="beside-panel"),
                panel(None, html.Div(id="intervene-what", className="toolbar"), className="what-panel"),
                panel(None, html.Div(id="intervene-effect"), className="effect-panel"),
                panel(
                    None,
                    html.Figure(
                        [
                            html.Figcaption(id="intervene-finding"),
                            html.Div(graph, id="intervene-figure", className="margins-figure", role="img"),
                            numbers_of("intervene-margins"),
                        ]
                    ),
                    className="margins-panel",
                ),
                panel(None, *code, className="code-panel"),
                panel(None, html.Div(id="intervene-tokens"), className="tokens-panel"),
            ),
        ]
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    models, reports = live_models(app, data), Reports(data)
    playground_choices.register(app, models, "intervene", PATH, batches=True)
    follow_live(
        app,
        models,
        "intervene",
        "what",
        [Output("intervene-what", "children"), Output("intervene-beside", "children")],
        EVERYTHING,
        lambda chosen, view: (
            what(chosen, view, PATH, reports, start_link(models, chosen, view, PATH)),
            intervene_compare.panel_of(models, chosen, view, PATH),
        ),
    )
    follow_live(
        app,
        models,
        "intervene",
        "outcome",
        [
            Output("intervene-effect", "children"),
            Output("intervene-finding", "children"),
            Output("intervene-graph", "figure"),
            Output("intervene-figure", "aria-label"),
            Output("intervene-tokens", "children"),
            Output("intervene-code", "children"),
        ],
        _OF_OUTCOME,
        lambda chosen, view: outcome(models, chosen, view),
    )

    def table_of_margins(view: ViewState) -> Component:
        chosen = choose(models, view)
        done = intervene_outcome.run(models, chosen)
        if done is None:
            return html.P("Tick at least one head first.", className="quiet")
        both = intervene_compare.run(models, chosen, done, view)
        return margins_table(done) if both is None else margins_of_both(both)

    register_numbers(app, "intervene-margins", table_of_margins)


def outcome(models: LiveModels, chosen: Chosen, view: ViewState) -> tuple[Any, ...]:
    """Return all that is shown of an intervention, or what to do first."""
    started = time.perf_counter()
    done = intervene_outcome.run(models, chosen)
    if done is None:
        return start(chosen), "", empty_figure(""), "", [], ""
    both = intervene_compare.run(models, chosen, done, view)
    milliseconds = (time.perf_counter() - started) * 1000
    if both is not None:
        return outcome_of_both(models, both, milliseconds)
    said, figure = finding(done), logit_differences(done.margins)
    shown = strings_table(done) if done.batch else tokens(done, chosen)
    effect = [*heading(done, chosen, milliseconds), effect_table(done)]
    return effect, said, figure, said, shown, done.code


def outcome_of_both(models: LiveModels, both: Both, milliseconds: float) -> tuple[Any, ...]:
    """Return all that is shown of an intervention on two subjects."""
    said = intervene_compare.finding(both)
    figure = compared_differences(both.first.margins, both.second.margins, both.contrast, both.called)
    effect = [heading_of_both(both, milliseconds), effects_table(both)]
    return effect, said, figure, said, tokens_of_both(both), intervene_compare.code(models, both)


def start(chosen: Chosen) -> Component:
    """Return what to do first, and the shortest way: the head that other pages show."""
    view = chosen.view
    name = f"{view.layer}.{view.head}"
    to = PATH + view.change(heads=((view.layer, view.head),)).query()
    said = "Tick at least one head above: what it does to the copy is shown here."
    begin = link(f"Tick head {name}", to, className="button", title="The head that other pages show")
    return html.Div([html.P(said), begin], className="empty")


def heading(done: Done, chosen: Chosen, milliseconds: float) -> list[Component]:
    """Return what was done to what, in words."""
    view = chosen.view
    words = done.intervention.words
    said = [html.B(words[:1].upper() + words[1:]), f" · on {words_of(done, chosen)}"]
    if takes_from_others(view) and not done.batch:
        said.append(f" · values from {COMPANIONS} other strings, {settings_of(chosen.live, view).distribution}")
    took = html.Span(f"{milliseconds:,.0f} ms", className="count", title="how long the model took")
    return [html.Div([html.P(said), took], className="done-words")]


def finding(done: Done) -> str:
    """Return in a line what the intervention changed; plain text."""
    changed = [int((before != after).sum()) for before, after, *_ in map(done.answers, range(len(done.strings)))]
    rows = sum(len(one.right) for one in done.baseline)
    shift = done.effect.logit_difference.difference.value or 0.0
    told = f"{sum(changed):,} of {rows:,} predicted tokens change"
    whose = "logit difference" if len(done.strings) == 1 else f"logit difference, mean of {len(done.strings)} strings,"
    moved = (
        "does not change" if as_text(shift) == "0.00" else f"{'rises' if shift > 0 else 'falls'} by {abs(shift):.2f}"
    )
    return f"{told}; the {whose} {moved}. Below 0 a token is copied wrongly."


INTERVENE = Page(
    name="intervene",
    path=PATH,
    title="Intervene",
    purpose="What happens to the copy when heads are ablated, or may not attend to what they attend to?",
    layout=layout,
    register=register,
)
