"""Labels of hand-built heads under noise on their weights."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import QUIET, axis, titled

if TYPE_CHECKING:
    from analyses.noise import NoiseCurve

_RIGHT, _WRONG = "#0072b2", "#d55e00"
_COLUMNS = 4
_PANEL = 150  # px


def label_noise(curves: Mapping[str, "NoiseCurve"]) -> go.Figure:
    """Share of right labels against noise, one panel a construction; below, labels called certain that are wrong.

    Args:
        curves: by construction; the noise is relative to each weight matrix's root mean square.
    """
    names = list(curves)
    rows = -(-len(names) // _COLUMNS)
    figure = make_subplots(
        rows=rows,
        cols=_COLUMNS,
        shared_xaxes=True,
        shared_yaxes=True,
        subplot_titles=names,
        horizontal_spacing=0.03,
        vertical_spacing=0.09,
    )
    for index, (name, curve) in enumerate(curves.items()):
        at = {"row": index // _COLUMNS + 1, "col": index % _COLUMNS + 1}
        right = [estimate.value for estimate in curve.accuracy]
        for label, values, color, dash, symbol in (
            ("right labels", right, _RIGHT, "solid", "circle"),
            ("wrong ones called certain", curve.surely_wrong.tolist(), _WRONG, "dot", "x"),
        ):
            figure.add_scatter(
                x=curve.levels.tolist(),
                y=values,
                name=label,
                legendgroup=label,
                showlegend=index == 0,
                mode="lines+markers",
                line={"color": color, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 6},
                hovertemplate=f"{name}<br>noise %{{x:g}}: %{{y:.0%}} {label}<extra></extra>",
                **at,
            )
    figure.update_xaxes(**axis("", type="log", tickvals=[1e-4, 1e-2, 1], ticktext=["1e-4", ".01", "1"]))
    figure.update_yaxes(**axis("", range=[-0.06, 1.06], tickvals=[0, 0.5, 1], ticktext=["0", "½", "1"]))
    figure.update_annotations(font={"size": 12})
    title = {"text": "noise / rms of the weights", "font": {"color": QUIET, "size": 11}}
    for column in range(1, _COLUMNS + 1):
        figure.update_xaxes(title=title, row=rows, col=column)
    return titled(
        figure,
        "Labels under Gaussian noise on every weight matrix: share of heads",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top"},
        width=1000,
        height=110 + _PANEL * rows,
        margin={"l": 44, "r": 12, "t": 64, "b": 84},
        paper_bgcolor="#ffffff",
    )
