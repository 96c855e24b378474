"""Files that are never half-written, and names from outside that never leave their folder."""

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.errors import UsageError, WorkbenchError

_ADVICE = {
    errno.ENOSPC: "free some space, or choose a folder on another disk",
    errno.EDQUOT: "free some space, or choose a folder on another disk",
    errno.EFBIG: "free some space, or choose a folder on another disk",  # a limit on the size of files
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "choose a folder that can be written to",
    errno.EPERM: "choose a folder that can be written to",
    errno.ENOTDIR: "choose a folder, not a file",
    errno.EEXIST: "choose a folder, not a file",
}


# What a new run or capture may be called; the dashboard's addresses take no other ids.
NEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def require_new_name(name: str, kind: str) -> None:
    """Raise UsageError where something new must not be called `name`; what is there already may have other names.

    Args:
        name: what came from a command line.
        kind: what is named, for the message ("capture").
    """
    if not NEW_NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is not a name for a new {kind}: give at most 128 letters a-z, digits, - _ and . (the "
            f"first a letter or digit)"
        )


def child_of(folder: Path, name: str, kind: str) -> Path:
    """Return the path of the direct child `name` of `folder`: the one way from an outside name to a path.

    Args:
        folder: the folder that must not be left.
        name: what came from a command line, a URL or a file.
        kind: what is named, for the message ("run").

    Raises:
        UsageError: the name is empty, hidden, too long, holds a separator or an unprintable character (NUL), or is
            a link to somewhere else. That the child exists is not checked.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"an empty {kind} name was given; give the name of a {kind}")
    refused = name.startswith(".") or not name.isprintable() or any(c in name for c in "/\\")
    if refused or len(os.fsencode(name)) > 255:
        raise UsageError(f"{name[:80]!r} is not a {kind} name: it must be one visible folder name, not a path")
    if os.path.islink(folder / name):
        raise UsageError(f"{kind} {name!r} in {folder} is a link; links are not followed")
    return folder / name


def as_workbench_error(error: OSError, doing: str) -> WorkbenchError:
    """Return the one line for a failed file operation: what was tried, the reason, what to do.

    Args:
        error: what the system said.
        doing: what was tried ("write runs/x/run.json").
    """
    reason = (error.strerror or str(error)).lower()
    advice = _ADVICE.get(error.errno or 0)
    if error.errno == errno.ENOENT and doing.startswith(("write", "create")):
        advice = "choose a folder that exists and takes new files"
    return WorkbenchError(f"cannot {doing}: {reason}" + (f"; {advice}" if advice else ""))


def as_write_error(error: Exception, path: Path) -> WorkbenchError:
    """Return the one line for a failed write of tensors, whose error names the system's only in its text."""
    found = _OS_ERROR.search(str(error))
    number = int(found[1]) if found else 0
    cause = OSError(number, os.strerror(number)) if found else OSError(str(error))
    return as_workbench_error(cause, f"write {path}")


def bytes_text(size: float) -> str:
    """Write a number of bytes with three digits and a decimal unit, as disks are sold and `--budget` is given."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


@contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turn an OSError of the block into a WorkbenchError, see `as_workbench_error`."""
    try:
        yield
    except OSError as error:
        raise as_workbench_error(error, doing) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; after the block it is fsynced and renamed to `path`.

    A reader sees the old content or the new one. When the block fails, nothing is left behind. The file gets the mode
    of any new file, whatever the block gives it (safetensors writes files that only their owner reads).

    Raises:
        WorkbenchError: the disk is full, the folder is read-only, or any other OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with reporting(f"write {path}"):
        try:
            with open(temporary, "xb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            yield temporary
            with open(temporary, "rb+") as file:
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a hidden folder beside `path`; after the block it is renamed to `path`. When the block fails, it is gone.

    Raises:
        UsageError: `path` is a file, or a folder that holds something.
        WorkbenchError: any OSError.
    """
    with reporting(f"write {path}"):
        if os.path.lexists(path) and not (path.is_dir() and not path.is_symlink() and not any(path.iterdir())):
            raise UsageError(f"{path} is there already; give a new folder, or an empty one")
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        hidden.mkdir()
        try:
            yield hidden
            os.replace(hidden, path)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step, see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as strict JSON (no NaN) to `path` in one step, see `replacing`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`; a file that cannot be read or holds anything else raises ValueError."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path.name} is not valid JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return value
