"""Groups without an object: their pods say how many they are (workloads.md 2.4, plain pods of Kueue).

Such a group is there as long as a pod of it is. Where pods give several sizes the largest counts, so that the answer
does not depend on arrival order and nothing runs that is smaller than a pod asked for.

Invariant: kept are the sizes that pods give which are there.
"""

from collections import Counter

from kube_rules import objects
from kube_rules.foreign_groups import ForeignGroup


class SizedGroups:
    """See the module docstring. Keys are `namespace/name`."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, int]] = {}
        """By key, then by UID of the pod."""
        self._given: dict[str, Counter[int]] = {}
        """By key: how many pods give a size."""

    def __len__(self) -> int:
        return sum(map(len, self._sizes.values()))

    def joined(self, key: str, uid: str, size: int) -> bool:
        """A pod that gives this size is there; whether the group is another than before."""
        before = self.size(key)
        self._forget(key, uid)
        self._sizes.setdefault(key, {})[uid] = size
        self._given.setdefault(key, Counter())[size] += 1
        return self.size(key) != before

    def left(self, key: str, uid: str) -> bool:
        """A pod was deleted; return whether the group changed."""
        before = self.size(key)
        self._forget(key, uid)
        return self.size(key) != before

    def _forget(self, key: str, uid: str) -> None:
        sizes = self._sizes.get(key, {})
        size = sizes.pop(uid, None)
        if size is None:
            return
        given = self._given[key]
        given[size] -= 1
        if not given[size]:
            del given[size]
        if not sizes:
            del self._sizes[key], self._given[key]

    def size(self, key: str) -> int | None:
        """Return how many pods the group has; None where no pod says so."""
        return max(self._given.get(key, ()), default=None)

    def group(self, key: str) -> objects.PodGroup | None:
        """Return the group as an object; None where no pod gives a size."""
        size = self.size(key)
        if size is None:
            return None
        namespace, _, name = key.partition("/")
        policy = objects.PodGroupSchedulingPolicy(gang=objects.GangSchedulingPolicy(min_count=size))
        return objects.PodGroup(
            metadata=objects.ObjectMeta(namespace=namespace, name=name),
            spec=objects.PodGroupSpec(scheduling_policy=policy, preemption_policy=objects.NO_POLICY_FIELD),
            foreign=ForeignGroup(),
        )
