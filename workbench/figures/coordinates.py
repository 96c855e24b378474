"""Where a layer's positional scheme puts the tokens: the path through (column, row), and learned steps.

Shape letters: T tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as html_escape

import numpy as np
import plotly.graph_objects as go

from workbench.figures.curves import thin
from workbench.figures.style import INK, KIND_STYLES, QUIET, axis, fade, titled
from workbench.figures.tokens import axis_ticks, markup

_LABELLED = 120
_DRAWN = 1500
_ANCHORS = ("prefix", "separator", "delimiter")
_SECOND = "#7d7d7d"  # readable on white and on dark


@dataclass(frozen=True)
class TokenPath:
    """Tokens and where they stand.

    Attributes:
        names: printable name of every token, T of them.
        kinds: a key of KIND_STYLES for every token.
        rows, columns: Float[T].
    """

    names: Sequence[str]
    kinds: Sequence[str]
    rows: np.ndarray
    columns: np.ndarray

    @property
    def landmarks(self) -> list[int]:
        """Positions that get a label first: the separator, then the first token of every other kind."""
        first = {kind: position for position, kind in reversed(list(enumerate(self.kinds)))}
        return sorted(first.values(), key=lambda position: (self.kinds[position] != "separator", position))

    def drawn(self, *values: np.ndarray) -> np.ndarray:
        """Return the positions to draw: of a long string only its anchors and what gives each of `values` its shape."""
        index = np.arange(len(self.names))
        if len(index) <= _DRAWN:
            return index
        kept = [index[np.isin(self.kinds, _ANCHORS)], *(thin(index, column, _DRAWN)[0] for column in values)]
        return np.unique(np.concatenate(kept))


def coordinate_path(
    path: TokenPath, *, title: str, column_name: str, row_name: str, beside: TokenPath | None = None
) -> go.Figure:
    """Draw tokens at (column, row), rows downwards as text is written, joined in reading order.

    Args:
        path: the tokens.
        title: what is seen.
        column_name: title of the x axis.
        row_name: title of the y axis.
        beside: tokens drawn in a figure next to this one; both get the same ranges.
    """
    drawn = path.drawn(path.columns, path.rows)
    figure = go.Figure(
        go.Scatter(
            x=path.columns[drawn], y=path.rows[drawn], mode="lines", line={"color": fade(QUIET, 0.45), "width": 1},
            hoverinfo="skip", showlegend=False,
        )
    )  # fmt: skip
    _add_kinds(figure, path, drawn, path.columns, path.rows, "column %{x:.2f}, row %{y:.2f}")
    both = [path, beside or path]
    low, high = _padded(np.concatenate([p.rows for p in both]), 0.35, share=0.15)  # room for names above markers
    return titled(
        figure,
        title,
        xaxis=axis(column_name, range=_padded(np.concatenate([p.columns for p in both]), 1.0)),
        yaxis=axis(row_name, range=[high, low], **({"dtick": 1} if high - low < 12 else {})),
        showlegend=True,
        margin={"l": 60, "r": 12, "t": 58, "b": 44},
    )


def both_paths(first: TokenPath, second: TokenPath, called: tuple[str, str]) -> go.Figure:
    """Draw two paths in one figure: the first as everywhere, the second dashed, its tokens as small crosses."""
    names_of = [html_escape(name) for name in called]
    common = min(len(first.names), len(second.names))
    apart = [
        float(np.abs(np.asarray(one)[:common] - np.asarray(other)[:common]).max())
        for one, other in ((first.columns, second.columns), (first.rows, second.rows))
    ]
    far = f"Up to {apart[0]:.1f} columns and {apart[1]:.1f} rows apart" if max(apart) >= 0.05 else "At the same places"
    title = f"{far}: {names_of[0]}, dashed {names_of[1]}"
    figure = coordinate_path(first, title=title, column_name="column (tokens)", row_name="row", beside=second)
    drawn = second.drawn(second.columns, second.rows)
    kinds = np.asarray(second.kinds)[drawn]
    figure.add_trace(
        go.Scatter(
            x=second.columns[drawn],
            y=second.rows[drawn],
            mode="lines+markers",
            line={"color": _SECOND, "width": 1, "dash": "dash"},
            marker={"symbol": "x-thin", "size": 5, "color": _SECOND, "line": {"width": 1.2, "color": _SECOND}},
            name=names_of[1],
            hovertext=[
                f"{markup(second.names[i])}, {KIND_STYLES[kind].label}" for i, kind in zip(drawn, kinds, strict=True)
            ],
            customdata=drawn,
            hovertemplate="token %{customdata} <b>%{hovertext}</b><br>column %{x:.2f}, row %{y:.2f}<extra>second"
            "</extra>",
        )
    )
    return figure


def path_difference(first: TokenPath, second: TokenPath) -> go.Figure:
    """Draw column and row of the first minus those of the second over the tokens that both have, symmetric around 0."""
    common = min(len(first.names), len(second.names))
    apart = [
        np.asarray(one)[:common] - np.asarray(other)[:common]
        for one, other in ((first.columns, second.columns), (first.rows, second.rows))
    ]
    drawn = first.drawn(first.columns, first.rows)
    drawn = np.unique(np.concatenate([drawn[drawn < common], *(thin(np.arange(common), d, _DRAWN)[0] for d in apart)]))
    reach = 1.08 * max(0.5, *(float(np.nanmax(np.abs(d), initial=0.0)) for d in apart))
    figure = go.Figure()
    for values, name, color in ((apart[0], "column", "#0072b2"), (apart[1], "row", "#d55e00")):
        figure.add_trace(_over_index(drawn, values, first.names, name, color, "solid", 2.0))
    shown = TokenPath(first.names[:common], first.kinds[:common], first.rows[:common], first.columns[:common])
    sides = axis("difference (tokens, rows)", range=[-reach, reach], zeroline=True, zerolinecolor=QUIET)
    return _indexed(figure, shown, "First − second, token by token", sides)


def index_line(path: TokenPath, *, title: str, value_name: str) -> go.Figure:
    """Draw one coordinate against the token index, for schemes that place tokens on a line."""
    figure = go.Figure()
    index = np.arange(len(path.names))
    _add_kinds(figure, path, path.drawn(path.columns), index, path.columns, "coordinate %{y:.2f}")
    return titled(
        figure,
        title,
        xaxis=axis(
            "token index",
            range=[-0.6, len(index) - 0.4],
            **axis_ticks(path.names, 0, len(index), 30, always=path.landmarks),
            tickangle=-90,
        ),
        yaxis=axis(value_name, range=_padded(path.columns, 1.0)),
        showlegend=True,
        margin={"l": 60, "r": 12, "t": 58, "b": 60},
    )


def coordinates_by_index(path: TokenPath, rule: np.ndarray, *, title: str, rule_name: str) -> go.Figure:
    """Draw column and row of every token over its index, with what the separator alone would give beside them.

    Args:
        path: the tokens where the layer puts them.
        rule: Int[T, 2] (row, column) by the separator.
        title: what is seen.
        rule_name: what to call the rule, "by line breaks".
    """
    drawn = path.drawn(path.columns, path.rows, rule[:, 0], rule[:, 1])
    figure = go.Figure()
    for values, name, color, dash, width in (
        (path.columns, "column", "#0072b2", "solid", 2.0),
        (path.rows, "row", "#d55e00", "solid", 2.0),
        (rule[:, 1], rule_name, QUIET, "dot", 1.2),
        (rule[:, 0], f"row {rule_name}", QUIET, "dot", 1.2),
    ):
        trace = _over_index(drawn, values, path.names, name, color, dash, width)
        figure.add_trace(trace.update(showlegend=name != f"row {rule_name}"))
    everything = np.concatenate([path.columns, path.rows, rule.ravel()])
    return _indexed(figure, path, title, axis("coordinate (tokens, rows)", range=_padded(everything, 0.5)))


def learned_steps(path: TokenPath, steps: np.ndarray, *, title: str) -> go.Figure:
    """Draw the gate u and the step v of every token on a fixed 0..1 axis: u = v = 1 is "next column", 0 "new row".

    Args:
        path: the tokens.
        steps: Float[T, 2] (u, v).
        title: what is seen.
    """
    drawn = path.drawn(steps[:, 0], steps[:, 1])
    figure = go.Figure()
    for values, name, color, symbol in (
        (steps[:, 0], "gate u", "#0072b2", "circle"),
        (steps[:, 1], "step v", "#a87900", "diamond-open"),
    ):
        trace = _over_index(drawn, values, path.names, name, color, "solid", 1.4)
        trace.update(mode="lines+markers", marker={"symbol": symbol, "size": 6 if len(drawn) <= 200 else 3})
        figure.add_trace(trace)
    highest = max(1.0, float(np.nanmax(steps, initial=1.0)))
    return _indexed(figure, path, title, axis("learned value", range=[-0.05, highest * 1.05]))


def _over_index(
    drawn: np.ndarray, values: np.ndarray, names: Sequence[str], label: str, color: str, dash: str, width: float
) -> go.Scatter:
    return go.Scatter(
        x=drawn, y=values[drawn], mode="lines", name=label, line={"color": color, "dash": dash, "width": width},
        text=[markup(names[i]) for i in drawn.tolist()],
        hovertemplate=f"token %{{x}} <b>%{{text}}</b><br>%{{y:.4f}}<extra>{label}</extra>",
    )  # fmt: skip


def _indexed(figure: go.Figure, path: TokenPath, title: str, y_axis: dict) -> go.Figure:
    names = path.names
    ticks = axis_ticks(names, 0, len(names), 26, always=path.landmarks)
    x_axis = axis("token index and token", range=[-0.6, len(names) - 0.4], **ticks, tickangle=-90, showgrid=False)
    margin = {"l": 60, "r": 12, "t": 58, "b": 60}
    return titled(figure, title, xaxis=x_axis, yaxis=y_axis, showlegend=True, margin=margin)


def _add_kinds(figure: go.Figure, path: TokenPath, drawn: np.ndarray, x: np.ndarray, y: np.ndarray, where: str) -> None:
    """One marker trace a token kind, in reading order of the kinds; token names beside them where they fit."""
    kinds = np.asarray(path.kinds)[drawn]
    labelled = len(path.names) <= _LABELLED
    for kind, style in KIND_STYLES.items():
        of_kind = drawn[kinds == kind]
        if not len(of_kind):
            continue
        figure.add_trace(
            go.Scatter(
                x=x[of_kind],
                y=y[of_kind],
                mode="markers+text" if labelled and kind in _ANCHORS else "markers",
                name=style.label,
                text=[markup(path.names[i]) if i == of_kind[0] else "" for i in of_kind],
                hovertext=[markup(path.names[i]) for i in of_kind],
                textposition="top center",
                textfont={"size": 10, "color": INK},
                customdata=of_kind,
                marker={
                    "symbol": style.marker,
                    "color": style.color,
                    "size": 7,
                    "line": {"width": 1.2, "color": style.color},
                },
                hovertemplate=f"token %{{customdata}} <b>%{{hovertext}}</b><br>{where}<extra>{style.label}</extra>",
            )
        )


def _padded(values: np.ndarray, least: float, share: float = 0.06) -> list[float]:
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    pad = max(least, share * (high - low))
    return [low - pad, high + pad]
