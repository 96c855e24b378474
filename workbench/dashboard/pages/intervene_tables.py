"""What an intervention changed, as tables: the measures, every token of one string, every string of a batch."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.pages.intervene_outcome import Done
from workbench.dashboard.pages.playground_copy import Cell, Line, answer_cells, token_grid
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import table

if TYPE_CHECKING:
    from analyses.effects import Change, Effect
    from analyses.estimates import Estimate

_MEASURES = (
    ("exact_match", "Exact match", "Share of strings of which every token and EOS is right"),
    ("token_accuracy", "Token accuracy", "Share of right answers at scored rows"),
    ("logit_difference", "Logit difference", "Logit of the right token minus the largest other one, mean over rows"),
)


def effect_table(done: Done) -> Component:
    """Return the measures without, with, and with the control, and their paired differences."""
    many = len(done.strings) > 1
    columns = [("", ""), ("Without", "number"), ("With", "number"), ("Change", "number")]
    if done.controlled:
        columns += [("Control", "number"), ("Beyond control", "number")]
    rows = []
    for name, label, hint in _MEASURES:
        change: Change = getattr(done.effect, name)
        cells = [*_values(name, change, done, many), _estimate(change.difference, many, signed=True)]
        if done.controlled:
            cells.append(_plain(getattr(done.controlled.control, name).changed))
            cells.append(_estimate(done.controlled.beyond[name], many, signed=True))
        rows.append([html.Span(label, title=hint), *cells])
    rows.append(_more_row("Divergence (nats)", "KL of the predictions from those without", done, "divergence", many))
    if done.controlled:
        rows.append(_more_row("Attention removed", "Mean over heads and rows", done, "removed", many))
    return html.Div(
        table(columns, rows, "Effect of the intervention", className="effects"), className="scroll", tabIndex=0
    )


def _values(name: str, change: "Change", done: Done, many: bool) -> list[Component | str]:
    """The measure without and with; exact match with its Wilson interval, since all or none may be right."""
    if name != "exact_match":
        return [_plain(change.baseline), _plain(change.changed)]
    from models.evaluation import wilson

    cells = []
    for part in (done.baseline, done.changed):
        hits = sum(bool(one.right.all()) for one in part)
        cells.append(_with_interval(f"{hits / len(part):.2f}", wilson(hits, len(part)) if many else None))
    return cells


def _more_row(label: str, hint: str, done: Done, name: str, many: bool) -> list[Any]:
    effect: Effect = done.effect
    cells: list[Any] = [html.Span(label, title=hint), "", _estimate(getattr(effect, name), many), ""]
    if done.controlled:
        beyond = done.controlled.beyond.get(name)
        cells.append(_plain(getattr(done.controlled.control, name)))
        cells.append(_estimate(beyond, many, signed=True) if beyond else "")
    return cells


def _plain(estimate: "Estimate") -> str:
    return "–" if estimate.value is None else f"{estimate.value:.2f}".replace("-", "−")


def _estimate(estimate: "Estimate", many: bool, *, signed: bool = False) -> Component | str:
    if estimate.value is None:
        return html.Span("–", title=estimate.reason)
    text = f"{estimate.value:+.2f}" if signed else f"{estimate.value:.2f}"
    return _with_interval(text.replace("-", "−"), estimate.interval if many else None)


def _with_interval(text: str, interval: tuple[float, float] | None) -> Component | str:
    if interval is None:
        return text
    low, high = (f"{end:.2f}".replace("-", "−") for end in interval)
    return html.Span([text, html.Span(f" [{low}, {high}]", className="interval")], title="95 % interval over strings")


def tokens(done: Done, chosen: Chosen) -> list[Component]:
    """Return the copy of one string token by token, without and with; what changed is outlined."""
    names, string = chosen.names, done.strings[0]
    targets = [*string, chosen.live.vocabulary.eos]
    before, after, *beside = done.answers(0)
    labels = ["right", "without", "with", *(["control"] if beside else [])]
    lines = [Line(labels[0], [Cell(names[t], "the right token", "anchor") for t in targets])]
    for label, answers in zip(labels[1:], (before, after, *beside), strict=True):
        cells = answer_cells(names, answers.tolist(), targets)
        if answers is not before:
            cells = [
                replace(cell, title=f"{cell.title}, changed", kind=f"{cell.kind} changed") if now != was else cell
                for cell, now, was in zip(cells, answers, before, strict=True)
            ]
        lines.append(Line(label, cells))
    count = int((before != after).sum())
    heading = html.H2(["Tokens", html.Span(f"{count:,} of {len(targets):,} change (outlined)", className="count")])
    grid = token_grid(lines, "intervene-grid", "The copy without and with the intervention; arrow keys move")
    return [heading, html.Div(grid, className="copy-area")]


def strings_table(done: Done) -> list[Component]:
    """Return what changed in every string of a batch."""
    rows = []
    for index, string in enumerate(done.strings):
        before, after, *_ = done.answers(index)
        where = np.flatnonzero(before != after)
        rows.append(
            [
                f"#{index}",
                str(len(string)),
                _exact(done.baseline[index].right),
                _exact(done.changed[index].right),
                f"{len(where):,}",
                str(where[0]) if len(where) else "–",
            ]
        )
    columns = [("String", ""), ("n", "number"), ("Without", ""), ("With", "")]
    columns += [("Tokens changed", "number"), ("First at", "number")]
    changed = sum(int(row[4].replace(",", "")) > 0 for row in rows)
    heading = html.H2(["Strings", html.Span(f"{changed} of {len(rows)} change", className="count")])
    listed = table(columns, rows, "What changed in every string", className="changed-strings")
    return [heading, html.Div(listed, className="scroll strings-scroll", tabIndex=0)]


def _exact(right: np.ndarray) -> Component:
    exact = bool(right.all())
    icon = html.Span("✓" if exact else "✕", className=f"icon {'good' if exact else 'bad'}", **{"aria-hidden": "true"})
    return html.Span([icon, "exact" if exact else f"error at {int((~right).argmax())}"])


def margins_table(done: Done) -> Component:
    """Return the logit differences as a table to be unfolded."""
    margins = done.margins
    columns = [("Index", "number"), ("Without", "number"), ("With", "number"), ("Change", "number")]
    columns += [("Control", "number")] if margins.control is not None else []
    rows = []
    for k, change in enumerate(margins.difference):
        row = [str(k), f"{margins.baseline[k]:.3f}", f"{margins.changed[k]:.3f}", f"{change:+.3f}"]
        rows.append([*row, *([f"{margins.control[k]:.3f}"] if margins.control is not None else [])])
    listed = table(columns, rows, "Logit difference by index of the copied token")
    return html.Details([html.Summary("Show as table"), html.Div(listed, className="scroll", tabIndex=0)])
