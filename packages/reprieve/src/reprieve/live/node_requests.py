"""Node requests for gangs that cannot be placed: ProvisioningRequests for the cluster-autoscaler (provisioning.md).

A gang that has failed for a while, and for which no preemption helps, gets a ProvisioningRequest with a PodTemplate for
each kind of its pods.  Both are deleted when the gang no longer waits.  They have a label and the gang as owner, so a
restarted scheduler finds them again, and the garbage collector deletes those that outlive their gang.  Their conditions
are read every few seconds: a failed request is replaced after a backoff, and annotations of the pods show the state.

Invariants: nothing is written unless a profile enables it. Every write uses the pool, so that none is made after
leadership is lost. All names follow from the gang, so a repeated creation finds its own objects.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kube_rules import objects as o
from kube_rules.json import Json
from reprieve.client.discovery import Resource, ServedResources
from reprieve.client.errors import ApiError, ClientError
from reprieve.client.transport import MERGE_PATCH, ApiClient
from reprieve.client.write_queue import WriterPool
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.decisions.requested_nodes import DELETED, PENDING, STATE
from reprieve.framework.plugin import Plugin
from reprieve.framework.plugin_guard import first_of
from reprieve.live.node_request_states import ENDED, UNSEEN, RequestState, backoff, state_of
from reprieve.observability.events import group_reference
from reprieve.plugins.gang_scheduling import ALWAYS, ANNOTATED, GangScheduling, ProvisioningOptions
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.engine import Engine

KIND: Final = "ProvisioningRequest"
API_GROUP: Final = "autoscaling.x-k8s.io"
VERSIONS: Final = (f"{API_GROUP}/v1", f"{API_GROUP}/v1beta1")
CONSUME: Final = f"{API_GROUP}/consume-provisioning-request"
CLASS_NAME: Final = f"{API_GROUP}/provisioning-class-name"
"""Annotations by which the cluster-autoscaler assigns a pod to a request and adds no nodes for the pod alone."""
ANNOTATION: Final = "scheduling.reprieve.dev/provisioning-request"
"""Whether nodes are requested for the gang."""
LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "reprieve"
FOR: Final = "scheduling.reprieve.dev/for"
"""The gang of the request, as `group/NAMESPACE/NAME`."""
MOST_SETS: Final = 32
"""The largest number of pod sets of one request (the definition's limit)."""
TURN: Final = "scheduling.reprieve.dev/turn"
"""The number of earlier requests that did not help."""
LOOK: Final = 5.0
"""The time between two reads of the conditions of all requests, in seconds."""
RETRY: Final = 60.0
"""The time in seconds after which a failed creation is tried again."""
_PODS: Final = Resource("", "v1", "pods", "Pod", True)
_TEMPLATES: Final = Resource("", "v1", "podtemplates", "PodTemplate", True)
_NAME: Final = 40
_MOST_DIGITS: Final = 6
_encode: Final = msgspec.json.Encoder().encode
_KEPT: Final = (
    "initContainers",
    "containers",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "schedulerName",
    "runtimeClassName",
    "overhead",
    "resources",
    "resourceClaims",
    "hostNetwork",
    "volumes",
    "restartPolicy",
)
"""The fields of a pod's spec that affect the choice of nodes, and those that a valid pod needs."""
_KEPT_OF_CONTAINERS: Final = ("name", "image", "resources", "ports", "restartPolicy")


@dataclass(slots=True)
class _NodeRequest:
    """A request that exists, or that is being created."""

    namespace: str
    name: str
    templates: tuple[str, ...]
    pods: tuple[tuple[str, str], ...] = ()
    """(name, UID) of the annotated pods."""
    turn: int = 0
    """The number of earlier requests for the gang that ended without helping."""
    state: RequestState = UNSEEN
    created: bool = False
    """Whether the API has the request."""


@dataclass(frozen=True, slots=True)
class _PodSet:
    """Pods of one kind; the first one represents all."""

    template: str
    pods: tuple[PodRecord, ...]


@dataclass(slots=True)
class _WaitingGang:
    """A failing gang: since when, the next time to create a request, and how many ended without helping."""

    since: float
    next: float = field(default=0.0)
    turn: int = 0


class NodeRequests:
    """The node requests of one scheduler; see the module docstring. Use it in one event loop. Times are in seconds.

    `note(text)` and `trouble(text)` report actions and failures.
    """

    def __init__(
        self,
        engine: Engine,
        client: ApiClient,
        served: ServedResources,
        pool: WriterPool,
        *,
        note: Callable[[str], None],
        trouble: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._client = client
        self._served = served
        self._pool = pool
        self._note, self._trouble = note, trouble
        self._options = {name: _options(running.profile.plugins) for name, running in engine.running.items()}
        self.on = any(options.mode in (ALWAYS, ANNOTATED) for options in self._options.values())
        """Whether any profile requests nodes."""
        self._waiting: dict[str, _WaitingGang] = {}
        self._annotated: dict[str, str] = {}
        """The value of a group's annotation, by the group's `ref`."""
        self.requests: dict[str, _NodeRequest] = {}
        """By `ref` of the gang."""
        self._taken_over = False
        self._look_at = 0.0
        self._read: list[tuple[str, _NodeRequest, RequestState | None]] = []

    # -- events -----------------------------------------------------------------------------------

    def group_changed(self, group: o.PodGroup | o.CompositePodGroup, *, deleted: bool) -> None:
        """Record the annotation of a group that was added, changed or deleted."""
        if not self.on:
            return
        ref = f"{'group' if isinstance(group, o.PodGroup) else 'composite'}/{group.key}"
        text = (group.metadata.annotations or {}).get(ANNOTATION, "")
        if deleted or not text:
            self._annotated.pop(ref, None)
        else:
            self._annotated[ref] = text

    def decided(self, decision: Decision, now: float) -> None:
        """Record the end of an attempt: the gang fails, or it can be placed."""
        if not self.on or decision.resize or decision.ref.startswith("pod/"):
            return
        hopeless = decision.result is Result.UNSCHEDULABLE and decision.preemption is None and decision.deferral is None
        if hopeless and self._wanted(decision):
            self._waiting.setdefault(decision.ref, _WaitingGang(now))
        else:
            self._waiting.pop(decision.ref, None)
            if not hopeless and decision.result is not Result.ERROR:
                self._withdraw(decision.ref)

    def tick(self, now: float) -> None:
        """Create due requests, and delete those that no gang waits for."""
        if not self.on:
            return
        if not self._taken_over:
            self._taken_over = True
            self._pool.submit(f"{KIND} *", self._adopt).add_done_callback(self._reported)
        for ref in [ref for ref in self.requests if self._engine.queue.get(ref) is None]:
            self._withdraw(ref)
        self._act_on_states(now)
        if self.requests and now >= self._look_at:
            self._look_at = now + LOOK
            self._pool.submit(f"{KIND} *", self._read_states).add_done_callback(self._reported)
        for ref, waiting in list(self._waiting.items()):
            entity = self._engine.queue.get(ref)
            if entity is None or entity.group is None:
                del self._waiting[ref]
            elif ref not in self.requests and now >= max(waiting.next, waiting.since + self._of(entity.profile).after):
                waiting.next = now + RETRY
                pods = list(entity.ready.values())
                self._create(ref, entity.group, pods, self._of(entity.profile), waiting.turn)

    def _of(self, profile: str) -> ProvisioningOptions:
        return self._options.get(profile) or next(iter(self._options.values()))

    def _wanted(self, decision: Decision) -> bool:
        mode, annotation = self._of(decision.profile).mode, self._annotated.get(decision.ref, "")
        return (mode == ALWAYS and annotation != "false") or (mode == ANNOTATED and annotation == "true")

    # -- creating ----------------------------------------------------------------------------------

    def _create(
        self, ref: str, group: Group, pods: Sequence[PodRecord], options: ProvisioningOptions, turn: int
    ) -> None:
        where = self._served.find(KIND, VERSIONS)
        if where is None:
            self._trouble(f"{ref}: no nodes are requested: the API server does not serve {VERSIONS[0]} {KIND}")
            return
        name = request_name(group, turn)
        sets = _sets(name, pods)
        if not sets or len(sets) > MOST_SETS:
            self._trouble(f"{ref}: no nodes are requested: it has {len(sets)} kinds of pods, at most {MOST_SETS}")
            return
        namespace = pods[0].namespace
        templates = tuple(s.template for s in sets)
        request = _NodeRequest(namespace, name, templates, tuple((p.name, p.uid) for p in pods), turn)
        self.requests[ref] = request
        noted = {FOR: ref} | ({TURN: str(turn)} if turn else {})
        meta = {"namespace": namespace, "labels": {LABEL: MANAGER}, "annotations": noted}
        meta |= _owned(group, self._served)

        async def act() -> None:
            for item in sets:
                manifest = (await self._client.get(_path(_PODS, namespace, item.pods[0].name))).read(dict)
                template: Json = {"apiVersion": "v1", "kind": "PodTemplate", "template": template_of(manifest)}
                await self._post(_TEMPLATES, namespace, {**template, "metadata": {**meta, "name": item.template}})
            wanted = [{"podTemplateRef": {"name": s.template}, "count": len(s.pods)} for s in sets]
            spec = {"provisioningClassName": options.class_name, "podSets": wanted}
            body = {"apiVersion": where.api_version, "kind": KIND, "metadata": {**meta, "name": name}, "spec": spec}
            await self._post(where, namespace, body)
            request.created = True
            await self._annotate(request, {CONSUME: name, CLASS_NAME: options.class_name, STATE: PENDING})

        def ended(result: asyncio.Future[None]) -> None:
            if _error(result) is None:
                self._note(f"{ref}: nodes are requested with {KIND} {namespace}/{name}")
            else:
                self.requests.pop(ref, None)
                self._reported(result)

        self._pool.submit(f"{KIND} {namespace}/{name}", act).add_done_callback(ended)

    async def _post(self, where: Resource, namespace: str, body: Json) -> None:
        """Create an object; an existing one of the name is from an earlier call."""
        try:
            await self._client.request("POST", where.path(namespace), body=_encode(body), guard=self._pool.guard)
        except ApiError as error:
            if error.code != 409:
                raise

    async def _annotate(self, request: _NodeRequest, annotations: Mapping[str, str | None]) -> None:
        """Set or remove annotations of the request's pods; deleted pods are skipped."""
        for name, uid in request.pods:
            body = _encode({"metadata": {"uid": uid, "annotations": annotations}})
            path = _path(_PODS, request.namespace, name)
            try:
                await self._client.request(
                    "PATCH", path, body=body, content_type=MERGE_PATCH, repeatable=True, guard=self._pool.guard
                )
            except ApiError as error:
                if error.code not in (404, 409, 422):
                    raise

    # -- states of the autoscaler -------------------------------------------------------------------

    async def _read_states(self) -> None:
        """Read the conditions of all requests; the next tick acts on them."""
        expected = dict(self.requests)
        read: dict[str, RequestState | None] = {ref: None for ref, request in expected.items() if request.created}
        for ref, item in await self._listed():
            request = expected.get(ref)
            if request is not None and request.name == (item.get("metadata") or {}).get("name"):
                read[ref] = state_of((item.get("status") or {}).get("conditions") or ())
        self._read = [(ref, expected[ref], state) for ref, state in read.items()]

    def _act_on_states(self, now: float) -> None:
        """Act on the states read last (provisioning.md 5); None is a deleted request."""
        read, self._read = self._read, []
        for ref, request, state in read:
            if self.requests.get(ref) is not request or state == request.state:
                continue
            if state is None:
                self._note(f"{ref}: {KIND} {request.namespace}/{request.name} was deleted")
                self._ended(ref, request, RequestState(DELETED), now)
                continue
            request.state = state
            self._note(f"{ref}: {KIND} {request.namespace}/{request.name} is {state.text}")
            if state.name in ENDED:
                self._ended(ref, request, state, now)
            else:
                self._state_changed(request)

    def _state_changed(self, request: _NodeRequest) -> None:
        async def act() -> None:
            await self._annotate(request, {STATE: request.state.text})

        self._pool.submit(f"{KIND} {request.namespace}/{request.name}", act).add_done_callback(self._reported)

    def _ended(self, ref: str, request: _NodeRequest, state: RequestState, now: float) -> None:
        """Delete a request that brings no nodes; another one is created later if the gang still waits."""
        waiting = self._waiting.setdefault(ref, _WaitingGang(now))
        waiting.turn = request.turn + 1
        waiting.next = now + backoff(waiting.turn)
        self._withdraw(ref, state)

    async def _listed(self) -> list[tuple[str, Json]]:
        """Return the scheduler's requests, each with the `ref` of its gang."""
        where = self._served.find(KIND, VERSIONS)
        if where is None:
            return []
        answer = await self._client.get(where.path(), [("labelSelector", f"{LABEL}={MANAGER}")])
        items = answer.read(dict).get("items") or ()
        pairs = [(((item.get("metadata") or {}).get("annotations") or {}).get(FOR), item) for item in items]
        return [(ref, item) for ref, item in pairs if ref is not None]

    # -- deleting ----------------------------------------------------------------------------------

    def _withdraw(self, ref: str, ended: RequestState | None = None) -> None:
        """Delete the request of a gang that no longer waits, or one that `ended` while the gang waits for another.

        In the latter case its pods keep the annotations, so that the autoscaler adds no nodes for some of them.
        """
        request = self.requests.pop(ref, None)
        where = self._served.find(KIND, VERSIONS)
        if request is None or where is None:
            return

        async def act() -> None:
            await self._delete(_path(where, request.namespace, request.name))
            for name in request.templates:
                await self._delete(_path(_TEMPLATES, request.namespace, name))
            pending = {pod.uid for pod in self._engine.cluster.pods.values() if pod.row < 0}
            request.pods = tuple(pod for pod in request.pods if pod[1] in pending)
            removed = {CONSUME: None, CLASS_NAME: None, STATE: None}
            await self._annotate(request, {STATE: ended.text} if ended is not None else removed)

        def done(result: asyncio.Future[None]) -> None:
            self._reported(result)
            if _error(result) is None:
                self._note(f"{ref}: {KIND} {request.namespace}/{request.name} is deleted")

        self._pool.submit(f"{KIND} {request.namespace}/{request.name}", act).add_done_callback(done)

    async def _delete(self, path: str) -> None:
        try:
            await self._client.request("DELETE", path, repeatable=True, guard=self._pool.guard)
        except ApiError as error:
            if error.code != 404:
                raise

    # -- after a restart ---------------------------------------------------------------------------

    async def _adopt(self) -> None:
        """Adopt the requests of an earlier scheduler; the next tick deletes those that no gang waits for."""
        for ref, item in await self._listed():
            metadata = item.get("metadata") or {}
            if ref in self.requests:
                continue
            sets = (item.get("spec") or {}).get("podSets") or ()
            templates = tuple((pod_set.get("podTemplateRef") or {}).get("name", "") for pod_set in sets)
            entity = self._engine.queue.get(ref)
            pods = tuple((pod.name, pod.uid) for pod in entity.ready.values()) if entity is not None else ()
            turn = str((metadata.get("annotations") or {}).get(TURN, ""))
            self.requests[ref] = _NodeRequest(
                metadata["namespace"],
                metadata["name"],
                templates,
                pods,
                int(turn) if turn.isascii() and turn.isdigit() and len(turn) < _MOST_DIGITS else 0,
                created=True,
            )

    def _reported(self, result: asyncio.Future[None]) -> None:
        error = _error(result)
        if error is not None:
            self._trouble(f"nodes for gangs: {error}")


def _error(result: asyncio.Future[None]) -> BaseException | None:
    return ClientError("cancelled") if result.cancelled() else result.exception()


def _options(plugins: Iterable[Plugin]) -> ProvisioningOptions:
    plugin = first_of(GangScheduling, plugins)
    return plugin.provisioning if plugin is not None else ProvisioningOptions()


def request_name(group: Group, turn: int = 0) -> str:
    """Return the name of a request for a gang, unique to the object, not to its name.

    `turn`: how many requests for it ended before.
    """
    digest = hashlib.sha256(f"{group.ref} {group.uid}".encode()).hexdigest()[:10]
    return f"reprieve-{group.name[:_NAME].rstrip('-.')}-{digest}" + (f"-{turn}" if turn else "")


def _sets(name: str, pods: Sequence[PodRecord]) -> list[_PodSet]:
    kinds: dict[int, list[PodRecord]] = {}
    for pod in sorted(pods, key=lambda pod: pod.key):
        kinds.setdefault(pod.signature.id, []).append(pod)
    return [_PodSet(f"{name}-{turn}", tuple(members)) for turn, members in enumerate(kinds.values())]


def _owned(group: Group, served: ServedResources) -> Json:
    """Return the owner reference to the gang, for garbage collection; none if it has no UID."""
    versions = served.readable(group.kind)
    reference = group_reference(group, versions[0].api_version if versions else "")
    if not reference.uid or not reference.api_version:
        return {}
    owner = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    return {"ownerReferences": [owner]}


def template_of(pod: Json) -> Json:
    """Return the template of a pod: the fields that affect the choice of nodes, and those a valid pod needs."""
    spec = {name: pod["spec"][name] for name in _KEPT if name in pod["spec"]}
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [{name: c[name] for name in _KEPT_OF_CONTAINERS if name in c} for c in spec[part]]
    claims = [volume for volume in spec.pop("volumes", ()) if "persistentVolumeClaim" in volume]
    if claims:
        spec["volumes"] = claims
    labels = (pod.get("metadata") or {}).get("labels")
    return {**({"metadata": {"labels": labels}} if labels else {}), "spec": spec}


def _path(where: Resource, namespace: str, name: str) -> str:
    return where.path(namespace, name)
