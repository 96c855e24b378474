"""Heads in the space of their scores as a figure: where they lie, which fall together, and what the axes mean."""

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.curves import markup_id
from workbench.figures.heads import SHARE_COLORS
from workbench.figures.style import INK, QUIET, axis, empty_figure, fade, titled
from workbench.figures.tokens import markup

if TYPE_CHECKING:
    from analyses.space import ScoreSpace

_GREY = "#7d7d7d"
# Colour and marker of every kind of label; the marker alone tells them apart, too.
LABEL_STYLES: dict[str, tuple[str, str]] = {
    "locator": (SHARE_COLORS["locator"], "circle"),
    "sink": (SHARE_COLORS["sink"], "square"),
    "aligned": (SHARE_COLORS["aligned"], "diamond"),
    "induction": (SHARE_COLORS["induction"], "triangle-up"),
    "look-back": (SHARE_COLORS["look-back"], "triangle-left"),
    "duplicate": (SHARE_COLORS["duplicate"], "x"),
    "self": (SHARE_COLORS["self"], "star"),
    "modular": ("#12878c", "hexagon"),
    "diffuse": (SHARE_COLORS["diffuse"], "pentagon"),
    "mixed": (_GREY, "cross"),
    "unclear": ("#8f8f8f", "hourglass"),
}
_UNLABELLED = (_GREY, "circle-open")
_APART = (0.05, 0.045)  # least distance between names of heads, in shares of the axes
_COMPONENTS = (("component 1", "circle"), ("component 2", "diamond-open"))
_LINE = 15  # px a score


def head_space(space: "ScoreSpace", *, title: str | None = None) -> go.Figure:
    """Draw heads along the first two principal components, and beside it how every score goes with these.

    Left: a marker a head, its shape and colour the label's, and a thin line to the middle of its cluster. Right: the
    loadings of every score on both (its correlation with them, less where it hardly varies), on a fixed -1..1 axis.

    Args:
        space: of any number of runs.
        title: what is seen; by default how many clusters there are and whether labels agree with them.
    """
    n_components = min(2, space.coordinates.shape[1])
    if not n_components:
        return empty_figure("All heads have the same scores" if len(space.points) > 1 else "One head makes no picture")
    at = np.zeros((len(space.points), 2))
    at[:, :n_components] = space.coordinates[:, :2]
    figure = make_subplots(rows=1, cols=2, column_widths=[0.66, 0.34], horizontal_spacing=0.2)
    for trace in (*_clusters(space, at), *_heads(space, at)):
        figure.add_trace(trace, row=1, col=1)
    for trace in _loadings(space, n_components):
        figure.add_trace(trace, row=1, col=2)
    names = {"tickmode": "array", "tickvals": list(range(len(space.scores))), "ticktext": list(space.scores)}
    zero = {"zeroline": True, "zerolinecolor": QUIET, "zerolinewidth": 1}
    return titled(
        figure,
        title or finding(space),
        xaxis=axis(_component(space, 0), range=_padded(at[:, 0])),
        yaxis=axis(_component(space, 1), range=_padded(at[:, 1]), showticklabels=n_components > 1),
        xaxis2=axis(
            "loading (correlation with the component)", range=[-1.08, 1.08], tickvals=[-1, -0.5, 0, 0.5, 1], **zero
        ),
        yaxis2=axis("", range=[len(space.scores) - 0.4, -0.6], **names),
        showlegend=True,
        height=max(420, 130 + _LINE * len(space.scores)),
        margin={"l": 60, "r": 12, "t": 62, "b": 48},
    )


def finding(space: "ScoreSpace") -> str:
    """How heads fall together, in one sentence."""
    runs = len({point.run for point in space.points})
    heads = f"{len(space.points)} heads of {runs} runs" if runs > 1 else f"{len(space.points)} heads"
    if space.cluster is None:
        return f"{heads}: no clusters ({space.reason})"
    found = f"{heads} fall into {len(space.clusters)} clusters (silhouette {space.silhouette:.2f})"
    if space.agreement is None:
        return found
    return f"{found}; labels agree with them at an adjusted Rand index of {space.agreement:.2f}"


def _component(space: "ScoreSpace", number: int) -> str:
    if number >= space.coordinates.shape[1]:
        return ""
    return f"component {number + 1} ({space.explained[number]:.0%} of the variance)"


