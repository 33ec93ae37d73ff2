"""The packed definitions of API objects: loaded on first use, kept for the life of the process.

`structure()` maps a full definition name ("io.k8s.api.core.v1.Pod") to its OpenAPI form without texts; references are
full names. The result is read-only by convention. Origin and licence: `packed/NOTICE`. Versions of 1.38 are not
published yet: they have the form of the previous version (api.md 2.7). Older versions with the fields of a packed one
also have its form (api.md 2.8).
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from kube_rules.versions import CRD_GROUP, INTERNAL_VERSION, SAME_FIELDS

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
    "storage.k8s.io/v1beta1": "storage.k8s.io/v1",
}
"""Supported versions without their own schema -> the version with the same fields."""


@cache
def structure() -> dict[str, Any]:
    """Return full definition name -> OpenAPI form without texts."""
    content = dict(_packed())
    for name, older in same_form().items():
        content[name] = _renamed(content[older], name, f"{older.rpartition('.')[0]}.")
    return content


@cache
def same_form() -> Mapping[str, str]:
    """Return full name of an unpacked definition -> the packed one with the same form."""
    packed, result = _packed(), dict[str, str]()
    for version, (newer, kinds) in SAME_FIELDS.items():
        package, older = _package(version), _package(newer)
        todo = [f"{older}{kind}{suffix}" for kind in kinds for suffix in ("", "List")]
        while todo:
            name = todo.pop()
            new = package + name.removeprefix(older)
            if new not in packed and new not in result:
                result[new] = name
                todo += [reference for reference in _references(packed[name]) if reference.startswith(older)]
    return result


def _package(api_version: str) -> str:
    group, _, version = api_version.partition("/")
    return f"io.k8s.api.{group.partition('.')[0]}.{version}."


@cache
def _packed() -> dict[str, Any]:
    raw = resources.files(__package__).joinpath("packed", "structure.json.xz").read_bytes()
    content: dict[str, Any] = json.loads(lzma.decompress(raw))["definitions"]
    return content


def _references(value: Any) -> Iterator[str]:
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(value.get("$ref"), str):
        yield value["$ref"]
    for child in inner:
        yield from _references(child)


def _renamed(value: Any, definition: str, older: str) -> Any:
    """Return a definition of package `older` with the references and the version of the package of `definition`."""
    if isinstance(value, list):
        return [_renamed(inner, definition, older) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"group", "version", "kind"}:
        return {**value, "version": definition.rsplit(".", 2)[1]}
    package = definition.rpartition(".")[0]
    return {
        word: f"{package}.{inner.rpartition('.')[2]}"
        if word == "$ref" and inner.startswith(older)
        else _renamed(inner, definition, older)
        for word, inner in value.items()
    }


@cache
def definition_names() -> dict[tuple[str, str], str]:
    """Return (apiVersion, kind) -> full definition name.

    Kinds of every group (DeleteOptions, WatchEvent) are also listed under "v1".
    """
    result: dict[tuple[str, str], str] = {}
    for name, body in structure().items():
        for gvk in body.get("x-kubernetes-group-version-kind", ()):
            api_version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            result[api_version, gvk["kind"]] = name
    return result
