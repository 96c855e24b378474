"""The captures of a run on disk: listed, opened, removed. Never imports torch."""

import os
import secrets
import shlex
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from models.attention import ABOUT_FILE, PARTIAL, Capture, open_capture
from models.errors import UsageError, WorkbenchError
from models.registry import unknown
from workbench.files import child_of, reporting, require_new_name
from workbench.runs import LATEST, Run

_REMOVED = ".removed-"
_ABANDONED_SECONDS = 3600


class CaptureStatus(StrEnum):
    """What a folder among a run's captures is."""

    COMPLETE = "complete"
    UNREADABLE = "unreadable"  # ours, but damaged or of a newer format
    FOREIGN = "foreign"  # not a capture at all


@dataclass(frozen=True)
class CaptureEntry:
    """One folder among a run's captures. The fields from `strings` on are empty unless it is complete.

    Attributes:
        path: the folder; its name is the capture's id.
        status: what it is.
        message: why it cannot be read.
        size: bytes of its files, overviews included.
        created: when it was made, UTC.
        strings, failed: how many strings it holds, and how many of them are copied wrongly.
        shortest, longest: source strings.
        distribution: of the strings.
        step: optimiser steps of the weights.
        overviews: bytes of its overviews.
    """

    path: Path
    status: CaptureStatus
    message: str | None = None
    size: int = 0
    created: datetime | None = None
    strings: int = 0
    failed: int = 0
    shortest: int = 0
    longest: int = 0
    distribution: str = ""
    step: int = 0
    overviews: int = 0

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name


def strings_text(count: int, longest: int, shortest: int | None = None) -> str:
    """Write how many strings of how many tokens: "1 string of 40 source tokens", "8 strings of 1-25 source tokens"."""
    lengths = str(longest) if shortest in (None, longest) else f"{shortest}-{longest}"
    return f"{count} string{'' if count == 1 else 's'} of {lengths} source token{'' if lengths == '1' else 's'}"


def list_captures(run: Run) -> list[CaptureEntry]:
    """Return every folder among the captures of `run`, newest first, unreadable and foreign ones last. Never raises."""
    folder = run.path / "captures"
    try:
        names = [] if folder.is_symlink() else os.listdir(folder)
    except OSError:
        return []
    found = [_read(folder, name) for name in names if not name.startswith(".")]
    entries = [entry for entry in found if entry is not None]
    return sorted(entries, key=lambda entry: (entry.created is None, -_seconds(entry.created), entry.id))


def find_capture(run: Run, name: str) -> CaptureEntry:
    """Return the capture called `name`: an id, a prefix that only one id has, or `latest`; also a damaged one.

    Raises:
        UsageError: there is none, or several begin so.
    """
    entries = list_captures(run)
    if name == LATEST:
        if not entries or entries[0].status is not CaptureStatus.COMPLETE:
            raise UsageError(f"run {run.id} has no capture yet; make one with: workbench capture {shlex.quote(run.id)}")
        return entries[0]
    path = child_of(run.path / "captures", name, "capture")
    matches = [e for e in entries if e.path == path] or [e for e in entries if e.id.startswith(name)]
    if not matches:
        raise UsageError(unknown("capture", name, [entry.id for entry in entries]) + f" (of run {run.id})")
    if len(matches) > 1:
        raise UsageError(f"{name!r} begins several captures: {', '.join(e.id for e in matches)}; add letters")
    return matches[0]


def load_capture(run: Run, name: str) -> Capture:
    """Open the capture called `name`, see `find_capture`; WorkbenchError for one that is damaged or foreign."""
    entry = find_capture(run, name)
    if entry.status is not CaptureStatus.COMPLETE:
        raise WorkbenchError(f"capture {entry.id} of run {run.id} is {entry.status.value}: {entry.message}")
    return open_capture(entry.path)


def new_capture_path(run: Run, name: str) -> Path:
    """Return the folder of a capture that is to be made; UsageError where the name is taken or is none."""
    path = child_of(child_of(run.path, "captures", "folder"), name, "capture")
    require_new_name(name, "capture")
    if name == LATEST:
        raise UsageError(f"{LATEST!r} stands for the newest capture; choose another name")
    if path.exists():
        raise UsageError(f"run {run.id} has a capture {name!r} already; remove it first or choose another name")
    return path


def remove_capture(run: Run, entry: CaptureEntry) -> None:
    """Delete a capture, or a damaged one. It is renamed first, so that no reader meets half of it.

    Raises:
        UsageError: the folder is not a capture.
        WorkbenchError: the folder cannot be changed.
    """
    if entry.status is CaptureStatus.FOREIGN:
        raise UsageError(f"{entry.id!r} is not a capture, so it is left alone: {entry.message}")
    path = child_of(child_of(run.path, "captures", "folder"), entry.id, "capture")
    with reporting(f"remove {path}"):
        hidden = path.with_name(f"{_REMOVED}{secrets.token_hex(8)}")
        os.rename(path, hidden)
        shutil.rmtree(hidden)
    sweep(path.parent)


def sweep(folder: Path) -> None:
    """Delete what a killed capture or removal left in a run's folder of captures."""
    try:
        left = [entry for entry in os.scandir(folder) if entry.name.startswith((PARTIAL, _REMOVED))]
        old = [e.path for e in left if time.time() - e.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS]
    except OSError:
        return
    for path in old:
        shutil.rmtree(path, ignore_errors=True)


def _read(folder: Path, name: str) -> CaptureEntry | None:
    """Return what `name` in `folder` is; None where it is a plain file, or gone."""
    try:
        path = child_of(folder, name, "capture")
    except UsageError:
        return CaptureEntry(folder / name, CaptureStatus.FOREIGN, "it is a link, or its name is not one of ours")
    if not path.is_dir():
        return None
    size, overviews = _sizes(path)
    if not (path / ABOUT_FILE).is_file():
        return CaptureEntry(path, CaptureStatus.FOREIGN, f"it has no {ABOUT_FILE}", size)
    try:
        return CaptureEntry(path, CaptureStatus.COMPLETE, None, size, overviews=overviews, **_facts(path))
    except WorkbenchError as error:
        return CaptureEntry(path, CaptureStatus.UNREADABLE, str(error), size)


def _facts(path: Path) -> dict[str, Any]:
    """What capture.json says for the list; WorkbenchError where it, or a string's file, is damaged."""
    capture = open_capture(path)
    about = capture.about
    for string in capture:
        string.check()
    try:
        lengths = [int(string["length"]) for string in about["strings"]]
        return {
            "created": datetime.fromisoformat(about["created"]).astimezone(UTC),
            "strings": len(lengths),
            "failed": sum(not bool(string["exact"]) for string in about["strings"]),
            "shortest": min(lengths),
            "longest": max(lengths),
            "distribution": str(about["distribution"]),
            "step": int(about["step"]),
        }
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise WorkbenchError(f"{ABOUT_FILE} is incomplete or damaged ({type(error).__name__}: {error})") from None


def _sizes(path: Path) -> tuple[int, int]:
    """Bytes of all files of a capture, and of its overviews."""
    total = overviews = 0
    for name in _names(path):
        try:
            size = os.lstat(path / name).st_size
        except OSError:
            continue
        total += size
        overviews += size if "-overview-" in name else 0
    return total, overviews


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0
