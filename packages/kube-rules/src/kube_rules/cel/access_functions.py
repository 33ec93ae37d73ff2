"""`authorizer` in expressions: whether the user of a request, or a service account, may do something.

Semantics and costs: k8s.io/apiserver/pkg/cel/library (authz.go, cost.go). The caller binds a function that decides; the
cost of a check limits an expression to two checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kube_rules.cel.declarations import ValueForm
from kube_rules.cel.functions import Function, needs, takes, traversed
from kube_rules.cel.values import CelError, Meter, Opaque
from kube_rules.labels import dns_label_errors, dns_subdomain_errors

CHECK_COST = 350_000
"""Cost of one check; an evaluation has the budget for two."""
_REQUIREMENT = 0.5
"""Number of requirements per character of a selector; each costs `_REQUIREMENT_COST`."""
_REQUIREMENT_COST = 50
_NAMES = "kubernetes.authorization."
AUTHORIZER = ValueForm(f"{_NAMES}Authorizer", fields={"requestResource": ValueForm(f"{_NAMES}ResourceCheck")})
"""The form of the variable `authorizer`."""


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """An authorization question: a verb on a path or a resource. `account` is the service account (namespace, name)."""

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    account: tuple[str, str] | None = None


Decide = Callable[[AccessQuestion], tuple[bool, str]]
"""Return whether the access is allowed, and why."""


class UserAccess(Opaque):
    """Asks on behalf of a user; `requestResource` asks about the resource of the request."""

    __slots__ = ("account", "decide", "request")
    cel_type = f"{_NAMES}Authorizer"

    def __init__(self, decide: Decide, request: AccessQuestion, account: tuple[str, str] | None = None) -> None:
        self.decide = decide
        self.request = request
        self.account = account

    def __getitem__(self, name: str) -> ResourceCheck:
        if name != "requestResource":
            raise TypeError
        return ResourceCheck(self.decide, self.request)


class _Question(Opaque):
    """An incomplete question."""

    __slots__ = ("decide", "query")

    def __init__(self, decide: Decide, query: AccessQuestion) -> None:
        self.decide = decide
        self.query = query


class PathCheck(_Question):
    """A question about a path."""

    __slots__ = ()
    cel_type = f"{_NAMES}PathCheck"


class GroupCheck(_Question):
    """A question about an API group."""

    __slots__ = ()
    cel_type = f"{_NAMES}GroupCheck"


class ResourceCheck(_Question):
    """A question about a resource."""

    __slots__ = ()
    cel_type = f"{_NAMES}ResourceCheck"


class AccessAnswer(Opaque):
    """The answer to a question."""

    __slots__ = ("allowed", "reason")
    cel_type = f"{_NAMES}Decision"

    def __init__(self, allowed: bool, reason: str) -> None:
        self.allowed = allowed
        self.reason = reason


def _begun(kind: type[_Question], field: str, *, filled: bool) -> Function:
    """Return the function of an authorizer that begins a question."""

    def run(meter: Meter, args: list[Any]) -> _Question:
        takes(args, 2, 2)
        meter.spend(1)
        authorizer, text = needs(args[0], UserAccess), needs(args[1], str)
        if filled and not text.strip():
            raise CelError(f"{field} must not be empty")
        return kind(authorizer.decide, AccessQuestion(account=authorizer.account, **{field: text}))

    return Function(run, kind.cel_type)


def _resource(meter: Meter, args: list[Any]) -> ResourceCheck:
    takes(args, 2, 2)
    meter.spend(1)
    group, text = needs(args[0], GroupCheck), needs(args[1], str)
    if not text.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(group.decide, replace(group.query, resource=text))


def _narrowed(field: str) -> Function:
    """Return the function that restricts a question to a part of a resource."""

    def run(meter: Meter, args: list[Any]) -> ResourceCheck:
        takes(args, 2, 2)
        meter.spend(1)
        check = needs(args[0], ResourceCheck)
        return ResourceCheck(check.decide, replace(check.query, **{field: needs(args[1], str)}))

    return Function(run, ResourceCheck.cel_type)


def _selected(meter: Meter, args: list[Any]) -> ResourceCheck:
    """Return the question unchanged: RBAC ignores selectors."""
    takes(args, 2, 2)
    check, text = needs(args[0], ResourceCheck), needs(args[1], str)
    meter.spend(int(_selector_cost([1, len(text)])))
    return ResourceCheck(check.decide, check.query)


def _selector_cost(sizes: list[float]) -> float:
    return 10 + traversed(sizes[1]) + sizes[1] * _REQUIREMENT * _REQUIREMENT_COST


def _account(meter: Meter, args: list[Any]) -> UserAccess:
    takes(args, 3, 3)
    meter.spend(1)
    authorizer, namespace, name = needs(args[0], UserAccess), needs(args[1], str), needs(args[2], str)
    if dns_subdomain_errors(name):
        raise CelError("Invalid service account name")
    if dns_label_errors(namespace):
        raise CelError("Invalid service account namespace")
    return UserAccess(authorizer.decide, authorizer.request, (namespace, name))


def _check(meter: Meter, args: list[Any]) -> AccessAnswer:
    takes(args, 2, 2)
    meter.spend(CHECK_COST)
    question = needs(args[0], PathCheck, ResourceCheck)
    return AccessAnswer(*question.decide(replace(question.query, verb=needs(args[1], str))))


def _read(kind: str, value: Callable[[AccessAnswer], bool | str]) -> Function:
    def run(meter: Meter, args: list[Any]) -> bool | str:
        takes(args, 1, 1)
        meter.spend(1)
        return value(needs(args[0], AccessAnswer))

    return Function(run, kind)


def _escaped_key(meter: Meter, args: list[Any]) -> str:
    takes(args, 1, 1)
    text: str = needs(args[0], str)
    meter.spend(int(traversed(len(text))))
    return text.replace("~", "~0").replace("/", "~1")


ACCESS: Mapping[str, Function] = {
    "path": _begun(PathCheck, "path", filled=True),
    "group": _begun(GroupCheck, "group", filled=False),
    "serviceAccount": Function(_account, UserAccess.cel_type),
    "resource": Function(_resource, ResourceCheck.cel_type),
    "subresource": _narrowed("subresource"),
    "namespace": _narrowed("namespace"),
    "name": _narrowed("name"),
    "fieldSelector": Function(_selected, ResourceCheck.cel_type, _selector_cost),
    "labelSelector": Function(_selected, ResourceCheck.cel_type, _selector_cost),
    "check": Function(_check, AccessAnswer.cel_type, lambda sizes: CHECK_COST),
    "allowed": _read("bool", lambda answer: answer.allowed),
    "reason": _read("string", lambda answer: answer.reason),
    "errored": _read("bool", lambda answer: False),
    "error": _read("string", lambda answer: ""),
    "jsonpatch.escapeKey": Function(
        _escaped_key, "string", lambda sizes: traversed(sizes[0]), lambda sizes: 2 * sizes[0]
    ),
}
"""Functions of an authorizer, and the function that patches need for their paths."""
