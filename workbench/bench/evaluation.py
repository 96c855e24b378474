"""Scoring one very long string against one bare attention call of the same shape."""

import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
import torch.nn.functional as F

from models.evaluation import answer
from models.recipes import load_recipe
from models.tasks import CopyTask
from models.transformer import build_model
from workbench.bench import Measurement

LENGTH, ROUNDS = 12_000, 3


def measure_evaluation() -> Iterator[Measurement]:
    """Seconds to score a string of LENGTH tokens with the one-layer 2D recipe, in ratio to causal attention alone."""
    recipe = load_recipe("rope2d-1l")
    model = build_model(recipe)
    batch = CopyTask(recipe.task).sample(1, torch.Generator().manual_seed(0), lengths=LENGTH)
    shape = (1, model.cfg.n_heads, batch.tokens.shape[1], model.cfg.d_head)
    q, k, v = (torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i in range(3))

    def attention() -> None:
        with torch.inference_mode():
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    ours, bare = _seconds(lambda: answer(model, batch), attention)
    yield Measurement(
        "evaluate.long",
        ours,
        f"s a string of {LENGTH:,}",
        bare,
        ours / bare,
        better="lower",
        target=2.0,
        against="one causal scaled_dot_product_attention call of that shape",
    )


def _seconds(*calls: Callable[[], object]) -> list[float]:
    """Median seconds of each call, interleaved so that all see the same machine; the first round only warms up."""
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(ROUNDS + 1):
        for call, measured in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if round_:
                measured.append(time.perf_counter() - start)
    return [median(measured) for measured in times]
