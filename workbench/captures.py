"""Captures of a run: a few strings it fails on beside a few it copies, stored for the attention page."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from safetensors import SafetensorError

from models.capture import capture_strings, find_failures
from models.config import Recipe
from models.errors import WorkbenchError
from models.evaluation import answer
from models.tasks import CopyTask
from models.transformer import CopyTransformer
from workbench.files import reporting
from workbench.runs import Run

# Multiples of the longest training string at which failures are looked for, until there are some.
REACH = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
TRIES = 64  # strings tried at each


@dataclass(frozen=True)
class Found:
    """Strings chosen for a capture.

    Attributes:
        failed: ids of strings that are copied wrongly.
        copied: ids of strings that are copied exactly.
        length: of the failed strings, or the longest training length where nothing fails.
        tried: strings tried until the failures were found.
    """

    failed: list[list[int]]
    copied: list[list[int]]
    length: int
    tried: int


def find_samples(
    model: CopyTransformer, recipe: Recipe, *, distribution: str, failed: int = 2, copied: int = 2, seed: int = 0
) -> Found:
    """Return failures at the shortest length of REACH that has any, and exact copies at that length or in range.

    Args:
        model: as it is.
        recipe: says task and training lengths.
        distribution: registered name.
        failed: how many of these at most.
        copied: how many of these at most.
        seed: of the strings tried.
    """
    task, longest = CopyTask(recipe.task), recipe.task.lengths[1]
    tried, length = 0, longest
    failures: list[list[int]] = []
    for factor in REACH:
        length = round(factor * longest)
        batch, n = find_failures(
            model, task, strings=failed, length=length, distribution=distribution, seed=seed, tries=TRIES
        )
        tried += n
        if batch is not None:
            failures = [row[:length].tolist() for row in batch.strings]
            break
    else:
        length = longest
    copies: list[list[int]] = []
    for at in dict.fromkeys((length, longest, (1 + longest) // 2)):
        if len(copies) < copied:
            sample = task.sample(TRIES // 2, torch.Generator().manual_seed(seed), lengths=at, distribution=distribution)
            exact = answer(model, sample).exact.nonzero()[:, 0].tolist()
            copies += [sample.strings[row, :at].tolist() for row in exact[: copied - len(copies)]]
    return Found(failures, copies, length, tried)


def capture_samples(
    run: Run, model: CopyTransformer, recipe: Recipe, *, distribution: str | None = None, seed: int = 0
) -> Path:
    """Capture a few failed and a few exact strings of `run` (failed ones first), and return the capture's folder.

    Raises:
        WorkbenchError: the disk is full or the store read-only, or there is nothing to capture.
    """
    distribution = distribution or recipe.task.distribution
    found = find_samples(model, recipe, distribution=distribution, seed=seed)
    if not found.failed and not found.copied:
        raise WorkbenchError(f"no {distribution} string of run {run.id} was fit to be captured")
    capture_id = f"{distribution}-{found.length}-{secrets.token_hex(2)}"
    folder = run.path / "captures" / capture_id
    about = {
        "id": capture_id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": run.id,
        "step": run.step,
        "distribution": distribution,
        "length": found.length,
        "seed": seed,
        "tried": found.tried,
        "failed_only": False,
    }
    with reporting(f"write {folder}"):
        try:
            capture_strings(model, CopyTask(recipe.task).encode([*found.failed, *found.copied]), folder, about)
        except SafetensorError as error:
            raise WorkbenchError(f"cannot write {folder}: {error}") from None
    return folder
