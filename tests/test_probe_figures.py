"""Figures of probes and of score space: nothing is lost, ranges are fixed, and shapes tell apart what colours do."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from analyses.estimates import Estimates
from analyses.labels import RULES
from analyses.probes import ProbeResults
from analyses.readings import Site, Target
from analyses.space import SCORES, HeadPoint, score_space
from workbench.figures.probes import finding, probe_map
from workbench.figures.space import LABEL_STYLES, head_space
from workbench.figures.style import hex_rgb

SITES = (
    Site("blocks.0.hook_resid_pre", 0),
    Site("blocks.0.attn.hook_z", 0, 0),
    Site("blocks.0.attn.hook_z", 0, 1),
    Site("blocks.0.hook_resid_post", 0),
)
TARGETS = (
    Target("index", "copy", ("column", "distance to B1", "distance to B2")),
    Target("distance to A1", "copy", ("distance to A2",)),
    Target("index", "source"),
    Target("row", "both"),
)


def estimates(value: np.ndarray, width: float = 0.05, chance: float = -0.1) -> Estimates:
    counts = np.full(value.shape, 7)
    return Estimates(value, value - width, value + width, 100 * counts, counts, np.full(value.shape, chance))


def results(inside: np.ndarray | None = None, beyond: np.ndarray | None = None) -> ProbeResults:
    random = np.random.default_rng(0).uniform(-1, 1, (4, 4))
    groups = ((8,), (12, 14), (20,), (30, 40))
    first, second = (estimates(random if value is None else value) for value in (inside, beyond))
    return ProbeResults("linear", SITES, TARGETS, first, second, groups, {})


def cells(figure: go.Figure, panel: int) -> tuple[np.ndarray, list[list[str]], np.ndarray]:
    """Values, texts and hover texts of the columns that hold targets."""
    heatmap = figure.data[panel]
    z = np.asarray(heatmap.z, float)
    kept = np.flatnonzero(~np.isnan(z).all(0))
    return z[:, kept], np.asarray(heatmap.text)[:, kept].tolist(), np.asarray(heatmap.customdata)[:, kept]


def test_every_value_is_drawn_in_both_panels_on_one_fixed_scale() -> None:
    found = results(beyond=np.linspace(-1, 1, 16).reshape(4, 4))
    figure = probe_map(found)
    for panel, regime in enumerate(("inside", "beyond")):
        np.testing.assert_array_equal(cells(figure, panel)[0], found.regime(regime).value)
        assert (figure.data[panel].zmin, figure.data[panel].zmax) == (0, 1)
    assert figure.layout.yaxis.ticktext == tuple(site.name for site in SITES)
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1], "the first site is at the top"


def test_cells_say_what_is_read_and_what_is_not_sure() -> None:
    value = np.array([[0.97, 0.03, -0.4, -1.0]] * 4)
    _, texts, hover = cells(probe_map(results(value)), 0)
    assert texts[0] == ["0.97", "(0.03)", "≤ 0", "≤ 0"]
    for part in (
        "head 0.0",
        "copy rows",
        "and so column, distance to B1, B2",
        "0.970 [0.920, 1.020]",
        "shuffled",
        "700",
    ):
        assert part in hover[1, 0]


def test_a_value_above_zero_that_shuffled_labels_reach_too_is_in_brackets() -> None:
    found = replace(results(), inside=estimates(np.full((4, 4), 0.3), chance=0.4))
    assert {text for row in cells(probe_map(found), 0)[1] for text in row} == {"(0.30)"}


def test_ticks_stand_under_their_columns_and_kinds_of_rows_are_apart() -> None:
    figure = probe_map(results())
    edges = np.asarray(figure.data[0].x)
    for at, tick in zip(figure.layout.xaxis.tickvals, figure.layout.xaxis.ticktext, strict=True):
        column = int(np.searchsorted(edges, at)) - 1
        assert tick.replace("<br>", " ") in figure.data[0].customdata[0][column]
    widths = np.diff(edges)
    assert (widths[[2, 4]] < 0.5).all()
    assert np.allclose(widths[[0, 1, 3, 5]], 1)
    assert np.isnan(np.asarray(figure.data[0].z)[:, [2, 4]]).all()


def test_the_title_says_where_the_index_is_read() -> None:
    inside, beyond = np.full((4, 4), -0.2), np.full((4, 4), -0.2)
    assert finding(results(inside, beyond)) == "No site tells which token is copied (linear probe)"
    inside[2, 0] = 0.9
    assert "head 0.1: R² 0.90 on held-out lengths, not at all on longer ones" in finding(results(inside, beyond))
    beyond[2, 0] = 0.5
    figure = probe_map(results(inside, beyond))
    assert "0.50 on longer ones" in figure.layout.title.text
    assert probe_map(results(), title="mine").layout.title.text == "mine"


def test_panels_name_the_lengths() -> None:
    headings = [annotation.text for annotation in probe_map(results()).layout.annotations[:2]]
    assert "12–20 held out" in headings[0]
    assert "8–14 teach, 20–40 test" in headings[1]


# ---------------------------------------------------------------------- score space


def points(n: int = 12, runs: int = 2, labels: bool = True, name: str = "run") -> list[HeadPoint]:
    random = np.random.default_rng(0)
    kinds = ("locator", "look-back(2)", "mixed")
    found = []
    for i in range(n):
        own = i % 3
        scores = {score: float(m % 3 == own) + 0.05 * random.normal() for m, score in enumerate(SCORES)}
        found.append(HeadPoint(f"{name}{i % runs}", i // 4, i // runs, scores, kinds[own] if labels else None))
    return found


def heads_drawn(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.mode == "markers+text"]


def test_every_head_is_drawn_once_with_the_shape_and_colour_of_its_label() -> None:
    space = score_space(points())
    traces = heads_drawn(head_space(space))
    assert [trace.name for trace in traces] == ["locator", "look-back", "mixed"]
    drawn = sorted((x, y) for trace in traces for x, y in zip(trace.x, trace.y, strict=True))
    assert drawn == sorted(map(tuple, space.coordinates[:, :2].tolist()))
    for trace in traces:
        assert (trace.marker.color, trace.marker.symbol) == LABEL_STYLES[trace.name]


def test_every_label_of_the_rules_has_a_shape_of_its_own() -> None:
    assert set(LABEL_STYLES) == {rule.label for rule in RULES}
    assert len({symbol for _, symbol in LABEL_STYLES.values()}) == len(LABEL_STYLES)
    assert len({color for color, _ in LABEL_STYLES.values()}) == len(LABEL_STYLES)


def test_all_loadings_are_drawn_on_a_fixed_axis() -> None:
    space = score_space(points())
    figure = head_space(space)
    loadings = [trace for trace in figure.data if trace.name and trace.name.startswith("component")]
    for component, trace in enumerate(loadings):
        np.testing.assert_array_equal(trace.x, space.loadings[component])
    assert len({trace.marker.symbol for trace in loadings}) == 2
    assert figure.layout.yaxis2.ticktext == space.scores
    assert figure.layout.xaxis2.range == (-1.08, 1.08)


def test_the_title_says_how_heads_fall_together() -> None:
    assert "12 heads of 2 runs fall into 3 clusters" in head_space(score_space(points())).layout.title.text
    assert "adjusted Rand index of 1.00" in head_space(score_space(points())).layout.title.text
    assert "Rand" not in head_space(score_space(points(labels=False))).layout.title.text
    assert "no clusters" in head_space(score_space(points(3, 1))).layout.title.text


@pytest.mark.parametrize("n", [1, 2, 3, 150])
def test_any_number_of_heads_makes_a_figure(n: int) -> None:
    figure = head_space(score_space(points(n, 1)))
    assert sum(len(trace.x) for trace in heads_drawn(figure)) == (n if n > 1 else 0)
    figure.to_json()


def test_names_of_heads_do_not_lie_on_each_other() -> None:
    space = score_space(points(150, 1))
    named = sum(text != "" for trace in heads_drawn(head_space(space)) for text in trace.text)
    assert 3 <= named < 60


def test_names_of_runs_are_no_markup() -> None:
    figure = head_space(score_space(points(name="<b>&run")))
    texts = [text for trace in heads_drawn(figure) for text in trace.customdata]
    assert all("<b>&run" not in text and "&lt;b&gt;&amp;run" in text for text in texts)


@pytest.mark.parametrize("background", ["#ffffff", "#171b1f"])
def test_markers_have_contrast_on_both_themes(background: str) -> None:
    for color, _ in LABEL_STYLES.values():
        low, high = sorted((luminance(color), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 3, color


def luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(hex_rgb(color)) / 255]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))
