"""How a head's scores arise: from where query and key stand, from which tokens they are, or from more than that.

Pre-softmax scores of many random strings of one length are split by analysis of variance, and by rotary plane.

Shape letters: S random strings, L layers, H heads, R scored rows, K keys, P rotary planes, V tokens, D resamples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from analyses.estimates import from_draws, resample
from analyses.measures.base import MODEL_MEASURES
from analyses.passes import Measured, Progress, read_string
from analyses.relations import relations_of
from analyses.samples import Sample
from models.attention import HeadPattern
from models.positions import Scheme
from models.positions.rotary import Rotary
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

STRINGS, FOLDS = 24, 4  # random strings a length, and the groups they are split into
TOKENS = 16  # different source tokens in them, so that every pair of tokens is met often
ROWS = 64  # scored rows of each string, evenly spaced
AT_ONCE = 1 << 29  # bytes of scores held at once; a model with more is read several times
FLAT = 1e-2  # standard deviation in nats below which a head's scores count as equal
ROUNDING = 1e-6  # and below this share of the largest score it is float32's rounding
PARTS = ("scores.position", "scores.token", "scores.interaction", "scores.anchors")
REASON = "the head scores all keys it sees alike"
PLANES_REASON = "the layer does not turn planes by row and column, or the head scores all keys it sees alike"


@dataclass(frozen=True)
class Split:
    """Sums that the parts of one head's variance come from, in nats^2, each an average over rows and keys.

    Attributes:
        total: float64[S] variance of every string.
        token: float64[S] the part explained by token pairs, whose scores were fitted on other strings.
        anchors: float64[S] of which on keys that are anchors.
        products: float64[S, S] of what is left of two strings, where neither took part in either's fit, else 0.
        pairs: bool[S, S] where there is such a product.
    """

    total: Float[np.ndarray, "S"]
    token: Float[np.ndarray, "S"]
    anchors: Float[np.ndarray, "S"]
    products: Float[np.ndarray, "S S"]
    pairs: Bool[np.ndarray, "S S"]

    def parts(self, counts: Float[np.ndarray, "D S"]) -> Float[np.ndarray, "D 4"]:
        """Variances of position, token, interaction, and token on anchors, strings taken `counts` times."""
        total, token, anchors = (counts @ part / counts.sum(1) for part in (self.total, self.token, self.anchors))
        position = ((counts @ self.products) * counts).sum(1) / ((counts @ self.pairs) * counts).sum(1)
        return np.stack([position, token, total - position - token, anchors], axis=1)


@MODEL_MEASURES.register("score_parts")
@torch.inference_mode()
def score_parts(
    model: CopyTransformer, task: CopyTask, samples: Sequence[Sample], *, seed: int, progress: Progress | None = None
) -> Measured:
    """`scores.position`, `.token`, `.interaction`, `.anchors`, `planes.row`, `planes.column`, and the profile `planes`.

    24 strings for every length in `samples`, their source and what stands for the copy i.i.d. uniform tokens (at most
    16 different ones): any token is met at any place, so that place and token cannot pass for each other, nor the
    place of the true source for context. x_s(q, k) is the pre-softmax score of string s, minus its row's mean over
    visible keys (the softmax does not see it). Rows: up to 64 scored queries, which weigh alike.

    - *token*: T(query's token, key's token) minus its row's mean, the least-squares fit to x. Its variance is
      <T_g, x_s> averaged over strings s outside the group g that T_g was fitted on, so noise adds nothing.
    - *position*: the mean over strings of x - T at each (q, k). Its variance is <x_s - T_g, x_s' - T_h> averaged over
      pairs of different strings, g and h two more groups: unbiased likewise.
    - *interaction*: the rest of the variance: what depends on token and position together, or on other tokens of the
      string than these two, which is context. The score of an induction head is all of this kind.

    The three are divided by their sum; an estimate below 0, which noise can make of 0, counts as 0. Anchors stand at
    one place in every string of a length, so there place and token cannot be told apart: what such a key gets from all
    rows alike is called token, what varies with the query's place position. *anchors* is that share of the variance,
    a part of token: large for sinks and locators, of the order of (a + b) / n for a head that reads positions alone.

    `planes[l, h, p]`: covariance of plane p's term of the score, scale * q_p k_p, with x, over the variance of x;
    planes add up to 1. `planes.row` and `planes.column` sum those that turn with the row and with the column.

    Scores:
        scores.position: share of the variance of a row's scores that the mean over strings at each (query, key) holds.
        scores.token: share that a function of the query's and the key's token holds.
        scores.interaction: the rest, context for one.
        scores.anchors: share, part of scores.token, of what anchors get from all rows alike.
        planes.row, planes.column: sum of the covariance shares of the planes that turn with the row, with the column.

    Args:
        model: any.
        task: prefix, delimiter and alphabet.
        samples: their lengths are taken.
        seed: of the strings and of the bootstrap.
        progress: called with the share that is done.
    """
    lengths = sorted({sample.length for sample in samples})
    counts = np.concatenate([np.ones((1, STRINGS)), resample(STRINGS, seed)])  # the strings as they are, then resampled
    shape = (len(counts), model.cfg.n_layers, max(model.cfg.heads))
    parts, planes = np.zeros((*shape, len(PARTS))), np.zeros((*shape, model.cfg.d_head // 2))
    strings, rows = np.zeros((2, *shape[1:]), np.int64)
    steps = [(length, layers) for length in lengths for layers in _layers_at_once(model, task, length)]
    for step, (length, layers) in enumerate(steps):
        batch = random_strings(task, length, np.random.default_rng([seed, length]))
        queries, tokens, heads = _read(model, batch, layers)
        anchors = np.isin(np.arange(tokens.shape[1]), batch.anchor_positions[0].numpy())
        for (layer, head), (found, covariances) in heads.items():
            visible = np.isfinite(found[0])
            split = split_scores(found, visible, tokens[:, queries], tokens, anchors)
            largest = np.abs(found[:, visible]).max(initial=0)
            if split.total.mean() > max(FLAT, ROUNDING * largest) ** 2:
                parts[:, layer, head] += len(queries) * split.parts(counts)
                planes[:, layer, head] += len(queries) * (counts @ covariances) / STRINGS
                strings[layer, head] += STRINGS
                rows[layer, head] += STRINGS * len(queries)
        if progress is not None:
            progress((step + 1) / len(steps))
    parts[:, rows == 0] = np.nan
    turned = np.array([_turned_axes(block.attn.scheme) for block in model.blocks])[:, None]
    planes = np.where(turned[..., None] > 0, planes / parts[..., :3].sum(-1, keepdims=True), np.nan)
    shares = parts.clip(0) / parts[..., :3].clip(0).sum(-1, keepdims=True)
    scores = {
        name: from_draws(drawn[1:], drawn[0], rows, strings, reason=REASON)
        for name, drawn in zip(PARTS, np.moveaxis(shares, -1, 0), strict=True)
    }
    rows, strings = (np.where(turned == 2, count, 0) for count in (rows, strings))
    for name, half in zip(("planes.row", "planes.column"), np.array_split(planes, 2, axis=-1), strict=True):
        drawn = np.where(turned == 2, half.sum(-1), np.nan)
        scores[name] = from_draws(drawn[1:], drawn[0], rows, strings, reason=PLANES_REASON)
    return Measured(scores, {"planes": planes[0]})


def random_strings(task: CopyTask, length: int, rng: np.random.Generator) -> CopyBatch:
    """STRINGS strings of i.i.d. uniform tokens, at most TOKENS different ones, in the source and again in the copy.

    The copy is no copy: it is drawn anew, so that a token is not followed by the same one in both, and what a head
    takes from the context does not pass for what it takes from the place of the true source.
    """
    alphabet = task.vocabulary.alphabet
    tokens = rng.choice(alphabet, min(alphabet, TOKENS), replace=False)
    source, copy = rng.choice(tokens, (2, STRINGS, length))
    batch = task.encode(source.tolist())
    changed = batch.tokens.clone()
    changed[:, -length:] = torch.from_numpy(copy)
    return replace(batch, tokens=changed)


def split_scores(
    scores: Float[np.ndarray, "S R K"],
    visible: Bool[np.ndarray, "R K"],
    queries: Int[np.ndarray, "S R"],
    keys: Int[np.ndarray, "S K"],
    anchors: Bool[np.ndarray, "K"],
) -> Split:
    """Split the variance of one head's scores, see `score_parts`.

    Args:
        scores: before the softmax; anything where a key is hidden.
        visible: which keys a row sees, the same in every string; a row that sees none weighs nothing.
        queries: token of every query, 0..V-1.
        keys: token of every key, 0..V-1.
        anchors: which keys hold the same token in every string.
    """
    group = np.arange(len(scores)) % FOLDS
    weight = _weights(visible)
    scores = _centred(np.where(visible, scores, 0.0).astype(np.float64), weight)
    one_hot = np.eye(int(max(queries.max(), keys.max())) + 1)[keys]
    of_tokens = (scores * weight) @ one_hot  # [S, R, V] what a row scores on each token
    frequency = weight @ one_hot
    explained = np.zeros((len(scores), scores.shape[2]))  # of every string, by key
    left = []  # of every string, by the group that tokens were fitted on
    for fold in range(FOLDS):
        own = group == fold
        fitted = _fit_tokens(of_tokens[own], frequency[own], queries[own])
        token = _centred(np.take_along_axis(fitted[queries], keys[:, None], axis=2), weight)
        explained += np.where(own[:, None], 0.0, (token * scores * weight).sum(1)) / (FOLDS - 1)
        left.append(((scores - token) * np.sqrt(weight)).reshape(len(scores), -1))
    products = np.zeros((len(scores), len(scores)))
    for i, j, g, h in permutations(range(FOLDS)):
        one, other = np.flatnonzero(group == i), np.flatnonzero(group == j)
        products[np.ix_(one, other)] += left[g][one] @ left[h][other].T / 2  # (g, h) and (h, g)
    total = (scores**2 * weight).sum((1, 2))
    return Split(total, explained.sum(1), explained[:, anchors].sum(1), products, group[:, None] != group)


def _fit_tokens(
    of_tokens: Float[np.ndarray, "S R V"], frequency: Float[np.ndarray, "S R V"], queries: Int[np.ndarray, "S R"]
) -> Float[np.ndarray, "V V"]:
    """T[query's token, key's token] by least squares, up to a constant a query token; 0 for pairs that do not occur.

    For rows r of one query token with key token frequencies f_r, T minimises the squares of x minus T's centred
    values: sum_r w_r (diag(f_r) - f_r f_r^T) T = sum_r (what r scores on each token).
    """
    size = frequency.shape[-1]
    fitted = np.zeros((size, size))
    for query in np.unique(queries):
        rows = queries == query
        f, mass = frequency[rows], frequency[rows].sum(1, keepdims=True)
        gram = np.diag(f.sum(0)) - (f / np.where(mass > 0, mass, 1)).T @ f
        fitted[query] = np.linalg.pinv(gram, rcond=1e-9, hermitian=True) @ of_tokens[rows].sum(0)
    return fitted


def _weights(visible: Bool[np.ndarray, "R K"]) -> Float[np.ndarray, "R K"]:
    """Of cells: rows weigh alike, and so do the keys that a row sees."""
    seen = visible.sum(1, keepdims=True)
    return visible / np.maximum(seen, 1) / max(1, (seen > 0).sum())


def _centred(values: Float[np.ndarray, "S R K"], weight: Float[np.ndarray, "R K"]) -> Float[np.ndarray, "S R K"]:
    """Minus the row's mean over visible keys; anything at hidden ones."""
    share = weight / np.maximum(weight.sum(1, keepdims=True), np.finfo(float).tiny)
    return values - (values * share).sum(2, keepdims=True)


