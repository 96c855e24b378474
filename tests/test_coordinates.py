"""analyses/coordinates.py and what it is made of: known answers on hand-made, rule-based and hand-built placements."""

import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from analyses.collisions import NEEDED, collisions, loss, resolution
from analyses.coordinate_reading import measure_model, place
from analyses.coordinates import alignment, measure, rule_fit, scale
from analyses.placement import Placed, neighbour_gaps, placed_in
from analyses.saturation import column_after, column_bound, half_length, saturation
from models.attention import open_capture
from models.capture import capture_strings
from models.config import TaskSettings
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.positions import SCHEMES, build_scheme, compose_steps, parse_scheme
from models.recipes import parse_recipe
from models.tasks import CopyTask
from models.transformer import CopyTransformer, build_model

STRING = "0110100110010110"
RECIPE = """
name = "tiny"
[task]
a = {a}
b = {b}
separator = "{separator}"
[model]
heads = [2]
d_model = 16
d_head = 8
positions = "{positions}"
"""


def model_of(positions: str, a: int = 2, b: int = 4, separator: str = "\\n") -> tuple[CopyTransformer, CopyTask]:
    torch.manual_seed(0)
    recipe = parse_recipe(RECIPE.format(positions=positions, a=a, b=b, separator=separator))
    return build_model(recipe, torch.device("cpu")), CopyTask(recipe.task)


def by_steps(u: np.ndarray, v: np.ndarray, string: str = STRING, a: int = 2, b: int = 2) -> Placed:
    """A placement composed of given steps of every token id; A, B and EOS are ids 2 and up."""
    batch = CopyTask(TaskSettings(a=a, b=b)).encode([string])
    tokens = batch.tokens[0].numpy()
    steps = np.stack([u[tokens], v[tokens]], axis=1)
    column, row = compose_steps(*torch.from_numpy(steps)[None].unbind(-1))
    queries = np.flatnonzero(batch.loss_mask[0].numpy())
    breaks = tokens == batch.vocabulary.delimiter[0]
    rows = np.cumsum(breaks) - breaks
    start = int(np.flatnonzero(breaks)[0]) + 1
    rule = np.stack([rows, np.where(rows == 0, np.arange(len(tokens)), np.arange(len(tokens)) - start)], axis=1)
    return Placed(
        scheme="auto2d",
        coords=torch.stack([row, column], dim=-1)[0].numpy(),
        steps=steps,
        rule=rule,
        queries=queries,
        sources=batch.source_position[0].numpy()[queries],
        tokens=tokens,
        names=batch.vocabulary.names,
    )


def learned(source: float = 1.0, first: float = 1.0) -> Placed:
    """Steps of a perfect line break: u = v = 0 on ⏎, and (`source`, `first`) on the alphabet."""
    u, v = np.ones(10), np.ones(10)
    u[4], v[4] = 0.0, 0.0
    u[:2], v[:2] = source, first
    return by_steps(u, v)


# Rows and columns by rule


@pytest.mark.parametrize(("a", "b"), [(2, 4), (2, 3), (1, 5), (3, 1)])
def test_rule_based_columns_are_aligned_by_one_constant_and_fit_themselves(a: int, b: int) -> None:
    model, task = model_of("rope2d", a, b)
    [numbers] = measure_model(model, task.encode([STRING]), 0)
    assert numbers.alignment is not None and numbers.fit is not None and numbers.scale is not None
    same_row = slice(1 if b == 1 else 0, None)  # a delimiter of a line break alone leaves the first query in row 0
    assert (numbers.alignment.offset[same_row] == b - a - 2).all()
    assert numbers.alignment.row_offset is not None and (numbers.alignment.row_offset[same_row] == 1).all()
    assert numbers.alignment.deviation == numbers.alignment.drift == numbers.alignment.worst == 0
    assert numbers.alignment.slope == pytest.approx(0, abs=1e-12)
    assert numbers.fit.row is not None and numbers.fit.column is not None
    assert (numbers.fit.row.r2, numbers.fit.column.r2) == pytest.approx((1, 1))
    assert (numbers.fit.row.per_row, numbers.fit.column.per_column) == pytest.approx((1, 1))
    assert numbers.fit.missed == numbers.fit.added == []
    assert numbers.fit.starts.tolist() == [a + len(STRING) + 1]
    assert (numbers.scale.first, numbers.scale.last, numbers.scale.row_drift) == (1, 1, 0)
    assert numbers.saturation is None and "learns no steps" in numbers.reasons["saturation"]


