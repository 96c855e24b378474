"""Whether a run's files can be read at all, looked at again only where a file has changed."""

import json
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

_FAULTS_KEPT = 4096
_LARGEST_HEADER = 100_000_000  # bytes; safetensors itself reads no larger one


def require_sound(path: Path, fault: Callable[[str, tuple[int, int, int]], str | None]) -> None:
    """Raise ValueError with what `fault` finds wrong with the file, which is looked at again only when it changes."""
    try:
        about = path.stat()
        found = fault(str(path), (about.st_ino, about.st_mtime_ns, about.st_size))
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if found:
        raise ValueError(f"{path.name} {found}")


@lru_cache(_FAULTS_KEPT)
def config_fault(path: str, version: tuple[int, int, int]) -> str | None:
    """What is wrong with a recipe as stored, which need not be one of this version's."""
    with open(path, "rb") as file:
        try:
            tomllib.load(file)
        except (ValueError, RecursionError) as error:
            return f"is not valid TOML: {error}"
    return None


@lru_cache(_FAULTS_KEPT)
def tensors_fault(path: str, version: tuple[int, int, int]) -> str | None:
    """What is wrong with the header of a safetensors file, or with the file's size; the tensors are not read."""
    size = version[-1]
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LARGEST_HEADER):
            return "is truncated or no safetensors file: its header is incomplete"
        header = file.read(length)
    try:
        ends = [entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"]
        expected = 8 + length + max(map(int, ends), default=0)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError):
        return "is damaged: its header is not that of a safetensors file"
    return None if size == expected else f"is truncated or damaged: it has {size} bytes, its header says {expected}"
