"""Ctrl-C, SIGTERM and a closed terminal, which stop a training between two steps instead of in the middle of one."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], None]


def handle_stopping(handler: Handler) -> dict[int, Any]:
    """Let `handler` take every signal that asks to stop, but one that is ignored: `nohup`, or a shell's background job.

    Returns:
        The handlers before, by signal, for `restore`; none outside the main thread, where nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heeded}


def restore(handlers: dict[int, Any]) -> None:
    """Undo `handle_stopping`."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


class Interrupts:
    """While entered, the first signal that asks to stop waits for `check()`; a second raises KeyboardInterrupt at once.

    Attributes:
        count: signals so far.
    """

    def __init__(self, notice: Callable[[], None]) -> None:
        """Take `notice`, called when the first signal comes, to say that it was heard."""
        self.count = 0
        self._notice = notice
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = handle_stopping(self._strike)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        restore(self._before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.count:
            raise KeyboardInterrupt

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        with suppress(OSError):  # the terminal may be gone
            self._notice()
