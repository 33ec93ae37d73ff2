"""The rule whether a toleration covers a taint of a node, for filters and for controllers that evict."""

from typing import Final

from kube_rules.selectors import parse_integer

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def covers(key: str, operator: str, value: str, effect: str, taint: tuple[str, str, str]) -> bool:
    """Return whether a toleration, given by its fields, covers a taint (key, value, effect).

    An empty effect covers all effects, an empty key with Exists all keys. Lt and Gt compare the integers of taint and
    toleration (KEP-5471), and cover nothing if either is not an integer. An empty operator is Equal.
    """
    if effect not in ("", taint[2]) or key not in ("", taint[0]):
        return False
    if operator == "Exists":
        return True
    if not key:
        return False
    if operator in ("", "Equal"):
        return value == taint[1]
    wanted, actual = parse_integer(value), parse_integer(taint[1])
    if wanted is None or actual is None:
        return False
    return actual < wanted if operator == "Lt" else operator == "Gt" and actual > wanted
