"""Training into the run store: what the Trainer yields becomes the files of a run."""

import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.config import Recipe
from models.device import pick_device
from models.errors import UsageError, WorkbenchError
from models.evaluation import evaluate
from models.recipes import dump_recipe, parse_recipe
from models.tasks import CopyTask
from models.training import Record, Trainer
from models.transformer import CopyTransformer
from workbench.files import as_write_error, replacing, write_json
from workbench.interrupts import Interrupts
from workbench.limits import require_samples
from workbench.runs import Run, Status, Store, checkpoint_name
from workbench.writer import Header, RunWriter

_LIBRARIES = ("copy-workbench", "torch", "transformer-lens", "numpy", "safetensors")


@dataclass
class Progress:
    """What a training has to show for itself; grows with every record.

    Attributes:
        step, steps: optimiser steps done and planned.
        seconds: spent training, in this and in earlier sessions.
        loss: of the last record, nats a token.
        tokens_per_second: mean over this session.
        exact_match: at lengths in the training range, of the last evaluation; None before the first.
    """

    step: int
    steps: int
    seconds: float = 0.0
    loss: float | None = None
    tokens_per_second: float | None = None
    exact_match: float | None = None
    _tokens: float = 0.0
    _session: float = 0.0

    def add(self, record: Record, longest: int) -> None:
        """Take in one record of a training on strings of at most `longest` tokens."""
        # A resumed run's first record also counts the seconds of earlier sessions, whose tokens are not known.
        spent = 0.0 if self.loss is None and self.step else max(record.seconds - self.seconds, 0.0)
        self._tokens += record.tokens_per_second * spent
        self._session += spent
        self.step, self.seconds, self.loss = record.step, record.seconds, record.loss
        self.tokens_per_second = self._tokens / self._session if self._session else record.tokens_per_second
        inside = [score.exact_match for score in record.evaluation or () if score.length <= longest]
        if inside:
            self.exact_match = sum(inside) / len(inside)


def start(store: Store, recipe: Recipe, device: str = "auto") -> tuple[RunWriter, Trainer]:
    """Return a trainer for `recipe` and the new run it will write to.

    The model is built and a string is drawn first, so that an impossible recipe leaves nothing in the store.

    Raises:
        UsageError: an impossible recipe, or a device that is not there.
        WorkbenchError: the store cannot be written to.
    """
    trainer = Trainer(recipe, device)
    require_samples(trainer)
    return RunWriter.create(store, _header(trainer), dump_recipe(recipe)), trainer


def resume(run: Run, device: str = "auto") -> tuple[RunWriter, Trainer]:
    """Return a trainer that goes on from the last checkpoint of `run`, or from the start where it has none.

    Raises:
        UsageError: the run is finished, or the device is not there.
        WorkbenchError: another process trains it, or its files are damaged.
    """
    writer = RunWriter.resume(run)
    try:
        path = run.path / "checkpoints" / "state.safetensors"
        state = load_tensors(path) if path.exists() else None
        pick_device(device)  # a device that is not there is the caller's fault, what goes wrong below is the run's
        try:
            trainer = Trainer(stored_recipe(run), device, state)
        except UsageError as error:
            raise WorkbenchError(f"run {run.id} is damaged: {error}") from None
        writer.begin(_header(trainer), trainer.step)
    except BaseException:
        writer.close()
        raise
    return writer, trainer


