"""Device claims: created from templates for pods, released by ended pods, deallocated when no consumer is left.

Rules (upstream's resource claim controller):
- A pod that names a ResourceClaimTemplate gets a claim of its own; its status names it (`resourceClaimStatuses`).  A
  claim created before a crash is found by its owner and by the annotation with its name in the pod.
- A PodGroup that names a template gets a claim that its pods share (KEP-5729): a pod refers to it by an entry equal to
  the group's.  The status of the group and of each such pod names the claim.  For a pod of a missing group no claim is
  created, as it is unknown which claim the pod refers to.
- A consumer in `status.reservedFor` that no longer exists, has ended, or was deleted before it was bound is removed.
  Without consumers the allocation and the finalizer are removed, also from a claim that is deleted.
- A claim of a pod that is done is deleted; after the deletion of the pod the garbage collector deletes it.
  A PodGroup is a consumer until it is deleted.
- A pod that was bound without a scheduler reserves its allocated claims, for its group if they are the group's.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from kube_rules.controllers.claims import DELETE_PROTECTION, POD_CLAIM, device_claim, shared_entries
from kube_rules.devices import MOST_CONSUMERS, ResourceClaim
from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_rules.versions import INTERNAL_VERSION, SCHEDULING_GROUP
from kube_standin.admission.groups import STORED_GROUPS
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import ClaimView, Key, ObjectView, PodGroupView, PodView
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.metadata import annotations_of, controller_of, owner_reference, without_finalizer

Task = tuple[Literal["pod", "group", "claim"], str, str]
_K = TypeVar("_K")
_V = TypeVar("_V")


class _TemplateWaiters:
    """The pods and groups that wait for templates."""

    def __init__(self) -> None:
        self._tasks_by_template: dict[Key, set[Task]] = {}
        self._templates_by_task: dict[Task, set[Key]] = {}

    def __len__(self) -> int:
        return len(self._templates_by_task)

    def add(self, template: Key, task: Task) -> None:
        """Record that the claims of a task need a missing template."""
        self._tasks_by_template.setdefault(template, set()).add(task)
        self._templates_by_task.setdefault(task, set()).add(template)

    def forget(self, task: Task) -> None:
        """Remove a task that needs no claims any more."""
        for template in self._templates_by_task.pop(task, ()):
            self._drop(self._tasks_by_template, template, task)

    def pop_waiting(self, template: Key) -> set[Task]:
        """Remove and return the tasks that wait for the template."""
        tasks = self._tasks_by_template.pop(template, set())
        for task in tasks:
            self._drop(self._templates_by_task, task, template)
        return tasks

    @staticmethod
    def _drop(index: dict[_K, set[_V]], key: _K, value: _V) -> None:
        left = index[key]
        left.discard(value)
        if not left:
            del index[key]


class ResourceClaims(Controller):
    """The controller of device claims; keys are ("pod" or "group" or "claim", namespace, name)."""

    name = "resourceclaim"

    def connect(self) -> None:
        """Watch pods and groups with claims, claims, and templates that others wait for."""
        sources = self.context.sources
        self._template_waiters = _TemplateWaiters()
        self._pods = sources.pods
        self._claims = sources.of("resource.k8s.io/resourceclaims", ClaimView)
        self._claims.index("consumer", lambda claim: claim.consumers)
        self._claims.index("pod", lambda claim: (owner.uid,) if (owner := claim.owning_pod) is not None else ())
        self._claims.index("group", lambda claim: (owner.uid,) if (owner := claim.owning_group) is not None else ())
        self._pods.index("claims in group", pods_with_claims_in_group)
        self._groups = sources.of(STORED_GROUPS["PodGroup"], PodGroupView)
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)
        self._groups.add_handler(self._group_changed)
        sources.of("resource.k8s.io/resourceclaimtemplates", ObjectView).add_handler(self._template_changed)

    @property
    def lacking(self) -> int:
        """Return the number of pods and groups that wait for a template."""
        return len(self._template_waiters)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if new is not None and new.has_claims and not _done(new):
            self.queue(("pod", *new.key))
        last = new if new is not None else old
        if last is not None and last.has_claims and (new is None or _done(new)):
            self._template_waiters.forget(("pod", *last.key))
            uid = last.metadata.uid
            for key in self._claims.keys_by("consumer", uid) | self._claims.keys_by("pod", uid):
                self.queue(("claim", *key))

    def _group_changed(self, old: PodGroupView | None, new: PodGroupView | None) -> None:
        if new is not None:
            self.queue(("group", *new.metadata.key))
            if old is None:
                self._queue_pods(new.metadata.key)
        elif old is not None:
            self._template_waiters.forget(("group", *old.metadata.key))
            for key in self._claims.keys_by("consumer", old.metadata.uid):
                self.queue(("claim", *key))

    def _queue_pods(self, group: Key) -> None:
        for key in self._pods.keys_by("claims in group", group):
            self.queue(("pod", *key))

    def _claim_changed(self, old: ClaimView | None, new: ClaimView | None) -> None:
        if new is not None:
            self.queue(("claim", *new.metadata.key))
        elif old is not None and (owner := old.owning_pod) is not None:
            self.queue(("pod", old.metadata.namespace, owner.name))
        elif old is not None and (owner := old.owning_group) is not None:
            self.queue(("group", old.metadata.namespace, owner.name))

    def _template_changed(self, _old: ObjectView | None, new: ObjectView | None) -> None:
        if new is not None:
            for task in self._template_waiters.pop_waiting(new.metadata.key):
                self.queue(task)

    def reconcile(self, key: Task) -> None:
        """Create, name, reserve or release the claims of a pod, a group or a claim."""
        if key[0] == "pod":
            self._pod((key[1], key[2]))
        elif key[0] == "group":
            self._group((key[1], key[2]))
        else:
            self._claim((key[1], key[2]))

    # -- pods ----------------------------------------------------------------------------------------

    def _pod(self, key: Key) -> None:
        pod = self.context.find(self.context.kind("v1", "Pod"), key)
        if pod is None or pod["metadata"].get("deletionTimestamp") or _ended(pod):
            return
        wanted = pod["spec"].get("resourceClaims") or ()
        group_name = ((pod["spec"].get("schedulingGroup") or {}).get("podGroupName")) or ""
        group, served = self._group_of(key[0], group_name)
        if group_name and served and group is None:
            return  # it is queued again when the group appears
        shared = shared_entries(wanted, (group or {"spec": {}})["spec"].get("resourceClaims") or ())
        named = {entry["name"]: entry for entry in pod.get("status", {}).get("resourceClaimStatuses") or ()}
        new_entries: list[Json] = []
        for entry in wanted:
            if entry.get("resourceClaimTemplateName") and entry["name"] not in named:
                if group is not None and entry["name"] in shared:
                    name = self._existing_claim(group, "group", entry["name"])
                else:
                    name = self._ensure_claim(("pod", *key), {"apiVersion": "v1", "kind": "Pod", **pod}, entry)
                if name is not None:
                    new_entries.append({"name": entry["name"], "resourceClaimName": name})
        if new_entries:
            self._name(self.context.kind("v1", "Pod"), key, new_entries)
        if not pod["spec"].get("nodeName"):
            return
        claim_names = {**named, **{entry["name"]: entry for entry in new_entries}}
        for entry in wanted:
            claim = entry.get("resourceClaimName") or claim_names.get(entry["name"], {}).get("resourceClaimName")
            if claim and group is not None and entry["name"] in shared:
                self._reserve(group, claim, {"apiGroup": SCHEDULING_GROUP, "resource": "podgroups"})
            elif claim:
                self._reserve(pod, claim, {"resource": "pods"})

    def _name(self, row: ServedKind, key: Key, entries: list[Json]) -> None:
        """Add the names of claims to the status."""

        def change(obj: Json) -> None:
            obj.setdefault("status", {}).setdefault("resourceClaimStatuses", []).extend(entries)

        self.context.modify(row, key, change, "status")

    # -- groups --------------------------------------------------------------------------------------

    def _group_of(self, namespace: str, name: str) -> tuple[Json | None, bool]:
        """Return the PodGroup, or None, and whether the server serves groups."""
        row = self.context.registry.kinds.readable(INTERNAL_VERSION, "PodGroup")
        if row is None or not name:
            return None, row is not None
        return self.context.find(row, (namespace, name)), True

    def _group(self, key: Key) -> None:
        row = self.context.registry.kinds.readable(INTERNAL_VERSION, "PodGroup")
        group = None if row is None else self.context.find(row, key)
        if row is None or group is None or group["metadata"].get("deletionTimestamp"):
            return
        wanted = [new for new in group["spec"].get("resourceClaims") or () if new.get("resourceClaimTemplateName")]
        named = {entry["name"] for entry in (group.get("status") or {}).get("resourceClaimStatuses") or ()}
        owner = {**group, "apiVersion": INTERNAL_VERSION, "kind": "PodGroup"}
        new_entries = [
            {"name": entry["name"], "resourceClaimName": name}
            for entry in wanted
            if entry["name"] not in named and (name := self._ensure_claim(("group", *key), owner, entry)) is not None
        ]
        if new_entries:
            self._name(row, key, new_entries)
            self._queue_pods(key)

    # -- claims of owners -----------------------------------------------------------------------------

    def _existing_claim(self, owner: Json, index: str, name: str) -> str | None:
        """Return the name of the claim that exists for an owner's entry."""
        row = self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim")
        for key in sorted(self._claims.keys_by(index, owner["metadata"]["uid"])):
            claim = self.context.find(row, key)
            if claim is not None and annotations_of(claim).get(POD_CLAIM) == name:
                return key[1]
        return None

    def _ensure_claim(self, task: Task, owner: Json, entry: Json) -> str | None:
        """Return the name of the claim for an entry of a pod or group, creating the claim; None without a template."""
        metadata, name, template_name = owner["metadata"], entry["name"], entry["resourceClaimTemplateName"]
        existing = self._existing_claim(owner, task[0], name)
        if existing is not None:
            return existing
        namespace = metadata["namespace"]
        row = self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim")
        where = (namespace, template_name)
        template = self.context.find(self.context.kind(ResourceClaim.API_VERSION, "ResourceClaimTemplate"), where)
        if template is None:
            self._template_waiters.add(where, task)
            message = f'{owner["kind"]}ResourceClaim {name}: resource claim template "{template_name}" not found'
            self.context.event(owner, "FailedResourceClaimCreation", message, "Warning")
            return None
        claim = device_claim(template["spec"], owner_reference(owner), name)
        claim_name: str = self.context.create(row, namespace, claim)["metadata"]["name"]
        return claim_name

    def _reserve(self, user: Json, name: str, kind: Json) -> None:
        key = (user["metadata"]["namespace"], name)
        claim = self.context.find(self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim"), key)
        status = (claim or {}).get("status") or {}
        consumers = status.get("reservedFor") or []
        uid = user["metadata"]["uid"]
        if not status.get("allocation") or any(entry.get("uid") == uid for entry in consumers):
            return
        if len(consumers) >= MOST_CONSUMERS:
            return

        def change(obj: Json) -> None:
            consumer = {**kind, "name": user["metadata"]["name"], "uid": uid}
            obj["status"].setdefault("reservedFor", []).append(consumer)

        self.context.modify(self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim"), key, change, "status")

    # -- claims --------------------------------------------------------------------------------------

    def _claim(self, key: Key) -> None:
        row = self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim")
        claim = self.context.find(row, key)
        if claim is None:
            return
        status = claim.get("status") or {}
        listed = status.get("reservedFor") or []
        valid = [consumer for consumer in listed if self._lives(consumer, key[0])]
        protected = DELETE_PROTECTION in (claim["metadata"].get("finalizers") or ())
        deleted = bool(claim["metadata"].get("deletionTimestamp"))
        if len(valid) < len(listed) or (protected and deleted and not valid):
            self._give_back(key, claim, valid, ends=protected and not valid)
        if not valid:
            self._delete_if_done(key, claim)

    def _give_back(self, key: Key, claim: Json, valid: list[Json], *, ends: bool) -> None:
        row = self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim")

        def status(obj: Json) -> None:
            claim_status = obj.setdefault("status", {})
            claim_status["reservedFor"] = valid
            if not valid:
                claim_status.pop("reservedFor")
            if ends:
                claim_status.pop("allocation", None)
                claim_status.pop("devices", None)

        self.context.modify(row, key, status, "status")
        if ends:
            try:
                self.context.modify(row, key, without_finalizer(DELETE_PROTECTION))
            except StatusError as error:
                if error.reason != "NotFound":  # it was waiting for that alone
                    raise

    def _delete_if_done(self, key: Key, claim: Json) -> None:
        owner = controller_of(claim)
        if owner is None or (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
            return
        pod = self._pods.items.get((key[0], owner["name"]))
        if pod is not None and (pod.metadata.uid != owner["uid"] or _done(pod)):
            row = self.context.kind(ResourceClaim.API_VERSION, "ResourceClaim")
            self.context.delete(row, key, DeleteOptions(uid=claim["metadata"]["uid"]))

    def _lives(self, consumer: Json, namespace: str) -> bool:
        """Return whether a consumer may still need the claim; True for consumers other than pods and groups."""
        if (consumer.get("apiGroup"), consumer.get("resource")) == (SCHEDULING_GROUP, "podgroups"):
            group = self._groups.items.get((namespace, consumer.get("name", "")))
            return group is not None and group.metadata.uid == consumer.get("uid")
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = self._pods.items.get((namespace, consumer.get("name", "")))
        return pod is not None and pod.metadata.uid == consumer.get("uid") and not _done(pod)


def pods_with_claims_in_group(pod: PodView) -> tuple[Key, ...]:
    """Return the key of a pod with device claims in the index by group."""
    return ((pod.metadata.namespace, pod.group),) if pod.has_claims and pod.group else ()


def _done(pod: PodView) -> bool:
    """Return whether a pod has ended, or was deleted before it was bound: none of its containers runs or will."""
    return pod.finished or (pod.terminating and not pod.node)


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED
