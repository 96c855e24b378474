"""Ports of the dashboard: free ones, busy ones, and when a server answers."""

import errno
import socket
import time
from collections.abc import Callable

from models.errors import WorkbenchError

HOST = "127.0.0.1"
DEFAULT_PORT = 8050
_LAST_PORT = 65_535


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port`; WorkbenchError where this user may not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise WorkbenchError(
                f"port {port} cannot be used: {(error.strerror or str(error)).lower()}; give one from 1024 on"
            ) from None
    return True


def next_free(port: int) -> int | None:
    """Return the first free port after `port`; None where there is none."""
    return next((candidate for candidate in range(port + 1, _LAST_PORT + 1) if is_free(candidate)), None)


def require_free(port: int) -> None:
    """Raise WorkbenchError, naming the next free port, where `port` is busy."""
    if not is_free(port):
        other = next_free(port)
        advice = f"the next free one is {other}: --port {other}" if other else "give a lower one with --port"
        raise WorkbenchError(f"port {port} is in use by another program; {advice}")


def wait_until_answered(port: int, alive: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return True once something listens on `port`; False when `alive()` turns false or the time is over."""
    deadline = time.monotonic() + seconds
    while alive() and time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((HOST, port)) == 0:
                return True
        time.sleep(0.1)
    return False
