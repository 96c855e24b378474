"""`workbench export-view`: a part of one head's attention as a picture, a table or arrays."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from models.errors import UsageError
from workbench.capture_files import load_capture
from workbench.cli.options import JsonOption, RunArgument, StoreOption
from workbench.cli.output import Output, require_writable
from workbench.files import bytes_text, replacing
from workbench.images import FORMATS, render
from workbench.progress import Bar
from workbench.runs import Store

_KINDS = (*FORMATS, "csv", "npz")
_PERCENT = 100


def export_view(
    run: RunArgument,
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", help="Its id, the beginning of it, or `latest`.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A .png, .svg, .csv or .npz file.")],
    string: Annotated[int, typer.Option(help="Which string of the capture.", min=0)] = 0,
    layer: Annotated[int, typer.Option(help="Of the head.", min=0)] = 0,
    head: Annotated[int, typer.Option(help="Of the layer.", min=0)] = 0,
    rows: Annotated[str | None, typer.Option(help="Queries: first and last position, 0-499.  [default: all]")] = None,
    cols: Annotated[str | None, typer.Option(help="Keys: first and last position.  [default: all]")] = None,
    pooled: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The largest weight in each of at most N x N bins.  [default: exact cells; pictures of more than 256 "
            "tokens a side have 768 bins]",
            min=1,
            max=4096,
        ),
    ] = None,
    scale: Annotated[str, typer.Option(help="Colours of a picture: sqrt or linear.")] = "sqrt",
    palette: Annotated[str, typer.Option(help="Colours of a picture: cividis or viridis.")] = "cividis",
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Write what the attention page shows: PNG and SVG of the map, CSV and NPZ of its cells."""
    output = Output(json)
    kind = out.suffix.lower().removeprefix(".")
    if kind not in _KINDS:
        raise UsageError(f"--out {out}: the ending says what is written; give one of {', '.join(_KINDS)}")
    require_writable(f"--out {out}", out)
    _require("--scale", scale, ("sqrt", "linear"))
    _require("--palette", palette, ("cividis", "viridis"))
    found = Store(store).open(run)
    opened = load_capture(found, capture)
    from workbench import views

    chosen = opened.string(string)
    length = len(chosen.tokens)
    chosen.head(layer, head)
    crop = views.Crop(chosen, layer, head, _positions("--rows", rows, length), _positions("--cols", cols, length))
    about = {"run": found.id, "capture": opened.folder.name, "string": string, "layer": layer, "head": head}
    title = f"{about['run']}, {about['capture']}, string {string}"
    with replacing(out.absolute()) as temporary:
        if kind in FORMATS:
            figure = views.draw(crop, title=title, bins=pooled, scale=scale, palette=palette)
            temporary.write_bytes(render(figure, kind))
            shape = figure.data[0].z.shape
        else:
            shape = _write_cells(output, crop, kind, pooled, about, temporary)
    size = out.stat().st_size
    output.line(f"wrote {out}: {shape[0]:,} x {shape[1]:,} cells, {bytes_text(size)}")
    output.json(about | {"path": str(out.absolute()), "kind": kind, "cells": list(shape), "size": size})


def _write_cells(
    output: Output, crop: Any, kind: str, bins: int | None, about: dict[str, Any], path: Path
) -> tuple[int, ...]:
    """Write the cells of a crop as CSV or NPZ and return how many there are."""
    from workbench import views

    def percent(share: float) -> None:
        bar.update(share * _PERCENT)

    most = views.TABLE_CELLS if kind == "csv" else views.ARRAY_CELLS
    if bins is None:
        cells = views.cells_of(crop, bins, most)
    else:
        with Bar(output.progress, "pooling", _PERCENT) as bar:
            cells = views.cells_of(crop, bins, most, percent)
    if kind == "npz":
        with open(path, "wb") as arrays:
            views.write_npz(arrays, cells, crop, about)
    else:
        with open(path, "w", encoding="utf-8", newline="") as table, Bar(output.progress, "writing", _PERCENT) as bar:
            views.write_csv(table, cells, crop.string.token_names, percent)
    return cells.values.shape


def _positions(option: str, text: str | None, length: int) -> slice:
    """Return the positions that "0-499" names, both ends included; all of them for None."""
    if text is None:
        return slice(0, length)
    match = re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", text.strip(), re.ASCII)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last < length:
        raise UsageError(
            f"{option}: {text!r} are no positions of a string of {length} tokens; give the first and the last, "
            f"from 0 to {length - 1}, as in 0-{length - 1}"
        )
    return slice(first, last + 1)


def _require(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{option} {value}: give {' or '.join(allowed)}")
