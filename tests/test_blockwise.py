"""One pass in blocks: statistics see every row of every head once, and equal the dense pattern's."""

import numpy as np
import pytest

from models.attention import HeadPattern, LayerRule
from models.blockwise import RowBlock, accumulate, pool_max


class OneString:
    """Two layers of random heads, as `accumulate` reads a captured string."""

    def __init__(self, n: int, rule: LayerRule) -> None:
        rng = np.random.default_rng(0)
        self.heads, self.n_layers, self.tokens = (2, 1), 2, np.zeros(n, np.int64)
        self.patterns = {(0, 0): _pattern(rng, n, rule), (0, 1): _pattern(rng, n, rule), (1, 0): _pattern(rng, n, rule)}

    def head(self, layer: int, head: int) -> HeadPattern:
        return self.patterns[layer, head]


def _pattern(rng: np.random.Generator, n: int, rule: LayerRule) -> HeadPattern:
    q, k = rng.normal(size=(2, n, 4)).astype(np.float32)
    coords = np.arange(n, dtype=np.float32)[:, None]
    open_pattern = HeadPattern(q, k, np.zeros(n, np.float32), rule, coords, slope=0.3)
    scores = open_pattern.scores(slice(0, n), slice(0, n))
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(scores.astype(np.float64)).sum(1))
    return HeadPattern(q, k, np.where(np.isinf(lse), np.inf, lse).astype(np.float32), rule, coords, slope=0.3)


class Gather:
    """Keeps everything it is handed."""

    def __init__(self) -> None:
        self.blocks: list[RowBlock] = []

    def update(self, block: RowBlock) -> None:
        self.blocks.append(block)


RULES = [
    LayerRule("rope", 0.5),
    LayerRule("rope", 0.5, strict=True),
    LayerRule("rope", 0.5, window=7),
    LayerRule("alibi", 0.5, strict=True, window=3, slopes=(0.3, 0.3)),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("rows", [1, 8, 1000])
def test_every_row_of_every_head_is_handed_out_once(rule: LayerRule, rows: int) -> None:
    string, first, second = OneString(45, rule), Gather(), Gather()
    shares: list[float] = []
    accumulate(string, [first, second], rows=rows, progress=shares.append)  # type: ignore[arg-type]
    assert first.blocks == second.blocks
    assert shares == sorted(shares) and shares[-1] == 1.0
    for (layer, head), pattern in string.patterns.items():
        dense = pattern.tile(slice(0, 45), slice(0, 45))
        mine = [block for block in first.blocks if block.layer == layer]
        assert np.concatenate([block.queries for block in mine]).tolist() == list(range(45))
        for block in mine:
            np.testing.assert_allclose(block.weights[head], dense[block.first : block.last, : block.last], atol=1e-6)
            assert (block.weights[np.isinf(block.scores)] == 0).all()
            assert (dense[block.first : block.last, block.last :] == 0).all()


def test_chosen_layers_only() -> None:
    gather = Gather()
    accumulate(OneString(9, RULES[0]), [gather], layers=[1])  # type: ignore[arg-type]
    assert {block.layer for block in gather.blocks} == {1}


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize(("rows", "keys"), [(128, 2048), (5, 9), (1, 1)])
def test_pooling_over_any_edges_equals_the_dense_maximum(
    rule: LayerRule, rows: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.blockwise.ROWS", rows)
    monkeypatch.setattr("models.blockwise.KEYS", keys)
    pattern = OneString(60, rule).head(0, 1)
    dense = pattern.tile(slice(0, 60), slice(0, 60))
    for row_edges, col_edges in (
        (np.arange(0, 61, 4), np.arange(0, 61, 6)),
        (np.array([10, 13, 16, 17]), np.array([5, 9, 13, 17, 18])),
        (np.array([0, 60]), np.array([0, 60])),
        (np.arange(30, 34), np.arange(50, 61)),
    ):
        values = pool_max(pattern, row_edges, col_edges)
        for r in range(len(values)):
            for c in range(values.shape[1]):
                cells = dense[row_edges[r] : row_edges[r + 1], col_edges[c] : col_edges[c + 1]]
                assert values[r, c] == pytest.approx(cells.max(), abs=1e-6)


def test_an_error_of_the_progress_ends_a_pass_early() -> None:
    """So that a server that is stopped, or Ctrl-C, does not wait for a map of 100,000 tokens."""
    pattern, seen = _pattern(np.random.default_rng(0), 4000, LayerRule("nope", 0.5)), []

    def stop(share: float) -> None:
        seen.append(share)
        raise KeyboardInterrupt

    edges = np.arange(0, 4001, 2)
    with pytest.raises(KeyboardInterrupt):
        pool_max(pattern, edges, edges, stop)
    assert len(seen) == 1
