"""What is measured: `SUBJECT` on the command line becomes a model with its recipe."""

from dataclasses import dataclass

from models.config import Recipe
from models.constructions import CONSTRUCTIONS
from models.device import pick_device
from models.errors import UsageError, WorkbenchError
from models.training import load_weights
from models.transformer import CopyTransformer, build_model
from workbench.runs import Run, Status, Store
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


def load_subject(store: Store, name: str, device: str = "auto", checkpoint: int | None = None) -> Subject:
    """Return the subject called `name`: a run's id, a unique beginning of it, `latest`, or `built:NAME`.

    Args:
        store: where runs are.
        name: of the subject.
        device: see `models.device.pick_device`.
        checkpoint: a step whose weights were kept, in place of the newest weights.

    Raises:
        UsageError: no such run, construction, checkpoint or device, or a run that has no weights yet.
        WorkbenchError: its files are damaged.
    """
    kind, colon, rest = name.partition(":")
    if colon and kind in _OTHER_KINDS:
        raise UsageError(f"{name!r}: subjects of kind {kind!r} are not available in this version; give a run")
    if colon and kind == BUILT:
        construction = CONSTRUCTIONS[rest]
        if checkpoint is not None:
            raise UsageError(f"{name} was never trained and has no checkpoint {checkpoint}; leave out --checkpoint")
        return Subject(name, construction.build(pick_device(device)), construction.recipe, None, 0)
    return load_run(store.open(name), device, checkpoint)


def load_run(run: Run, device: str = "auto", checkpoint: int | None = None) -> Subject:
    """Return `run` as a subject, see `load_subject`: its final weights, or those of its newest checkpoint."""
    place = pick_device(device)
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
    model = build_model(recipe, place)
    try:
        load_weights(model, load_tensors(path))
    except UsageError as error:
        raise WorkbenchError(f"run {run.id} is damaged: {error}") from None
    return Subject(run.id, model.eval(), recipe, run, step, remark)
