"""Test controls of a running server: its clock, snapshots of its state, faults, watches.

`ServerControls` is for Python code in the server's event loop. `ControlEndpoints` serves them below /debug/kube-standin
to cluster administrators (the group system:masters), if the server was started with test controls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

import msgspec

from kube_rules.durations import duration
from kube_rules.json import Json
from kube_standin import errors, simulated_time
from kube_standin.admission_chain import User
from kube_standin.authorization import MASTERS
from kube_standin.background import BackgroundWork
from kube_standin.clock import ServerClock, SimulatedClock
from kube_standin.faults import FaultTable, MatchedRequest, RequestPattern
from kube_standin.server.bodies import Receive, read_body
from kube_standin.server.responses import Reply
from kube_standin.server.slices import encode
from kube_standin.server.target import Target
from kube_standin.snapshots import ServerSnapshot

PREFIX: Final = "/debug/kube-standin/"
MOST_SNAPSHOTS: Final = 16
_REAL_CLOCK: Final = "the server has the real clock: start it with a simulated clock to set the time"


class ControlledServer(Protocol):
    """The methods of a server that the controls use."""

    @property
    def clock(self) -> ServerClock:
        """Return the clock."""

    @property
    def faults(self) -> FaultTable:
        """Return the faults."""

    @property
    def work(self) -> BackgroundWork:
        """Return the controllers and kubelets."""

    async def sweep_events(self) -> None:
        """Delete Events older than their time to live."""

    def store_state(self) -> ServerSnapshot:
        """Return the whole stored state."""

    async def put_back(self, state: ServerSnapshot) -> None:
        """Restart the server on a state."""

    def watches(self) -> Mapping[Any, MatchedRequest]:
        """Return the open watches."""


class ServerControls:
    """The controls of one server; call them in its event loop, one at a time."""

    def __init__(self, server: ControlledServer) -> None:
        self._server = server
        self._busy = asyncio.Lock()

    @property
    def clock(self) -> ServerClock:
        """Return the clock of the server."""
        return self._server.clock

    @property
    def faults(self) -> FaultTable:
        """Return the faults of the server."""
        return self._server.faults

    async def settle(self) -> None:
        """Wait until controllers and kubelets have no work left at the current time."""
        async with self._busy:
            await simulated_time.settle(self._server.work.controllers)

    async def advance(self, by: timedelta) -> None:
        """Advance simulated time (`simulated_time.advance`). Raises RuntimeError with the real clock."""
        clock = self._server.clock
        if not isinstance(clock, SimulatedClock):
            raise RuntimeError(_REAL_CLOCK)
        async with self._busy:
            await simulated_time.advance(self._server.work.controllers, clock, by)
            await self._server.sweep_events()

    async def snapshot(self) -> ServerSnapshot:
        """Return the current state."""
        async with self._busy:
            return self._server.store_state()

    async def restore(self, state: ServerSnapshot) -> None:
        """Restore a state: open watches end with 410, controllers restart, a simulated clock is set back."""
        async with self._busy:
            await self._server.put_back(state)
            if isinstance(self._server.clock, SimulatedClock):
                await simulated_time.settle(self._server.work.controllers)

    def end_watches(self, pattern: RequestPattern, *, expired: bool) -> int:
        """End the open watches that match, with 410 if ``expired``, and return their number."""
        matching = [watch for watch, request in self._server.watches().items() if pattern.matches(request)]
        for watch in matching:
            (watch.expire if expired else watch.drop)()
        return len(matching)


class _ClockBody(msgspec.Struct, forbid_unknown_fields=True):
    advance: str


class _WatchesBody(msgspec.Struct, forbid_unknown_fields=True):
    action: str
    resource: str = "*"
    namespace: str = "*"
    user: str = "*"


class ControlEndpoints:
    """The controls over HTTP; docs/apiserver.md lists the paths."""

    def __init__(self, controls: ServerControls) -> None:
        self._controls = controls
        self._snapshots: dict[str, ServerSnapshot] = {}
        self._count = 0

    async def answer(self, user: User, target: Target, receive: Receive) -> Reply:
        """Answer a request below `PREFIX`. Raises StatusError."""
        if MASTERS not in user.groups:
            path = target.path
            why = f'User "{user.name}" cannot {target.verb} path "{path}": only {MASTERS} may use test controls'
            raise errors.StatusError(403, "Forbidden", f"forbidden: {why}", {})
        body = await read_body(receive, None)
        parts = target.path.removeprefix(PREFIX).rstrip("/").split("/")
        handlers: dict[str, Callable[[str, list[str], bytes], Any]] = {
            "clock": self._clock,
            "faults": self._faults,
            "watches": self._watches,
            "snapshots": self._snapshot,
        }
        handler = handlers.get(parts[0])
        if handler is None:
            raise errors.unknown_resource()
        try:
            code, document = await handler(target.method, parts[1:], body)
        except (ValueError, TypeError) as error:
            raise errors.bad_request(f"{PREFIX}{parts[0]}: {error}") from error
        except RuntimeError as error:
            raise errors.StatusError(409, "Conflict", str(error)) from error
        return Reply(code, encode(document))

    async def _clock(self, method: str, rest: list[str], body: bytes) -> tuple[int, Json]:
        if rest or method not in ("GET", "POST"):
            raise errors.method_not_allowed()
        if method == "POST":
            seconds = duration(msgspec.json.decode(body, type=_ClockBody).advance)
            try:
                by = timedelta(seconds=seconds)
            except OverflowError:
                raise ValueError(f"advance: {seconds} seconds are too many") from None
            await self._controls.advance(by)
        clock = self._controls.clock
        return 200, {"now": clock.now().isoformat(), "simulated": isinstance(clock, SimulatedClock)}

    async def _faults(self, method: str, rest: list[str], body: bytes) -> tuple[int, Json]:
        faults = self._controls.faults
        if not rest and method == "POST":
            return 201, _added(faults, msgspec.json.decode(body, type=dict[str, Any])).to_json()
        if not rest and method == "DELETE":
            faults.clear()
        elif rest and method == "DELETE":
            if not rest[0].isdecimal() or not faults.remove(int(rest[0])):
                raise errors.unknown_resource()
        elif rest or method != "GET":
            raise errors.method_not_allowed()
        return 200, {"items": [fault.to_json() for fault in faults]}

    async def _watches(self, method: str, rest: list[str], body: bytes) -> tuple[int, Json]:
        if rest or method != "POST":
            raise errors.method_not_allowed()
        request = msgspec.json.decode(body, type=_WatchesBody)
        if request.action not in ("drop", "expire"):
            raise ValueError(f"action: expected drop or expire, found {request.action!r}")
        pattern = RequestPattern("*", request.resource, namespace=request.namespace, user=request.user)
        return 200, {"ended": self._controls.end_watches(pattern, expired=request.action == "expire")}

    async def _snapshot(self, method: str, rest: list[str], body: bytes) -> tuple[int, Json]:
        match method, rest:
            case "GET", []:
                return 200, {"items": [self._shown(name) for name in self._snapshots]}
            case "POST", []:
                if len(self._snapshots) >= MOST_SNAPSHOTS:
                    raise ValueError(f"{MOST_SNAPSHOTS} snapshots are kept already: delete one")
                self._count += 1
                name = str(self._count)
                self._snapshots[name] = await self._controls.snapshot()
                return 201, self._shown(name)
            case "POST", [name, "restore"] if name in self._snapshots:
                await self._controls.restore(self._snapshots[name])
                return 200, self._shown(name)
            case "DELETE", [name] if name in self._snapshots:
                shown = self._shown(name)
                del self._snapshots[name]
                return 200, shown
        raise errors.unknown_resource()

    def _shown(self, name: str) -> Json:
        state = self._snapshots[name]
        return {"name": name, "objects": len(state.objects), "now": state.moment.isoformat()}


_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "answer": {"code": "code", "retryAfter": "retry_after", "message": "message", "times": "times"},
    "delay": {"seconds": "seconds", "times": "times"},
    "reset": {"times": "times"},
    "gone": {"times": "times"},
    "withhold-bookmarks": {"times": "times"},
}
"""By action: field of the body -> argument of the method of `FaultTable`."""
_TYPES: Final[Mapping[str, type]] = {"code": int, "times": int, "retryAfter": float, "seconds": float}


def _added(faults: FaultTable, body: Json) -> Any:
    """Add the fault that a body specifies. Raises ValueError and TypeError."""
    action = body.pop("action", None)
    names = _ARGUMENTS.get(action) if isinstance(action, str) else None
    if names is None:
        raise ValueError(f"action: expected one of {', '.join(_ARGUMENTS)}, found {action!r}")
    arguments: dict[str, Any] = {}
    for name, value in body.items():
        try:
            arguments[names.get(name, name)] = msgspec.convert(value, _TYPES.get(name, str))
        except msgspec.ValidationError as error:
            raise ValueError(f"{name}: {error}") from None
    return getattr(faults, action.replace("-", "_"))(**arguments)
