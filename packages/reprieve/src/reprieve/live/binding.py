"""Executes the bindings that the engine has assumed: PreBind instructions, the bind itself, and its outcome.

Rules (scheduling.md 2): the instructions of `Binding.pre_bind` run in order, each after the previous one has succeeded;
then the pod is bound by POST pods/NAME/binding, or as its Bind plugin requires. A refusal (404, 409) is final for this
attempt; the `WriterPool` retries after server errors. A 409 for a pod that is already on the intended node is a success
(`Writes.bind`).

Invariants: every started binding ends in exactly one call of `bound` or `failed`; none if the right to write was lost
or this object was closed. While the outcome is unknown (no response) the pod keeps its reserved capacity, and the API
is queried until it reports the pod's node. The listener decides when the engine is notified: never during a cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import quote

from kube_rules.decoding import KINDS
from kube_rules.meta import KubernetesObject
from reprieve.client.decoding import stored
from reprieve.client.discovery import ServedResources
from reprieve.client.errors import ApiError, ClientError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.client.rate_limits import Backoff, BackoffPolicy
from reprieve.client.transport import ApiClient
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import (
    AwaitObject,
    CallExtender,
    CreateObject,
    DeleteObject,
    Instruction,
    PatchObject,
)
from reprieve.framework.status import Code
from reprieve.live.writes import UnservedError, Writes
from reprieve.scheduling.decision import Binding

_POLLING_OUTCOME: Final = BackoffPolicy(initial=0.5, maximum=15.0)
_POLLING_OBJECT: Final = BackoffPolicy(initial=0.2, maximum=2.0, jitter=0.1)

CallOut = Callable[[CallExtender], Any]
"""Executes a call of an HTTP extender: an awaitable that raises on failure."""


class InstructionError(ClientError):
    """Raised if an instruction before or for a binding failed for good."""


class BindingListener(Protocol):
    """Receives the outcome of bindings in the event loop."""

    def bound(self, binding: Binding) -> None:
        """Handle a pod that is bound to its node."""

    def failed(self, binding: Binding, error: str, *, pod_deleted: bool, taken_back: bool) -> None:
        """Handle a pod that is not bound and that this attempt will not bind.

        `pod_deleted`: that very pod no longer exists. `taken_back`: its capacity was given to a preemptor.
        """


@dataclass(slots=True)
class BindingCounts:
    """The number of bindings by outcome."""

    started: int = 0
    bound: int = 0
    failed: int = 0


async def _no_extenders(call: CallExtender) -> None:
    raise InstructionError(f"{call.url}: nothing here calls extenders")


class Binder:
    """Executes bindings; see the module docstring. Use it in one event loop and call `aclose`."""

    def __init__(
        self,
        client: ApiClient,
        served: ServedResources,
        writes: Writes,
        listener: BindingListener,
        *,
        call_extender: CallOut = _no_extenders,
    ) -> None:
        self._client = client
        self._served = served
        self._writes = writes
        self._listener = listener
        self._call_extender = call_extender
        self._tasks: set[asyncio.Task[None]] = set()
        self._preparing: dict[str, asyncio.Task[None]] = {}
        """By UID, bindings with instructions before the bind."""
        self._binding: set[str] = set()
        """UIDs of those bindings that have reached the bind itself."""
        self._under_way = 0
        self._closed = False
        self.counts = BindingCounts()

    @property
    def under_way(self) -> int:
        """Return the number of bindings in flight."""
        return self._under_way

    def start(self, binding: Binding) -> None:
        """Start a binding."""
        self._under_way += 1
        self.counts.started += 1
        if binding.pre_bind or isinstance(binding.method, CallExtender | PatchObject | CreateObject):
            self._preparing[binding.pod.uid] = self._spawn(self._instructed(binding))
        else:
            self._writes.bind(binding.pod, binding.node, binding.annotations).add_done_callback(
                partial(self._answered, binding)
            )

    async def take_back(self, pod: PodRecord) -> bool:
        """Cancel the binding of a pod to free its capacity for a preemptor (preemption.md 7.2); return whether in time.

        Returns when the outcome is known. The listener has then been notified, unless the API server has not reported
        whether the pod is bound.
        """
        preparing = self._preparing.get(pod.uid)
        if preparing is not None and pod.uid not in self._binding:
            preparing.cancel()
            await asyncio.wait((preparing,))
            return True
        sent = self._writes.take_back(pod.uid)
        if sent is None:
            await asyncio.sleep(0)  # lets the callbacks of the cancelled call run first
            return True
        await asyncio.wait((sent,))  # ends after the other waiters, including the listener's callback
        error = sent.exception() if not sent.cancelled() else None
        return error is not None and not _unsure(error)

    async def aclose(self) -> None:
        """Stop all bindings in flight; the listener is no longer notified."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- plain bindings ---------------------------------------------------------------------------------

    def _answered(self, binding: Binding, result: asyncio.Future[None]) -> None:
        if result.cancelled():
            self._end(binding, "its capacity was given to a preemptor", taken_back=True)
            return
        error = result.exception()
        if error is None:
            self._end(binding, None)
        else:
            self._failed(binding, error)

    def _failed(self, binding: Binding, error: BaseException) -> None:
        if isinstance(error, LeadershipLostError):
            self._under_way -= 1
        elif _unsure(error):
            self._spawn(self._settle(binding, str(error)))
        else:
            self._end(binding, str(error), pod_deleted=isinstance(error, ApiError) and error.code == 404)

    def _end(self, binding: Binding, error: str | None, *, pod_deleted: bool = False, taken_back: bool = False) -> None:
        self._under_way -= 1
        if self._closed:
            return
        if error is None:
            self.counts.bound += 1
            self._listener.bound(binding)
        else:
            self.counts.failed += 1
            self._listener.failed(binding, error, pod_deleted=pod_deleted, taken_back=taken_back)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- unknown outcomes --------------------------------------------------------------------------------

    async def _settle(self, binding: Binding, error: str) -> None:
        """Query the API until it reports the pod's node; a faster informer settles the outcome, too."""
        pod, backoff = binding.pod, Backoff(_POLLING_OUTCOME, self._client.chance)
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"
        while not pod.bound:
            try:
                stored_pod = (await self._client.get(path)).read(dict)
            except ApiError as refusal:
                if refusal.code == 404:
                    self._end(binding, error, pod_deleted=True)
                    return
            except ClientError:
                pass
            else:
                if stored_pod["metadata"].get("uid") != pod.uid:
                    self._end(binding, error, pod_deleted=True)
                elif (stored_pod.get("spec") or {}).get("nodeName") == binding.node:
                    self._end(binding, None)
                else:
                    self._end(binding, error)
                return
            await self._client.clock.sleep(backoff.next())
        self._end(binding, None)

    # -- bindings with instructions -----------------------------------------------------------------------

    async def _instructed(self, binding: Binding) -> None:
        try:
            for instruction in binding.pre_bind:
                await self._execute(instruction)
            self._binding.add(binding.pod.uid)
            await self._bind(binding)
        except asyncio.CancelledError:
            if not self._closed:
                self._end(binding, "its capacity was given to a preemptor", taken_back=True)
            raise
        except ClientError as error:
            self._failed(binding, error)
        except Exception as error:  # a plugin's `done` raised, or an unexpected response: only this attempt fails
            self._end(binding, f"{type(error).__name__}: {error}")
        else:
            self._end(binding, None)
        finally:
            self._preparing.pop(binding.pod.uid, None)
            self._binding.discard(binding.pod.uid)

    async def _bind(self, binding: Binding) -> None:
        """Bind the pod by its Bind plugin; if an ignorable extender fails, bind it directly."""
        how = binding.method
        if isinstance(how, CallExtender | PatchObject | CreateObject):
            try:
                await self._execute(how)
                return
            except ClientError:
                if not isinstance(how, CallExtender) or not how.ignorable:
                    raise
        await self._writes.bind(binding.pod, binding.node, binding.annotations)

    async def _execute(self, instruction: Instruction) -> None:
        """Execute one instruction. Raises ClientError."""
        match instruction:
            case PatchObject():
                await self._writes.patch_object(instruction)
            case CreateObject():
                await self._writes.create_object(instruction)
            case DeleteObject():
                await self._writes.delete_object(instruction)
            case CallExtender():
                await self._call_extender(instruction)
            case AwaitObject():
                await self._await(instruction)

    async def _await(self, wanted: AwaitObject) -> None:
        """Poll an object until it has the required state (PreBind of VolumeBinding waits for a claim this way)."""
        kind = KINDS[wanted.kind][0]
        resource = next(iter(self._served.readable(wanted.kind)), None)
        if resource is None:
            raise UnservedError(f"{wanted.kind} is not served")
        clock, backoff = self._client.clock, Backoff(_POLLING_OBJECT, self._client.chance)
        path = resource.path(wanted.namespace or None, wanted.name)
        ends = clock.monotonic() + wanted.seconds
        while True:
            current: KubernetesObject | None = None
            try:
                current = stored(kind, (await self._client.get(path)).body, resource)
            except ApiError as error:
                if error.code != 404:
                    raise
            status = wanted.done(current)
            if status.ok:
                return
            if status.code is not Code.WAIT:
                raise InstructionError(status.reason)
            wait = backoff.next()
            if clock.monotonic() + wait >= ends:
                raise InstructionError(
                    f"timed out after {wanted.seconds:.0f} s waiting for {wanted.kind} {wanted.namespace}/{wanted.name}"
                    + (f": {status.reason}" if status.reason else "")
                )
            await clock.sleep(wait)


def _unsure(error: BaseException) -> bool:
    """Return whether the binding may have been made despite the error."""
    if isinstance(error, UnreachableError):
        return error.sent and not error.lasting
    return isinstance(error, ApiError) and error.code >= 500
