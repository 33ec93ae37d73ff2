"""A cluster cache that records the history of each object, for the checks of tests.

`ClusterState.check` reports a wrong amount, but not its cause. `RecordedCluster` also records the last changes of every
pod, node and group, including trials and their undoing. If its `check` fails, the error includes the history of each
object that it names (the *story* of Dask's scheduler). An engine with `EngineOptions(validate=True)` uses it; a
production scheduler does not.
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
"""The number of recorded changes of one object, and the separate number of trial steps."""
OBJECTS = 10_000
"""The number of objects with recorded changes, those that changed last."""

_NAME = re.compile(r"[\w./-]+")

_Kept = deque[tuple[int, str]]


@dataclass(slots=True)
class History:
    """The last changes of recently changed objects, by NAMESPACE/NAME of a pod or group, or NAME of a node."""

    changes: int = CHANGES
    objects: int = OBJECTS
    _count: int = 0
    _of: OrderedDict[str, tuple[_Kept, _Kept]] = field(default_factory=OrderedDict)
    """Name -> changes and trial steps."""

    def record(self, change: str, *names: str, tried: bool = False) -> None:
        """Record one change (or a trial step) of all named objects, numbered from 1."""
        self._count += 1
        for name in names:
            queues = self._of.get(name)
            if queues is None:
                queues = self._of[name] = (deque(maxlen=self.changes), deque(maxlen=self.changes))
                if len(self._of) > self.objects:
                    self._of.popitem(last=False)
            queues[tried].append((self._count, change))
            self._of.move_to_end(name)

    def story(self, text: str) -> str:
        """Return the history of each object that `text` names, oldest first, one change per line; "" for no object."""
        named = dict.fromkeys(name for name in _NAME.findall(text) if name in self._of)
        lines: list[str] = []
        for name in named:
            changes = sorted((*self._of[name][0], *self._of[name][1]))
            lines.append(f"what happened to {name}, of {self._count} changes in all:")
            lines += [f"  #{number} {change}" for number, change in changes]
        return "\n".join(lines)


class RecordedCluster(ClusterState):
    """A `ClusterState` with failed checks that report the history of the objects they name."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()

    def check(self) -> None:
        """Run `ClusterState.check`; an AssertionError includes the history in further lines."""
        try:
            super().check()
        except AssertionError as error:
            story = self.history.story(str(error))
            raise AssertionError(f"{error}\n{story}" if story else str(error)) from error

    # -- recorded changes --------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> bool:
        changed = super().set_node(node)
        name = node.metadata.name
        self.history.record(f"node {name} is set{'' if changed else ', nothing new'}", name)
        return changed

    def remove_node(self, name: str) -> bool:
        removed = super().remove_node(name)
        self.history.record(f"node {name} is removed", name)
        return removed

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
        change = "is changed" if pod.signature is not signature or pod.labels != labels else "has a start time"
        self._note(pod, change, pod.row)
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

    def _note(self, pod: PodRecord, change: str, row: int = -1) -> None:
        """Record a change of a pod, also for its node and its group."""
        names = [pod.key]
        if row >= 0:
            node = self.nodes.names[row]
            names.append(node)
            change = f"{change} {node}" if change.endswith((" on", " off", " to")) else f"{change} ({node})"
        if pod.group is not None:
            names.append(pod.group)
        state = " (undone)" if self._undo.rewinding else " (trial)" if self.in_trial else ""
        self.history.record(f"pod {pod.key} {change}{state}", *names, tried=self.in_trial)
