"""Auto-2D coordinates: the scan against the recurrence of [C2D] appendix F, token by token."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.errors import UsageError
from models.positions import Auto2D, Places, build_scheme, compose_steps, parse_scheme


def build(**fields: object) -> Auto2D:
    scheme = build_scheme(parse_scheme({"scheme": "auto2d"} | fields), d_model=6, d_head=8, n_heads=2, layer=0)
    assert isinstance(scheme, Auto2D)
    return scheme


def slow_compose(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Columns and rows before each token's own step, in a loop."""
    column = row = torch.zeros_like(u[:, 0])
    columns, rows = [], []
    for t in range(u.shape[1]):
        columns.append(column)
        rows.append(row)
        column = u[:, t] * column + v[:, t]
        row = row + (1 - u[:, t])
    return torch.stack(columns, dim=1), torch.stack(rows, dim=1)


def random_steps(n_strings: int, n_tokens: int, low: float = 0.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    u = low + (1 - low) * torch.rand(n_strings, n_tokens, generator=generator, dtype=torch.float64)
    return u, torch.rand(n_strings, n_tokens, generator=generator, dtype=torch.float64)


@given(n_tokens=st.integers(1, 70), low=st.sampled_from([0.0, 0.9, 0.999]), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_the_scan_equals_the_loop(n_tokens: int, low: float, seed: int) -> None:
    u, v = random_steps(2, n_tokens, low, seed)
    for scanned, looped in zip(compose_steps(u, v), slow_compose(u, v), strict=True):
        assert scanned.dtype == torch.float32
        torch.testing.assert_close(scanned, looped.float(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_tokens", [2, 3, 8, 33])
def test_gradients_of_the_scan_equal_the_loops(n_tokens: int) -> None:
    weights = torch.randn(2, 2, n_tokens, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = []
    for compose in (compose_steps, slow_compose):
        u, v = (part.requires_grad_() for part in random_steps(2, n_tokens, 0.5))
        column, row = compose(u, v)
        (column.double() * weights[0] + row.double() * weights[1]).sum().backward()
        assert u.grad is not None
        assert v.grad is not None
        gradients.append((u.grad, v.grad))
    for scanned, looped in zip(*gradients, strict=True):
        torch.testing.assert_close(scanned, looped, rtol=1e-6, atol=1e-6)


def test_gradients_stay_finite_where_steps_saturate() -> None:
    u = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]], requires_grad=True)
    v = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0, 1.0]], requires_grad=True)
    column, row = compose_steps(u, v)
    (column.sum() + row.sum()).backward()
    assert u.grad is not None
    assert v.grad is not None
    assert u.grad.isfinite().all()
    assert v.grad.isfinite().all()


def test_full_steps_count_columns_and_no_steps_start_rows() -> None:
    n = 10_000
    ones, zeros = torch.ones(1, n), torch.zeros(1, n)
    column, row = compose_steps(ones, ones)
    assert torch.equal(column[0], torch.arange(float(n)))
    assert torch.equal(row, zeros)
    column, row = compose_steps(zeros, zeros)
    assert torch.equal(column, zeros)
    assert torch.equal(row[0], torch.arange(float(n)))


@given(st.lists(st.booleans(), min_size=1, max_size=50))
@settings(deadline=None)
def test_steps_of_zero_or_one_are_rows_and_columns_by_the_line_break(breaks: list[bool]) -> None:
    is_break = torch.tensor([breaks])
    step = (~is_break).float()
    column, row = compose_steps(step, step)
    by_rule = Places(is_break.long(), newline=1).row_column.float()
    assert torch.equal(torch.stack([row, column], dim=-1), by_rule)


def test_coordinates_are_row_then_column_like_2d_ropes() -> None:
    places = Places(torch.tensor([[0, 0, 1, 0, 1, 0, 0]]), newline=1)
    step = (places.tokens != 1).float()
    coords = build().coordinates(places, torch.stack([step, step], dim=-1))
    assert torch.equal(coords, places.row_column.float())


@pytest.mark.parametrize("theta", [1e-4, 1.0, 100.0])
def test_coordinates_between_whole_numbers_are_turned_by_the_unreduced_frequency(theta: float) -> None:
    coords = torch.tensor([[[0.3, 7.7]]])
    row, column = coords.double()[0, 0]
    frequency = theta ** (-torch.arange(2, dtype=torch.float64) / 2)  # theta^(-4j/d_head) at d_head 8
    expected = torch.cat([row * frequency, column * frequency])
    factors = build(theta=theta).rotation(coords, whole=False)[0, 0]
    torch.testing.assert_close(factors, torch.polar(torch.ones_like(expected), expected).to(factors.dtype))


