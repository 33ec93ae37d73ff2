"""Pods that have succeeded: the engine learns of them, for everything else they are gone.

They use no capacity, but their gangs have not lost them (docs/rules/repair.md 1.3). A watch that excludes them reports
them as deleted, in their last state before, so that a deletion looks the same. Failed pods are lost like deleted ones.
"""

from typing import Any, Final

from kube_rules.objects import Pod
from reprieve.client.informer import Change, ChangeKind

NOT_FAILED: Final = "status.phase!=Failed"
"""The field selector of the watched pods: a pod that fails is reported as deleted."""


def without_succeeded(change: Change[Any]) -> Change[Any]:
    """Return the change, or the deletion of a pod that has succeeded."""
    item = change.object
    if isinstance(item, Pod) and item.status.phase == "Succeeded":
        return Change(ChangeKind.DELETED, item, change.old)
    return change
