"""The calls that change a cluster, each with its rules about the meaning of a response.

Every call uses a `WriterPool`: in order per object, none after leadership is lost, repeated after server errors (429,
5xx) or an unknown outcome (cut, no response in time), not repeated after a refusal.

A call that is repeated after an unknown outcome may find its own effect. So "already bound" is a success if the pod is
bound to the requested node, and so is "already exists" after an uncertain creation. A deletion that finds no object, or
another object of the name, is complete.

A 409 to a write that names its object by UID has two meanings: another object has the name, or the object changed
during the write. So the object is read: in the first case the write fails with 404, in the second it is sent again
(preemption.md 7.7).

Invariants: every write about a pod or group has its UID, so that it never affects another object of the same name. The
future of a call ends with None, with the error of the last attempt, or with LeadershipLostError. An error that no
caller retrieves causes no warning. Sources: scheduling.md 2, preemption.md 7.2, api.md "Kinds it writes".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from kube_rules.decoding import KINDS
from kube_rules.foreign_groups import FOREIGN_VERSIONS, status_of
from kube_rules.versions import SCHEDULING_GROUP, from_internal
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.transport import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from reprieve.client.write_queue import WriterPool
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import CreateObject, DeleteObject, PatchObject

EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", True)
_PODS: Final = "/api/v1/namespaces/"
_BRIEF: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Request only metadata: the result of a patch is not read; the informer delivers the changed object."""
_REREADS: Final = 10
_encode: Final = msgspec.json.Encoder().encode


class UnservedError(ClientError):
    """Raised if the server does not serve the kind of the object to write."""


def superseded(error: BaseException | None) -> bool:
    """Return whether a refusal means that the object of that UID was deleted or replaced by another of its name.

    404; and 422 for the UID alone, which is kube-apiserver's response to a patch with another object's UID.
    """
    if not isinstance(error, ApiError):
        return False
    return error.code == 404 or (error.code == 422 and "metadata.uid" in error.message)


def refused(error: BaseException | None) -> bool:
    """Return whether a failed write was certainly not executed: the server refused it or never received it."""
    return isinstance(error, ApiError | UnreachableError) and not _unsure(error)


