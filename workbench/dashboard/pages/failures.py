"""Failures: why each copy of a run fails, on which evidence, and what comes of the string with a token changed."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import sentence
from workbench.dashboard.job_files import Kind
from workbench.dashboard.jobs import jobs_of
from workbench.dashboard.live_models import live_models
from workbench.dashboard.numbers import numbers_of, register_numbers
from workbench.dashboard.pages import (
    failures_acts,
    failures_choices,
    failures_compare,
    failures_compare_drawn,
    failures_drawn,
    failures_table,
    failures_work,
)
from workbench.dashboard.pages.base import Page
from workbench.dashboard.pages.failures_captured import Captured
from workbench.dashboard.pages.failures_case import case, evidence_of
from workbench.dashboard.pages.failures_compare import second_or_none
from workbench.dashboard.pages.failures_compare_case import cases_finding, of_both, second_case
from workbench.dashboard.pages.failures_compare_strings import ComparedReports, SecondSays
from workbench.dashboard.pages.failures_compare_tables import causes_of_both
from workbench.dashboard.pages.failures_reports import PATH, Chosen, Reports
from workbench.dashboard.pages.failures_work import is_working
from workbench.dashboard.parts import link, message, panel
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.regions import EVERYTHING, Told, follow, memory
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure

_CONFIG = {"displaylogo": False, "displayModeBar": False, "showTips": False}
_IDLE, _AT_WORK, _LOADING = 4000, 1000, 400  # milliseconds between looks at reports, at jobs, and for a model
# Of the list: neither the edited string nor what is drawn changes it, but what is drawn stands in its links.
_LIST = tuple(name for name in EVERYTHING if name not in ("text", "row"))


def layout() -> Component:
    """Return the skeleton of the page."""
    graph = dcc.Graph(id="failures-graph", config=_CONFIG, className="graph", figure=empty_figure(""))
    below = [html.P(id="failures-note", className="quiet"), numbers_of("failures-graph")]
    drawn = html.Figure([html.Figcaption(id="failures-said"), graph, *below])
    top = [failures_choices.choice("run", "Run"), failures_choices.choice("step", "Report")]
    listed = [
        html.Div(
            [
                html.Div(id="failures-pager", className="pager"),
                *(failures_choices.choice(name, name.capitalize()) for name in failures_choices.FILTERS),
            ],
            className="toolbar list-bar",
        ),
        html.Div(id="failures-list", className="scroll", tabIndex=0, role="region", **{"aria-label": "Failed strings"}),
    ]  # fmt: skip
    first = [
        html.Div(id="failures-case"),
        failures_choices.text_field(),
        html.Div(id="failures-evidence"),
    ]
    side = [
        html.Div(first, className="first-case"),
        html.Div(id="failures-second"),
        html.Div(id="failures-both"),
    ]
    return html.Div(
        [
            *(dcc.Interval(id=f"failures-{name}", interval=_IDLE) for name in ("tick", "clock")),
            *(memory(f"failures-{region}") for region in ("top", "list", "case", "drawn", "work")),
            *(dcc.Store(id=f"failures-{name}") for name in ("ask", "again", "flip", "awaits", "changed")),
            *failures_choices.choices(),
            panel(None, *top, html.Div(id="failures-about"), className="failures-top"),
            html.Div(id="failures-compare"),
            html.Div(id="failures-work", className="failures-work", role="status"),
            html.Section(id="failures-state", className="panel state"),
            html.Div(
                [
                    panel(
                        None, html.Div(id="failures-causes", className="scroll", tabIndex=0), className="causes-panel"
                    ),
                    panel(None, *listed, className="list-panel"),
                    panel(None, html.Div(id="failures-bar", className="toolbar"), drawn, className="drawn-panel"),
                    panel(None, html.Div(side, className="scroll", tabIndex=0), className="case-panel"),
                ],
                className="failures-grid",
            ),
        ],
        id="failures-page",
    )


def register(app: Dash, data: Data) -> None:
    """Register the page's callbacks."""
    reports, captured, jobs, models = ComparedReports(data), Captured(data), jobs_of(app, data), live_models(app, data)
    failures_choices.register(app, data, reports)

    def chosen_or_told(view: ViewState) -> Chosen:
        try:
            return reports.choose(view)
        except Exception as error:  # the page's state says what is wrong
            raise Told from error

    def render_top(view: ViewState) -> tuple[Any, ...]:
        try:
            chosen = reports.choose(view)
        except Exception as error:
            return [], [], [message(error), *_start(reports, view)], "nothing", []
        pair = second_or_none(reports, chosen, view)
        two = pair is not None and not pair.same_report
        causes = causes_of_both(pair, view) if pair and two else failures_table.causes_table(chosen, view)
        shown = "" if view.beside is None else "comparing two-cases" if pair and pair.named else "comparing"
        bar = failures_compare.bar(reports, chosen, view)
        bar += [html.P(cases_finding(pair), className="cases-said")] if pair and pair.named else []
        start = failures_compare.button(reports, chosen, view)
        return about(chosen, view, start), causes, [], shown, [panel(None, *bar)] if bar else []

    def render_list(view: ViewState) -> tuple[Any, ...]:
        chosen = chosen_or_told(view)
        pair = second_or_none(reports, chosen, view)
        says = SecondSays(data, pair).of if pair and not pair.same_report else None
        return failures_table.failures_table(chosen, view, says), failures_table.pager(chosen, view)

    def render_case(view: ViewState, _: int | None) -> tuple[Any, ...]:
        chosen = chosen_or_told(view)
        pair, capturing = second_or_none(reports, chosen, view), is_working(jobs.all(), chosen.run.id, Kind.CAPTURE)
        shown, loading = case(chosen, view, models, captured, capturing, pair)
        below = evidence_of(chosen, captured, pair), second_case(pair, captured, view), of_both(data, pair, view)
        return shown, *below, _LOADING if loading else _IDLE

    def case_stamp(view: ViewState) -> str:
        try:
            chosen = reports.choose(view)
        except WorkbenchError as error:
            return str(error)
        pair = second_or_none(reports, chosen, view)
        run = [chosen] if view.text is not None or pair else []
        run += [pair.second] if pair else []
        ready = [models.stamp(one.run.id, one.content.step) for one in run]
        return f"{stamp(view)} {ready} {is_working(jobs.all(), chosen.run.id, Kind.CAPTURE)}"

    def drawn_of(view: ViewState) -> tuple[failures_drawn.Drawn, str | None]:
        """The figure, and what the one of two reports is called where there are two; raises as `Reports.choose`."""
        chosen = reports.choose(view)
        pair = second_or_none(reports, chosen, view)
        if pair is None or pair.same_report:
            return failures_drawn.draw(chosen, view), None
        return failures_compare_drawn.draw(data, pair, view), failures_compare_drawn.BOTH

    def render_drawn(view: ViewState) -> tuple[Any, ...]:
        chosen_or_told(view)
        drawn, more = drawn_of(view)
        return failures_drawn.bar(view, more), sentence(visible_text(drawn.said)), drawn.figure, drawn.note

    def render_work(view: ViewState, _: int | None) -> tuple[Any, int]:
        listed, run = jobs.all(), reports.choose_run(view)
        working = any(job.outcome is None for job in failures_work.mine(listed, run.id))
        return failures_work.work(listed, run.id), _AT_WORK if working else _IDLE

    def work_stamp(view: ViewState) -> str:
        try:
            return str(failures_work.mine(jobs.all(), reports.choose_run(view).id))
        except WorkbenchError as error:
            return str(error)

    def stamp(view: ViewState) -> str:
        return failures_compare.stamp(reports, view)

    def region(name: str, parts: tuple[str, ...], render: Any, stamp: Any = stamp, **more: Any) -> None:
        outputs = [Output(*f"failures-{part}".rsplit(".", 1)) for part in parts]
        more = {"fields": EVERYTHING, "tick": "failures-tick", **more}
        follow(app, f"failures-{name}", outputs, render=render, stamp=stamp, **more)

    changed = Input("failures-changed", "data")
    top = ("about.children", "causes.children", "state.children", "page.className", "compare.children")
    region("top", top, render_top)
    region("list", ("list.children", "pager.children"), render_list, fields=_LIST)
    region("drawn", ("bar.children", "said.children", "graph.figure", "note.children"), render_drawn, fields=_LIST)
    region("work", ("work.children", "tick.interval"), render_work, work_stamp, fields=("run",), also=changed)
    region(
        "case",
        ("case.children", "evidence.children", "second.children", "both.children", "clock.interval"),
        render_case,
        case_stamp,
        tick="failures-clock",
        also=changed,
    )
    register_numbers(app, "failures-graph", lambda view: failures_drawn.numbers(drawn_of(view)[0]))
    failures_acts.register(app, reports, captured, jobs, models)
    app.clientside_callback(
        ClientsideFunction("failures", "compared"),
        Output("failures-compare", "title"),
        Input("failures-page", "className"),
    )
    app.clientside_callback(
        ClientsideFunction("failures", "drawn"), Output("failures-case", "title"), Input("failures-case", "children")
    )
    app.clientside_callback(
        ClientsideFunction("workbench", "reveal"), Output("failures-list", "title"), Input("failures-list", "children")
    )


