"""Ctrl-C, and SIGTERM where a command asks for it, as a wish to stop and show what there is so far."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from reprieve.cli.outcome import Exit


class Interrupt:
    """Whether Ctrl-C was pressed, and what is to be done then."""

    def __init__(self) -> None:
        self.wanted = False
        self.code = Exit.INTERRUPTED
        self._act: Callable[[], None] = lambda: None

    def then(self, act: Callable[[], None]) -> None:
        """Do that; at once if it was pressed before."""
        self._act = act
        if self.wanted:
            act()

    def pressed(self, number: int, _frame: FrameType | None) -> None:
        """The handler."""
        self.wanted = True
        if number == signal.SIGTERM:
            self.code = Exit.TERMINATED
        self._act()


@contextmanager
def interrupts(*, terminate: bool = False) -> Iterator[Interrupt]:
    """Hear of Ctrl-C, with `terminate` of SIGTERM too, while the block runs, instead of an exception somewhere."""
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
    """Ctrl-C waits, here and in threads and processes that are started, until it is wanted again."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
