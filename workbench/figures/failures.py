"""Failures as figures: causes by length and distribution, the law, what predicts failure, and where rows looked."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.content.base import EstimateContent
from workbench.content.failures import (
    AtLengthContent,
    FailureContent,
    GroupContent,
    LawContent,
    PredictionContent,
    RegressionContent,
)
from workbench.figures.style import INK, axis, titled

# Readable on white and on the dashboard's dark surface.
CAUSE_COLORS = {"repetition": "#00916a", "length": "#0072b2", "stop": "#a87900", "other": "#7d7d7d"}
UNEXPLAINED = "not explained"
PERIOD_STYLES = (
    ("#0072b2", "circle", "solid"),
    ("#d55e00", "square", "dash"),
    ("#00916a", "diamond", "dot"),
    ("#b5568f", "triangle-up", "dashdot"),
)
ROW_COLORS = {"failed": "#d55e00", "right": "#0072b2", "random": "#7d7d7d"}
ROW_SYMBOLS = {"failed": "circle", "right": "diamond", "random": "square-open"}
REFERENCE = "#7d7d7d"
SECOND_OPACITY = 0.6
_KINDS = (
    *((cause, confirmed) for cause in CAUSE_COLORS for confirmed in (True, False) if cause != "other"),
    ("other", False),
    (UNEXPLAINED, False),
)
MASSES = {"mass_source": "true source", "mass_competitors": "competitors", "mass_random": "as many random places"}


def cause_bars(
    groups: Sequence[GroupContent],
    failures: Sequence[FailureContent],
    beside: tuple[Sequence[GroupContent], Sequence[FailureContent]] | None = None,
    called: tuple[str, str] = ("first", "second"),
) -> go.Figure:
    """Share of strings that fail, by length, one panel a distribution, stacked by cause; hatched where unconfirmed.

    Args:
        groups: of a report.
        failures: of the same.
        beside: groups and failures of a second one, whose bars stand to the right, fainter.
        called: names of the two.
    """
    sides = [(groups, failures), *([beside] if beside else [])]
    names = list(dict.fromkeys(group.distribution for of_side, _ in sides for group in of_side))
    lengths = sorted({group.length for of_side, _ in sides for group in of_side})
    figure = make_subplots(rows=1, cols=len(names), shared_yaxes=True, horizontal_spacing=0.03)
    in_legend: set[str] = set()
    for side, (of_side, explained) in enumerate(sides):
        counts = Counter((f.distribution, f.length, f.cause, f.confirmed) for f in explained)
        place = (0.0, None) if beside is None else ((-0.2, 0.2)[side], 0.36)
        for cause, confirmed in _KINDS:
            for column, name in enumerate(names, start=1):
                mine = [group for group in of_side if group.distribution == name]
                here = [
                    group.failed - group.explained
                    if cause == UNEXPLAINED
                    else counts[name, group.length, cause, confirmed]
                    for group in mine
                ]
                if any(here):
                    bars = _cause_bar(cause, confirmed, mine, here, lengths, place)
                    if side:
                        bars |= {"opacity": SECOND_OPACITY}
                    told = "" if beside is None else f" ({html.escape(called[side])})"
                    bars["hovertemplate"] = f"{bars['name']}{told}: {bars['hovertemplate']}"
                    figure.add_bar(**bars, showlegend=bars["name"] not in in_legend, row=1, col=column)
                    in_legend.add(bars["name"])
    for column, name in enumerate(names, start=1):
        if not any(group.failed for of_side, _ in sides for group in of_side if group.distribution == name):
            # A panel without a trace is not drawn at all, and its title falls onto another.
            places = list(range(len(lengths)))
            figure.add_bar(x=places, y=[0] * len(places), showlegend=False, hoverinfo="skip", row=1, col=column)
    if beside is not None:
        for name, opacity in ((f"left: {called[0]}", 1.0), (f"right, fainter: {called[1]}", SECOND_OPACITY)):
            marker = {"color": REFERENCE}
            figure.add_bar(x=[None], y=[None], name=html.escape(name), marker=marker, opacity=opacity, row=1, col=1)
    ticks = {"tickvals": list(range(len(lengths))), "ticktext": [f"{n:,}" for n in lengths]}
    settings: dict[str, Any] = {}
    for i, name in enumerate(names):
        number = "" if i == 0 else str(i + 1)
        settings[f"xaxis{number}"] = axis("string length (tokens)", range=[-0.6, len(lengths) - 0.4], **ticks)
        settings[f"yaxis{number}"] = axis(
            "share of strings that fail" if i == 0 else "",
            range=[0, 1.02],
            tickvals=[0, 0.25, 0.5, 0.75, 1],
            showticklabels=i == 0,
        )
        _panel_title(figure, name, number)
    return titled(
        figure,
        "What fails, by cause",
        barmode="stack",
        bargap=0.25,
        showlegend=True,
        legend=_below(),
        height=340,
        margin={"l": 56, "r": 12, "t": 56, "b": 96},
        **settings,
    )


def _cause_bar(
    cause: str,
    confirmed: bool,
    groups: Sequence[GroupContent],
    counts: Sequence[int],
    lengths: Sequence[int],
    place: tuple[float, float | None],
) -> dict[str, Any]:
    """The bars of one cause in one panel; `place` is how far they are moved, and their width."""
    hatched = not confirmed and cause != "other"
    return {
        "x": [lengths.index(group.length) + place[0] for group in groups],
        "y": [n / group.strings for n, group in zip(counts, groups, strict=True)],
        "width": place[1],
        "name": cause if confirmed or cause in ("other", UNEXPLAINED) else f"{cause}, unconfirmed",
        "legendgroup": f"{cause} {confirmed}",
        "marker": {
            "color": CAUSE_COLORS.get(cause, REFERENCE),
            "pattern": {"shape": ("." if cause == UNEXPLAINED else "/") if hatched else "", "size": 6},
        },
        "customdata": [[n, group.strings, group.length] for n, group in zip(counts, groups, strict=True)],
        "hovertemplate": "%{customdata[0]} of %{customdata[1]} strings of %{customdata[2]:,} tokens<extra></extra>",
    }


def law_lines(
    law: Sequence[LawContent], beside: Sequence[LawContent] = (), called: tuple[str, str] = ("first", "second")
) -> go.Figure:
    """Exact match, and the smallest margin, against survival, one line a period, with 95 % intervals.

    Args:
        law: points of a report.
        beside: of a second one, dashed with open markers; lines then have the colour of their period alone.
        called: names of the two.
    """
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.1)
    periods = sorted({point.period for point in (*law, *beside)})
    in_legend: set[int] = set()
    for side, of_side in enumerate((law, beside)):
        for at, period in enumerate(periods):
            points = sorted((p for p in of_side if p.period == period), key=lambda p: p.survival)
            color, symbol, dash = PERIOD_STYLES[at % len(PERIOD_STYLES)]
            if beside:
                dash = ("solid", "dash")[side]
            for column in (1, 2) if points else ():
                values = [p.exact_match if column == 1 else p.margin.value for p in points]
                ends = [p.interval if column == 1 else p.margin.interval or (0.0, 0.0) for p in points]
                figure.add_scatter(
                    x=[p.survival for p in points],
                    y=values,
                    mode="lines+markers",
                    name=f"period {period}",
                    legendgroup=str(period),
                    showlegend=column == 1 and period not in in_legend,
                    opacity=SECOND_OPACITY if side else 1,
                    line={"color": color, "dash": dash, "width": 1.5},
                    marker={"symbol": f"{symbol}-open" if side else symbol, "size": 8, "color": color},
                    error_y=_bars([value or 0.0 for value in values], ends, color),
                    customdata=[[p.flip, p.strings] for p in points],
                    hovertemplate=f"period {period}, flip %{{customdata[0]}}, survival %{{x:.2f}}<br>%{{y:.2f}}, "
                    f"%{{customdata[1]}} strings<extra>{html.escape(called[side]) if beside else ''}</extra>",
                    row=1,
                    col=column,
                )
            in_legend |= {period} if points else set()
    if beside:
        _name_sides(figure, called, "lines+markers", row=1, col=1)
    figure.add_hline(y=0, line={"color": REFERENCE, "width": 1, "dash": "dot"}, row=1, col=2)
    survival = {"range": [0.25, 1.0]}
    return titled(
        figure,
        "Exact match and margin as repeated blocks survive",
        xaxis=axis("survival (1 − p)^m", **survival),
        xaxis2=axis("survival (1 − p)^m", **survival),
        yaxis=axis("exact match (share of strings)", range=[-0.04, 1.04], tickvals=[0, 0.25, 0.5, 0.75, 1]),
        yaxis2=axis("smallest margin (logits, mean)"),
        showlegend=True,
        legend=_below(),
        height=360,
        margin={"l": 56, "r": 12, "t": 40, "b": 96},
    )


def coefficient_dots(prediction: PredictionContent) -> go.Figure | None:
    """Coefficients with intervals: of failure (log odds) beside those of margins (logits); None without any."""
    panels: list[list[tuple[str, str, str, RegressionContent]]] = [
        [("failure", CAUSE_COLORS["length"], "circle", prediction.failure)],
        [
            ("margin, all strings", "#d55e00", "diamond", prediction.margin),
            ("margin, copies that are right", "#00916a", "square", prediction.margin_of_right),
        ],
    ]
    names = [name for name in prediction.margin.coefficients if name != "intercept"]
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.06)
    drawn = 0
    for column, panel in enumerate(panels, start=1):
        for at, (label, color, symbol, regression) in enumerate(panel):
            shift = (at - (len(panel) - 1) / 2) * 0.24
            known = [(i, e) for i, name in enumerate(names) for e in (regression.coefficients[name],) if _known(e)]
            drawn += len(known)
            _dots(figure, known, shift, label, color, symbol, column)
        figure.add_vline(x=0, line={"color": REFERENCE, "width": 1}, row=1, col=column)
    if not drawn:
        return None
    ticks = {
        "tickvals": list(range(len(names))),
        "ticktext": [html.escape(name.replace(" x ", " × ")) for name in names],
    }
    return titled(
        figure,
        "What makes copies fail, and margins shrink",
        xaxis=axis("change of the log odds of failure, for one standard deviation"),
        xaxis2=axis("change of the smallest margin (logits), for one standard deviation"),
        yaxis=axis("", range=[len(names) - 0.5, -0.5], **ticks),
        yaxis2=axis("", range=[len(names) - 0.5, -0.5], showticklabels=False),
        showlegend=True,
        legend=_below(),
        height=300,
        margin={"l": 140, "r": 12, "t": 40, "b": 96},
    )


def fixed_length_dots(
    lengths: Sequence[AtLengthContent],
    beside: Sequence[AtLengthContent] | None = None,
    called: tuple[str, str] = ("first", "second"),
) -> go.Figure | None:
    """Probability that a failed string is more repetitive than a right one of its length; None without any.

    Args:
        lengths: of a report.
        beside: of a second one, whose markers are open; None where there is none.
        called: names of the two.
    """
    asked = [{one.length: one for one in of_side} for of_side in (lengths, *([] if beside is None else [beside]))]
    sides = [{length: one for length, one in found.items() if _known(one.auc)} for found in asked]
    known = sorted({length for found in sides for length in found})
    if not known:
        return None
    figure, color = go.Figure(), CAUSE_COLORS["repetition"]
    for side, found in enumerate(sides):
        if not found:
            continue
        values = [one.auc.value or 0.0 for one in found.values()]
        figure.add_scatter(
            x=[known.index(length) + (0 if beside is None else (-0.08, 0.08)[side]) for length in found],
            y=values,
            mode="markers",
            showlegend=False,
            marker={"color": color, "size": 9, "symbol": "circle-open" if side else "circle"},
            error_y=_bars(values, [one.auc.interval or (0, 0) for one in found.values()], color),
            customdata=[[one.length, one.failed, one.strings] for one in found.values()],
            hovertemplate="%{customdata[0]:,} tokens: %{y:.2f}<br>%{customdata[1]} of %{customdata[2]} strings fail"
            f"<extra>{'' if beside is None else html.escape(called[side])}</extra>",
        )
    if beside is not None:
        _name_sides(figure, called, "markers", color)
    figure.add_hline(y=0.5, line={"color": REFERENCE, "width": 1, "dash": "dot"})
    ticks = ["<br>".join([f"{length:,}", *_failing([found.get(length) for found in asked])]) for length in known]
    return titled(
        figure,
        "At fixed length, are failed strings the more repetitive ones?",
        xaxis=axis(
            "string length (tokens)", tickvals=list(range(len(known))), ticktext=ticks, range=[-0.6, len(known) - 0.4]
        ),
        yaxis=axis("P(failed one is more repetitive)", range=[-0.04, 1.04], tickvals=[0, 0.25, 0.5, 0.75, 1]),
        height=320,
        showlegend=beside is not None,
        legend={**_below(), "y": -0.42},
        margin={"l": 56, "r": 12, "t": 40, "b": 72 if beside is None else 108},
    )


def _failing(found: Sequence[AtLengthContent | None]) -> list[str]:
    """How many strings of a length fail, a line a report; a dash where one has none of them."""
    return ["–" if one is None else f"{one.failed} of {one.strings} fail" for one in found]


def row_dots(
    rows: Mapping[str, Mapping[str, EstimateContent]],
    beside: Mapping[str, Mapping[str, EstimateContent]] | None = None,
    called: tuple[str, str] = ("first", "second"),
) -> go.Figure:
    """Mean attention of failed rows on source, competitors and random places, beside right and random rows.

    Args:
        rows: of a report, by kind of row and name of the mass.
        beside: of a second one, whose markers are fainter and stand below.
        called: names of the two.
    """
    figure = go.Figure()
    for side, of_side in enumerate((rows, *([beside] if beside else []))):
        for at, (kind, color) in enumerate(ROW_COLORS.items()):
            known = [(i, e) for i, name in enumerate(MASSES) for e in (of_side[kind][name],) if _known(e)]
            shift = (at - 1) * 0.2 if beside is None else (at - 1) * 0.28 + (-0.05, 0.07)[side]
            label = f"{kind} rows" + (f", {called[side]}" if beside else "")
            _dots(figure, known, shift, label, color, ROW_SYMBOLS[kind])
            if side:
                figure.data[-1].update(opacity=SECOND_OPACITY, marker_size=6)
    return titled(
        figure,
        "Where rows looked",
        xaxis=axis("share of the attention that decides the answer", range=[-0.02, 1.02]),
        yaxis=axis(
            "", range=[len(MASSES) - 0.5, -0.5], tickvals=list(range(len(MASSES))), ticktext=list(MASSES.values())
        ),
        showlegend=True,
        legend=_below(),
        height=290,
        margin={"l": 160, "r": 12, "t": 40, "b": 96},
    )


def _name_sides(figure: go.Figure, called: tuple[str, str], mode: str, color: str = REFERENCE, **place: int) -> None:
    """Name two subjects in the legend: the first filled and drawn through, the second open, dashed and fainter."""
    for name, symbol, dash, opacity in zip(
        called, ("circle", "circle-open"), ("solid", "dash"), (1, SECOND_OPACITY), strict=True
    ):
        figure.add_scatter(
            x=[None], y=[None], mode=mode, name=html.escape(name), opacity=opacity,
            line={"color": color, "dash": dash, "width": 1.5}, marker={"symbol": symbol, "size": 8, "color": color},
            **place,
        )  # fmt: skip


def _dots(
    figure: go.Figure,
    known: Sequence[tuple[int, EstimateContent]],
    shift: float,
    label: str,
    color: str,
    symbol: str,
    column: int | None = None,
) -> None:
    """Estimates with intervals along x, at the lines they are numbered by."""
    values = [estimate.value or 0.0 for _, estimate in known]
    figure.add_scatter(
        x=values,
        y=[i + shift for i, _ in known],
        mode="markers",
        name=label,
        marker={"color": color, "symbol": symbol, "size": 9},
        error_x=_bars(values, [estimate.interval or (0.0, 0.0) for _, estimate in known], color),
        hovertemplate="%{x:.3f}<extra>" + html.escape(label) + "</extra>",
        **({} if column is None else {"row": 1, "col": column}),
    )


def _known(estimate: EstimateContent) -> bool:
    return estimate.value is not None and estimate.interval is not None


def _bars(values: Sequence[float], ends: Sequence[tuple[float, float]], color: str) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        "color": color,
        "thickness": 1.3,
        "width": 4,
    }


def _below() -> dict[str, Any]:
    return {"orientation": "h", "x": 0, "y": -0.26, "yanchor": "top", "font": {"color": INK}}


def _panel_title(figure: go.Figure, name: str, number: str) -> None:
    figure.add_annotation(
        text=f"<b>{html.escape(name)}</b>", x=0, xref=f"x{number} domain", y=1.0, yref="paper", xanchor="left",
        yanchor="bottom", showarrow=False, font={"size": 12, "color": INK},
    )  # fmt: skip
