"""The selected failure under comparison: the second model on the same string, or another failure beside it."""

from dataclasses import dataclass, replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import UsageError, WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import message_of, sentence
from workbench.dashboard.live_models import Live, LiveModels, Loading
from workbench.dashboard.pages import failures_table
from workbench.dashboard.pages.failures_captured import Captured, attention_view
from workbench.dashboard.pages.failures_compare import ANY, Pair, elsewhere, in_attention, names
from workbench.dashboard.pages.failures_compare_strings import SecondSays
from workbench.dashboard.pages.failures_compare_tables import cases_of_both
from workbench.dashboard.pages.failures_edits import longest
from workbench.dashboard.pages.failures_evidence import evidence
from workbench.dashboard.pages.failures_grid import Second, grid, legend
from workbench.dashboard.pages.failures_reports import PATH, Chosen, Layout
from workbench.dashboard.pages.failures_rerun import Outcome, outcome_of, typed_view
from workbench.dashboard.pages.playground_copy import instead, verdict
from workbench.dashboard.parts import link
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.numbers import signed


@dataclass(frozen=True)
class Rerun:
    """The failed string run by both models.

    Attributes:
        layout: of the second's strings.
        own, second: what the first and the second model make of it; None while one of them is loaded.
        edited: what the second makes of the edited string; None where there is no edit.
        problem: why the second is not run.
    """

    layout: Layout
    own: Outcome | None = None
    second: Outcome | None = None
    edited: Outcome | None = None
    problem: str = ""

    @property
    def loading(self) -> bool:
        """Whether a model is being loaded."""
        return self.second is None and not self.problem

    @property
    def line(self) -> Second:
        """The line that it adds to the grid."""
        return Second(None if self.second is None else self.second.free, self.layout)


def rerun_both(models: LiveModels, pair: Pair | None, edited: tuple[int, ...]) -> Rerun | None:
    """Run the failed string by both models; None where another failure is beside it, or nothing.

    Args:
        models: that are run.
        pair: the subjects.
        edited: the string as edited; the failed one where there is no edit.
    """
    if pair is None or pair.named or pair.same_report or pair.first.failure is None:
        return None
    layout, tokens = pair.second.layout, pair.first.tokens
    try:
        for string in (tokens, edited):
            _require(pair.second, string)
        live = _both(models, pair)
        if live is None:
            return Rerun(layout)
        own, second = (outcome_of(models, one, tokens) for one in live)
        return Rerun(layout, own, second, outcome_of(models, live[1], edited) if edited != tokens else None)
    except WorkbenchError as error:
        return Rerun(layout, problem=message_of(error))


def _both(models: LiveModels, pair: Pair) -> tuple[Live, Live] | None:
    """The models of both subjects, None while one is loaded; both are loaded at once."""
    found: list[Live | None] = []
    for chosen in (pair.first, pair.second):
        try:
            found.append(models.get(chosen.run.id, chosen.content.step))
        except Loading:
            found.append(None)
    first, second = found
    return None if first is None or second is None else (first, second)


def _require(chosen: Chosen, tokens: tuple[int, ...]) -> None:
    """Raise UsageError where the second model cannot be run on a string."""
    if max(tokens) >= chosen.layout.alphabet:
        raise UsageError(f"token {max(tokens)} is not in the alphabet of run {chosen.run.id}, so it is not run")
    if len(tokens) > longest(chosen):
        raise UsageError(
            f"a string of {len(tokens):,} tokens is longer than this page runs ({longest(chosen):,} at most)"
        )


def lines(pair: Pair, run: Rerun) -> list[Component]:
    """Return how the second model copies the failed string, and how sure both are of the right token there."""
    called = f"Second, {names(pair)[1]}"
    failure = pair.first.failure
    assert failure is not None
    if run.problem:
        return [html.P(f"{called}: {run.problem}.", className="note")]
    if run.second is None or run.own is None:
        waits = html.Progress(**{"aria-label": "loading the models"})
        return [html.P([waits, f" {called}: loading the models …"], className="rerun-wait"), _place()]
    k = failure.first_error
    said = [_verdict(called, run.second, run.layout)]
    sure = [float(outcome.forced.right_probability[k]) for outcome in (run.own, run.second)]
    where = "EOS" if k == failure.length else f"token {k:,}"
    told = f"Right {where}: probability {sure[0]:.3f} in the first, {sure[1]:.3f} in the second"
    return [*said, html.P(f"{told} ({signed(sure[0] - sure[1], 3)}).", className="quiet")]


def edited_lines(run: Rerun) -> list[Component]:
    """Return how the second model copies the edited string; nothing where that is not known."""
    return [] if run.edited is None else [_verdict("Edited string, second", run.edited, run.layout)]


