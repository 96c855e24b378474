"""Probes: how well positions can be read from the residual stream and from what each head gathers, across lengths.

A probe is a regression from an activation to a number that says where its row stands. It is trained on strings of some
lengths and tested on strings of others, in two ways: *inside* leaves out lengths with shorter and longer ones on both
sides, *beyond* trains on the shorter half of the lengths and tests on the longer half, which is how copies fail
([C2D] section 3.3). Beside it stands what the same probe reads when the labels of each string are shuffled.

Score: R^2 = 1 - sum (y - prediction)^2 / sum (y - mean y)^2 over the tested rows, at least FLOOR. 0 is what the mean of
the tested rows scores; beyond, where indices are larger than in training, a constant guess scores less.

What is decodable is not what is used: that takes an intervention.

Shape letters: R rows, S sites, K targets, F features, N strings, G groups of lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from analyses.estimates import Estimate, Estimates, from_draws, resample
from analyses.passes import Progress
from analyses.readings import ROWS, Readings, Site, Target, read_activations, targets_of
from analyses.ridge import REGRESSIONS, Regression, prepared
from analyses.samples import Sample
from models.errors import UsageError
from models.registry import unknown
from models.transformer import CopyTransformer

FLOOR = -1.0  # of R^2: worse than this is not told apart
REGIMES = ("inside", "beyond")
SHUFFLES = 3


@dataclass(frozen=True)
class ProbeResults:
    """How well every target can be read at every site by one kind of probe.

    Attributes:
        kind: "linear" (ridge regression) or "neighbours" (mean over the nearest rows).
        sites: S of them, in the order in which a model computes them.
        targets: K of them.
        inside, beyond: R^2, Estimates of shape [S, K]; `chance` is that of the shuffled labels.
        groups: lengths of the strings, G groups that were held out one at a time.
        excluded: why a (target, kind of rows) cannot be asked for.
    """

    kind: str
    sites: tuple[Site, ...]
    targets: tuple[Target, ...]
    inside: Estimates
    beyond: Estimates
    groups: tuple[tuple[int, ...], ...]
    excluded: Mapping[tuple[str, str], str]

    def regime(self, name: str) -> Estimates:
        """`inside` or `beyond`, by name."""
        if name not in REGIMES:
            raise UsageError(unknown("way of testing probes", name, REGIMES))
        return self.inside if name == "inside" else self.beyond

    def at(self, site: str, target: str, rows: str = "copy", regime: str = "inside") -> Estimate:
        """R^2 of one target, under any of its names, at one site.

        Raises:
            UsageError: no such site, target, kind of rows, or regime.
        """
        estimates = self.regime(regime)
        sites = [known.name for known in self.sites]
        if site not in sites:
            raise UsageError(unknown("site", site, sites))
        if (target, rows) in self.excluded:
            return Estimate(None, None, 0, 0, None, f"{target}, {rows} rows: {self.excluded[target, rows]}")
        for column, known in enumerate(self.targets):
            if known.rows == rows and target in known.names:
                return estimates.at(sites.index(site), column)
        names = [f"{name} ({known.rows})" for known in self.targets for name in known.names]
        raise UsageError(unknown("target", f"{target} ({rows})", names))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        targets = [{"name": t.name, "rows": t.rows, "also": list(t.also)} for t in self.targets]
        sites = [
            {
                "site": site.name,
                "hook": site.hook,
                "layer": site.layer,
                "head": site.head,
                **{name: [self.regime(name).at(at, k).as_dict() for k in range(len(targets))] for name in REGIMES},
            }
            for at, site in enumerate(self.sites)
        ]
        return {
            "kind": self.kind,
            "lengths": [list(group) for group in self.groups],
            "targets": targets,
            "excluded": [{"name": name, "rows": rows, "reason": why} for (name, rows), why in self.excluded.items()],
            "sites": sites,
        }


def probe_model(
    model: CopyTransformer,
    samples: Sequence[Sample],
    *,
    kinds: Sequence[str] = ("linear", "neighbours"),
    seed: int = 0,
    rows_per_string: int = 48,
    progress: Progress | None = None,
) -> dict[str, ProbeResults]:
    """Probe the residual stream before every layer and after the last, and every head's `hook_z`.

    Args:
        model: in any mode; it is not changed.
        samples: see `read_activations`.
        kinds: of probes, see ProbeResults.
        seed: of the shuffled labels and the bootstrap over strings.
        rows_per_string: see `read_activations`.
        progress: called with the share that is done.

    Returns:
        Results by kind.

    Raises:
        UsageError: an unknown kind, or too few lengths.
    """
    probes = {kind: REGRESSIONS[kind] for kind in kinds}
    read = read_activations(model, samples, rows_per_string)
    targets, excluded = targets_of(read)
    trials = [_Trial.of(read, rows, [t.name for t in targets if t.rows == rows], seed) for rows in ROWS]
    errors: dict[str, list[list[np.ndarray]]] = {kind: [[] for _ in trials] for kind in kinds}
    for done, features in enumerate(read.features, start=1):
        with threadpool_limits(1, user_api="blas"):  # matrices are too small to share: waiting costs more than it saves
            for trial, *found in zip(trials, *errors.values(), strict=True):
                x = prepared(features[trial.picked])
                for probe, of_sites in zip(probes.values(), found, strict=True):
                    of_sites.append(trial.errors(probe(x, trial.labels, trial.group)))
        if progress is not None:
            progress(done / len(read.features))
    results = {}
    for kind, found in errors.items():
        stacked = [np.stack(of_sites) for of_sites in found]
        inside, beyond = (_estimates(trials, stacked, regime, seed) for regime in range(len(REGIMES)))
        results[kind] = ProbeResults(kind, read.sites, targets, inside, beyond, read.groups, excluded)
    return results


@dataclass(frozen=True)
class _Trial:
    """What all sites are asked on one kind of rows.

    Attributes:
        picked: Bool of all rows that were read; R are of this kind.
        labels: of K targets, followed by SHUFFLES versions of them with the labels of each string shuffled; centred.
        string, group: the row's string, and the group its length is in.
    """

    picked: np.ndarray
    labels: Float[np.ndarray, "R Y"]
    string: Int[np.ndarray, "R"]
    group: Int[np.ndarray, "R"]

    @classmethod
    def of(cls, read: Readings, rows: str, names: Sequence[str], seed: int) -> "_Trial":
        picked = read.picked(rows)
        string, random = read.string[picked], np.random.default_rng(seed)
        labels = np.stack([read.values[name][picked] for name in names], axis=1)
        labels = labels - labels.mean(0)
        # Sorted by string and, within one, by chance: row i of the shuffled labels belongs to the string of row i.
        shuffled = [labels[np.lexsort((random.random(len(string)), string))] for _ in range(SHUFFLES)]
        return cls(picked, np.concatenate([labels, *shuffled], axis=1), string, read.group[picked])

    @property
    def plan(self) -> tuple[list[tuple[set[int], int]], list[tuple[set[int], int]]]:
        """Groups to train on and the one to test on, of both regimes."""
        groups = set(range(int(self.group.max()) + 1))
        half = len(groups) // 2
        inside = [(groups - {group}, group) for group in range(1, len(groups) - 1)]
        return inside, [(set(range(half)), group) for group in range(half, len(groups))]

    def errors(self, probe: Regression) -> Float[np.ndarray, "2 N Y"]:
        """Sums of squared errors over each string's tested rows, of both regimes."""
        found = np.zeros((len(REGIMES), int(self.string.max()) + 1, self.labels.shape[1]))
        for sums, plan in zip(found, self.plan, strict=True):
            for train, test in plan:
                rows = self.group == test
                np.add.at(sums, self.string[rows], np.square(probe.predict(train, test) - self.labels[rows]))
        return found

    def tested(self, regime: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Strings that are tested, rows in each [n], and sums of the targets and of their squares over them [n, K]."""
        rows = np.isin(self.group, [test for _, test in self.plan[regime]])
        strings, at = np.unique(self.string[rows], return_inverse=True)
        targets = self.labels[rows, : self.labels.shape[1] // (1 + SHUFFLES)]
        sums = np.zeros((len(strings), targets.shape[1], 2))
        np.add.at(sums, at, np.stack([targets, np.square(targets)], axis=2))
        return strings, np.bincount(at), sums


def _estimates(trials: Sequence[_Trial], errors: Sequence[np.ndarray], regime: int, seed: int) -> Estimates:
    """R^2 of every site and target from `errors`, [S, 2, N, Y] of each trial; see `_Trial.errors`."""
    parts = []
    for trial, found in zip(trials, errors, strict=True):
        strings, rows, sums = trial.tested(regime)
        split = np.split(found[:, regime, strings], 1 + SHUFFLES, axis=2)
        once, counts = np.ones((1, len(strings))), resample(len(strings), seed)
        value = _r2(split[0], rows, sums, once)[0]
        chance = np.mean([_r2(shuffled, rows, sums, once)[0] for shuffled in split[1:]], axis=0)
        resting_on = (np.full(value.shape, total) for total in (rows.sum(), len(strings)))
        parts.append((_r2(split[0], rows, sums, counts), value, *resting_on, chance))
    draws, value, rows, strings, chance = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return from_draws(draws, value, rows, strings, chance=chance)


def _r2(
    errors: Float[np.ndarray, "S N K"],
    rows: Int[np.ndarray, "N"],
    sums: Float[np.ndarray, "N K 2"],
    counts: Float[np.ndarray, "D N"],
) -> Float[np.ndarray, "D S K"]:
    """R^2 over all tested rows, each string counted as often as `counts` says."""
    first, second = np.moveaxis(np.tensordot(counts, sums, 1), -1, 0)
    variation = second - np.square(first) / (counts @ rows)[:, None]
    unexplained = np.tensordot(counts, errors, (1, 1))
    return np.maximum(1 - unexplained / variation[:, None], FLOOR)
