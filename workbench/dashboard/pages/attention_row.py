"""The pinned query row of the Attention page: its distribution, what it predicts, its top keys."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.numbers import plain
from workbench.dashboard.pages.maximise import maximise
from workbench.dashboard.parts import link, table, token
from workbench.dashboard.selection import Selection
from workbench.dashboard.state import ViewState, Zoom
from workbench.figures import row_distribution
from workbench.figures.tokens import markup
from workbench.views import tokens_of

TOP_KEYS = 12
_NEAR = 64
_COLUMNS = (("Rank", "number"), ("Key", "number"), ("Token", ""), ("Offset", "number"), ("Weight", "number"), ("", ""))


def render(chosen: Selection, view: ViewState, path: str) -> tuple[go.Figure, Component, Component]:
    """Return the distribution of the pinned row, the steps to its neighbours, and its top keys."""
    pattern = chosen.string.head(chosen.view.layer, chosen.view.head)
    row, tokens = chosen.row, tokens_of(chosen.string)
    weights = pattern.row(row)
    figure = row_distribution(row, weights, tokens, title=row_title(chosen, weights))
    keys, top = pattern.top_keys(row, TOP_KEYS)
    return figure, row_bar(chosen, view, path), key_table(chosen, view, path, keys, top)


def row_title(chosen: Selection, weights: np.ndarray) -> str:
    """Return what a row does, in a line: the weight on its true source, or on its top key."""
    source = int(chosen.string.source_position[chosen.row])
    if source >= 0:
        return f"Weight on the true source, key {source}: {_short(weights[source])}"
    best = int(weights.argmax())
    return f"Most weight on key {best} ({markup(chosen.string.token_names[best])}): {_short(weights[best])}"


def row_bar(chosen: Selection, view: ViewState, path: str) -> Component:
    """Return the pinned row's name, what it predicts, and links to the rows before and after."""
    string, row = chosen.string, chosen.row
    names = string.token_names

    def step(label: str, to: int, name: str) -> Component:
        if not 0 <= to < chosen.n_tokens:
            return html.Span(label, className="button off", **{"aria-hidden": "true"})
        here = path + view.change(row=to).query()
        return link(label, here, className="button", title=name, **{"aria-label": name})

    predicted, target = int(string.predicted[row]), int(string.targets[row])
    vocabulary = chosen.capture.names
    said: Sequence[Any] = [html.Span("not scored", className="quiet")]
    if predicted >= 0:
        right = predicted == target
        mark = html.Span(
            "✓" if right else "✕", className=f"icon {'good' if right else 'bad'}", **{"aria-hidden": "true"}
        )
        said = [mark, "predicts ", token(vocabulary[predicted])]
        said = [*said, " correctly"] if right else [*said, " instead of ", token(vocabulary[target])]
    title = html.Span(["Query ", html.B(str(row)), " ", token(names[row])], className="row-name")
    links = [step("‹", row - 1, "row before"), step("›", row + 1, "row after")]
    steps = html.Span([*links, maximise("attention-right", "the row")], className="steps-links")
    return html.Div([html.Div([title, steps], className="row-head"), html.P(said, className="row-said")])


def key_table(chosen: Selection, view: ViewState, path: str, keys: np.ndarray, weights: np.ndarray) -> Component:
    """Return the keys the pinned row attends to most; each is a link to its cell in the map."""
    string, row = chosen.string, chosen.row
    source = int(string.source_position[row])
    anchors = set(np.asarray(string.anchor_positions).tolist())
    names = string.token_names
    rows = []
    for rank, (key, weight) in enumerate(zip(keys.tolist(), weights.tolist(), strict=True), start=1):
        role: Component | str = html.Span("anchor", className="quiet") if key in anchors else ""
        if key == source:
            role = html.Span("source", className="role-source", title="the true source: the token that is to be copied")
        at = link(
            f"{key:,}", path + around(view, row, key, chosen.n_tokens).query(), title=f"Show key {key} in the map"
        )
        rows.append([str(rank), at, token(names[key]), f"{row - key:,}", weight_text(weight), role])
    listing = table(_COLUMNS, rows, f"Keys that query {row} attends to most", className="keys")
    rest = 1.0 - float(weights.sum())
    share = html.P(f"All other keys together: {weight_text(max(0.0, rest))}", className="quiet rest")
    return html.Div(plain(html.Div([listing, share])), className="scroll keys-scroll")


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
