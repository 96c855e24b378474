"""The failure that is selected: what went wrong, the string token by token, and the string with tokens changed."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.dashboard.live_models import LiveModels
from workbench.dashboard.pages import failures_table, failures_work
from workbench.dashboard.pages.failures_captured import Captured, attention_view
from workbench.dashboard.pages.failures_compare import Pair
from workbench.dashboard.pages.failures_compare_case import edited_lines, lines, linked, linked_to_attention, rerun_both
from workbench.dashboard.pages.failures_edits import longest
from workbench.dashboard.pages.failures_evidence import evidence
from workbench.dashboard.pages.failures_grid import MOST_WHOLE, grid, legend, segments
from workbench.dashboard.pages.failures_reports import PATH, Chosen
from workbench.dashboard.pages.failures_rerun import edits, outcome, rerun, typed_view, ways
from workbench.dashboard.parts import link
from workbench.dashboard.state import ViewState


def case(
    chosen: Chosen, view: ViewState, models: LiveModels, captured: Captured, capturing: bool, pair: Pair | None = None
) -> tuple[list[Component], bool]:
    """Return the upper part of the panel, and whether a model is being loaded for it.

    Args:
        chosen: the failure.
        view: as the address has it.
        models: run the edited string.
        captured: finds the string in captures.
        capturing: whether a string of this run is being captured.
        pair: the failure and what it is compared with; None for nothing.
    """
    failure = chosen.failure
    if failure is None:
        return [html.P("No failure is listed.", className="empty")], False
    run = rerun(models, chosen)
    both = rerun_both(models, pair, run.edited)
    beside = lines(pair, both) if pair is not None and both is not None else []
    edited_beside = edited_lines(both) if both is not None else []
    found = captured.find(chosen)
    typed, attended = linked(pair, chosen), linked_to_attention(pair, chosen, captured)
    if found is None:
        opens, opened = "/playground" + typed_view(typed, chosen.tokens).query(), "Playground"
    else:
        opens, opened = "/attention" + attention_view(attended, found).query(), "Attention"
    heading = html.Div(
        [
            html.H2(
                [
                    html.Span(f"Failure {chosen.view.failure}", className="case-name"),
                    *failures_table.cause_label(failure),
                    html.Span(f"{failure.distribution}, {failure.length:,} tokens", className="count"),
                ]
            ),
            failures_table.neighbours(chosen, view),
        ],
        className="row-head",
    )
    drawn = html.Div(
        grid(chosen, f"{opens}&row=", opened, run.shown, both.line if both else None), className="copy-area"
    )
    there = [failures_work.way_to_attention(attended, captured, capturing), *ways(typed, run), *_whole(chosen, view)]
    return [
        heading,
        html.Div(there, className="case-buttons"),
        outcome(chosen, run, beside, edited_beside),
        drawn,
        legend(failure, sure=run.now is not None or (both is not None and not both.problem)),
        edits(chosen),
    ], run.loading or (both is not None and both.loading)


def evidence_of(chosen: Chosen, captured: Captured, pair: Pair | None = None) -> list[Component]:
    """Return the lower part of the panel; its links lead to the comparison, if there is one."""
    found = captured.find(chosen)
    if chosen.failure is None:
        return []
    runs = typed_view(linked(pair, chosen), chosen.tokens) if len(chosen.tokens) <= longest(chosen) else None
    there = None if found is None else attention_view(linked_to_attention(pair, chosen, captured), found)
    return evidence(chosen, there, runs)


def _whole(chosen: Chosen, view: ViewState) -> list[Any]:
    """The way to all of a string that is shown in part, and back."""
    failure = chosen.failure
    assert failure is not None
    if view.whole:
        rest = f", {MOST_WHOLE:,} tokens around the error" if failure.length > MOST_WHOLE else ""
        shown = html.Span(f"The whole string{rest}", className="quiet")
        return [shown, link("Show less", PATH + view.change(whole=False).query(), className="button")]
    shown_tokens = sum(stop - start for start, stop in segments(failure, False, failure.length + 1))
    if shown_tokens > failure.length:
        return []
    return [link(f"Show all {failure.length:,} tokens", PATH + view.change(whole=True).query(), className="button")]
