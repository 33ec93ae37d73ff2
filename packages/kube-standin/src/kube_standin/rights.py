"""The questions and answers of authorizers, and whether a rule of a role allows an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kube_rules.json import Json


@dataclass(frozen=True)
class Attributes:
    """The action to authorize; ``path`` is set for requests without a resource.

    ``field_values`` are the fields that the selector of a list, a watch or a deletecollection equates with a value.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_values: tuple[tuple[str, str], ...] = ()

    @property
    def full_resource(self) -> str:
        """Return ``pods`` or ``pods/binding``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class AccessDecision:
    """Whether access is allowed, and why (may be empty)."""

    allowed: bool
    reason: str = ""


def _has(values: Any, *wanted: str) -> bool:
    return bool(values) and ("*" in values or any(value in values for value in wanted))


def rule_allows(rule: Json, attributes: Attributes) -> bool:
    """Return whether a rule allows an action on a resource."""
    names = rule.get("resourceNames")
    wanted = [attributes.full_resource]
    if attributes.subresource:
        wanted.append(f"*/{attributes.subresource}")
    return (
        _has(rule.get("verbs"), attributes.verb)
        and _has(rule.get("apiGroups"), attributes.group)
        and _has(rule.get("resources"), *wanted)
        and (not names or attributes.name in names)
    )


def rule_allows_path(rule: Json, attributes: Attributes) -> bool:
    """Return whether a rule allows an action on a path."""
    if not _has(rule.get("verbs"), attributes.verb):
        return False
    return any(
        pattern in ("*", attributes.path) or (pattern.endswith("*") and attributes.path.startswith(pattern[:-1]))
        for pattern in rule.get("nonResourceURLs") or ()
    )
