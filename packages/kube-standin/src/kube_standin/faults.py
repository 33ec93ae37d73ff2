"""Faults for tests of operators: refusals, delays and broken connections for requests that match a pattern.

A `FaultTable` belongs to one server. Faults are looked up for each request after authorization, so that a request
without the right stays forbidden. Other threads than the server's may change the table.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final, Literal

from kube_rules.json import Json
from kube_standin import errors
from kube_standin.errors import MODIFIED, StatusError

ANY: Final = "*"
VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
MOST_FAULTS: Final = 1_000
LONGEST_DELAY: Final = 3600.0
FaultAction = Literal["answer", "delay", "reset", "gone", "withhold-bookmarks"]

_REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden"),
    404: ("NotFound", "the server could not find the requested resource"),
    409: ("Conflict", MODIFIED),
    410: ("Expired", "The provided continue parameter is too old"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: injected fault"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted"),
}
"""Code -> reason and message of an injected response."""


@dataclass(frozen=True)
class RequestPattern:
    """The requests that a fault applies to. ``*`` stands for any value.

    ``resource`` is a plural, with or without its group (``deployments``, ``deployments.apps``), or a plural with a
    subresource (``pods/status``). ``subresource`` is "" for requests for the object itself. Raises ValueError for an
    unknown verb.
    """

    verb: str = ANY
    resource: str = ANY
    subresource: str = ""
    namespace: str = ANY
    name: str = ANY
    user: str = ANY

    def __post_init__(self) -> None:
        if self.verb not in (ANY, *VERBS):
            raise ValueError(f"verb: expected {', '.join(VERBS)} or *, found {self.verb!r}")
        plural, slash, subresource = self.resource.partition("/")
        if slash:
            object.__setattr__(self, "resource", plural)
            object.__setattr__(self, "subresource", subresource)

    def matches(self, request: MatchedRequest) -> bool:
        """Return whether the pattern matches a request."""
        return (
            self.verb in (ANY, request.verb)
            and self.resource in (ANY, request.resource, errors.qualified(request.resource, request.group))
            and self.subresource in (ANY, request.subresource)
            and self.namespace in (ANY, request.namespace)
            and self.name in (ANY, request.name)
            and self.user in (ANY, request.user)
        )


@dataclass(frozen=True)
class MatchedRequest:
    """The properties of a request for pattern matching."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str


@dataclass(frozen=True)
class FaultEffect:
    """The effect on one request: first the delay in seconds, then the rest."""

    delay: float = 0.0
    refusal: StatusError | None = None
    reset: bool = False
    gone: bool = False
    bookmarks: bool = True


NO_FAULT: Final = FaultEffect()


