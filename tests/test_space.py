"""Heads in score space: the same heads give the same picture, in any order, and kinds that differ fall apart."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.estimates import Estimates
from analyses.space import FEWEST, LEAST_UNIT, SCORES, HeadPoint, ScoreSpace, points_of, score_space
from models.errors import UsageError

# What four kinds of heads score high on.
KINDS = {
    "locator": ("locator.mass", "locator.decoding", "scores.position"),
    "aligned": ("aligned.mass", "aligned.conflict", "moved.slip", "ov.copying"),
    "induction": ("induction.mass", "induction.conflict", "moved.stays", "symbolic"),
    "look-back(2)": ("lookback.mass", "positional"),
}


def heads(runs: int = 3, noise: float = 0.05, seed: int = 0, kinds: tuple[str, ...] = tuple(KINDS)) -> list[HeadPoint]:
    random = np.random.default_rng(seed)
    points = []
    for run in range(runs):
        for head, kind in enumerate(kinds):
            scores = {name: float(name in KINDS[kind]) + noise * random.normal() for name in SCORES}
            points.append(HeadPoint(f"run{run}", 0, head, scores, kind))
    return points


def located(space: ScoreSpace) -> dict[tuple[str, int, int], np.ndarray]:
    return {(p.run, p.layer, p.head): space.coordinates[i] for i, p in enumerate(space.points)}


def test_kinds_fall_into_clusters_of_their_own_across_runs() -> None:
    space = score_space(heads())
    assert space.agreement == 1
    assert space.silhouette > 0.5
    assert [cluster.runs for cluster in space.clusters] == [3, 3, 3, 3]
    assert {kind for cluster in space.clusters for kind in cluster.labels} == {kind.split("(")[0] for kind in KINDS}
    for cluster in space.clusters:
        (kind,) = cluster.labels
        expected = next(names for label, names in KINDS.items() if label.startswith(kind))
        assert all(name in expected and mean > 1 for name, mean in cluster.marks[:2])


def test_clusters_that_cut_across_labels_agree_no_better_than_chance() -> None:
    points = [HeadPoint(p.run, p.layer, p.head, p.scores, p.run) for p in heads(runs=4)]
    assert score_space(points).agreement < 0.05


def test_components_are_those_of_the_standardised_scores() -> None:
    space = score_space(heads())
    raw = np.array([[point.scores[name] for name in space.scores] for point in space.points])
    np.testing.assert_allclose(space.standard.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(space.standard.std(0), np.minimum(raw.std(0) / LEAST_UNIT, 1))
    np.testing.assert_allclose(np.cov(space.coordinates.T), np.diag(space.coordinates.var(0, ddof=1)), atol=1e-10)
    np.testing.assert_allclose(space.explained, space.coordinates.var(0) / space.standard.var(0).sum())
    for c in range(len(space.explained)):
        for m in range(len(space.scores)):
            expected = np.corrcoef(space.coordinates[:, c], raw[:, m])[0, 1] * space.standard[:, m].std()
            assert space.loadings[c, m] == pytest.approx(expected, abs=1e-9)


def test_scores_that_no_head_has_hardly_move_the_picture() -> None:
    quiet, noisy = (heads(noise=noise) for noise in (0, 0.02))
    for before, after in zip(score_space(quiet).coordinates, score_space(noisy).coordinates, strict=True):
        np.testing.assert_allclose(np.abs(before[:2]), np.abs(after[:2]), atol=0.5)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_of_heads_changes_nothing(order: list[int]) -> None:
    points = heads()
    one, other = score_space(points), score_space([points[i] for i in order])
    assert [c.labels for c in one.clusters] == [c.labels for c in other.clusters]
    np.testing.assert_array_equal(one.cluster[order], other.cluster)
    for key, at in located(one).items():
        np.testing.assert_allclose(located(other)[key], at, atol=1e-9)


def test_an_axis_points_where_its_strongest_score_grows() -> None:
    space = score_space(heads())
    for component in range(len(space.explained)):
        drivers = space.drivers(component)
        assert drivers[0][1] > 0
        assert abs(drivers[0][1]) >= abs(drivers[1][1]) >= abs(drivers[2][1])
        column = space.scores.index(drivers[0][0])
        assert np.corrcoef(space.standard[:, column], space.coordinates[:, component])[0, 1] > 0


def test_what_is_not_measurable_counts_as_zero_and_is_named() -> None:
    points = heads(runs=2)
    lacking = dict(points[0].scores)
    del lacking["entropy"]
    points[0] = HeadPoint("run0", 0, 0, lacking, "locator")
    space = score_space(points)
    column = space.scores.index("entropy")
    others = [p.scores["entropy"] for p in points[1:]]
    raw = np.array([0.0, *others])
    np.testing.assert_allclose(space.standard[:, column], (raw - raw.mean()) / LEAST_UNIT)
    assert space.imputed.sum() == 1
    assert space.as_dict()["heads"][0]["imputed"] == ["entropy"]


def test_scores_that_nobody_measured_or_that_are_constant_are_left_out_with_a_reason() -> None:
    points = []
    for at, p in enumerate(heads(runs=2)):
        scores = {name: value for name, value in p.scores.items() if name not in ("symbolic", "ov.copying") or at < 1}
        scores.pop("symbolic", None)
        points.append(HeadPoint(p.run, p.layer, p.head, scores | {"entropy": 1.0}))
    space = score_space(points)
    assert space.dropped == {"symbolic": "not measured for any head", "entropy": "the same for all heads"}
    assert set(space.scores) == set(SCORES) - {"symbolic", "entropy"}
    assert space.agreement is None, "no labels were given"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_heads_have_a_picture_but_no_clusters(n: int) -> None:
    space = score_space(heads(runs=1, kinds=tuple(KINDS)[:n]))
    assert space.coordinates.shape == (n, n - 1)
    assert np.isfinite(space.coordinates).all()
    assert space.cluster is None and space.clusters == () and space.silhouette is None and space.agreement is None
    assert f"it takes {FEWEST}" in space.reason
    json.dumps(space.as_dict(), allow_nan=False)


def test_equal_heads_are_one_point() -> None:
    same = heads(runs=1, noise=0)[0]
    space = score_space([HeadPoint(f"run{i}", 0, 0, same.scores, same.label) for i in range(6)])
    assert space.coordinates.shape == (6, 0)
    assert space.scores == ()
    assert "1 different heads" in space.reason
    json.dumps(space.as_dict(), allow_nan=False)


def test_copies_of_few_kinds_are_clustered_as_often_as_they_differ() -> None:
    points = heads(runs=5, noise=0)
    space = score_space(points)
    assert len(space.clusters) <= len(KINDS)
    assert np.isfinite(space.silhouette)


def test_one_cloud_is_not_cut_into_clusters() -> None:
    random = np.random.default_rng(0)
    cloud = [HeadPoint("run", 0, i, dict(zip(SCORES, random.normal(size=len(SCORES)), strict=True))) for i in range(40)]
    space = score_space(cloud)
    assert space.cluster is None
    assert space.silhouette < 0.25
    assert "do not fall into clusters" in space.reason


def test_points_are_scores_beyond_chance_of_real_heads() -> None:
    def estimates(values: list[list[float]], chance: float = np.nan) -> Estimates:
        value = np.array(values)
        counts = np.ones(value.shape, int)
        return Estimates(value, value, value, counts, counts, np.full(value.shape, chance))

    nan = np.nan
    scores = {
        "aligned.mass": estimates([[0.9, 0.2], [0.5, nan]]),
        "duplicate.lift": estimates([[0.75, nan], [0.5, nan]], chance=0.5),
        "induction.m": estimates([[1, 1], [1, nan]]),
    }
    points = points_of("run", scores, (2, 1), {(0, 0): "aligned", (0, 1): "sink", (1, 0): "look-back(3)"})
    assert [(p.layer, p.head, p.kind) for p in points] == [(0, 0, "aligned"), (0, 1, "sink"), (1, 0, "look-back")]
    assert [dict(p.scores) for p in points] == [
        {"aligned.mass": 0.9, "duplicate.lift": 0.5},
        {"aligned.mass": 0.2},
        {"aligned.mass": 0.5, "duplicate.lift": 0.0},
    ]


def test_no_heads_and_heads_given_twice_are_refused() -> None:
    with pytest.raises(UsageError, match="no heads"):
        score_space([])
    with pytest.raises(UsageError, match=r"head 0\.0 of 'run0' was given twice"):
        score_space(heads(runs=1) + heads(runs=1))


def test_the_same_heads_give_the_same_bytes() -> None:
    assert json.dumps(score_space(heads()).as_dict()) == json.dumps(score_space(heads()).as_dict())
