"""Taints of nodes against tolerations of pods."""

from reprieve.api.objects import Toleration
from reprieve.api.taints import covers
from reprieve.cluster.nodes import Taint
from reprieve.cluster.signature import PodSpecSignature

_REJECTING = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    return covers(toleration.key, toleration.operator, toleration.value, toleration.effect, taint)


def untolerated(signature: PodSpecSignature, taints: tuple[Taint, ...]) -> bool:
    """Whether one of the taints keeps pods of this signature away."""
    return any(
        taint[2] in _REJECTING and not any(tolerates(t, taint) for t in signature.tolerations) for taint in taints
    )
