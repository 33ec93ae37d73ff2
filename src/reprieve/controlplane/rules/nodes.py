"""Rules of nodes and namespaces (transcripts 115 to 130). Taints are told at `metadata.taints`, as upstream
does.
"""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import names, resources, selectors
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_ONCE = 'node updates may not change {} except from "" to valid'


def node(obj: Json) -> Iterator[FieldError]:
    """A node: taints, capacity, pod addresses."""
    given = obj.get("spec", {})
    yield from _taints(given)
    blocks = given.get("podCIDRs", ())
    if len(blocks) > 2:
        yield fe.invalid("spec.podCIDRs", blocks, "may specify no more than one CIDR for each IP family")
    status = obj.get("status", {})
    for part in ("capacity", "allocatable"):
        if part in status:
            yield from resources.capacity(status[part], f"status.{part}")


def _taints(given: Json) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(given.get("taints", ())):
        place = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        yield from fe.malformed(f"{place}.key", key, names.qualified)
        for message in names.label_value(taint.get("value", "")):
            yield fe.invalid(f"{place}.value", taint["value"], message)
        yield from selectors.taint_effect(effect, f"{place}.effect")
        if (key, effect) in seen:
            shown = {
                "Key": key,
                "Value": taint.get("value", ""),
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            yield fe.duplicate(place, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def node_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Pod addresses and provider are set once."""
    yield from node(new)
    after, before = new.get("spec", {}), old.get("spec", {})
    if before.get("podCIDRs") and after.get("podCIDRs") != before["podCIDRs"]:
        yield fe.forbidden("spec.podCIDRs", _ONCE.format("podCIDR"))
    if before.get("providerID") and after.get("providerID") != before["providerID"]:
        yield fe.forbidden("spec.providerID", _ONCE.format("providerID"))
    # Upstream looks at taints as part of the node and as part of the change, and tells both (transcript 124).
    yield from _taints(after)


def namespace(obj: Json) -> Iterator[FieldError]:
    """Finalizers of a namespace are qualified names."""
    for index, finalizer in enumerate(obj.get("spec", {}).get("finalizers", ())):
        yield from fe.malformed(f"spec.finalizers[{index}]", finalizer, names.qualified)
