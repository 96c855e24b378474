"""Small pictures of patterns as PNG files, for grids of many heads on the dashboard and in reports."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from workbench.figures.attention import MASKED, TOP_CODE
from workbench.figures.style import palette_rgb

SCALES = ("sqrt", "linear")
THUMBNAIL = 128  # cells a side


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
