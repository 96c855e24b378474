"""Hand-built models as runs of a store, so that whatever belongs to a run works with them too: captures, pages, export.

The run says that it was never trained: zero steps, no records; its weights are those of the construction.
"""

from models.constructions import CONSTRUCTIONS
from models.recipes import dump_recipe
from workbench.runs import Run, Status, Store
from workbench.subjects import BUILT
from workbench.train import library_versions, save_tensors
from workbench.writer import Header, RunWriter


def find_built(store: Store, name: str) -> Run | None:
    """Return the run of `store` that holds a hand-built model, None where there is none.

    Args:
        store: where runs are.
        name: `built:NAME`; UsageError for a construction that is not known.
    """
    construction = CONSTRUCTIONS[name.removeprefix(f"{BUILT}:")]
    config = dump_recipe(construction.recipe)
    for run in store.runs():
        same = run.readable and run.status is Status.FINISHED and run.recipe == _recipe_name(construction.name)
        if same and run.config_text == config:
            return run
    return None


def keep_built(store: Store, name: str) -> Run:
    """Return the run of `store` that holds a hand-built model, made where there is none.

    Raises:
        UsageError: no such construction.
        WorkbenchError: the store cannot be written to.
    """
    found = find_built(store, name)
    if found is not None:
        return found
    construction = CONSTRUCTIONS[name.removeprefix(f"{BUILT}:")]
    header = Header(_recipe_name(construction.name), construction.recipe.seed, 0, "cpu", library_versions())
    with RunWriter.create(store, header, dump_recipe(construction.recipe)) as writer:
        save_tensors(construction.build().state_dict(), writer.path / "weights.safetensors")
        writer.set_state(Status.FINISHED, step=0)
        path = writer.path
    return store.open(path.name)


def _recipe_name(construction: str) -> str:
    return f"{BUILT}-{construction}"
