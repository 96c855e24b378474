"""Logit differences along a copy: without an intervention, with it, with its control, and the change.

Shape letters: N strings, R scored rows.
"""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from workbench.figures.style import QUIET, RULE, axis, fade, titled

BASELINE, CHANGED, CONTROL = ("#5d6f7f", "solid"), ("#d55e00", "solid"), ("#0082c8", "dot")
_MARKED_UP_TO = 60


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


def logit_differences(margins: Margins) -> go.Figure:
    """Draw the logit difference along the copy, and below it how it changed; what is seen is said beside.

    A token with a logit difference below 0 is copied wrongly.
    """
    index = np.arange(len(margins.baseline))
    mode = "lines+markers" if len(index) <= _MARKED_UP_TO else "lines"
    figure = go.Figure()
    lines = [(margins.baseline, "without", BASELINE), (margins.changed, "with the intervention", CHANGED)]
    if margins.control is not None:
        lines.append((margins.control, "with its control", CONTROL))
    for values, name, (color, dash) in lines:
        figure.add_trace(_line(index, values, name, color, dash, mode))
    if margins.low is not None and margins.high is not None:
        band = np.concatenate([margins.high, margins.low[::-1]])
        figure.add_trace(
            go.Scatter(
                x=np.concatenate([index, index[::-1]]), y=band, fill="toself", fillcolor=fade(CHANGED[0], 0.25),
                line={"width": 0}, mode="lines", hoverinfo="skip", name="95 % interval", yaxis="y2", showlegend=False,
            )
        )  # fmt: skip
    changed = _line(index, margins.difference, "change", CHANGED[0], "solid", mode)
    changed.update(yaxis="y2", showlegend=False)
    figure.add_trace(changed)
    zero = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
    line = {"color": QUIET, "width": 1, "dash": "dot"}
    return titled(
        figure,
        "",
        xaxis=axis("index of the copied token (the last one is EOS)", anchor="y2", range=[-0.6, len(index) - 0.4]),
        yaxis=axis("logit difference", domain=[0.46, 1], gridcolor=RULE),
        yaxis2=axis("change", domain=[0, 0.36], gridcolor=RULE),
        shapes=[{**zero, "yref": "y", "line": line}, {**zero, "yref": "y2", "line": line}],
        showlegend=True,
        hovermode="x unified",
        margin={"l": 60, "r": 12, "t": 28, "b": 46},
    )


def _line(index: np.ndarray, values: np.ndarray, name: str, color: str, dash: str, mode: str) -> go.Scatter:
    return go.Scatter(
        x=index,
        y=values,
        mode=mode,
        name=name,
        line={"color": color, "dash": dash, "width": 1.6},
        marker={"size": 4},
        hovertemplate="%{y:.3f}",
    )
