"""What coordinates do for copying: offsets against spacing, the column against its bound, and both in a sentence."""

from math import ceil, inf, isfinite

import numpy as np
import plotly.graph_objects as go

from analyses.collisions import NEEDED, Collisions
from analyses.coordinates import ENDS, Alignment, RuleFit
from analyses.saturation import HALF, Saturation, column_after
from workbench.figures.curves import thin
from workbench.figures.style import INK, QUIET, TRUTH, axis, fade, titled
from workbench.figures.tokens import markup, visible

_BLUE, _GREEN = "#0072b2", "#00916a"
_CLASSES = ("#b5568f", "#a87900", "#7165c9", "#12878c")  # of tokens; more than these are not drawn one by one
_MARGIN = {"l": 60, "r": 12, "t": 58, "b": 44}
_REACH = 4  # multiples of the string's length that its expected column is drawn for, at most
_POINTS = 600


def query_offsets(alignment: Alignment, *, title: str) -> go.Figure:
    """Draw query column minus source column over k, in the band in which the right key is the nearest one.

    Args:
        alignment: of one string.
        title: what is seen.
    """
    k, unit = np.arange(len(alignment.offset)), unit_of(alignment)
    spacing = np.where(np.isfinite(alignment.spacing), alignment.spacing, 0.0)
    kept = thin(k, spacing, _POINTS)[0]
    low, high = alignment.constant - spacing / 2, alignment.constant + spacing / 2
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=np.concatenate([kept, kept[::-1]]), y=np.concatenate([high[kept], low[kept][::-1]]), mode="lines",
            line={"width": 0}, fill="toself", fillcolor=fade(_GREEN, 0.18), hoverinfo="skip",
            name="± ½ spacing",
        )
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=[0, len(k) - 1], y=[alignment.constant] * 2, mode="lines", hoverinfo="skip",
            line={"color": QUIET, "dash": "dot", "width": 1.2}, name="constant",
        )
    )  # fmt: skip
    drawn = thin(k[1:], alignment.offset[1:], _POINTS)[0]
    figure.add_trace(
        go.Scatter(
            x=drawn, y=alignment.offset[drawn], mode="lines+markers" if len(drawn) <= 80 else "lines",
            line={"color": _BLUE, "width": 2}, marker={"size": 4}, name="query − source",
            customdata=alignment.misaligned[drawn],
            hovertemplate=f"k = %{{x}}<br>%{{y:.4f}} {unit}, "
            "%{customdata:.3f} tokens off<extra></extra>",
        )
    )  # fmt: skip
    shown = np.concatenate([alignment.offset[1:], low, high])
    pad = max(0.08 * float(np.ptp(shown)), 1e-3)
    bottom, top = float(shown.min()) - pad, float(shown.max()) + pad
    first = float(alignment.offset[0])
    if bottom <= first <= top:
        figure.add_trace(
            go.Scatter(
                x=[0], y=[first], mode="markers", marker={"symbol": "diamond-open", "size": 9, "color": TRUTH},
                name="first query", hovertemplate="first query, on the delimiter<br>%{y:.4f}<extra></extra>",
            )
        )  # fmt: skip
    else:
        text = f"{'↑' if first > top else '↓'} first query, on the delimiter: {first:.2f}"
        figure.add_annotation(
            text=text, x=0, y=1 if first > top else 0, yref="paper", xanchor="left",
            yanchor="top" if first > top else "bottom", showarrow=False, font={"size": 11, "color": TRUTH},
        )  # fmt: skip
    return titled(
        figure,
        title,
        xaxis=axis("copied token k (the last is EOS)", range=[-0.5, len(k) - 0.5]),
        yaxis=axis(f"query − source ({unit})", range=[bottom, top]),
        showlegend=True,
        margin=_MARGIN,
    )


def column_bound(saturation: Saturation, *, title: str) -> go.Figure:
    """Draw the source's columns over the string, what is expected of longer ones, and the bound v / (1 - u).

    Args:
        saturation: of one string.
        title: what is seen.
    """
    n, start = len(saturation.columns) - 1, float(saturation.columns[0])
    slowest = max((token.counts_to for token in saturation.classes), default=inf)
    horizon = max(n, min(_REACH * n, ceil(3 * slowest) if isfinite(slowest) else 0))
    lengths = np.unique(np.linspace(0, horizon, _POINTS).round().astype(int))
    figure = go.Figure()
    curves = [column_after(token.u, token.v, start, lengths) for token in saturation.classes]
    ends = [float(curve[-1]) for curve in curves[: len(_CLASSES)]]
    highest = max(saturation.bound, float(saturation.columns.max()), *ends)
    ceiling = 1.08 * highest if highest < horizon else 1.02 * (start + horizon)
    counted = lengths[start + lengths <= ceiling]
    figure.add_trace(_line(counted, start + counted, "one column a token", QUIET, "dot", 1.2))
    for token, expected, color in zip(saturation.classes, curves, _CLASSES, strict=False):
        figure.add_trace(_line(lengths, expected, f"expected of {markup(token.name)} alone", color, "dash", 1.4))
    x, y = thin(np.arange(n + 1), saturation.columns, _POINTS)
    figure.add_trace(_line(x, y, "this string", _BLUE, "solid", 2.6))
    if saturation.bound < ceiling:
        figure.add_hline(y=saturation.bound, line={"color": TRUTH, "dash": "dashdot", "width": 1.4})
        where = {"x": 1, "xref": "paper", "y": saturation.bound, "xanchor": "right", "yanchor": "bottom"}
        text = f"bound v / (1 − u) = {saturation.bound:.0f}"
    else:
        where = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "xanchor": "left", "yanchor": "top"}
        text = f"bound v / (1 − u): {'none' if saturation.bound == inf else f'{saturation.bound:,.0f}, above'}"
    figure.add_annotation(text=text, showarrow=False, font={"size": 11, "color": TRUTH}, **where)
    half = saturation.half_expected if saturation.half_at is None else saturation.half_at
    if half is not None and half <= horizon:
        figure.add_vline(x=half, line={"color": QUIET, "dash": "dot", "width": 1})
        figure.add_annotation(
            text=f"next column < {HALF:g} away", x=half, y=0, yref="paper", xanchor="left", yanchor="bottom",
            xshift=4, showarrow=False, font={"size": 11, "color": INK},
        )  # fmt: skip
    return titled(
        figure,
        title,
        xaxis=axis("token of the source string", range=[0, horizon]),
        yaxis=axis("column", range=[0, ceiling]),
        showlegend=True,
        margin=_MARGIN,
    )


