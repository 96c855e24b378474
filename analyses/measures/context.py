"""Does a head attend to where the answer stands (aligned), or to what followed the same context before (induction)?

With an intact copy the true source is itself a candidate of induction, so on strings without repeats both hypotheses
draw the same pattern. They are told apart only on rows where they disagree:

*Shared rows* (plain strings): the true source is one of c >= 2 candidates; induction gives it 1/c of their mass.
*Conflict rows* (any string): there are candidates, and the true source is none, not even by one token of context.

Candidates are those of one order m a head (`analyses.relations`), and orders nest: a candidate of order 5 is one of
order 3. m is chosen on every other string by the lift of order m over order m - 1,

    lift(m) = sum_rows [w(m) - w(m - 1) c(m) / c(m - 1)] / sum_rows [w(m - 1) (1 - c(m) / c(m - 1))]

with w(m) the mass on, and c(m) the number of, keys of order m or more, order 0 being all that is visible, over rows on
which the true source is of order 0 (it takes no part) and which have keys of order m and of order exactly m - 1. It is
1 where a head passes over keys of order m - 1, 0 where it treats them alike, as it must beyond its own order: a head
that compares three tokens has lift 1 at m = 2 and 3, and 0 from 4 on. From m = 1 the order is raised as long as the
next lift's interval lies above CLEAR and rests on two strings. What m is used for is measured on the other strings.

The row that predicts EOS counts for `aligned.mass` alone: its true source, B1, can be told by its token.

Shape letters: H heads, L layers, R scored rows of a block, K keys, M orders 1..8.
"""

from collections import OrderedDict

import numpy as np
from jaxtyping import Bool, Float, Int

from analyses.estimates import Estimates, from_draws, ratios, resample
from analyses.measures.base import MEASURES
from analyses.passes import Measured, ReadString, Totals
from analyses.relations import LONGEST_CONTEXT, Relations
from analyses.samples import Sample
from models.blockwise import RowBlock

CLEAR = 0.5  # a lift whose interval lies above it tells an order from the one below
BLEND = 0.01  # of uniform attention is added before shares are taken: a head without mass there is at chance
_ORDERS = np.arange(LONGEST_CONTEXT + 1)
_FEWEST = 2  # strings that a lift must rest on
_KEPT = 8  # blocks whose shared contexts are kept for the next layer
_NO_CONFLICT = "no scored row has candidates of the chosen order while its true source is none (conflict strings do)"
_NO_CHOICE = "no scored row of a plain string has two candidates of the chosen order in the source"


