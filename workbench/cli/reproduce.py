"""`workbench reproduce`: do the recipes reach the marks they claim."""

from typing import Annotated, Any

import typer

from workbench.cli.options import DeviceOption, JsonOption, StoreOption
from workbench.cli.output import Output, share
from workbench.runs import Store


def reproduce(
    recipes: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE]...", help="Names; all recipes that claim marks by default.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, ... of initialisation and data.", min=1)] = 3,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Train recipes with several seeds and compare them with their marks; finished runs in the store are reused.

    Exit code 1 where a claim is not met.
    """
    from workbench.reproduce import MarkResult, recipes_with_marks
    from workbench.reproduce import reproduce as measure

    output, folder = Output(json), Store(store)
    results: list[MarkResult] = []
    for recipe in recipes_with_marks(recipes or ()):
        results += measure(recipe, range(seeds), lambda one: _trained(output, folder, one, device))
    output.table(
        f"Exact match, mean over {seeds} seeds",
        ["recipe", ">length", "distribution", ">strings", ">mean", "each seed", "claim", ""],
        [
            [
                result.recipe,
                result.length,
                result.distribution,
                result.strings,
                share(result.mean),
                " ".join(share(value) for value in result.exact_match),
                _claim(result.at_least, result.at_most),
                {True: "met", False: "NOT MET", None: ""}[result.met],
            ]
            for result in results
        ],
    )
    output.json({"seeds": seeds, "results": [result.as_dict() for result in results]})
    if any(result.met is False for result in results):
        raise typer.Exit(1)


def _trained(output: Output, store: Store, recipe: Any, device: str) -> Any:
    """Return the finished model of `recipe`, trained now unless the store has it."""
    from workbench.demo import find_run
    from workbench.runs import Status
    from workbench.sessions import train_with_bar
    from workbench.subjects import load_run

    earlier = find_run(store, recipe)
    if earlier is not None and earlier.status is Status.FINISHED:
        output.remark(f"{recipe.name}, seed {recipe.seed}: reusing {earlier.id}")
        return load_run(earlier, device).model
    return train_with_bar(output.progress, store, earlier or recipe, device)[1]


def _claim(at_least: float, at_most: float) -> str:
    parts = [f">= {at_least:g}"] if at_least > 0 else []
    parts += [f"<= {at_most:g}"] if at_most < 1 else []
    return ", ".join(parts)
