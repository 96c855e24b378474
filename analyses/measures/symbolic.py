"""Positional versus symbolic heads: what becomes of a head's scores when two blocks of the source change places.

After Urrutia et al. 2025, "Decoupling Positional and Symbolic Attention Behavior in Transformers" (arXiv 2511.11579): a
head behaves positionally where its logits do not change when the keys' contents are permuted, and symbolically where
they are permuted with them. The two cosines below are these definitions on centred scores, for one exchange of blocks.

Shape letters: N strings, L layers, H heads, Q queries, K keys in either block.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int

from analyses.estimates import ratios
from analyses.measures.base import MODEL_MEASURES
from analyses.passes import Measured, Progress, ReadString, read_string
from analyses.relations import LONGEST_CONTEXT
from analyses.samples import Sample
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

SHORTEST_BLOCK = 4  # tokens; shorter ones leave too few keys for a cosine
FLAT = 1e-2  # spread in nats below which a row's scores count as equal
ROUNDING = 1e-6  # and below this share of the largest score it is float32's rounding
ALIKE = 0.9  # cosine of scores and exchanged scores above which the two predictions are the same
BLOCK = 256  # rows at once
REASON = (
    "the exchanged keys all score alike, or so alike after an exchange that both predictions are the same, or "
    f"strings are shorter than {3 * SHORTEST_BLOCK} tokens"
)


@MODEL_MEASURES.register("symbolic")
@torch.inference_mode()
def symbolic_scores(
    model: CopyTransformer, task: CopyTask, samples: Sequence[Sample], *, seed: int, progress: Progress | None = None
) -> Measured:
    """`positional` and `symbolic`, on plain strings.

    Two disjoint blocks of a third of the source, drawn at random, change places; the copy stays. With x and x' the
    pre-softmax scores of a scored query on the keys of both blocks before and after, each minus its mean over these
    keys (the softmax does not see it), and E the exchange of the two blocks' entries,

        positional = cos(x', x),    symbolic = cos(x', E x),

    averaged over rows. 1 and chance for a head that scores positions, chance and 1 for one that scores what stands
    there, both low for one that does neither. Chance is cos(x, E x): the most that a head of the one kind gets of the
    other.

    Keys: the tokens of each block but its first min(8, size / 2), whose contexts reach beyond the block. Rows: scored
    queries on which x varies (by .01 nats) and on which the two predictions differ (cos(x, E x) < .9); a head that
    scores all source tokens alike, such as a sink or a locator, is not measurable.

    Scores:
        positional: mean over rows of cos(x', x); chance is the mean of cos(x, E x).
        symbolic: mean over rows of cos(x', E x); the same chance.

    Args:
        model: any.
        task: not needed.
        samples: plain strings are read.
        seed: of the blocks and of the bootstrap.
        progress: called with the share that is done.
    """
    strings = [(s, row) for s in samples if s.kind == "plain" for row in range(len(s.batch))]
    rng = np.random.default_rng(seed)
    shape = (4, len(strings), model.cfg.n_layers, max(model.cfg.heads))
    sums = np.zeros(shape)  # positional, symbolic, chance, rows
    for index, (sample, row) in enumerate(strings):
        single = sample.batch.select([row])
        size = int(single.lengths[0]) // 3
        if size >= SHORTEST_BLOCK:
            first, second = draw_blocks(int(single.lengths[0]), size, rng)
            before, after = read_string(model, single, 0), read_string(model, exchanged(single, first, second, size), 0)
            kept = np.arange(min(LONGEST_CONTEXT, size // 2), size)
            keys = single.vocabulary.a + np.stack([first + kept, second + kept])
            for layer, heads in enumerate(before.heads):
                for head in range(heads):
                    sums[:, index, layer, head] = _cosines(before, after, layer, head, keys)
        if progress is not None:
            progress((index + 1) / len(strings))
    positional, symbolic, chance, rows = sums
    return Measured(
        {
            "positional": ratios(positional, rows, chance=chance, seed=seed, reason=REASON),
            "symbolic": ratios(symbolic, rows, chance=chance, seed=seed, reason=REASON),
        }
    )


def draw_blocks(n: int, size: int, rng: np.random.Generator) -> tuple[int, int]:
    """Where two disjoint blocks of `size` tokens begin in a source of n >= 2 `size`, the earlier one first."""
    first = int(rng.integers(0, n - 2 * size + 1))
    return first, int(rng.integers(first + size, n - size + 1))


def exchanged(single: CopyBatch, first: int, second: int, size: int) -> CopyBatch:
    """Let the blocks of `size` source tokens at indices `first` and `second` change places in the source alone."""
    tokens = single.tokens.clone()
    a = single.vocabulary.a
    at, other = slice(a + first, a + first + size), slice(a + second, a + second + size)
    tokens[:, at], tokens[:, other] = single.tokens[:, other], single.tokens[:, at]
    return replace(single, tokens=tokens)


def _cosines(
    before: ReadString, after: ReadString, layer: int, head: int, keys: Int[np.ndarray, "2 K"]
) -> Float[np.ndarray, "4"]:
    """Sums over eligible rows of both cosines and of chance, and how many rows those are."""
    queries = before.relations.copy_rows
    rows = [slice(int(q[0]), int(q[-1]) + 1) for q in np.split(queries, np.arange(BLOCK, len(queries), BLOCK))]
    total = np.zeros(4)
    for part in rows:
        x, y = (_centred(string, layer, head, part, keys) for string in (before, after))
        swapped = np.roll(x, x.shape[1] // 2, axis=1)
        size, norm = np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            alike = (x * swapped).sum(1) / size**2
            positional, symbolic = (np.nan_to_num((y * z).sum(1) / (size * norm)) for z in (x, swapped))
        eligible = (size > 0) & (alike < ALIKE)
        total += [part[eligible].sum() for part in (positional, symbolic, alike)] + [eligible.sum()]
    return total


def _centred(
    string: ReadString, layer: int, head: int, rows: slice, keys: Int[np.ndarray, "2 K"]
) -> Float[np.ndarray, "Q 2K"]:
    """Scores on the keys minus their mean; zero where they are equal or not all visible."""
    left = int(keys.min())
    scores = string.head(layer, head).scores(rows, slice(left, int(keys.max()) + 1))[:, keys.ravel() - left]
    scores = scores.astype(np.float64)
    visible = np.isfinite(scores).all(1, keepdims=True)
    scores = np.where(visible, scores, 0.0)
    centred = scores - scores.mean(1, keepdims=True)
    least = np.maximum(FLAT, ROUNDING * np.abs(scores).max(1, keepdims=True))
    return np.where(centred.std(1, keepdims=True) > least, centred, 0.0)