class Writes:
    """The writes of one client; see the module docstring. `events` is a separate pool for events."""

    def __init__(
        self, client: ApiClient, served: ServedResources, pool: WriterPool, *, events: WriterPool | None = None
    ) -> None:
        self._client = client
        self._served = served
        self._pool = pool
        self._events = events or pool
        self._binds: dict[str, asyncio.Future[None]] = {}
        """By UID, until they have ended."""
        self._sent: set[str] = set()
        """UIDs of pods with a binding that was sent or is about to be sent."""

    # -- pods --------------------------------------------------------------------------------------

    def bind(self, pod: PodRecord, node: str, annotations: Mapping[str, str] | None = None) -> asyncio.Future[None]:
        """POST pods/NAME/binding with the pod's UID (scheduling.md 2); the pod gets its annotations with its node.

        Fails with ApiError 404 (no such pod) or 409 (another of its name, bound elsewhere, gated, terminating).
        """
        namespace, name, uid = pod.namespace, pod.name, pod.uid
        path = f"{_pod_path(namespace, name)}/binding"
        noted = {"annotations": dict(annotations)} if annotations else {}
        body = _encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": namespace, "uid": uid, **noted},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
        )

        async def act() -> None:
            self._sent.add(uid)
            try:
                await self._client.request("POST", path, body=body, guard=self._pool.guard)
            except ApiError as error:
                if error.code != 409 or not await self._is_bound(namespace, name, uid, node):
                    raise

        def ended(_: asyncio.Future[None]) -> None:
            self._binds.pop(uid, None)
            self._sent.discard(uid)

        result = self._pool.submit(f"Pod {namespace}/{name}", act)
        self._binds[uid] = result
        result.add_done_callback(ended)
        return result

    def take_back(self, uid: str) -> asyncio.Future[None] | None:
        """Cancel the binding of a pod if it has not been sent (its future is cancelled) and return None.

        Returns the future of a binding that was sent; its end gives the outcome. Returns None, too, without a binding.
        """
        result = self._binds.get(uid)
        if result is None or uid in self._sent:
            return result
        result.cancel()
        return None

    def patch_pod_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> asyncio.Future[None]:
        """Send a strategic merge patch of `status`: conditions merge by type, None removes a field.

        `patch` is the content of `status`. Fails with ApiError; `superseded` tells whether the pod was deleted.
        """
        path = f"{_pod_path(namespace, name)}/status"
        body = _encode({"metadata": {"uid": uid}, "status": patch})
        patching = self._patching(path, body, STRATEGIC_MERGE_PATCH)
        return self._pool.submit(
            f"Pod {namespace}/{name}", lambda: self._by_uid(_pod_path(namespace, name), uid, patching)
        )

    def delete_pod(self, namespace: str, name: str, uid: str) -> asyncio.Future[None]:
        """DELETE with the UID as precondition and the pod's own grace period (preemption.md 7.2).

        A deleted or terminating pod, and another pod of the name, count as success. For a failed call `refused` tells
        whether the pod certainly stays.
        """
        path = _pod_path(namespace, name)
        body = _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
        unsure = False

        async def act() -> None:
            nonlocal unsure
            try:
                await self._deleting(path, uid, body)
            except (ApiError, UnreachableError) as error:
                if unsure and refused(error):  # an earlier attempt may have been executed
                    raise UnreachableError(str(error), sent=True, lasting=True) from None
                unsure = unsure or _unsure(error)
                raise

        return self._pool.submit(f"Pod {namespace}/{name}", act)

    async def stays(self, namespace: str, name: str, uid: str) -> bool:
        """Return whether the API has this very pod and it is not terminating. Raises as `ApiClient.get`."""
        try:
            metadata = (await self._client.get(_pod_path(namespace, name))).read(dict)["metadata"]
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return metadata.get("uid") == uid and not metadata.get("deletionTimestamp")

    async def _is_bound(self, namespace: str, name: str, uid: str, node: str) -> bool:
        """Return whether the API has this very pod on this node. Raises as `ApiClient.get`."""
        current = (await self._client.get(_pod_path(namespace, name))).read(dict)
        return current["metadata"].get("uid") == uid and (current.get("spec") or {}).get("nodeName") == node

    # -- groups ------------------------------------------------------------------------------------

    def patch_group_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        conditions: Sequence[Mapping[str, Any]],
        *,
        kind: str = "PodGroup",
        resource: Resource | None = None,
    ) -> asyncio.Future[None]:
        """Set conditions (internal type names) on a group of a kind, in the form of the version it was read in.

        `resource` is where the group was read; None: the best served version. Conditions of other types do not change.
        A PodGroup of another scheduler gets the corresponding terms of its API, if any (workloads.md 4).
        """
        where = resource or next(iter(self._served.readable(kind)), None)
        if where is None:
            return _failed(UnservedError(f"{kind} is not served"))
        key = f"{kind}.{where.group} {namespace}/{name}"
        if where.api_version in FOREIGN_VERSIONS:
            parts = [status_of(where.api_version, condition) for condition in conditions]
            status = {key: term for part in parts for key, term in part.items()}
            return self.patch_foreign_status(namespace, name, uid, status, resource=where)
        status = {"conditions": [dict(condition) for condition in conditions]}
        if where.group == SCHEDULING_GROUP:
            return self._pool.submit(key, lambda: self._patch_native(where, kind, namespace, name, uid, status))
        return self._pool.submit(key, lambda: self._patch_custom(where, namespace, name, uid, status))

    async def _patch_native(
        self, where: Resource, kind: str, namespace: str, name: str, uid: str, status: Mapping[str, Any]
    ) -> None:
        """Set the status of a native group; if its version is no longer served, in the newest served one (api.md 2.9).

        Raises ApiError, 404 if the object is missing in every version.
        """
        for turn in range(_REREADS):
            converted = from_internal({"kind": kind, "status": status}, where.api_version)["status"]
            body = _encode({"metadata": {"uid": uid}, "status": converted})
            patching = self._patching(where.path(namespace, name, "status"), body, STRATEGIC_MERGE_PATCH)
            try:
                await self._by_uid(where.path(namespace, name), uid, patching)
            except ApiError as error:
                now = await self._instead_of(where) if error.unserved else None
                if now is None or turn == _REREADS - 1:
                    raise
                where = now
            else:
                return

    async def _instead_of(self, where: Resource) -> Resource | None:
        """Return the version of a resource that is served instead, if any."""
        served = await discover(self._client)
        return next((now for now in served.readable(where.kind) if now.group == where.group and now != where), None)

    def patch_foreign_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, Any], *, resource: Resource
    ) -> asyncio.Future[None]:
        """Set fields of the status of a PodGroup of another scheduler; `conditions` are merged by type.

        Without a status subresource in the definition (Volcano's) the status is written with the object.
        """
        key = f"PodGroup.{resource.group} {namespace}/{name}"
        if not status:
            return self._pool.submit(key, _nothing)
        return self._pool.submit(key, lambda: self._patch_custom(resource, namespace, name, uid, status))

    async def _patch_custom(
        self, where: Resource, namespace: str, name: str, uid: str, status: Mapping[str, Any]
    ) -> None:
        """Write the merged list of conditions of a custom resource: its API cannot merge lists."""
        conditions: Sequence[Mapping[str, Any]] = status.get("conditions", ())
        target = "/status"
        path = where.path(namespace, name)
        for turn in range(_REREADS):
            current = (await self._client.get(path)).read(dict)
            metadata = current["metadata"]
            if metadata.get("uid") != uid:
                raise _another(path)
            changed = dict(status)
            if conditions:
                merged = {item.get("type"): item for item in (current.get("status") or {}).get("conditions") or ()}
                merged |= {item["type"]: item for item in conditions}
                changed["conditions"] = list(merged.values())
            preconditions = {"uid": uid, "resourceVersion": metadata.get("resourceVersion")}
            body = _encode({"metadata": preconditions, "status": changed})
            try:
                await self._patching(f"{path}{target}", body, MERGE_PATCH)()
            except ApiError as error:
                if error.code == 404 and target and where.api_version in FOREIGN_VERSIONS:
                    target = ""  # the object was just read, so the subresource is missing
                elif error.code != 409 or turn == _REREADS - 1:  # another client wrote in between: read again
                    raise
            else:
                return

    # -- writes of plugins and the observer ------------------------------------------------------------

    def patch_object(self, instruction: PatchObject) -> asyncio.Future[None]:
        """Execute a patch with its preconditions. 409 if they do not hold; UnservedError for unknown kinds.

        After an unknown outcome a 409 is checked: this patch may have changed the object.  With `again` in the
        instruction the patch is repeated on the current object.
        """
        where = self._resource(instruction.kind)
        if where is None:
            return _failed(UnservedError(f"{instruction.kind} is not served"))
        path = where.path(instruction.namespace, instruction.name)
        conditions = {"uid": instruction.uid, "resourceVersion": instruction.resource_version}
        metadata = {**(instruction.patch.get("metadata") or {}), **{k: v for k, v in conditions.items() if v}}
        patch = {**instruction.patch, **({"metadata": metadata} if metadata else {})}
        target = f"{path}/{instruction.subresource}" if instruction.subresource else path
        form = STRATEGIC_MERGE_PATCH if instruction.strategic else MERGE_PATCH
        write = self._patching(target, _encode(patch), form)
        unsure = False

        async def act() -> None:
            nonlocal unsure, write
            for turn in range(_REREADS):
                try:
                    await write()
                except (ApiError, UnreachableError) as error:
                    conflict = isinstance(error, ApiError) and error.code == 409
                    if not conflict or not (unsure or instruction.again):
                        unsure = unsure or _unsure(error)
                        raise
                    current = (await self._client.get(path)).read(dict)
                    same = not instruction.uid or current["metadata"].get("uid") == instruction.uid
                    if same and unsure and _holds(instruction.patch, current):
                        return
                    wanted = same and instruction.again is not None and instruction.again(current)
                    if not wanted or turn == _REREADS - 1:
                        raise
                    now = {**metadata, "resourceVersion": current["metadata"].get("resourceVersion", "")}
                    write = self._patching(target, _encode({**patch, "metadata": now}), form)
                else:
                    return

        return self._pool.submit(f"{instruction.kind} {instruction.namespace}/{instruction.name}", act)

    def create_object(self, instruction: CreateObject) -> asyncio.Future[None]:
        """Create an object. 409 if it exists, unless an attempt with an unknown outcome may have created it."""
        where = self._resource(instruction.kind)
        if where is None:
            return _failed(UnservedError(f"{instruction.kind} is not served"))
        name = (instruction.body.get("metadata") or {}).get("name", "")
        write = self._creating(where.path(instruction.namespace), _encode(instruction.body))
        return self._pool.submit(f"{instruction.kind} {instruction.namespace}/{name}", write)

    def delete_object(self, instruction: DeleteObject) -> asyncio.Future[None]:
        """Remove an object's finalizer and delete it; no effect if it was deleted or replaced by a namesake."""
        where = self._resource(instruction.kind)
        if where is None:
            return _failed(UnservedError(f"{instruction.kind} is not served"))
        path = where.path(instruction.namespace, instruction.name)
        meta: dict[str, Any] = {"uid": instruction.uid} if instruction.uid else {}
        meta["$deleteFromPrimitiveList/finalizers"] = [instruction.finalizer]
        loosen = self._patching(path, _encode({"metadata": meta}), STRATEGIC_MERGE_PATCH)
        only = {"preconditions": {"uid": instruction.uid}} if instruction.uid else {}
        options = _encode({"apiVersion": "v1", "kind": "DeleteOptions", **only})

        async def act() -> None:
            try:
                if instruction.finalizer:
                    await self._by_uid(path, instruction.uid, loosen)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                await self._deleting(path, instruction.uid, options)

        return self._pool.submit(f"{instruction.kind} {instruction.namespace}/{instruction.name}", act)

    def write_event(self, body: Mapping[str, Any]) -> asyncio.Future[None]:
        """Create an events.k8s.io/v1 Event; with a `series` it patches an earlier event that occurred again.

        An earlier one that has expired is created again, as in client-go.
        """
        metadata = body["metadata"]
        namespace, name = metadata.get("namespace") or "default", metadata["name"]
        create = self._creating(EVENTS.path(namespace), _encode(body))
        if not body.get("series"):
            return self._events.submit(f"Event {namespace}/{name}", create)
        patch = self._patching(EVENTS.path(namespace, name), _encode({"series": body["series"]}), MERGE_PATCH)

        async def act() -> None:
            try:
                await patch()
            except ApiError as error:
                if error.code != 404:
                    raise
                await create()

        return self._events.submit(f"Event {namespace}/{name}", act)

    # -- internals --------------------------------------------------------------------------------

    async def _by_uid(
        self,
        path: str,
        uid: str,
        write: Callable[[], Awaitable[None]],
        done: Callable[[Mapping[str, Any]], bool] = lambda metadata: False,
    ) -> None:
        """Execute a write of the object of a UID (empty: any object of the name) and check a 409.

        It is sent again while the object exists and `done` of its metadata is False, ten times at most. Raises
        ApiError: 404 if the object was deleted or another one has its name.
        """
        for turn in range(_REREADS):
            try:
                await write()
            except ApiError as error:
                if error.code != 409 or turn == _REREADS - 1:
                    raise
                current = (await self._client.get(path)).read(dict)["metadata"]
                if uid and current.get("uid") != uid:
                    raise _another(path) from None
                if done(current):
                    return
            else:
                return

    async def _deleting(self, path: str, uid: str, options: bytes) -> None:
        """DELETE the object of a UID; a deleted or terminating one is skipped. Raises ApiError."""

        async def delete() -> None:
            await self._client.request("DELETE", path, body=options, accept=_BRIEF, guard=self._pool.guard)

        try:
            await self._by_uid(path, uid, delete, lambda metadata: bool(metadata.get("deletionTimestamp")))
        except ApiError as error:
            if error.code != 404:
                raise

    def _resource(self, kind: str) -> Resource | None:
        return next(iter(self._served.readable(kind)), None) if kind in KINDS else None

    def _patching(self, path: str, body: bytes, content_type: str) -> Callable[[], Awaitable[None]]:
        async def act() -> None:
            await self._client.request(
                "PATCH", path, body=body, content_type=content_type, accept=_BRIEF, guard=self._pool.guard
            )

        return act

    def _creating(self, path: str, body: bytes) -> Callable[[], Awaitable[None]]:
        unsure = False

        async def act() -> None:
            nonlocal unsure
            try:
                await self._client.request("POST", path, body=body, accept=_BRIEF, guard=self._pool.guard)
            except (ApiError, UnreachableError) as error:
                if unsure and isinstance(error, ApiError) and error.code == 409:
                    return
                unsure = unsure or _unsure(error)
                raise

        return act


def _pod_path(namespace: str, name: str) -> str:
    return f"{_PODS}{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def _another(path: str) -> ApiError:
    return ApiError(404, "NotFound", f"{path}: another object of this name")


def _unsure(error: ApiError | UnreachableError) -> bool:
    """Return whether the request may have been executed despite the error."""
    return error.sent if isinstance(error, UnreachableError) else error.code >= 500


def _holds(patch: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Return whether an object already has the values of a merge patch."""
    for key, wanted in patch.items():
        value = current.get(key)
        if isinstance(wanted, Mapping):
            if not _holds(wanted, value if isinstance(value, Mapping) else {}):
                return False
        elif value != wanted:
            return False
    return True


async def _nothing() -> None:
    return None


def _failed(error: ClientError) -> asyncio.Future[None]:
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    result.set_exception(error)
    result.exception()
    return result
