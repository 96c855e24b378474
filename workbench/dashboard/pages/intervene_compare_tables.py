"""What an intervention changed in two subjects, as tables: the measures, the tokens, the strings of a batch."""

from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.numbers import at_most, listed
from workbench.dashboard.pages.intervene_code import takes_from_others
from workbench.dashboard.pages.intervene_compare import Both, words_of_heads
from workbench.dashboard.pages.intervene_outcome import Done, words_of
from workbench.dashboard.pages.intervene_tables import (
    MEASURES,
    REST,
    as_text,
    estimate_cell,
    exact_cell,
    plain_cell,
    tokens,
    values,
)
from workbench.dashboard.parts import table

_SIDES = ("First", "Second")


def heading(both: Both, milliseconds: float) -> Component:
    """Return what was done to what, in words."""
    words = both.first.intervention.words
    parts: list[Any] = [html.B(words[:1].upper() + words[1:])]
    if both.first.intervention != both.second.intervention:
        parts += [" · in the second ", html.B(words_of_heads(both.pair.second.view.heads or ())), " instead"]
    strings = [
        words_of(done, side)
        for done, side in zip((both.first, both.second), (both.pair.first, both.pair.second), strict=True)
    ]
    same = both.first.batch or both.pair.same_string
    parts.append(f" · both on {strings[0]}" if same else f" · first on {strings[0]}, second on {strings[1]}")
    if takes_from_others(both.pair.first.view) and not both.first.batch:
        parts.append(" · values from the same other strings")
    took = html.Span(f"{milliseconds:,.0f} ms", className="count", title="how long both models took")
    return html.Div([html.P(parts), took], className="done-words")


def effects_table(both: Both) -> Component:
    """Return the measures of both, without and with, and what changes in the first minus what changes in the second."""
    from analyses.effects import contrast

    dones, many = (both.first, both.second), len(both.first.strings) > 1
    apart = contrast(*((done.baseline, done.changed) for done in dones))
    rows = []
    for name, label, hint in MEASURES:
        row: list[Any] = [html.Span(label, title=hint)]
        for done in dones:
            change = getattr(done.effect, name)
            row += [*values(name, change, done, many), estimate_cell(change.difference, many, signed=True)]
        rows.append([*row, estimate_cell(apart[name], many, signed=True)])
    divergence = [cell for done in dones for cell in ("", estimate_cell(done.effect.divergence, many), "")]
    said = html.Span("Divergence (nats)", title="KL of the predictions from those without")
    rows.append([said, *divergence, estimate_cell(apart["divergence"], many, signed=True)])
    rows += _beyond_control(both, many)
    columns = [("", "")]
    for side in _SIDES:
        columns += [(f"{side}: without", "number of-side"), ("With", "number"), ("Change", "number")]
    columns.append(("First − second", "number of-side"))
    made = table(columns, rows, "Effect of the intervention on both", className="effects both-sides")
    return html.Div(made, className="scroll", tabIndex=0)


def _beyond_control(both: Both, many: bool) -> list[list[Any]]:
    """What each has beyond its control, and the attention that is removed; nothing where there is no control."""
    from analyses.effects import contrast

    dones = (both.first, both.second)
    controls = [(done.control, done.changed) for done in dones if done.control is not None]
    if len(controls) < 2:
        return []
    apart = contrast(*controls)
    rows = []
    for name, label, _ in MEASURES:
        row: list[Any] = [html.Span(f"{label} beyond control", className="quiet")]
        for done in dones:
            row += ["", "", estimate_cell(done.controlled.beyond[name], many, signed=True) if done.controlled else ""]
        rows.append([*row, estimate_cell(apart[name], many, signed=True)])
    removed = [cell for done in dones for cell in ("", plain_cell(done.effect.removed), "")]
    rows.append([html.Span("Attention removed", title="Mean over heads and rows"), *removed, ""])
    return rows


def tokens_of_both(both: Both) -> list[Component]:
    """Return the tokens of both strings, or one table of the strings of a batch."""
    if both.first.batch:
        return strings_table(both)
    called = both.called
    return [
        *tokens(both.first, both.pair.first, f"First: {called[0]}"),
        *tokens(both.second, both.pair.second, f"Second: {called[1]}", "intervene-grid-second"),
    ]


def strings_table(both: Both) -> list[Component]:
    """Return what changed in every string of a batch, in both."""
    rows = []
    for index, string in enumerate(both.first.strings):
        sides = [cell for done in (both.first, both.second) for cell in _of_string(done, index)]
        rows.append([f"#{index}", str(len(string)), *sides])
    columns = [("String", ""), ("n", "number")]
    for side in _SIDES:
        columns += [(f"{side}: without", "of-side"), ("With", ""), ("Tokens changed", "number"), ("First at", "number")]
    changed = [sum(row[at] != "0" for row in rows) for at in (4, 8)]
    told = f"{changed[0]} of {len(rows)} change in the first, {changed[1]} in the second"
    listed = table(columns, rows, "What changed in every string, in both", className="changed-strings both-sides")
    heading_of = html.H2(["Strings", html.Span(told, className="count")])
    return [heading_of, html.Div(listed, className="scroll strings-scroll", tabIndex=0)]


def _of_string(done: Done, index: int) -> list[Any]:
    before, after, *_ = done.answers(index)
    where = np.flatnonzero(before != after)
    return [
        exact_cell(done.baseline[index].right),
        exact_cell(done.changed[index].right),
        f"{len(where):,}",
        str(where[0]) if len(where) else "–",
    ]


def margins_of_both(both: Both) -> Component:
    """Return the logit differences of both by index, and what changes in the first minus what changes in the second."""
    columns = [("Index", "number")]
    for side in _SIDES:
        columns += [(f"{side}: without", "number of-side"), ("With", "number"), ("Change", "number")]
    columns.append(("First − second", "number of-side"))
    subjects, apart = (both.first.margins, both.second.margins), both.contrast.values
    rows = []
    count = max(len(one.baseline) for one in subjects)
    for k in at_most(count).tolist():
        row = [str(k)]
        for one in subjects:
            there = k < len(one.baseline)
            numbers = (one.baseline[k], one.changed[k], one.difference[k]) if there else ()
            row += [as_text(value, 3, signed=i == 2) for i, value in enumerate(numbers)] or ["–", "–", "–"]
        rows.append([*row, as_text(apart[k], 3, signed=True) if k < len(apart) else "–"])
    return listed(columns, rows, "Logit difference of both by index of the copied token", of=count, rest=REST)
