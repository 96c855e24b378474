"""Probes as a figure: what can be read where, on lengths inside the range and beyond it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import INK, QUIET, axis, titled

if TYPE_CHECKING:
    from analyses.probes import ProbeResults

_ROWS = {"copy": "copy rows", "source": "source rows", "both": "source and copy rows"}
_GAP = 0.3  # of a cell, between kinds of rows
_LINES = (30, 18)  # px a site, and where there are many
_MANY = 30


def probe_map(results: "ProbeResults", *, title: str | None = None) -> go.Figure:
    """Draw R^2 of every site (down, as a model computes them) and target (across), colours fixed to 0..1.

    Values up to 0 are drawn and written as "≤ 0": nothing is read there. One in brackets is not above that of shuffled
    labels and 0 throughout its interval.

    Args:
        results: of one kind of probe.
        title: what is seen; by default where the index of a copied token is read best.
    """
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=_panels(results))
    columns, edges, groups = _columns(results)
    n_sites = len(results.sites)
    for panel, regime in enumerate(("inside", "beyond"), start=1):
        figure.add_trace(_cells(results, regime, columns, edges), row=1, col=panel)
        for rows, middle in groups.items():
            figure.add_annotation(
                text=_ROWS[rows], x=middle, y=-0.75, xref=f"x{panel}", yref="y", showarrow=False,
                font={"size": 11, "color": QUIET},
            )  # fmt: skip
    for heading in figure.layout.annotations[:2]:
        heading.update(font={"size": 12, "color": INK}, yshift=16)
    middles = (edges[:-1] + edges[1:]) / 2
    ticks = {
        "tickmode": "array",
        "tickvals": [float(middles[at]) for at, column in enumerate(columns) if column is not None],
        "ticktext": [
            results.targets[column].name.replace(" to ", "<br>to ") for column in columns if column is not None
        ],
        "tickangle": 0,
        "showgrid": False,
        "range": [edges[0], edges[-1]],
    }
    sites = {
        "tickmode": "array",
        "tickvals": list(range(n_sites)),
        "ticktext": [site.name for site in results.sites],
        "showgrid": False,
        "range": [n_sites - 0.5, -1.1],
    }
    return titled(
        figure,
        title or finding(results),
        xaxis=axis("", **ticks),
        xaxis2=axis("", **ticks),
        yaxis=axis("", **sites),
        yaxis2={**axis("", **sites), "showticklabels": False, "ticks": ""},
        height=150 + _LINES[n_sites > _MANY] * n_sites,
        margin={"l": 80, "r": 12, "t": 64, "b": 48},
    )


def finding(results: "ProbeResults") -> str:
    """Where the index of a copied token is read best, in one sentence."""
    at = next(k for k, target in enumerate(results.targets) if target.rows == "copy" and "index" in target.names)
    inside, beyond = results.inside, results.beyond
    read = inside.low[:, at] > np.maximum(inside.chance[:, at], 0)
    if not read.any():
        return f"No site tells which token is copied ({results.kind} probe)"
    best = int(np.where(read, inside.value[:, at], -np.inf).argmax())
    far = f"{beyond.value[best, at]:.2f} on longer ones" if beyond.value[best, at] > 0 else "not at all on longer ones"
    return (
        f"Which token is copied is read best at {results.sites[best].name}: "
        f"R² {inside.value[best, at]:.2f} on held-out lengths, {far} ({results.kind} probe)"
    )


def _panels(results: "ProbeResults") -> list[str]:
    """What is tested on what."""
    groups, half = results.groups, len(results.groups) // 2
    return [
        f"<b>inside the range:</b> each of the lengths {_span(groups[1:-1])} held out",
        f"<b>beyond it:</b> {_span(groups[:half])} teach, {_span(groups[half:])} test",
    ]


def _span(groups: Sequence[tuple[int, ...]]) -> str:
    first, last = groups[0][0], groups[-1][-1]
    return f"{first}–{last}" if first < last else f"{first}"


def _columns(results: "ProbeResults") -> tuple[list[int | None], np.ndarray, dict[str, float]]:
    """Targets from left to right with a gap (None) between kinds of rows, edges, and the middle of each kind."""
    columns: list[int | None] = []
    for rows in _ROWS:
        columns += [None] if columns else []
        columns += [k for k, target in enumerate(results.targets) if target.rows == rows]
    edges = np.cumsum([0.0] + [_GAP if column is None else 1.0 for column in columns])
    middles = (edges[:-1] + edges[1:]) / 2
    groups: dict[str, list[float]] = {}
    for column, middle in zip(columns, middles.tolist(), strict=True):
        if column is not None:
            groups.setdefault(results.targets[column].rows, []).append(middle)
    return columns, edges, {rows: float(np.mean(at)) for rows, at in groups.items()}


def _cells(results: "ProbeResults", regime: str, columns: list[int | None], edges: np.ndarray) -> go.Heatmap:
    found = results.regime(regime)
    z = np.full((len(results.sites), len(columns)), np.nan)
    text = np.full(z.shape, "", dtype=object)
    hover = np.full(z.shape, "", dtype=object)
    for at, column in enumerate(columns):
        if column is None:
            continue
        z[:, at] = found.value[:, column]
        target = results.targets[column]
        also = f"<br>and so {_together(target.also)}" if target.also else ""
        for s, site in enumerate(results.sites):
            value, low, high = (float(part[s, column]) for part in (found.value, found.low, found.high))
            chance = float(found.chance[s, column])
            text[s, at] = _written(value, low > max(chance, 0))
            hover[s, at] = (
                f"<b>{site.name}</b>: {target.name}, {_ROWS[target.rows]}{also}<br>R² {value:.3f} "
                f"[{low:.3f}, {high:.3f}]<br>shuffled labels {chance:.3f}<br>"
                f"{int(found.rows[s, column]):,} rows of {int(found.strings[s, column])} strings"
            )
    return go.Heatmap(
        z=z,
        x=edges,
        y=np.arange(len(results.sites) + 1) - 0.5,
        text=text,
        texttemplate="%{text}",
        textfont={"size": 11},
        customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        zmin=0,
        zmax=1,
        colorscale="Cividis",
        showscale=regime == "beyond",
        colorbar=_bar(),
        xgap=2,
        ygap=2,
    )


def _bar() -> dict[str, Any]:
    return {
        "title": {"text": "R²", "side": "right", "font": {"size": 11, "color": QUIET}},
        "thickness": 10,
        "outlinewidth": 0,
        "tickvals": [0, 0.5, 1],
        "ticktext": ["≤ 0", "0.5", "1"],
        "tickfont": {"size": 10, "color": QUIET},
        "x": 1.02,
        "xpad": 4,
    }


def _written(value: float, sure: bool) -> str:
    if value < 0.005:
        return "≤ 0"
    return f"{value:.2f}" if sure else f"({value:.2f})"


def _together(names: Sequence[str]) -> str:
    """Names of targets as one text, with what distances begin with said once."""
    distances = [name.removeprefix("distance to ") for name in names if name.startswith("distance to ")]
    others = [name for name in names if not name.startswith("distance to ")]
    return ", ".join([*others, *([f"distance to {', '.join(distances)}"] if distances else [])])