def about(chosen: Chosen, view: ViewState, compare: Component) -> Component:
    """Return why copies fail, on what that rests, and where to go from here; `compare` is the way into a comparison."""
    content = chosen.content
    said = failures_drawn.finding(content)
    low, high = content.trained
    facts = (
        f"{content.failed:,} of {content.strings:,} strings fail, {len(content.failures):,} explained · trained on "
        f"{low:,} to {high:,} tokens · seed {content.about.seed}, {content.about.created[:10]}"
    )
    there = view.change(run=chosen.run.id)
    notes = [*chosen.notes, *(sentence(note) for note in content.notes)]
    return html.Div(
        [
            html.Div([html.P(said, className="finding", title=said), compare], className="about-head"),
            html.P(
                [
                    html.Span(visible_text(facts), className="quiet"),
                    html.Span(" · ", className="quiet"),
                    link("Heads of this run", "/heads" + there.query()),
                    " ",
                    failures_work.start_button(chosen.run.id, again=True),
                ],
                className="about-line",
            ),
            *(html.P(visible_text(note), className="note") for note in notes),
        ]
    )


def _start(reports: Reports, view: ViewState) -> list[Component]:
    """The button that makes the report that is missing; nothing where there is no run."""
    try:
        run = reports.choose_run(view)
    except WorkbenchError:
        return []
    return [html.Div(failures_work.start_button(run.id, again=bool(reports.steps(run.id))), className="start")]


FAILURES = Page(
    name="failures",
    path=PATH,
    title="Failures",
    purpose="Why does each copy of this run fail, is that confirmed, and what would have mended it?",
    layout=layout,
    register=register,
)
