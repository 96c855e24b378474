"""`workbench train`: a recipe, or an unfinished run, to a finished run with its evaluation."""

import shlex
from typing import Annotated, Any

import typer

from models.errors import UsageError
from workbench.cli.options import DeviceOption, JsonOption, StoreOption
from workbench.cli.output import Output, results_matrix
from workbench.runs import Run, Status, Store


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="A name (see `workbench recipes`) or a .toml file.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting: --set model.d_model=64. Repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of initialisation and data.", min=0)] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps, in place of the recipe's.", min=1)] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an unfinished run from its checkpoint.")
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate/--no-evaluate", help="Evaluate the final weights as the recipe says.")
    ] = True,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Train a recipe into the store. Ctrl-C stops at a checkpoint, from which --resume goes on."""
    output = Output(json)
    folder = Store(store)
    settings = list(overrides or [])
    settings += [f"seed={seed}"] if seed is not None else []
    settings += [f"train.steps={steps}"] if steps is not None else []
    if resume is not None:
        if settings:
            raise UsageError("a resumed run keeps its settings; leave out --set, --seed and --steps, or train anew")
        run = folder.open(resume)
        if recipe is not None:
            _require_recipe_of(run, recipe)
        if run.status is Status.FINISHED:
            _only_evaluate(output, folder, run, device, evaluate)
        else:
            _train(output, folder, run, device, evaluate)
    elif recipe is None:
        raise UsageError("say what to train: a recipe (see `workbench recipes`), or --resume RUN")
    else:
        from models.recipes import load_recipe

        _train(output, folder, load_recipe(recipe, settings), device, evaluate)


def _require_recipe_of(run: Run, recipe: str) -> None:
    from models.recipes import load_recipe

    if load_recipe(recipe).name != run.recipe:
        raise UsageError(f"run {run.id} was trained from recipe {run.recipe!r}, not {recipe!r}")


def _train(output: Output, store: Store, what: Any, device: str, evaluate: bool) -> None:
    """Train `what`, a Recipe or an unfinished Run, then evaluate and report it."""
    from workbench.sessions import evaluate_with_bar, train_with_bar

    run, model, recipe, progress = train_with_bar(output.progress, store, what, device)
    if evaluate:
        results = evaluate_with_bar(output.progress, store, run, model, recipe)
        results_matrix(output, f"Exact match of {run.id}", results)
    seen = f"workbench show {shlex.quote(run.id)}{store.option}"
    output.line(f"{run.id} is finished after {progress.seconds:.0f} s of training; see: {seen}")
    output.json(
        {
            "id": run.id,
            "steps": progress.step,
            "seconds": progress.seconds,
            "tokens_per_second": progress.tokens_per_second,
            "loss": progress.loss,
        }
    )


def _only_evaluate(output: Output, store: Store, run: Run, device: str, evaluate: bool) -> None:
    """Make up for the evaluation of a finished run that was interrupted before it."""
    if run.evaluation or not evaluate:
        raise UsageError(f"run {run.id} is finished; there is nothing to resume")
    from workbench.sessions import evaluate_with_bar
    from workbench.subjects import load_run

    subject = load_run(run, device)
    results = evaluate_with_bar(output.progress, store, run, subject.model, subject.recipe)
    results_matrix(output, f"Exact match of {run.id}", results)
    last = run.last_record
    output.json({"id": run.id, "steps": run.step} | {k: last.get(k) for k in ("seconds", "tokens_per_second", "loss")})
