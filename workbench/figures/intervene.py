"""Logit differences along a copy: without an intervention, with it, with its control, and the change.

Of two subjects: both, and what changes in the first minus what changes in the second.

Shape letters: N strings, R scored rows, S rows that two copies share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from workbench.figures.difference import FIRST, SECOND
from workbench.figures.style import INK, QUIET, RULE, axis, fade, titled

BASELINE, CHANGED, CONTROL = ("#5d6f7f", "solid"), ("#d55e00", "solid"), ("#0082c8", "dot")
_MARKED_UP_TO = 60
_LEAST = 0.05  # changes below this are not drawn larger than they are
_HOVER = {"showlegend": True, "hovermode": "x unified", "hoversubplots": "axis"}
_INDEX = "index of the copied token (the last one is EOS)"
_ZERO = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
_PANELS = ((0.73, 1.0), (0.385, 0.655), (0.0, 0.31))  # of the first, of the second, of the difference


@dataclass(frozen=True)
class Margins:
    """Logit of the right token minus the largest other one, by index in the copy, mean over strings.

    Attributes:
        baseline, changed: float[R] without and with the intervention.
        control: float[R] with its control, None where it has none.
        low, high: float[R] 95 % interval of changed minus baseline, paired by string; None for one string.
        strings: N.
    """

    baseline: Float[np.ndarray, "R"]
    changed: Float[np.ndarray, "R"]
    control: Float[np.ndarray, "R"] | None
    low: Float[np.ndarray, "R"] | None
    high: Float[np.ndarray, "R"] | None
    strings: int

    @property
    def difference(self) -> Float[np.ndarray, "R"]:
        """Changed minus baseline."""
        return self.changed - self.baseline


@dataclass(frozen=True)
class Contrast:
    """What an intervention changes in the first of two subjects minus what it changes in the second.

    Attributes:
        values: float[S] by index in the copy, mean over strings.
        low, high: float[S] 95 % interval, paired by string; None for one string.
    """

    values: Float[np.ndarray, "S"]
    low: Float[np.ndarray, "S"] | None
    high: Float[np.ndarray, "S"] | None

    @property
    def reach(self) -> float:
        """Where a symmetric scale ends."""
        parts = [part for part in (self.values, self.low, self.high) if part is not None]
        return max(_LEAST, *(float(np.abs(part).max(initial=0)) for part in parts)) * 1.06


def logit_differences(margins: Margins) -> go.Figure:
    """Draw the logit difference along the copy, and below it how it changed; what is seen is said beside.

    A token with a logit difference below 0 is copied wrongly.
    """
    index = np.arange(len(margins.baseline))
    figure = go.Figure(_lines(margins))
    if margins.low is not None and margins.high is not None:
        figure.add_trace(_band(index, margins.low, margins.high, CHANGED[0], "y2"))
    figure.add_trace(_line(margins.difference, "change", (CHANGED[0], "solid"), axis="y2", showlegend=False))
    largest = max(
        float(np.abs(part).max(initial=0)) for part in (margins.difference, margins.low, margins.high)
        if part is not None
    )  # fmt: skip
    flat = {} if largest >= _LEAST else {"range": [-_LEAST, _LEAST]}
    return titled(
        figure,
        "",
        xaxis=axis(_INDEX, anchor="y2", range=[-0.6, len(index) - 0.4]),
        yaxis=axis("logit difference", domain=[0.46, 1], gridcolor=RULE),
        yaxis2=axis("change", domain=[0, 0.36], gridcolor=RULE, **flat),
        shapes=_zeros("y", "y2"),
        **_HOVER,
        margin={"l": 60, "r": 12, "t": 28, "b": 46},
    )


def compared_differences(first: Margins, second: Margins, contrast: Contrast, called: Sequence[str]) -> go.Figure:
    """Draw the logit differences of two subjects on one scale, and below them what changes in the first minus that.

    All three share the axis of positions, its zoom and the cursor.

    Args:
        first: one subject.
        second: the other.
        contrast: the difference of the changes.
        called: names of both.
    """
    figure = go.Figure([*_lines(first, "first, "), *_lines(second, "second, ", axis="y2", showlegend=False)])
    values, at = contrast.values, np.arange(len(contrast.values))
    width = 0.8 if len(values) <= _MARKED_UP_TO else 1
    sides = ((values >= 0, FIRST, "second hurt more"), (values < 0, SECOND, "first hurt more"))
    for held, color, name in sides:
        figure.add_trace(
            go.Bar(
                x=at[held], y=values[held], marker={"color": color, "line": {"width": 0}}, width=width, name=name,
                yaxis="y3", hovertemplate="difference of the changes: %{y:+.3f}<extra></extra>",
            )
        )  # fmt: skip
    if contrast.low is not None and contrast.high is not None:
        figure.add_trace(_band(at, contrast.low, contrast.high, QUIET, "y3"))
    parts = [p for m in (first, second) for p in (m.baseline, m.changed, m.control) if p is not None]
    low, high = min(0.0, *(float(p.min()) for p in parts)), max(0.0, *(float(p.max()) for p in parts))
    room = 0.06 * (high - low)
    shared = {"range": [low - room, high + room], "gridcolor": RULE}
    names = [f"<b>First</b>: {escape(called[0])}", f"<b>Second</b>: {escape(called[1])}"]
    titles = (*names, "<b>Difference</b>: change in the first − change in the second")
    count = max(len(first.baseline), len(second.baseline))
    return titled(
        figure,
        "",
        xaxis=axis(_INDEX, anchor="y3", range=[-0.6, count - 0.4]),
        yaxis=axis("logit difference", domain=_PANELS[0], **shared),
        yaxis2=axis("logit difference", domain=_PANELS[1], matches="y", **shared),
        yaxis3=axis("first − second", domain=_PANELS[2], gridcolor=RULE, range=[-contrast.reach, contrast.reach]),
        annotations=[_panel_title(said, top) for said, (_, top) in zip(titles, _PANELS, strict=True)],
        shapes=_zeros("y", "y2", "y3"),
        legend={"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom", "font": {"size": 11, "color": INK}},
        **_HOVER,
        barmode="overlay",
        margin={"l": 60, "r": 12, "t": 54, "b": 46},
    )


def _lines(margins: Margins, side: str = "", **more: Any) -> list[go.Scatter]:
    """The logit differences of one subject."""
    lines = [(margins.baseline, "without", BASELINE), (margins.changed, "with the intervention", CHANGED)]
    if margins.control is not None:
        lines.append((margins.control, "with its control", CONTROL))
    return [_line(values, name, look, side, **more) for values, name, look in lines]


def _line(
    values: np.ndarray, name: str, look: tuple[str, str], side: str = "", *, axis: str = "y", showlegend: bool = True
) -> go.Scatter:
    color, dash = look
    return go.Scatter(
        x=np.arange(len(values)),
        y=values,
        mode="lines+markers" if len(values) <= _MARKED_UP_TO else "lines",
        name=name,
        yaxis=axis,
        showlegend=showlegend,
        line={"color": color, "dash": dash, "width": 1.6},
        marker={"size": 4},
        hovertemplate=f"{side}{name}: %{{y:.3f}}<extra></extra>",
    )


def _band(index: np.ndarray, low: np.ndarray, high: np.ndarray, color: str, axis: str) -> go.Scatter:
    return go.Scatter(
        x=np.concatenate([index, index[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself",
        fillcolor=fade(color, 0.25), line={"width": 0}, mode="lines", hoverinfo="skip", name="95 % interval",
        yaxis=axis, showlegend=False,
    )  # fmt: skip


def _zeros(*axes: str) -> list[dict[str, Any]]:
    return [{**_ZERO, "yref": axis, "line": {"color": QUIET, "width": 1, "dash": "dot"}} for axis in axes]


def _panel_title(said: str, top: float) -> dict[str, Any]:
    return {
        "text": said, "x": 0, "y": top, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "showarrow": False, "font": {"size": 12, "color": INK},
    }  # fmt: skip
