"""Where the heads of a layer look from one query: a strip of bars a head, one above the other.

Two subjects are drawn in three strips: each subject's chosen head, and the difference of both.

Shape letters: T tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape as html_escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.attention import Tokens
from workbench.figures.difference import FIRST, SECOND, symmetric_reach
from workbench.figures.numbers import signed
from workbench.figures.style import INK, QUIET, RULE, TRUTH, axis, titled
from workbench.figures.tokens import axis_ticks, markup

_BARS = 240
_CHOSEN, _OTHER = "#3a86c8", "#8a97a3"
ALIKE = 0.005  # weights that are no further apart are told as the same
_GAP = 0.1  # of the figure's height at most, above each strip, where its name stands


def head_bars(row: int, weights: Mapping[int, np.ndarray], tokens: Tokens, *, chosen: int) -> go.Figure:
    """Draw where each head of a layer looks from one query, all on one axis; what is seen is said beside.

    Args:
        row: the query position.
        weights: by head, Float[T] weights of its keys.
        tokens: the string.
        chosen: the head that is set apart.
    """
    source, visible_keys = int(tokens.source[row]), row + 1
    width = max(1, -(-visible_keys // _BARS))
    starts = np.arange(0, visible_keys, width)
    is_source = (starts <= source) & (source < starts + width) & (source >= 0)
    last = np.minimum(starts + width, visible_keys) - 1
    names = [markup(tokens.names[s]) if s == e else f"{s}–{e}" for s, e in zip(starts.tolist(), last, strict=True)]
    custom = np.array([names, starts.astype(str)], dtype=object).T
    strips = list(weights)
    gap = min(_GAP, 0.25 / len(strips))
    size = 1 / len(strips) - gap
    traces, axes, annotations = [], {}, []
    for place, head in enumerate(strips):
        heights = np.maximum.reduceat(np.asarray(weights[head])[:visible_keys], starts)
        top = 1 - place * (size + gap) - gap
        number = "" if place == 0 else str(place + 1)
        traces.append(
            {
                "type": "bar",
                "x": starts + (width - 1) / 2,
                "y": heights,
                "width": width * 0.86,
                "yaxis": f"y{number}",
                "marker": {
                    "color": np.where(is_source, TRUTH, _CHOSEN if head == chosen else _OTHER).tolist(),
                    "line": {"width": 0},
                },
                "customdata": custom,
                "hovertemplate": (
                    f"head {head}<br>key %{{customdata[1]}} <b>%{{customdata[0]}}</b><br>weight %{{y:.4f}}"
                    "<extra></extra>"
                ),
            }
        )
        ticks: dict[str, Any] = {"tickvals": [0, 0.5, 1], "tickformat": "~g", "gridcolor": RULE, "fixedrange": True}
        axes[f"yaxis{number}"] = axis("", range=[0, 1.02], domain=[max(0.0, top - size), top], **ticks)
        annotations.append(_name(head, heights, is_source, starts, top, chosen, source >= 0))
    return titled(
        go.Figure(traces, _validate=False),
        "",
        **axes,
        xaxis=axis(
            "key: position and token" if width == 1 else f"key (each bar the largest of {width})",
            range=[-0.6, visible_keys - 0.4],
            anchor=f"y{len(strips)}" if len(strips) > 1 else "y",
            **axis_ticks(tokens.names, 0, visible_keys, 20, always=tokens.anchors),
            tickangle=-90,
            showgrid=False,
            fixedrange=True,
        ),
        annotations=annotations,
        bargap=0,
        margin={"l": 36, "r": 8, "t": 4, "b": 60},
    )


def _name(
    head: int, heights: np.ndarray, is_source: np.ndarray, starts: np.ndarray, top: float, chosen: int, scored: bool
) -> dict[str, Any]:
    """Name of a strip, and its weight on the true source, or on its top key where there is none."""
    best = int(heights.argmax())
    said = f"{float(heights[is_source].max(initial=0)):.2f} on the true source"
    if not scored:
        said = f"most on key {starts[best]}: {heights[best]:.2f}"
    name = f"<b>head {head}</b>" if head == chosen else f"head {head}"
    return _over(f"{name} · {said}", top, INK if head == chosen else QUIET)


@dataclass(frozen=True)
class Strip:
    """One subject's head from one query.

    Attributes:
        called: what to call it.
        weights: Float[K] weights of the keys up to the query.
        names: printable name of every one of these keys.
        source: position of the true source, -1 for none.
    """

    called: str
    weights: np.ndarray
    names: Sequence[str]
    source: int


def compared_bars(first: Strip, second: Strip, *, keys: slice, anchors: Sequence[int] = ()) -> go.Figure:
    """Draw two heads and the first minus the second, all over one axis of keys; what is seen is said beside.

    Both are drawn on one scale from 0 to 1, the difference on one that is symmetric around zero.

    Args:
        first: the one head.
        second: the other; the difference goes as far as both have keys.
        keys: the keys in sight.
        anchors: positions that get a label before others.
    """
    width = max(1, -(-(keys.stop - keys.start) // _BARS))
    starts = np.arange(keys.start, keys.stop, width)
    common = min(len(first.weights), len(second.weights))
    apart = np.asarray(first.weights)[:common] - np.asarray(second.weights)[:common]
    in_sight = apart[keys.start : min(keys.stop, common)]
    most = keys.start + int(np.abs(in_sight).argmax()) if len(in_sight) else None
    end = symmetric_reach(float(np.abs(in_sight).max(initial=0)))
    longer = second.names[len(first.names) :]
    names = [*first.names, *longer]
    strips = ((first, _CHOSEN), (second, _OTHER))
    traces = [
        _weights(strip, starts, keys.stop, width, color, number) for number, (strip, color) in enumerate(strips, 1)
    ]
    traces.append(_difference(apart, starts, min(keys.stop, common), width, names))
    size = 1 / 3 - _GAP
    axes: dict[str, Any] = {}
    annotations = []
    told = "nothing in sight" if most is None else f"most on key {most}: {signed(float(apart[most]))}"
    if most is not None and abs(apart[most]) < ALIKE:
        told = "alike"
    said = [*(_weights_said(strip) for strip in (first, second)), f"First − second · {told}"]
    for place, text in enumerate(said):
        top = 1 - place * (size + _GAP) - _GAP
        ticks: dict[str, Any] = {"tickvals": [0, 0.5, 1], "range": [0, 1.02]}
        if place == 2:
            ticks = {"tickvals": [-end, 0, end], "ticktext": [f"−{end:g}", "0", f"+{end:g}"], "range": [-end, end],
                     "zeroline": True, "zerolinecolor": QUIET}  # fmt: skip
        domain = [max(0.0, top - size), top]
        axes[f"yaxis{place + 1 if place else ''}"] = axis("", domain=domain, gridcolor=RULE, fixedrange=True, **ticks)
        annotations.append(_over(text, top, INK if place != 1 else QUIET))
    return titled(
        go.Figure(traces, _validate=False),
        "",
        **axes,
        xaxis=axis(
            "key: position and token" if width == 1 else f"key (each bar the largest of {width})",
            range=[keys.start - 0.6, keys.stop - 0.4],
            anchor="y3",
            **axis_ticks(names, keys.start, keys.stop, 20, always=anchors),
            tickangle=-90,
            showgrid=False,
            showspikes=True,
            spikemode="across",
            spikethickness=1,
            spikedash="dot",
            spikecolor=QUIET,
        ),
        annotations=annotations,
        shapes=[
            _line(source, strip)
            for source in sorted({first.source, second.source})
            if keys.start <= source < keys.stop
            for strip in ("y", "y2", "y3")
        ],
        barmode="overlay",
        bargap=0,
        hovermode="x",
        hoversubplots="axis",
        margin={"l": 44, "r": 8, "t": 4, "b": 60},
    )


def _weights(strip: Strip, starts: np.ndarray, stop: int, width: int, color: str, number: int) -> dict[str, Any]:
    """The bars of one subject's head, that of the true source set apart."""
    stop = min(stop, len(strip.weights))
    starts = starts[starts < stop]
    last = np.minimum(starts + width, stop) - 1
    heights = np.maximum.reduceat(np.asarray(strip.weights)[:stop], starts) if len(starts) else starts
    is_source = (starts <= strip.source) & (strip.source <= last) & (strip.source >= 0)
    said = f"{'first' if number == 1 else 'second'} %{{y:.4f}} · key %{{customdata}}"
    return {
        "type": "bar",
        "x": starts + (width - 1) / 2,
        "y": heights,
        "width": width * 0.86,
        "yaxis": "y" if number == 1 else f"y{number}",
        "marker": {"color": np.where(is_source, TRUTH, color).tolist(), "line": {"width": 0}},
        "customdata": _keys(strip.names, starts, last),
        "hovertemplate": f"{said}<extra></extra>",
    }


