"""The packed definitions of API objects: loaded at first use, kept for the life of the process.

`structure()` maps a full definition name ("io.k8s.api.core.v1.Pod") to its OpenAPI form without texts,
references being full names. It is read-only by agreement: do not change what it returns. Origin and licence:
`packed/NOTICE`.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from kube_rules.versions import CRD_GROUP, INTERNAL_VERSION

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
FIELDS_V1 = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
JSON_ANY = _APIEXTENSIONS + "JSON"
SCHEMA_OR_ARRAY = _APIEXTENSIONS + "JSONSchemaPropsOrArray"
SCHEMA_OR_BOOL = _APIEXTENSIONS + "JSONSchemaPropsOrBool"
SCHEMA_OR_STRINGS = _APIEXTENSIONS + "JSONSchemaPropsOrStringArray"


SAME_SCHEMA: Final[Mapping[str, str]] = {
    f"{CRD_GROUP}/v1beta1": INTERNAL_VERSION,
    "resource.k8s.io/v1beta2": "resource.k8s.io/v1",
    "storage.k8s.io/v1beta1": "storage.k8s.io/v1",
}
"""Versions that are read here and have no schema of their own -> the version that has their fields."""


@cache
def structure() -> dict[str, Any]:
    """Full definition name -> OpenAPI form without texts."""
    raw = resources.files(__package__).joinpath("packed", "structure.json.xz").read_bytes()
    content: dict[str, Any] = json.loads(lzma.decompress(raw))["definitions"]
    return content


@cache
def definition_names() -> dict[tuple[str, str], str]:
    """(apiVersion, kind) -> full definition name.

    Kinds that belong to every group (DeleteOptions, WatchEvent) are listed under "v1" too.
    """
    result: dict[tuple[str, str], str] = {}
    for name, body in structure().items():
        for gvk in body.get("x-kubernetes-group-version-kind", ()):
            api_version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            result[api_version, gvk["kind"]] = name
    return result
