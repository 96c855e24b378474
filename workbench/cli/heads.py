"""`workbench heads`: what every attention head is, on which evidence, and what interventions say of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from models.errors import UsageError, WorkbenchError
from workbench.cli.evaluation import parse_lengths
from workbench.cli.options import DeviceOption, JsonOption, OutOption, StoreOption, SubjectsArgument
from workbench.cli.output import Output, require_writable
from workbench.content import SCHEMAS, HistoryContent, schema
from workbench.files import write_text
from workbench.progress import Bar
from workbench.runs import Store

_PERCENT = 100
DEFAULTS = {"lengths": None, "distributions": None, "strings": 6, "seed": 0}


def heads(
    subjects: SubjectsArgument,
    out: OutOption = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every score as a line of CSV.")
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Follow one run's heads over its checkpoints: when does each form?")
    ] = False,
    lengths: Annotated[
        str | None, typer.Option(help="Lengths of the strings, 20,40.  [default: inside the training range]")
    ] = None,
    distributions: Annotated[
        str | None, typer.Option(help="Names, separated by commas.  [default: the recipe's, uniform, unique-context]")
    ] = None,
    strings: Annotated[int, typer.Option(help="Strings of each kind, length and distribution.", min=2)] = 6,
    seed: Annotated[int, typer.Option(help="Seed of strings, bootstrap and replacements.", min=0)] = 0,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Say of every attention head what it is: scores, a label with its margin, evidence, interventions."""
    output = Output(json)
    require_files(out, csv, json)
    if strings % 2:
        raise UsageError(f"--strings {strings}: half of them choose what the others measure; give an even number")
    options: dict[str, Any] = {
        "lengths": None if lengths is None else single_lengths(lengths),
        "distributions": None if distributions is None else known_distributions(distributions),
        "strings": strings,
        "seed": seed,
    }
    folder = Store(store)
    if checkpoints and len(subjects) != 1:
        raise UsageError(f"--checkpoints follows one run, {len(subjects)} subjects were given")
    with output.interruptible("no file was written"):
        if checkpoints:
            _history(output, folder, subjects[0], device, options, out, csv)
        else:
            _reports(output, folder, list(dict.fromkeys(subjects)), device, options, out, csv)


def _reports(
    output: Output,
    store: Store,
    names: Sequence[str],
    device: str,
    options: dict[str, Any],
    out: Path | None,
    csv: Path | None,
) -> None:
    """Examine every subject; one gives a report, several a comparison of theirs."""
    from workbench.reports import comparison, comparison_html, heads_html, heads_text, keep
    from workbench.reports.heads import examine
    from workbench.subjects import load_subject

    loaded = [load_subject(store, name, device) for name in names]
    if len({subject.name for subject in loaded}) < len(loaded):
        raise UsageError(
            f"{', '.join(names)}: two of these are the same run; name each once (--checkpoints follows one over steps)"
        )
    examined = []
    for subject in loaded:
        if subject.remark:
            output.remark(subject.remark)
        with Bar(output.progress, subject.name, _PERCENT) as bar:
            found = examine(subject, **options, progress=_on(bar))
        examined.append(found)
        output.line(heads_text.markdown(found.content))
        if subject.run is not None and is_kept(output, options):
            try:
                keep.keep(subject.run, found.content)
            except WorkbenchError as error:
                output.remark(f"not kept for the dashboard: {error}")
    contents = [found.content for found in examined]
    if csv is not None:
        write_text(csv, heads_text.comma_separated(contents))
    if len(examined) == 1:
        if out is not None:
            write_text(out, heads_html.render(examined[0]))
        output.json(contents[0].model_dump(mode="json"))
        return
    compared, space = comparison.compare(contents)
    output.line(compared.finding + ".")
    if out is not None:
        write_text(out, comparison_html.render(compared, space, examined))
    output.json(compared.model_dump(mode="json"))


def _history(
    output: Output,
    store: Store,
    name: str,
    device: str,
    options: dict[str, Any],
    out: Path | None,
    csv: Path | None,
) -> None:
    """Follow the heads of one run over its checkpoints."""
    from workbench.reports import heads_text, history, history_html, keep
    from workbench.subjects import BUILT

    if name.startswith(f"{BUILT}:"):
        raise UsageError(f"{name} was never trained and has no checkpoints to follow; give a run")
    run = store.open(name)
    with Bar(output.progress, run.id, _PERCENT) as bar:
        found: HistoryContent = history.follow(run, **options, device=device, progress=_on(bar))
    output.line(heads_text.history_markdown(found))
    if is_kept(output, options):
        try:
            keep.keep_history(run, found)
        except WorkbenchError as error:
            output.remark(f"not kept for the dashboard: {error}")
    if csv is not None:
        write_text(csv, heads_text.history_comma_separated(found))
    if out is not None:
        write_text(out, history_html.render(found))
    output.json(found.model_dump(mode="json"))


def schema_of(
    report: Annotated[
        str,
        typer.Argument(
            metavar="REPORT",
            help=f"One of {', '.join(SCHEMAS)}.",
        ),
    ],
    json: JsonOption = "-",
) -> None:
    """Print the JSON schema of a report."""
    Output(json).json(schema(report))


def require_files(out: Path | None, csv: Path | None, json: str | None) -> None:
    """Raise UsageError where --out and --csv cannot be written, or two of the files are the same."""
    for option, path in (("--out", out), ("--csv", csv)):
        if path is not None:
            require_writable(f"{option} {path}", path)
    named = [Path(path).absolute() for path in (out, csv, None if json in (None, "-") else json) if path is not None]
    if len(set(named)) < len(named):
        raise UsageError(f"{named[0]} was given for two files; name a file for each of --out, --csv and --json")


def is_kept(output: Output, options: dict[str, Any]) -> bool:
    """Whether a report made with `options` is one the dashboard shows; says so where it is not.

    A quick look at a few strings would else take the place of a full report.
    """
    if all(options[name] == value for name, value in DEFAULTS.items()):
        return True
    output.remark("not kept for the dashboard, which shows reports made with the default options")
    return False


def single_lengths(text: str) -> list[int]:
    """Return the lengths of "20,40"; UsageError for a range, which says nothing of the strings of one report."""
    intervals = parse_lengths(text)
    for shortest, longest in intervals:
        if shortest != longest:
            raise UsageError(f"--lengths: {shortest}-{longest} is a range; give single lengths, as in 20,40")
    return [longest for _, longest in intervals]


def known_distributions(text: str) -> list[str]:
    """Return the names of "uniform,imbalanced"; UsageError for an unknown one or none."""
    from models.distributions import DISTRIBUTIONS

    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise UsageError(f"--distributions: no name was given; known: {', '.join(DISTRIBUTIONS)}")
    for name in names:
        DISTRIBUTIONS[name]
    return names


def _on(bar: Bar) -> Callable[[float, str], None]:
    return lambda share, what: bar.update(share * _PERCENT, what)
