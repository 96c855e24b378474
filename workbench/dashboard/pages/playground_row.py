"""One query of the Playground: what it predicts, how to change its token, and where the heads of a layer look."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.pages.playground_strings import Chosen, write_tokens
from workbench.dashboard.parts import link, switch, table, token
from workbench.dashboard.state import ViewState
from workbench.figures.attention import Tokens
from workbench.figures.playground import head_bars
from workbench.figures.style import scheme_style
from workbench.figures.tokens import visible

if TYPE_CHECKING:
    from analyses.decoding import Decoded

STRIPS = 4  # heads drawn at once
_FEW = 10  # tokens of an alphabet that are all offered
_TOP = 5


@dataclass(frozen=True)
class Query:
    """A query row of one copy.

    Attributes:
        chosen: string and model.
        decoded: the copy.
        row: the position.
    """

    chosen: Chosen
    decoded: "Decoded"
    row: int

    @property
    def names(self) -> list[str]:
        """Printable name of every token, as the model was fed them."""
        return [self.chosen.names[i] for i in self.decoded.string.tokens]

    @property
    def index(self) -> int | None:
        """Index of the token that it predicts, None where it is not scored."""
        index = self.row - int(self.decoded.rows[0])
        return index if 0 <= index < len(self.decoded.predicted) else None

    @property
    def source(self) -> int:
        """Position of its true source, -1 where it is not scored."""
        return int(self.decoded.string.relations.source_position[self.row])

    @property
    def editable(self) -> int | None:
        """Index of the source token that can be changed from here: its own, or the one that is to be copied."""
        here = self.row - self.chosen.live.task.a
        if 0 <= here < self.chosen.length:
            return here
        return self.index if self.index is not None and self.index < self.chosen.length else None

    @property
    def fed(self) -> int | None:
        """Index in the copy of the token that stands here, where it can be fed otherwise; None elsewhere."""
        index = self.row - int(self.decoded.rows[0]) - 1
        return index if not self.decoded.free and 0 <= index < self.chosen.length else None

    def weights(self, head: int) -> np.ndarray:
        """Float[T] weights of a head of the chosen layer."""
        return self.decoded.string.head(self.chosen.view.layer, head).row(self.row)


def default_row(decoded: "Decoded") -> int:
    """Return the first wrong query of a copy, else the first that is scored."""
    return int(decoded.rows[decoded.first_error or 0])


def strips(count: int, head: int) -> range:
    """Return the heads of a layer that are drawn together, `head` among them."""
    first = head // STRIPS * STRIPS
    return range(first, min(first + STRIPS, count))


def bar(
    query: Query, view: ViewState, path: str, moved: tuple[str, ...], compared: Sequence[Component] = ()
) -> Component:
    """Return the query's name and answer, the steps to its neighbours, the choice of layer and head, and the editor.

    Args:
        query: it.
        view: the view that its links change.
        path: address of the page.
        moved: what was replaced.
        compared: what two subjects answer, in place of what this one does.
    """
    row, names = query.row, query.names

    def to(**changes: Any) -> str:
        return path + view.change(**changes).query()

    def step(label: str, there: int, name: str) -> Component:
        if not 0 <= there <= query.decoded.last_row:
            return html.Span(label, className="button off", **{"aria-hidden": "true"})
        return link(label, to(row=there), className="button", title=name, **{"aria-label": name})

    steps = html.Span([step("‹", row - 1, "row before"), step("›", row + 1, "row after")], className="steps-links")
    fed = "free-running" if query.decoded.free else "teacher-forced"
    title = html.Span(
        ["Query ", html.B(f"{row:,}"), " ", token(names[row]), html.Span(f" {fed}", className="quiet")],
        className="row-name",
    )
    live, layer = query.chosen.live, query.chosen.view.layer
    layers = [(f"{i} · {scheme_style(scheme).label}", to(layer=i), i == layer) for i, scheme in enumerate(live.schemes)]
    heads = [(str(i), to(head=i), i == query.chosen.view.head) for i in range(live.heads[layer])]
    notes = [html.P(note, className="note") for note in moved]
    return html.Div(
        [
            html.Div([title, steps], className="row-head", **{"data-pinned": str(2 * row + int(query.decoded.free))}),
            *(compared or [html.P(said(query), className="row-said")]),
            html.P(where(query), className="row-where quiet"),
            editor(query, view, path),
            feeder(query, view, path),
            html.Div([switch("Layer", layers), switch("Head", heads)], className="controls wrapping"),
            *notes,
        ]
    )


def said(query: Query) -> list[Any]:
    """Return what the query predicts, how sure it is, and whether it is right."""
    k = query.index
    if k is None:
        return [html.Span("Not scored: nothing is to be copied from here.", className="quiet")]
    answer, target = int(query.decoded.predicted[k]), int(query.decoded.targets[k])
    names, right = query.chosen.names, answer == target
    icon = html.Span("✓" if right else "✕", className=f"icon {'good' if right else 'bad'}", **{"aria-hidden": "true"})
    text = [icon, "predicts ", token(names[answer]), f" with probability {query.decoded.confidence[k]:.3f}"]
    if right:
        return [*text, ", rightly"]
    return [*text, "; right is ", token(names[target]), f" with {query.decoded.right_probability[k]:.3f}"]


def where(query: Query) -> list[Any]:
    """Return where the query stands, in the string and in the layer's coordinates."""
    coords = query.decoded.coords[query.chosen.view.layer]
    parts = []
    if query.index is not None:
        what = "EOS" if query.index == query.chosen.length else f"token {query.index} of the copy"
        parts.append(f"{what}, true source at key {query.source}")
    if coords is None:
        parts.append("this layer sees no coordinates")
    elif coords.shape[1] == 2:
        parts.append(f"row {coords[query.row, 0]:.2f}, column {coords[query.row, 1]:.2f}")
    else:
        parts.append(f"coordinate {coords[query.row, 0]:.2f}")
    line = "; ".join(parts)
    return [line[:1].upper() + line[1:]]


