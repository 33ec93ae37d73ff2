"""The reasons why no node fits: codes per node and the text that users see.

The text is upstream's FitError (observability.md, "Conditions"): `0/5 nodes are available: 2 Insufficient cpu, 3
node(s) had untolerated taint(s).` - counts per reason, sorted as strings, then the message of the PostFilter.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from reprieve.framework.status import UNRESOLVABLE, UNSCHEDULABLE

NO_NODES = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    """The outcome of all filters for one pod on all nodes.

    `codes` is `int8[rows]`, FITS on rows without a live node. `plugins` rejected the pod on some row: their hints
    decide which events wake it. `rejected` has the rows that each plugin rejected, `bool[rows]` by plugin.
    """

    nodes: int
    codes: npt.NDArray[np.int8]
    reasons: dict[str, int] = field(default_factory=dict)
    plugins: set[str] = field(default_factory=set)
    pre_filter_message: str = ""
    rejected: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def resolvable_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows with failures that evictions may resolve."""
        return np.flatnonzero(self.codes == UNSCHEDULABLE)

    def unresolvable(self, row: int) -> bool:
        """Return whether evictions cannot help on that row."""
        return bool(self.codes[row] == UNRESOLVABLE)

    def message(self, post_filter: str = "") -> str:
        """Return the FitError text, with the PostFilter's message at the end if any; without nodes a fixed text."""
        if not self.nodes:
            return NO_NODES
        return fit_error(self.nodes, self.reasons, self.pre_filter_message, post_filter)


def fit_error(nodes: int, reasons: dict[str, int], pre_filter: str = "", post_filter: str = "") -> str:
    """Return `0/N nodes are available: <count> <reason>, ....` in upstream's format."""
    text = f"0/{nodes} nodes are available:"
    if pre_filter:
        text += f" {pre_filter}."
    else:
        parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        if parts:
            text += f" {', '.join(parts)}."
    return f"{text} {post_filter}" if post_filter else text
