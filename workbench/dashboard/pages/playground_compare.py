"""One query of two subjects on the Playground: what both predict, where their heads look, and the difference."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from workbench.dashboard import live_pairs
from workbench.dashboard.live_models import LiveModels
from workbench.dashboard.live_pairs import LivePair
from workbench.dashboard.pages import playground_row
from workbench.dashboard.pages.heads_parts import as_table
from workbench.dashboard.pages.playground_copies import copy_of
from workbench.dashboard.pages.playground_pairs import same_copy
from workbench.dashboard.pages.playground_row import Query
from workbench.dashboard.parts import link, token
from workbench.dashboard.state import ViewState
from workbench.figures.numbers import signed
from workbench.figures.playground import ALIKE, Strip, compared_bars

_TOP = 10


@dataclass(frozen=True)
class Both:
    """The same query of two subjects.

    Attributes:
        first, second: the queries; of a token that is copied, those that predict it, else those at one position.
        called: what to call the subjects.
    """

    first: Query
    second: Query
    called: tuple[str, str]

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Float[K] weights of each subject's chosen head, over the keys up to its query."""
        first, second = (q.weights(q.chosen.view.head)[: q.row + 1] for q in (self.first, self.second))
        return first, second

    @property
    def apart(self) -> np.ndarray:
        """Float[K] weights of the first minus those of the second, over the keys that both have."""
        first, second = self.weights
        common = min(len(first), len(second))
        return first[:common] - second[:common]

    @property
    def same_length(self) -> bool:
        """Whether positions mean the same: both strings have as many tokens, and the query is at one position."""
        return self.first.chosen.length == self.second.chosen.length and self.first.row == self.second.row


def row(
    models: LiveModels, pair: LivePair, query: Query, view: ViewState, path: str, notes: tuple[str, ...]
) -> tuple[Component, str, go.Figure, str, Component]:
    """Return the bar of a query of both subjects, the finding, the figure, its text alternative, and its numbers.

    Args:
        models: what is read.
        pair: the subjects.
        query: of the first.
        view: the view that links change.
        path: address of the page.
        notes: what was replaced.
    """
    both = both_of(models, pair, query)
    called = live_pairs.names(pair)
    told = [] if same_copy(pair) else answers(query, both, called)
    if both is not None and view.zoom is not None:
        told = [*(told or [html.P(playground_row.said(query), className="row-said")]), keys_said(both, view, path)]
    bar = playground_row.bar(query, view, path, notes, told)
    if both is None:
        said = f"{playground_row.finding(query)}. The copy of the second has no such query."
        return bar, said, playground_row.figure(query), said, playground_row.keys_table(query)
    said = finding(both)
    return bar, said, figure(both, view), said, keys_table(both)


def both_of(models: LiveModels, pair: LivePair, query: Query) -> Both | None:
    """Return the query of both subjects, None where the copy of the second has none."""
    decoded = copy_of(models, pair.second, query.decoded.free)
    index = query.row - int(query.decoded.rows[0])
    there = int(decoded.rows[0]) + index if index >= 0 else query.row
    if there > decoded.last_row:
        return None
    return Both(query, Query(pair.second, decoded, there), live_pairs.names(pair))


def answers(query: Query, both: Both | None, called: tuple[str, str]) -> list[Component]:
    """Return what each subject predicts from the query."""
    lacks = [html.Span("its copy has no such query: it ended before.", className="quiet")]
    parts = (("First", playground_row.said(query)), ("Second", playground_row.said(both.second) if both else lacks))
    return [
        html.P([html.B(f"{side}, {name}: "), *said], className="row-said")
        for (side, said), name in zip(parts, called, strict=True)
    ]


def keys_said(both: Both, view: ViewState, path: str) -> Component:
    """Return which keys are in sight, and the way back to all."""
    keys = in_sight(both, view)
    every = link("All keys", path + view.change(zoom=None).query(), className="button")
    return html.P([f"Keys {keys.start:,} to {keys.stop - 1:,} are in sight. ", every], className="quiet")


def in_sight(both: Both, view: ViewState) -> slice:
    """Return the keys that are drawn: those of the view's zoom, or all."""
    count = max(both.first.row, both.second.row) + 1
    return slice(0, count) if view.zoom is None else view.zoom.within(count).cols


def figure(both: Both, view: ViewState) -> go.Figure:
    """Return where both heads look from here, and the difference."""
    strips = [
        Strip(f"{side}, head {q.chosen.view.layer}.{q.chosen.view.head}", weights, q.names[: q.row + 1], q.source)
        for side, q, weights in zip(("First", "Second"), (both.first, both.second), both.weights, strict=True)
    ]
    anchors = both.first.decoded.string.relations.anchors.tolist()
    return compared_bars(*strips, keys=in_sight(both, view), anchors=anchors)


def finding(both: Both) -> str:
    """Return in a line where the heads differ most from here; plain text."""
    first, second = both.weights
    apart = both.apart
    most = int(np.abs(apart).argmax())
    said = f"From query {both.first.row} both heads attend alike"
    if abs(apart[most]) >= ALIKE:
        said = (
            f"From query {both.first.row} most apart on key {most}: first {first[most]:.2f}, second "
            f"{second[most]:.2f}, {signed(float(apart[most]))}"
        )
        if both.same_length:
            said += f"; {float(np.abs(apart).sum()) / 2:.0%} of the attention lies on other keys"
    if both.first.row != both.second.row:
        said += (
            f". The second predicts the same token from query {both.second.row}; keys are compared by position, up to "
            f"{len(apart) - 1}"
        )
    elif not both.same_length:
        lengths = f"{both.first.chosen.length:,} and {both.second.chosen.length:,}"
        said += f". The strings have {lengths} tokens; keys are compared by position"
    return f"{said}."


def keys_table(both: Both) -> Component:
    """Return the keys whose weights differ most as a table to be unfolded."""
    first, second = both.weights
    apart, sources = both.apart, (both.first.source, both.second.source)
    names = both.first.names, both.second.names
    two = any(names[0][key] != names[1][key] for key in range(len(apart)))
    rows = []
    for key in np.argsort(-np.abs(apart), kind="stable")[:_TOP].tolist():
        role = html.Span("source", className="role-source") if key in sources else ""
        tokens = [token(names[0][key]), *([token(names[1][key])] if two else [])]
        numbers = [f"{first[key]:.4f}", f"{second[key]:.4f}", f"{apart[key]:+.4f}".replace("-", "−")]
        rows.append([str(key), *tokens, *numbers, role])
    named = [("First: token", ""), ("Second: token", "")] if two else [("Token", "")]
    columns = (
        ("Key", "number"), *named, ("First", "number"), ("Second", "number"), ("Difference", "number"), ("", ""),
    )  # fmt: skip
    return as_table(columns, rows, f"Keys on which both heads differ most from query {both.first.row}")
