"""Taints of nodes against tolerations of pods."""

from reprieve.api.objects import Toleration
from reprieve.api.selectors import parse_integer
from reprieve.cluster.nodes import Taint
from reprieve.cluster.signature import PodSpecSignature

_REJECTING = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration matches one taint.

    An empty effect matches all effects; an empty key with Exists matches all keys; Lt and Gt compare integers
    (taint value against toleration value), as upstream.
    """
    key, value, effect = taint
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    if not toleration.key:
        return False
    if operator == "Equal":
        return toleration.value == value
    if operator in ("Lt", "Gt"):
        wanted, found = parse_integer(toleration.value), parse_integer(value)
        if wanted is None or found is None:
            return False
        return found < wanted if operator == "Lt" else found > wanted
    return False


def untolerated(signature: PodSpecSignature, taints: tuple[Taint, ...]) -> bool:
    """Whether one of the taints keeps pods of this signature away."""
    return any(
        taint[2] in _REJECTING and not any(tolerates(t, taint) for t in signature.tolerations) for taint in taints
    )
