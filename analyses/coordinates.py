"""What coordinates do for copying: alignment, fit to rows and columns by rule, saturation, collisions.

A head that copies by position turns its query back by one constant and looks at the key that then fits best ([C2D]
theorem 4.1). That works as far as the column of the query minus the column of its source is *constant* over the copied
tokens, compared with how far apart neighbouring source columns are; whether the columns are those of a rule is another
matter. Learned columns saturate (`saturation.py`): neighbours come closer and closer, down to where the frequencies no
longer tell them apart (`collisions.py`).

All of this needs numpy alone. `placement.placed_in` reads a captured string, `coordinate_reading.place` a model.

Shape letters: T tokens, R = n + 1 copied tokens and EOS, n tokens of the string, S starts of rows.
"""

from dataclasses import dataclass, field
from math import inf

import numpy as np
from jaxtyping import Float, Int

from analyses.collisions import Collisions, collisions
from analyses.placement import Placed
from analyses.saturation import Saturation, saturation

ENDS = 10  # source tokens at either end that a column scale is the mean of
_START = 0.5  # rows or columns: a smaller change is no start of a row
_FLAT = 1e-9  # variance of a coordinate that does not change


@dataclass(frozen=True)
class Alignment:
    """Column of the query minus column of its source, for every copied token ([C2D] theorems 4.1 and 4.2).

    The first query stands on the delimiter's last token and not in the copy; a head can tell it by its token. It is in
    the arrays, and left out of the numbers.

    Attributes:
        offset: float[R] columns.
        row_offset: float[R] rows, None where there are none.
        spacing: float[R] columns from each source to the nearer of its neighbours: the next and the previous token.
        constant: columns; the median offset, what a head that turns its query back by a constant could turn.
        drift: columns; offset at EOS minus offset of the second token.
        deviation: columns; standard deviation of the offset over k.
        slope: columns a copied token, by least squares.
        misaligned: float[R] tokens; (offset - constant) / spacing. Below a half, the right key is the nearest one.
    """

    offset: Float[np.ndarray, "R"]
    row_offset: Float[np.ndarray, "R"] | None
    spacing: Float[np.ndarray, "R"]
    constant: float
    drift: float
    deviation: float
    slope: float
    misaligned: Float[np.ndarray, "R"]

    @property
    def worst(self) -> float:
        """Largest misalignment without the first query, tokens."""
        return float(np.abs(self.misaligned[1:]).max())


@dataclass(frozen=True)
class AxisFit:
    """Least squares of one coordinate on those by rule: per_row * row + per_column * column + constant.

    Attributes:
        per_row, per_column, constant: coefficients, in the coordinate's own unit.
        r2: share of its variance over all tokens that the fit explains, 0 to 1.
    """

    per_row: float
    per_column: float
    constant: float
    r2: float


@dataclass(frozen=True)
class RuleFit:
    """How far a placement is that of the rule.

    Attributes:
        row, column: fits of either coordinate; None where the layer has no such, or it is the same for all tokens.
        starts: int[S] tokens at which a new row starts: the row rises by more than a half, or the column falls below
            half of the one before and by at least half a column.
        by_rule: int[S'] tokens at which the rule starts a row.
    """

    row: AxisFit | None
    column: AxisFit | None
    starts: Int[np.ndarray, "S"]
    by_rule: Int[np.ndarray, "S'"]

    @property
    def missed(self) -> list[int]:
        """Starts of the rule that the layer does not have."""
        return sorted(set(self.by_rule.tolist()) - set(self.starts.tolist()))

    @property
    def added(self) -> list[int]:
        """Starts of the layer that the rule does not have."""
        return sorted(set(self.starts.tolist()) - set(self.by_rule.tolist()))


@dataclass(frozen=True)
class Scale:
    """Size of a column along the string.

    Attributes:
        first, last: columns from one source token to the next, mean over (at most) the first and last ENDS of them.
        row_drift: rows a token of the string; 0 where rows change at separators alone, None without rows.
    """

    first: float
    last: float
    row_drift: float | None


