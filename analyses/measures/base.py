"""The two kinds of head measures and where they are registered.

A pass measure is accumulated in the one pass over all patterns (`analyses.passes`); a model measure is a function that
runs the model in its own way (other coordinates, exchanged strings, weights). Adding one is one class or function and
one registry line.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from analyses.passes import Measured, PassMeasure, Progress
from analyses.samples import Sample
from models.registry import Registry
from models.tasks import CopyTask
from models.transformer import CopyTransformer


class ModelMeasure(Protocol):
    """A function of a model and the strings heads are judged on."""

    def __call__(
        self,
        model: CopyTransformer,
        task: CopyTask,
        samples: Sequence[Sample],
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Measured:
        """Return scores and profiles; `progress` is called with the share that is done."""
        ...


MEASURES: Registry[Callable[[tuple[int, ...]], PassMeasure]] = Registry("pass measure")
MODEL_MEASURES: Registry[ModelMeasure] = Registry("model measure")
