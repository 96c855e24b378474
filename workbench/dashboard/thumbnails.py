"""Small pictures of whole patterns, one an attention head, served as PNG files so that a grid of them costs little.

/thumbnail/<run>/<capture>/<string>/<layer>/<head>/<palette>-<scale>.png
"""

import zlib
from typing import Any

import numpy as np
from dash import Dash
from flask import make_response, request

from models.errors import WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import refuse, sentence
from workbench.figures.attention import encode
from workbench.figures.pictures import SCALES, THUMBNAIL, colors, png, shrink
from workbench.figures.style import PALETTES


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
    opened, string = data.located(run, capture, string)
    whole = slice(0, len(data.string(opened, string).tokens))
    view = data.map_view(opened, string, layer, head, whole, whole, THUMBNAIL)
    codes = view.cells if view.pooled else encode(view.cells, view.row_edges, view.col_edges)
    return shrink(codes)