def _difference(apart: np.ndarray, starts: np.ndarray, stop: int, width: int, names: Sequence[str]) -> dict[str, Any]:
    """The bars of the difference; of several keys that which is furthest from zero."""
    starts = starts[starts < stop]
    last = np.minimum(starts + width, stop) - 1
    values = starts.astype(float)
    if len(starts):
        high, low = (extreme.reduceat(apart[:stop], starts) for extreme in (np.maximum, np.minimum))
        values = np.where(high >= -low, high, low)
    return {
        "type": "bar",
        "x": starts + (width - 1) / 2,
        "y": values,
        "width": width * 0.86,
        "yaxis": "y3",
        "marker": {"color": np.where(values > 0, FIRST, SECOND).tolist(), "line": {"width": 0}},
        "customdata": _keys(names, starts, last),
        "hovertemplate": "first − second %{y:+.4f} · key %{customdata}<extra></extra>",
    }


def _keys(names: Sequence[str], starts: np.ndarray, last: np.ndarray) -> list[str]:
    """What to call the key, or the keys, of every bar."""
    pairs = zip(starts.tolist(), last.tolist(), strict=True)
    return [f"{s} <b>{markup(names[s])}</b>" if s == e else f"{s}–{e}" for s, e in pairs]


def _weights_said(strip: Strip) -> str:
    best = int(np.asarray(strip.weights).argmax())
    where = f"most on key {best}: {strip.weights[best]:.2f}"
    if strip.source >= 0:
        where = f"{strip.weights[strip.source]:.2f} on the true source"
    return f"<b>{html_escape(strip.called)}</b> · {where}"


def _line(source: int, strip: str) -> dict[str, Any]:
    """A line through a strip where the true source stands."""
    return {
        "type": "line",
        "x0": source,
        "x1": source,
        "xref": "x",
        "y0": 0,
        "y1": 1,
        "yref": f"{strip} domain",
        "line": {"color": TRUTH, "width": 1, "dash": "dot"},
        "layer": "below",
    }


def _over(text: str, top: float, color: str) -> dict[str, Any]:
    """What stands over a strip."""
    return {
        "text": text,
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": top,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": color},
    }