def _clusters(space: "ScoreSpace", at: np.ndarray) -> list[go.Scatter]:
    """Lines from the middle of every cluster to its heads, and its number there."""
    traces = []
    for cluster in space.clusters:
        members = list(cluster.members)
        middle = at[members].mean(0).tolist()
        spokes = [point for head in at[members].tolist() for point in (middle, head, [None, None])]
        marks = "<br>".join(f"{name} {mean:+.1f} deviations" for name, mean in cluster.marks)
        labels = ", ".join(f"{n} {markup(kind)}" for kind, n in cluster.labels.items())
        traces.append(
            go.Scatter(
                x=[x for x, _ in spokes], y=[y for _, y in spokes],
                mode="lines", line={"color": fade(QUIET, 0.45), "width": 1}, hoverinfo="skip", showlegend=False,
            )
        )  # fmt: skip
        traces.append(
            go.Scatter(
                x=middle[:1], y=middle[1:], mode="markers", marker={"symbol": "circle", "size": 5, "color": QUIET},
                showlegend=False,
                hovertemplate=(
                    f"<b>cluster {cluster.number + 1}</b>: {len(members)} heads of {cluster.runs} "
                    f"run{'s' * (cluster.runs > 1)}<br>{labels}<br>{marks}<extra></extra>"
                ),
            )
        )  # fmt: skip
    return traces


def _heads(space: "ScoreSpace", at: np.ndarray) -> list[go.Scatter]:
    """A trace a kind of label, in the order of the styles; heads have their names beside them where these fit."""
    kinds = [point.kind or "no label" for point in space.points]
    order = [kind for kind in LABEL_STYLES if kind in kinds] + sorted(set(kinds) - set(LABEL_STYLES))
    named = _named(at)
    traces = []
    for kind in order:
        members = [i for i, own in enumerate(kinds) if own == kind]
        color, symbol = LABEL_STYLES.get(kind, _UNLABELLED)
        traces.append(
            go.Scatter(
                x=at[members, 0],
                y=at[members, 1],
                mode="markers+text",
                name=markup(kind),
                text=[f"{space.points[i].layer}.{space.points[i].head}" if i in named else "" for i in members],
                textposition="top center",
                textfont={"size": 10, "color": INK},
                marker={"symbol": symbol, "size": 11, "color": color, "line": {"width": 1, "color": QUIET}},
                customdata=[_about(space, i) for i in members],
                ids=[str(i) for i in members],
                hovertemplate="%{customdata}<extra></extra>",
                cliponaxis=False,
            )
        )
    return traces


def _named(at: np.ndarray) -> set[int]:
    """Heads whose names do not lie on those of others."""
    spans = [np.diff(_padded(at[:, side]))[0] for side in (0, 1)]
    named: set[int] = set()
    for i, head in enumerate(at):
        apart = np.abs(at[sorted(named)] - head) / spans
        if (apart > _APART).any(1).all():
            named.add(i)
    return named


def _about(space: "ScoreSpace", i: int) -> str:
    point = space.points[i]
    strongest = np.argsort(-np.abs(space.standard[i]), kind="stable")[:4]
    scores = [f"{space.scores[m]} {space.standard[i, m]:+.1f} deviations" for m in strongest if not space.imputed[i, m]]
    where = "" if space.cluster is None else f"<br>cluster {int(space.cluster[i]) + 1}"
    name = f"<b>{markup_id(point.run)} {point.layer}.{point.head}</b>: {markup(point.label or 'no label')}{where}"
    return "<br>".join([name, *scores])


def _loadings(space: "ScoreSpace", n_components: int) -> list[go.Scatter]:
    """A marker a score for each of the components drawn."""
    return [
        go.Scatter(
            x=space.loadings[component],
            y=np.arange(len(space.scores)),
            mode="markers",
            name=name,
            marker={"symbol": symbol, "size": 8, "color": _GREY, "line": {"width": 1.3, "color": _GREY}},
            customdata=list(space.scores),
            hovertemplate=f"<b>%{{customdata}}</b><br>{name}: %{{x:+.2f}}<extra></extra>",
        )
        for component, (name, symbol) in enumerate(_COMPONENTS[:n_components])
    ]


def _padded(values: np.ndarray) -> list[float]:
    low, high = float(values.min()), float(values.max())
    pad = max(0.5, 0.1 * (high - low))
    return [low - pad, high + pad]
