"""Figures: nothing is lost between a result and what is drawn, and everything drawn can be told apart."""

import html
import json

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.attention import HeadPattern, LayerRule
from workbench.figures import (
    SCHEME_STYLES,
    LengthCurve,
    MapView,
    TokenPath,
    Tokens,
    TrainingCurve,
    attention_map,
    coordinate_path,
    coordinates_by_index,
    empty_figure,
    learned_steps,
    length_generalisation,
    row_distribution,
    scheme_style,
    training_curves,
)
from workbench.figures.attention import MASKED, TOP_CODE, encode, map_colors, mask_future
from workbench.figures.curves import thin
from workbench.figures.style import KIND_STYLES, hex_rgb, palette_rgb, weight_colorscale
from workbench.figures.tokens import axis_ticks, markup, visible

HOSTILE = [
    "<script>alert(1)</script>",
    "</script>",
    '"',
    "'",
    "\n",
    " ",
    "\u200b",
    "\u202e",
    "שלום",
    "<b>",
    "&amp;",
    "",
]


def tokens_of_length(n: int, names: list[str] | None = None) -> Tokens:
    source = np.full(n, -1)
    source[n // 2 :] = np.arange(n - n // 2)
    return Tokens(names or ["0"] * n, source, source > n // 4, np.array([0, n // 2]))


def exact_view(n: int, weights: np.ndarray | None = None) -> MapView:
    edges = np.arange(n + 1)
    part = slice(0, n)
    values = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None] if weights is None else weights
    return MapView(mask_future(values, part, part), edges, edges)


def drawn_z(figure: go.Figure) -> np.ndarray:
    return np.asarray(figure.data[0].z)


def test_repeated_token_names_lose_no_rows() -> None:
    n = 40
    figure = attention_map(exact_view(n), tokens_of_length(n), title="t")
    assert drawn_z(figure).shape == (n, n)
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert axis.type in (None, "linear")
        assert all(isinstance(at, int) for at in axis.tickvals)
        assert len(set(axis.tickvals)) == len(axis.tickvals) == len(axis.ticktext)
    assert figure.layout.xaxis.range == (-0.5, n - 0.5)
    assert figure.layout.yaxis.range == (n - 0.5, -0.5), "the first query is at the top"


def test_axes_say_which_is_query_and_which_is_key() -> None:
    figure = attention_map(exact_view(5), tokens_of_length(5), title="t")
    assert "key" in figure.layout.xaxis.title.text
    assert "query" in figure.layout.yaxis.title.text


def test_the_colour_range_is_fixed_whatever_the_weights() -> None:
    faint = attention_map(exact_view(8, np.full((8, 8), 0.01)), tokens_of_length(8), title="t")
    assert (faint.data[0].zmin, faint.data[0].zmax) == (0, 1)


def test_future_keys_are_not_painted_but_zero_weights_are() -> None:
    z = drawn_z(attention_map(exact_view(6, np.zeros((6, 6))), tokens_of_length(6), title="t"))
    assert np.array_equal(np.isnan(z), np.triu(np.ones((6, 6), bool), 1))


@pytest.mark.parametrize("scale", ["sqrt", "linear"])
@pytest.mark.parametrize("palette", ["cividis", "viridis"])
def test_colour_scales_run_from_end_to_end(scale: str, palette: str) -> None:
    stops = weight_colorscale(palette, scale)
    at = [stop for stop, _ in stops]
    assert at[0] == 0
    assert at[-1] == 1
    assert at == sorted(at)
    go.Heatmap(z=[[0, 1]], colorscale=stops)


def test_the_square_root_scale_gives_a_faint_weight_a_tenth_of_the_range() -> None:
    ramp = palette_rgb("cividis", 64)
    at = [stop for stop, _ in weight_colorscale("cividis", "sqrt")]
    reached = int(np.searchsorted(at, 0.01))
    assert reached == pytest.approx(6.3, abs=1)
    assert ramp[reached] != ramp[0]


def test_the_pooled_bar_reads_weights_and_leaves_the_masked_code_unpainted() -> None:
    colors = map_colors("sqrt", "viridis", pooled=True)
    assert colors["zmax"] == MASKED
    assert colors["colorscale"][-1] == (1.0, "rgba(0,0,0,0)")
    for at, text in zip(colors["colorbar"]["tickvals"], colors["colorbar"]["ticktext"], strict=True):
        assert (at / TOP_CODE) ** 2 == pytest.approx(float(text))


@given(st.integers(1, 6), st.data())
def test_codes_keep_weights_to_a_step_and_never_lose_a_positive_one(n: int, data: st.DataObject) -> None:
    weights = np.array(data.draw(st.lists(st.floats(0, 1, width=32), min_size=n * n, max_size=n * n))).reshape(n, n)
    edges = np.arange(n + 1)
    codes = encode(weights, edges, edges)
    future = np.triu(np.ones((n, n), bool), 1)
    assert (codes[future] == MASKED).all()
    assert (codes[~future] <= TOP_CODE).all()
    assert np.abs((codes[~future] / TOP_CODE) ** 2 - weights[~future]).max() <= 2 / TOP_CODE
    assert (codes[~future & (weights > 1e-8)] > 0).all()


def test_max_pooling_keeps_a_stripe_one_token_wide() -> None:
    t, stripe = 1500, 700
    k = np.zeros((t, 4), np.float32)
    k[stripe, 0] = 12.0
    q = np.zeros((t, 4), np.float32)
    q[:, 0] = 1.0
    scores = np.where(np.tril(np.ones((t, t), bool)), q @ k.T, -np.inf)
    lse = np.log(np.exp(scores).sum(1))
    pooled = HeadPattern(q, k, lse.astype(np.float32), LayerRule("rope", 1.0)).pooled(out=100)
    codes = encode(pooled.values, pooled.row_edges, pooled.col_edges)
    column = int(np.searchsorted(pooled.col_edges, stripe, side="right")) - 1
    below = pooled.row_edges[:-1] >= stripe
    assert (codes[below, column] > 0.9 * TOP_CODE).all(), "a mean over 15 x 15 cells would leave a fifteenth"
    assert (np.delete(codes[below], column, axis=1)[:, :column] < 60).all()


def test_a_pooled_map_places_cells_where_their_tokens_are() -> None:
    rows, cols = np.array([0, 15, 30, 37]), np.array([0, 20, 37])
    view = MapView(np.zeros((3, 2), np.uint8), rows, cols)
    figure = attention_map(view, tokens_of_length(37), title="t")
    assert np.array_equal(figure.data[0].y, rows - 0.5)
    assert np.array_equal(figure.data[0].x, cols - 0.5)
    assert view.cell_size == (15, 20)


def test_the_source_overlay_stands_on_scored_rows_and_hides_on_request() -> None:
    tokens = tokens_of_length(20)
    shown = attention_map(exact_view(20), tokens, title="t", show_source=True)
    overlay = next(trace for trace in shown.data if trace.name == "true source")
    assert np.array_equal(overlay.y, np.flatnonzero(tokens.source >= 0))
    assert np.array_equal(overlay.x, tokens.source[tokens.source >= 0])
    assert overlay.marker.symbol.endswith("-open")
    hidden = attention_map(exact_view(20), tokens, title="t", show_source=False)
    assert next(trace for trace in hidden.data if trace.name == "true source").visible is False


def test_wrong_rows_are_marked() -> None:
    tokens = tokens_of_length(20)
    figure = attention_map(exact_view(20), tokens, title="t")
    marks = next(trace for trace in figure.data if trace.name == "wrong prediction")
    assert np.array_equal(marks.y, np.flatnonzero(tokens.wrong))


def test_a_long_overlay_is_thinned() -> None:
    n = 20_000
    edges = np.linspace(0, n, 769).astype(int)
    view = MapView(np.zeros((768, 768), np.uint8), edges, edges)
    figure = attention_map(view, tokens_of_length(n), title="t")
    assert len(figure.data[1].x) < 1000
    assert len(json.dumps(figure.to_plotly_json(), default=str)) < 1_500_000


def test_the_bars_of_a_row_are_its_weights_and_the_source_stands_out() -> None:
    tokens = tokens_of_length(20)
    weights = np.linspace(0, 0.3, 16)
    figure = row_distribution(15, weights, tokens, title="t")
    bars = figure.data[0]
    assert np.allclose(bars.y, weights)
    assert np.array_equal(bars.x, np.arange(16))
    assert len({bars.marker.color[i] for i in range(16) if i != tokens.source[15]}) == 1
    assert bars.marker.color[tokens.source[15]] != bars.marker.color[0]
    assert figure.layout.yaxis.range == (0, 1.08)


def test_a_row_of_small_weights_ends_its_axis_early_and_says_so() -> None:
    figure = row_distribution(15, np.linspace(0, 0.013, 16), tokens_of_length(20), title="t")
    assert figure.layout.yaxis.range == pytest.approx((0, 0.02 * 1.08))
    assert figure.layout.yaxis.title.text == "weight, up to 0.02"
    assert max(figure.layout.yaxis.tickvals) == 0.02


def test_bars_of_a_long_row_keep_the_highest_weight() -> None:
    weights = np.zeros(5000)
    weights[3210] = 0.7
    figure = row_distribution(4999, weights, tokens_of_length(5000), title="t")
    assert len(figure.data[0].y) <= 260
    assert max(figure.data[0].y) == 0.7
    assert "largest of" in figure.layout.xaxis.title.text


@pytest.mark.parametrize("name", HOSTILE)
def test_token_names_are_visible_and_never_markup(name: str) -> None:
    shown = visible(name)
    assert shown.strip()
    assert all(c.isprintable() or c in "\u2068\u2069" for c in shown)
    assert "<" not in markup(name)
    assert html.unescape(markup(name)) == shown


def test_hostile_tokens_reach_every_figure_escaped() -> None:
    names = HOSTILE * 2
    n = len(names)
    path = TokenPath(names, ["source"] * n, np.zeros(n), np.arange(n, dtype=float))
    figures = [
        attention_map(exact_view(n), tokens_of_length(n, names), title="t"),
        row_distribution(n - 1, np.full(n, 1 / n), tokens_of_length(n, names), title="t"),
        coordinate_path(path, title="t", column_name="c", row_name="r"),
        coordinates_by_index(path, np.zeros((n, 2)), title="t", rule_name="by line breaks"),
        learned_steps(path, np.zeros((n, 2)), title="t"),
    ]
    for figure in figures:
        text = figure.to_json()
        assert "<script" not in text.lower().replace("\\u003c", "<")
        assert "</script" not in text.lower().replace("\\u003c", "<")


def test_right_to_left_names_are_isolated() -> None:
    assert visible("שלום").startswith("\u2068")
    assert visible("\u202e") == "\\u202e"


@given(
    st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))), st.integers(4, 60), st.data()
)
def test_ticks_fit_their_room_and_lie_inside(shape: tuple[int, int], room: int, data: st.DataObject) -> None:
    n, first = shape
    last = data.draw(st.integers(first + 1, n))
    always = data.draw(st.lists(st.integers(0, n - 1), max_size=8))
    ticks = axis_ticks(["0"] * n, first, last, room, always=always)
    at = ticks["tickvals"]
    assert at == sorted(set(at))
    assert all(first <= position < last for position in at)
    assert len(at) <= room + 1
    assert all(str(position) in text for position, text in zip(at, ticks["ticktext"], strict=True))


