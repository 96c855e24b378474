"""Heads as figures: scores by head, what patterns are made of, and effects of interventions beside their controls."""

import html
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.content.heads import ComparisonContent, HeadContent, HistoryContent
from workbench.figures.style import INK, QUIET, axis, fade, titled

# Of the shares, by the label they stand for; readable on white and on the dashboard's dark surface.
SHARE_COLORS = {
    "locator": "#0072b2",
    "sink": "#c2405a",
    "aligned": "#d55e00",
    "induction": "#00916a",
    "look-back": "#b5568f",
    "duplicate": "#a87900",
    "self": "#7165c9",
    "shifted": "#a0614a",
    "diffuse": "#71820a",
}
LINES = (("#0072b2", "solid"), ("#d55e00", "dash"), ("#00916a", "dot"), ("#b5568f", "dashdot"))
CONTROL = "#7d7d7d"  # readable on white and on dark, as QUIET is not
_LEAST_SHARE = 0.02  # smaller ones are not drawn
ROW = 26  # px a line of a figure


def score_map(heads: Sequence[HeadContent]) -> go.Figure:
    """Every score that lies between 0 and 1, heads across, scores down; empty cells could not be measured."""
    names = [
        name
        for name in dict.fromkeys(name for head in heads for name in head.scores)
        if _is_share(heads, name) and not name.startswith("share.")
    ]
    across = [f"{head.layer}.{head.head} {head.label}" for head in heads]
    values = np.array([[_value(head, name) for head in heads] for name in names], dtype=float)
    texts = [["" if np.isnan(v) else f"{v:.2f}" for v in row] for row in values]
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=list(range(len(heads))),
            y=list(range(len(names))),
            text=texts,
            texttemplate="%{text}",
            zmin=0,
            zmax=1,
            colorscale="Cividis",
            xgap=2,
            ygap=2,
            customdata=[[[name, head] for head in across] for name in names],
            hovertemplate="%{customdata[1]}<br>%{customdata[0]} = %{z:.3f}<extra></extra>",
            colorbar={"title": {"text": "score"}, "thickness": 12, "len": 0.6},
        )
    )
    return titled(
        figure,
        "Scores by head",
        xaxis=axis("", tickvals=list(range(len(heads))), ticktext=across, side="top"),
        yaxis=axis("", tickvals=list(range(len(names))), ticktext=names, autorange="reversed"),
        height=max(220, 110 + ROW * len(names)),
        width=min(1000, 330 + 130 * len(heads)),
        margin={"l": 160, "r": 20, "t": 70, "b": 20},
    )


def share_bars(heads: Sequence[HeadContent], *, named: bool = True) -> go.Figure:
    """What each pattern is made of, one bar a head; what is missing to 1 fits no template.

    Args:
        heads: one bar each.
        named: with names and a legend; without, what surrounds the figure has to say what it shows.
    """
    names = [f"{head.layer}.{head.head}  {html.escape(head.label)}" if named else "" for head in heads]
    figure = go.Figure()
    for kind, color in SHARE_COLORS.items():
        shares = [head.shares.get(kind) or 0.0 for head in heads]
        if max(shares) < _LEAST_SHARE:
            continue
        figure.add_bar(
            y=list(range(len(heads))),
            x=shares,
            name=kind,
            orientation="h",
            marker={"color": color},
            text=[f"{kind} {share:.2f}" if share >= 0.12 else "" for share in shares],
            textposition="inside",
            insidetextanchor="middle",
            hovertemplate=f"{kind}: %{{x:.3f}}<extra></extra>",
        )
    return titled(
        figure,
        "What each head's attention is made of" if named else "",
        barmode="stack",
        xaxis=axis("share of the pattern", range=[0, 1]),
        yaxis=axis("", tickvals=list(range(len(heads))), ticktext=names, autorange="reversed"),
        showlegend=named,
        legend={"orientation": "h", "x": 0, "y": -0.25, "yanchor": "top", "font": {"color": INK}},
        height=(180 if named else 66) + ROW * len(heads),
        margin={"l": 130, "r": 20, "t": 40, "b": 90} if named else {"l": 8, "r": 12, "t": 4, "b": 44},
    )


