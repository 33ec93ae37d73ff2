"""Taints of nodes and tolerations of pods."""

from collections.abc import Sequence

from kube_rules.objects import Toleration
from kube_rules.taints import covers
from reprieve.cluster.nodes import Taint

REJECTING = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether one toleration covers one taint."""
    return covers(toleration.key, toleration.operator, toleration.value, toleration.effect, taint)


def untolerated(tolerations: Sequence[Toleration], taints: tuple[Taint, ...]) -> bool:
    """Return whether a taint excludes pods with these tolerations."""
    return any(taint[2] in REJECTING and not any(tolerates(t, taint) for t in tolerations) for taint in taints)
