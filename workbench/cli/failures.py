"""`workbench failures`: why copies fail, string by string, and how failures depend on repetition and length."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from models.errors import UsageError, WorkbenchError
from workbench.cli.heads import known_distributions, require_files, single_lengths
from workbench.cli.options import DeviceOption, JsonOption, OutOption, StoreOption, SubjectsArgument
from workbench.cli.output import Output
from workbench.content.failures import FailuresContent
from workbench.files import write_text
from workbench.progress import Bar
from workbench.runs import Run, Store

_PERCENT = 100
_LONGEST_LAW = 100_000


def failures(
    subjects: SubjectsArgument,
    out: OutOption = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every failure as a line of CSV.")
    ] = None,
    checkpoint: Annotated[
        list[int] | None,
        typer.Option(metavar="STEP", help="Weights of this step, in place of the newest; may be given again.", min=0),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(help="Lengths of the strings, 20,40.  [default: 0.5, 1, 1.5, 2 and 4 times the training length]"),
    ] = None,
    distributions: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas.  [default: the recipe's, uniform, recursive-flip, repeat-structure]"
        ),
    ] = None,
    strings: Annotated[int, typer.Option(help="Strings of each length and distribution.", min=1)] = 10,
    most: Annotated[
        int | None,
        typer.Option(help="Explain this many failures of each length and distribution.  [default: all]", min=0),
    ] = None,
    law_length: Annotated[
        int | None,
        typer.Option(help="Length of the strings of the law.  [default: the longest the model handles]", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of strings, edits and bootstrap.", min=0)] = 0,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Explain every failed copy by its cause, beside a control; measure the law, and what predicts failure."""
    output = Output(json)
    require_files(out, csv, json)
    from analyses.law import SHORTEST

    if law_length is not None and not SHORTEST <= law_length <= _LONGEST_LAW:
        raise UsageError(
            f"--law-length {law_length}: a block must repeat within the string, and many are read; give at least "
            f"{SHORTEST} and at most {_LONGEST_LAW:,}"
        )
    options: dict[str, Any] = {
        "lengths": None if lengths is None else single_lengths(lengths),
        "distributions": None if distributions is None else known_distributions(distributions),
        "strings": strings,
        "most": most,
        "law_length": law_length,
        "seed": seed,
    }
    with output.interruptible("no file was written"):
        _reports(output, Store(store), list(dict.fromkeys(subjects)), checkpoint or [None], device, options, out, csv)


def _reports(
    output: Output,
    store: Store,
    names: Sequence[str],
    checkpoints: Sequence[int | None],
    device: str,
    options: dict[str, Any],
    out: Path | None,
    csv: Path | None,
) -> None:
    """Explain every subject at every checkpoint; one gives a report, several a comparison of theirs."""
    from workbench.reports import failures_comparison, failures_html, failures_kinds, failures_text
    from workbench.reports.failures import explain
    from workbench.subjects import load_subject

    loaded = [load_subject(store, name, device, step) for name in names for step in dict.fromkeys(checkpoints)]
    if len({(subject.name, subject.step) for subject in loaded}) < len(loaded):
        raise UsageError(f"{', '.join(names)}: two of these are the same model; name each once")
    contents = []
    for subject in loaded:
        if subject.remark:
            output.remark(subject.remark)
        with Bar(output.progress, subject.name, _PERCENT) as bar:
            content = explain(subject, **options, progress=_on(bar))
        contents.append(content)
        output.line(failures_text.markdown(content))
        if subject.run is not None:
            _keep(output, subject.run, content)
    if csv is not None:
        write_text(csv, failures_text.comma_separated(contents))
    if len(contents) == 1:
        if out is not None:
            write_text(out, failures_html.render(contents[0]))
        output.json(contents[0].model_dump(mode="json"))
        return
    compared = failures_comparison.compare(contents)
    output.line(failures_kinds.markdown(compared.kinds))
    if out is not None:
        write_text(out, failures_comparison.render(compared))
    output.json(compared.model_dump(mode="json"))


def _keep(output: Output, run: Run, content: FailuresContent) -> None:
    """Keep a report for the dashboard, unless the run has one of that step that rests on more strings."""
    from workbench.reports import keep

    try:
        earlier = keep.kept_failures(run, content.step).strings if content.step in keep.kept_failures_steps(run) else 0
    except WorkbenchError:  # damaged: this one takes its place
        earlier = 0
    if earlier > content.strings:
        output.remark(
            f"not kept for the dashboard, which has a report of {earlier:,} strings of this step; this one is of "
            f"{content.strings:,}"
        )
        return
    try:
        keep.keep_failures(run, content)
    except WorkbenchError as error:
        output.remark(f"not kept for the dashboard: {error}")


def _on(bar: Bar) -> Callable[[float, str], None]:
    return lambda share, what: bar.update(share * _PERCENT, what)