def _turned_axes(scheme: Scheme) -> int:
    """Coordinates that a scheme turns planes by: 2 for row and column, 0 where it does not turn."""
    return scheme.n_coords if isinstance(scheme, Rotary) else 0


def _layers_at_once(model: CopyTransformer, task: CopyTask, length: int) -> list[range]:
    """Consecutive layers whose scores fit into AT_ONCE bytes."""
    keys = task.vocabulary.a + task.vocabulary.b + 2 * length
    some = max(1, AT_ONCE // (4 * STRINGS * max(model.cfg.heads) * ROWS * keys))
    return [range(first, min(first + some, model.cfg.n_layers)) for first in range(0, model.cfg.n_layers, some)]


def _read(
    model: CopyTransformer, batch: CopyBatch, layers: range
) -> tuple[Int[np.ndarray, "R"], Int[np.ndarray, "S K"], dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]]:
    """Read every string once.

    Returns:
        The rows that are looked at, the tokens numbered from 0, and of every head of `layers` its scores on these
        rows, float32[S, R, K], and its planes' covariances, float64[S, P].
    """
    queries = relations_of(batch, 0).copy_rows
    queries = queries[np.unique(np.linspace(0, len(queries) - 1, ROWS).round().astype(int))]
    size = int(queries[-1]) + 1
    tokens = np.unique(batch.tokens[:, :size].numpy(), return_inverse=True)[1].reshape(len(batch), size)
    heads = {
        (layer, head): (
            np.zeros((len(batch), len(queries), size), np.float32),
            np.zeros((len(batch), model.cfg.d_head // 2)),
        )
        for layer in layers
        for head in range(model.cfg.heads[layer])
    }
    for index in range(len(batch)):
        string = read_string(model, batch, index)
        for at, (scores, covariances) in heads.items():
            pattern = string.head(*at)
            for row, query in enumerate(queries.tolist()):
                scores[index, row] = pattern.scores(slice(query, query + 1), slice(0, size))[0]
            covariances[index] = plane_covariances(pattern, queries, scores[index])
    return queries, tokens, heads


def plane_covariances(
    pattern: HeadPattern, queries: Int[np.ndarray, "R"], scores: Float[np.ndarray, "R K"]
) -> Float[np.ndarray, "P"]:
    """Of each plane's term of the score with the score, over visible keys and rows, in nats^2."""
    visible = np.isfinite(scores)
    weight = _weights(visible)
    centred = _centred(np.where(visible, scores, 0.0).astype(np.float64)[None], weight)[0] * weight
    terms = pattern.rule.scale * pattern.q[queries] * (centred @ pattern.k[: scores.shape[1]])
    return terms[:, : terms.shape[1] // 2 * 2].reshape(len(terms), -1, 2).sum((0, 2))
