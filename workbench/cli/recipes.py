"""`workbench recipes` and `workbench bench`."""

from typing import Any

from workbench.cli.options import JsonOption
from workbench.cli.output import Output, lengths_text


def recipes(json: JsonOption = None) -> None:
    """List the recipes that come with the workbench."""
    from models.recipes import load_recipe, recipe_names

    output = Output(json)
    loaded = [load_recipe(name) for name in recipe_names()]
    output.table(
        "Recipes; train one with: workbench train NAME",
        [
            "name",
            "scheme",
            ">layers",
            ">heads",
            ">lengths",
            ">steps",
            ">time",
            *(["what it is"] if output.roomy else []),
        ],
        [
            [
                recipe.name,
                recipe.model.scheme_name,
                recipe.model.n_layers,
                f"{_heads_text(recipe.model.heads)} x {recipe.model.d_head}",
                lengths_text(*recipe.task.lengths),
                recipe.train.steps,
                recipe.device_hint if recipe.minutes is None else f"{recipe.minutes:g} min on {recipe.device_hint}",
                *([recipe.description] if output.roomy else []),
            ]
            for recipe in loaded
        ],
    )
    output.json(
        {
            "recipes": [
                {
                    "name": recipe.name,
                    "description": recipe.description,
                    "scheme": recipe.model.scheme_name,
                    "n_layers": recipe.model.n_layers,
                    "heads": list(recipe.model.heads),
                    "d_head": recipe.model.d_head,
                    "train_lengths": list(recipe.task.lengths),
                    "steps": recipe.train.steps,
                    "device_hint": recipe.device_hint,
                    "minutes": recipe.minutes,
                }
                for recipe in loaded
            ]
        }
    )


def bench(json: JsonOption = None) -> None:
    """Measure speed on this machine, as ratios to baselines measured in the same run."""
    from workbench import bench as benchmarks

    output = Output(json)
    result = benchmarks.run(output.remark)
    output.table(
        "Benchmarks",
        ["what", ">value", "unit", ">baseline", ">ratio", "target", "against"],
        [
            [
                m["name"],
                _number(m["value"]),
                m["unit"],
                _number(m["baseline"]),
                _number(m["ratio"]),
                _target(m),
                m["against"],
            ]
            for m in result["measurements"]
        ],
    )
    output.line("machine: " + ", ".join(f"{key} {value}" for key, value in result["machine"].items()))
    output.json(result)


def _heads_text(heads: tuple[int, ...]) -> str:
    """Write heads per layer: "2" where all are equal, else "2,1"."""
    return str(heads[0]) if len(set(heads)) == 1 else ",".join(map(str, heads))


def _target(measurement: dict[str, Any]) -> str:
    """Write the bound a measurement is held to and whether it is met; "" where there is none."""
    if measurement["target"] is None:
        return ""
    sign = ">=" if measurement["better"] == "higher" else "<="
    return f"{sign} {measurement['target']:g} {'met' if measurement['met'] else 'MISSED'}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"
