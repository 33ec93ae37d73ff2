"""How often a process that keeps a cluster looks for garbage in cycles."""

import gc


def collect_seldom() -> None:
    """Look for cyclic garbage among old objects hardly ever: what is kept of a cluster has no cycles.

    Each look goes over all that is kept: with the interpreter's own settings they are half of the time that it takes to
    learn of a large cluster, and a tenth of the time that it takes to start.
    """
    gc.set_threshold(20_000, 50, 1_000)
