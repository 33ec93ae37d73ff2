"""How often a process that keeps a cluster looks for garbage in cycles."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def collect_seldom() -> None:
    """Look for cyclic garbage among old objects hardly ever: what is kept of a cluster has no cycles.

    Each look goes over all that is kept: with the interpreter's own settings they are half of the time that it takes to
    learn of a large cluster, and a tenth of the time that it takes to start.  Young objects are examined after more of
    them than one decision keeps while it is made: those of a search for victims go by themselves when it ends.
    """
    gc.set_threshold(50_000, 20, 1_000)


@contextmanager
def collecting_once_loaded() -> Iterator[Callable[..., None]]:
    """Look for no cyclic garbage before the function it yields is called, nor then among what was there at that time.

    To read a large input and to build a cluster of it makes millions of objects and next to no garbage in cycles: each
    look goes over objects that stay.
    """
    was_on = gc.isenabled()
    gc.disable()

    def loaded(*_: object) -> None:
        if not gc.isenabled():  # further clusters that are built to try changes come and go
            gc.freeze()
        if was_on:
            gc.enable()

    try:
        yield loaded
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
