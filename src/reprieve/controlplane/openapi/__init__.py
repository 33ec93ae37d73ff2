"""OpenAPI documents of everything that is served: version 3 per group version, version 2 in one piece.

kubectl needs version 3 for apply and explain (1.29 and later), version 2 in protobuf form up to 1.28.
Documents are functions of the table of kinds alone; the caller keeps them until the table changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reprieve.controlplane.openapi import gnostic, version2, version3
from reprieve.controlplane.openapi.served import ServedKind

__all__ = ["v2_document", "v2_protobuf", "v3_document", "v3_index"]

Json = dict[str, Any]


def v3_index(kinds: Iterable[ServedKind]) -> Json:
    """The body of /openapi/v3: group versions and the addresses of their documents."""
    return version3.index(kinds)


def v3_document(group_version: str, kinds: Iterable[ServedKind]) -> Json:
    """The document of one group version, given as "v1" or "apps/v1"."""
    return version3.document(group_version, kinds)


def v2_document(kinds: Iterable[ServedKind]) -> Json:
    """The body of /openapi/v2."""
    return version2.document(kinds)


def v2_protobuf(kinds: Iterable[ServedKind]) -> bytes | None:
    """The body of /openapi/v2 for clients that ask for its protobuf form."""
    return gnostic.document(version2.document(kinds))
