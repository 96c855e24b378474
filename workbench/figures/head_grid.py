"""One score of every head as a grid, layers down and heads across, on a fixed colour range."""

import html
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from workbench.content.base import EstimateContent
from workbench.content.heads import HeadContent
from workbench.figures.difference import SECOND
from workbench.figures.style import INK, QUIET, TRUTH, axis, scheme_style, titled

NAMED = 6  # heads of a layer up to which cells have room for labels
ROOMY, TIGHT = 58, 38  # px a layer, with labels and without
_TICKS = [0, 0.25, 0.5, 0.75, 1]
_ABOVE, _TITLE, _BELOW = 28, 30, 12  # px


def score_grid(
    heads: Sequence[HeadContent],
    score: str,
    *,
    selected: tuple[int, int] | None = None,
    beside: tuple[int, int] | None = None,
    schemes: Sequence[str] = (),
    title: str | None = None,
) -> go.Figure:
    """Draw one score of every head, 0 to 1 whatever the heads; what could not be measured is said in its cell.

    Args:
        heads: of one model.
        score: a name that lies between 0 and 1.
        selected: layer and head to be outlined.
        beside: another one that it is compared with, outlined by dashes.
        schemes: positional scheme of each layer.
        title: what is seen; by default which head has most of it.
    """
    layers, across = (1 + max(getattr(head, side) for head in heads) for side in ("layer", "head"))
    values, texts = np.full((layers, across), np.nan), np.full((layers, across), "", dtype=object)
    hovers = np.full((layers, across), "", dtype=object)
    roomy, unmeasured = across <= NAMED, []
    for head in heads:
        at, estimate = (head.layer, head.head), head.scores.get(score)
        label = html.escape(head.label)
        hovers[at] = f"<b>head {head.layer}.{head.head}</b>: {label}<br>{_about(score, estimate)}"
        if estimate is None or estimate.value is None:
            unmeasured.append(at)
            continue
        values[at] = estimate.value
        texts[at] = f"<b>{estimate.value:.2f}</b><br>{label}" if roomy else f"{estimate.value:.2f}"
    figure = go.Figure(
        go.Heatmap(
            z=values,
            text=texts,
            texttemplate="%{text}",
            zmin=0,
            zmax=1,
            colorscale="Cividis",
            xgap=3,
            ygap=3,
            hoverinfo="skip" if not np.isfinite(values).any() else None,
            customdata=hovers,
            hovertemplate="%{customdata}<extra></extra>",
            hoverongaps=False,
            colorbar={"thickness": 10, "outlinewidth": 0, "tickvals": _TICKS, "tickfont": {"size": 10}},
        )
    )
    if unmeasured:
        figure.add_scatter(
            x=[head for _, head in unmeasured],
            y=[layer for layer, _ in unmeasured],
            mode="text",
            text=["not<br>measurable" if roomy else "n/m"] * len(unmeasured),
            textfont={"size": 11 if roomy else 10, "color": QUIET},
            customdata=[hovers[at] for at in unmeasured],
            hovertemplate="%{customdata}<extra></extra>",
            showlegend=False,
        )
    for row, column in unmeasured:
        figure.add_shape(
            type="rect", x0=column - 0.47, x1=column + 0.47, y0=row - 0.45, y1=row + 0.45,
            line={"color": QUIET, "width": 1, "dash": "dot"},
        )  # fmt: skip
    for outlined, color, dash in ((beside, SECOND, "dash"), (selected, TRUTH, "solid")):
        if outlined is not None:
            row, column = outlined
            figure.add_shape(
                type="rect", x0=column - 0.49, x1=column + 0.49, y0=row - 0.48, y1=row + 0.48,
                line={"color": color, "width": 3, "dash": dash},
            )  # fmt: skip
    names = layer_names(layers, schemes, "<br>" if roomy else "")
    title = finding(heads, score) if title is None else title
    above = _ABOVE + (_TITLE if title else 0)
    return titled(
        figure,
        title,
        xaxis=axis(
            "", tickvals=list(range(across)), side="top", showgrid=False, ticks="", range=[-0.5, across - 0.5],
            ticktext=[f"head {head}" if roomy else str(head) for head in range(across)],
        ),
        yaxis=axis(
            "", tickvals=list(range(layers)), ticktext=names, showgrid=False, ticks="", range=[layers - 0.5, -0.5],
        ),
        height=max(120, above + _BELOW + (ROOMY if roomy else TIGHT) * layers),
        font={"color": INK},
        margin={"l": 60, "r": 8, "t": above, "b": _BELOW},
    )  # fmt: skip


def finding(heads: Sequence[HeadContent], score: str) -> str:
    """Which head has most of a score, how far beyond chance, and for how many it could not be measured."""
    known = [(head, head.scores[score]) for head in heads if score in head.scores]
    measured = [(head, e.value, e.chance) for head, e in known if e.value is not None]
    missing = len(heads) - len(measured)
    if not measured:
        return f"No head's {score} is measurable"
    head, value, chance = max(measured, key=lambda found: found[1])
    said = f"Head {head.layer}.{head.head} has most {score}: {value:.2f}"
    said += f" (chance {chance:.2f})" if chance is not None else ""
    return said + (f"; it is not measurable for {missing} of {len(heads)} heads" if missing else "")


def layer_names(layers: int, schemes: Sequence[str], between: str) -> list[str]:
    """Return a name a layer, with its positional scheme behind `between`; without schemes where that is ""."""
    named = [html.escape(scheme_style(scheme).label) for scheme in schemes[:layers]]
    return [
        f"layer {layer}" + (f"{between}{named[layer]}" if between and layer < len(named) else "")
        for layer in range(layers)
    ]


def _about(score: str, estimate: EstimateContent | None) -> str:
    name = html.escape(score)
    if estimate is None or estimate.value is None:
        return f"{name} is not measurable" + (f":<br>{html.escape(estimate.reason)}" if estimate else "")
    low, high = estimate.interval or (estimate.value, estimate.value)
    chance = "" if estimate.chance is None else f", chance {estimate.chance:.2f}"
    return f"{name} = {estimate.value:.3f} [{low:.3f}, {high:.3f}]{chance}<br>{estimate.rows:,} rows of " + (
        f"{estimate.strings:,} strings"
    )
