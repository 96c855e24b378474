"""Heads as points in the space of their scores: a view beside the rules, which sees what thresholds cut apart.

Every head, of one run or of many, is a point; every score a coordinate, in units of its deviation over the heads given,
or of LEAST_UNIT where it deviates less: what no head has must not spread heads as widely as what some have. A score
that is not measurable for a head counts as 0, as it does for the rules.
Principal components show which scores go together, and clusters whether heads fall into kinds without being told the
kinds. Nothing is drawn at random, and neither the order of heads nor the sign of an axis is left to chance.

Shape letters: N heads, M scores, C principal components.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.cluster import AgglomerativeClustering
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score

from analyses.estimates import Estimate, Estimates
from models.errors import UsageError

# Coordinates: scores between 0 and 1, or near it, that mean the same for every model.
SCORES = (
    "locator.mass",
    "locator.decoding",
    "locator.mass.source",
    "locator.decoding.source",
    "aligned.mass",
    "aligned.conflict",
    "induction.mass",
    "induction.conflict",
    "lookback.mass",
    "sink.mass",
    "self.mass",
    "duplicate.lift",
    "entropy",
    "modular.score",
    "moved.slip",
    "moved.stays",
    "symbolic",
    "positional",
    "ov.copying",
    "scores.position",
    "scores.token",
    "scores.interaction",
)
COMPONENTS = 3
FEWEST, MOST_CLUSTERS = 4, 8  # heads that can be clustered at all, clusters that are tried
STRUCTURE = 0.25  # silhouette below which points do not fall into clusters (Kaufman and Rousseeuw, 1990)
LEAST_UNIT = 0.1  # of a score between 0 and 1


@dataclass(frozen=True)
class HeadPoint:
    """One head and its scores.

    Attributes:
        run: whose it is.
        layer, head: which.
        scores: by name; absent where it could not be measured.
        label: what the rules call it, None where nobody asked.
    """

    run: str
    layer: int
    head: int
    scores: Mapping[str, float]
    label: str | None = None

    @property
    def kind(self) -> str | None:
        """The label without its parameter: "look-back" of "look-back(3)"."""
        return None if self.label is None else self.label.partition("(")[0]


@dataclass(frozen=True)
class Cluster:
    """Heads that lie together.

    Attributes:
        number: 0 for the largest.
        members: their indices among the points.
        runs: in how many runs there is one.
        labels: how many heads of each kind, most frequent first.
        marks: (score, mean in deviations from that of all heads), the three furthest from 0.
    """

    number: int
    members: tuple[int, ...]
    runs: int
    labels: Mapping[str, int]
    marks: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ScoreSpace:
    """Heads as points.

    Attributes:
        points: N heads, in the order given.
        scores: M that are coordinates.
        dropped: why other scores are none.
        standard: float[N, M] scores with mean 0 over the heads and deviation 1, or less where they hardly vary.
        imputed: bool[N, M] it was not measurable and counts as 0.
        coordinates: float[N, C] along the principal components.
        explained: float[C] share of the variance.
        loadings: float[C, M] correlation of each score with each component times the score's deviation in `standard`,
            -1 to 1: near 0 also where a score hardly varies.
        cluster: int[N] number of each head's cluster, None without clusters.
        clusters: largest first; empty where there are none, and `reason` says why.
        silhouette: mean over heads, -1 to 1, None where nothing was clustered.
        agreement: adjusted Rand index of clusters and kinds of labels: 1 the same partition, 0 chance.
        reason: why there are no clusters.
    """

    points: tuple[HeadPoint, ...]
    scores: tuple[str, ...]
    dropped: Mapping[str, str]
    standard: Float[np.ndarray, "N M"]
    imputed: Bool[np.ndarray, "N M"]
    coordinates: Float[np.ndarray, "N C"]
    explained: Float[np.ndarray, "C"]
    loadings: Float[np.ndarray, "C M"]
    cluster: Int[np.ndarray, "N"] | None
    clusters: tuple[Cluster, ...]
    silhouette: float | None
    agreement: float | None
    reason: str = ""

    def drivers(self, component: int, most: int = 3) -> tuple[tuple[str, float], ...]:
        """(score, loading) of the scores that go most with a component, strongest first."""
        order = np.argsort(-np.abs(self.loadings[component]), kind="stable")[:most]
        return tuple((self.scores[i], float(self.loadings[component, i])) for i in order)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        heads = [
            {
                "run": point.run,
                "layer": point.layer,
                "head": point.head,
                "label": point.label,
                "coordinates": self.coordinates[at].tolist(),
                "cluster": None if self.cluster is None else int(self.cluster[at]),
                "imputed": [self.scores[i] for i in np.flatnonzero(self.imputed[at])],
            }
            for at, point in enumerate(self.points)
        ]
        return {
            "scores": list(self.scores),
            "dropped": dict(self.dropped),
            "heads": heads,
            "explained": self.explained.tolist(),
            "loadings": self.loadings.tolist(),
            "clusters": [
                {
                    "number": cluster.number,
                    "heads": len(cluster.members),
                    "runs": cluster.runs,
                    "labels": dict(cluster.labels),
                    "marks": dict(cluster.marks),
                }
                for cluster in self.clusters
            ],
            "silhouette": self.silhouette,
            "agreement": self.agreement,
            "reason": self.reason,
        }


def points_of(
    run: str,
    scores: Mapping[str, Estimates],
    heads: Sequence[int],
    labels: Mapping[tuple[int, int], str] | None = None,
) -> tuple[HeadPoint, ...]:
    """One run's heads as points, in order of layer and head.

    Args:
        run: its name.
        scores: Estimates [L, H] by name; those of SCORES are taken, beyond chance where a chance is known:
            (value - chance) / (1 - chance).
        heads: real heads of each layer.
        labels: of (layer, head).
    """
    points = []
    for layer, n_heads in enumerate(heads):
        for head in range(n_heads):
            found = {name: _beyond_chance(scores[name].at(layer, head)) for name in SCORES if name in scores}
            known = {name: value for name, value in found.items() if value is not None}
            points.append(HeadPoint(run, layer, head, known, None if labels is None else labels[layer, head]))
    return tuple(points)


def score_space(points: Sequence[HeadPoint]) -> ScoreSpace:
    """Principal components and clusters of heads, of as many runs as there are.

    Clusters are Ward's, on all standardised scores, as many as give the largest silhouette; none where that is below
    STRUCTURE or there are fewer than FEWEST different heads.

    Raises:
        UsageError: no heads, or one twice.
    """
    points = tuple(points)
    if not points:
        raise UsageError("no heads were given; give at least one")
    twice = [name for name, n in Counter((p.run, p.layer, p.head) for p in points).items() if n > 1]
    if twice:
        run, layer, head = twice[0]
        raise UsageError(f"head {layer}.{head} of {run!r} was given twice; give runs different names")
    names, dropped, values = _table(points)
    imputed = np.isnan(values)
    values = np.where(imputed, 0.0, values)
    standard = (values - values.mean(0)) / np.maximum(values.std(0), LEAST_UNIT)
    coordinates, explained, loadings = _components(standard)
    cluster, silhouette, reason = _clustered(standard, coordinates)
    kinds = [point.kind for point in points]
    agreement = None
    if cluster is not None and None not in kinds:
        agreement = float(adjusted_rand_score(kinds, cluster))
    clusters = () if cluster is None else _described(points, names, standard, cluster)
    return ScoreSpace(
        points, names, dropped, standard, imputed, coordinates, explained, loadings,
        cluster, clusters, silhouette, agreement, reason,
    )  # fmt: skip


def _beyond_chance(estimate: Estimate) -> float | None:
    if estimate.value is None or estimate.chance is None or estimate.chance >= 1:
        return estimate.value
    return (estimate.value - estimate.chance) / (1 - estimate.chance)


def _table(points: Sequence[HeadPoint]) -> tuple[tuple[str, ...], dict[str, str], Float[np.ndarray, "N M"]]:
    """Scores that are coordinates, why the others are not, and the values, NaN where one was not measurable."""
    names, dropped, columns = [], {}, []
    for name in SCORES:
        column = np.array([point.scores.get(name, np.nan) for point in points], float)
        known = np.isfinite(column)
        if not known.any():
            dropped[name] = "not measured for any head"
        elif np.ptp(np.where(known, column, 0.0)) < 1e-9:
            dropped[name] = "the same for all heads"
        else:
            names.append(name)
            columns.append(np.where(known, column, np.nan))
    return tuple(names), dropped, np.array(columns).reshape(len(names), len(points)).T


def _components(standard: Float[np.ndarray, "N M"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates [N, C], explained [C] and loadings [C, M]; the largest weight in every component is positive."""
    n_heads, n_scores = standard.shape
    n = min(COMPONENTS, n_heads - 1, n_scores)
    if n < 1:
        return np.zeros((n_heads, 0)), np.zeros(0), np.zeros((0, n_scores))
    pca = PCA(n, svd_solver="full").fit(standard)
    directions = pca.components_
    largest = np.abs(directions).round(9).argmax(1)
    signs = np.sign(directions[np.arange(n), largest])
    coordinates = pca.transform(standard) * signs
    loadings = directions * (signs * coordinates.std(0))[:, None]
    return coordinates, pca.explained_variance_ratio_, loadings


