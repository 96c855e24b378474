"""The two kinds of head measures and where they are registered.

A pass measure is accumulated in the one pass over all patterns (`analyses.passes`); a model measure is a function that
runs the model in its own way (other coordinates, exchanged strings, weights). Adding one is one class or function and
one registry line.
"""

import inspect
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


def formulas() -> dict[str, str]:
    """Formula of every score, read from the "Scores:" part of the docstrings of all registered measures.

    An entry of it is `name: formula` or `name, name: formula`; lines indented further go on with the one before.
    """
    found: dict[str, str] = {}
    for registry in (MEASURES, MODEL_MEASURES):
        for name in registry:
            found |= _documented(inspect.getdoc(registry[name]) or "")
    return found


def _documented(docstring: str) -> dict[str, str]:
    _, _, listed = docstring.partition("\nScores:\n")
    entries: list[str] = []
    for line in listed.splitlines():
        if line.startswith("        ") and entries:
            entries[-1] += " " + line.strip()
        elif line.startswith("    "):
            entries.append(line.strip())
        else:
            break
    found: dict[str, str] = {}
    for entry in entries:
        names, _, formula = entry.partition(": ")
        found |= dict.fromkeys((name.strip() for name in names.split(",")), formula)
    return found
