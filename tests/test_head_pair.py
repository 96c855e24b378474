"""Heads of two reports as numbers and figures: differences, what intervals tell apart, and grids on one scale."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import fake_reports
from workbench.content.heads import HeadContent
from workbench.dashboard.pages.heads_compare_table import compared_scores, sort_matched
from workbench.figures.head_grid import score_grid
from workbench.figures.head_pair import (
    Matched,
    finding,
    history_pair,
    labels_said,
    match,
    pair_grids,
    subtract_estimates,
    told_apart,
)
from workbench.figures.numbers import signed

ESTIMATE = fake_reports.estimate


# ---- numbers ---------------------------------------------------------------------------------------------------------


def head(layer: int, index: int, label: str, certain: bool = True, **scores: float | None) -> HeadContent:
    made = fake_reports.head(layer, index, label, certain=certain)
    return made.model_copy(update={"scores": {**made.scores, **{name: ESTIMATE(v) for name, v in scores.items()}}})


estimates = st.builds(
    lambda value, low, high: ESTIMATE(value).model_copy(update={"interval": (value - low, value + high)}),
    st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1),
)  # fmt: skip


@settings(deadline=None)
@given(estimates, estimates)
def test_values_are_told_apart_only_where_their_intervals_share_nothing(first: Any, second: Any) -> None:
    apart = told_apart(first, second)
    assert apart == told_apart(second, first)
    shared = max(first.interval[0], second.interval[0]) <= min(first.interval[1], second.interval[1])
    assert apart is not shared
    assert subtract_estimates(first, second) == pytest.approx(-(subtract_estimates(second, first) or 0.0))


def test_what_was_not_measured_has_no_difference() -> None:
    for pair in ((None, ESTIMATE(0.5)), (ESTIMATE(0.5), ESTIMATE(None)), (None, None)):
        assert subtract_estimates(*pair) is None and told_apart(*pair) is None
    assert signed(-0.001) == "0.00" and signed(-0.3) == "−0.30" and signed(0.3) == "+0.30"


def test_only_certain_labels_count_as_certain_ones_and_lonely_heads_are_said() -> None:
    first = [head(0, 0, "sink"), head(0, 1, "self"), head(0, 2, "mixed"), head(1, 0, "self")]
    second = [head(0, 0, "self"), head(0, 1, "sink", certain=False), head(0, 2, "mixed")]
    heads = match(first, second)
    assert [m.changed for m in heads] == [True, True, False, False]
    assert [m.surely_changed for m in heads] == [True, False, False, False]
    assert labels_said(heads) == "2 of 3 labels differ (≠), 1 of them certain in both; only the first has head 1.0"
    assert labels_said(match(second, second)) == "0 of 3 labels differ"
    unsure = [head(0, 0, "sink", certain=False)]
    assert "none of them certain in both" in labels_said(match(unsure, [head(0, 0, "self")]))


def test_the_finding_names_the_largest_difference_and_whether_it_can_be_told() -> None:
    first = [head(0, 0, "sink", entropy=0.9), head(0, 1, "sink", entropy=0.2)]
    second = [head(0, 0, "sink", entropy=0.3), head(0, 1, "sink", entropy=0.25)]
    said = finding(match(first, second), "entropy")
    assert said.startswith(
        "The largest difference of entropy is at head 0.0: 0.90 in the first, 0.30 in the second (+0.60)."
    )
    near = [head(0, 0, "sink", entropy=0.85), head(0, 1, "sink", entropy=0.2)]
    assert "not distinguishable: their intervals overlap" in finding(match(first, near), "entropy")
    assert finding(match(first, second), "nothing").startswith("No head of both has a measurable nothing")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["sink", "self", "mixed"]), min_size=1, max_size=6),
    st.sampled_from(["head", "label", "scores"]),
)
def test_sorting_keeps_every_head_and_turns_round(labels: list[str], column: str) -> None:
    first = [head(0, at, label) for at, label in enumerate(labels)]
    heads = match(first, [head(0, at, "self") for at in range(len(labels) + 1)])
    rising, falling = sort_matched(heads, column), sort_matched(heads, f"-{column}")
    assert sorted(map(id, rising)) == sorted(map(id, falling)) == sorted(map(id, heads))
    if column == "head":
        assert [m.name for m in rising] == [m.name for m in heads] == [m.name for m in reversed(falling)]
    if column == "label":
        assert [m.changed for m in rising] == sorted((m.changed for m in rising), reverse=True)


# ---- figures ---------------------------------------------------------------------------------------------------------


def grids_of(figure: go.Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.type == "heatmap"]


@pytest.mark.parametrize("across", [2, 5, 9])
def test_three_grids_share_places_and_scales(across: int) -> None:
    first = [head(0, at, "sink", entropy=0.9 - 0.05 * at) for at in range(across)]
    second = [head(0, at, "self", entropy=0.3) for at in range(across - 1)] + [head(1, 0, "self", entropy=None)]
    figure = pair_grids(first, second, "entropy", selected=(0, 1), beside=(0, 0))
    one, other, minus = grids_of(figure)
    assert (one.zmin, one.zmax) == (other.zmin, other.zmax) == (0, 1)
    assert -minus.zmin == minus.zmax >= np.nanmax(np.abs(np.asarray(minus.z, float)))
    values = [np.asarray(grid.z, float) for grid in (one, other, minus)]
    assert {v.shape for v in values} == {(2, across)}
    assert values[2] == pytest.approx(values[0] - values[1], nan_ok=True)
    stops = [at for at, _ in minus.colorscale]
    assert stops == [0, 0.5, 0.5, 1] and minus.colorscale[1][1].endswith(",0)"), "nothing at zero"
    ranges = {tuple(figure.layout[f"{side}axis{n}"].range) for side in "x" for n in ("", "2", "3")}
    assert len(ranges) == 1
    assert go.Figure(figure.to_dict()).layout.height == figure.layout.height, "plotly accepts it"
    assert figure.layout.height < 900


def test_names_of_schemes_and_labels_are_as_everywhere_and_never_markup() -> None:
    heads = [head(0, 0, "sink")]
    assert "RoPE" in score_grid(heads, "entropy", schemes=["rope"]).layout.yaxis.ticktext[0]
    assert (
        "2D-RoPE" in pair_grids(heads, heads, "entropy", selected=(0, 0), beside=(0, 0), schemes=["rope2d"]).to_json()
    )
    evil = [heads[0].model_copy(update={"label": "<img src=x>"})]
    drawn = pair_grids(evil, heads, "entropy", selected=(0, 0), beside=(0, 0), schemes=["<img>"])
    assert "<img" not in drawn.to_json().replace("\\u003c", "<")


def test_two_heads_over_training_are_told_apart_by_dash_and_marker() -> None:
    one, other = (fake_reports.history_content("x", [[label]]) for label in ("sink", "self"))
    figure = history_pair((one, other), ["sink.mass", "self.mass"])
    looks = [(trace.line.color, trace.line.dash, trace.marker.symbol) for trace in figure.data]
    assert len(set(looks)) == 4
    assert [trace.line.dash for trace in figure.data] == ["solid", "solid", "dash", "dash"]
    assert go.Figure(figure.to_dict()).layout.showlegend


def test_scores_that_are_compared_are_those_that_decide_either_label() -> None:
    ours, theirs = head(0, 0, "locator"), head(0, 0, "aligned")
    assert compared_scores(Matched(0, 0, ours, theirs)) == ["locator.mass", "aligned.mass"]
    assert compared_scores(Matched(0, 0, ours, ours)) == ["locator.mass"]
    assert compared_scores(Matched(0, 0, None, theirs)) == ["aligned.mass"]


def test_of_many_heads_that_only_one_report_has_a_few_are_named() -> None:
    first = [head(0, at, "sink") for at in range(9)]
    assert labels_said(match(first, first[:1])).endswith("only the first has heads 0.1, 0.2, 0.3, 0.4 and 4 more")


@pytest.mark.parametrize("digits", [2, 3, 4])
def test_a_difference_that_rounds_to_nothing_has_no_minus(digits: int) -> None:
    tiny = 10.0**-digits
    assert signed(-0.4 * tiny, digits) == signed(0.0, digits) == f"{0:.{digits}f}"
    assert signed(-2 * tiny, digits) == f"−{2 * tiny:.{digits}f}"
