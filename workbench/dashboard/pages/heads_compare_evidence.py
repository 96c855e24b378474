"""What two heads rest on, side by side: patterns, scores with their difference and intervals, interventions."""

from dataclasses import replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.content.heads import HeadContent
from workbench.dashboard.data import Data
from workbench.dashboard.numbers import plain
from workbench.dashboard.pages.heads_compare import HeadsPair, both_in_attention, names
from workbench.dashboard.pages.heads_evidence import graph, heading, intervention, picture, shares_said
from workbench.dashboard.pages.heads_parts import (
    as_table,
    certainty,
    described,
    difference_text,
    label_look,
    overlap_text,
    text_of,
    verdict,
)
from workbench.dashboard.pages.heads_reports import Chosen
from workbench.dashboard.pages.heads_strongest import Strongest
from workbench.dashboard.parts import link, table
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.heads import SHARE_COLORS, effect_of, share_bars
from workbench.figures.numbers import signed

_SIDES = ("First", "Second")
_COLUMNS = (("Score", ""), ("First", "number"), ("Second", "number"), ("Difference", "number"))


def evidence_of_both(data: Data, pair: HeadsPair, view: ViewState, strongest: tuple[Strongest, Strongest]) -> Component:
    """Return everything that is known of the selected head of each subject.

    Args:
        data: what is read.
        pair: the subjects.
        view: the view that links change.
        strongest: where each head is looked at.
    """
    both = "/attention" + both_in_attention(pair, strongest[0]).query()
    alone = [replace(at, view=replace(at.view, beside=None)) for at in strongest]
    chosen = (pair.first, pair.second)
    cards = [
        _card(data, side, called, one, at)
        for side, called, one, at in zip(_SIDES, names(pair), chosen, alone, strict=True)
    ]
    return html.Div(
        [
            heading(pair.first, view),
            html.Div(cards, className="both-heads"),
            html.Div(
                link("Open both in Attention", both, className="button", id="heads-open-both",
                     title=f"Both heads and their difference. {strongest[0].rule}"),
                className="ways",
            ),
            html.H2("Evidence"),
            _deciding(pair),
            html.H2("What their attention is made of"),
            _made_of(pair),
            html.H2("Interventions"),
            *_interventions(pair),
            html.H2(["All scores", html.Span(f"{len(_all(pair))}", className="count")]),
            html.Div(_rows_table(pair, _all(pair), "All scores of both heads"), className="scroll all-scores"),
        ],
        className="evidence",
    )  # fmt: skip


def _card(data: Data, side: str, called: str, chosen: Chosen, strongest: Strongest) -> Component:
    """Name, label, pattern and doubts of one of the heads."""
    head = chosen.head
    sure, look = certainty(head)
    doubts = [html.Li(visible_text(doubt)) for doubt in head.doubts]
    there = "/attention" + strongest.view.query()
    return html.Div(
        [
            html.H3([f"{side}: ", html.Span(called)]),
            html.P([html.Span(**label_look(head.label)), " ", html.Span(sure, className=look)]),
            *(picture(data, strongest, head) or [html.P("No picture of it is at hand.", className="quiet")]),
            html.P(link(f"{side} alone in Attention", there), className="quiet", title=strongest.rule),
            *([html.Ul(doubts, className="doubts", **{"aria-label": "Doubts"})] if doubts else []),
        ],
        className="one-head",
    )


def _deciding(pair: HeadsPair) -> Component:
    """The scores that either label rests on, deciding ones first, and what each label asks of them."""
    found = {e.score: None for head in _heads(pair) for e in head.evidence if e.condition is not None}
    found |= {e.score: None for head in _heads(pair) for e in head.evidence}
    if not found:
        return html.P("The reports hold no evidence for these labels.", className="quiet")
    return html.Div(_rows_table(pair, list(found), "Scores that the labels rest on"), className="scroll")


