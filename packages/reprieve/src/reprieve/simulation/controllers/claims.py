"""Device claims in simulated time: the actions of the claim controller and the API server.

- A pod with a ResourceClaimTemplate gets its own claim `POD-NAME` as soon as the template exists.
- A PodGroup with a template gets a claim `GROUP-NAME`, which its pods share (KEP-5729). Pods of a group that does not
  exist yet get no claims, because their claims are unknown.
- The scheduler's writes to a claim take effect at once; devices are ready as soon as they are allocated.
- An ended or deleted pod is removed from its claims. A claim without users is deallocated, and a claim created for the
  pod is deleted with it. The claims of a PodGroup are released when the group is deleted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.controllers.claims import POD_CLAIM, device_claim, shared_entries
from kube_rules.devices import AllocationResult, ResourceClaimConsumerReference, ResourceClaimStatus
from kube_rules.group_sources import pod_group_name
from kube_rules.json import Json
from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import CreateObject, DeleteObject, Instruction, PatchObject
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine


class Claims:
    """The device claims and templates of the virtual cluster; the engine observes every change."""

    def __init__(self, engine: Engine, effects: Callable[[Effects], None]) -> None:
        self._engine = engine
        self._effects = effects
        self._claims: dict[str, objects.ResourceClaim] = {}
        self._templates: dict[str, objects.ResourceClaimTemplate] = {}
        self._waiting: dict[str, objects.Pod] = {}
        """Pods without their template, their group's template or their group, by UID."""
        self._groups: dict[str, objects.PodGroup] = {}

    def set_claim(self, claim: objects.ResourceClaim, now: float) -> None:
        """Add or update a claim."""
        self._claims[claim.full_key] = claim
        self._effects(self._engine.set(claim, now))

    def set_template(self, template: objects.ResourceClaimTemplate, now: float) -> None:
        """Add a template, and retry the pods that may wait for it."""
        self._templates[template.full_key] = template
        self._retry(now)

    def set_group(self, group: objects.PodGroup, now: float) -> None:
        """Add a PodGroup known to the engine, and retry the pods that may wait for it or for its claims."""
        if self._engine.gates.generic_workload:
            self._groups[group.full_key] = group
            self._retry(now)

    def group_gone(self, key: str, uid: str, now: float) -> None:
        """Release the claims of a deleted PodGroup without pods."""
        self._groups.pop(key, None)
        for name in list(self._claims):
            self._release(name, uid, "podgroups", now)

    def _retry(self, now: float) -> None:
        for group in self._groups.values():
            for resource_claim in group.spec.resource_claims:
                if resource_claim.resource_claim_template_name is not None:
                    self._of_group(group, resource_claim.name, resource_claim.resource_claim_template_name, now)
        for uid, pod in list(self._waiting.items()):
            if uid in self._engine.cluster.pods:
                self._effects(self._engine.set(self.prepared(pod, now), now))
            else:
                del self._waiting[uid]

    def remove(self, kind: str, namespace: str, name: str, now: float) -> bool:
        """Delete a claim or template; return whether it existed."""
        key = f"{namespace}/{name}"
        if kind == "ResourceClaimTemplate":
            return self._templates.pop(key, None) is not None
        self._claims.pop(key, None)
        effects = self._engine.remove(ObjectRef(kind, key), now)
        self._effects(effects)
        return effects.known

    def prepared(self, pod: objects.Pod, now: float) -> objects.Pod:
        """Return the pod with its claims from templates created and named in its status."""
        statuses = list(pod.status.resource_claim_statuses)
        named = {item.name for item in statuses}
        uid, namespace = _uid(pod), pod.metadata.namespace or "default"
        self._waiting.pop(uid, None)
        group_name = pod_group_name(pod) if self._engine.gates.generic_workload else None
        group = self._groups.get(f"{namespace}/{group_name}")
        of_group = group.spec.resource_claims if group is not None else ()
        shared = shared_entries(msgspec.to_builtins(pod.spec.resource_claims), msgspec.to_builtins(of_group))
        for item in pod.spec.resource_claims:
            if item.resource_claim_template_name is None or item.name in named:
                continue
            chosen = None
            if group is not None and item.name in shared:
                chosen = self._of_group(group, item.name, item.resource_claim_template_name, now)
            elif group is not None or group_name is None:
                owner = pod_owner(pod.metadata.name, uid)
                chosen = self._make(namespace, owner, item.name, item.resource_claim_template_name, now)
            if chosen is None:
                self._waiting[uid] = pod
            else:
                statuses.append(objects.PodResourceClaimStatus(name=item.name, resource_claim_name=chosen))
        if len(statuses) == len(named):
            return pod
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses)))
        if uid in self._waiting:
            self._waiting[uid] = pod
        return pod

    def _of_group(self, group: objects.PodGroup, name: str, template: str, now: float) -> str | None:
        """Return the claim for a group's entry: found by its status or owner, or created now."""
        stated = {
            resource_claim_status.name: resource_claim_status.resource_claim_name
            for resource_claim_status in group.status.resource_claim_statuses
        }
        if stated.get(name) is not None:
            return stated[name]
        namespace = group.metadata.namespace or "default"
        uid = self._engine.cluster.groups[group.full_key].uid
        for claim in self._claims.values():
            meta = claim.metadata
            owned = any(owner.controller and owner.uid == uid for owner in meta.owner_references)
            if owned and meta.annotations.get(POD_CLAIM) == name:
                return meta.name
        owner = {**pod_owner(group.metadata.name, uid), "apiVersion": group.API_VERSION, "kind": "PodGroup"}
        return self._make(namespace, owner, name, template, now)

    def _make(self, namespace: str, owner: Json, name: str, template_name: str, now: float) -> str | None:
        """Create a claim and return its name; None without the template."""
        template = self._templates.get(f"{namespace}/{template_name}")
        if template is None:
            return None
        claim = device_claim(msgspec.to_builtins(template.spec), owner, name)
        base: str = claim["metadata"].pop("generateName").removesuffix("-")
        chosen = base
        number = 1
        while f"{namespace}/{chosen}" in self._claims:
            number += 1
            chosen = f"{base}-{number}"
        claim["metadata"] |= {"name": chosen, "namespace": namespace, "uid": f"claim/{namespace}/{chosen}"}
        self.set_claim(msgspec.convert(claim, objects.ResourceClaim), now)
        return chosen

    def carry_out(self, instructions: Iterable[Instruction], now: float) -> None:
        """Apply the writes of claims; ignore other instructions."""
        for instruction in instructions:
            if isinstance(instruction, CreateObject | DeleteObject) and instruction.kind == "ResourceClaim":
                self._made_or_gone(instruction, now)
            if not isinstance(instruction, PatchObject) or instruction.kind != "ResourceClaim":
                continue
            claim = self._claims.get(f"{instruction.namespace}/{instruction.name}")
            if claim is not None and instruction.uid in ("", claim.metadata.uid):
                self.set_claim(_patched(claim, instruction.patch), now)

    def _made_or_gone(self, instruction: CreateObject | DeleteObject, now: float) -> None:
        """Create or delete the claim for a pod's extended resources."""
        if isinstance(instruction, DeleteObject):
            if f"{instruction.namespace}/{instruction.name}" in self._claims:
                self.remove("ResourceClaim", instruction.namespace, instruction.name, now)
            return
        claim = msgspec.convert(instruction.body, objects.ResourceClaim)
        uid = f"claim/{instruction.namespace}/{claim.metadata.name}"
        self.set_claim(replace(claim, metadata=replace(claim.metadata, uid=uid)), now)

    def gone(self, pod: PodRecord, now: float) -> None:
        """Release the claims of a pod that has ended or was deleted."""
        self._waiting.pop(pod.uid, None)
        for key in pod.claim_keys:
            self._release(key, pod.uid, "pods", now)

    def ended(self, pod: objects.Pod, now: float) -> None:
        """Release the claims of a pod that ended before the simulation."""
        uid, namespace = _uid(pod), pod.metadata.namespace or "default"
        names = [item.resource_claim_name for item in pod.spec.resource_claims]
        names += [item.resource_claim_name for item in pod.status.resource_claim_statuses]
        for name in names:
            if name is not None:
                self._release(f"{namespace}/{name}", uid, "pods", now)

    def _release(self, key: str, uid: str, resource: str, now: float) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        namespace, name = key.split("/", 1)
        kind = "Pod" if resource == "pods" else "PodGroup"
        owners = claim.metadata.owner_references
        if any(owner.controller and (owner.kind, owner.uid) == (kind, uid) for owner in owners):
            self.remove("ResourceClaim", namespace, name, now)
            return
        released = (resource, uid)
        left = tuple(item for item in claim.status.reserved_for if (item.resource, item.uid) != released)
        if len(left) < len(claim.status.reserved_for):
            status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
            self.set_claim(replace(claim, status=status), now)


