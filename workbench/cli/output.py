"""What a verb prints: tables on stdout, progress on stderr, and JSON where a script asked for it."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from models.errors import UsageError
from workbench.files import write_text

WIDE = 200  # columns where the output is no terminal, so that a pipe gets whole names


class Output:
    """Where one verb's output goes.

    Attributes:
        progress: console for progress and remarks, stderr.
    """

    def __init__(self, json_path: str | None = None) -> None:
        """Take the value of `--json`: a file, `-` for stdout (all else then goes to stderr), or None."""
        self._json_path = json_path
        if json_path is not None and json_path != "-":
            require_writable(f"--json {json_path}", Path(json_path), "; give a file, or - for stdout")
        self.progress = _console(stderr=True)
        self._console = self.progress if json_path == "-" else _console(stderr=False)

    @property
    def roomy(self) -> bool:
        """Whether a column of sentences fits beside others."""
        return self._console.width >= 140

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table; a column whose name begins with `>` is right-aligned. Cells are text, never markup."""
        table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
        for index, name in enumerate(columns):
            justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
            table.add_column(Text(name.lstrip(">")), justify=justify, overflow="fold", no_wrap=index == 0)
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
        self._console.print(table)

    def line(self, text: str) -> None:
        """Print a line that belongs to the result."""
        self._console.print(Text(text), soft_wrap=True)

    def remark(self, text: str) -> None:
        """Print a line that does not belong to the result, on stderr."""
        self.progress.print(Text(text), soft_wrap=True)

    def json(self, value: dict[str, Any]) -> None:
        """Write `value` where `--json` said, if it was given; NaN is not written but null."""
        if self._json_path is None:
            return
        # A terminal that is not UTF-8 gets escapes, which are the same JSON.
        escaped = self._json_path == "-" and (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        text = json.dumps(value, indent=2, ensure_ascii=escaped, allow_nan=False) + "\n"
        if self._json_path == "-":
            sys.stdout.write(text)
        else:
            write_text(Path(self._json_path), text)

    @contextmanager
    def interruptible(self, left: str) -> Iterator[None]:
        """Say, where the block is stopped by Ctrl-C, what is left behind."""
        try:
            yield
        except KeyboardInterrupt:
            self.remark(f"interrupted: {left}")
            raise


def require_writable(option: str, path: Path, advice: str = "; give a file") -> None:
    """Raise UsageError where no file can be put at `path`, before the work whose result it would hold.

    Args:
        option: as it was given, for the message.
        path: of the file.
        advice: what to do instead.
    """
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option}: there is no folder {parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"{option}: that is {'a folder' if path.is_dir() else 'no regular file'}{advice}")
    if not os.access(parent, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise UsageError(f"{option}: the folder {parent} cannot be written to; choose another")


def share(value: float | None) -> str:
    """Write a share from 0 to 1, so that 1 is only ever printed for exactly 1."""
    if value is None:
        return "-"
    return f"{min(value, 0.999) if value < 1 else 1.0:.3f}"


def lengths_text(shortest: int, longest: int) -> str:
    """Write a length interval: "200", or "1-25"."""
    return str(longest) if shortest == longest else f"{shortest}-{longest}"


def age_text(moment: datetime | None) -> str:
    """Write how long ago `moment` was, in its largest whole unit."""
    if moment is None:
        return "-"
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def results_matrix(output: Output, title: str, results: Sequence[dict[str, Any]]) -> None:
    """Print exact match, one row a length, one column a distribution."""
    distributions = list(dict.fromkeys(score["distribution"] for score in results))
    cells = {(score["shortest"], score["length"], score["distribution"]): score["exact_match"] for score in results}
    intervals = list(dict.fromkeys(key[:2] for key in cells))
    rows = [[lengths_text(*pair), *(share(cells.get((*pair, name))) for name in distributions)] for pair in intervals]
    output.table(title, ["length", *(f">{name}" for name in distributions)], rows)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDE
    return console
