"""Where failed copies first go wrong, by how repetitive their strings are."""

import html
from collections.abc import Mapping, Sequence
from statistics import median

import plotly.graph_objects as go

from workbench.content.failures import FailureContent
from workbench.figures.failures import CAUSE_COLORS, REFERENCE
from workbench.figures.style import INK, axis, titled

MOST_DRAWN = 3000
CAUSE_SYMBOLS = {"repetition": "circle", "length": "square", "stop": "diamond", "other": "x"}
_TICKS = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]
_LOGARITHMIC = 24  # tokens of the longest repeat from which on the axis is logarithmic


def error_places(
    failures: Mapping[int, FailureContent], selected: int | None = None, total: int | None = None
) -> go.Figure:
    """Draw where each copy first goes wrong, as a share of its string, against the longest repeat in the string.

    Args:
        failures: by index in their report, which is each point's customdata; the first MOST_DRAWN are drawn.
        selected: the one that is set apart.
        total: failures that these are chosen from, said in the title.
    """
    drawn = dict(list(failures.items())[:MOST_DRAWN])
    figure = go.Figure()
    for (cause, confirmed), mine in _kinds(drawn).items():
        label = cause if confirmed or cause == "other" else f"{cause}, unconfirmed"
        symbol = CAUSE_SYMBOLS.get(cause, "star")
        figure.add_scatter(
            x=[longest_repeat(failure) for failure in mine.values()],
            y=[failure.first_error / failure.length for failure in mine.values()],
            mode="markers",
            name=html.escape(label),
            marker={
                "color": CAUSE_COLORS.get(cause, REFERENCE),
                "symbol": symbol if confirmed or cause == "other" else f"{symbol}-open",
                "size": 8,
                "opacity": 0.75,
            },
            customdata=[[index, html.escape(_told(failure))] for index, failure in mine.items()],
            hovertemplate=f"{html.escape(label)}<br>%{{customdata[1]}}<br>longest repeat %{{x}} tokens<extra></extra>",
        )
    if selected in drawn:
        failure = drawn[selected]
        figure.add_scatter(
            x=[longest_repeat(failure)],
            y=[failure.first_error / failure.length],
            mode="markers",
            name="selected",
            marker={"symbol": "circle-open", "size": 17, "color": "#d55e00", "line": {"width": 2.5}},
            hoverinfo="skip",
        )
    longest = max((longest_repeat(failure) for failure in drawn.values()), default=1)
    scaled = (
        {"type": "log", "tickvals": _TICKS, "ticktext": [f"{n:,}" for n in _TICKS]}
        if longest > _LOGARITHMIC
        else {"rangemode": "tozero"}
    )
    among = max(len(failures), total or 0)
    shown = f"{len(drawn):,} of {among:,}" if len(drawn) < among else f"{len(drawn):,}"
    return titled(
        figure,
        f"First errors of {shown} failures",
        xaxis=axis("longest repeated part of the string (tokens)", **scaled),
        yaxis=axis("first error (share of the string)", range=[-0.04, 1.06], tickvals=[0, 0.25, 0.5, 0.75, 1]),
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": -0.26, "yanchor": "top", "font": {"color": INK}},
        height=340,
        margin={"l": 56, "r": 12, "t": 36, "b": 88},
    )


def places_finding(failures: Sequence[FailureContent]) -> str:
    """Say in a sentence where the copies first go wrong."""
    if not failures:
        return "No failure is listed."
    share = median(failure.first_error / failure.length for failure in failures)
    token = median(failure.first_error for failure in failures)
    repeat = median(longest_repeat(failure) for failure in failures)
    eos = sum(failure.first_error == failure.length for failure in failures)
    ends = f"; {eos:,} of {len(failures):,} miss EOS alone" if eos else ""
    return (
        f"Half of the first errors are before token {token:,.0f}, {share:.0%} of the string{ends}. The median string "
        f"repeats a part of {repeat:,.0f} tokens."
    )


def longest_repeat(failure: FailureContent) -> int:
    """Tokens of the longest part of a failed string that occurs in it twice; at least 1, to be drawn on any axis."""
    value = failure.repetition.get("longest_repeat")
    return max(1, value) if isinstance(value, int) else 1


def _kinds(failures: Mapping[int, FailureContent]) -> dict[tuple[str, bool], dict[int, FailureContent]]:
    kinds: dict[tuple[str, bool], dict[int, FailureContent]] = {}
    ranked = sorted(failures.items(), key=lambda item: (list(CAUSE_SYMBOLS).index(item[1].cause) if item[1].cause in
                    CAUSE_SYMBOLS else len(CAUSE_SYMBOLS), not item[1].confirmed))  # fmt: skip
    for index, failure in ranked:
        kinds.setdefault((failure.cause, failure.confirmed), {})[index] = failure
    return kinds


def _told(failure: FailureContent) -> str:
    return f"{failure.distribution}, {failure.length:,} tokens, first error at {failure.first_error:,}"
