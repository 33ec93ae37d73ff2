"""Rules of writes to the status of a pod: addresses, its nomination, conditions.

Upstream: `ValidatePodStatusUpdate` of 1.36. Container statuses from kubelets are not checked.
"""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation.network import NO_ADDRESS, is_address
from kube_rules.validation.rows import Found, repeated


def status(new: Json, old: Json) -> Found:
    """Check a write to /status; unchanged values are not checked again."""
    after, before = new.get("status") or {}, old.get("status") or {}
    nominated = after.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        yield from fe.malformed("status.nominatedNodeName", nominated, names.subdomain)
        if new.get("spec", {}).get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            yield fe.forbidden("status.nominatedNodeName", detail)
    if after.get("conditions") != before.get("conditions"):
        for index, condition in enumerate(after.get("conditions") or ()):
            place = f"status.conditions[{index}]"
            if condition.get("observedGeneration", 0) < 0:
                value = condition["observedGeneration"]
                yield fe.invalid(f"{place}.observedGeneration", value, "must be a non-negative integer")
            yield from fe.malformed(f"{place}.Type", condition.get("type", ""), names.qualified)
    yield from _addresses(after, before, "podIPs")
    yield from _addresses(after, before, "hostIPs")
    hosts = after.get("hostIPs") or ()
    if hosts and hosts != before.get("hostIPs") and hosts[0].get("ip", "") != after.get("hostIP", ""):
        yield fe.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`")


_MOST_ADDRESSES = 2


def _addresses(after: Json, before: Json, name: str) -> Found:
    """Check that there is one address, or one of each family."""
    now = after.get(name) or ()
    if not now or now == before.get(name):
        return
    texts = [item.get("ip", "") for item in now]
    broken = False
    for index, text in enumerate(texts):
        if not is_address(text):
            broken = True
            yield fe.invalid(f"status.{name}[{index}]", text, NO_ADDRESS)
    if broken:
        return
    if len(texts) > _MOST_ADDRESSES or (len(texts) == _MOST_ADDRESSES and len({":" in text for text in texts}) == 1):
        yield fe.invalid(f"status.{name}", now, "may specify no more than one IP for each IP family")
    for index in sorted(repeated(texts)):
        yield fe.duplicate(f"status.{name}[{index}]", texts[index])