def editor(query: Query, view: ViewState, path: str) -> Component:
    """Return the links that change, remove or add a token of the source string."""
    k, chosen = query.editable, query.chosen
    if k is None:
        return html.P("Point at a token of the string to change it.", className="editor quiet")
    tokens, alphabet = list(chosen.tokens), chosen.live.task.alphabet

    def edited(*change: int, removed: int = 1) -> str:
        made = [*tokens[:k], *change, *tokens[k + removed :]]
        return path + view.change(text=write_tokens(made, alphabet), row=query.row).query()

    own = tokens[k]
    buttons = [
        link(visible(chosen.names[t]), edited(t), className="button", title=f"Make it {chosen.names[t]}")
        for t in _others(own, alphabet)
    ]
    more = [link("Double", edited(own, own), className="button", title="Put the same token after it")]
    if len(tokens) > 1:
        more.insert(0, link("Remove", edited(), className="button", title="Take it out of the string"))
    parts = [f"Token {k} of the string is ", token(chosen.names[own]), "; make it ", *buttons, *more]
    return html.P(parts, className="editor")


def feeder(query: Query, view: ViewState, path: str) -> Component:
    """Return the links that feed another copied token here, or the right one again."""
    k, chosen = query.fed, query.chosen
    if k is None:
        return html.P(className="editor")
    right, otherwise = chosen.tokens[k], dict(chosen.fed)
    now = otherwise.get(k, right)

    def fed(token: int) -> str:
        changed = {**otherwise, k: token}
        kept = tuple(sorted((index, other) for index, other in changed.items() if other != chosen.tokens[index]))
        return path + view.change(fed=kept or None, row=query.row).query()

    buttons = [
        link(
            visible(chosen.names[t]),
            fed(t),
            className="button",
            title=f"Feed {chosen.names[t]}{' again, the right token' if t == right else ', a wrong token'}",
        )
        for t in dict.fromkeys((right, *_others(right, chosen.live.task.alphabet)))
        if t != now
    ]
    which = "in place of the right one" if k in otherwise else "the right one"
    return html.P([f"Copied token {k} is fed as ", token(chosen.names[now]), f", {which}; feed ", *buttons],
                  className="editor")  # fmt: skip


def _others(token: int, alphabet: int) -> list[int]:
    """The tokens that are offered in place of one: all of a small alphabet, the neighbours in a large one."""
    near = range(alphabet) if alphabet <= _FEW else ((token - 1) % alphabet, (token + 1) % alphabet)
    return [other for other in near if other != token]


def figure(query: Query) -> go.Figure:
    """Return where the heads look from here."""
    chosen = query.chosen
    layer, head = chosen.view.layer, chosen.view.head
    relations = query.decoded.string.relations
    tokens = Tokens(query.names, relations.source_position, np.zeros(len(relations), bool), relations.anchors)
    weights = {h: query.weights(h) for h in strips(chosen.live.heads[layer], head)}
    return head_bars(query.row, weights, tokens, chosen=head)


def finding(query: Query) -> str:
    """Return in a line what the chosen head does here; plain text."""
    view = query.chosen.view
    weights = query.weights(view.head)
    best = int(weights.argmax())
    which = "its source, key" if best == query.source else "key"
    top = f"most on {which} {best}, {weights[best]:.2f}"
    rest = f"{weights[query.source]:.2f} on its source, " if query.source not in (-1, best) else ""
    return f"Head {view.layer}.{view.head} from query {query.row}: {rest}{top}"


def keys_table(query: Query) -> Component:
    """Return the top keys of every head that is drawn, as a table to be unfolded."""
    view, names = query.chosen.view, query.names
    rows = []
    for head in strips(query.chosen.live.heads[view.layer], view.head):
        for key, weight in zip(*query.decoded.string.head(view.layer, head).top_keys(query.row, _TOP), strict=True):
            role = html.Span("source", className="role-source") if key == query.source else ""
            rows.append([f"{view.layer}.{head}", str(key), token(names[key]), f"{weight:.4f}", role])
    columns = (("Head", ""), ("Key", "number"), ("Token", ""), ("Weight", "number"), ("", ""))
    listed = table(columns, rows, f"Keys that query {query.row} attends to most, by head", className="keys")
    return html.Details([html.Summary("Show as table"), html.Div(listed, className="scroll", tabIndex=0)])