@MEASURES.register("context")
class Context:
    """Aligned and induction, each score a mean over rows as the module's docstring names them ([C2D] 3.3).

    Strings with an even key choose m, all scores but `aligned.mass` are measured on those with an odd key.

    Scores:
        aligned.mass: weight on the true source, all scored rows of plain strings; chance is 1 / visible keys.
        aligned.conflict: the same on conflict rows.
        aligned.near: weight on the true source and the keys next to it, conflict rows: a blunt aligned head reaches
            over to its neighbours, and which it prefers may depend on their tokens. Chance: their share of the keys.
        aligned.share: on shared rows, w(true source) / sum of w over the c candidates in the source string, B1 included
            (those in the copy are left out: a head may prefer the source without knowing the position). Chance: 1 / c.
        induction.mass: weight on all candidates, rows of plain strings that have one. Chance: their share of the keys.
        induction.conflict: the same on conflict rows.
        induction.wrong: 1 - aligned.share. Chance: (c - 1) / c.
        induction.m: the order, 1 to 8, all but aligned.mass rest on; its interval is that of the choice on resampled
            strings.

    Profiles:
        induction.lift: [L, H, M] lift(m); NaN without rows, as in the next.
        aligned.lift: [L, H, M] (share - chance) / (1 - chance) of aligned.share at every order: a soft induction head,
            which prefers longer contexts beyond its order too, has a share above chance at low orders and falls towards
            it at high ones, an aligned head does not.
    """

    def __init__(self, heads: tuple[int, ...]) -> None:
        orders = (LONGEST_CONTEXT,)
        self._gain, self._room = Totals(heads, orders), Totals(heads, orders)
        self._aligned, self._mass = Totals(heads), Totals(heads, orders)
        self._share, self._wrong = Totals(heads, orders), Totals(heads, orders)
        self._on_source, self._on_candidates = Totals(heads, orders), Totals(heads, orders)
        self._near = Totals(heads, orders)
        self._contexts: OrderedDict[tuple[int, int], Int[np.ndarray, "R K"]] = OrderedDict()

    def update(self, sample: Sample, string: ReadString, block: RowBlock) -> None:
        """Take in the scored rows of one block."""
        rows, plain = string.relations.copy_rows, sample.kind == "plain"
        low, end = max(block.first, int(rows[0])), min(block.last, int(rows[-1]) + 1)
        if low >= end:
            return
        part = slice(low - block.first, end - block.first)
        weights, visible = block.weights[:, part, :end], block.scores[0, part, :end] > -np.inf
        source = string.relations.source_position[low:end]
        if plain:
            at = np.arange(end - low)
            seen, keys = visible[at, source], np.maximum(visible.sum(1), 1)
            on_source = weights[:, at, source] @ seen
            self._aligned.add(string.key, block.layer, on_source, int(seen.sum()), float(seen @ (1 / keys)))
        contextual = min(end, int(rows[-1])) - low
        if contextual < 1:
            return
        contexts = self._contexts_of(string.key, string.relations, low, low + contextual)
        orders = np.where(visible[:contextual, : contexts.shape[1]], contexts, -1)
        inside = slice(string.relations.a, string.relations.a + string.relations.n + 1)
        counted = _Counted(weights[:, :contextual], orders, source[:contextual], inside)
        if string.key % 2 == 0:
            self._choose(string.key, block.layer, counted)
        else:
            self._score(string.key, block.layer, counted, plain)

    def _contexts_of(self, key: int, relations: Relations, low: int, end: int) -> Int[np.ndarray, "R K"]:
        """Shared contexts of rows [low, end), computed once for all layers unless the string is long."""
        name = (key, low)
        if name not in self._contexts:
            self._contexts[name] = relations.context_matches(low, end)
            if len(self._contexts) > _KEPT:
                self._contexts.popitem(last=False)
        return self._contexts[name]

    def _choose(self, key: int, layer: int, counted: "_Counted") -> None:
        """Numerator and denominator of the lifts."""
        count = counted.n_others
        part = count[:, 1:] / np.maximum(count[:, :-1], 1)
        eligible = (part > 0) & (part < 1) & (counted.order == 0)[:, None]
        mass = counted.others + BLEND * count / counted.visible
        gain = (mass[..., 1:] - mass[..., :-1] * part) * eligible
        room = mass[..., :-1] * (1 - part) * eligible
        self._gain.add(key, layer, gain.sum(1), eligible.sum(0))
        self._room.add(key, layer, room.sum(1), eligible.sum(0))

    def _score(self, key: int, layer: int, counted: "_Counted", plain: bool) -> None:
        """Everything that is measured at an order, for all orders."""
        candidates, visible, on_source = counted.n_candidates, counted.visible, counted.on_source[..., None]
        conflict = (counted.order == 0)[:, None] & (candidates > 0)
        rows, chance = conflict.sum(0), conflict / visible
        self._on_source.add(key, layer, (on_source * conflict).sum(1), rows, chance.sum(0))
        near = (counted.near[..., None] * conflict).sum(1)
        self._near.add(key, layer, near, rows, (counted.n_near[:, None] * chance).sum(0))
        on_candidates = (counted.candidates * conflict).sum(1)
        self._on_candidates.add(key, layer, on_candidates, rows, (candidates * chance).sum(0))
        if not plain:
            return
        expected = (candidates / visible).sum(0)  # without candidates there is neither mass nor chance
        self._mass.add(key, layer, counted.candidates.sum(1), (candidates > 0).sum(0), expected)
        choice = counted.n_local
        shared = counted.is_candidate & (choice > 1)
        among = counted.local + BLEND * np.maximum(choice, 1) / visible
        share = np.where(shared, (on_source + BLEND / visible) / among, 0)
        even = np.where(shared, 1 / np.maximum(choice, 1), 0)
        self._share.add(key, layer, share.sum(1), shared.sum(0), even.sum(0))
        self._wrong.add(key, layer, (shared - share).sum(1), shared.sum(0), (shared - even).sum(0))

    def measured(self, seed: int) -> Measured:
        """Scores of shape [L, H] and the profiles of lifts."""
        lift, order = self._order(seed)
        chosen = np.nan_to_num(order.value, nan=1).astype(int) - 1

        def at_order(totals: Totals, reason: str) -> Estimates:
            index = chosen[None, ..., None]
            sums, rows, chance = (np.take_along_axis(part, index, -1)[..., 0] for part in totals.arrays())
            return ratios(sums, rows, chance=chance, seed=seed, reason=reason)

        scores = {
            "aligned.mass": self._aligned.estimates(seed, chance=True, reason="no scored row of a plain string"),
            "aligned.conflict": at_order(self._on_source, _NO_CONFLICT),
            "aligned.near": at_order(self._near, _NO_CONFLICT),
            "aligned.share": at_order(self._share, _NO_CHOICE),
            "induction.mass": at_order(self._mass, "no scored row of a plain string has a candidate"),
            "induction.conflict": at_order(self._on_candidates, _NO_CONFLICT),
            "induction.wrong": at_order(self._wrong, _NO_CHOICE),
            "induction.m": order,
        }
        share, rows, chance = self._share.arrays()
        aligned = ratios(share - chance, rows - chance, seed=seed).value
        return Measured(scores, {"induction.lift": lift, "aligned.lift": aligned})

    def _order(self, seed: int) -> tuple[Float[np.ndarray, "L H M"], Estimates]:
        """Lift of every order, and the chosen order, [L, H]."""
        gain, rows, _ = self._gain.arrays()
        room = self._room.arrays()[0]
        lift = ratios(gain, room, seed=seed)
        enough = (rows > 0).sum(0) >= _FEWEST
        counts = resample(len(gain), seed)
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.tensordot(counts, gain, 1) / np.tensordot(counts, room, 1)
        some = rows[..., 0] > 0
        order = from_draws(
            _raised((drawn > CLEAR) & enough),
            np.where(some.any(0), _raised((lift.low > CLEAR) & enough), np.nan),
            rows[..., 0].sum(0).round().astype(int),
            some.sum(0),
            reason="no scored row of the strings that choose the order has candidates while its true source is none; "
            "order 1 is used",
        )
        return lift.value, order


