"""The target of a request, read from its method and path: a resource and verb, or a path without a resource.

Rules: kube-apiserver's RequestInfo. This comes before authorization, so it does not check whether a resource exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from kube_rules.selectors import SelectorError, parse_field_selector
from kube_standin.kinds import CONNECTIONS
from kube_standin.rights import Attributes

_VERBS: Mapping[str, str] = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch",
                             "DELETE": "delete"}  # fmt: skip
_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))


@dataclass(frozen=True)
class Target:
    """The place of a request in the API. ``resource`` is empty for paths without a resource (see ``path``)."""

    method: str
    path: str
    verb: str
    query: Mapping[str, str]
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    parameters: tuple[tuple[str, str], ...] = ()
    """All parameters of a connection to a pod, including repeated ones (the words of a command)."""

    @property
    def attributes(self) -> Attributes:
        """Return the attributes that the authorizer checks."""
        if not self.resource:
            return Attributes(self.verb, path=self.path)
        fields = equated(self.query["fieldSelector"]) if "fieldSelector" in self.query else ()
        name = self.name or _selected_name(self.verb, fields)
        return Attributes(
            self.verb, self.group, self.resource, self.subresource, self.namespace, name, field_values=fields
        )


def equated(selector: str) -> tuple[tuple[str, str], ...]:
    """Return the fields that a selector compares for equality, with their values; none of an invalid selector."""
    try:
        requirements = parse_field_selector(selector).requirements
    except SelectorError:
        return ()
    return tuple((item.path, item.value) for item in requirements if item.equal)


def _selected_name(verb: str, fields: tuple[tuple[str, str], ...]) -> str:
    """Return the name that a list or watch selects: rules with ``resourceNames`` permit it."""
    name = next((value for field, value in fields if field == "metadata.name"), "")
    return name if verb in ("list", "watch") and name not in (".", "..") and not {"/", "%"} & set(name) else ""


def _truthy(value: str | None) -> bool:
    return value is not None and value.lower() not in ("0", "false", "")


def read_target(method: str, path: str, query_string: bytes) -> Target:
    """Return the target of a request line; never fails."""
    parameters = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True) if query_string else []
    query = dict(parameters)
    verb = _VERBS.get(method, method.lower())
    parts = path.split("/")[1:]
    if parts and parts[-1] == "":
        parts.pop()
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Target(method, path, method.lower(), query)
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
            rest = rest[2:]
    resource, name = [*rest, ""][:2]
    subresource = "/".join(rest[2:])
    watch = legacy_watch or (not name and _truthy(query.get("watch")))
    if verb == "get" and (not name or legacy_watch):
        verb = "watch" if watch else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    watch = watch and verb == "watch"
    sent = tuple(parameters) if subresource in CONNECTIONS else ()
    return Target(method, path, verb, query, group, version, namespace, resource, name, subresource, watch, sent)