@pytest.mark.parametrize(("u", "v"), [(0.9, 1.0), (0.5, 0.25), (0.99, 0.3)])
def test_a_column_that_never_resets_saturates(u: float, v: float) -> None:
    column, row = compose_steps(torch.full((1, 4000), u), torch.full((1, 4000), v))
    assert column[0, -1].item() == pytest.approx(v / (1 - u), rel=1e-5)
    assert (column[0].diff() >= -1e-5).all()
    assert row[0, -1].item() == pytest.approx(3999 * (1 - u), rel=1e-5)


def test_long_strings_do_not_accumulate_rounding() -> None:
    u = torch.full((1, 100_000), 1 - 1e-5)
    column, row = compose_steps(u, torch.full((1, 100_000), 0.7))
    exact_u = float(u[0, 0])
    index = torch.arange(100_000, dtype=torch.float64)
    expected = float(torch.tensor(0.7)) * (1 - exact_u**index) / (1 - exact_u)
    torch.testing.assert_close(column[0].double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(row[0].double(), index * (1 - exact_u), rtol=1e-6, atol=1e-6)


def test_a_token_moves_its_successors_only() -> None:
    u, v = random_steps(1, 12)
    before = compose_steps(u, v)
    u[0, 5], v[0, 5] = 0.123, 0.456
    for old, new in zip(before, compose_steps(u, v), strict=True):
        assert torch.equal(old[0, :6], new[0, :6])
        assert (old[0, 6:] != new[0, 6:]).any()


@pytest.mark.parametrize("left", [True, False])
def test_pads_do_not_move_whatever_they_hold(left: bool) -> None:
    scheme = build()
    steps = torch.stack(random_steps(3, 9), dim=-1).float()
    lengths = [9, 4, 1]
    mask = torch.tensor([[(t < 9 - n) if left else (t >= n) for t in range(9)] for n in lengths])
    places = Places(torch.zeros(3, 9, dtype=torch.long), mask)
    coords = scheme.coordinates(places, steps)
    for row, n in enumerate(lengths):
        real = ~mask[row]
        alone = scheme.coordinates(Places(torch.zeros(1, n, dtype=torch.long)), steps[row : row + 1, real])
        torch.testing.assert_close(coords[row, real], alone[0], rtol=0, atol=1e-6)
    other = torch.where(mask[..., None], torch.rand(3, 9, 2), steps)
    assert torch.equal(coords[~mask], scheme.coordinates(places, other)[~mask])


def test_pads_pass_no_gradient() -> None:
    scheme = build()
    steps = torch.stack(random_steps(1, 6), dim=-1).float().requires_grad_()
    mask = torch.tensor([[True, False, False, True, False, True]])
    scheme.coordinates(Places(torch.zeros(1, 6, dtype=torch.long), mask), steps).sum().backward()
    assert steps.grad is not None
    assert (steps.grad[mask] == 0).all()
    assert (steps.grad[0, 1:3] != 0).all()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("reads", ["normed", "raw"])
def test_steps_are_scaled_sigmoids_of_what_the_setting_names(alpha: float, reads: str) -> None:
    scheme = build(alpha=alpha, reads=reads, bias_init=0.3)
    generator = torch.Generator().manual_seed(0)
    scheme.W_pos.data = torch.randn(6, 2, generator=generator)
    normed, raw = torch.randn(2, 1, 5, 6, generator=generator)
    h = {"normed": normed, "raw": raw}[reads].double()
    expected = alpha / (1 + torch.exp(-(h @ scheme.W_pos.double() + 0.3)))
    torch.testing.assert_close(scheme.steps(normed, raw), expected.float())


def test_what_a_token_holds_moves_the_tokens_after_it_and_trains_the_projection() -> None:
    scheme = build()
    scheme.W_pos.data = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    stream = torch.randn(1, 7, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
    coords = scheme.coordinates(Places(torch.zeros(1, 7, dtype=torch.long)), scheme.steps(stream, stream))
    coords[0, 4].sum().backward()
    assert stream.grad is not None
    assert stream.grad[0].abs().sum(-1).gt(0).tolist() == [True] * 4 + [False] * 3
    assert scheme.W_pos.grad is not None
    assert scheme.b_pos.grad is not None
    assert (scheme.W_pos.grad != 0).all()
    assert (scheme.b_pos.grad != 0).all()


@pytest.mark.parametrize(("field", "value"), [("alpha", 0), ("alpha", 3), ("reads", "both"), ("bias_init", 100)])
def test_settings_outside_their_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=field):
        build(**{field: value})
