"""Groups without an object, with a size that their pods state (workloads.md 2.4, plain pods of Kueue).

Such a group exists as long as one of its pods does. If pods state different sizes the largest counts: the answer does
not depend on the order of arrival, and the group never runs smaller than a pod requires.

Invariant: the sizes are those of existing pods.
"""

from collections import Counter

from kube_rules import objects
from kube_rules.foreign_groups import ForeignGroup


class SizedGroups:
    """See the module docstring. Keys are `namespace/name`."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, int]] = {}
        """By key, then by UID of the pod."""
        self._pods_by_size: dict[str, Counter[int]] = {}
        """By key: the number of pods for each size."""

    def __len__(self) -> int:
        return sum(map(len, self._sizes.values()))

    def joined(self, key: str, uid: str, size: int) -> bool:
        """Add a pod with this size; return whether the group changed."""
        before = self.size(key)
        self._forget(key, uid)
        self._sizes.setdefault(key, {})[uid] = size
        self._pods_by_size.setdefault(key, Counter())[size] += 1
        return self.size(key) != before

    def left(self, key: str, uid: str) -> bool:
        """Remove a deleted pod; return whether the group changed."""
        before = self.size(key)
        self._forget(key, uid)
        return self.size(key) != before

    def _forget(self, key: str, uid: str) -> None:
        sizes = self._sizes.get(key, {})
        size = sizes.pop(uid, None)
        if size is None:
            return
        pods_by_size = self._pods_by_size[key]
        pods_by_size[size] -= 1
        if not pods_by_size[size]:
            del pods_by_size[size]
        if not sizes:
            del self._sizes[key], self._pods_by_size[key]

    def size(self, key: str) -> int | None:
        """Return the number of pods of the group; None if no pod states it."""
        return max(self._pods_by_size.get(key, ()), default=None)

    def group(self, key: str) -> objects.PodGroup | None:
        """Return the group as an object; None if no pod states a size."""
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