def _raised(clear: Bool[np.ndarray, "*S M"]) -> Float[np.ndarray, "*S"]:
    """1, and one more for every order from 2 on that is clear up to the first that is not."""
    return 1.0 + np.cumprod(clear[..., 1:], axis=-1).sum(-1)


class _Counted:
    """Mass on, and number of, visible keys of at least every order, for the scored rows of one block.

    Args of the constructor: weights [H, R, K]; the order of every key, [R, K], -1 where it is hidden; the true source
    of every row, [R]; the positions of the source string and B1.

    Attributes:
        on_source: float[H, R] weight on the true source.
        near, n_near: float[H, R], int[R] the true source and the keys next to it.
        order: int[R] of the true source, -1 where it is hidden.
        is_candidate: bool[R, M] the true source is of order m = 1..8 or more.
        visible: int[R, 1] keys.
        others, n_others: float[H, R, M + 1], int[R, M + 1] keys of order 0..8 or more, without the true source.
        candidates, n_candidates: float[H, R, M], int[R, M] keys of order 1..8 or more.
        local, n_local: the same of keys in the source string and B1.
    """

    def __init__(
        self,
        weights: Float[np.ndarray, "H R K"],
        orders: Int[np.ndarray, "R K"],
        source: Int[np.ndarray, "R"],
        inside: slice,
    ) -> None:
        at, weights = np.arange(len(orders)), weights[..., : orders.shape[1]]
        self.on_source, self.order = weights[:, at, source], orders[at, source]
        beside = source[:, None] + np.array([-1, 0, 1])
        there = (beside >= 0) & (beside < orders.shape[1])
        beside = np.where(there, beside, 0)
        self.near = (weights[:, at[:, None], beside] * there).sum(-1)
        self.n_near = (there & (orders[at[:, None], beside] >= 0)).sum(1)
        self.visible = np.maximum((orders >= 0).sum(1), 1)[:, None]
        others = orders.copy()
        others[at, source] = -1
        self.others, self.n_others = _at_least(weights, others)
        local, n_local = _at_least(weights[..., inside], others[:, inside])
        own = self.order[:, None] >= _ORDERS
        on_own = own * self.on_source[..., None]
        self.is_candidate = own[:, 1:]
        self.candidates, self.n_candidates = (self.others + on_own)[..., 1:], (self.n_others + own)[:, 1:]
        self.local, self.n_local = (local + on_own)[..., 1:], (n_local + own)[:, 1:]


def _at_least(
    weights: Float[np.ndarray, "H R K"], orders: Int[np.ndarray, "R K"]
) -> tuple[Float[np.ndarray, "H R M+1"], Int[np.ndarray, "R M+1"]]:
    """Mass on, and number of, keys of order 0..8 or more."""
    mass = np.zeros((*weights.shape[:2], len(_ORDERS)))
    count = np.zeros((len(orders), len(_ORDERS)), int)
    for m in _ORDERS:
        keys = orders >= m
        mass[..., m] = np.einsum("hrk,rk->hr", weights, keys.astype(weights.dtype))
        count[:, m] = keys.sum(1)
    return mass, count