def effect_of(head: HeadContent, which: str) -> dict[str, Any]:
    """The estimate a confirmation was decided by: {"value", "interval", ...}, empty where nothing was measured.

    Args:
        head: of a report.
        which: "effect" or "control".
    """
    effects = head.intervention.get(which)
    if not isinstance(effects, dict):
        return {}
    if head.intervention.get("measure") == "divergence":
        return dict(effects.get("divergence", {}))
    return dict(effects.get("logit_difference", {}).get("difference", {}))


def effect_bars(heads: Sequence[HeadContent], *, named: bool = True) -> go.Figure | None:
    """Effects of interventions beside their controls, with intervals; None where nothing was measured.

    Divergences are drawn as they are, changes of the logit difference with their sign, each on an axis of its own unit;
    so only heads that were decided by the same measure share a figure: the more frequent one.

    Args:
        heads: one line each.
        named: with the heads' names; without, what surrounds the figure has to say which they are.
    """
    measures = [
        str(head.intervention.get("measure")) for head in heads if effect_of(head, "effect").get("value") is not None
    ]
    if not measures:
        return None
    measure = Counter(sorted(measures)).most_common(1)[0][0]
    drawn = [head for head in heads if head.intervention.get("measure") == measure]
    figure = go.Figure()
    for which, color, symbol, shift in (
        ("effect", "#d55e00", "circle", -0.12),
        ("control", CONTROL, "diamond-open", 0.12),
    ):
        found = [effect_of(head, which) for head in drawn]
        there = [i for i, estimate in enumerate(found) if estimate.get("value") is not None]
        values = [found[i]["value"] for i in there]
        figure.add_scatter(
            x=values,
            y=[i + shift for i in there],
            mode="markers",
            name={"effect": "intervention", "control": "its control"}[which],
            marker={"color": color, "symbol": symbol, "size": 9},
            cliponaxis=False,
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [found[i]["interval"][1] - found[i]["value"] for i in there],
                "arrayminus": [found[i]["value"] - found[i]["interval"][0] for i in there],
                "color": color,
                "thickness": 1.5,
                "width": 4,
            },
            hovertemplate="%{x:.3f}<extra></extra>",
        )
    unit = "divergence of the predictions (nats a row)" if measure == "divergence" else "change of the logit difference"
    names = [
        html.escape(f"{head.layer}.{head.head}  {head.label}: {head.intervention.get('state')}") if named else ""
        for head in drawn
    ]
    return titled(
        figure,
        "Interventions beside their controls" if named else "",
        xaxis=axis(unit, rangemode="tozero", zeroline=True, zerolinecolor=CONTROL, zerolinewidth=1),
        yaxis=axis("", tickvals=list(range(len(drawn))), ticktext=names, range=[len(drawn) - 0.5, -0.5]),
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "font": {"color": INK},
            **({"y": -0.3, "yanchor": "top"} if named else {"y": 1.0, "yanchor": "bottom"}),
        },
        height=(160 if named else 104) + 2 * ROW * len(drawn),
        margin={"l": 210, "r": 20, "t": 40, "b": 90} if named else {"l": 8, "r": 12, "t": 30, "b": 44},
    )


