"""How often a process that keeps a cluster looks for garbage in cycles."""

import gc


def collect_seldom() -> None:
    """Look for cyclic garbage among old objects hardly ever: what is kept of a cluster has no cycles.

    Each look goes over all that is kept: with the interpreter's own settings they are half of the time that it takes to
    learn of a large cluster, and a tenth of the time that it takes to start.  Young objects are examined after more of
    them than one decision keeps while it is made: those of a search for victims go by themselves when it ends.
    """
    gc.set_threshold(50_000, 20, 1_000)