@dataclass(eq=False)
class InjectedFault:
    """A fault in a table. As a context manager it is removed at the end of the block.

    ``times`` is the number of requests that it still applies to, None for no limit; ``count`` the number so far.
    """

    table: FaultTable = field(repr=False)
    number: int
    action: FaultAction
    pattern: RequestPattern
    times: int | None = None
    code: int = 0
    message: str = ""
    seconds: float = 0.0
    """The delay, or Retry-After of a response."""
    count: int = 0

    def __enter__(self) -> InjectedFault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the fault from its table; no effect if it is already removed."""
        self.table.remove(self.number)

    def to_json(self) -> Json:
        """Return the fault in the form of the HTTP interface."""
        shown: Json = {"id": self.number, "action": self.action, **asdict(self.pattern), "count": self.count}
        if self.times is not None:
            shown["times"] = self.times
        if self.action == "answer":
            shown["code"] = self.code
        if self.seconds:
            shown["retryAfter" if self.action == "answer" else "seconds"] = self.seconds
        return shown

    def refusal(self, request: MatchedRequest) -> StatusError:
        """Return the response of an ``answer`` fault."""
        reason, message = _REFUSALS.get(self.code, (None, "injected fault"))
        if self.code == 409 and not self.message:
            return errors.conflict(request.resource, request.group, request.name, message)
        details = errors.object_details(request.name, request.group, request.resource)
        headers: dict[str, str] = {}
        if self.seconds:
            whole = math.ceil(self.seconds)
            details["retryAfterSeconds"] = whole
            headers["Retry-After"] = str(whole)
        return StatusError(self.code, reason, self.message or message, details, headers=headers)


class FaultTable:
    """The faults of a server, in the order in which they were added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: tuple[InjectedFault, ...] = ()
        self._count = 0

    def __iter__(self) -> Any:
        return iter(self._faults)

    def __len__(self) -> int:
        return len(self._faults)

    def answer(
        self,
        code: int,
        *,
        times: int | None = None,
        retry_after: float | None = None,
        message: str = "",
        **pattern: str,
    ) -> InjectedFault:
        """Refuse matching requests with an HTTP status of 400 to 599, before any processing.

        ``retry_after`` is the header Retry-After in seconds, 1 for 429 by default. ``pattern`` are the fields of
        `RequestPattern`. Raises ValueError and TypeError for invalid arguments.
        """
        if not 400 <= code <= 599:
            raise ValueError(f"code: expected a status from 400 to 599, found {code}")
        wait = _seconds("retry_after", (1.0 if code == 429 else 0.0) if retry_after is None else retry_after)
        return self._add("answer", times, pattern, code=code, message=message, seconds=wait)

    def delay(self, seconds: float, *, times: int | None = None, **pattern: str) -> InjectedFault:
        """Delay responses to matching requests by this many seconds of real time."""
        return self._add("delay", times, pattern, seconds=_seconds("seconds", seconds))

    def reset(self, *, times: int | None = None, **pattern: str) -> InjectedFault:
        """Reset the connection of matching requests (RST) without a response, before any processing."""
        return self._add("reset", times, pattern)

    def gone(self, *, times: int | None = None, **pattern: str) -> InjectedFault:
        """End matching watches at their start with an ERROR event: 410, the resource version is too old."""
        return self._add("gone", times, {"verb": "watch", **pattern})

    def withhold_bookmarks(self, *, times: int | None = None, **pattern: str) -> InjectedFault:
        """Send no bookmarks on new matching watches, not even the one after the initial events."""
        return self._add("withhold-bookmarks", times, {"verb": "watch", **pattern})

    def remove(self, number: int) -> bool:
        """Remove a fault by its number; return whether it existed."""
        with self._lock:
            before = self._faults
            self._faults = tuple(fault for fault in before if fault.number != number)
            return len(self._faults) < len(before)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults = ()

    def effect_on(self, request: MatchedRequest) -> FaultEffect:
        """Return the effect on a request, and count it. Only the first of several refusals applies."""
        if not self._faults:
            return NO_FAULT
        delay, refusal, flags = 0.0, None, set[str]()
        with self._lock:
            for fault in self._faults:
                if not fault.pattern.matches(request) or (refusal is not None and fault.action != "delay"):
                    continue
                fault.count += 1
                if fault.action == "delay":
                    delay += fault.seconds
                elif fault.action == "answer":
                    refusal = fault.refusal(request)
                else:
                    flags.add(fault.action)
            self._faults = tuple(entry for entry in self._faults if entry.times is None or entry.count < entry.times)
        return FaultEffect(
            delay, refusal, "reset" in flags, "gone" in flags, bookmarks="withhold-bookmarks" not in flags
        )

    def _add(self, action: FaultAction, times: int | None, pattern: Mapping[str, str], **values: Any) -> InjectedFault:
        if times is not None and times < 1:
            raise ValueError(f"times: expected a number of requests above 0, found {times}")
        unknown = pattern.keys() - RequestPattern.__dataclass_fields__.keys()
        if unknown:
            raise TypeError(f"unknown argument {', '.join(sorted(unknown))}")
        with self._lock:
            if len(self._faults) >= MOST_FAULTS:
                raise ValueError(f"there are {MOST_FAULTS} faults already")
            self._count += 1
            fault = InjectedFault(self, self._count, action, RequestPattern(**pattern), times, **values)
            self._faults = (*self._faults, fault)
        return fault


def _seconds(name: str, value: float) -> float:
    if not 0 <= value <= LONGEST_DELAY:
        raise ValueError(f"{name}: expected 0 to {LONGEST_DELAY:.0f} seconds, found {value}")
    return float(value)
