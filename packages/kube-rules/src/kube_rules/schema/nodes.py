"""The tree of types of a schema, which decoding, patching and field ownership traverse.

Terms: a *struct* has named fields; a *map* has free keys and one type of values; a *list* is atomic, a set or a map
keyed by some fields of its items; *atomic* values are owned and replaced as a whole. Trees are shared and recursive (a
struct's `fields` are filled after the struct exists), so nodes compare by identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from kube_rules.schema import definitions as d

REPLACED: Mapping[str, Mapping[str, str]] = {
    "v1.PodSpec": {"workloadRef": "schedulingGroup"},
    "v1alpha2.PodGroupSpec": {"workloadRef": "podGroupTemplateRef.workload"},
    "v1alpha2.PodGroupTemplateReference": {
        "workloadName": "workload.workloadName",
        "podGroupTemplateName": "workload.podGroupTemplateName",
    },
    "v1alpha3.PodGroupSpec": {"podGroupTemplateRef": "workloadRef"},
    "v1beta1.PodGroupSpec": {"podGroupTemplateRef": "workloadRef"},
    "v1.PodGroupSpec": {"podGroupTemplateRef": "workloadRef"},
    "v1alpha3.WorkloadReference": {"podGroupTemplateName": "templateName"},
    "v1beta1.WorkloadReference": {"podGroupTemplateName": "templateName"},
    "v1.WorkloadReference": {"podGroupTemplateName": "templateName"},
}
"""Fields of other versions of a type, by its name in error texts -> the path of the field that replaces each."""


class SchemaType(Enum):
    """The JSON that a node accepts."""

    STRUCT = "struct"
    MAP = "map"
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    BYTES = "bytes"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    TIME = "time"
    MICRO_TIME = "micro-time"
    ANY = "any"  # any JSON
    ANY_OBJECT = "any-object"  # any JSON object, unchanged


@dataclass(eq=False, slots=True)
class SchemaNode:
    """One node of a schema.

    `go` is the name of the type in error texts; `required` are the fields that are always encoded; `zero_dropped` are
    the string and boolean fields with zeros that are not stored; `key_defaults` are the values of missing list keys.
    """

    type: SchemaType
    go: str
    fields: dict[str, SchemaNode] = field(default_factory=dict)
    element: SchemaNode | None = None
    required: frozenset[str] = frozenset()
    zero_dropped: frozenset[str] = frozenset()
    atomic: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    key_defaults: tuple[tuple[str, Any], ...] = ()
    patch_strategy: frozenset[str] = frozenset()
    patch_merge_key: str = ""
    preserve_unknown: bool = False


UNTYPED = SchemaNode(SchemaType.ANY, "any")
"""A value without a schema."""

_SPECIAL: dict[str, tuple[SchemaType, str]] = {
    d.QUANTITY: (SchemaType.QUANTITY, "resource.Quantity"),
    d.INT_OR_STRING: (SchemaType.INT_OR_STRING, "intstr.IntOrString"),
    d.TIME: (SchemaType.TIME, "v1.Time"),
    d.MICRO_TIME: (SchemaType.MICRO_TIME, "v1.MicroTime"),
    d.RAW_EXTENSION: (SchemaType.ANY_OBJECT, "runtime.RawExtension"),
    d.FIELDS_V1: (SchemaType.ANY_OBJECT, "v1.FieldsV1"),
    d.JSON_ANY: (SchemaType.ANY, "v1.JSON"),
    d.SCHEMA_OR_ARRAY: (SchemaType.ANY, "v1.JSONSchemaPropsOrArray"),
    d.SCHEMA_OR_BOOL: (SchemaType.ANY, "v1.JSONSchemaPropsOrBool"),
    d.SCHEMA_OR_STRINGS: (SchemaType.ANY, "v1.JSONSchemaPropsOrStringArray"),
}

# Types with optional strings and booleans as plain values: "" and false mean "not set" and are not stored. The second
# set lists the exceptions, fields where "" or false differs from "not set".
_PLAIN_ZEROS: dict[str, frozenset[str]] = {
    d.OBJECT_META: frozenset(),
    "io.k8s.api.core.v1.PodSpec": frozenset(
        [
            "automountServiceAccountToken",
            "enableServiceLinks",
            "hostUsers",
            "hostnameOverride",
            "preemptionPolicy",
            "runtimeClassName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
        ]
    ),
    "io.k8s.api.core.v1.PodStatus": frozenset({"resize"}),
    "io.k8s.api.core.v1.Container": frozenset({"restartPolicy"}),
    "io.k8s.api.core.v1.ContainerPort": frozenset(),
    "io.k8s.api.core.v1.EnvVar": frozenset(),
    "io.k8s.api.core.v1.VolumeMount": frozenset({"mountPropagation", "recursiveReadOnly"}),
    "io.k8s.api.core.v1.NodeSpec": frozenset(),
    "io.k8s.api.core.v1.NodeCondition": frozenset(),
    "io.k8s.api.core.v1.PodCondition": frozenset(),
    "io.k8s.api.core.v1.Taint": frozenset(),
    "io.k8s.api.core.v1.Toleration": frozenset(),
    "io.k8s.api.core.v1.Event": frozenset(),
    "io.k8s.api.core.v1.EventSource": frozenset(),
    "io.k8s.api.core.v1.ObjectReference": frozenset(),
    "io.k8s.api.events.v1.Event": frozenset(),
    "io.k8s.api.scheduling.v1.PriorityClass": frozenset({"preemptionPolicy"}),
}
# Optional booleans that are not pointers in Go, in any type: false means "not set" and is not stored.
_PLAIN_FALSE = frozenset(
    [
        "chapAuthDiscovery",
        "chapAuthSession",
        "clusterScope",
        "deprecated",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "globalDefault",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "nullable",
        "paused",
        "preserveUnknownFields",
        "publishNotReadyAddresses",
        "readOnly",
        "sslEnabled",
        "stdin",
        "stdinOnce",
        "tty",
        "uniqueItems",
        "unschedulable",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ]
)
_FALSE_KEPT = {
    "io.k8s.api.core.v1.AzureDiskVolumeSource": frozenset({"readOnly"}),
    "io.k8s.api.core.v1.CSIVolumeSource": frozenset({"readOnly"}),
}
"""Types in which a field with such a name is a pointer."""
# Values of list keys that an item leaves out (the field's default).
_KEY_DEFAULTS: dict[str, dict[str, Any]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.EndpointPort": {"protocol": "TCP"},
}


def go_name(definition: str) -> str:
    """Return the name of a type in error texts: "v1.PodSpec" for "io.k8s.api.core.v1.PodSpec"."""
    return ".".join(definition.rsplit(".", 2)[-2:])


_made: dict[str, SchemaNode] = {}


def named(definition: str) -> SchemaNode:
    """Return the node of a full definition name; a recursive type refers to itself.

    Raises:
        KeyError: no such definition.
    """
    node = _made.get(definition)
    if node is not None:
        return node
    body = d.structure()[definition]
    if definition in _SPECIAL:
        kind, go = _SPECIAL[definition]
        node = _made[definition] = SchemaNode(kind, go, atomic=True)
        return node
    required = frozenset(body.get("required", ()))
    node = _made[definition] = SchemaNode(
        SchemaType.STRUCT,
        go_name(definition),
        required=required,
        atomic=body.get("x-kubernetes-map-type") == "atomic",
        zero_dropped=_plain_zeros(definition, body, required),
    )
    for name, spec in body.get("properties", {}).items():
        node.fields[name] = placed(spec)
    return node


def _plain_zeros(definition: str, body: dict[str, Any], required: frozenset[str]) -> frozenset[str]:
    fields: dict[str, Any] = body.get("properties", {})
    false_unset = (fields.keys() & _PLAIN_FALSE) - required - _FALSE_KEPT.get(definition, frozenset())
    if definition not in _PLAIN_ZEROS:
        return frozenset(false_unset)
    excluded = required | _PLAIN_ZEROS[definition]
    return frozenset(false_unset) | {
        name
        for name, spec in fields.items()
        if spec.get("type") in ("string", "boolean") and "format" not in spec and name not in excluded
    }


def placed(spec: dict[str, Any]) -> SchemaNode:
    """Return the node of a field, list item or map value in OpenAPI form."""
    strategy = frozenset(filter(None, spec.get("x-kubernetes-patch-strategy", "").split(",")))
    merge_key: str = spec.get("x-kubernetes-patch-merge-key", "")
    if "$ref" in spec:
        node = named(spec["$ref"])
        atomic = spec.get("x-kubernetes-map-type") == "atomic"
        if strategy or (atomic and not node.atomic):
            node = replace(node, patch_strategy=strategy, atomic=atomic or node.atomic)
        return node
    kind = spec.get("type")
    if kind == "array":
        items = spec["items"]
        element = placed(items)
        keys = tuple(spec.get("x-kubernetes-list-map-keys", ()))
        defaults = _KEY_DEFAULTS.get(items.get("$ref", ""), {})
        list_type: str = spec.get("x-kubernetes-list-type", "atomic")
        return SchemaNode(
            SchemaType.LIST,
            "[]" + element.go,
            element=element,
            list_type=list_type,
            list_keys=keys,
            key_defaults=tuple((key, defaults[key]) for key in keys if key in defaults),
            atomic=list_type == "atomic",
            patch_strategy=strategy,
            patch_merge_key=merge_key,
        )
    if kind == "object":
        if "additionalProperties" not in spec:
            return SchemaNode(SchemaType.ANY_OBJECT, "map[string]interface {}", atomic=True)
        element = placed(spec["additionalProperties"])
        atomic = spec.get("x-kubernetes-map-type") == "atomic"
        return SchemaNode(
            SchemaType.MAP, "map[string]" + element.go, element=element, atomic=atomic, patch_strategy=strategy
        )
    if kind == "string" and spec.get("format") == "byte":
        return SchemaNode(SchemaType.BYTES, "[]uint8", atomic=True)
    if kind == "integer":
        return SchemaNode(SchemaType.INTEGER, spec.get("format", "int64"), atomic=True)
    return SchemaNode(SchemaType(kind), {"number": "float64", "boolean": "bool"}.get(str(kind), str(kind)), atomic=True)
