"""What is measured: `SUBJECT` on the command line becomes a model with its recipe."""

from dataclasses import dataclass
from pathlib import Path

from models.config import Recipe
from models.constructions import CONSTRUCTIONS
from models.device import pick_device
from models.errors import UsageError, WorkbenchError
from models.training import load_weights
from models.transformer import CopyTransformer, build_model
from workbench.runs import AT, Run, Status, Store, split_step
from workbench.train import load_tensors, stored_recipe

BUILT = "built"
_OTHER_KINDS = ("hf", "gguf")


@dataclass(frozen=True)
class Subject:
    """A model to be measured.

    Attributes:
        name: how it is addressed: a run's id, or `built:NAME`.
        model: with the weights loaded.
        recipe: says its task.
        run: the run it comes from, None for a hand-built model.
        step: optimiser steps its weights have seen.
        remark: what a person should know of where the weights come from, None for nothing.
    """

    name: str
    model: CopyTransformer
    recipe: Recipe
    run: Run | None
    step: int
    remark: str | None = None


@dataclass(frozen=True)
class FoundSubject:
    """A subject whose weights are not loaded yet.

    Attributes:
        name, recipe, run, step, remark: as in `Subject`.
        weights: file of a run's weights, None for a hand-built model.
    """

    name: str
    recipe: Recipe
    run: Run | None
    step: int
    weights: Path | None
    remark: str | None = None

    def load(self, device: str = "auto") -> Subject:
        """Return the subject with its model; UsageError for a device, WorkbenchError for damaged weights."""
        place = pick_device(device)
        if self.weights is None:
            model = CONSTRUCTIONS[self.name.removeprefix(f"{BUILT}:")].build(place)
        else:
            model = build_model(self.recipe, place)
            try:
                load_weights(model, load_tensors(self.weights))
            except UsageError as error:
                raise WorkbenchError(f"run {self.name} is damaged: {error}") from None
            model = model.eval()
        return Subject(self.name, model, self.recipe, self.run, self.step, self.remark)

    @property
    def trained(self) -> tuple[int, int]:
        """Shortest and longest trained string, see `trained_lengths`."""
        return trained_lengths(self.name, self.recipe)


def load_subject(store: Store, name: str, device: str = "auto", checkpoint: int | None = None) -> Subject:
    """Return the subject called `name`: a run's id, a unique beginning of it, `latest`, or `built:NAME`.

    Args:
        store: where runs are.
        name: of the subject; `RUN@STEP` is that run with the weights kept at a step.
        device: see `models.device.pick_device`.
        checkpoint: a step whose weights were kept, in place of the newest weights.

    Raises:
        UsageError: no such run, construction, checkpoint or device, a step given twice, or a run without weights yet.
        WorkbenchError: its files are damaged.
    """
    return find_subject(store, name, checkpoint).load(device)


def load_run(run: Run, device: str = "auto", checkpoint: int | None = None) -> Subject:
    """Return `run` as a subject, see `load_subject`: its final weights, or those of its newest checkpoint."""
    return find_run(run, checkpoint).load(device)


def find_subject(store: Store, name: str, checkpoint: int | None = None) -> FoundSubject:
    """Return what `load_subject` would load, without reading its weights; it raises the same errors."""
    name, step = split_step(name)
    if step is not None and checkpoint is not None:
        raise UsageError(f"{name}{AT}{step} says its step already; leave out {AT}{step} or --checkpoint {checkpoint}")
    checkpoint = checkpoint if step is None else step
    kind, colon, rest = name.partition(":")
    if colon and kind in _OTHER_KINDS:
        raise UsageError(f"{name!r}: subjects of kind {kind!r} are not available in this version; give a run")
    if colon and kind == BUILT:
        construction = CONSTRUCTIONS[rest]
        if checkpoint is not None:
            what = "--checkpoint" if step is None else f"{AT}{step}"
            raise UsageError(f"{name} was never trained and has no checkpoint {checkpoint}; leave out {what}")
        return FoundSubject(name, construction.recipe, None, 0, None)
    return find_run(store.open(name), checkpoint)


def find_run(run: Run, checkpoint: int | None = None) -> FoundSubject:
    """Return `run` as a subject that is not loaded yet, see `load_run`."""
    recipe = stored_recipe(run)
    remark = None
    if checkpoint is None and run.status is Status.FINISHED:
        path, step = run.path / "weights.safetensors", run.step
    elif checkpoint is None and not run.checkpoints:
        raise UsageError(f"run {run.id} ({run.status.value}) has no weights yet; wait for its first checkpoint")
    else:
        step = run.checkpoints[-1] if checkpoint is None else checkpoint
        path = run.checkpoint_path(step)
        if checkpoint is None:
            remark = f"run {run.id} is unfinished ({run.status.value}); using its checkpoint at step {step}"
    return FoundSubject(run.id, recipe, run, step, path, remark)


def trained_lengths(name: str, recipe: Recipe) -> tuple[int, int]:
    """Shortest and longest trained string of a subject; of a hand-built model, those it was built for."""
    kind, _, rest = name.partition(":")
    if kind == BUILT:
        return 1, CONSTRUCTIONS[rest].longest
    return recipe.task.lengths
