"""Nodes for gangs that nothing can place: ProvisioningRequests for the cluster-autoscaler (provisioning.md).

A gang that has failed for a while, and for which no preemption helps, gets a ProvisioningRequest with a PodTemplate for
each kind of its pods.  Both are deleted when the gang no longer waits.  They carry a label and the gang as owner, so a
restarted scheduler finds them again, and the garbage collector takes what outlives its gang.  Their conditions are read
every few seconds: one that failed is replaced after a backoff, and the pods say what the state is.

Invariants: nothing is written unless a profile switches it on; every write goes through the pool, so that none is made
after leadership is lost; all names follow from the gang, so a repeated creation finds its own work.
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
from reprieve.client.discovery import Resource, Served
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
"""Annotations by which the cluster-autoscaler counts a pod to a request, and makes no nodes for it alone."""
ANNOTATION: Final = "scheduling.reprieve.dev/provisioning-request"
"""Whether nodes are requested for the gang."""
LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "reprieve"
FOR: Final = "scheduling.reprieve.dev/for"
"""The gang that the request is for, as `group/NAMESPACE/NAME`."""
MOST_SETS: Final = 32
"""Pod sets of one request (the definition's limit)."""
TURN: Final = "scheduling.reprieve.dev/turn"
"""How many earlier requests did not help."""
LOOK: Final = 5.0
"""Seconds between two looks at the conditions of all requests."""
RETRY: Final = 60.0
"""Seconds after which a creation that failed is tried again."""
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
"""Fields of a pod's spec that decide about nodes, and those without which it is not valid."""
_KEPT_OF_CONTAINERS: Final = ("name", "image", "resources", "ports", "restartPolicy")


@dataclass(slots=True)
class _NodeRequest:
    """A request that exists, or is on its way."""

    namespace: str
    name: str
    templates: tuple[str, ...]
    pods: tuple[tuple[str, str], ...] = ()
    """(name, UID) of the pods that were annotated."""
    turn: int = 0
    """How many requests for the gang ended before it without helping."""
    state: RequestState = UNSEEN
    made: bool = False
    """The API has it."""


@dataclass(frozen=True, slots=True)
class _PodSet:
    """Pods of one kind: the first stands for all."""

    template: str
    pods: tuple[PodRecord, ...]


@dataclass(slots=True)
class _Waiting:
    """A gang that fails: since when, when a creation is tried, and how many requests ended without helping."""

    since: float
    next: float = field(default=0.0)
    turn: int = 0


class NodeRequests:
    """See the module docstring. Made and used in one event loop. Times are in seconds.

    `note(text)` and `trouble(text)` report what was done and what failed.
    """

    def __init__(
        self,
        engine: Engine,
        client: ApiClient,
        served: Served,
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
        """Whether a profile requests nodes at all."""
        self._waiting: dict[str, _Waiting] = {}
        self._asked: dict[str, str] = {}
        """By `ref` of a group: what its annotation says."""
        self.requests: dict[str, _NodeRequest] = {}
        """By `ref` of the gang."""
        self._found = False
        self._look_at = 0.0
        self._read: list[tuple[str, _NodeRequest, RequestState | None]] = []

    # -- what happens ------------------------------------------------------------------------------

    def group_changed(self, group: o.PodGroup | o.CompositePodGroup, *, gone: bool) -> None:
        """A group appeared, changed or was deleted: its annotation counts."""
        if not self.on:
            return
        ref = f"{'group' if isinstance(group, o.PodGroup) else 'composite'}/{group.key}"
        text = (group.metadata.annotations or {}).get(ANNOTATION, "")
        if gone or not text:
            self._asked.pop(ref, None)
        else:
            self._asked[ref] = text

    def decided(self, decision: Decision, now: float) -> None:
        """An attempt ended: a gang fails, or there is a way to place it."""
        if not self.on or decision.resize or decision.ref.startswith("pod/"):
            return
        hopeless = decision.result is Result.UNSCHEDULABLE and decision.preemption is None and decision.put_off is None
        if hopeless and self._wanted(decision):
            self._waiting.setdefault(decision.ref, _Waiting(now))
        else:
            self._waiting.pop(decision.ref, None)
            if not hopeless and decision.result is not Result.ERROR:
                self._withdraw(decision.ref)

    def tick(self, now: float) -> None:
        """Create what is due, and delete what no gang waits for."""
        if not self.on:
            return
        if not self._found:
            self._found = True
            self._pool.submit(f"{KIND} *", self._find).add_done_callback(self._reported)
        for ref in [ref for ref in self.requests if self._engine.queue.get(ref) is None]:
            self._withdraw(ref)
        self._act_on_states(now)
        if self.requests and now >= self._look_at:
            self._look_at = now + LOOK
            self._pool.submit(f"{KIND} *", self._look).add_done_callback(self._reported)
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
        mode, asked = self._of(decision.profile).mode, self._asked.get(decision.ref, "")
        return (mode == ALWAYS and asked != "false") or (mode == ANNOTATED and asked == "true")

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
        made = _NodeRequest(namespace, name, templates, tuple((p.name, p.uid) for p in pods), turn)
        self.requests[ref] = made
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
            made.made = True
            await self._annotate(made, {CONSUME: name, CLASS_NAME: options.class_name, STATE: PENDING})

        def ended(result: asyncio.Future[None]) -> None:
            if _error(result) is None:
                self._note(f"{ref}: nodes are requested with {KIND} {namespace}/{name}")
            else:
                self.requests.pop(ref, None)
                self._reported(result)

        self._pool.submit(f"{KIND} {namespace}/{name}", act).add_done_callback(ended)

    async def _post(self, where: Resource, namespace: str, body: Json) -> None:
        """Create an object; one of the name is our own, from a call before."""
        try:
            await self._client.request("POST", where.path(namespace), body=_encode(body), guard=self._pool.guard)
        except ApiError as error:
            if error.code != 409:
                raise

    async def _annotate(self, made: _NodeRequest, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of the pods, or remove them; deleted pods do not matter."""
        for name, uid in made.pods:
            body = _encode({"metadata": {"uid": uid, "annotations": annotations}})
            path = _path(_PODS, made.namespace, name)
            try:
                await self._client.request(
                    "PATCH", path, body=body, content_type=MERGE_PATCH, repeatable=True, guard=self._pool.guard
                )
            except ApiError as error:
                if error.code not in (404, 409, 422):
                    raise

    # -- what the autoscaler says -------------------------------------------------------------------

    async def _look(self) -> None:
        """Read the conditions of all requests; the next tick acts on them."""
        expected = dict(self.requests)
        read: dict[str, RequestState | None] = {ref: None for ref, made in expected.items() if made.made}
        for ref, item in await self._listed():
            made = expected.get(ref)
            if made is not None and made.name == (item.get("metadata") or {}).get("name"):
                read[ref] = state_of((item.get("status") or {}).get("conditions") or ())
        self._read = [(ref, expected[ref], state) for ref, state in read.items()]

    def _act_on_states(self, now: float) -> None:
        """Follow what was read (provisioning.md 5): None is a deleted request."""
        read, self._read = self._read, []
        for ref, made, state in read:
            if self.requests.get(ref) is not made or state == made.state:
                continue
            if state is None:
                self._note(f"{ref}: {KIND} {made.namespace}/{made.name} was deleted")
                self._ended(ref, made, RequestState(DELETED), now)
                continue
            made.state = state
            self._note(f"{ref}: {KIND} {made.namespace}/{made.name} is {state.text}")
            if state.name in ENDED:
                self._ended(ref, made, state, now)
            else:
                self._state_changed(made)

    def _state_changed(self, made: _NodeRequest) -> None:
        async def act() -> None:
            await self._annotate(made, {STATE: made.state.text})

        self._pool.submit(f"{KIND} {made.namespace}/{made.name}", act).add_done_callback(self._reported)

    def _ended(self, ref: str, made: _NodeRequest, state: RequestState, now: float) -> None:
        """No nodes come of it: it is deleted, and another is made later if the gang still waits."""
        waiting = self._waiting.setdefault(ref, _Waiting(now))
        waiting.turn = made.turn + 1
        waiting.next = now + backoff(waiting.turn)
        self._withdraw(ref, state)

    async def _listed(self) -> list[tuple[str, Json]]:
        """Return our requests, each with the `ref` of its gang."""
        where = self._served.find(KIND, VERSIONS)
        if where is None:
            return []
        answer = await self._client.get(where.path(), [("labelSelector", f"{LABEL}={MANAGER}")])
        items = answer.read(dict).get("items") or ()
        found = [(((item.get("metadata") or {}).get("annotations") or {}).get(FOR), item) for item in items]
        return [(ref, item) for ref, item in found if ref is not None]

    # -- deleting ----------------------------------------------------------------------------------

    def _withdraw(self, ref: str, ended: RequestState | None = None) -> None:
        """The gang no longer waits for nodes; or the request `ended`, and the gang waits for another.

        In that case its pods keep the annotations, so that the autoscaler still makes no nodes for some of them.
        """
        made = self.requests.pop(ref, None)
        where = self._served.find(KIND, VERSIONS)
        if made is None or where is None:
            return

        async def act() -> None:
            await self._delete(_path(where, made.namespace, made.name))
            for name in made.templates:
                await self._delete(_path(_TEMPLATES, made.namespace, name))
            pending = {pod.uid for pod in self._engine.cluster.pods.values() if pod.row < 0}
            made.pods = tuple(pod for pod in made.pods if pod[1] in pending)
            gone = {CONSUME: None, CLASS_NAME: None, STATE: None}
            await self._annotate(made, {STATE: ended.text} if ended is not None else gone)

        def done(result: asyncio.Future[None]) -> None:
            self._reported(result)
            if _error(result) is None:
                self._note(f"{ref}: {KIND} {made.namespace}/{made.name} is deleted")

        self._pool.submit(f"{KIND} {made.namespace}/{made.name}", act).add_done_callback(done)

    async def _delete(self, path: str) -> None:
        try:
            await self._client.request("DELETE", path, repeatable=True, guard=self._pool.guard)
        except ApiError as error:
            if error.code != 404:
                raise

    # -- after a restart ---------------------------------------------------------------------------

    async def _find(self) -> None:
        """Take over the requests of a scheduler before; those that no gang waits for are deleted by the next tick."""
        for ref, item in await self._listed():
            metadata = item.get("metadata") or {}
            if ref in self.requests:
                continue
            sets = (item.get("spec") or {}).get("podSets") or ()
            templates = tuple((one.get("podTemplateRef") or {}).get("name", "") for one in sets)
            entity = self._engine.queue.get(ref)
            pods = tuple((pod.name, pod.uid) for pod in entity.ready.values()) if entity is not None else ()
            turn = str((metadata.get("annotations") or {}).get(TURN, ""))
            self.requests[ref] = _NodeRequest(
                metadata["namespace"],
                metadata["name"],
                templates,
                pods,
                int(turn) if turn.isascii() and turn.isdigit() and len(turn) < _MOST_DIGITS else 0,
                made=True,
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
    """Return the name of a request for a gang: the same for the same object, another for a later one of its name.

    `turn`: how many requests for it ended before.
    """
    digest = hashlib.sha256(f"{group.ref} {group.uid}".encode()).hexdigest()[:10]
    return f"reprieve-{group.name[:_NAME].rstrip('-.')}-{digest}" + (f"-{turn}" if turn else "")


def _sets(name: str, pods: Sequence[PodRecord]) -> list[_PodSet]:
    kinds: dict[int, list[PodRecord]] = {}
    for pod in sorted(pods, key=lambda pod: pod.key):
        kinds.setdefault(pod.signature.id, []).append(pod)
    return [_PodSet(f"{name}-{turn}", tuple(members)) for turn, members in enumerate(kinds.values())]


def _owned(group: Group, served: Served) -> Json:
    """Return the reference to the gang as owner, so that what outlives it is collected; none if it has no UID."""
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
    """Return the template that stands for a pod: what decides about nodes, and what a pod is not valid without."""
    spec = {name: pod["spec"][name] for name in _KEPT if name in pod["spec"]}
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [{name: one[name] for name in _KEPT_OF_CONTAINERS if name in one} for one in spec[part]]
    claims = [one for one in spec.pop("volumes", ()) if "persistentVolumeClaim" in one]
    if claims:
        spec["volumes"] = claims
    labels = (pod.get("metadata") or {}).get("labels")
    return {**({"metadata": {"labels": labels}} if labels else {}), "spec": spec}


def _path(where: Resource, namespace: str, name: str) -> str:
    return where.path(namespace, name)
