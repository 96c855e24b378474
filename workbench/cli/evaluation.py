"""`workbench evaluate`: length generalisation of a subject, at the lengths and distributions that are asked for."""

import resource
import sys
import time
from typing import Annotated, Any

import typer

from models.errors import UsageError
from workbench.cli.options import DeviceOption, JsonOption, StoreOption, SubjectArgument
from workbench.cli.output import Output, lengths_text, share
from workbench.runs import Store

LONGEST = 10_000_000
INTERRUPTED = 130


def evaluate(
    subject: SubjectArgument,
    lengths: Annotated[
        str | None, typer.Option(help="Lengths or ranges: 100,200 or 1-25,26-50.  [default: as in the recipe]")
    ] = None,
    distributions: Annotated[
        str | None, typer.Option(help="Names, separated by commas.  [default: as in the recipe]")
    ] = None,
    strings: Annotated[
        int | None, typer.Option(help="Strings a length and distribution.  [default: as in the recipe]", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the strings.", min=0)] = 0,
    checkpoint: Annotated[
        int | None, typer.Option(metavar="STEP", help="Weights of this step, in place of the newest.", min=0)
    ] = None,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Measure exact match and token accuracy. Ctrl-C shows what was finished."""
    output = Output(json)
    intervals = None if lengths is None else parse_lengths(lengths)
    from models.distributions import DISTRIBUTIONS
    from models.evaluation import evaluate as scores_of
    from models.tasks import CopyTask
    from workbench.progress import Bar
    from workbench.subjects import load_subject

    names = None if distributions is None else _names(distributions)
    for name in names or ():
        DISTRIBUTIONS[name]
    loaded = load_subject(Store(store), subject, device, checkpoint)
    if loaded.remark:
        output.remark(loaded.remark)
    settings = loaded.recipe.evaluation
    intervals, names = intervals or list(settings.intervals), names or list(settings.distributions)
    n_strings = strings or settings.strings

    results: list[dict[str, Any]] = []
    began = time.perf_counter()
    interrupted = False
    try:
        with Bar(output.progress, f"evaluating {loaded.name}", n_strings * len(intervals) * len(names)) as bar:
            for score in scores_of(
                loaded.model,
                CopyTask(loaded.recipe.task),
                intervals=intervals,
                distributions=names,
                strings=n_strings,
                seed=seed,
                progress=bar.advance,
            ):
                results.append(score.as_dict())
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - began
    what = loaded.name if loaded.run is None else f"{loaded.name} at step {loaded.step}"
    _print(output, f"{what}, {n_strings} strings each, seed {seed}", results)
    output.json(
        {
            "subject": loaded.name,
            "step": loaded.step,
            "seed": seed,
            "interrupted": interrupted,
            "results": results,
            "peak_memory_bytes": peak_memory_bytes(),
            "seconds": round(seconds, 3),
        }
    )
    if interrupted:
        output.remark(f"interrupted after {len(results)} of {len(intervals) * len(names)} results")
        raise typer.Exit(INTERRUPTED)


def parse_lengths(text: str, option: str = "--lengths") -> list[tuple[int, int]]:
    """Return the inclusive length intervals of "100,200" or "1-25,26-50"; UsageError names the part that is wrong."""
    intervals = []
    for part in _names(text):
        shortest, dash, longest = part.partition("-")
        try:
            pair = int(shortest), int(longest if dash else shortest)
        except ValueError:
            pair = (0, 0)
        if not 1 <= pair[0] <= pair[1] <= LONGEST:
            raise UsageError(
                f"{option}: {part!r} is no length; give whole numbers from 1 to {LONGEST}, as in 100,200 or 1-25,26-50"
            )
        intervals.append(pair)
    if not intervals:
        raise UsageError(f"{option}: no length was given; give some, as in 100,200 or 1-25,26-50")
    return list(dict.fromkeys(intervals))


def peak_memory_bytes() -> int:
    """Return the largest resident memory this process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _print(output: Output, title: str, results: list[dict[str, Any]]) -> None:
    output.table(
        title,
        [
            "distribution",
            ">length",
            ">exact match",
            "95 % interval",
            ">token accuracy",
            ">first error, median",
        ],
        [
            [
                score["distribution"],
                lengths_text(score["shortest"], score["length"]),
                share(score["exact_match"]),
                "{:.3f} to {:.3f}".format(*score["interval"]),
                share(score["token_accuracy"]),
                _median(score["first_errors"]),
            ]
            for score in results
        ],
    )


def _median(values: list[int]) -> str:
    """Write the median of sorted values (the lower one of two), "-" for none."""
    return str(values[(len(values) - 1) // 2]) if values else "-"
