"""Device claims: made from templates for pods, taken off pods that ended, given back when nobody uses them.

Rules (upstream's resource claim controller):
- A pod that names a ResourceClaimTemplate gets a claim of its own; its status says which (`resourceClaimStatuses`).  A
  claim made before a crash is found again by its owner and the annotation with the name in the pod.
- A consumer in `status.reservedFor` that is gone, has ended, or was deleted before it was bound is taken off.  With no
  consumer left the allocation ends and the finalizer goes; so, too, when a claim is deleted that nobody uses.
- A claim made for a pod that is done is deleted; when the pod is gone the garbage collector does it.
- A pod that was bound without a scheduler reserves its allocated claims.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

from reprieve.controlplane.controllers.owning import owner_reference
from reprieve.controlplane.controllers.reconciling import Controller
from reprieve.controlplane.controllers.views import ClaimSeen, Key, PodSeen, Seen
from reprieve.controlplane.deleting import DeleteOptions
from reprieve.controlplane.errors import StatusError

Json = dict[str, Any]
Task = tuple[Literal["pod", "claim"], str, str]

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
_GROUP = "resource.k8s.io/v1"
_MOST_CONSUMERS = 256


class ResourceClaims(Controller):
    """Keys are ("pod", namespace, name) and ("claim", namespace, name)."""

    name = "resourceclaim"

    def connect(self) -> None:
        """Look at pods with claims, at claims, and at pods that wait for a template."""
        sources = self.context.sources
        self._lacking: dict[Key, set[Key]] = {}
        """Template -> pods whose claims cannot be made without it."""
        self._pods = sources.pods
        self._claims = sources.of("resource.k8s.io/resourceclaims", ClaimSeen)
        self._claims.index("consumer", lambda claim: claim.consumers)
        self._claims.index("pod", lambda claim: (owner.uid,) if (owner := claim.owning_pod) is not None else ())
        self._claims.tell(self._claim_changed)
        self._pods.tell(self._pod_changed)
        sources.of("resource.k8s.io/resourceclaimtemplates", Seen).tell(self._template_changed)

    def _pod_changed(self, old: PodSeen | None, new: PodSeen | None) -> None:
        if new is not None and new.has_claims and not _done(new):
            self.queue(("pod", *new.key))
        last = new if new is not None else old
        if last is not None and last.has_claims and (new is None or _done(new)):
            uid = last.metadata.uid
            for key in self._claims.keys_by("consumer", uid) | self._claims.keys_by("pod", uid):
                self.queue(("claim", *key))

    def _claim_changed(self, old: ClaimSeen | None, new: ClaimSeen | None) -> None:
        if new is not None:
            self.queue(("claim", *new.metadata.key))
        elif old is not None and (owner := old.owning_pod) is not None:
            self.queue(("pod", old.metadata.namespace, owner.name))

    def _template_changed(self, _old: Seen | None, new: Seen | None) -> None:
        if new is not None:
            for key in self._lacking.pop(new.metadata.key, ()):
                self.queue(("pod", *key))

    def reconcile(self, key: Task) -> None:
        """Do what a pod or a claim needs."""
        if key[0] == "pod":
            self._pod((key[1], key[2]))
        else:
            self._claim((key[1], key[2]))

    # -- pods ----------------------------------------------------------------------------------------

    def _pod(self, key: Key) -> None:
        pod = self.context.find(self.context.kind("v1", "Pod"), key)
        if pod is None or pod["metadata"].get("deletionTimestamp") or _ended(pod):
            return
        named = {one["name"]: one for one in pod.get("status", {}).get("resourceClaimStatuses") or ()}
        made: list[Json] = []
        for one in pod["spec"].get("resourceClaims") or ():
            if one.get("resourceClaimTemplateName") and one["name"] not in named:
                name = self._made(pod, one["name"], one["resourceClaimTemplateName"])
                if name is not None:
                    made.append({"name": one["name"], "resourceClaimName": name})
        if made:

            def change(obj: Json) -> None:
                obj.setdefault("status", {}).setdefault("resourceClaimStatuses", []).extend(made)

            self.context.modify(self.context.kind("v1", "Pod"), key, change, "status")
        if pod["spec"].get("nodeName"):
            names = [one.get("resourceClaimName") for one in (*named.values(), *made)]
            names += [one.get("resourceClaimName") for one in pod["spec"].get("resourceClaims") or ()]
            for name in filter(None, names):
                self._reserve(pod, name)

    def _made(self, pod: Json, name: str, template_name: str) -> str | None:
        """The name of the pod's claim, made now if there is none; None without its template."""
        metadata = pod["metadata"]
        namespace = metadata["namespace"]
        row = self.context.kind(_GROUP, "ResourceClaim")
        for key in sorted(self._claims.keys_by("pod", metadata["uid"])):
            found = self.context.find(row, key)
            if found is not None and (found["metadata"].get("annotations") or {}).get(POD_CLAIM) == name:
                return key[1]
        where = (namespace, template_name)
        template = self.context.find(self.context.kind(_GROUP, "ResourceClaimTemplate"), where)
        if template is None:
            self._lacking.setdefault(where, set()).add((namespace, metadata["name"]))
            said = f'PodResourceClaim {name}: resource claim template "{template_name}" not found'
            self.context.event(pod, "FailedResourceClaimCreation", said, "Warning")
            return None
        given = template["spec"].get("metadata") or {}
        claim = {
            "metadata": {
                "generateName": f"{metadata['name']}-{name}-"[:240],
                "labels": dict(given.get("labels") or {}),
                "annotations": {**(given.get("annotations") or {}), POD_CLAIM: name},
                "ownerReferences": [owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})],
            },
            "spec": copy.deepcopy(template["spec"].get("spec") or {}),
        }
        made: str = self.context.create(row, namespace, claim)["metadata"]["name"]
        return made

    def _reserve(self, pod: Json, name: str) -> None:
        key = (pod["metadata"]["namespace"], name)
        found = self.context.find(self.context.kind(_GROUP, "ResourceClaim"), key)
        status = (found or {}).get("status") or {}
        consumers = status.get("reservedFor") or []
        uid = pod["metadata"]["uid"]
        if not status.get("allocation") or any(one.get("uid") == uid for one in consumers):
            return
        if len(consumers) >= _MOST_CONSUMERS:
            return

        def change(obj: Json) -> None:
            one = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}
            obj["status"].setdefault("reservedFor", []).append(one)

        self.context.modify(self.context.kind(_GROUP, "ResourceClaim"), key, change, "status")

    # -- claims --------------------------------------------------------------------------------------

    def _claim(self, key: Key) -> None:
        row = self.context.kind(_GROUP, "ResourceClaim")
        claim = self.context.find(row, key)
        if claim is None:
            return
        status = claim.get("status") or {}
        listed = status.get("reservedFor") or []
        valid = [one for one in listed if self._lives(one, key[0])]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        deleted = bool(claim["metadata"].get("deletionTimestamp"))
        if len(valid) < len(listed) or (protected and deleted and not valid):
            self._give_back(key, claim, valid, ends=protected and not valid)
        if not valid:
            self._delete_if_done(key, claim)

    def _give_back(self, key: Key, claim: Json, valid: list[Json], *, ends: bool) -> None:
        row = self.context.kind(_GROUP, "ResourceClaim")

        def status(obj: Json) -> None:
            there = obj.setdefault("status", {})
            there["reservedFor"] = valid
            if not valid:
                there.pop("reservedFor")
            if ends:
                there.pop("allocation", None)
                there.pop("devices", None)

        self.context.modify(row, key, status, "status")
        if ends:

            def finalizers(obj: Json) -> None:
                kept = [name for name in obj["metadata"].get("finalizers") or () if name != FINALIZER]
                obj["metadata"]["finalizers"] = kept

            try:
                self.context.modify(row, key, finalizers)
            except StatusError as error:
                if error.reason != "NotFound":  # it was waiting for that alone
                    raise

    def _delete_if_done(self, key: Key, claim: Json) -> None:
        owner = next((one for one in claim["metadata"].get("ownerReferences") or () if one.get("controller")), None)
        if owner is None or (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
            return
        pod = self._pods.items.get((key[0], owner["name"]))
        if pod is not None and (pod.metadata.uid != owner["uid"] or _done(pod)):
            row = self.context.kind(_GROUP, "ResourceClaim")
            self.context.delete(row, key, DeleteOptions(uid=claim["metadata"]["uid"]))

    def _lives(self, consumer: Json, namespace: str) -> bool:
        """Whether a consumer may still need the claim; of what is no pod nothing is known here."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = self._pods.items.get((namespace, consumer.get("name", "")))
        return pod is not None and pod.metadata.uid == consumer.get("uid") and not _done(pod)


def _done(pod: PodSeen) -> bool:
    """No container of it runs or ever will: ended, or deleted before it was bound."""
    return pod.finished or (pod.terminating and not pod.node)


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
