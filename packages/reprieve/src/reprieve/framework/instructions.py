"""What a plugin asks the driver to do before and for a binding: plain data, nothing is done here.

PreBind plugins return instructions that are carried out in order, each after the one before has gone well; if one fails
for good the pod is not bound, its reservations are undone and it is tried again (scheduling.md 2).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_rules.meta import KubernetesObject
from reprieve.framework.status import Status


@dataclass(frozen=True, slots=True)
class PatchObject:
    """A merge patch (RFC 7386) of one object or its subresource; `strategic`: lists merge by their keys.

    `uid` and `resource_version`, where given, have to be the object's: 409 otherwise, and the instruction fails.
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
    """Asked of the object as the API has it where `resource_version` is another: True writes all the same."""


@dataclass(frozen=True, slots=True)
class CreateObject:
    """An object to create, as the API writes it. That it exists already (409) is a failure."""

    kind: str
    namespace: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """An object to delete, after the finalizer that would keep it is taken off. That it is gone already is no failure.

    `uid`, where given, has to be the object's: another of the name stays.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    finalizer: str = ""


@dataclass(frozen=True, slots=True)
class AwaitObject:
    """Wait until an object has the expected state, for at most `seconds`.

    `done` gets the object as last seen (None: it does not exist). SUCCESS ends the wait, WAIT continues it, and any
    other code fails the binding with its reason.
    """

    kind: str
    namespace: str
    name: str
    done: Callable[[KubernetesObject | None], Status]
    seconds: float


@dataclass(frozen=True, slots=True)
class CallExtender:
    """Let an HTTP extender bind: POST `body` to `url`; an answer with an `Error` is a failure.

    `ignorable`: a failure is followed by binding as if there were no extender.
    """

    url: str
    body: Mapping[str, Any]
    seconds: float
    ignorable: bool = False


Instruction = PatchObject | CreateObject | DeleteObject | AwaitObject | CallExtender