def _verdict(called: str, found: Outcome, layout: Layout) -> Component:
    forced, first = found.forced, found.forced.first_error
    vocabulary = [layout.name(i) for i in range(max(int(forced.predicted.max()), int(forced.targets.max())) + 1)]
    more: list[Any] = []
    if first is not None:
        more = [": ", *instead(vocabulary, int(forced.predicted[first]), int(forced.targets[first]))]
    return verdict(called, first, len(forced.targets) - 1, *more)


def of_both(data: Data, pair: Pair | None, view: ViewState) -> list[Component]:
    """Return what the second's report has of the failed string, or how two failures differ; nothing alone."""
    if pair is None or pair.first.failure is None:
        return []
    table = html.Div(cases_of_both(pair), className="scroll", tabIndex=0) if pair.second.failure is not None else None
    if pair.named:
        return [html.H2("Both failures"), *([table] if table else [])]
    if pair.same_report:
        return []
    said = SecondSays(data, pair).of(pair.first.failure)
    parts: list[Component] = [html.H2("In the second's report"), html.P(f"{said.words[:1].upper()}{said.words[1:]}.")]
    parts.append(html.P(sentence(visible_text(said.why)), className="quiet"))
    if table is None:
        return parts
    assert view.beside is not None
    both = PATH + view.change(beside=replace(view.beside, failure=said.index)).query()
    way = link("Both cases side by side", both, className="button", title="The second's failure beside the first's")
    return [*parts, table, html.Div(way, className="case-buttons")]


def cases_finding(pair: Pair) -> str:
    """Say in a sentence how two failures differ."""
    one, other = pair.first.failure, pair.second.failure
    assert one is not None and other is not None
    if pair.same_report and pair.first.view.failure == pair.second.view.failure:
        return "Both are the same failure."
    same = one.string == other.string and one.length == other.length
    why = ["none of the causes tried" if f.cause == "other" else f.cause for f in (one, other)]
    causes = f"both by {why[0]}" if why[0] == why[1] else f"by {why[0]} and by {why[1]}"
    places = [f"token {f.first_error:,} of {f.length:,}" if f.first_error < f.length else "EOS" for f in (one, other)]
    string = "The same string fails" if same else "Two strings fail"
    return f"{string} at {places[0]} in the first and at {places[1]} in the second, {causes}."


def second_case(pair: Pair | None, captured: Captured, view: ViewState) -> list[Component]:
    """Return the second of two failures; nothing where none is beside the first."""
    if pair is None or not pair.named:
        return []
    chosen = pair.second
    failure = chosen.failure
    assert failure is not None
    found = captured.find(chosen)
    runs = typed_view(chosen, chosen.tokens) if len(chosen.tokens) <= longest(chosen) else None
    if found is not None:
        attention = attention_view(chosen, found)
        opens, opened = "/attention" + attention.query(), "Attention"
    else:
        attention = None
        opens, opened = "/playground" + typed_view(chosen, chosen.tokens).query(), "Playground"
    heading = html.H2(
        [
            html.Span(f"Second: failure {chosen.view.failure:,}", className="case-name"),
            *failures_table.cause_label(failure),
            html.Span(f"{failure.distribution}, {failure.length:,} tokens", className="count"),
        ]
    )
    there = PATH + view.change(beside=None, **_as_first(pair)).query()
    ways = [link("Show it alone", there, className="button", title="This failure, nothing beside it")]
    k, n = failure.first_error, failure.length
    names_of = [failure.predicted, failure.right]
    return [
        html.Div(heading, className="row-head"),
        html.Div(ways, className="case-buttons"),
        html.Div(verdict("Failed string", k, n, ": ", *instead(names_of, 0, 1)), className="rerun"),
        html.Div(grid(replace(chosen, view=replace(chosen.view, whole=view.whole)), f"{opens}&row=", opened, None),
                 className="copy-area"),
        legend(failure),
        html.Div(evidence(chosen, attention, runs), className="second-evidence"),
    ]  # fmt: skip


def _as_first(pair: Pair) -> dict[str, Any]:
    """What to change of a view so that the second failure is the selected one."""
    return ANY | {
        "run": pair.second.run.id, "checkpoint": pair.second.content.step, "failure": pair.second.view.failure
    }  # fmt: skip


def linked(pair: Pair | None, chosen: Chosen) -> Chosen:
    """Return the selected failure with what is beside it on pages that run a model, for links to them."""
    if pair is None:
        return chosen
    return replace(chosen, view=replace(chosen.view, beside=elsewhere(pair)))


def linked_to_attention(pair: Pair | None, chosen: Chosen, captured: Captured) -> Chosen:
    """Return the selected failure with what is beside it on the Attention page, for links to it."""
    found = captured.find(chosen) if pair is not None else None
    if pair is None or found is None:
        return chosen
    return replace(chosen, view=replace(chosen.view, beside=in_attention(pair, captured, found[0])))


def _place() -> Component:
    """The place of a line that is about to come."""
    return html.P(" ", className="quiet")