def test_an_index_has_no_rows_and_a_constant_offset() -> None:
    model, task = model_of("rope")
    [numbers] = measure_model(model, task.encode([STRING]), 0)
    assert numbers.alignment is not None and numbers.fit is not None
    assert (numbers.alignment.offset == len(STRING) + 3).all() and numbers.alignment.worst == 0
    assert numbers.alignment.row_offset is None and numbers.fit.row is None
    assert numbers.fit.starts.tolist() == [] and numbers.fit.missed == [2 + len(STRING) + 1]


def test_without_a_line_break_the_rule_gives_one_row_and_no_fit_of_it() -> None:
    model, task = model_of("rope2d", separator="*")
    [numbers] = measure_model(model, task.encode([STRING]), 0)
    assert numbers.fit is not None and numbers.fit.row is None and numbers.fit.missed == [2 + len(STRING) + 1]


def test_a_layer_without_coordinates_says_so() -> None:
    for positions in ("nope", "learned"):
        model, task = model_of(positions)
        [numbers] = measure_model(model, task.encode([STRING]), 0)
        parts = ("alignment", "fit", "scale", "saturation", "collisions")
        assert all(getattr(numbers, part) is None for part in parts)
        assert set(numbers.reasons) == set(parts) and "no coordinates" in numbers.reasons["fit"]
    with pytest.raises(UsageError, match="no coordinates"):
        alignment(place(model, task.encode([STRING]), 0)[0])
    with pytest.raises(UsageError, match="no layer 3"):
        place(model, task.encode([STRING]), 3)


def test_a_string_of_one_token_is_measured() -> None:
    for positions in ("rope", "rope2d", "auto2d", "alibi"):
        model, task = model_of(positions)
        [numbers] = measure_model(model, task.encode(["1"]), 0)
        assert numbers.alignment is not None and numbers.alignment.drift == 0 and numbers.length == 1


def test_hand_built_models_resolve_their_columns() -> None:
    for name in ("rope2d-aligned", "rope2d-aligned-100"):
        built = CONSTRUCTIONS[name]
        [numbers] = measure_model(built.build(torch.device("cpu")), CopyTask(built.task).encode([STRING * 6]), 0)
        assert numbers.alignment is not None and numbers.alignment.worst == 0
        assert numbers.collisions is not None and not numbers.collisions.pairs.any()
        assert numbers.collisions.resolution < 1 and numbers.collisions.nearest.tolist() == [1.0] * 10
        gain, planes = (1.0, 64) if name == "rope2d-aligned" else (12.0, 64)
        assert numbers.collisions.score == pytest.approx(gain * planes, rel=1e-4)


# Learned rows and columns


def test_perfect_steps_are_the_rule() -> None:
    placed = learned()
    assert np.array_equal(placed.coords, placed.rule)
    fit = rule_fit(placed)
    assert fit.row is not None and fit.row.r2 == pytest.approx(1) and fit.missed == fit.added == []
    assert saturation(placed).bound == inf and saturation(placed).classes[0].half_at is None


def test_an_offset_that_drifts_is_measured_in_tokens() -> None:
    placed = learned()
    coords = placed.coords.copy()
    copied = np.arange(len(placed.queries))
    coords[placed.queries, 1] += 0.1 * copied
    found = alignment(replace(placed, coords=coords))
    assert found.slope == pytest.approx(0.1) and found.drift == pytest.approx(0.1 * (len(copied) - 2))
    assert found.deviation == pytest.approx(0.1 * np.arange(len(copied) - 1).std())
    assert found.worst == pytest.approx(found.drift / 2)
    halved = alignment(replace(placed, coords=coords / 2))
    assert halved.worst == pytest.approx(found.worst)  # in tokens, whatever the scale of a column


def test_rows_that_start_elsewhere_are_named() -> None:
    u, v = np.ones(10), np.ones(10)
    u[[2, 4, 5]], v[[2, 4, 5]] = 0.2, 0.0  # A1, ⏎ and B2
    fit = rule_fit(by_steps(u, v))
    n = len(STRING)
    assert fit.starts.tolist() == [1, n + 3, n + 4] and fit.by_rule.tolist() == [n + 3]
    assert fit.added == [1, n + 4] and fit.missed == []
    u[4], v[4] = 1.0, 1.0
    assert rule_fit(by_steps(u, v)).missed == [n + 3]


