"""Reports that a run keeps, so that the dashboard shows them: `reports/heads-<step>.json` and `heads-history.json`."""

import re
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from models.errors import WorkbenchError
from workbench.content.base import Content
from workbench.content.heads import HeadsContent, HistoryContent
from workbench.files import reporting, write_text
from workbench.runs import Run

C = TypeVar("C", bound=Content)

FOLDER = "reports"
_HEADS = re.compile(r"heads-(\d{1,12})\.json", re.ASCII)
_HISTORY = "heads-history.json"


def keep(run: Run, content: HeadsContent) -> Path:
    """Keep a report in its run's folder, in place of an earlier one of that step; WorkbenchError where it cannot be."""
    return _write(heads_file(run, content.step), content)


def keep_history(run: Run, content: HistoryContent) -> Path:
    """Keep a report over checkpoints, in place of an earlier one; WorkbenchError where it cannot be."""
    return _write(history_file(run), content)


def heads_file(run: Run, step: int) -> Path:
    """Where the report on the heads at a step is kept."""
    return run.path / FOLDER / f"heads-{step:08d}.json"


def history_file(run: Run) -> Path:
    """Where the report over checkpoints is kept."""
    return run.path / FOLDER / _HISTORY


def kept_steps(run: Run) -> list[int]:
    """Steps that a report on the heads was kept for, ascending."""
    try:
        names = [path.name for path in (run.path / FOLDER).iterdir()]
    except OSError:
        return []
    return sorted(int(match[1]) for match in map(_HEADS.fullmatch, names) if match)


def kept_heads(run: Run, step: int) -> HeadsContent:
    """The report kept for a step; WorkbenchError where there is none or it is damaged."""
    return _read(heads_file(run, step), HeadsContent, f"workbench heads {run.id}")


def kept_history(run: Run) -> HistoryContent | None:
    """The report over checkpoints, None where there is none; WorkbenchError where it is damaged."""
    path = history_file(run)
    return _read(path, HistoryContent, f"workbench heads {run.id} --checkpoints") if path.is_file() else None


def _write(path: Path, content: Content) -> Path:
    with reporting(f"write {path.parent}"):
        path.parent.mkdir(exist_ok=True)
    write_text(path, content.model_dump_json(indent=1) + "\n")
    return path


def _read(path: Path, kind: type[C], command: str) -> C:
    with reporting(f"read {path}"):
        text = path.read_bytes()
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        raise WorkbenchError(f"{path} is damaged or of another version; make it again with: {command}") from None
