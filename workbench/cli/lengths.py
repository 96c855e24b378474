"""`workbench lengths`: exact match by length over seeds and schemes, as curves ([C2D] figures 4 and 7)."""

from pathlib import Path
from typing import Annotated

import typer

from models.errors import UsageError
from workbench.cli.evaluation import INTERRUPTED, parse_lengths
from workbench.cli.heads import known_distributions, require_files
from workbench.cli.options import DeviceOption, JsonOption, OutOption, StoreOption, SubjectsArgument
from workbench.cli.output import Output, require_writable
from workbench.files import replacing, write_text
from workbench.images import FORMATS, render
from workbench.progress import Bar
from workbench.runs import Store

_PERCENT = 100


def lengths(
    subjects: SubjectsArgument,
    out: OutOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write the curves as a .svg or .png file.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write every score as a line of CSV.")
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(help="Lengths or ranges: 100,200 or 1-25,26-50.  [default: 0.25 to 8 times each training length]"),
    ] = None,
    distributions: Annotated[
        str | None,
        typer.Option(help="Names, separated by commas.  [default: uniform, imbalanced, recursive-flip]"),
    ] = None,
    strings: Annotated[int, typer.Option(help="Strings of each length and distribution.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the strings, which are the same for all.", min=0)] = 0,
    checkpoint: Annotated[
        int | None, typer.Option(metavar="STEP", help="Weights of this step, in place of the newest.", min=0)
    ] = None,
    store: StoreOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = None,
) -> None:
    """Draw exact match by length: mean and spread over the runs that differ in their seeds alone, by scheme.

    Ctrl-C writes what was finished.
    """
    output = Output(json)
    require_files(out, csv, json)
    if plot is not None:
        if plot.suffix.lower().removeprefix(".") not in FORMATS:
            raise UsageError(f"--plot {plot}: the ending says what is drawn; give one of {', '.join(FORMATS)}")
        require_writable(f"--plot {plot}", plot)
        others = (out, csv, None if json in (None, "-") else Path(json))
        if any(other is not None and other.absolute() == plot.absolute() for other in others):
            raise UsageError(f"--plot {plot} was given for two files; name a file for each")
    intervals = None if lengths is None else parse_lengths(lengths)
    names = None if distributions is None else known_distributions(distributions)
    from workbench.figures.lengths import PANEL
    from workbench.reports import lengths_html, lengths_text
    from workbench.reports.lengths import measure
    from workbench.subjects import find_subject

    folder = Store(store)
    found = [find_subject(folder, name, checkpoint) for name in dict.fromkeys(subjects)]
    if len({(subject.name, subject.step) for subject in found}) < len(found):
        raise UsageError(f"{', '.join(subjects)}: two of these are the same model; name each once")
    for subject in found:
        if subject.remark:
            output.remark(subject.remark)
    with Bar(output.progress, "evaluating", _PERCENT) as bar:
        content = measure(
            found,
            intervals=intervals,
            distributions=names,
            strings=strings,
            seed=seed,
            device=device,
            progress=lambda share, what: bar.update(share * _PERCENT, what),
        )
    output.line(lengths_text.markdown(content))
    if csv is not None:
        write_text(csv, lengths_text.comma_separated(content))
    if out is not None:
        write_text(out, lengths_html.render(content))
    output.json(content.model_dump(mode="json"))
    if plot is not None:
        drawn = lengths_html.figure(content).update_layout(paper_bgcolor="white", plot_bgcolor="white")
        panels = len({point.distribution for point in content.spread})
        with replacing(plot.absolute()) as temporary:
            temporary.write_bytes(
                render(
                    drawn, plot.suffix.lower().removeprefix("."), width=60 + PANEL * panels, height=drawn.layout.height
                )
            )
    if content.interrupted:
        raise typer.Exit(INTERRUPTED)
