"""A moment without requests, for what other threads must not see half done.

A module enters `sys.modules` before it is whole, and plotly asks there for pandas whenever it draws: a figure that is
drawn while pandas is imported in the background fails. So the import waits until no request is being answered, and
requests wait for the import.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask, g

_PATIENCE = 20.0  # seconds


class Gate:
    """Counts the requests that are being answered, and keeps new ones out for a moment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    def guard(self, server: Flask) -> None:
        """Let every request of `server` pass through here."""

        @server.before_request
        def enter() -> None:
            self.enter()
            g.passed_gate = True

        @server.teardown_request
        def leave(_: BaseException | None) -> None:
            if g.pop("passed_gate", False):
                self.leave()

    def enter(self) -> None:
        """Wait while the gate is closed, then count as inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed, _PATIENCE)
            self._inside += 1

    def leave(self) -> None:
        """No longer count as inside."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep requests out; those inside are waited for, though not for ever."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0, _PATIENCE)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def bring_pandas(self) -> None:
        """Import pandas, which the company of torch and scikit-learn does anyway; not to be called from a request."""
        if "pandas" not in sys.modules:
            with self.closed():
                importlib.import_module("pandas")


def gate_of(server: Flask) -> Gate:
    """Return the gate of a server, the same for all of its pages; first to be called before it answers anything."""
    if "workbench-gate" not in server.extensions:
        gate = Gate()
        gate.guard(server)
        server.extensions["workbench-gate"] = gate
    kept: Gate = server.extensions["workbench-gate"]
    return kept