def test_every_registered_scheme_has_a_style_of_its_own() -> None:
    from models.positions import ALTERNATIONS, SCHEMES

    combined = {"+".join(parts) for parts in ALTERNATIONS.values()}
    assert set(SCHEMES) | combined <= set(SCHEME_STYLES)
    looks = list(SCHEME_STYLES.values())
    assert len({(s.color, s.dash) for s in looks}) == len(looks)
    assert len({(s.color, s.marker) for s in looks}) == len(looks)
    assert len({s.marker for s in looks}) == len(looks), "the marker alone names the scheme, without colour"
    for style in looks:
        go.Scatter(line={"dash": style.dash}, marker={"symbol": style.marker})
    assert scheme_style("rope+alibi").label == "RoPE + ALiBi"


@pytest.mark.parametrize("background", ["#ffffff", "#171b1f"])
def test_traces_have_contrast_on_both_themes(background: str) -> None:
    colors = [s.color for s in SCHEME_STYLES.values()] + [s.color for s in KIND_STYLES.values()]
    for color in colors:
        low, high = sorted((luminance(color), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 3, color


def luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(hex_rgb(color)) / 255]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def length_curve(run: str, distribution: str, scheme: str = "rope2d") -> LengthCurve:
    lengths = np.array([25, 50, 100, 200])
    share = np.array([1.0, 0.9, 0.4, 0.0])
    return LengthCurve(run, scheme, distribution, lengths, share, share * 0.9, share * 0.9 + 0.1, np.full(4, 20))


@pytest.mark.parametrize("trained", [[(1, 50)], [(1, 20), (1, 100)]])
def test_the_end_of_training_is_named_above_the_curves_and_covers_nothing(trained: list[tuple[int, int]]) -> None:
    figure = length_generalisation([length_curve("a", "uniform")], trained, ["uniform"], title="t")
    labels = [note for note in figure.layout.annotations if "trained" in note.text]
    assert labels and all(note.yref == "paper" and note.yanchor == "bottom" for note in labels)
    assert all(note.y >= figure.layout.yaxis.domain[1] for note in labels)
    assert [note.x for note in labels] == [np.log10(max(high for _, high in trained))]


def test_length_curves_share_fixed_axes_and_shade_the_training_range() -> None:
    names = ["uniform", "imbalanced"]
    curves = [length_curve(run, name) for run in ("a", "b") for name in names]
    figure = length_generalisation(curves, [(1, 50)], names, title="t")
    for number in ("", "2"):
        assert figure.layout[f"xaxis{number}"].type == "log"
        assert figure.layout[f"yaxis{number}"].range == (-0.04, 1.04)
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert [shape.x1 for shape in figure.layout.shapes] == [50, 50]
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [trace.name for trace in lines] == ["a", "a", "b", "b"]
    assert lines[0].line.color == lines[2].line.color == scheme_style("rope2d").color
    assert lines[0].marker.symbol != lines[2].marker.symbol, "two runs of a scheme can be told apart"
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert np.array_equal(bands[0].y[:4], curves[0].high)


def test_training_curves_draw_loss_and_exact_match_of_every_run() -> None:
    steps = np.arange(1, 11)
    curves = [TrainingCurve(run, "rope", steps, 1 / steps, steps[::5], steps[::5] / 10) for run in ("a", "b")]
    figure = training_curves(curves, title="t")
    assert len(figure.data) == 4
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis2.range == (-0.04, 1.04)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=3000))
def test_thinning_keeps_ends_and_extremes(values: list[float]) -> None:
    y = np.array(values)
    x = np.arange(len(y))
    kept_x, kept_y = thin(x, y, 100)
    assert len(kept_x) <= max(len(x) if len(x) <= 100 else 102, 1)
    assert (kept_x[0], kept_x[-1]) == (0, len(x) - 1)
    assert kept_y.max() == y.max()
    assert kept_y.min() == y.min()
    assert np.array_equal(y[kept_x], kept_y)


