"""Sidelobes of rotary planes: is the period of a head's scores the wavelength 2 pi / theta_j of planes that make it.

A plane adds |q| |k| cos(theta_j (i - j) - phase) to the score, so a head that should favour one distance favours others
a wavelength away as well.

Shape letters: N strings, L layers, H heads, R rows, O offsets, P planes, K keys.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float

from analyses.estimates import Estimates, ratios
from analyses.measures.base import MODEL_MEASURES
from analyses.measures.harmonics import PERIODS, best, detrended, shares
from analyses.measures.periodicity import CLEAR, FLOOR, own_period, reach
from analyses.passes import Measured, Progress, ReadString, read_string
from analyses.relations import relations_of
from analyses.samples import Sample
from models.attention import HeadPattern
from models.positions.rotary import Rotary
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

STRINGS = 4  # the longest ones
ROWS = 256  # of a string, evenly spaced
SHORTEST = 20  # tokens of a string that is read
ALIKE = 0.1  # a wavelength that is off the period by this share of it matches
REASON = "no planes that turn along the source, or no clear period in the scores, or no string without a period"
NEEDED = ("modular.m", "periodic.period", "periodic.planes", "periodic.repeats")  # scores that `cause` reads
EXPLAINED = 0.5  # share of the profile that matching planes make, above which they are the cause


@MODEL_MEASURES.register("sidelobes")
@torch.inference_mode()
def sidelobes(
    model: CopyTransformer, task: CopyTask, samples: Sequence[Sample], *, seed: int, progress: Progress | None = None
) -> Measured:
    """`periodic.planes` and `periodic.wavelength`, on the longest plain strings without a period of their own.

    Profile: mean over copy rows of the score at each offset from the true source, less a quadratic trend; plane j's
    part of it the same with its term, scale * q_j k_j. Plane j's share is <part_j, profile> / <profile, profile>; the
    shares add up to 1. Its wavelength is 2 pi / (theta_j * mean step of its coordinate from token to token), at
    least 2, since offsets are whole numbers: faster turns look like slower ones.

    Scores:
        periodic.planes: sum of the shares of the planes whose wavelength is within ALIKE of the profile's period
            (`periodicity.py`). Chance is the share of all planes that are.
        periodic.wavelength: of the plane with the largest share, in tokens.

    Args:
        model: any; layers whose scheme does not rotate are not measurable.
        task: not needed.
        samples: plain strings are read.
        seed: of the bootstrap.
        progress: called with the share that is done.
    """
    plain = [(s, row) for s in samples if s.kind == "plain" and s.length >= SHORTEST for row in range(len(s.batch))]
    free = [(s, row) for s, row in plain if _without_period(s.batch, row)]
    strings = sorted(free, key=lambda string: -string[0].length)[:STRINGS]
    shape = (max(len(strings), 1), model.cfg.n_layers, max(model.cfg.heads))
    periods = np.zeros((*shape, len(PERIODS)))
    rows = np.zeros(shape)
    planes = np.zeros((*shape, model.cfg.d_head // 2))  # share of each plane
    waves = np.full(planes.shape, np.inf)
    for i, (sample, row) in enumerate(strings):
        string = read_string(model, sample.batch, row)
        steps = _steps(model, sample.batch, row)
        for layer, block in enumerate(model.blocks):
            if not isinstance(block.attn.scheme, Rotary):
                continue
            waves[i, layer] = wavelengths(block.attn.scheme, steps[layer])
            for head in range(string.heads[layer]):
                parts = detrended(_plane_profiles(string, string.head(layer, head)))
                profile = parts.sum(0)
                size = float(profile @ profile)
                if size > len(profile) * FLOOR**2:
                    rows[i, layer, head] = sample.length
                    planes[i, layer, head] = parts @ profile / size
                    periods[i, layer, head] = np.nan_to_num(shares(profile, FLOOR))
        if progress is not None:
            progress((i + 1) / len(strings))
    return Measured(_scores(periods, rows, planes, waves, seed))


def wavelengths(scheme: Rotary, steps: Float[np.ndarray, "C"]) -> Float[np.ndarray, "P"]:
    """Wavelength of every plane in tokens, where a token is `steps` from the one before; inf where it does not turn."""
    axis = np.repeat(steps, scheme.d_head // 2 // scheme.n_coords)
    turn = np.remainder(scheme.frequencies() * axis, 2 * np.pi)
    turn = np.minimum(turn, 2 * np.pi - turn)  # offsets are whole numbers
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(turn > 1e-9, 2 * np.pi / turn, np.inf))


def _scores(
    periods: Float[np.ndarray, "N L H Q"],
    rows: Float[np.ndarray, "N L H"],
    planes: Float[np.ndarray, "N L H P"],
    waves: Float[np.ndarray, "N L H P"],
    seed: int,
) -> dict[str, Estimates]:
    weight = rows / np.maximum(rows.sum(0), 1)
    mean = (periods * weight[..., None]).sum(0)
    chosen = best(mean)
    strength = np.take_along_axis(mean, chosen[..., None], -1)[..., 0]
    period = PERIODS[chosen][..., None]
    alike = np.abs(waves - period) <= ALIKE * period
    rows = np.where((strength > CLEAR) & np.isfinite(waves).any((0, 3)), rows, 0)
    turning = np.where(np.isfinite(waves).all(0), (planes * weight[..., None]).sum(0), -np.inf)
    lead = np.broadcast_to(turning.argmax(-1)[..., None], (*rows.shape, 1))
    wave = np.take_along_axis(np.where(np.isfinite(waves), waves, 0), lead, -1)[..., 0]
    matching, chance = (planes * alike).sum(-1), alike.mean(-1)
    return {
        "periodic.planes": ratios(matching * rows, rows, chance=chance * rows, seed=seed, reason=REASON),
        "periodic.wavelength": ratios(wave * rows, rows, seed=seed, reason=REASON),
    }


def _without_period(batch: CopyBatch, row: int) -> bool:
    relations = relations_of(batch, row)
    return own_period(relations.tokens[relations.source_rows]) is None


def _steps(model: CopyTransformer, batch: CopyBatch, row: int) -> list[Float[np.ndarray, "C"]]:
    """Mean step of the coordinates from one source token to the next, by layer; empty without coordinates."""
    names = [f"blocks.{layer}.attn.hook_coords" for layer in range(model.cfg.n_layers)]
    there = [name for name in names if name in model.hook_dict]
    if not there:
        return [np.zeros(0)] * len(names)
    one, source = batch.select([row]), relations_of(batch, row).source_rows
    _, cache = model.run_with_cache(one.tokens, names_filter=there)
    return [
        np.diff(cache[name][0, source].double().cpu().numpy(), axis=0).mean(0) if name in there else np.zeros(0)
        for name in names
    ]


def _plane_profiles(string: ReadString, pattern: HeadPattern) -> Float[np.ndarray, "P O"]:
    """Mean over copy rows of every plane's term of the score, at each offset from the true source."""
    relations = string.relations
    rows = relations.copy_rows[:-1]
    rows = rows[np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).round().astype(int)]
    side = reach(relations.n)
    keys = relations.source_position[rows][:, None] + np.arange(-side, side + 1)
    inside = (keys >= relations.a) & (keys < relations.a + relations.n)
    queries = pattern.q[rows].astype(np.float64).view(np.complex128)
    k = pattern.k.astype(np.float64).view(np.complex128)[np.where(inside, keys, 0)]
    terms = pattern.rule.scale * (queries[:, None] * k.conj()).real * inside[..., None]
    return (terms.sum(0) / inside.sum(0)[:, None]).T


def cause(scores: Mapping[str, Estimates], layer: int, head: int) -> str:
    """What makes a head's periodicity, from its scores: one word for a table.

    "query": the weight on the first token depends on the query's position (a modular head). "planes": it stays on
    strings without a period, and most of the scores' profile is from rotary planes of that wavelength. "keys": it stays
    on such strings and is not explained by planes. "string": it is there only on strings that have it themselves.
    "none".
    """
    found = {name: values.at(layer, head) for name, values in scores.items() if name in NEEDED}
    if found["modular.m"].measurable:
        return "query"
    if found["periodic.period"].measurable:
        planes = found["periodic.planes"].value if "periodic.planes" in found else None
        return "planes" if planes is not None and planes >= EXPLAINED else "keys"
    interval = found["periodic.repeats"].interval
    return "string" if interval is not None and interval[0] > CLEAR else "none"