def alignment_finding(alignment: Alignment) -> str:
    """Say whether one constant turns every query back to its source."""
    found = np.abs(alignment.misaligned[1:])
    worst, constant = alignment.worst, f"{alignment.constant:.2f} {unit_of(alignment)}".replace("-", "−")
    if worst == 0:
        said = f"Aligned: every query stands {constant} from its source"
    elif worst < HALF:
        said = f"Aligned: one constant, {constant}, turns every query back to within {worst:.2f} tokens of its source"
    else:
        at = int(np.flatnonzero(found >= HALF)[0]) + 1
        off = f"{worst:.1f} tokens" if isfinite(worst) else "all of them"
        said = f"Misaligned: turned back by {constant}, a wrong key is nearest from k = {at} on; off by up to {off}"
    first = abs(float(alignment.misaligned[0]))
    if first >= HALF and first > worst:
        off = f"{first:.1f} tokens" if isfinite(first) else "far"
        said += f". The first query, on the delimiter, is {off} off: only its own token can tell where to look"
    return said + "."


def saturation_finding(saturation: Saturation) -> str:
    """Say how near the column is to its bound, and from which length on columns are less than HALF apart."""
    n = len(saturation.columns) - 1
    if saturation.bound == inf:
        return "No token's gate is below 1: the column has no bound."
    said = f"After {n:,} tokens the column is at {saturation.reached:.0%} of its bound of {saturation.bound:,.0f}"
    if saturation.half_at is not None:
        return f"{said}; from token {saturation.half_at:,} on the next column is less than half of one away."
    if saturation.half_expected is None:
        return f"{said}."
    return f"{said}; the next column is expected less than half of one away from token {saturation.half_expected:,} on."


def collision_finding(collisions: Collisions, layer: int) -> str:
    """Say what the best head resolves and whether the string's columns are further apart."""
    head = f"Head {layer}.{collisions.head}"
    if collisions.resolution == inf:
        return f"No head can give the right column {NEEDED:g} logit more than any other: the columns say too little."
    said = f"{head} tells columns apart that are {collisions.resolution:.3f} or more apart ({NEEDED:g} logit)"
    nearest = float(collisions.nearest[-1])
    if collisions.first is None:
        return f"{said}; the nearest two of the source are {nearest:.3f} apart, so none collide."
    pairs = int(collisions.pairs[-1])
    counted = f"{pairs:,} pair{'' if pairs == 1 else 's'} of source columns {'is' if pairs == 1 else 'are'} nearer"
    free = collisions.lengths[collisions.pairs == 0]
    return f"{said}; {counted}, none in its first {free[-1]:,} tokens." if len(free) else f"{said}; {counted}."


def gap_finding(collisions: Collisions, layer: int) -> str:
    """Say by how much the source really beats its neighbours; "" where scores were not given."""
    if collisions.gap is None or len(collisions.gap) < 3:
        return ""
    inside = collisions.gap[1:-1]  # the first query stands on the delimiter, the last one asks for EOS
    first, last = (f"{float(np.median(part)):.1f}".replace("-", "−") for part in (inside[:ENDS], inside[-ENDS:]))
    return (
        f"Measured in head {layer}.{collisions.located_by}, whatever the tokens: the source's score is {first} logits "
        f"above the better of its neighbours at first and {last} at last (medians of up to {ENDS} tokens)."
    )


def fit_finding(fit: RuleFit, names: list[str]) -> str:
    """Say how far rows and columns are those of the rule, and where rows start; `names` are those of the tokens."""
    parts = [
        f"{name} fit the rule with R² {axis_fit.r2:.3f}"
        for name, axis_fit in (("Rows", fit.row), ("columns", fit.column))
        if axis_fit is not None
    ]
    said = " and ".join(parts) or "Neither rows nor columns change"
    said += "" if fit.row else "; there is one row at most, so rows have no fit"
    said = said[0].upper() + said[1:]
    at = [f"{i} ({visible(names[i])})" for i in fit.starts.tolist()]
    listed = ", ".join(at[:6]) + (f" and {len(at) - 6} more" if len(at) > 6 else "")
    where = f"rows start at token {listed}" if at else "no token starts a row"
    rule = [f"{i} ({visible(names[i])})" for i in fit.by_rule.tolist()[:6]]
    return f"{said}; {where}; by rule at {', '.join(rule) or 'none'}."


def unit_of(alignment: Alignment) -> str:
    """What offsets are measured in: columns, or positions where tokens stand on a line."""
    return "positions" if alignment.row_offset is None else "columns"


def _line(x: np.ndarray, y: np.ndarray, name: str, color: str, dash: str, width: float) -> go.Scatter:
    return go.Scatter(
        x=x, y=y, mode="lines", name=name, line={"color": color, "dash": dash, "width": width},
        hovertemplate="token %{x}<br>column %{y:.2f}<extra>%{fullData.name}</extra>",
    )  # fmt: skip
