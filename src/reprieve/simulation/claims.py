"""The world's side of device claims in virtual time: what the claim controller and the API server would do.

- A pod that names a ResourceClaimTemplate gets a claim `POD-NAME` of its own, as soon as the template is there.
- What the scheduler writes to a claim is the claim's state at once; devices are ready as soon as they are allocated.
- A pod that has ended or is gone is taken off its claims; a claim that nobody uses gives its devices back, and one that
  was made for the pod goes with it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from reprieve.api import objects
from reprieve.api.devices import AllocationResult, ResourceClaimConsumerReference, ResourceClaimStatus
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import Instruction, PatchObject
from reprieve.scheduling.engine import Engine


class Claims:
    """All device claims and templates of the world; the engine hears of every change."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._claims: dict[str, objects.ResourceClaim] = {}
        self._templates: dict[str, objects.ResourceClaimTemplate] = {}
        self._waiting: dict[str, objects.Pod] = {}
        """Pods whose template is not there, by UID."""

    def set_claim(self, claim: objects.ResourceClaim, now: float) -> None:
        """A claim appeared or changed."""
        self._claims[_key(claim)] = claim
        self._engine.set_resource(claim, now)

    def set_template(self, template: objects.ResourceClaimTemplate, now: float) -> None:
        """A template appeared: pods may wait for it."""
        self._templates[_key(template)] = template
        for uid, pod in list(self._waiting.items()):
            if uid in self._engine.cluster.pods:
                self._engine.set_pod(self.prepared(pod, now), now)
            else:
                del self._waiting[uid]

    def remove(self, kind: str, namespace: str, name: str, now: float) -> bool:
        """A claim or template is deleted; returns whether it was there."""
        key = f"{namespace}/{name}"
        if kind == "ResourceClaimTemplate":
            return self._templates.pop(key, None) is not None
        self._claims.pop(key, None)
        return self._engine.remove_resource(kind, namespace, name, now)

    def prepared(self, pod: objects.Pod, now: float) -> objects.Pod:
        """The pod with its claims from templates made and named in its status."""
        made = list(pod.status.resource_claim_statuses)
        named = {one.name for one in made}
        uid = _uid(pod)
        self._waiting.pop(uid, None)
        for one in pod.spec.resource_claims:
            if one.resource_claim_template_name is None or one.name in named:
                continue
            template = self._templates.get(f"{pod.metadata.namespace or 'default'}/{one.resource_claim_template_name}")
            if template is None:
                self._waiting[uid] = pod
                continue
            claim = self._make(pod, one.name, template)
            self.set_claim(claim, now)
            made.append(objects.PodResourceClaimStatus(name=one.name, resource_claim_name=claim.metadata.name))
        if len(made) == len(named):
            return pod
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(made)))
        if uid in self._waiting:
            self._waiting[uid] = pod
        return pod

    def _make(self, pod: objects.Pod, name: str, template: objects.ResourceClaimTemplate) -> objects.ResourceClaim:
        namespace = pod.metadata.namespace or "default"
        base = chosen = f"{pod.metadata.name}-{name}"
        number = 1
        while f"{namespace}/{chosen}" in self._claims:
            number += 1
            chosen = f"{base}-{number}"
        owner = objects.OwnerReference(
            api_version="v1", kind="Pod", name=pod.metadata.name, uid=_uid(pod), controller=True
        )
        meta = replace(
            template.spec.metadata,
            name=chosen,
            namespace=namespace,
            uid=f"claim/{namespace}/{chosen}",
            owner_references=(owner,),
        )
        return objects.ResourceClaim(metadata=meta, spec=template.spec.spec)

    def carry_out(self, instructions: Iterable[Instruction], now: float) -> None:
        """Do what is to be written to claims; anything else is not the business of this room."""
        for instruction in instructions:
            if not isinstance(instruction, PatchObject) or instruction.kind != "ResourceClaim":
                continue
            claim = self._claims.get(f"{instruction.namespace}/{instruction.name}")
            if claim is not None and instruction.uid in ("", claim.metadata.uid):
                self.set_claim(_patched(claim, instruction.patch), now)

    def gone(self, pod: PodRecord, now: float) -> None:
        """The pod has ended or is gone."""
        self._waiting.pop(pod.uid, None)
        for key in pod.claim_keys:
            self._release(key, pod.uid, now)

    def ended(self, pod: objects.Pod, now: float) -> None:
        """A pod of the input has ended before the world began."""
        uid, namespace = _uid(pod), pod.metadata.namespace or "default"
        names = [one.resource_claim_name for one in pod.spec.resource_claims]
        names += [one.resource_claim_name for one in pod.status.resource_claim_statuses]
        for name in names:
            if name is not None:
                self._release(f"{namespace}/{name}", uid, now)

    def _release(self, key: str, uid: str, now: float) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        namespace, name = key.split("/", 1)
        if any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references):
            self.remove("ResourceClaim", namespace, name, now)
            return
        left = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != uid)
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
        given = wanted["allocation"]
        status = replace(status, allocation=msgspec.convert(given, AllocationResult) if given is not None else None)
    if "reservedFor" in wanted:
        consumers = tuple(msgspec.convert(one, ResourceClaimConsumerReference) for one in wanted["reservedFor"] or ())
        known = {consumer.uid for consumer in status.reserved_for}
        more = tuple(consumer for consumer in consumers if consumer.uid not in known)
        status = replace(status, reserved_for=(*status.reserved_for, *more) if consumers else ())
    if wanted.get("devices", ()) is None:
        status = replace(status, devices=())
    return replace(claim, metadata=meta, status=status)


def _uid(pod: objects.Pod) -> str:
    return pod.metadata.uid or _key(pod)


def _key(item: objects.KubernetesObject) -> str:
    return f"{item.metadata.namespace or 'default'}/{item.metadata.name}"
