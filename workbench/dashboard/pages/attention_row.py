"""The pinned query row of the Attention page: its distribution, what it predicts, its top keys."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.comparison import Pair
from workbench.dashboard.numbers import plain
from workbench.dashboard.pages.maximise import maximise
from workbench.dashboard.parts import link, table, token
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState, Zoom
from workbench.figures import row_distribution
from workbench.figures.numbers import signed
from workbench.figures.row_pair import row_pair
from workbench.figures.tokens import markup
from workbench.views import tokens_of

TOP_KEYS = 12
_NEAR = 64
_COLUMNS = (("Rank", "number"), ("Key", "number"), ("Token", ""), ("Offset", "number"), ("Weight", "number"), ("", ""))
_PAIR_COLUMNS = (
    ("Key", "number"), ("Token", ""), ("Offset", "number"), ("First", "number"), ("Second", "number"),
    ("Difference", "number"), ("", ""),
)  # fmt: skip


def render(
    chosen: Selection, view: ViewState, path: str, second: Selection | None = None
) -> tuple[go.Figure, Component, Component]:
    """Return the distribution of the pinned row, the steps to its neighbours, and its top keys.

    Args:
        chosen: the first subject.
        view: the view that links change.
        path: the page's address.
        second: the second subject, which is told beside the first; None while nothing is compared.
    """
    pattern = chosen.string.head(chosen.view.layer, chosen.view.head)
    row, tokens = chosen.row, tokens_of(chosen.string)
    weights = pattern.row(row)
    if second is None or row >= second.n_tokens:
        figure = row_distribution(row, weights, tokens, title=row_title(chosen, weights))
        keys, top = pattern.top_keys(row, TOP_KEYS)
        listing = key_table(chosen, view, path, keys, top)
        if second is not None:
            ends = f"The second string ends before query {row:,}: the first alone is shown."
            listing = html.Div([html.P(ends, className="note"), listing], className="keys-below")
        return figure, row_bar(chosen, view, path), listing
    theirs = second.string.head(second.view.layer, second.view.head).row(row)
    figure = row_pair(row, weights, theirs, tokens, title=pair_title(chosen, second, weights, theirs))
    return figure, row_bar(chosen, view, path, second), pair_table(chosen, second, view, path, weights, theirs)


def row_title(chosen: Selection, weights: np.ndarray) -> str:
    """Return what a row does, in a line: the weight on its true source, or on its top key."""
    source = int(chosen.string.source_position[chosen.row])
    if source >= 0:
        return f"Weight on the true source, key {source}: {_short(weights[source])}"
    best = int(weights.argmax())
    return f"Most weight on key {best} ({markup(chosen.string.token_names[best])}): {_short(weights[best])}"


def pair_title(chosen: Selection, second: Selection, weights: np.ndarray, theirs: np.ndarray) -> str:
    """Return what a row does under both subjects, in a line: the weight on the true source, or on their top keys."""
    row = chosen.row
    source = int(chosen.string.source_position[row])
    if source >= 0 and source == int(second.string.source_position[row]):
        return f"Weight on the true source, key {source}: {_short(weights[source])}, outlined {_short(theirs[source])}"
    best = [int(found[: row + 1].argmax()) for found in (weights, theirs)]
    first, other = (
        f"key {at} ({markup(of.string.token_names[at])}): {_short(found[at])}"
        for at, of, found in zip(best, (chosen, second), (weights, theirs), strict=True)
    )
    return f"Most weight on {first}, outlined {other}"


def row_bar(chosen: Selection, view: ViewState, path: str, second: Selection | None = None) -> Component:
    """Return the pinned row's name, what it predicts under each subject, and links to the rows before and after."""
    row, names = chosen.row, chosen.string.token_names

    def step(label: str, to: int, name: str) -> Component:
        if not 0 <= to < chosen.n_tokens:
            return html.Span(label, className="button off", **{"aria-hidden": "true"})
        here = path + view.change(row=to).query()
        return link(label, here, className="button", title=name, **{"aria-label": name})

    said = _predicted(chosen, row)
    if second is not None:
        said = [
            "First: ",
            *said,
            " · second: ",
            *_predicted(second, row, verb=""),
            *_another(Pair(chosen, second), row),
        ]
    title = html.Span(["Query ", html.B(str(row)), " ", token(names[row])], className="row-name")
    links = [step("‹", row - 1, "row before"), step("›", row + 1, "row after")]
    steps = html.Span([*links, maximise("attention-right", "the row")], className="steps-links")
    return html.Div([html.Div([title, steps], className="row-head"), html.P(said, className="row-said")])


