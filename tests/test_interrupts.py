"""Signals that wait for a moment at which they do no harm."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from workbench.interrupts import Interrupts

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[list[object]]:
    """The handlers of a process in the foreground, put back afterwards."""
    before = [signal.getsignal(number) for number in STOPPING]
    for number in STOPPING:
        signal.signal(number, signal.default_int_handler)
    yield [signal.getsignal(number) for number in STOPPING]
    for number, handler in zip(STOPPING, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPPING)
def test_the_first_signal_waits_and_the_second_does_not(number: signal.Signals, handlers: list[object]) -> None:
    heard: list[int] = []
    with Interrupts(lambda: heard.append(1)) as interrupts:
        interrupts.check()
        os.kill(os.getpid(), number)
        assert (heard, interrupts.count) == ([1], 1)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            signal.pause()
    assert heard == [1] and [signal.getsignal(each) for each in STOPPING] == handlers


def test_a_terminal_that_is_gone_does_not_matter() -> None:
    def fail() -> None:
        raise OSError("input/output error")

    with Interrupts(fail) as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.count == 1


def test_nohup_is_respected() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts(lambda: None) as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.count == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_other_threads_go_without() -> None:
    def enter() -> None:
        with Interrupts(lambda: None):
            entered.append(True)

    entered: list[bool] = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [True]
