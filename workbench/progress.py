"""Progress of anything over two seconds: a bar with an ETA on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

_SECONDS_BETWEEN_LINES = 10.0
_ROUNDING = 1e-6  # a sum of shares this close to a whole number is that number


class Bar:
    """A bar for one piece of work; a context manager.

    Attributes:
        done: units finished, in fractions where one takes long.
    """

    def __init__(self, console: Console, title: str, total: int, *, done: float = 0) -> None:
        """Show `title`, with `done` of `total` units finished before, on `console`."""
        self.done = self._before = done
        self._console, self._title, self._total = console, title, total
        self._began = self._last_line = time.monotonic()
        self._rich = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=2 * len(str(total)) + 1)),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._rich.add_task(title, total=total, completed=0, note="")
        self._rich.update(self._task, completed=done)

    def update(self, done: float, note: str = "") -> None:
        """Say that `done` units are finished; `note` stands behind the bar."""
        whole = round(done)
        done = whole if abs(done - whole) < _ROUNDING else done
        further, self.done = done != self.done, done
        self._rich.update(self._task, completed=done, note=note)
        now = time.monotonic()
        due = now - self._last_line > _SECONDS_BETWEEN_LINES or (further and done >= self._total)
        if not self._console.is_terminal and due:
            self._last_line = now
            rate = (done - self._before) / max(now - self._began, 1e-9)
            left = f"{(self._total - done) / rate:.0f} s left" if rate > 0 and done < self._total else ""
            parts = [f"{self._title}: {int(done)}/{self._total}", note, left]
            self._console.print(Text("  ".join(part for part in parts if part)))

    def advance(self, units: float) -> None:
        """Say that `units` more are finished."""
        self.update(self.done + units)

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rich.stop()