def _another(pair: Pair, row: int) -> list[str]:
    """Which copied token the row is about in each, where it is another one."""
    begin = pair.copies_begin
    if begin[0] == begin[1] or any(int(of.string.source_position[row]) < 0 for of in (pair.first, pair.second)):
        return []
    return [f" (token {row - begin[1]} of its copy, in the first token {row - begin[0]})"]


def _predicted(chosen: Selection, row: int, verb: str = "predicts ") -> list[Any]:
    """What a row predicts, and whether that is right."""
    predicted, target = int(chosen.string.predicted[row]), int(chosen.string.targets[row])
    if predicted < 0:
        return [html.Span("not scored", className="quiet")]
    vocabulary, right = chosen.capture.names, predicted == target
    mark = html.Span("✓" if right else "✕", className=f"icon {'good' if right else 'bad'}", **{"aria-hidden": "true"})
    said = [mark, verb, token(vocabulary[predicted])]
    return [*said, " correctly"] if right else [*said, " instead of ", token(vocabulary[target])]


def key_table(chosen: Selection, view: ViewState, path: str, keys: np.ndarray, weights: np.ndarray) -> Component:
    """Return the keys the pinned row attends to most; each is a link to its cell in the map."""
    row, names = chosen.row, chosen.string.token_names
    rows = []
    for rank, (key, weight) in enumerate(zip(keys.tolist(), weights.tolist(), strict=True), start=1):
        at = _to_cell(chosen, view, path, key)
        rows.append([str(rank), at, token(names[key]), f"{row - key:,}", weight_text(weight), _role(chosen, key)])
    listing = table(_COLUMNS, rows, f"Keys that query {row} attends to most", className="keys")
    rest = 1.0 - float(weights.sum())
    share = html.P(f"All other keys together: {weight_text(max(0.0, rest))}", className="quiet rest")
    return html.Div(plain(html.Div([listing, share])), className="scroll keys-scroll")


def pair_table(
    chosen: Selection, second: Selection, view: ViewState, path: str, weights: np.ndarray, theirs: np.ndarray
) -> Component:
    """Return the keys that either subject attends to most from the pinned row, with both weights and the difference."""
    row = chosen.row
    both = np.stack([weights[: row + 1], theirs[: row + 1]]).astype(float)
    keys = np.argsort(-both.max(0), kind="stable")[:TOP_KEYS]
    keys = keys[both[:, keys].max(0) > 0]
    rows = []
    for key in keys.tolist():
        named = [of.string.token_names[key] for of in (chosen, second)]
        tokens = [token(named[0]), *([" / ", token(named[1])] if named[0] != named[1] else [])]
        ours, other = both[:, key].tolist()
        shown = [weight_text(ours), weight_text(other), signed(ours - other, 4)]
        rows.append([_to_cell(chosen, view, path, key), tokens, f"{row - key:,}", *shown, _role(chosen, key)])
    listing = table(
        _PAIR_COLUMNS, rows, f"Keys that query {row} attends to most under either subject", className="keys"
    )
    rest = [weight_text(max(0.0, float(part))) for part in 1 - both[:, keys].sum(1)]
    share = html.P(f"All other keys together: {rest[0]} in the first, {rest[1]} in the second", className="quiet rest")
    return html.Div(plain(html.Div([listing, share])), className="scroll keys-scroll")


def _to_cell(chosen: Selection, view: ViewState, path: str, key: int) -> Component:
    """The number of a key, which leads to its cell in the map."""
    there = around(view, chosen.row, key, chosen.n_tokens)
    return link(f"{key:,}", path + there.query(), title=f"Show key {key} in the map")


def _role(chosen: Selection, key: int) -> Component | str:
    """What a key is to the pinned row: its true source, an anchor, or nothing in particular."""
    if key == int(chosen.string.source_position[chosen.row]):
        return html.Span("source", className="role-source", title="the true source: the token that is to be copied")
    return html.Span("anchor", className="quiet") if key in np.asarray(chosen.string.anchor_positions) else ""


def around(view: ViewState, row: int, key: int, length: int) -> ViewState:
    """Return the view of the map near one cell, its row pinned: at most 64 tokens a side."""
    size = min(_NEAR, length)
    top, left = (min(max(at - size // 2, 0), length - size) for at in (row, key))
    zoom = None if size == length else Zoom(top, top + size, left, left + size)
    return view.change(row=row, zoom=zoom, tab="map")


def weight_text(weight: float) -> str:
    """Return a weight with four decimals, and never a positive one as 0.0000."""
    return "< 0.0001" if 0 < weight < 1e-4 else f"{weight:.4f}"


def _short(weight: float) -> str:
    """Return a weight with two decimals, or more where it is small."""
    return f"{weight:.2f}" if weight >= 0.1 or weight == 0 else weight_text(float(weight)).replace("<", "&lt;")
