"""What an intervention changed, as tables: the measures, every token of one string, every string of a batch."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.numbers import at_most, listed, plain
from workbench.dashboard.pages.intervene_outcome import Done
from workbench.dashboard.pages.playground_copy import Cell, Line, answer_cells, token_grid
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import table
from workbench.figures import numbers

if TYPE_CHECKING:
    from analyses.effects import Change, Effect
    from analyses.estimates import Estimate

MEASURES = (
    ("exact_match", "Exact match", "Share of strings of which every token and EOS is right"),
    ("token_accuracy", "Token accuracy", "Share of right answers at scored rows"),
    ("logit_difference", "Logit difference", "Logit of the right token minus the largest other one, mean over rows"),
)

REST = "The code below gives all of them."


def effect_table(done: Done) -> Component:
    """Return the measures without, with, and with the control, and their paired differences."""
    many = len(done.strings) > 1
    columns = [("", ""), ("Without", "number"), ("With", "number"), ("Change", "number")]
    if done.controlled:
        columns += [("Control", "number"), ("Beyond control", "number")]
    rows = []
    for name, label, hint in MEASURES:
        change: Change = getattr(done.effect, name)
        cells = [*values(name, change, done, many), estimate_cell(change.difference, many, signed=True)]
        if done.controlled:
            cells.append(plain_cell(getattr(done.controlled.control, name).changed))
            cells.append(estimate_cell(done.controlled.beyond[name], many, signed=True))
        rows.append([html.Span(label, title=hint), *cells])
    rows.append(_more_row("Divergence (nats)", "KL of the predictions from those without", done, "divergence", many))
    if done.controlled:
        rows.append(_more_row("Attention removed", "Mean over heads and rows", done, "removed", many))
    return html.Div(
        table(columns, rows, "Effect of the intervention", className="effects"), className="scroll", tabIndex=0
    )


def values(name: str, change: "Change", done: Done, many: bool) -> list[Component | str]:
    """Return the measure without and with; exact match with its Wilson interval, since all or none may be right."""
    if name != "exact_match":
        return [plain_cell(change.baseline), plain_cell(change.changed)]
    from models.evaluation import wilson

    cells = []
    for part in (done.baseline, done.changed):
        hits = sum(bool(one.right.all()) for one in part)
        cells.append(_with_interval(f"{hits / len(part):.2f}", wilson(hits, len(part)) if many else None))
    return cells


def _more_row(label: str, hint: str, done: Done, name: str, many: bool) -> list[Any]:
    effect: Effect = done.effect
    cells: list[Any] = [html.Span(label, title=hint), "", estimate_cell(getattr(effect, name), many), ""]
    if done.controlled:
        beyond = done.controlled.beyond.get(name)
        cells.append(plain_cell(getattr(done.controlled.control, name)))
        cells.append(estimate_cell(beyond, many, signed=True) if beyond else "")
    return cells


def plain_cell(estimate: "Estimate") -> str:
    """Return a value as text."""
    return "–" if estimate.value is None else as_text(estimate.value)


def estimate_cell(estimate: "Estimate", many: bool, *, signed: bool = False) -> Component | str:
    """Return a value with its interval over `many` strings."""
    if estimate.value is None:
        return html.Span("–", title=estimate.reason)
    return _with_interval(as_text(estimate.value, signed=signed), estimate.interval if many else None)


def as_text(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """Return a number as text, with its sign where it is a difference."""
    return numbers.signed(value, digits) if signed else numbers.plain_number(value, digits)


def _with_interval(text: str, interval: tuple[float, float] | None) -> Component | str:
    if interval is None:
        return text
    low, high = map(as_text, interval)
    return html.Span([text, html.Span(f" [{low}, {high}]", className="interval")], title="95 % interval over strings")


def tokens(done: Done, chosen: Chosen, title: str = "Tokens", grid_id: str = "intervene-grid") -> list[Component]:
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
    heading = html.H2([title, html.Span(f"{count:,} of {len(targets):,} change (outlined)", className="count")])
    grid = token_grid(lines, grid_id, f"{title}: the copy without and with the intervention; arrow keys move")
    return [heading, html.Div(plain(grid), className="copy-area")]


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
                exact_cell(done.baseline[index].right),
                exact_cell(done.changed[index].right),
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


def exact_cell(right: np.ndarray) -> Component:
    """Return whether a string is copied exactly, else where it first goes wrong."""
    exact = bool(right.all())
    icon = html.Span("✓" if exact else "✕", className=f"icon {'good' if exact else 'bad'}", **{"aria-hidden": "true"})
    return html.Span([icon, "exact" if exact else f"error at {int((~right).argmax())}"])


def margins_table(done: Done) -> Component:
    """Return the logit differences as a table."""
    margins = done.margins
    columns = [("Index", "number"), ("Without", "number"), ("With", "number"), ("Change", "number")]
    columns += [("Control", "number")] if margins.control is not None else []
    rows = []
    for k in at_most(len(margins.baseline)).tolist():
        change = as_text(margins.difference[k], 3, signed=True)
        row = [str(k), as_text(margins.baseline[k], 3), as_text(margins.changed[k], 3), change]
        rows.append([*row, *([as_text(margins.control[k], 3)] if margins.control is not None else [])])
    said = "Logit difference by index of the copied token"
    return listed(columns, rows, said, of=len(margins.baseline), rest=REST)