def test_paths_put_rows_downwards_and_compare_on_the_same_ranges() -> None:
    near = TokenPath(list("abcd"), ["source"] * 4, np.array([0, 0, 1, 1.0]), np.array([0, 1, 0, 1.0]))
    far = TokenPath(list("abcd"), ["source"] * 4, np.zeros(4), np.arange(4) * 10.0)
    first = coordinate_path(near, title="t", column_name="c", row_name="r", beside=far)
    second = coordinate_path(far, title="t", column_name="c", row_name="r", beside=near)
    assert first.layout.yaxis.range[0] > first.layout.yaxis.range[1]
    assert first.layout.xaxis.range == second.layout.xaxis.range
    assert first.layout.yaxis.range == second.layout.yaxis.range


def test_every_token_of_a_path_is_drawn_once() -> None:
    kinds = ["prefix", "source", "source", "separator", "delimiter", "copy", "copy"]
    path = TokenPath(["0"] * 7, kinds, np.zeros(7), np.arange(7.0))
    figure = coordinate_path(path, title="t", column_name="c", row_name="r")
    drawn = sorted(at for trace in figure.data[1:] for at in trace.customdata)
    assert drawn == list(range(7))


def test_a_long_string_is_thinned_but_keeps_its_anchors_and_every_dip() -> None:
    n = 20_000
    kinds = ["prefix"] * 2 + ["source"] * 9998 + ["separator"] + ["copy"] * 9999
    steps = np.full((n, 2), 0.99)
    steps[10_000] = 0.01
    steps[777, 1] = 0.5
    path = TokenPath(["0"] * n, kinds, np.zeros(n), np.arange(n, dtype=float))
    figure = learned_steps(path, steps, title="t")
    assert len(figure.data[0].x) < 6000
    assert min(figure.data[0].y) == 0.01
    assert 777 in figure.data[1].x
    drawn = coordinate_path(path, title="t", column_name="c", row_name="r")
    assert [trace.name for trace in drawn.data[1:]] == ["prefix A", "source string", "separator B1", "copy"]
    assert len(drawn.to_json()) < 400_000