def history_lines(content: HistoryContent, *, title: str = "When heads form") -> go.Figure:
    """Deciding scores of every head's final label over training, one panel a head, and its labels as they come."""
    last = content.checkpoints[-1].heads
    steps = [checkpoint.step for checkpoint in content.checkpoints]
    titles = [f"head {head.layer}.{head.head}: {html.escape(head.label)} at the end" for head in last]
    figure = make_subplots(
        rows=len(last), cols=1, shared_xaxes=True, vertical_spacing=0.3 / len(last), subplot_titles=titles
    )
    deciding = list(dict.fromkeys(e.score for head in last for e in head.evidence if e.condition is not None))
    for at, head in enumerate(last):
        names = [evidence.score for evidence in head.evidence if evidence.condition is not None]
        for name in names:
            color, dash = LINES[deciding.index(name) % len(LINES)]
            figure.add_scatter(
                x=steps,
                y=[_value(checkpoint.heads[at], name) for checkpoint in content.checkpoints],
                name=html.escape(name),
                mode="lines+markers",
                line={"color": color, "dash": dash, "width": 2},
                marker={"size": 6},
                legendgroup=name,
                showlegend=name not in {trace.legendgroup for trace in figure.data},
                customdata=[html.escape(checkpoint.heads[at].label) for checkpoint in content.checkpoints],
                hovertemplate=f"step %{{x:,}}: %{{customdata}}<br>{html.escape(name)} = %{{y:.3f}}<extra></extra>",
                row=at + 1,
                col=1,
            )
        for step, label in label_changes(content, at):
            figure.add_vline(x=step, line={"color": fade(CONTROL, 0.6), "width": 1}, row=at + 1, col=1)
            figure.add_annotation(
                x=step, y=1.0, text=html.escape(label), xanchor="left", yanchor="top", xshift=3, showarrow=False,
                row=at + 1, col=1, font={"size": 11, "color": QUIET},
            )  # fmt: skip
    figure.update_yaxes(**axis("score", range=[-0.03, 1.06]))
    figure.update_xaxes(**axis(""))
    figure.update_xaxes(title={"text": "optimiser steps", "font": {"size": 12, "color": QUIET}}, row=len(last), col=1)
    figure.update_annotations(font={"color": INK, "size": 12.5}, selector={"xref": "paper"})
    return titled(
        figure,
        title,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top", "font": {"color": INK}},
        height=120 + 190 * len(last),
        margin={"l": 60, "r": 20, "t": 64, "b": 90},
    )


def label_counts(content: ComparisonContent) -> go.Figure:
    """How many heads of every layer have each label: subjects and layers down, labels across."""
    rows = list(dict.fromkeys((count.subject, count.layer) for count in content.counts))
    labels = sorted({count.label for count in content.counts})
    table = np.zeros((len(rows), len(labels)))
    for count in content.counts:
        table[rows.index((count.subject, count.layer)), labels.index(count.label)] = count.heads
    names = [f"{subject}, layer {layer}" for subject, layer in rows]
    figure = go.Figure(
        go.Heatmap(
            z=table,
            x=list(range(len(labels))),
            y=list(range(len(rows))),
            text=[["" if n == 0 else f"{n:.0f}" for n in row] for row in table],
            texttemplate="%{text}",
            colorscale="Cividis",
            zmin=0,
            zmax=max(1.0, float(table.max())),
            xgap=2,
            ygap=2,
            showscale=False,
            customdata=[[[name, label] for label in labels] for name in names],
            hovertemplate="%{customdata[0]}: %{z} heads are %{customdata[1]}<extra></extra>",
        )
    )
    return titled(
        figure,
        "Labels by layer",
        xaxis=axis("", tickvals=list(range(len(labels))), ticktext=labels, side="top"),
        yaxis=axis("", tickvals=list(range(len(rows))), ticktext=names, autorange="reversed"),
        height=110 + ROW * len(rows),
        width=min(1040, 300 + 110 * len(labels)),
        margin={"l": 220, "r": 20, "t": 64, "b": 16},
    )


def label_changes(content: HistoryContent, at: int) -> list[tuple[int, str]]:
    """Steps at which a head's label changes, and what it becomes; the first checkpoint counts."""
    found: list[tuple[int, str]] = []
    for checkpoint in content.checkpoints:
        label = checkpoint.heads[at].label
        if not found or found[-1][1] != label:
            found.append((checkpoint.step, label))
    return found


def _is_share(heads: Sequence[HeadContent], name: str) -> bool:
    """Is a score between 0 and 1 for all heads, and measured for one; whole numbers (orders, periods) are none."""
    values = np.array([_value(head, name) for head in heads])
    known = values[np.isfinite(values)]
    number = name.rsplit(".", 1)[-1] in ("m", "k", "r", "period", "wavelength", "break")
    return not number and len(known) > 0 and bool((known >= 0).all() and (known <= 1).all())


def _value(head: HeadContent, name: str) -> float:
    estimate = head.scores.get(name)
    return np.nan if estimate is None or estimate.value is None else estimate.value
