"""Small components of the Heads page: labels, verdicts and numbers, told by text and sign or shape as well as colour.

Signs and shapes are drawn by assets/heads.css: a table of many heads is redrawn at every key press, and every
component that it is made of costs time in the browser.
"""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from workbench.content.base import EstimateContent
from workbench.content.heads import HeadContent
from workbench.dashboard.pages.heads_strongest import kind_of
from workbench.dashboard.parts import mark, table
from workbench.dashboard.pickers import visible_text
from workbench.figures.head_pair import subtract_estimates, told_apart
from workbench.figures.numbers import signed
from workbench.figures.space import LABEL_STYLES

PATH = "/heads"
# What an intervention says of a label, best first, and the class that draws it.
VERDICTS = {"confirmed": "is-yes", "not confirmed": "is-no", "no effect": "is-none", "not measurable": "is-unknown"}
_NO_LABEL = ("#7d7d7d", "circle-open")


def label_look(label: str) -> dict[str, Any]:
    """Properties of a component that shows a label with the shape and colour it has in every figure."""
    color, symbol = LABEL_STYLES.get(kind_of(label)[0], _NO_LABEL)
    return {
        "children": visible_text(label),
        "className": "label",
        "style": {"backgroundImage": f'url("{mark(symbol, color)}")'},
    }


def certainty(head: HeadContent) -> tuple[str, str]:
    """Whether a label is certain, and the class that draws it."""
    return ("certain", "is-yes") if head.certain else ("uncertain", "is-unsure")


def verdict(head: HeadContent) -> tuple[str, str]:
    """What the intervention says of a head's label, and the class that draws it."""
    state = str(head.intervention.get("state", "not measurable"))
    return visible_text(state), VERDICTS.get(state, "is-unknown")


def text_of(estimate: EstimateContent) -> str:
    """Value and interval in at most three digits or as whole numbers, or that it is not measurable."""
    if estimate.value is None:
        return "not measurable"
    digits = 2 if abs(estimate.value) < 10 else 1 if abs(estimate.value) < 100 else 0
    value, *ends = (f"{number:,.{digits}f}" for number in (estimate.value, *(estimate.interval or ())))
    return f"{value} [{', '.join(ends)}]" if ends else value


def difference_text(first: EstimateContent | None, second: EstimateContent | None) -> str:
    """The first value minus the second with its sign, or a dash where one could not be measured."""
    value = subtract_estimates(first, second)
    return "–" if value is None else signed(value)


def overlap_text(first: EstimateContent | None, second: EstimateContent | None) -> str:
    """Whether two values are distinguishable by their 95 % intervals; "" where these are not known."""
    apart, value = told_apart(first, second), subtract_estimates(first, second)
    if apart and value is not None and signed(value) == signed(0.0):  # which the numbers beside it do not show
        return "apart by less than 0.01"
    return {None: "", True: "apart", False: "overlap: not distinguishable"}[apart]


def bare(figure: go.Figure) -> go.Figure:
    """A figure without its title, which the page says above it."""
    figure.layout.title.text = ""
    return figure


def described(said: str, graph: Component, *more: Any) -> Component:
    """A figure below the sentence that says what is seen in it, which is its text alternative; `more` comes below."""
    return html.Figure([html.Figcaption(said), graph, *more])


def as_table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], caption: str) -> Component:
    """A figure's numbers, shown when asked for."""
    return html.Details(
        [html.Summary("Show as table"), html.Div(table(columns, rows, caption), className="scroll", tabIndex=0)]
    )
