"""Decode objects of an API server to typed objects: stored ones, which are not validated again (api.md "Errors").

Invariant: a decoded object has the internal version, defaults and a name; an unreadable one causes an InputError that
names the object.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kube_rules.decoding import TypeMeta, finish, from_json
from kube_rules.errors import InputError, Origin
from kube_rules.meta import KubernetesObject
from reprieve.client.discovery import Resource

T = TypeVar("T", bound=KubernetesObject)


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata that every object has, even an unreadable one."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None

    @property
    def key(self) -> str:
        """Return `namespace/name`, or `name` without a namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class MetadataOnly(msgspec.Struct, frozen=True):
    """An object decoded to its metadata."""

    metadata: Metadata = Metadata()


METADATA_ONLY = msgspec.json.Decoder(MetadataOnly)


def stored(kind: type[T], raw: msgspec.Raw | bytes, resource: Resource) -> T:
    """Return the typed object of one JSON object of a resource. Raises InputError."""
    origin = Origin(resource.plural)
    result = finish(
        from_json(kind, raw, TypeMeta(api_version=resource.api_version, kind=resource.kind), origin),
        origin,
        stored=True,
    )
    if not result.metadata.name:
        raise InputError(origin, "Required value: a stored object has a name", path="metadata.name")
    return result


def called(raw: msgspec.Raw | bytes) -> Metadata | None:
    """Return the metadata of an object, None if it is unreadable."""
    try:
        return METADATA_ONLY.decode(raw).metadata
    except (ValueError, RecursionError):
        return None
