"""One look for every figure: a fixed style per positional scheme and token kind, neutral lines, fixed colour scales.

Traces keep a contrast of at least 3 to 1 on white and on the dashboard's dark surface (a test computes it). Text,
grid and axis lines are drawn for white paper; the dashboard's stylesheet recolours those for its dark theme.
"""

from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.colors import get_colorscale, unlabel_rgb

INK, QUIET, RULE = "#1c2024", "#5d6770", "#dfe3e8"
TRUTH = "#d55e00"  # the true source of a copied token
FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"


@dataclass(frozen=True)
class SchemeStyle:
    """How a positional scheme is drawn everywhere: no two schemes share colour and dash, or colour and marker.

    Attributes:
        label: its name in print.
        color, dash, marker: of plotly.
    """

    label: str
    color: str
    dash: str
    marker: str


SCHEME_STYLES: dict[str, SchemeStyle] = {
    "rope": SchemeStyle("RoPE", "#0072b2", "solid", "circle"),
    "rope2d": SchemeStyle("2D-RoPE", "#d55e00", "solid", "square"),
    "auto2d": SchemeStyle("Auto-2D-RoPE", "#00916a", "solid", "diamond"),
    "rope+rope2d": SchemeStyle("H-RoPE", "#b5568f", "dash", "triangle-up"),
    "rope+nope": SchemeStyle("RNoPE", "#7165c9", "dash", "triangle-down"),
    "nope": SchemeStyle("NoPE", "#7d7d7d", "dot", "x"),
    "alibi": SchemeStyle("ALiBi", "#a87900", "dashdot", "star"),
    "periodic-rope": SchemeStyle("periodic RoPE", "#12878c", "longdash", "pentagon"),
    "partial-rope": SchemeStyle("partial RoPE", "#3a86c8", "dash", "hexagon"),
    "random-rope": SchemeStyle("random-frequency RoPE", "#0072b2", "dot", "cross"),
    "random-rope2d": SchemeStyle("random-frequency 2D-RoPE", "#d55e00", "dot", "star-diamond"),
    "local": SchemeStyle("local window", "#71820a", "longdashdot", "bowtie"),
    "learned": SchemeStyle("learned absolute", "#a0614a", "dash", "hourglass"),
    "sinusoidal": SchemeStyle("sinusoidal", "#c2405a", "dashdot", "star-square"),
    "periodic-sinusoidal": SchemeStyle("periodic sinusoidal", "#c2405a", "dot", "hexagram"),
}
_OTHER = SchemeStyle("other", "#7d7d7d", "longdash", "circle-open")


def scheme_style(scheme: str) -> SchemeStyle:
    """Return the fixed style of `scheme` ("rope2d", or "rope+nope" for layers that alternate)."""
    known = SCHEME_STYLES.get(scheme)
    if known:
        return known
    labels = [SCHEME_STYLES[part].label if part in SCHEME_STYLES else part for part in scheme.split("+")]
    return SchemeStyle(" + ".join(labels), _OTHER.color, _OTHER.dash, _OTHER.marker)


@dataclass(frozen=True)
class KindStyle:
    """How one kind of token is drawn; the shape says it as well as the colour."""

    label: str
    color: str
    marker: str


KIND_STYLES: dict[str, KindStyle] = {
    "prefix": KindStyle("prefix A", "#a87900", "triangle-up"),
    "source": KindStyle("source string", "#0072b2", "circle"),
    "separator": KindStyle("separator B1", "#d55e00", "square"),
    "delimiter": KindStyle("delimiter B2…", "#b5568f", "diamond"),
    "copy": KindStyle("copy", "#00916a", "circle-open"),
}

PALETTES = {"cividis": "Cividis", "viridis": "Viridis"}
_STOPS = 64


def weight_colorscale(palette: str, scale: str, *, stored: str = "weight") -> list[tuple[float, str]]:
    """Return plotly stops that colour an attention weight in 0..1 by its square root or by itself.

    The values stay what they are, so the hover and the colour bar read true weights; the stops are bent instead.

    Args:
        palette: "cividis" or "viridis".
        scale: "sqrt", where a weight of 0.01 already takes a tenth of the range, or "linear".
        stored: "weight" where the values are weights, "sqrt" where they are square roots (pooled 8-bit views).
    """
    colors = palette_rgb(palette, _STOPS)
    power = {"linear": 1.0, "sqrt": 2.0}[scale] / {"weight": 1.0, "sqrt": 2.0}[stored]
    fractions = [(i / (_STOPS - 1)) ** power for i in range(_STOPS)]
    return [(at, f"rgb({r},{g},{b})") for at, (r, g, b) in zip(fractions, colors, strict=True)]


def palette_rgb(palette: str, n: int) -> list[tuple[int, int, int]]:
    """Return `n` evenly spaced colours of a palette as red, green, blue in 0..255."""
    stops = [(at, hex_rgb(color)) for at, color in get_colorscale(PALETTES[palette])]
    picked: list[tuple[int, int, int]] = []
    for i in range(n):
        at = i / (n - 1)
        index = max(j for j, stop in enumerate(stops) if stop[0] <= at)
        (low, below), (high, above) = stops[index], stops[min(index + 1, len(stops) - 1)]
        part = (at - low) / (high - low) if high > low else 0.0
        r, g, b = (round(a + part * (b - a)) for a, b in zip(below, above, strict=True))
        picked.append((r, g, b))
    return picked


def hex_rgb(color: str) -> tuple[int, int, int]:
    """Return red, green, blue in 0..255 of "#rrggbb" or "rgb(r,g,b)"."""
    if color.startswith("#"):
        return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
    r, g, b = unlabel_rgb(color)
    return int(r), int(g), int(b)


def fade(color: str, alpha: float) -> str:
    """Return a colour with transparency, for bands."""
    r, g, b = hex_rgb(color)
    return f"rgba({r},{g},{b},{alpha})"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return the settings every axis shares."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 12, "color": QUIET}},
        "gridcolor": RULE,
        "linecolor": RULE,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": RULE,
        "tickfont": {"size": 11, "color": QUIET},
        "automargin": True,
        **more,
    }


def titled(figure: go.Figure, title: str, **more: Any) -> go.Figure:
    """Return a figure with a title, which says what is seen, and the common look; `more` goes to the layout.

    The layout is put together as a dict and not validated again: plotly's `update_layout` takes 20 ms for this.
    """
    layout = _merged(
        {key: value for key, value in figure.layout.to_plotly_json().items() if key != "template"},
        {
            "title": {
                "text": title,
                "font": {"size": 13.5, "color": INK},
                "x": 0,
                "xref": "container",
                "xanchor": "left",
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "pad": {"t": 4, "l": 4},
            },
            "font": {"family": FONT, "size": 12, "color": INK},
            "template": {},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 56, "r": 12, "t": 36, "b": 44},
            "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
            "legend": {"font": {"size": 11, "color": INK}, "orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
            "showlegend": False,
            **more,
        },
    )
    return go.Figure(figure.data, layout, _validate=False)


def _merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the entries of `more`, nested dicts merged."""
    nested = [key for key in more if isinstance(more[key], dict) and isinstance(base.get(key), dict)]
    return {**base, **more, **{key: _merged(base[key], more[key]) for key in nested}}


def empty_figure(message: str) -> go.Figure:
    """Return a figure that only says why there is nothing to see."""
    figure = go.Figure()
    figure.add_annotation(
        text=message, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"size": 13, "color": QUIET}
    )
    hidden = {"visible": False}
    return titled(figure, "", xaxis=hidden, yaxis=hidden, margin={"l": 8, "r": 8, "t": 8, "b": 8})
