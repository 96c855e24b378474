"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Folder of runs.  [default: $COPY_WORKBENCH_STORE, else ./runs]"),
]
JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="PATH", help="Also write the result as JSON; - for stdout, and nothing else there."),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="A run: its id, the beginning of it, or `latest`, with @STEP for the weights of a step; or a hand-built "
        "model: built:NAME.",
    ),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, the beginning of it, or `latest`.")]
SubjectsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SUBJECT...",
        help="Runs: ids, their beginnings, or `latest`, with @STEP for the weights of a step; or hand-built models: "
        "built:NAME. Several are compared.",
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the report as one HTML file.")]
