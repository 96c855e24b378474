"""Every registered scheme against its formula, and the properties all schemes share.

A scheme added to the registry is picked up by the parametrised tests; `ANGLES`, `BIASES`, `EMBEDDINGS` or
`CONTENT_ONLY` must then say by its formula what it does.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

from models.errors import UsageError
from models.positions import SCHEMES, Places, Scheme, SchemeSettings, build_scheme, parse_scheme, rotate

D_MODEL, D_HEAD, HEADS, LAYER = 12, 16, 3, 1
PLANES = D_HEAD // 2
BREAK, PAD = 7, 8
BASES = [1e-12, 1e-8, 1e-4, 1.0, 100.0, 1e4, 1e8, 1e12]

# --- what each scheme is, from its formula, in 60 digits -------------------------------------------------------------


def geometric(theta: float, n: int) -> list[mpmath.mpf]:
    return [mpmath.mpf(theta) ** (-mpmath.mpf(j) / n) for j in range(n)]


def by_row_and_column(settings: Any, coords: Sequence[float]) -> list[mpmath.mpf]:
    row, column = map(mpmath.mpf, coords)
    frequencies = geometric(settings.theta, D_HEAD // 4)  # theta^(-4j/d_head)
    return [row * f for f in frequencies] + [column * f for f in frequencies]


def partial(settings: Any, coords: Sequence[float]) -> list[mpmath.mpf]:
    turned = round(settings.fraction * PLANES)
    return [mpmath.mpf(coords[0]) * f for f in geometric(settings.theta, turned)] + [mpmath.mpf(0)] * (PLANES - turned)


def drawn(settings: Any, coords: Sequence[float]) -> list[mpmath.mpf]:
    frequencies = np.random.default_rng([settings.seed, LAYER]).uniform(0, 2 * np.pi, PLANES)
    axes = [0] * PLANES if len(coords) == 1 else [0] * (PLANES // 2) + [1] * (PLANES // 2)
    return [mpmath.mpf(coords[axis]) * mpmath.mpf(float(f)) for axis, f in zip(axes, frequencies, strict=True)]


def periodic(periods: Sequence[int], index: float, n: int) -> list[mpmath.mpf]:
    dealt = [periods[j % len(periods)] for j in range(n)]
    return [2 * mpmath.pi * (mpmath.mpf(index) % m) / m for m in dealt]


# Angle of every plane of a head at some coordinates.
ANGLES: dict[str, Callable[[Any, Sequence[float]], list[mpmath.mpf]]] = {
    "rope": lambda s, c: [mpmath.mpf(c[0]) * f for f in geometric(s.theta, PLANES)],
    "partial-rope": partial,
    "random-rope": drawn,
    "random-rope2d": drawn,
    "periodic-rope": lambda s, c: periodic(s.periods, c[0], PLANES),
    "rope2d": by_row_and_column,
    "auto2d": by_row_and_column,
}

# What is added to the score of head h, query index i and key index j.
BIASES: dict[str, Callable[[int, int, int], float]] = {
    "alibi": lambda h, i, j: -(2 ** (-8 * (h + 1) / HEADS)) * (i - j),
}


def sines(angles: list[mpmath.mpf], scale: float) -> list[float]:
    return [scale * float(f(angle)) for angle in angles for f in (mpmath.sin, mpmath.cos)]


# What is added to the embedding at index i.
EMBEDDINGS: dict[str, Callable[[Any, int], list[float]]] = {
    "learned": lambda scheme, i: scheme.W_pos[i].tolist(),
    "sinusoidal": lambda scheme, i: sines(
        [i * f for f in geometric(scheme.settings.theta, D_MODEL // 2)], scheme.settings.scale
    ),
    "periodic-sinusoidal": lambda scheme, i: sines(
        periodic(scheme.settings.periods, i, D_MODEL // 2), scheme.settings.scale
    ),
}

CONTENT_ONLY = {"nope", "local"}

every_scheme = pytest.mark.parametrize("name", list(SCHEMES))


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def build(name: str, **fields: object) -> Scheme:
    scheme = build_scheme(
        parse_scheme({"scheme": name} | fields), d_model=D_MODEL, d_head=D_HEAD, n_heads=HEADS, layer=LAYER
    )
    generator = torch.Generator().manual_seed(0)
    for parameter in scheme.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator)
    return scheme


def scores(scheme: Scheme, q: Tensor, k: Tensor, coords: Tensor, whole: bool = False) -> Tensor:
    """Float32[B, H, Q, K]: what softmax is taken of, before the mask."""
    factors = scheme.rotation(coords, whole=whole) if scheme.n_coords else None
    if factors is not None:
        q, k = rotate(q, factors), rotate(k, factors)
    scaled = torch.einsum("bqhe,bkhe->bhqk", q, k) / math.sqrt(D_HEAD)
    return scaled + scheme.bias(coords, coords) if scheme.has_bias else scaled


def queries_keys(n_tokens: int, batch: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    drawn = torch.randn(2, batch, n_tokens, HEADS, D_HEAD, generator=torch.Generator().manual_seed(seed))
    return drawn[0], drawn[1]


def tokens_of(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.long)


def coordinates_of(scheme: Scheme, places: Places, stream: Tensor | None = None) -> Tensor:
    """Coordinates of `places`; schemes that learn steps read them from `stream` [B, T, D]."""
    steps = None
    if scheme.learns_steps:
        assert stream is not None
        steps = scheme.steps(stream, stream)
    return scheme.coordinates(places, steps)


# --- parity with the formulas ----------------------------------------------------------------------------------------


def test_every_scheme_has_one_reference() -> None:
    references = [*ANGLES, *BIASES, *EMBEDDINGS, *CONTENT_ONLY]
    assert sorted(references) == sorted(SCHEMES)


@every_scheme
def test_a_scheme_says_what_it_is(name: str) -> None:
    scheme = build(name)
    coords = torch.zeros(1, 4, scheme.n_coords)
    assert scheme.at_embedding == (name in EMBEDDINGS)
    assert scheme.has_bias == (name in BIASES)
    assert (scheme.rotation(coords, whole=True) is not None) == (name in ANGLES)
    assert (scheme.n_coords == 0) == (name in CONTENT_ONLY)


@every_scheme
def test_scores_equal_the_formula_in_float64(name: str) -> None:
    scheme = build(name)
    tokens = tokens_of([[1, 2, BREAK, 3, 1, BREAK, 4, 0, 2]])
    n = tokens.shape[1]
    stream = torch.randn(1, n, D_MODEL, generator=torch.Generator().manual_seed(3))
    coords = coordinates_of(scheme, Places(tokens, newline=BREAK), stream)
    q, k = queries_keys(n)
    pairs_q = q.double().unflatten(-1, (PLANES, 2)).numpy()
    pairs_k = k.double().unflatten(-1, (PLANES, 2)).numpy()
    expected = np.zeros((HEADS, n, n))
    for i in range(n):
        for j in range(n):
            difference = (coords[0, i].double() - coords[0, j].double()).tolist()
            turn = [float(a) for a in ANGLES[name](scheme.settings, difference)] if name in ANGLES else [0.0] * PLANES
            for h in range(HEADS):
                for plane, angle in enumerate(turn):
                    x, y = pairs_q[0, i, h, plane]
                    x, y = x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)
                    expected[h, i, j] += (x * pairs_k[0, j, h, plane, 0] + y * pairs_k[0, j, h, plane, 1]) / 4
                if name in BIASES:
                    expected[h, i, j] += BIASES[name](h, i, j)
    np.testing.assert_allclose(scores(scheme, q, k, coords)[0].detach().double().numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("name", list(EMBEDDINGS))
@pytest.mark.parametrize("index", [0, 1, 5, 100, 1023])
def test_embeddings_equal_the_formula(name: str, index: int) -> None:
    scheme = build(name)
    added = scheme.embedding(torch.tensor([[[0.0], [float(index)]]]))
    assert added.shape == (1, 2, D_MODEL)
    np.testing.assert_allclose(added[0, 1].tolist(), EMBEDDINGS[name](scheme, index), rtol=0, atol=1e-8)


def with_bases(*names: str) -> list[tuple[str, dict[str, float]]]:
    return [
        (name, {"theta": base} if base is not None else {})
        for name in names
        for base in (BASES if "theta" in SCHEMES[name].Settings.model_fields else [None])
    ]


@pytest.mark.parametrize(("name", "fields"), with_bases(*ANGLES))
@pytest.mark.parametrize("position", [999_999, 1_000_000, 2**20 + 1])
def test_angles_at_a_million_are_exact(name: str, fields: dict[str, float], position: int) -> None:
    scheme = build(name, **fields)
    coords = [float(position)] * scheme.n_coords
    factors = scheme.rotation(torch.tensor([[coords]]), whole=False)
    assert factors is not None
    exact = [mpmath.expj(angle) for angle in ANGLES[name](scheme.settings, coords)]
    error = max(float(abs(mpmath.mpc(complex(f)) - e)) for f, e in zip(factors[0, 0].tolist(), exact, strict=True))
    limit = 5e-7  # the angle in float64 is off by less than 1e-9, cos and sin in float32 by the rest
    if scheme.learns_steps and fields["theta"] < 1:
        # Frequencies above 2 pi cannot be reduced where coordinates are not whole: float64 rounding is what is left.
        limit = max(limit, 4 * position / fields["theta"] ** 0.75 * 2**-53)
    assert error < limit, f"{name} {fields}: realised error {error:.2e} rad at position {position}, limit {limit:.0e}"


@pytest.mark.parametrize(("name", "fields"), with_bases("sinusoidal", "periodic-sinusoidal"))
def test_embeddings_at_a_million_are_exact(name: str, fields: dict[str, float]) -> None:
    scheme = build(name, scale=1.0, **fields)
    added = scheme.embedding(torch.tensor([[[1e6]]]))[0, 0].tolist()
    error = max(abs(x - y) for x, y in zip(added, EMBEDDINGS[name](scheme, 10**6), strict=True))
    assert error < 1e-4, f"{name} {fields}: realised error {error:.2e} at position 10^6"


# --- coordinates only through differences, precision, tables ---------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SCHEMES if name not in EMBEDDINGS])
@pytest.mark.parametrize("shift", [(1, 0), (0, 1), (7, 13), (1000, 999_000)])
def test_scores_depend_on_coordinate_differences_only(name: str, shift: tuple[int, int]) -> None:
    scheme = build(name)
    q, k = queries_keys(6)
    generator = torch.Generator().manual_seed(1)
    coords = torch.randint(0, 50, (1, 6, scheme.n_coords), generator=generator).float()
    moved = coords + torch.tensor(shift if scheme.n_coords == 2 else [sum(shift)] * scheme.n_coords).float()
    here, there = scores(scheme, q, k, coords), scores(scheme, q, k, moved)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-5)
    other = coords.clone()
    other[0, 0] += 3
    assert torch.equal(here, scores(scheme, q, k, other)) == (name in CONTENT_ONLY)  # and they do depend on them


@pytest.mark.parametrize("name", [name for name in SCHEMES if SCHEMES[name].n_coords == 2])
def test_rows_and_columns_turn_different_planes(name: str) -> None:
    scheme = build(name)
    factors = scheme.rotation(torch.tensor([[[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]]), whole=False)
    assert factors is not None
    turned = (factors[0] - 1).abs() > 1e-6
    assert turned.tolist() == [[False] * PLANES, [True] * 4 + [False] * 4, [False] * 4 + [True] * 4]


@every_scheme
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_casting_a_scheme_leaves_positions_alone(name: str, dtype: torch.dtype) -> None:
    scheme, cast = build(name), build(name).to(dtype)
    coords = torch.tensor([[[0.0] * scheme.n_coords, [999_983.0] * scheme.n_coords]])
    before, after = scheme.rotation(coords, whole=False), cast.rotation(coords, whole=False)
    if name in ANGLES:
        assert before is not None
        assert after is not None
        assert before.dtype == after.dtype == torch.complex64
        assert torch.equal(before, after)
    if name in BIASES:
        assert torch.equal(scheme.bias(coords, coords), cast.bias(coords, coords))
    if name in EMBEDDINGS and name != "learned":
        assert torch.equal(scheme.embedding(coords), cast.embedding(coords))
    stream = torch.randn(1, 2, D_MODEL)
    moved = coordinates_of(cast, Places(tokens_of([[1, 2]]), newline=BREAK), stream.to(dtype))
    assert moved.dtype == torch.float32
    assert all(parameter.dtype == dtype for parameter in cast.parameters())


@every_scheme
def test_positions_are_not_rounded_under_autocast(name: str) -> None:
    scheme = build(name)
    coords = torch.tensor([[[0.0] * scheme.n_coords, [1021.0] * scheme.n_coords]])
    stream = torch.randn(1, 2, D_MODEL, generator=torch.Generator().manual_seed(5))

    def positions() -> list[Tensor]:
        outputs = [coordinates_of(scheme, Places(tokens_of([[1, 2]]), newline=BREAK), stream)]
        if name in ANGLES:
            factors = scheme.rotation(coords, whole=False)
            assert factors is not None
            outputs += [factors, rotate(queries_keys(2)[0], factors)]
        if name in BIASES:
            outputs.append(scheme.bias(coords, coords))
        if name in EMBEDDINGS:
            outputs.append(scheme.embedding(coords))
        return outputs

    plain = positions()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = positions()
    for expected, got in zip(plain, cast, strict=True):
        assert expected.dtype == got.dtype
        assert torch.equal(expected, got)


@every_scheme
def test_tables_are_rebuilt_from_settings_not_stored(name: str) -> None:
    scheme = build(name)
    assert set(scheme.state_dict()) == {key for key, _ in scheme.named_parameters()}


@pytest.mark.parametrize("name", list(ANGLES))
def test_the_table_path_equals_the_general_path(name: str) -> None:
    scheme = build(name)
    generator = torch.Generator().manual_seed(2)
    coords = torch.randint(0, 3000, (2, 3000, scheme.n_coords), generator=generator).float()
    table, general = scheme.rotation(coords, whole=True), scheme.rotation(coords, whole=False)
    assert table is not None
    assert general is not None
    assert table.shape == (2, 3000, PLANES)
    assert torch.equal(table, general)


@pytest.mark.parametrize("name", ["periodic-rope", "periodic-sinusoidal"])
@pytest.mark.parametrize("periods", [(1,), (2, 3), (7, 1, 4), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_periodic_schemes_repeat_exactly(name: str, periods: tuple[int, ...]) -> None:
    scheme = build(name, periods=periods)
    again = math.lcm(*periods)
    index = torch.arange(60.0)[None, :, None]

    def output(coords: Tensor) -> Tensor:
        factors = scheme.embedding(coords) if scheme.at_embedding else scheme.rotation(coords, whole=False)
        assert factors is not None
        return factors

    for shift in (again, 10_000 * again):
        assert torch.equal(output(index), output(index + shift))
    if again > 1:
        assert all(not torch.equal(output(index), output(index + shift)) for shift in range(1, min(again, 60)))


# --- padding and batches ---------------------------------------------------------------------------------------------


@every_scheme
@pytest.mark.parametrize("left", [True, False])
def test_padded_and_batched_scores_equal_single_ones(name: str, left: bool) -> None:
    scheme = build(name)
    strings = [[1, BREAK, 0, 0], [0, 1, 1, BREAK, BREAK, 1, 0], [BREAK]]
    width = max(map(len, strings)) + 2
    pads = [[PAD] * (width - len(string)) for string in strings]
    tokens = tokens_of([pad + string if left else string + pad for string, pad in zip(strings, pads, strict=True)])
    mask = tokens == PAD
    stream = torch.randn(3, width, D_MODEL, generator=torch.Generator().manual_seed(4))
    q, k = queries_keys(width, batch=3)
    coords = coordinates_of(scheme, Places(tokens, mask, newline=BREAK), stream)
    whole = not scheme.learns_steps
    together = scores(scheme, q, k, coords, whole)
    added = scheme.embedding(coords) if scheme.at_embedding else None
    for row, string in enumerate(strings):
        real = (~mask[row]).nonzero()[:, 0]
        alone = coordinates_of(scheme, Places(tokens_of([string]), newline=BREAK), stream[row : row + 1, real])
        torch.testing.assert_close(coords[row, real], alone[0], rtol=0, atol=1e-6)
        single = scores(scheme, q[row : row + 1, real], k[row : row + 1, real], alone, whole)
        torch.testing.assert_close(together[row][:, real][:, :, real], single[0], rtol=0, atol=1e-5)
        if added is not None:
            assert torch.equal(added[row, real], scheme.embedding(alone)[0])


# --- bad shapes ------------------------------------------------------------------------------------------------------


def shapes(name: str) -> Callable[[int, int], Scheme]:
    settings: SchemeSettings = parse_scheme(name)
    return lambda d_head, d_model: build_scheme(settings, d_model=d_model, d_head=d_head, n_heads=1, layer=0)


@every_scheme
@pytest.mark.parametrize("d_head", [1, 2, 6, 7, 8])
def test_a_head_that_cannot_be_split_is_refused(name: str, d_head: int) -> None:
    divisor = 2 * SCHEMES[name].n_coords if name in ANGLES else 1
    if d_head % divisor == 0:
        assert shapes(name)(d_head, D_MODEL).d_head == d_head
        return
    with pytest.raises(UsageError, match=rf"d_head = {d_head} .*{name}.*divisible by {divisor}"):
        shapes(name)(d_head, D_MODEL)


@every_scheme
def test_an_odd_model_width_is_refused_by_sinusoids_only(name: str) -> None:
    if "sinusoidal" not in name:
        assert shapes(name)(D_HEAD, 5).d_model == 5
        return
    with pytest.raises(UsageError, match=r"d_model = 5 .*divisible by 2"):
        shapes(name)(D_HEAD, 5)


@pytest.mark.parametrize("index", [4.0, 1e6, -1.0])
def test_a_position_outside_the_learned_table_is_refused(index: float) -> None:
    scheme = build("learned", max_positions=4)
    assert scheme.embedding(torch.tensor([[[3.0]]])).shape == (1, 1, D_MODEL)
    with pytest.raises(UsageError, match="learned table of 4"):
        scheme.embedding(torch.tensor([[[0.0], [index]]]))


@every_scheme
@pytest.mark.parametrize("window", [0, -1])
def test_a_window_holds_at_least_one_token(name: str, window: int) -> None:
    with pytest.raises(UsageError, match=f"window = {window}"):
        parse_scheme({"scheme": name, "window": window})


def test_alibi_takes_slopes_of_its_own() -> None:
    place = torch.tensor([[[5.0]]]), torch.tensor([[[5.0], [3.0]]])
    given = build("alibi", slopes=(3.0,) * HEADS)
    assert given.bias(*place)[0, 0].tolist() == [[0.0, -6.0]]
    with pytest.raises(UsageError, match=f"{HEADS + 1} slopes for {HEADS} heads"):
        build("alibi", slopes=(3.0,) * (HEADS + 1))
    with pytest.raises(UsageError, match="slopes"):
        build("alibi", slopes=(-1.0,) * HEADS)
