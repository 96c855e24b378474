"""Making captures of a run: strings chosen or searched for, their cost checked, their files and overviews written."""

import secrets
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psutil
import torch
from safetensors import SafetensorError

from models.attention import ABOUT_FILE, Capture, CapturedString
from models.capture import capture_strings, find_failures
from models.capture_cost import CaptureSize, Cost, capture_cost, largest_that_fits
from models.config import Recipe
from models.errors import UsageError, WorkbenchError
from models.evaluation import answer
from models.overview import LONG, ensure_overview, overview_path
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer
from workbench.capture_files import new_capture_path, strings_text, sweep
from workbench.files import as_write_error, bytes_text, reporting
from workbench.runs import Run

# Multiples of the longest training string at which failures are looked for, until there are some.
REACH = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
TRIES = 64  # strings tried at each


@dataclass(frozen=True)
class Request:
    """Which strings to capture.

    Attributes:
        distribution: registered name.
        lengths: shortest and longest source string.
        strings: how many.
        failed: only strings that the model copies wrongly.
        tries: at most so many strings are tried until there are enough failures.
        seed: of the strings.
    """

    distribution: str
    lengths: tuple[int, int]
    strings: int
    failed: bool = False
    tries: int = 1000
    seed: int = 0


def require_room(model: CopyTransformer, folder: Path, size: CaptureSize, budget: int | None = None) -> Cost:
    """Return what a capture will take at most; nothing is allocated yet.

    Args:
        model: that is captured.
        folder: on the disk where it will lie.
        size: of the capture.
        budget: bytes that it may take on disk, and in memory; by default the free disk space and half the free memory.

    Raises:
        UsageError: it takes more; the message says what would fit.
    """
    free_disk = shutil.disk_usage(folder).free
    free_memory = psutil.virtual_memory().available
    if model.device.type == "cuda":
        free_memory = min(free_memory, torch.cuda.mem_get_info(model.device)[0])
    limits = Cost(free_disk, free_memory // 2) if budget is None else Cost(min(budget, free_disk), budget)
    cost = capture_cost(model, size)
    if cost.within(limits):
        return cost
    fitting = largest_that_fits(model, size, limits)
    advice = [f"--{name} {getattr(fitting[name], name)}" for name in ("length", "strings") if name in fitting]
    advice += ["no --names"] if "extra" in fitting else []
    largest = max(cost.disk, cost.memory)
    advice += [f"--budget {largest / 1e9 + 0.005:.2f}GB"] if budget is not None and cost.disk <= free_disk else []
    over_disk = cost.disk > limits.disk
    needed, there = (cost.disk, limits.disk) if over_disk else (cost.memory, limits.memory)
    limit = "the budget is" if budget is not None and there == budget else "there is room for"
    raise UsageError(
        f"{strings_text(size.strings, size.length)} need {bytes_text(needed)} "
        f"{'on disk' if over_disk else 'of memory'}, {limit} {bytes_text(there)}; "
        + (f"this would fit: {', or '.join(advice)}" if advice else "no capture of this model would fit")
    )


def choose_strings(
    model: CopyTransformer, task: CopyTask, request: Request, progress: Callable[[int], None] | None = None
) -> tuple[CopyBatch, int]:
    """Return the strings that `request` describes, and how many were tried to find them.

    Args:
        model: as it is.
        task: prefix, delimiter and alphabet.
        request: says which.
        progress: called with the number of strings just tried, where failures are looked for.

    Raises:
        WorkbenchError: none of the strings tried is copied wrongly.
    """
    if not request.failed:
        generator = torch.Generator().manual_seed(request.seed)
        batch = task.sample(request.strings, generator, lengths=request.lengths, distribution=request.distribution)
        return batch, len(batch)
    found, tried = find_failures(
        model,
        task,
        strings=request.strings,
        length=request.lengths,
        distribution=request.distribution,
        seed=request.seed,
        tries=request.tries,
        progress=progress,
    )
    if found is None:
        raise WorkbenchError(
            f"all {tried} {request.distribution} strings that were tried are copied exactly, so there is no failure to "
            f"capture; try longer strings, another --distribution, or more --tries"
        )
    return found, tried


def write_capture(
    run: Run,
    model: CopyTransformer,
    batch: CopyBatch,
    request: Request,
    *,
    step: int,
    tried: int,
    name: str | None = None,
    extra: tuple[str, ...] = (),
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Write a capture of `run` and return its folder; nothing is left behind when that fails.

    Args:
        run: whose folder it goes to.
        model: with the weights of that run.
        batch: the strings.
        request: what was asked for, which the capture records.
        step: optimiser steps the weights have seen.
        tried: strings tried to find these.
        name: the capture's id; by default one made of the distribution and length.
        extra: hook names to store besides.
        progress: called with the number of strings further, in fractions where a string is long.

    Raises:
        UsageError: the name is taken or is none.
        WorkbenchError: the disk is full or the store read-only.
    """
    shortest, longest = request.lengths
    lengths = str(longest) if shortest == longest else f"{shortest}-{longest}"
    name = name or f"{request.distribution}-{lengths}-{secrets.token_hex(2)}"
    folder = new_capture_path(run, name)
    about = {
        "id": name,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "run": run.id,
        "step": step,
        "distribution": request.distribution,
        "length": longest,
        "shortest": shortest,
        "seed": request.seed,
        "tried": tried,
        "failed_only": request.failed,
    }
    sweep(folder.parent)
    with reporting(f"write {folder}"):
        try:
            capture_strings(model, batch, folder, about, progress, extra)
        except SafetensorError as error:
            raise as_write_error(error, folder) from None
        _share(folder, folder.iterdir())
    return folder


def long_heads(capture: Capture) -> list[tuple[CapturedString, int, int]]:
    """Return (string, layer, head) of every map that is viewed through an overview."""
    return [
        (string, layer, head)
        for string in capture
        if len(string.tokens) > LONG
        for layer, heads in enumerate(capture.heads)
        for head in range(heads)
    ]


def build_overviews(capture: Capture, progress: Callable[[float], None] | None = None) -> None:
    """Compute and keep the overview of every map that needs one; `progress` is called with the maps done, a number."""
    for done, (string, layer, head) in enumerate(long_heads(capture)):
        ensure_overview(string, layer, head, None if progress is None else partial(_further, progress, done))
        with suppress(OSError):  # a capture that is read-only keeps no overview
            _share(string.path.parent, [overview_path(string, layer, head)])
        if progress is not None:
            progress(done + 1)


def _share(folder: Path, files: Iterable[Path]) -> None:
    """Let whoever may read a capture's capture.json read `files` too: safetensors writes them for their owner alone."""
    mode = stat.S_IMODE((folder / ABOUT_FILE).stat().st_mode)
    for file in files:
        file.chmod(mode)


def _further(progress: Callable[[float], None], done: int, share: float) -> None:
    progress(done + share)


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
    strings = [*found.failed, *found.copied]
    if not strings:
        raise WorkbenchError(f"no {distribution} string of run {run.id} was fit to be captured")
    request = Request(distribution, (found.length, found.length), len(strings), seed=seed)
    batch = CopyTask(recipe.task).encode(strings)
    return write_capture(run, model, batch, request, step=run.step, tried=found.tried)