def test_a_column_that_saturates_ends_at_its_bound() -> None:
    u, v = np.full(10, 0.9), np.full(10, 0.8)
    u[4], v[4] = 0.0, 0.0
    placed = by_steps(u, v, "0" * 60)
    found = saturation(placed)
    [zero] = found.classes
    assert (zero.name, zero.count, zero.spread) == ("0", 60, pytest.approx(0))
    assert (zero.bound, found.bound, zero.counts_to) == pytest.approx((8, 8, 10))
    assert found.reached == pytest.approx(1, abs=0.01) and (found.columns < 8).all()
    start = float(found.columns[0])
    assert found.columns == pytest.approx(column_after(0.9, 0.8, start, np.arange(61)), abs=1e-5)
    gaps = np.diff(found.columns)
    first = int(np.flatnonzero(gaps < 0.5)[0])
    assert found.half_at == first == zero.half_at == found.half_expected
    assert scale(placed).last < 0.01 < 0.3 < scale(placed).first


def test_the_bound_of_a_mixture_lies_between_those_of_its_tokens() -> None:
    u, v = np.ones(10), np.ones(10)
    u[:2], v[:2] = (0.95, 0.8), (1.0, 0.5)
    string = "".join(np.random.default_rng(0).choice(["0", "1"], 600))
    found = saturation(by_steps(u, v, string))
    low, high = sorted(token.bound for token in found.classes)
    assert low == pytest.approx(2.5) and high == pytest.approx(20)
    assert low < found.bound < high and found.columns[100:].mean() == pytest.approx(found.bound, rel=0.05)
    with pytest.raises(UsageError, match="learns no steps"):
        saturation(replace(learned(), steps=None))


@given(st.floats(0.01, 1.5), st.floats(0.0, 2.0), st.floats(0.0, 3.0))
def test_the_half_length_is_where_the_recurrence_says(u: float, v: float, start: float) -> None:
    expected, column = half_length(u, v, start), start
    for k in range(200):
        gap = u * column + v - column
        if abs(gap - 0.5) < 1e-9:
            return
        if gap < 0.5:
            assert expected == k
            return
        column += gap
    assert expected is None or expected >= 200


def test_gates_of_one_and_more_have_no_bound() -> None:
    assert column_bound(1.0, 0.9) == column_bound(1.2, 0.1) == inf
    assert column_after(1.0, 0.5, 2.0, np.array([0, 4])).tolist() == [2.0, 4.0]


# Resolution and collisions


def test_the_resolution_is_where_the_key_has_lost_one_logit() -> None:
    frequencies = 100 ** (-np.arange(16) / 16)
    for gain in (0.2, 1.0, 30.0):
        found = resolution(frequencies, np.full(16, gain))
        assert loss(frequencies, np.full(16, gain), np.array([found]))[0] == pytest.approx(NEEDED, rel=1e-3)
        nearer = np.linspace(0, found * 0.999, 500)
        assert (loss(frequencies, np.full(16, gain), nearer) < NEEDED).all()
    one = np.array([0.5])
    assert resolution(one, np.array([1.0])) == pytest.approx(np.pi, rel=1e-6)  # 1 - cos(pi / 2) = 1 at d = pi
    assert resolution(one, np.array([0.4])) == inf  # can lose .8 logits at most
    assert resolution(np.zeros(3), np.ones(3)) == resolution(one, np.array([0.0])) == inf


@given(st.lists(st.floats(0, 50), min_size=2, max_size=40), st.floats(0.5, 5.0))
def test_collisions_are_counted_as_by_hand(columns: list[float], gain: float) -> None:
    at = np.array(columns)
    found = collisions(at, np.array([0.3, 1.0]), np.array([[0.1, 0.1], [gain, gain]]))
    assert found.head == 1 and found.lengths[-1] == len(at) - 1
    for n, pairs, neighbours in zip(found.lengths, found.pairs, found.neighbours, strict=True):
        part = at[: n + 1]
        ordered = np.sort(part)
        near = ordered[None] < ordered[:, None] + found.resolution
        assert pairs == np.triu(near, 1).sum()
        assert neighbours == (np.abs(np.diff(part)) < found.resolution).sum()
    assert found.first is None or found.first in found.lengths


