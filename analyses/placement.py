"""Where one layer puts the tokens of one copied string, from a capture or from a model; numpy alone.

Shape letters: T tokens, C coordinates (1 = index, 2 = row and column), R = n + 1 copied tokens and EOS, n tokens of
the string, H heads, P planes that turn with the column (or index), E head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from models.attention import Capture
from models.errors import UsageError


@dataclass(frozen=True)
class Placed:
    """Where one layer puts the tokens of one copied string.

    Attributes:
        scheme: registered name of the layer's positional scheme.
        coords: float[T, C] index, or (row, column); None where attention has no positions.
        steps: float[T, 2] learned (u, v), None for schemes that learn none.
        rule: int[T, 2] (row, column) by the separator itself ([C2D] section 4.1).
        queries, sources: int[R] positions of the query of every copied token and EOS, and of its true source.
        tokens: int[T] ids.
        names: printable name of every id.
        frequencies: float[P] rad per column (or index); None where nothing turns, or they are not known.
        amplitudes: float[H, P] what each plane adds at most to the score of a source, logits; None as above.
        gaps: float[H, R] score of the source minus that of the better of its neighbours, logits; None as above.
    """

    scheme: str
    coords: Float[np.ndarray, "T C"] | None
    steps: Float[np.ndarray, "T 2"] | None
    rule: Int[np.ndarray, "T 2"]
    queries: Int[np.ndarray, "R"]
    sources: Int[np.ndarray, "R"]
    tokens: Int[np.ndarray, "T"]
    names: Sequence[str]
    frequencies: Float[np.ndarray, "P"] | None = None
    amplitudes: Float[np.ndarray, "H P"] | None = None
    gaps: Float[np.ndarray, "H R"] | None = None

    @property
    def columns(self) -> Float[np.ndarray, "T"]:
        """The coordinate along the text: column, or index. UsageError where there is none."""
        if self.coords is None:
            raise UsageError(f"{self.scheme} gives tokens no coordinates; ask for another layer")
        return self.coords[:, -1].astype(np.float64)

    @property
    def rows(self) -> Float[np.ndarray, "T"] | None:
        """Rows, None where tokens stand on a line."""
        return None if self.coords is None or self.coords.shape[1] == 1 else self.coords[:, 0].astype(np.float64)


def placed_in(capture: Capture, index: int, layer: int) -> Placed:
    """Return where a layer put the tokens of a captured string; numpy alone.

    Raises:
        UsageError: there is no such string or layer.
        WorkbenchError: the capture is damaged.
    """
    string = capture.string(index)
    coords = string.coords(layer)
    queries = np.flatnonzero(string.source_position >= 0)
    sources = string.source_position[queries]
    known = capture.about["layers"][layer].get("frequencies")
    turning = amplitudes = gaps = None
    if coords is not None and known is not None:
        axes = coords.shape[1]
        turning = column_planes(np.asarray(known, dtype=np.float64), axes)
        patterns = [string.head(layer, head) for head in range(capture.heads[layer])]
        pairs = [(pattern.q[queries] * pattern.rule.scale, pattern.k[sources]) for pattern in patterns]
        amplitudes = column_planes(np.stack([plane_amplitudes(q, k) for q, k in pairs]), axes)
        gaps = np.stack([neighbour_gaps(q, k) for q, k in pairs])
    return Placed(
        scheme=capture.rules[layer].scheme,
        coords=coords,
        steps=string.steps(layer),
        rule=string.rule_coords,
        queries=queries,
        sources=sources,
        tokens=string.tokens,
        names=capture.names,
        frequencies=turning,
        amplitudes=amplitudes,
        gaps=gaps,
    )


def column_planes(values: Float[np.ndarray, "*rest all"], axes: int) -> Float[np.ndarray, "*rest P"]:
    """Of all planes, those that turn with the column: the second half of two axes, all of one."""
    return values[..., values.shape[-1] // axes * (axes - 1) :]


def plane_amplitudes(q: Float[np.ndarray, "R E"], k: Float[np.ndarray, "R E"]) -> Float[np.ndarray, "P"]:
    """Mean over rows of |q| |k| in every plane (adjacent pairs of dimensions): the most it can add to q k there."""
    norms = (np.hypot(x[:, 0::2], x[:, 1::2]) for x in (q, k))
    return np.multiply(*norms).mean(0, dtype=np.float64)


def neighbour_gaps(q: Float[np.ndarray, "R E"], k: Float[np.ndarray, "R E"]) -> Float[np.ndarray, "R"]:
    """Score of every source with its query, minus the larger of those of the source before and the one after it.

    Args:
        q: queries times the head's scale.
        k: keys of their sources.
    """
    at = (q * k).sum(1)
    after, before = (q[:-1] * k[1:]).sum(1), (q[1:] * k[:-1]).sum(1)
    return at - np.maximum(np.append(after, -np.inf), np.insert(before, 0, -np.inf))
