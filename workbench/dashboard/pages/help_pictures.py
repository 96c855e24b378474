"""How the attention of pure heads looks on a short string: drawn from what each kind is by definition.

Shape letters: T tokens, the last row predicting EOS.
"""

from base64 import b64encode
from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float

from workbench.figures.attention import MASKED, TOP_CODE
from workbench.figures.pictures import colors, png

A, B = 2, 4
STRING = (0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0)
N = len(STRING)
T = A + N + B + N
_COPY = A + N + B - 1  # the query that predicts the first token of the copy
_TOKENS = (-1, -2, *STRING, -3, -4, -5, -6, *STRING)  # anchors are like no other token
_CONTEXT = 3  # tokens that an induction head compares
_STEP = 4  # of the modular head


@cache
def picture(label: str) -> str | None:
    """Return the address of a picture of the pattern of a head of this label, T x T cells; None where it has none."""
    if label not in _PATTERNS:
        return None
    weights = pattern(label)
    codes = np.ceil(np.sqrt(weights) * TOP_CODE - 1e-3).astype(np.uint8)
    codes[np.triu_indices(T, 1)] = MASKED
    return "data:image/png;base64," + b64encode(png(codes, colors("cividis", "sqrt"))).decode()


def pattern(label: str) -> Float[np.ndarray, "T T"]:
    """Return the pattern of a pure head: rows are queries and sum to 1, no key is later than its query."""
    weights = np.tril(_PATTERNS[label]())
    idle = weights.sum(axis=1) == 0
    weights[idle] = np.tril(np.ones((T, T)))[idle]  # a head that finds nothing to attend to spreads out
    return weights / weights.sum(axis=1, keepdims=True)


def _locator() -> np.ndarray:
    weights = np.zeros((T, T))
    for first, count in ((0, A), (A + N, B)):
        index = np.clip((np.arange(T) - first) / N, 0, 1)
        keys = np.linspace(0, 1, count)
        weights[:, first : first + count] = np.exp(-4 * np.abs(index[:, None] - keys))
    weights[_COPY:, :A] *= 0.25  # the nearer anchors tell the index better
    return weights


def _at(keys: Callable[[int], list[int]]) -> np.ndarray:
    weights = np.zeros((T, T))
    for query in range(T):
        weights[query, [key for key in keys(query) if 0 <= key <= query]] = 1
    return weights


def _true_source() -> np.ndarray:
    return _at(lambda query: [query - _COPY + A] if query >= _COPY else [])


def _induction() -> np.ndarray:
    def candidates(query: int) -> list[int]:
        context = _TOKENS[max(0, query - _CONTEXT + 1) : query + 1]
        return [k for k in range(_CONTEXT, query + 1) if _TOKENS[k - _CONTEXT : k] == context]

    return _at(candidates)


def _duplicate() -> np.ndarray:
    return _at(lambda query: [key for key in range(query) if _TOKENS[key] == _TOKENS[query]])


_PATTERNS: dict[str, Callable[[], np.ndarray]] = {
    "locator": _locator,
    "sink": lambda: _at(lambda query: [0]),
    "modular": lambda: _at(lambda query: [0] if query % _STEP == 0 else []),
    "self": lambda: np.eye(T),
    "look-back": lambda: _at(lambda query: [query - 1]),
    "aligned": _true_source,
    "induction": _induction,
    "duplicate": _duplicate,
    "diffuse": lambda: np.ones((T, T)),
    "mixed": lambda: _locator() / _locator().sum(axis=1, keepdims=True) + np.eye(T, k=-1),
}