@dataclass(frozen=True)
class CoordinateNumbers:
    """All numbers of one layer and string; what is None is not measurable, and `reasons` says why, by name."""

    scheme: str
    length: int
    alignment: Alignment | None
    fit: RuleFit | None
    scale: Scale | None
    saturation: Saturation | None
    collisions: Collisions | None
    reasons: dict[str, str] = field(default_factory=dict)


def measure(placed: Placed) -> CoordinateNumbers:
    """Measure everything that a placement allows."""
    n = len(placed.sources) - 1
    if placed.coords is None:
        reason = f"{placed.scheme} gives attention no coordinates: there is nothing to align or to fit"
        names = ("alignment", "fit", "scale", "saturation", "collisions")
        return CoordinateNumbers(placed.scheme, n, None, None, None, None, None, dict.fromkeys(names, reason))
    reasons = {}
    if placed.steps is None:
        reasons["saturation"] = "the layer learns no steps: its columns count tokens and have no bound"
    colliding = None
    if placed.frequencies is None or placed.amplitudes is None:
        reasons["collisions"] = (
            "it is not known how queries and keys turn with the position: they do not, or the capture is too old to "
            "say at which frequencies (then capture the string again)"
        )
    else:
        colliding = collisions(placed.columns[placed.sources], placed.frequencies, placed.amplitudes, gaps=placed.gaps)
    return CoordinateNumbers(
        placed.scheme,
        n,
        alignment(placed),
        rule_fit(placed),
        scale(placed),
        None if placed.steps is None else saturation(placed),
        colliding,
        reasons,
    )


def alignment(placed: Placed) -> Alignment:
    """Measure whether one constant turns every query back to its source. UsageError without coordinates."""
    columns = placed.columns
    offset = columns[placed.queries] - columns[placed.sources]
    gaps = np.abs(np.diff(columns[placed.sources]))
    spacing = np.minimum(np.append(gaps, inf), np.insert(gaps, 0, inf))
    inside = offset[1:]
    constant = float(np.median(inside))
    with np.errstate(divide="ignore", invalid="ignore"):
        misaligned = np.where(offset == constant, 0.0, (offset - constant) / spacing)
    slope = float(np.polyfit(np.arange(len(inside)), inside, 1)[0]) if len(inside) > 1 else 0.0
    rows = placed.rows
    return Alignment(
        offset=offset,
        row_offset=None if rows is None else rows[placed.queries] - rows[placed.sources],
        spacing=spacing,
        constant=constant,
        drift=float(inside[-1] - inside[0]),
        deviation=float(inside.std()),
        slope=slope,
        misaligned=misaligned,
    )


def rule_fit(placed: Placed) -> RuleFit:
    """Fit a layer's coordinates to those by rule, and say where rows start. UsageError without coordinates."""
    columns, rows = placed.columns, placed.rows
    fall = columns[:-1] - columns[1:]
    starts = (fall >= _START) & (columns[1:] < columns[:-1] / 2)
    if rows is not None:
        starts |= np.diff(rows) > _START
    return RuleFit(
        row=None if rows is None else _affine(rows, placed.rule),
        column=_affine(columns, placed.rule),
        starts=np.flatnonzero(starts) + 1,
        by_rule=np.flatnonzero(np.diff(placed.rule[:, 0]) > 0) + 1,
    )


def scale(placed: Placed) -> Scale:
    """Measure the size of a column at both ends of the string. UsageError without coordinates."""
    gaps = np.diff(placed.columns[placed.sources])
    rows = placed.rows
    risen = None if rows is None else rows[placed.sources[-1]] - rows[placed.sources[0]]
    return Scale(
        first=float(gaps[:ENDS].mean()),
        last=float(gaps[-ENDS:].mean()),
        row_drift=None if risen is None else float(risen / len(gaps)),
    )


def _affine(values: Float[np.ndarray, "T"], rule: Int[np.ndarray, "T 2"]) -> AxisFit | None:
    total = float(((values - values.mean()) ** 2).sum())
    if total < _FLAT * len(values):
        return None
    design = np.column_stack([rule, np.ones(len(rule))]).astype(np.float64)
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    left = float(((values - design @ solution) ** 2).sum())
    per_row, per_column, constant = (float(part) for part in solution)
    return AxisFit(per_row, per_column, constant, r2=max(0.0, 1 - left / total))
