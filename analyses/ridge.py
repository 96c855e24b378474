"""Regression whose strength is chosen on held-out groups: what probes are fitted with.

Rows fall into groups (here: strings of neighbouring lengths), and a probe is only ever tested on groups it has not
seen. Neither regression changes when the features are rotated, so neither depends on the basis of the residual stream.

Shape letters: R rows, F features, Y targets, G groups.
"""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int
from sklearn.metrics.pairwise import euclidean_distances

from models.registry import Registry

ALPHAS = np.logspace(-7, 2, 10)  # ridge penalties, in units of the features' total variance
WIDEST = 256  # principal directions that are kept
NEGLIGIBLE = 1e-10  # variance, in the same units, that even the smallest penalty leaves nothing of
CONSTANT = 1e-5  # features whose deviation is a smaller share of their size are rounding
NEIGHBOURS = 8
TIE = 1e-9  # squared distances that differ by less are equal, in units of the features' total variance


class Regression(Protocol):
    """Anything that learns targets on some groups and predicts them on another."""

    def __init__(
        self, features: Float[np.ndarray, "R F"], targets: Float[np.ndarray, "R Y"], groups: Int[np.ndarray, "R"]
    ) -> None: ...

    def predict(self, train: Iterable[int], test: int) -> Float[np.ndarray, "r Y"]:
        """Targets of the rows of group `test`, in their order, by what the groups `train` (at least two) teach."""
        ...


REGRESSIONS: Registry[type[Regression]] = Registry("probe")


def prepared(features: Float[np.ndarray, "R F"]) -> Float[np.ndarray, "R f"]:
    """Features along their principal directions, centred, divided by one number so that their variances add up to 1.

    One scale for all keeps their geometry. Of the directions, WIDEST at most, those are left out whose variance is
    below NEGLIGIBLE; features that do not vary become one that is zero.
    """
    features = np.asarray(features, np.float64)
    size = np.sqrt(np.square(features).mean())
    features = features - features.mean(0)
    deviation = np.sqrt(np.square(features).mean())
    if deviation <= CONSTANT * size:
        return np.zeros((len(features), 1))
    features /= deviation * np.sqrt(features.shape[1])
    variances, directions = np.linalg.eigh(features.T @ features / len(features))
    kept = np.flatnonzero(variances > NEGLIGIBLE)[: -WIDEST - 1 : -1]
    return features @ directions[:, kept]


@REGRESSIONS.register("linear")
class GroupedRidge:
    """Ridge regression with intercept; each target's penalty is the one that predicts held-out training groups best.

    Minimises mean (y - x w - c)^2 + alpha |w|^2 over the rows. As every training set is a union of groups, its moments
    are sums of theirs, and one eigendecomposition serves all penalties and targets.
    """

    def __init__(
        self, features: Float[np.ndarray, "R F"], targets: Float[np.ndarray, "R Y"], groups: Int[np.ndarray, "R"]
    ) -> None:
        self._x = {int(group): features[groups == group] for group in np.unique(groups)}
        self._y = {group: targets[groups == group] for group in self._x}
        self._moments = {group: self._sums(x, self._y[group]) for group, x in self._x.items()}
        self._paths: dict[frozenset[int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    @staticmethod
    def _sums(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.array(len(x)), x.sum(0), y.sum(0), x.T @ x, x.T @ y

    def _path(self, train: frozenset[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights [F, A, Y] for every penalty, and the means of features and targets."""
        if train not in self._paths:
            moments = zip(*(self._moments[group] for group in sorted(train)), strict=True)
            rows, x, y, xx, xy = (np.sum(parts, axis=0) for parts in moments)
            x_mean, y_mean = x / rows, y / rows
            variances, directions = np.linalg.eigh(xx / rows - np.outer(x_mean, x_mean))
            along = directions.T @ (xy / rows - np.outer(x_mean, y_mean))
            shrunk = along[:, None] / (np.maximum(variances, 0)[:, None] + ALPHAS)[..., None]
            self._paths[train] = np.tensordot(directions, shrunk, 1), x_mean, y_mean
        return self._paths[train]

    def _held_out(self, train: frozenset[int], test: int) -> Float[np.ndarray, "A Y"]:
        """Squared errors on a group under every penalty."""
        weights, x_mean, y_mean = self._path(train)
        off = np.tensordot(self._x[test] - x_mean, weights, 1) + y_mean - self._y[test][:, None]
        return np.square(off).sum(0)

    def predict(self, train: Iterable[int], test: int) -> Float[np.ndarray, "r Y"]:
        """See Regression.predict."""
        groups = frozenset(train)
        chosen = np.sum([self._held_out(groups - {group}, group) for group in sorted(groups)], axis=0).argmin(0)
        weights, x_mean, y_mean = self._path(groups)
        picked = np.take_along_axis(weights, chosen[None, None], 1)[:, 0]
        return (self._x[test] - x_mean) @ picked + y_mean


@REGRESSIONS.register("neighbours")
class Neighbours:
    """Mean over the NEIGHBOURS nearest training rows and those equally near.

    Reads curved codes too, but never predicts beyond what it has seen.
    """

    def __init__(
        self, features: Float[np.ndarray, "R F"], targets: Float[np.ndarray, "R Y"], groups: Int[np.ndarray, "R"]
    ) -> None:
        self._x, self._y, self._groups = features, targets, groups

    def predict(self, train: Iterable[int], test: int) -> Float[np.ndarray, "r Y"]:
        """See Regression.predict."""
        known, asked = np.isin(self._groups, list(train)), self._groups == test
        distances = euclidean_distances(self._x[asked], self._x[known], squared=True)
        last = min(NEIGHBOURS, int(known.sum())) - 1
        near = (distances <= np.partition(distances, last, axis=1)[:, last, None] + TIE).astype(float)
        return near @ self._y[known] / near.sum(1, keepdims=True)
