"""Source strings: each distribution against its definition in [C2D] section 3.1, and the limits of unique contexts."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import TaskSettings
from models.distributions import DISTRIBUTIONS
from models.errors import UsageError


def draw(name: str, n_strings: int, length: int, seed: int = 0, **settings: object) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = {"distribution": name, "lengths": (length, length)} | settings
    return DISTRIBUTIONS[name](TaskSettings.model_validate(values), n_strings, length, generator)


def near(count: int, n: int, p: float) -> bool:
    """Is `count` of `n` within six standard deviations of probability `p`."""
    return abs(count - n * p) <= 6 * math.sqrt(n * p * (1 - p)) + 1e-9


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
@pytest.mark.parametrize("length", [1, 2, 7, 64])
@pytest.mark.parametrize("alphabet", [2, 5])
def test_shape_range_and_determinism(name: str, length: int, alphabet: int) -> None:
    strings = draw(name, 6, length, alphabet=alphabet)
    assert strings.shape == (6, length)
    assert strings.dtype == torch.long
    assert strings.min() >= 0
    assert strings.max() < alphabet
    assert torch.equal(strings, draw(name, 6, length, alphabet=alphabet))


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_every_token_occurs_and_strings_differ(name: str) -> None:
    strings = draw(name, 50, 60, alphabet=4)
    assert strings.unique().tolist() == [0, 1, 2, 3]
    assert len({tuple(row) for row in strings.tolist()}) > 40
    assert not torch.equal(strings, draw(name, 50, 60, seed=1, alphabet=4))


@pytest.mark.parametrize("alphabet", [2, 3])
def test_uniform_tokens_and_pairs_are_fair(alphabet: int) -> None:
    strings = draw("uniform", 100, 200, alphabet=alphabet)
    pairs = Counter(zip(strings[:, ::2].flatten().tolist(), strings[:, 1::2].flatten().tolist(), strict=True))
    assert len(pairs) == alphabet**2
    assert all(near(count, pairs.total(), alphabet**-2) for count in pairs.values()), pairs


@pytest.mark.parametrize("alphabet", [2, 4])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 0.95, 1.0])
def test_imbalanced_gives_token_zero_its_probability_and_the_others_the_rest(alphabet: int, p: float) -> None:
    strings = draw("imbalanced", 100, 200, alphabet=alphabet, probabilities=(p,))
    counts = strings.flatten().bincount(minlength=alphabet).tolist()
    assert near(counts[0], strings.numel(), p), counts
    assert all(near(count, strings.numel(), (1 - p) / (alphabet - 1)) for count in counts[1:]), counts


def test_imbalanced_draws_one_probability_a_string_each_equally_often() -> None:
    values = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
    strings = draw("imbalanced", 1400, 1000)
    share = (strings == 0).double().mean(1)
    distance = (share[:, None] - torch.tensor(values, dtype=torch.float64)).abs()
    assert distance.min(1).values.max() < 0.08  # five standard deviations of a share
    counts = distance.argmin(1).bincount(minlength=len(values)).tolist()
    assert all(near(count, 1400, 1 / len(values)) for count in counts), counts


@given(length=st.integers(1, 300), alphabet=st.integers(2, 5), seed=st.integers(0, 2**31))
@settings(deadline=None)
def test_recursive_flip_is_the_literal_recursion(length: int, alphabet: int, seed: int) -> None:
    string = draw("recursive-flip", 1, length, seed, alphabet=alphabet)[0].tolist()
    literal = [string[0]]
    while len(literal) < length:
        fresh = string[len(literal)]  # the draw of this round stands where s ends
        literal = [*literal, fresh, *literal]
    assert string == literal[:length]


def test_recursive_flip_draws_are_fresh_and_fair() -> None:
    strings = draw("recursive-flip", 4000, 128)
    draws = strings[:, [2**r - 1 for r in range(8)]]
    assert all(near(int(ones), 4000, 0.5) for ones in draws.sum(0))
    agree = (draws[:, :, None] == draws[:, None, :]).sum(0)
    assert all(near(int(agree[i, j]), 4000, 0.5) for i in range(8) for j in range(i)), agree


@pytest.mark.parametrize("alphabet", [2, 4])
@pytest.mark.parametrize("flip", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("period", [1, 4, 10])
def test_repeat_structure_flips_each_token_independently(alphabet: int, flip: float, period: int) -> None:
    blocks = 100
    strings = draw("repeat-structure", 60, blocks * period, alphabet=alphabet, flip=flip, period=period)
    tiles = strings.unflatten(1, (blocks, period))
    # Without the base block at hand: two tiles agree at a token where neither or both were flipped to the same token.
    agreeing = (1 - flip) ** 2 + flip**2 / (alphabet - 1)
    same = (tiles[:, ::2] == tiles[:, 1::2]).flatten()
    assert near(int(same.sum()), same.numel(), agreeing)
    if flip < 0.5:  # then the commonest token of a column is the block's own
        block = tiles.mode(1).values
        flipped = tiles != block[:, None]
        assert near(int(flipped.sum()), flipped.numel(), flip)
        whole = (~flipped).all(2)
        assert near(int(whole.sum()), whole.numel(), (1 - flip) ** period)
        counts = ((tiles - block[:, None]) % alphabet)[flipped].bincount(minlength=alphabet).tolist()[1:]
        assert all(near(count, int(flipped.sum()), 1 / (alphabet - 1)) for count in counts), counts


def test_repeat_structure_draws_another_block_for_every_string() -> None:
    strings = draw("repeat-structure", 2000, 4, flip=0.0, period=4)
    counts = Counter(map(tuple, strings.tolist()))
    assert len(counts) == 16
    assert all(near(count, 2000, 1 / 16) for count in counts.values())


def repeats(string: list[int], m: int) -> int:
    windows = [tuple(string[i : i + m]) for i in range(len(string) - m + 1)]
    return len(windows) - len(set(windows))


@pytest.mark.parametrize(
    ("alphabet", "m"), [(2, 1), (2, 2), (2, 3), (2, 5), (2, 9), (3, 1), (3, 4), (5, 2), (40, 1), (16, 2)]
)
def test_no_context_occurs_twice_up_to_the_exact_limit(alphabet: int, m: int) -> None:
    limit = alphabet**m + m - 1
    for length in sorted({1, m, m + 1, limit // 4 + 1, limit // 2 + 1, limit - 1, limit}):
        strings = draw("unique-context", 4, length, alphabet=alphabet, context=m).tolist()
        assert [len(string) for string in strings] == [length] * 4
        assert [repeats(string, m) for string in strings] == [0] * 4, length
    with pytest.raises(UsageError) as raised:
        draw("unique-context", 1, limit + 1, alphabet=alphabet, context=m)
    assert f"at most {limit} tokens" in str(raised.value)
    assert f"length {limit + 1}" in str(raised.value)


@pytest.mark.parametrize(("m", "limit"), [(1, 2), (9, 520)])
def test_the_limits_of_the_binary_alphabet(m: int, limit: int) -> None:
    assert draw("unique-context", 1, limit, context=m).shape == (1, limit)
    with pytest.raises(UsageError, match=f"at most {limit} tokens"):
        draw("unique-context", 1, limit + 1, context=m)


@pytest.mark.parametrize(
    ("alphabet", "m", "length"),
    [
        (2, 17, 100),  # too many contexts for a table
        (2, 17, 1500),
        (2, 17, 9000),  # so many tokens that redrawing repeats would not end
        (300, 3, 3000),
        (2, 64, 2000),  # contexts that fill 64 bits
        (3, 50, 2000),  # contexts beyond 64 bits
        (100_000, 1, 90_000),
        (100_000, 64, 50),
    ],
)
def test_no_context_occurs_twice_where_contexts_are_many(alphabet: int, m: int, length: int) -> None:
    for string in draw("unique-context", 2, length, alphabet=alphabet, context=m).tolist():
        assert repeats(string, m) == 0


def test_a_redrawn_repeat_is_found_by_its_tokens_not_by_chance() -> None:
    """At 2^18 contexts a uniform string of 2,000 tokens repeats about 7 of them, so repeats must be redrawn."""
    length, m = 2000, 18
    assert sum(repeats(string, m) for string in draw("uniform", 20, length).tolist()) > 50
    assert sum(repeats(string, m) for string in draw("unique-context", 20, length, context=m).tolist()) == 0


@pytest.mark.parametrize("length", [2**3 + 2, 2**3 // 2])
def test_unique_context_reaches_all_its_strings(length: int) -> None:
    """Every binary string without a repeated 3-token context can come out, at the limit and well below."""
    every = [[i >> k & 1 for k in range(length)] for i in range(2**length)]
    possible = {tuple(string) for string in every if repeats(string, 3) == 0}
    drawn = {tuple(string) for string in draw("unique-context", 1500, length, context=3).tolist()}
    assert drawn == possible
