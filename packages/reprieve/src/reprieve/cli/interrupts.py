"""Ctrl-C, and on request SIGTERM, as a request to stop and show the results so far."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from reprieve.cli.outcome import Exit


class Interrupt:
    """Whether Ctrl-C was pressed, and what to do then."""

    def __init__(self) -> None:
        self.wanted = False
        self.code = Exit.INTERRUPTED
        self._act: Callable[[], None] = lambda: None

    def then(self, act: Callable[[], None]) -> None:
        """Call this when Ctrl-C is pressed; at once if it already was."""
        self._act = act
        if self.wanted:
            act()

    def pressed(self, number: int, _frame: FrameType | None) -> None:
        """Handle the signal."""
        self.wanted = True
        if number == signal.SIGTERM:
            self.code = Exit.TERMINATED
        self._act()


@contextmanager
def interrupts(*, terminate: bool = False) -> Iterator[Interrupt]:
    """Record Ctrl-C, with `terminate` also SIGTERM, while the block runs, instead of raising an exception."""
    interrupt = Interrupt()
    numbers = (signal.SIGINT, signal.SIGTERM) if terminate else (signal.SIGINT,)
    before = [(number, signal.signal(number, interrupt.pressed)) for number in numbers]
    try:
        yield interrupt
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Block Ctrl-C in this thread and in started threads and processes while the block runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
