"""Training and evaluation as a person watches them: progress bars, and what to do after an interruption."""

import shlex
from typing import Any

from rich.console import Console
from rich.text import Text

from models.config import Recipe
from models.transformer import CopyTransformer
from workbench.progress import Bar
from workbench.runs import Run, Status, Store
from workbench.train import Progress, evaluate_run, resume, start, train


def train_with_bar(
    console: Console, store: Store, what: Recipe | Run, device: str = "auto"
) -> tuple[Run, CopyTransformer, Recipe, Progress]:
    """Train a recipe, or an unfinished run to its end, with a bar on `console`.

    Returns:
        The finished run, its model, its recipe, and the last progress.

    Raises:
        KeyboardInterrupt: interrupted; how to resume has been printed.
        UsageError, WorkbenchError: see `workbench.train`.
    """
    writer, trainer = resume(what, device) if isinstance(what, Run) else start(store, what, device)
    run_id, recipe = writer.path.name, trainer.recipe
    verb = "resuming" if isinstance(what, Run) else "training"
    _say(console, f"{verb} {run_id} on {trainer.device.type}, in {store.root}")

    def heard() -> None:
        _say(console, "stopping after this step; interrupt again to fall back to the last checkpoint")

    try:
        with Bar(console, recipe.name, recipe.train.steps, done=trainer.step) as bar:
            progress = train(writer, trainer, lambda progress: bar.update(progress.step, _note(progress)), heard)
    except KeyboardInterrupt:
        run = store.open(run_id)
        how = "finished, but not evaluated" if run.status is Status.FINISHED else f"at step {run.step} of {run.steps}"
        _say(console, f"{run_id} is {how}; go on with: workbench train --resume {shlex.quote(run_id)}{store.option}")
        raise
    return store.open(run_id), trainer.model, recipe, progress


def evaluate_with_bar(
    console: Console, store: Store, run: Run, model: CopyTransformer, recipe: Recipe
) -> list[dict[str, Any]]:
    """Evaluate the final weights of `run` into its evaluation.json, with a bar; returns the score dicts.

    Raises:
        KeyboardInterrupt: interrupted; nothing was written, and how to go on has been printed.
    """
    settings = recipe.evaluation
    total = settings.strings * len(settings.intervals) * len(settings.distributions)
    try:
        with Bar(console, f"evaluating {run.id}", total) as bar:
            return list(evaluate_run(run, model, recipe, bar.advance)["results"])
    except KeyboardInterrupt:
        _say(
            console,
            f"{run.id} is not evaluated; go on with: workbench train --resume {shlex.quote(run.id)}{store.option}",
        )
        raise


def _note(progress: Progress) -> str:
    loss = "" if progress.loss is None else f"loss {progress.loss:.3f}"
    exact = "" if progress.exact_match is None else f"exact match {progress.exact_match:.2f}"
    return f"{loss}  {exact}"


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
