"""A picture of the cluster that remembers what happened to each object, for the checks of tests.

`ClusterState.check` says that an amount is off, not how it came to be.  `RecordedCluster` is the same state and keeps
the last changes of every pod, node and group, trials and their undoing included; where its `check` fails, the error
continues with the history of each object that it names (the *story* of Dask's scheduler).  An engine with
`EngineOptions(validate=True)` has one; a scheduler at work keeps none of this.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kube_rules import objects
from reprieve.cluster.groups import CompositeState, GroupState
from reprieve.cluster.pods import PodClaim, PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState

CHANGES = 20
"""Changes kept of one object, the latest; and as many steps of trials, which would push the others out."""
OBJECTS = 10_000
"""So many objects have their changes kept, those that changed last."""

_NAME = re.compile(r"[\w./-]+")

_Kept = deque[tuple[int, str]]


@dataclass(slots=True)
class History:
    """The last changes of the objects that changed last, by name: NAMESPACE/NAME of a pod or group, NAME of a node."""

    changes: int = CHANGES
    objects: int = OBJECTS
    _count: int = 0
    _of: OrderedDict[str, tuple[_Kept, _Kept]] = field(default_factory=OrderedDict)
    """Changes, and steps of trials."""

    def record(self, what: str, *names: str, tried: bool = False) -> None:
        """One change (or a step of a trial) of all the objects named; every one has a number, counted from 1."""
        self._count += 1
        for name in names:
            there = self._of.get(name)
            if there is None:
                there = self._of[name] = (deque(maxlen=self.changes), deque(maxlen=self.changes))
                if len(self._of) > self.objects:
                    self._of.popitem(last=False)
            there[tried].append((self._count, what))
            self._of.move_to_end(name)

    def story(self, text: str) -> str:
        """Return what happened to each object that `text` names, oldest first, a change per line; "" where it names
        none.
        """
        named = dict.fromkeys(name for name in _NAME.findall(text) if name in self._of)
        lines: list[str] = []
        for name in named:
            kept = sorted((*self._of[name][0], *self._of[name][1]))
            lines.append(f"what happened to {name}, of {self._count} changes in all:")
            lines += [f"  #{number} {what}" for number, what in kept]
        return "\n".join(lines)


class RecordedCluster(ClusterState):
    """A `ClusterState` with failed checks that report what happened to the objects that they name."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()

    def check(self) -> None:
        """See `ClusterState.check`; the AssertionError has the history as further lines."""
        try:
            super().check()
        except AssertionError as error:
            story = self.history.story(str(error))
            raise AssertionError(f"{error}\n{story}" if story else str(error)) from error

    # -- each change, in the words of its method ----------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> bool:
        changed = super().set_node(node)
        name = node.metadata.name
        self.history.record(f"node {name} is set{'' if changed else ', nothing new'}", name)
        return changed

    def remove_node(self, name: str) -> bool:
        there = super().remove_node(name)
        self.history.record(f"node {name} is removed", name)
        return there

    def add_pod(self, pod: PodRecord, node: str | None = None, *, due: float | None = None) -> None:
        self._note(pod, f"is added, bound to {node}" if node else "is added, pending")
        super().add_pod(pod, node, due=due)

    def remove_pod(self, pod: PodRecord) -> None:
        self._note(pod, "is removed", pod.row)
        super().remove_pod(pod)

    def set_terminating(self, pod: PodRecord, *, due: float | None = None) -> None:
        self._note(pod, "is terminating", pod.row)
        super().set_terminating(pod, due=due)

    def change_pod(
        self, pod: PodRecord, *, signature: PodSpecSignature, labels: Mapping[str, str], start: float | None
    ) -> None:
        what = "is changed" if pod.signature is not signature or pod.labels != labels else "has a start time"
        self._note(pod, what, pod.row)
        super().change_pod(pod, signature=signature, labels=labels, start=start)

    def set_claims(self, pod: PodRecord, claims: tuple[PodClaim, ...]) -> None:
        self._note(pod, "has other claims", pod.row)
        super().set_claims(pod, claims)

    def set_group(self, group: objects.PodGroup, *, created: float = 0.0, trees: bool = True) -> GroupState:
        state = super().set_group(group, created=created, trees=trees)
        self.history.record(f"podgroup {state.key} is set", state.key)
        return state

    def remove_group(self, key: str) -> GroupState | None:
        self.history.record(f"podgroup {key} is removed", key)
        return super().remove_group(key)

    def set_composite(
        self, group: objects.CompositePodGroup, *, created: float = 0.0, foreign: str | None = None
    ) -> CompositeState:
        state = super().set_composite(group, created=created, foreign=foreign)
        self.history.record(f"compositepodgroup {state.key} is set", state.key)
        return state

    def remove_composite(self, key: str) -> CompositeState | None:
        self.history.record(f"compositepodgroup {key} is removed", key)
        return super().remove_composite(key)

    def nominate(self, pod: PodRecord, row: int) -> None:
        if pod.nominated != row:
            self._note(pod, "is nominated to", row)
        super().nominate(pod, row)

    def clear_nomination(self, pod: PodRecord) -> None:
        if pod.nominated >= 0:
            self._note(pod, "is no longer nominated to", pod.nominated)
        super().clear_nomination(pod)

    def _put(self, pod: PodRecord, row: int) -> None:
        self._note(pod, "is placed on", row)
        super()._put(pod, row)

    def _take(self, pod: PodRecord) -> None:
        self._note(pod, "is taken off", pod.row)
        super()._take(pod)

    def _put_all(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        for pod, row in zip(pods, rows, strict=True):
            self._note(pod, f"is placed, as one of {len(pods)}, on", row)
        super()._put_all(pods, rows)

    def _take_all(self, pods: Sequence[PodRecord]) -> None:
        for pod in pods:
            self._note(pod, f"is taken, as one of {len(pods)}, off", pod.row)
        super()._take_all(pods)

    def _note(self, pod: PodRecord, what: str, row: int = -1) -> None:
        """One change of a pod, also recorded for its node and its group."""
        names = [pod.key]
        if row >= 0:
            node = self.nodes.names[row]
            names.append(node)
            what = f"{what} {node}" if what.endswith((" on", " off", " to")) else f"{what} ({node})"
        if pod.group is not None:
            names.append(pod.group)
        state = " (undone)" if self._undo.rewinding else " (trial)" if self.in_trial else ""
        self.history.record(f"pod {pod.key} {what}{state}", *names, tried=self.in_trial)