def _rows_table(pair: HeadsPair, scores: list[str], caption: str) -> Component:
    """Scores of both heads, their difference and whether the intervals tell them apart."""
    rows = []
    for name in scores:
        ours, theirs = pair.selected.estimates(name)
        told = overlap_text(ours, theirs)
        overlaps = html.Span(told, className="quiet interval-said") if told else ""
        shown = [_value(head, name) for head in _heads(pair)]
        rows.append([_score(pair, name), *shown, [difference_text(ours, theirs), html.Br(), overlaps]])
    return plain(table(_COLUMNS, rows, caption, className="both-scores"))


def _score(pair: HeadsPair, name: str) -> list[Any]:
    """A score and what each label asks of it; most are asked for by none."""
    needed = []
    for side, head in zip(_SIDES, _heads(pair), strict=True):
        condition = next((e.condition for e in head.evidence if e.score == name and e.condition is not None), None)
        if condition is not None:
            asked = f"{side.lower()}: {visible_text(condition.removeprefix(name).strip())}"
            needed += [html.Br(), html.Span(asked, className="asked")]
    return [visible_text(name), *needed]


def _value(head: HeadContent, name: str) -> Any:
    estimate = head.scores.get(name)
    if estimate is None:
        return "not in this report"
    reason = {"title": visible_text(estimate.reason)} if estimate.value is None and estimate.reason else {}
    value, _, interval = text_of(estimate).partition(" [")
    return html.Span(
        [value, *([html.Br(), html.Span(f"[{interval}", className="quiet")] if interval else [])], **reason
    )


def _made_of(pair: HeadsPair) -> Component:
    """Shares of pure heads in both patterns, one bar each, in words and as a table."""
    heads = _heads(pair)
    if not any(any(head.shares.values()) for head in heads):
        return html.P("The reports hold no shares of these heads.", className="quiet")
    figure = share_bars(heads, named=False)
    figure.layout.yaxis.ticktext, figure.layout.margin.l = ["first", "second"], 52
    said = "; ".join(
        f"{side.lower() if at else side}: {shares_said(head) or 'no shares known'}"
        for at, (side, head) in enumerate(zip(_SIDES, heads, strict=True))
    )
    kinds = [kind for kind in SHARE_COLORS if any(head.shares.get(kind) for head in heads)]
    rows = []
    for kind in kinds:
        ours, theirs = (head.shares.get(kind) or 0.0 for head in heads)
        rows.append([kind, f"{ours:.3f}", f"{theirs:.3f}", signed(ours - theirs, 3)])
    columns = (("Pure head", ""), *_COLUMNS[1:])
    return described(f"{said}.", graph("heads-shares", figure), as_table(columns, rows, "Shares of both patterns"))


def _interventions(pair: HeadsPair) -> list[Component]:
    """What was done to each head and came of it, on one axis where both were decided by the same measure."""
    heads = _heads(pair)
    reach = _reach(heads)
    shown: list[Component] = []
    for side, head, name in zip(_SIDES, heads, ("heads-effects", "heads-effects-second"), strict=True):
        said, look = verdict(head)
        shown += [html.H3([f"{side}: ", html.Span(said, className=look)]), *intervention(head, name, reach)]
    return shown


def _reach(heads: tuple[HeadContent, HeadContent]) -> list[float] | None:
    """The ends of an axis that holds the effects on both heads, None where they have no measure in common."""
    measures = {
        head.intervention.get("measure") for head in heads if effect_of(head, "effect").get("value") is not None
    }
    found = [effect_of(head, part) for head in heads for part in ("effect", "control")]
    ends = [float(end) for estimate in found for end in estimate.get("interval") or ()]
    if len(measures) != 1 or not ends:
        return None
    low, high = min(0.0, *ends), max(0.0, *ends)
    pad = 0.06 * (high - low or 1.0)
    return [low - pad, high + pad]


def _all(pair: HeadsPair) -> list[str]:
    return list(dict.fromkeys(name for head in _heads(pair) for name in head.scores))


def _heads(pair: HeadsPair) -> tuple[HeadContent, HeadContent]:
    return pair.first.head, pair.second.head
