"""Small pictures of whole patterns, one an attention head, served as PNG files so that a grid of them costs little.

/thumbnail/<run>/<capture>/<string>/<layer>/<head>/<palette>-<scale>.png
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import Dash
from flask import make_response, request

from models.errors import WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import refuse, sentence
from workbench.figures.attention import MASKED, TOP_CODE, encode
from workbench.figures.style import PALETTES, palette_rgb

SCALES = ("sqrt", "linear")
THUMBNAIL = 128  # cells a side


def address(run: str, capture: str, string: int, layer: int, head: int, palette: str, scale: str) -> str:
    """Return where the picture of a head is served."""
    return f"/thumbnail/{run}/{capture}/{string}/{layer}/{head}/{palette}-{scale}.png"


def register(app: Dash, data: Data) -> None:
    """Serve thumbnails from `app`."""

    @app.server.route("/thumbnail/<run>/<capture>/<int:string>/<int:layer>/<int:head>/<palette>-<scale>.png")
    def thumbnail(run: str, capture: str, string: int, layer: int, head: int, palette: str, scale: str) -> Any:
        if palette not in PALETTES or scale not in SCALES:
            refuse(404, f"no such colours; palettes are {', '.join(PALETTES)}, scales {', '.join(SCALES)}")
        try:
            codes = head_codes(data, run, capture, string, layer, head)
        except WorkbenchError as error:
            refuse(404, sentence(str(error)))
        response = make_response(png(codes, colors(palette, scale)), {"Content-Type": "image/png"})
        response.set_etag(f"{zlib.crc32(codes.tobytes()):x}-{palette}-{scale}")
        response.cache_control.no_cache = True
        return response.make_conditional(request)


def head_codes(data: Data, run: str, capture: str, string: int, layer: int, head: int) -> np.ndarray:
    """Return UInt8[R, C], at most 128 a side: the max-pooled pattern of a head as `figures.attention.encode` codes it.

    Raises:
        Pending: the string is long and the head's overview is still being computed.
    """
    opened = data.capture(run, capture)
    whole = slice(0, len(data.string(opened, string).tokens))
    view = data.map_view(opened, string, layer, head, whole, whole, THUMBNAIL)
    codes = view.cells if view.pooled else encode(view.cells, view.row_edges, view.col_edges)
    return shrink(codes)


def shrink(codes: np.ndarray) -> np.ndarray:
    """Return codes max-pooled to at most 128 a side; a cell is MASKED only where all of its parts are."""
    weights = np.where(codes == MASKED, 0, codes)
    pooled, masked = weights, codes == MASKED
    for side in (0, 1):
        starts = np.arange(0, codes.shape[side], -(-codes.shape[side] // THUMBNAIL))
        pooled = np.maximum.reduceat(pooled, starts, axis=side)
        masked = np.logical_and.reduceat(masked, starts, axis=side)
    return np.where(masked, np.uint8(MASKED), pooled)


def colors(palette: str, scale: str) -> list[tuple[int, int, int, int]]:
    """Return red, green, blue, alpha of the 256 codes; MASKED is transparent."""
    ramp = palette_rgb(palette, 256)
    fractions = (np.arange(MASKED) / TOP_CODE) ** {"sqrt": 1, "linear": 2}[scale]
    return [(*ramp[round(255 * part)], 255) for part in fractions] + [(0, 0, 0, 0)]


def png(codes: np.ndarray, table: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Return a PNG file of UInt8[R, C] codes with a colour table of 256 entries."""
    rows, cols = codes.shape
    lines = np.zeros((rows, cols + 1), dtype=np.uint8)  # every line begins with filter 0
    lines[:, 1:] = codes
    rgba = np.array(table, dtype=np.uint8)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", cols, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", rgba[:, :3].tobytes()),
        (b"tRNS", rgba[:, 3].tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 6)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
