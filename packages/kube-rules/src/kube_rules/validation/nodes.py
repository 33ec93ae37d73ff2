"""Rules of nodes and namespaces (transcripts 115 to 130). Taint errors are at `metadata.taints`, as upstream."""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.node_features import declaration_errors
from kube_rules.taints import EFFECTS
from kube_rules.validation import names, resources
from kube_rules.validation import rows as r

_ONCE = 'node updates may not change {} except from "" to valid'
_TAINTS = r.listed(
    "taints",
    r.formed("key", names.qualified, "always"),
    r.formed("value", names.label_value),
    r.choice("effect", EFFECTS),
    r.Unique(
        "key",
        "effect",
        place="",
        shown=lambda taint: {
            "Key": taint.get("key", ""),
            "Value": taint.get("value", ""),
            "Effect": taint.get("effect", ""),
            "TimeAdded": taint.get("timeAdded"),
        },
        detail="taints must be unique by key and effect pair",
    ),
)


def _addresses(spec: Json, path: str) -> r.Found:
    blocks = spec.get("podCIDRs", ())
    if len(blocks) > 2:
        yield fe.invalid(f"{path}.podCIDRs", blocks, "may specify no more than one CIDR for each IP family")


def taints(obj: Json, _: str) -> r.Found:
    """Check the taints of a node."""
    return _TAINTS(obj.get("spec", {}), "metadata")


def _features(status: Json, path: str) -> r.Found:
    """Check feature names (KEP-5328): well formed, sorted, unique (devices.md 2.1)."""
    declared = status.get("declaredFeatures") or ()
    for index, detail in declaration_errors(declared):
        at = f"{path}.declaredFeatures[{index}]"
        yield fe.invalid(at, declared[index], detail) if detail else fe.duplicate(at, declared[index])


node = r.all_of(
    taints,
    r.below("spec", _addresses),
    r.below("status", r.given("capacity", resources.capacity), r.given("allocatable", resources.capacity), _features),
)
"""Check a node: taints, capacity, pod addresses."""
node_changes: tuple[r.Change, ...] = (
    r.once("spec", "podCIDRs", _ONCE.format("podCIDR")),
    r.once("spec", "providerID", _ONCE.format("providerID")),
    # Upstream checks taints as part of the node and as part of the change, and reports both (transcript 124).
    r.of_new(taints),
)
"""Check that pod addresses and provider are set once."""
namespace = r.below("spec", r.texts("finalizers", names.qualified))
"""Check that finalizers of a namespace are qualified names."""


def namespace_status(obj: Json, _: str) -> r.Found:
    """Check that a namespace terminates if and only if it is deleted."""
    phase, ends = r.reach(obj, "status").get("phase"), bool(obj.get("metadata", {}).get("deletionTimestamp"))
    if ends and phase != "Terminating":
        yield fe.invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    elif not ends and phase != "Active":
        yield fe.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
