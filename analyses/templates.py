"""What a head's attention is made of: one non-negative fit of its pattern on the patterns of all pure heads at once.

Templates overlap (A1 is the first token and an anchor; without repeats the true source is the only candidate), so mass
on each cannot simply be added up. Over the scored rows of all strings, conflict strings included, the fit minimises

    sum over rows of |w - sum_j s_j t_j|^2,   s_j >= 0,   sum_j f_j s_j <= 1,

w a row of the pattern, t_j template j there (even over its visible keys, zero where it has none), f_j the share of rows
that have it. The share of template j is f_j s_j. What fits nothing else is best fitted evenly, so the share of the
even template means something only where the residual, |w - fit|^2 over |w|^2, is small.

Shape letters: N strings, L layers, H heads, P templates, O templates of one key, M templates of several, Q/K query and
key positions.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn import config_context
from sklearn.linear_model import LinearRegression

from analyses.estimates import Estimates, from_draws, resample
from analyses.labels import GROUPS
from analyses.measures.base import MEASURES
from analyses.passes import Measured, ReadString
from analyses.relations import LONGEST_CONTEXT, Relations
from analyses.samples import Sample
from models.blockwise import RowBlock

FURTHEST = 16  # largest offset that has a template
SHIFTS = tuple(d for d in range(-8, 9) if d)  # keys after the true source that have one
FIT_DRAWS = 200  # resamples of the bootstrap; each is a fit of every head
# Weight of the row that holds the sum of shares at 1, relative to the largest singular value of the templates.
_HELD = 1e3


def template_names(a: int, b: int) -> tuple[str, ...]:
    """Names of the templates: M of several keys, then O of one key."""
    several = ("even", *(f"candidates({m})" for m in range(1, LONGEST_CONTEXT + 1)), "duplicates")
    source = ("true source", *(f"source({d:+d})" for d in SHIFTS))
    one = (*source, "self", *(f"offset({k})" for k in range(1, FURTHEST + 1)), "first token")
    return several + one + tuple(f"A{i}" for i in range(2, a + 1)) + tuple(f"B{i}" for i in range(1, b + 1))


def group_of(name: str) -> str:
    """The entry of GROUPS that a template stands for. A1, which is also an anchor, counts for the sink."""
    kinds = {"even": "diffuse", "candidates": "induction", "duplicates": "duplicate", "true source": "aligned"}
    kinds |= {"source": "shifted", "self": "self", "offset": "look-back", "first token": "sink"}
    return kinds.get(name.split("(")[0], "locator")


def several_keys(
    relations: Relations, queries: Int[np.ndarray, "Q"], visible: Bool[np.ndarray, "Q K"]
) -> Bool[np.ndarray, "M Q K"]:
    """Visible keys of the templates of several keys: even, candidates by order, duplicates.

    A row without candidates of order m has those of the largest order that it has, as an induction head falls back on
    the best match there is.
    """
    first, n_keys = int(queries[0]), visible.shape[1]
    matches = relations.context_matches(first, int(queries[-1]) + 1)[queries - first, :n_keys] * visible
    longest = matches.max(-1, keepdims=True)
    orders = [(matches >= np.minimum(m, longest)) & (longest > 0) for m in range(1, LONGEST_CONTEXT + 1)]
    same = relations.tokens[queries][:, None] == relations.tokens[None, :n_keys]
    earlier = np.arange(n_keys)[None] < queries[:, None]
    return np.stack([visible, *orders, same & earlier & visible])


def one_key(relations: Relations, queries: Int[np.ndarray, "Q"]) -> Int[np.ndarray, "O Q"]:
    """Key of the templates of one key; -1 where a row has none."""
    sources = relations.source_position[queries] + np.array([0, *SHIFTS])[:, None]
    offsets = queries - np.arange(FURTHEST + 1)[:, None]
    anchors = np.broadcast_to(relations.anchors[:, None], (len(relations.anchors), len(queries)))
    keys = np.concatenate([sources, offsets, anchors])
    return np.where((keys >= 0) & (keys <= queries), keys, -1)


@MEASURES.register("templates")
class TemplateFit:
    """Shares of the attention of scored rows, from the fit above.

    Attributes:
        heads: real heads of each layer.
        names: of the templates, known once a string has been read.

    Scores:
        share.diffuse, share.induction, share.duplicate, share.aligned, share.shifted, share.self, share.look-back,
            share.sink, share.locator: sum of f_j s_j over the templates of that name, 0 to 1.
        share.second: the second largest of these.
        share.residual: sum over rows of |w - sum_j s_j t_j|^2 / sum of |w|^2, 0 for a perfect fit.

    Profiles:
        shares: [L, H, P] of every template, in the order of `template_names`.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        self.heads = heads
        self.names: tuple[str, ...] = ()
        self._sums: dict[tuple[int, int], _Sums] = {}

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in the scored rows of a block."""
        relations = string.relations
        queries = np.intersect1d(relations.copy_rows, block.queries)
        if not len(queries):
            return
        self.names = self.names or template_names(relations.a, relations.b)
        key = (string.key, block.layer)
        sums = self._sums.setdefault(key, _Sums(self.heads[block.layer], len(self.names)))
        at = queries - block.first
        visible = np.isfinite(block.scores[0, at])
        masks, keys = several_keys(relations, queries, visible), one_key(relations, queries)
        sums.add(masks, keys, visible, block.weights[:, at])

    def measured(self, seed: int) -> Measured:
        """Shares and residuals of all heads, with intervals over strings."""
        shape = (len(self.heads), max(self.heads))
        draws = np.full((FIT_DRAWS + 1, *shape, len(self.names) + 1), np.nan)
        rows, strings = np.zeros((*shape, len(self.names)), int), np.zeros(shape, int)
        for layer, real in enumerate(self.heads):
            own = [sums for (_, at), sums in self._sums.items() if at == layer]
            draws[:, layer, :real] = _fits(own, seed)
            rows[layer, :real] = sum(np.diag(sums.present) for sums in own)
            strings[layer, :real] = len(own)
        return Measured(self._scores(draws, rows, strings), {"shares": draws[0, ..., :-1]})

    def _scores(self, draws: np.ndarray, rows: np.ndarray, strings: np.ndarray) -> Mapping[str, Estimates]:
        groups = np.array([group_of(name) for name in self.names])
        sums = {name: draws[..., :-1][..., groups == name].sum(-1) for name in GROUPS}
        sums |= {"second": np.sort(np.stack(list(sums.values())), axis=0)[-2], "residual": draws[..., -1]}
        counts = {name: rows[..., groups == name].max(-1) for name in GROUPS}
        counts |= {name: rows.max(-1) for name in ("second", "residual")}
        return {
            f"share.{name}": from_draws(values[1:], values[0], counts[name], strings) for name, values in sums.items()
        }


class _Sums:
    """Products of templates and pattern over the rows of one string and layer.

    Attributes:
        gram: [P, P] sum over rows of t_i . t_j.
        product: [H, P] sum of t_i . w.
        square: [H] sum of w . w.
        present: [P, P] diagonal: rows that have a template.
        rows: rows.
    """

    def __init__(self, n_heads: int, n_templates: int) -> None:
        self.gram = np.zeros((n_templates, n_templates))
        self.product = np.zeros((n_heads, n_templates))
        self.square = np.zeros(n_heads)
        self.present = np.zeros((n_templates, n_templates))
        self.rows = 0

    def add(
        self,
        masks: Bool[np.ndarray, "M Q K"],
        keys: Int[np.ndarray, "O Q"],
        visible: Bool[np.ndarray, "Q K"],
        weights: Float[np.ndarray, "H Q K"],
    ) -> None:
        """Take in rows: masks and keys of the templates, what each row sees, and the pattern."""
        each, n = np.arange(len(visible)), len(masks)
        counts = masks.sum(-1)
        even = (masks / np.maximum(counts, 1)[..., None]).astype(np.float32)
        here = (keys >= 0) & visible[each, np.maximum(keys, 0)]
        flat = even.reshape(n, -1)
        at = np.maximum(keys, 0)
        self.gram[:n, :n] += flat @ flat.T
        cross = (even[:, each, at] * here).sum(-1)
        self.gram[:n, n:] += cross
        self.gram[n:, :n] += cross.T
        self.gram[n:, n:] += ((keys[:, None] == keys[None]) & here[:, None] & here[None]).sum(-1)
        self.product[:, :n] += weights.reshape(len(weights), -1) @ flat.T
        self.product[:, n:] += (weights[:, each, at] * here).sum(-1)
        self.square += np.square(weights, dtype=np.float64).sum((1, 2))
        self.present += np.diag(np.concatenate([(counts > 0).sum(-1), here.sum(-1)]))
        self.rows += len(visible)


def _fits(sums: Sequence[_Sums], seed: int) -> Float[np.ndarray, "D H P+1"]:
    """Shares and residual of the heads of a layer: of all strings, then of FIT_DRAWS resamples of them."""
    counts = np.concatenate([np.ones((1, len(sums))), resample(len(sums), seed)[:FIT_DRAWS]])
    gram = np.tensordot(counts, np.stack([s.gram for s in sums]), 1)
    product = np.tensordot(counts, np.stack([s.product for s in sums]), 1)
    square = counts @ np.stack([s.square for s in sums])
    present = counts @ np.stack([np.diag(s.present) for s in sums]) / (counts @ [s.rows for s in sums])[:, None]
    with config_context(assume_finite=True, skip_parameter_validation=True):  # checks would take longer than the fits
        return np.stack([fit_shares(*one) for one in zip(gram, product, square, present, strict=True)])


def fit_shares(
    gram: Float[np.ndarray, "P P"],
    product: Float[np.ndarray, "H P"],
    square: Float[np.ndarray, "H"],
    present: Float[np.ndarray, "P"],
) -> Float[np.ndarray, "H P+1"]:
    """Shares of every template, and the residual, of every head.

    Args:
        gram: sum over rows of t_i . t_j.
        product: sum over rows of t_i . w.
        square: sum over rows of w . w.
        present: share of rows that have a template.
    """
    found = present > 0
    values, vectors = np.linalg.eigh(gram[np.ix_(found, found)])
    kept = values > 1e-9 * values.max()
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T  # root.T @ root is the Gram matrix
    targets = product[:, found] @ vectors[:, kept] / np.sqrt(values[kept])
    # One more unknown takes up what is missing from 1, and one more row, of great weight, holds the sum there.
    heavy = _HELD * np.sqrt(values.max())
    inputs = np.zeros((kept.sum() + 1, found.sum() + 1))
    inputs[:-1, :-1], inputs[-1] = root, heavy * np.append(present[found], 1.0)
    outputs = np.concatenate([targets.T, np.full((1, len(product)), heavy)])
    weights = LinearRegression(positive=True, fit_intercept=False).fit(inputs, outputs).coef_[:, :-1]
    shares = np.zeros((len(product), len(present) + 1))
    shares[:, :-1][:, found] = weights * present[found]
    explained = 2 * (weights * product[:, found]).sum(1) - np.einsum(
        "hi,ij,hj->h", weights, gram[np.ix_(found, found)], weights
    )
    shares[:, -1] = np.clip(1 - explained / np.maximum(square, 1e-12), 0, None)
    return shares
