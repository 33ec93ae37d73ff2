"""Objects from an API server to typed objects: stored ones, so that they are not validated again (api.md "Errors").

Invariant: what comes out is in the internal version, defaulted, and has a name; what cannot be read is an InputError
that names the object.
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
    """What every object has, even one that cannot be read otherwise."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` where there is no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class MetadataOnly(msgspec.Struct, frozen=True):
    """An object of which only the metadata is read."""

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
    """Return the metadata of an object, None if it has none that can be read."""
    try:
        return METADATA_ONLY.decode(raw).metadata
    except (ValueError, RecursionError):
        return None
