"""Instructions of plugins to the driver before and for a binding: plain data, nothing is executed here.

PreBind plugins return instructions that run in order, each after the one before has succeeded; if one fails for good
the pod is not bound, its reservations are undone and it is tried again (scheduling.md 2).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_rules.meta import KubernetesObject
from reprieve.framework.status import Status


@dataclass(frozen=True, slots=True)
class PatchObject:
    """A merge patch (RFC 7386) of one object or its subresource; `strategic`: lists merge by their keys.

    `uid` and `resource_version`, if set, must match the object: otherwise 409, and the instruction fails.
    """

    kind: str
    namespace: str
    name: str
    patch: Mapping[str, Any]
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""
    strategic: bool = False
    again: Callable[[Mapping[str, Any]], bool] | None = field(default=None, compare=False)
    """Called with the API's object if its `resource_version` differs: True writes nevertheless."""


@dataclass(frozen=True, slots=True)
class CreateObject:
    """An object to create, as the API writes it. If it exists already (409), the instruction fails."""

    kind: str
    namespace: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """An object to delete, after its finalizer is removed. A missing object is no failure.

    `uid`, if set, must match the object: another object of the name stays.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    finalizer: str = ""


@dataclass(frozen=True, slots=True)
class AwaitObject:
    """Wait until an object has the expected state, for at most `seconds`.

    `done` gets the last known object (None: it does not exist). SUCCESS ends the wait, WAIT continues it, and any other
    code fails the binding with its reason.
    """

    kind: str
    namespace: str
    name: str
    done: Callable[[KubernetesObject | None], Status]
    seconds: float


@dataclass(frozen=True, slots=True)
class CallExtender:
    """A binding by an HTTP extender: POST `body` to `url`; a response with an `Error` is a failure.

    `ignorable`: after a failure the pod is bound as if there were no extender.
    """

    url: str
    body: Mapping[str, Any]
    seconds: float
    ignorable: bool = False


Instruction = PatchObject | CreateObject | DeleteObject | AwaitObject | CallExtender
