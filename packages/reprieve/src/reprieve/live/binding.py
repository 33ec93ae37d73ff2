"""Carrying out a binding that the engine has assumed: what PreBind asks for, the bind itself, and what happened to it.

Rules (scheduling.md 2): the instructions of `Binding.before` are carried out in order, each after the one before has
gone well; then the pod is bound by POST pods/NAME/binding, or as its Bind plugin wants. A refusal (404, 409) is final
for this attempt; the server's trouble is waited out by the `WriterPool`. A 409 of a pod that is where we wanted it is a
success (`Writes.bind`).

Invariants: every started binding ends in exactly one call of `bound` or `failed`, unless the right to write was lost
or this was closed: then in none. As long as it is unsure whether a binding was carried out (no answer came) the pod
keeps its room, and the API is asked until it says where the pod is. The listener decides when the engine is notified:
never while a cycle runs.
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
from reprieve.client.discovery import Served
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

_ASKING: Final = BackoffPolicy(initial=0.5, maximum=15.0)
_LOOKING: Final = BackoffPolicy(initial=0.2, maximum=2.0, jitter=0.1)

CallOut = Callable[[CallExtender], Any]
"""Carries out a call of an HTTP extender: an awaitable that raises what went wrong."""


class InstructionError(ClientError):
    """What had to be done before or for a binding failed for good."""


class BindingListener(Protocol):
    """Receives the outcome of bindings, in the event loop."""

    def bound(self, binding: Binding) -> None:
        """The API has the pod on its node."""

    def failed(self, binding: Binding, error: str, *, gone: bool, taken_back: bool) -> None:
        """The pod is not bound, and this attempt will not bind it.

        `gone`: that very pod no longer exists. `taken_back`: its capacity was given to a preemptor.
        """


@dataclass(slots=True)
class BindingCounts:
    """What was done so far."""

    started: int = 0
    bound: int = 0
    failed: int = 0


async def _no_extenders(call: CallExtender) -> None:
    raise InstructionError(f"{call.url}: nothing here calls extenders")


class Binder:
    """See the module docstring. Made and used in one event loop; `aclose` it."""

    def __init__(
        self,
        client: ApiClient,
        served: Served,
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
        """By UID, bindings that want something done first."""
        self._binding: set[str] = set()
        """UIDs of those of them that have come to the bind itself."""
        self._under_way = 0
        self._closed = False
        self.counts = BindingCounts()

    @property
    def under_way(self) -> int:
        """Bindings that have not ended."""
        return self._under_way

    def start(self, binding: Binding) -> None:
        """Carry out a binding."""
        self._under_way += 1
        self.counts.started += 1
        if binding.before or isinstance(binding.how, CallExtender | PatchObject | CreateObject):
            self._preparing[binding.pod.uid] = self._spawn(self._instructed(binding))
        else:
            self._writes.bind(binding.pod, binding.node, binding.annotations).add_done_callback(
                partial(self._answered, binding)
            )

    async def take_back(self, pod: PodRecord) -> bool:
        """Stop the binding of a pod to free its capacity for a preemptor (preemption.md 7.2); return whether in time.

        Returns when the outcome is known. The listener has then been notified, unless the API server has not answered
        whether the pod is bound.
        """
        preparing = self._preparing.get(pod.uid)
        if preparing is not None and pod.uid not in self._binding:
            preparing.cancel()
            await asyncio.wait((preparing,))
            return True
        sent = self._writes.take_back(pod.uid)
        if sent is None:
            await asyncio.sleep(0)  # lets the callbacks of what was cancelled go first
            return True
        await asyncio.wait((sent,))  # ends after what else waits for it, the listener's notice among that
        error = sent.exception() if not sent.cancelled() else None
        return error is not None and not _unsure(error)

    async def aclose(self) -> None:
        """Stop everything under way; the listener is no longer notified."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- the plain way ---------------------------------------------------------------------------------

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
            self._end(binding, str(error), gone=isinstance(error, ApiError) and error.code == 404)

    def _end(self, binding: Binding, error: str | None, *, gone: bool = False, taken_back: bool = False) -> None:
        self._under_way -= 1
        if self._closed:
            return
        if error is None:
            self.counts.bound += 1
            self._listener.bound(binding)
        else:
            self.counts.failed += 1
            self._listener.failed(binding, error, gone=gone, taken_back=taken_back)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- unsure ----------------------------------------------------------------------------------------

    async def _settle(self, binding: Binding, error: str) -> None:
        """Ask until the API says where the pod is; an informer that was quicker settles it as well."""
        pod, backoff = binding.pod, Backoff(_ASKING, self._client.chance)
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"
        while not pod.bound:
            try:
                found = (await self._client.get(path)).read(dict)
            except ApiError as refusal:
                if refusal.code == 404:
                    self._end(binding, error, gone=True)
                    return
            except ClientError:
                pass
            else:
                if found["metadata"].get("uid") != pod.uid:
                    self._end(binding, error, gone=True)
                elif (found.get("spec") or {}).get("nodeName") == binding.node:
                    self._end(binding, None)
                else:
                    self._end(binding, error)
                return
            await self._client.clock.sleep(backoff.next())
        self._end(binding, None)

    # -- the way with instructions -----------------------------------------------------------------------

    async def _instructed(self, binding: Binding) -> None:
        try:
            for instruction in binding.before:
                await self._carry_out(instruction)
            self._binding.add(binding.pod.uid)
            await self._bind(binding)
        except asyncio.CancelledError:
            if not self._closed:
                self._end(binding, "its capacity was given to a preemptor", taken_back=True)
            raise
        except ClientError as error:
            self._failed(binding, error)
        except Exception as error:  # `done` of a plugin raised, or an unexpected answer: only this attempt fails
            self._end(binding, f"{type(error).__name__}: {error}")
        else:
            self._end(binding, None)
        finally:
            self._preparing.pop(binding.pod.uid, None)
            self._binding.discard(binding.pod.uid)

    async def _bind(self, binding: Binding) -> None:
        """The bind itself; where an extender that is to do it may be passed over, its failure is not the end."""
        how = binding.how
        if isinstance(how, CallExtender | PatchObject | CreateObject):
            try:
                await self._carry_out(how)
                return
            except ClientError:
                if not isinstance(how, CallExtender) or not how.ignorable:
                    raise
        await self._writes.bind(binding.pod, binding.node, binding.annotations)

    async def _carry_out(self, instruction: Instruction) -> None:
        """One instruction. Raises ClientError."""
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
        """Look at an object until it is as it has to be (PreBind of VolumeBinding waits so for a claim)."""
        kind = KINDS[wanted.kind][0]
        resource = next(iter(self._served.readable(wanted.kind)), None)
        if resource is None:
            raise UnservedError(f"{wanted.kind} is not served")
        clock, backoff = self._client.clock, Backoff(_LOOKING, self._client.chance)
        path = resource.path(wanted.namespace or None, wanted.name)
        ends = clock.monotonic() + wanted.seconds
        while True:
            found: KubernetesObject | None = None
            try:
                found = stored(kind, (await self._client.get(path)).body, resource)
            except ApiError as error:
                if error.code != 404:
                    raise
            status = wanted.done(found)
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
    """Return whether the binding may have been carried out all the same."""
    if isinstance(error, UnreachableError):
        return error.sent and not error.lasting
    return isinstance(error, ApiError) and error.code >= 500