def test_an_empty_figure_says_why() -> None:
    assert empty_figure("nothing yet").layout.annotations[0].text == "nothing yet"


def test_every_figure_is_one_that_plotly_accepts() -> None:
    """Layouts are put together without plotly's validation, which is made up for here."""
    n = 30
    tokens = tokens_of_length(n)
    figures = [
        attention_map(exact_view(n), tokens, title="t", pinned=3),
        attention_map(exact_view(n), tokens, title="t", extent=(slice(2, 9), slice(0, 5))),
        row_distribution(n - 1, np.full(n, 1 / n), tokens, title="t"),
        empty_figure("nothing"),
    ]
    for figure in figures:
        again = go.Figure(figure.to_dict())
        assert again.layout.title.text == figure.layout.title.text
        assert "colorway" not in json.dumps(figure.to_dict()["layout"].get("template", {})), "no default template"


def test_a_map_is_cut_to_the_part_in_sight_where_its_cells_reach_further() -> None:
    edges = np.arange(0, 101, 10)
    view = MapView(encode(np.ones((10, 10)), edges, edges), edges, edges)
    figure = attention_map(view, tokens_of_length(100), title="t", extent=(slice(13, 88), slice(4, 95)))
    assert tuple(figure.layout.yaxis.range) == (87.5, 12.5)
    assert tuple(figure.layout.xaxis.range) == (3.5, 94.5)
    assert drawn_z(figure).shape == (10, 10)
