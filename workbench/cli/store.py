"""`workbench runs`, `show` and `rm`: what is in the store. None of them imports torch."""

import shlex
from typing import Annotated, Any

import typer

from models.errors import UsageError
from workbench.cli.options import JsonOption, RunArgument, StoreOption
from workbench.cli.output import Output, age_text, results_matrix, share
from workbench.runs import Run, Store


def runs(store: StoreOption = None, json: JsonOption = None) -> None:
    """List the runs of the store, newest first."""
    output = Output(json)
    found = Store(store)
    listed = found.runs()
    if not listed:
        found.require()
    described = [_summary(run) for run in listed]
    if listed:
        output.table(
            f"Runs in {found.root}",
            ["run", "recipe", "status", ">step", ">exact match in range", ">age", "remark"],
            [
                [
                    run.id,
                    run.recipe or "-",
                    run.status.value,
                    f"{run.step}/{run.steps}" if run.readable else "-",
                    share(summary["exact_match"]),
                    age_text(run.created),
                    run.message or "",
                ]
                for run, summary in zip(listed, described, strict=True)
            ],
        )
    else:
        output.line(f"There is no run in {found.root} yet; train one with: workbench train RECIPE{found.option}")
    output.json({"store": str(found.root), "runs": described})


def show(run: RunArgument, store: StoreOption = None, json: JsonOption = None) -> None:
    """Show one run: its settings, results, checkpoints and captures."""
    output = Output(json)
    folder = Store(store)
    found = folder.open(run)
    config, evaluation = found.config, found.evaluation
    summary = _summary(found)
    output.line(f"{found.id}: {found.status.value}, step {found.step} of {found.steps}, {found.path}")
    if found.message:
        output.line(found.message)
    libraries = ", ".join(f"{name} {version}" for name, version in found.versions)
    output.line(f"made {age_text(found.created)} ago on {found.device} with {libraries}")
    output.table("Settings", ["field", "value"], _flat(config))
    if found.evaluation_fault:
        again = f"workbench train --resume {shlex.quote(found.id)}{folder.option}"
        output.remark(f"{found.evaluation_fault}, so its results are not shown; evaluate it again with: {again}")
    if evaluation and evaluation["results"]:
        results_matrix(output, "Exact match of the final weights", evaluation["results"])
    output.line("checkpoints: " + (", ".join(map(str, found.checkpoints)) or "none"))
    output.line("captures: " + (", ".join(found.captures) or "none"))
    output.json(
        summary
        | {
            "device": found.device,
            "versions": dict(found.versions),
            "config": config,
            "results": evaluation["results"] if evaluation else [],
            "checkpoints": list(found.checkpoints),
            "captures": list(found.captures),
        }
    )


def rm(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, beginnings of ids, or `latest`.")],
    store: StoreOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove runs, after asking."""
    output = Output()
    folder = Store(store)
    chosen = {found.id: found for found in map(folder.find, runs)}
    foreign = [found for found in chosen.values() if found.status.value == "foreign"]
    if foreign:
        raise UsageError(f"{foreign[0].id!r} is not a run, so it is left alone: {foreign[0].message}")
    if not yes:
        names = ", ".join(f"{found.id} ({found.status.value})" for found in chosen.values())
        typer.confirm(f"Remove {names} from {folder.root}?", abort=True, err=True)
    for found in chosen.values():
        folder.remove(found)
        output.line(f"removed {found.id}")


def _summary(run: Run) -> dict[str, Any]:
    """What scripts are told of every run."""
    return {
        "id": run.id,
        "recipe": run.recipe or None,
        "status": run.status.value,
        "step": run.step,
        "steps": run.steps,
        "exact_match": run.exact_match if run.readable else None,
        "seed": run.seed,
        "created": run.created.isoformat() if run.created else None,
        "message": run.message,
    }


def _flat(config: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return dotted field names with their values, as `--set` takes them."""
    rows: list[tuple[str, str]] = []
    for key, value in config.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, _value_text(value))]
    return rows


def _value_text(value: object) -> str:
    """Write a value on one line: a text as it is, unless that would not be seen."""
    return value if isinstance(value, str) and value.isprintable() and value else repr(value)
