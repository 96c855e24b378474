"""Reports that a run keeps, so that the dashboard shows them.

`reports/heads-<step>.json`, `heads-history.json`, `failures-<step>.json`.
"""

import re
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from models.errors import WorkbenchError
from workbench.content.base import Content
from workbench.content.failures import FailuresContent
from workbench.content.heads import HeadsContent, HistoryContent
from workbench.files import reporting, write_text
from workbench.runs import Run, Store

C = TypeVar("C", bound=Content)

FOLDER = "reports"
_HEADS = re.compile(r"heads-(\d{1,12})\.json", re.ASCII)
_HISTORY = "heads-history.json"
_FAILURES = re.compile(r"failures-(\d{1,12})\.json", re.ASCII)


def keep(run: Run, content: HeadsContent) -> Path:
    """Keep a report in its run's folder, in place of an earlier one of that step; WorkbenchError where it cannot be."""
    return _write(heads_file(run, content.step), content)


def keep_history(run: Run, content: HistoryContent) -> Path:
    """Keep a report over checkpoints, in place of an earlier one; WorkbenchError where it cannot be."""
    return _write(history_file(run), content)


def keep_failures(run: Run, content: FailuresContent) -> Path:
    """Keep a report on failures, in place of an earlier one of that step; WorkbenchError where it cannot be."""
    return _write(failures_file(run, content.step), content)


def heads_file(run: Run, step: int) -> Path:
    """Where the report on the heads at a step is kept."""
    return run.path / FOLDER / f"heads-{step:08d}.json"


def history_file(run: Run) -> Path:
    """Where the report over checkpoints is kept."""
    return run.path / FOLDER / _HISTORY


def failures_file(run: Run, step: int) -> Path:
    """Where the report on the failures at a step is kept."""
    return run.path / FOLDER / f"failures-{step:08d}.json"


def kept_steps(run: Run) -> list[int]:
    """Steps that a report on the heads was kept for, ascending."""
    return _steps(run, _HEADS)


def kept_failures_steps(run: Run) -> list[int]:
    """Steps that a report on the failures was kept for, ascending."""
    return _steps(run, _FAILURES)


def kept_heads(run: Run, step: int) -> HeadsContent:
    """The report kept for a step; WorkbenchError where there is none or it is damaged."""
    return _read(heads_file(run, step), HeadsContent, run, f"workbench heads {run.id}")


def kept_failures(run: Run, step: int) -> FailuresContent:
    """The report on the failures at a step; WorkbenchError where there is none or it is damaged."""
    return _read(failures_file(run, step), FailuresContent, run, f"workbench failures {run.id} --checkpoint {step}")


def kept_history(run: Run) -> HistoryContent | None:
    """The report over checkpoints, None where there is none; WorkbenchError where it is damaged."""
    path = history_file(run)
    return _read(path, HistoryContent, run, f"workbench heads {run.id} --checkpoints") if path.is_file() else None


def _steps(run: Run, pattern: re.Pattern[str]) -> list[int]:
    try:
        names = [path.name for path in (run.path / FOLDER).iterdir()]
    except OSError:
        return []
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def _write(path: Path, content: Content) -> Path:
    with reporting(f"write {path.parent}"):
        path.parent.mkdir(exist_ok=True)
    write_text(path, content.model_dump_json(indent=1) + "\n")
    return path


def _read(path: Path, kind: type[C], run: Run, command: str) -> C:
    with reporting(f"read {path}"):
        text = path.read_bytes()
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        option = Store(run.path.parent).option
        raise WorkbenchError(
            f"{path} is damaged or of another version; make it again with: {command}{option}"
        ) from None
