"""What the documents need to know of a served kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ServedKind(Protocol):
    """The part of a `Kind` that the documents describe."""

    @property
    def group(self) -> str:
        """API group, "" for core."""

    @property
    def version(self) -> str:
        """API version."""

    @property
    def kind(self) -> str:
        """Name of the kind."""

    @property
    def plural(self) -> str:
        """Name in URLs."""

    @property
    def list_kind(self) -> str:
        """Name of the list."""

    @property
    def namespaced(self) -> bool:
        """Whether objects live in namespaces."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """What clients may do."""

    @property
    def subresources(self) -> frozenset[str]:
        """Paths below an object."""

    @property
    def api_version(self) -> str:
        """Group and version as objects carry them."""

    @property
    def custom(self) -> bool:
        """Whether it is a custom resource."""

    @property
    def definition(self) -> Mapping[str, Any] | None:
        """For a custom resource: the entry of its definition's `spec.versions`."""


def group_version_path(kind: ServedKind) -> str:
    """Path prefix of a group version: `api/v1` or `apis/GROUP/VERSION`."""
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