def train(
    writer: RunWriter,
    trainer: Trainer,
    on_record: Callable[[Progress], None],
    on_interrupt: Callable[[], None] = lambda: None,
) -> Progress:
    """Train to the end, writing records, checkpoints and finally the weights; closes the writer.

    The first Ctrl-C or SIGTERM ends it after the running step, at a checkpoint; a second one at once, and the run
    goes back to its last checkpoint. The run's state says how it ended: finished, interrupted or failed.

    Args:
        writer: the run.
        trainer: at the step the run is at.
        on_record: called after every record is stored.
        on_interrupt: called when the first signal comes.

    Raises:
        KeyboardInterrupt: it was interrupted; the run can be resumed, or is finished if that was its last step.
        WorkbenchError: training diverged, or the disk is full.
    """
    progress = Progress(trainer.step, trainer.recipe.train.steps)
    longest = trainer.recipe.task.lengths[1]
    interrupts = Interrupts(on_interrupt)
    # The last moment at which weights and step number still belong together.
    hook = trainer.optimizer.register_step_pre_hook(lambda *_: interrupts.check())
    with writer, interrupts:
        try:
            for record in trainer.run():
                writer.append(record.as_dict())
                progress.add(record, longest)
                if trainer.checkpoint_due() and trainer.step < progress.steps:
                    _checkpoint(writer, trainer)
                on_record(progress)
                interrupts.check()
            _finish(writer, trainer)
        except KeyboardInterrupt:
            if interrupts.count <= 1 and trainer.step > writer.step:
                _checkpoint(writer, trainer)
            writer.set_state(Status.INTERRUPTED)
            raise
        except Exception as error:
            with suppress(WorkbenchError):  # the disk may be full, which is then the error to report
                writer.set_state(Status.FAILED, str(error) or type(error).__name__)
            raise
        finally:
            hook.remove()
    interrupts.check()
    return progress


def evaluate_run(
    run: Run,
    model: CopyTransformer,
    recipe: Recipe,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Evaluate `model` as `recipe.evaluation` says, write the run's evaluation.json and return its content."""
    settings = recipe.evaluation
    began = time.perf_counter()
    scores = evaluate(
        model,
        CopyTask(recipe.task),
        intervals=settings.intervals,
        distributions=settings.distributions,
        strings=settings.strings,
        seed=recipe.seed,
        progress=progress,
    )
    results = [score.as_dict() for score in scores]
    content = {"results": results, "seed": recipe.seed, "seconds": round(time.perf_counter() - began, 3)}
    write_json(run.path / "evaluation.json", content)
    return content


def stored_recipe(run: Run) -> Recipe:
    """Return the recipe of `run`; WorkbenchError where its config.toml is damaged or of another version."""
    try:
        return parse_recipe(run.config_text, f"{run.id}/config.toml")
    except UsageError as error:
        raise WorkbenchError(str(error)) from None


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write `tensors` to `path` in one step; WorkbenchError on a full disk or a read-only folder."""
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary)
        except SafetensorError as error:
            raise as_write_error(error, path) from None


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors in `path`; WorkbenchError where the file is missing or damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise WorkbenchError(f"{path} cannot be read: {error}") from None


def _checkpoint(writer: RunWriter, trainer: Trainer) -> None:
    """Write what `resume` needs, last, so that a run killed in between goes back to the checkpoint before."""
    folder = _checkpoint_folder(writer)
    writer.sync()
    if trainer.recipe.train.keep_checkpoints:
        save_tensors(trainer.weights(), folder / checkpoint_name(trainer.step))
    save_tensors(trainer.state(), folder / "state.safetensors")
    writer.set_state(Status.TRAINING, step=trainer.step)


def _finish(writer: RunWriter, trainer: Trainer) -> None:
    """Write the final weights; the optimiser's state has served."""
    weights = trainer.weights()
    if trainer.recipe.train.keep_checkpoints:
        save_tensors(weights, _checkpoint_folder(writer) / checkpoint_name(trainer.step))
    save_tensors(weights, writer.path / "weights.safetensors")
    writer.set_state(Status.FINISHED, step=trainer.step)
    (writer.path / "checkpoints" / "state.safetensors").unlink(missing_ok=True)


def _checkpoint_folder(writer: RunWriter) -> Path:
    folder = writer.path / "checkpoints"
    with suppress(FileExistsError):
        folder.mkdir()
    return folder


def _header(trainer: Trainer) -> Header:
    recipe = trainer.recipe
    return Header(recipe.name, recipe.seed, recipe.train.steps, trainer.device.type, library_versions())


def library_versions() -> dict[str, str]:
    """Versions of Python and of each library that decides a result."""
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions
