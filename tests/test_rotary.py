"""Rotary details: the layout of planes, frequencies and their reduction, partial and random schemes."""

import math

import mpmath
import numpy as np
import pytest
import torch

from models.errors import UsageError
from models.positions import Scheme, build_scheme, geometric_frequencies, parse_scheme, rotate


def build(name: str, d_head: int = 16, layer: int = 0, **fields: object) -> Scheme:
    return build_scheme(parse_scheme({"scheme": name} | fields), d_model=8, d_head=d_head, n_heads=2, layer=layer)


def factors(scheme: Scheme, *coords: float | tuple[float, ...]) -> torch.Tensor:
    rows = [coord if isinstance(coord, tuple) else (coord,) for coord in coords]
    turned = scheme.rotation(torch.tensor([rows]), whole=False)
    assert turned is not None
    return turned[0]


def angle_between(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left * right.conj()).angle().abs()


def test_a_plane_is_an_adjacent_pair_turned_anticlockwise() -> None:
    x = torch.zeros(1, 1, 1, 6)
    x[..., 2] = 1.0  # the first dimension of plane 1
    quarter = torch.polar(torch.ones(1, 1, 3), torch.tensor([[[0.1, math.pi / 2, 0.2]]]))
    torch.testing.assert_close(rotate(x, quarter)[0, 0, 0], torch.tensor([0.0, 0, 0, 1, 0, 0]), atol=1e-7, rtol=0)


def test_turning_keeps_lengths_composes_and_turns_every_head_alike() -> None:
    scheme = build("rope")
    x = torch.randn(1, 2, 3, 16, generator=torch.Generator().manual_seed(0))
    x[:, :, 1] = x[:, :, 0]
    one = factors(scheme, 3.0, 5.0)[None]
    turned = rotate(x, one)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], turned[:, :, 1])
    torch.testing.assert_close(
        rotate(turned, factors(scheme, 4.0, -5.0)[None]), rotate(x, factors(scheme, 7.0, 0.0)[None])
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_queries_are_turned_in_float32_and_keep_their_dtype(dtype: torch.dtype) -> None:
    x = torch.randn(1, 2, 3, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    one = factors(build("rope"), 3.0, 5.0)[None]
    turned = rotate(x, one)
    assert turned.dtype == dtype
    assert torch.equal(turned, rotate(x.float(), one).to(dtype))


def test_turning_is_differentiable() -> None:
    one = factors(build("rope", d_head=4), 3.0, 5.0)[None]
    x = torch.randn(1, 2, 1, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.randn(1, 2, 1, 4, generator=torch.Generator().manual_seed(1))
    (rotate(x, one) * weights).sum().backward()
    torch.testing.assert_close(x.grad, rotate(weights, one.conj()))  # the transpose of a rotation


@pytest.mark.parametrize("theta", [1e-30, 1e-12, 1e-4, 1.0, 100.0, 10_000.0, 1e12, 1e30])
@pytest.mark.parametrize("n", [1, 3, 64])
def test_frequencies_are_the_nearest_floats(theta: float, n: int) -> None:
    with mpmath.workdps(90):
        exact = [mpmath.mpf(theta) ** (-mpmath.mpf(j) / n) for j in range(n)]
        assert geometric_frequencies(theta, n, reduced=False).tolist() == [float(f) for f in exact]
        assert geometric_frequencies(theta, n, reduced=True).tolist() == [float(f % (2 * mpmath.pi)) for f in exact]


def test_frequencies_handed_out_are_copies() -> None:
    geometric_frequencies(50.0, 4, reduced=True)[:] = 0
    assert geometric_frequencies(50.0, 4, reduced=True)[0] == 1


@pytest.mark.parametrize("name", ["rope", "rope2d", "auto2d"])
def test_explicit_frequencies_replace_the_base(name: str) -> None:
    given = tuple(0.1 * (j + 1) for j in range(8))
    scheme = build(name, frequencies=given)
    coords = (3.0,) if scheme.n_coords == 1 else (3.0, 3.0)
    expected = torch.polar(torch.ones(8), 3 * torch.tensor(given))
    torch.testing.assert_close(factors(scheme, coords)[0], expected)
    for wrong in (given[:-1], (*given, 1.0), ()):
        with pytest.raises(UsageError, match=f"{len(wrong)} frequencies for 8 planes"):
            build(name, frequencies=wrong)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_frequency_is_a_finite_number(bad: float) -> None:
    with pytest.raises(UsageError, match=r"frequencies\.1 ="):
        parse_scheme({"scheme": "rope", "frequencies": [1.0, bad]})


@pytest.mark.parametrize("theta", [0.0, -1.0, 1e31, float("nan")])
def test_a_base_outside_the_computable_range_is_refused(theta: float) -> None:
    with pytest.raises(UsageError, match="theta"):
        parse_scheme({"scheme": "rope", "theta": theta})


@pytest.mark.parametrize(("fraction", "turned"), [(0.0, 0), (0.25, 2), (0.5, 4), (0.99, 8), (1.0, 8)])
def test_partial_rope_turns_the_first_planes_and_leaves_the_others_untouched(fraction: float, turned: int) -> None:
    scheme = build("partial-rope", fraction=fraction, theta=2.0)
    one = factors(scheme, 1.0, 5.0, 12_345.0)
    assert torch.equal(one[:, turned:], torch.ones_like(one[:, turned:]))
    assert (angle_between(one[0, :turned], torch.ones(turned, dtype=one.dtype)) > 1e-3).all()
    x = torch.randn(1, 3, 1, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rotate(x, one[None])[..., 2 * turned :], x[..., 2 * turned :])


def test_partial_rope_of_all_planes_is_rope() -> None:
    coords = (0.0, 1.0, 1000.0)
    assert torch.equal(factors(build("partial-rope", fraction=1.0), *coords), factors(build("rope"), *coords))


def test_partial_rope_refuses_frequencies_that_its_fraction_would_contradict() -> None:
    with pytest.raises(UsageError, match="unknown field 'frequencies'"):
        parse_scheme({"scheme": "partial-rope", "frequencies": [1.0]})


@pytest.mark.parametrize("name", ["random-rope", "random-rope2d"])
def test_random_frequencies_are_uniform_and_recorded_by_seed_and_layer(name: str) -> None:
    def frequencies(**fields: int) -> np.ndarray:
        return build(name, d_head=8192, **fields).frequencies()  # type: ignore[operator]

    drawn = np.sort(frequencies(seed=1))
    assert np.array_equal(frequencies(seed=1), frequencies(seed=1))
    assert not np.isin(frequencies(seed=2), drawn).any()
    assert not np.isin(frequencies(seed=1, layer=1), drawn).any()
    assert len(np.unique(drawn)) == 4096  # d_head / 2 independent ones: rows and columns share none
    ranks = (np.arange(4096) + 0.5) / 4096
    assert np.abs(drawn / (2 * np.pi) - ranks).max() < 1.95 / math.sqrt(4096)  # Kolmogorov-Smirnov, p = .001


def test_one_period_a_plane_dealt_in_turn() -> None:
    scheme = build("periodic-rope", d_head=10, periods=(1, 4, 2))
    one = factors(scheme, *map(float, range(5)))
    turns = torch.tensor([[0, 1 / 4, 1 / 2, 0, 1 / 4]]) * torch.arange(5.0)[:, None]
    expected = torch.polar(torch.ones(5, 5), 2 * math.pi * turns)
    assert angle_between(one, expected).max() < 1e-6
    with pytest.raises(UsageError, match=r"periods\.0 = 0"):
        parse_scheme({"scheme": "periodic-rope", "periods": [0]})
    with pytest.raises(UsageError, match=r"periods\.0 = 2\.5"):
        parse_scheme({"scheme": "periodic-rope", "periods": [2.5]})
    with pytest.raises(UsageError, match="periods: 0 given"):
        parse_scheme({"scheme": "periodic-rope", "periods": []})


def test_a_cast_there_and_back_keeps_tables_and_buffers_of_the_same_name() -> None:
    scheme = build("rope", theta=1e12)
    before = factors(scheme, 999_983.0)
    names = [name for name, _ in scheme.named_buffers()]
    scheme.to(torch.bfloat16).to(torch.float32).half().double()
    assert torch.equal(before, factors(scheme, 999_983.0))
    assert [name for name, _ in scheme.named_buffers()] == names
    assert not scheme.state_dict()