def _clustered(standard: np.ndarray, coordinates: np.ndarray) -> tuple[np.ndarray | None, float | None, str]:
    """Number of each head's cluster, the silhouette, and why there are none."""
    different = len(np.unique(standard.round(9), axis=0)) if standard.shape[1] else 1
    if different < FEWEST:
        return None, None, f"{different} different heads are too few to fall into clusters; it takes {FEWEST}"
    tried = []
    for n in range(2, min(MOST_CLUSTERS, different - 1) + 1):
        found = AgglomerativeClustering(n, linkage="ward").fit_predict(standard)
        tried.append((float(silhouette_score(standard, found)), found))
    silhouette, found = max(tried, key=lambda entry: entry[0])
    if silhouette < STRUCTURE:
        return None, silhouette, f"the heads do not fall into clusters: silhouette {silhouette:.2f}, below {STRUCTURE}"
    largest = sorted(set(found), key=lambda one: (-(found == one).sum(), coordinates[found == one, 0].mean()))
    return np.array([largest.index(one) for one in found]), silhouette, ""


def _described(
    points: Sequence[HeadPoint], names: Sequence[str], standard: np.ndarray, cluster: np.ndarray
) -> tuple[Cluster, ...]:
    described = []
    for number in range(int(cluster.max()) + 1):
        members = np.flatnonzero(cluster == number).tolist()
        means = standard[members].mean(0)
        marks = [(names[i], float(means[i])) for i in np.argsort(-np.abs(means), kind="stable")[:3].tolist()]
        kinds = Counter(points[i].kind for i in members)
        labels = {kind: n for kind, n in sorted(kinds.items(), key=lambda item: (-item[1], str(item[0]))) if kind}
        runs = len({points[i].run for i in members})
        described.append(Cluster(number, tuple(members), runs, labels, tuple(marks)))
    return tuple(described)
