"""How labels hold up as Gaussian noise is added to the weights of a model whose heads have a known role.

Noise takes a head's role away at some point; what is asked is whether the label holds as long as the role does, and
whether it is called uncertain before it is wrong.

Shape letters: S noise levels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from analyses.estimates import Estimate, ratios
from analyses.heads import classify
from analyses.passes import Progress
from models.tasks import CopyTask
from models.transformer import CopyTransformer

LEVELS = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class NoiseCurve:
    """How labels hold up as Gaussian noise is added to the weights.

    Attributes:
        levels: float[S] standard deviation of the noise, relative to the root mean square of each weight matrix.
        accuracy: one a level: share of heads with the right label, over all draws of the noise (the interval's unit).
        certain: float[S] share of heads whose label was certain.
        surely_wrong: float[S] share of heads whose label was certain and not the role.
    """

    levels: Float[np.ndarray, "S"]
    accuracy: tuple[Estimate, ...]
    certain: Float[np.ndarray, "S"]
    surely_wrong: Float[np.ndarray, "S"]


def label_accuracy_under_noise(
    model: CopyTransformer,
    task: CopyTask,
    expected: Mapping[tuple[int, int], str],
    *,
    levels: Sequence[float] = LEVELS,
    draws: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> NoiseCurve:
    """Classify copies of `model` with noise on every weight matrix, norms' gains excepted.

    Args:
        model: not changed.
        task: what it reads.
        expected: label of every head that counts, by (layer, head).
        levels: of the noise.
        draws: of it at each level.
        seed: of all draws.
        progress: called with the share that is done.
        options: of `analyses.heads.classify`.
    """
    right, certain, surely_wrong = (np.zeros((len(levels), draws)) for _ in range(3))
    for index, level in enumerate(levels):
        for draw in range(draws):
            noisy = add_noise(model, level, seed=seed + draw)
            report = classify(noisy, task, **({"beyond_labels": False, "seed": seed} | options))
            for at, role in expected.items():
                label = report.label(*at)
                right[index, draw] += label.label == role
                certain[index, draw] += label.certain
                surely_wrong[index, draw] += label.certain and label.label != role
            if progress is not None:
                progress((index * draws + draw + 1) / right.size)
    accuracy = ratios(right.T, np.full((draws, 1), len(expected)), seed=seed)
    return NoiseCurve(
        np.array(levels),
        tuple(accuracy.at(i) for i in range(len(levels))),
        certain.mean(1) / len(expected),
        surely_wrong.mean(1) / len(expected),
    )


@torch.no_grad()
def add_noise(model: CopyTransformer, level: float, *, seed: int) -> CopyTransformer:
    """A copy of `model` with N(0, (level * rms)^2) added to every weight matrix of root mean square rms.

    A head's matrices count one by one. Norms' gains and heads that a layer has not are left alone.
    """
    noisy = CopyTransformer(model.settings, model.vocabulary)
    noisy.load_state_dict(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    for weight in noisy.parameters():
        if weight.ndim > 1:
            scale = weight.square().mean((-2, -1), keepdim=True).sqrt()
            weight += level * scale * torch.randn(weight.shape, generator=generator)
    return noisy.eval()