def test_a_layer_that_turns_nothing_has_all_columns_in_collision() -> None:
    found = collisions(np.arange(5.0), np.zeros(2), np.ones((1, 2)))
    assert found.resolution == inf and found.pairs[-1] == 10 and found.neighbours[-1] == 4


def test_saturated_columns_collide_and_short_strings_do_not() -> None:
    u, v = np.full(10, 0.97), np.ones(10)
    placed = by_steps(u, v, "0" * 200)
    frequencies = 100 ** (-np.arange(16) / 16)
    numbers = measure(replace(placed, frequencies=frequencies, amplitudes=np.full((1, 16), 4.0)))
    assert numbers.collisions is not None and numbers.saturation is not None
    assert numbers.collisions.pairs[0] == 0 < numbers.collisions.pairs[-1]
    assert (np.diff(numbers.collisions.pairs) >= 0).all()
    found = numbers.collisions.first
    assert found is not None and found > 20
    assert numbers.collisions.nearest[0] > numbers.collisions.resolution > numbers.collisions.nearest[-1]


def test_gaps_compare_the_source_with_both_neighbours() -> None:
    keys, queries = np.eye(4), np.array([[1.0, 0, 0, 0], [0.3, 1, 0.2, 0], [0, 0, 0, 2], [5, 0, 0, 1]])
    assert neighbour_gaps(queries, keys).tolist() == pytest.approx(
        [1, 0.7, -2, 1]
    )  # the far key of row 3 plays no part


def test_an_aligned_head_beats_its_neighbours_by_what_its_frequencies_say() -> None:
    built = CONSTRUCTIONS["rope2d-aligned-100"]
    model, task = built.build(torch.device("cpu")), CopyTask(built.task)
    [placed] = place(model, task.encode([STRING * 6]), 0)
    assert placed.gaps is not None and placed.frequencies is not None and placed.amplitudes is not None
    expected = loss(placed.frequencies, placed.amplitudes[0], np.array([1.0]))[0]
    assert placed.gaps[0][1:-1] == pytest.approx(np.full(95, expected), rel=1e-3)


# Reading


@pytest.mark.parametrize("positions", ["rope", "rope2d", "auto2d", "nope", "alibi", "random-rope2d", "partial-rope"])
def test_a_capture_says_what_the_model_says(positions: str, tmp_path: Path) -> None:
    model, task = model_of(positions)
    if positions == "auto2d":
        torch.nn.init.normal_(model.blocks[0].attn.scheme.W_pos)
    batch = task.encode([STRING, "011"])
    capture_strings(model, batch, tmp_path / "capture", {})
    capture = open_capture(tmp_path / "capture")
    for index, direct in enumerate(place(model, batch, 0)):
        stored = placed_in(capture, index, 0)
        assert stored.scheme == direct.scheme == positions
        for name in ("coords", "steps", "rule", "queries", "sources", "tokens", "frequencies", "amplitudes", "gaps"):
            ours, theirs = getattr(stored, name), getattr(direct, name)
            assert (ours is None) == (theirs is None), name
            assert ours is None or np.allclose(ours, theirs, atol=1e-5), name
        assert list(stored.names) == list(direct.names)
        assert repr(measure(stored).reasons) == repr(measure(direct).reasons)


def test_an_older_capture_without_frequencies_says_what_to_do(tmp_path: Path) -> None:
    model, task = model_of("rope2d")
    capture_strings(model, task.encode([STRING]), tmp_path / "capture", {})
    capture = open_capture(tmp_path / "capture")
    for layer in capture.about["layers"]:
        del layer["frequencies"]
    numbers = measure(placed_in(capture, 0, 0))
    assert numbers.collisions is None and "capture the string again" in numbers.reasons["collisions"]
    assert numbers.alignment is not None


def test_a_capture_holds_the_frequencies_that_turn_it() -> None:
    for name in SCHEMES:
        scheme = build_scheme(parse_scheme(name), d_model=16, d_head=8, n_heads=2, layer=0)
        frequencies = getattr(scheme, "plane_frequencies", None)
        if frequencies is None:
            continue
        first = torch.tensor([[[1.0] * scheme.n_coords]])
        turned = scheme.rotation(first, whole=False)[0, 0].numpy()
        assert np.allclose(turned, np.exp(1j * frequencies), atol=1e-6), name


def test_reading_a_capture_needs_no_torch() -> None:
    code = "import sys, analyses.placement, analyses.coordinates; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent).returncode == 0
