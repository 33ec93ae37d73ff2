"""Settings of the cyclic garbage collector for processes that hold a cluster."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def collect_seldom() -> None:
    """Collect old generations rarely: the objects of a cluster have no cycles.

    A full collection visits every object of the cluster. With default settings it takes half of the time to load a
    large cluster and a tenth of the time to start. The threshold of the young generation exceeds the objects of one
    decision, most of which a search for victims frees when it ends.
    """
    gc.set_threshold(50_000, 20, 1_000)


@contextmanager
def collecting_once_loaded() -> Iterator[Callable[..., None]]:
    """Disable garbage collection until the yielded function is called, and exclude the objects loaded until then.

    Reading a large input and building its cluster creates millions of objects and almost no cyclic garbage, so each
    collection would only visit live objects.
    """
    was_on = gc.isenabled()
    gc.disable()

    def loaded(*_: object) -> None:
        if not gc.isenabled():  # clusters built later, to try changes, are temporary
            gc.freeze()
        if was_on:
            gc.enable()

    try:
        yield loaded
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
