"""`workbench export`: the pages of one run as a folder of offline HTML."""

from pathlib import Path
from typing import Annotated

import typer

from models.errors import UsageError
from workbench.cli.options import JsonOption, RunArgument, StoreOption
from workbench.cli.output import Output
from workbench.files import bytes_text
from workbench.progress import Bar
from workbench.runs import Store

_PERCENT = 100


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder, or an empty one.")],
    strings: Annotated[
        int, typer.Option(help="A page for at most this many strings of each capture, failed ones first.", min=0)
    ] = 6,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Write the pages of a run as static HTML that opens anywhere: send the folder, open index.html."""
    output = Output(json)
    if not out.name:
        raise UsageError(
            f"--out {out}: a folder that is stood in cannot be replaced; name a new one, as in --out pages"
        )
    if json is not None and json != "-" and Path(json).absolute() == out.absolute():
        raise UsageError(f"--json {json}: that is the folder of the pages; give another file, or - for stdout")
    folder = Store(store)
    found = folder.open(run)
    from workbench.reports.site import INDEX, write_site

    with (
        output.interruptible("nothing was written"),
        Bar(output.progress, f"exporting {found.id}", _PERCENT) as bar,
    ):
        site = write_site(
            folder, found, out, strings=strings, progress=lambda share, what: bar.update(share * _PERCENT, what)
        )
    output.line(f"{len(site.pages)} pages, {bytes_text(site.nbytes)}; open {site.folder / INDEX}")
    for missing in site.missing:
        output.remark(missing)
    output.json(
        {
            "run": found.id,
            "folder": str(site.folder),
            "pages": list(site.pages),
            "bytes": site.nbytes,
            "missing": list(site.missing),
        }
    )
