"""The cells of a view as files to keep.

/export/<run>/<capture>/<string>/<layer>/<head>/<first>-<last>.<first>-<last>.csv   or .npz

The rows and keys are written as in the address of a view. The files are those of `workbench export-view`.
`?cells=512` asks for the largest weight in each of at most 512 x 512 bins instead of the exact cells.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dash import Dash
from flask import make_response, request

from models.attention import Pooled
from models.errors import UsageError, WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import refuse, sentence
from workbench.dashboard.state import Zoom, read_zoom, write_zoom
from workbench.views import Crop, cells_of, write_csv, write_npz

POOLED = 512  # bins a side where a view has too many cells for a file


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        most: cells it may hold here; `workbench export-view` writes larger ones.
        mime: its media type.
        write: cells, crop and a description to bytes.
    """

    most: int
    mime: str
    write: Callable[[Pooled, Crop, dict[str, Any]], bytes]


def _csv(cells: Pooled, crop: Crop, about: dict[str, Any]) -> bytes:
    text = io.StringIO()
    write_csv(text, cells, crop.string.token_names)
    return text.getvalue().encode()


def _npz(cells: Pooled, crop: Crop, about: dict[str, Any]) -> bytes:
    arrays = io.BytesIO()
    write_npz(arrays, cells, crop, about)
    return arrays.getvalue()


KINDS = {
    "csv": Kind(1_000_000, "text/csv; charset=utf-8", _csv),
    "npz": Kind(16_000_000, "application/octet-stream", _npz),
}


def fits(kind: str, part: Zoom) -> bool:
    """Whether the exact cells of a part of a map may be written to a file of a kind."""
    return _area(part) <= KINDS[kind].most


def address(kind: str, run: str, capture: str, string: int, layer: int, head: int, part: Zoom) -> str:
    """Return where a file of a view is served: exact cells where that fits, else the largest weights of bins."""
    pooled = "" if fits(kind, part) else f"?cells={POOLED}"
    return f"/export/{run}/{capture}/{string}/{layer}/{head}/{write_zoom(part)}.{kind}{pooled}"


def register(app: Dash, data: Data) -> None:
    """Serve exports from `app`."""

    @app.server.route("/export/<run>/<capture>/<int:string>/<int:layer>/<int:head>/<part>.<kind>")
    def export(run: str, capture: str, string: int, layer: int, head: int, part: str, kind: str) -> Any:
        if kind not in KINDS:
            refuse(404, f"there are no files of kind {kind[:20]!r}; give one of {', '.join(KINDS)}")
        try:
            zoom = read_zoom(part)
            bins = read_bins(request.args.get("cells"))
            content = exported(data, run, capture, string, layer, head, zoom, bins, kind)
        except UsageError as error:  # which is a ValueError too
            refuse(400, sentence(str(error)))
        except ValueError as error:
            refuse(400, sentence(f"expected {error}"))
        except WorkbenchError as error:
            refuse(409, sentence(str(error)))
        pooled = "" if bins is None else f"-max-of-{bins}"
        name = f"{run}-{capture}-string{string}-layer{layer}-head{head}-{write_zoom(zoom)}{pooled}.{kind}"
        headers = {"Content-Type": KINDS[kind].mime, "Content-Disposition": f'attachment; filename="{name}"'}
        return make_response(content, headers)


def exported(
    data: Data, run: str, capture: str, string: int, layer: int, head: int, zoom: Zoom, bins: int | None, kind: str
) -> bytes:
    """Return a file of the cells of a part of a map.

    Raises:
        UsageError: there is no such thing, or it has more cells than the file may hold.
        Pending: the overview it is taken from is being computed.
    """
    asked = string
    opened, string = data.located(run, capture, asked)
    captured = data.string(opened, string)
    length = len(captured.tokens)
    if zoom.bottom > length or zoom.right > length:
        raise UsageError(f"the view reaches past the string, which has positions 0 to {length - 1}")
    captured.head(layer, head)
    crop = Crop(captured, layer, head, zoom.rows, zoom.cols)
    if bins is None and not fits(kind, zoom):
        rows, cols = crop.shape
        raise UsageError(
            f"{rows:,} x {cols:,} cells are more than the {KINDS[kind].most:,} that a {kind} file from here may hold; "
            f"zoom in, add ?cells={POOLED} for the largest weight of each bin, or use workbench export-view"
        )
    if bins is None:
        cells = cells_of(crop, None, KINDS[kind].most)
    else:
        cells = data.pooled(opened, string, layer, head, zoom.rows, zoom.cols, bins)
    about = {"run": run, "capture": capture, "string": asked, "layer": layer, "head": head}
    return KINDS[kind].write(cells, crop, about)


def read_bins(text: str | None) -> int | None:
    """Read the bins a side that an address asks for; None where it asks for exact cells."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= POOLED):
        raise ValueError(f"cells from 1 to {POOLED}")
    return int(text)


def _area(part: Zoom) -> int:
    return (part.bottom - part.top) * (part.right - part.left)