def _patched(claim: objects.ResourceClaim, patch: Mapping[str, Any]) -> objects.ResourceClaim:
    meta, status = claim.metadata, claim.status
    finalizers = (patch.get("metadata") or {}).get("finalizers", ())
    added = tuple(name for name in finalizers if name not in meta.finalizers)
    if added:
        meta = replace(meta, finalizers=(*meta.finalizers, *added))
    wanted = patch.get("status") or {}
    if "allocation" in wanted:
        body = wanted["allocation"]
        status = replace(status, allocation=msgspec.convert(body, AllocationResult) if body is not None else None)
    if "reservedFor" in wanted:
        consumers = tuple(msgspec.convert(item, ResourceClaimConsumerReference) for item in wanted["reservedFor"] or ())
        consumers_before = {(item.resource, item.uid) for item in status.reserved_for}
        more = tuple(item for item in consumers if (item.resource, item.uid) not in consumers_before)
        status = replace(status, reserved_for=(*status.reserved_for, *more) if consumers else ())
    if wanted.get("devices", ()) is None:
        status = replace(status, devices=())
    return replace(claim, metadata=meta, status=status)


def pod_owner(name: str, uid: str) -> Json:
    """Return the owner reference to the pod that controls a claim."""
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}


def _uid(pod: objects.Pod) -> str:
    return pod.metadata.uid or pod.full_key
