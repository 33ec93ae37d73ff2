"""What all typed objects have in common, and what they are where a manifest leaves a field out (api.md)."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import kube_rules
from kube_rules.devices import DeviceTaintRule, split_name
from kube_rules.meta import EMPTY_MAP, KubernetesObject, Struct
from kube_rules.objects import CompositePodGroup, PodGroup, PriorityClass


def below(kind: type[Struct]) -> Iterator[type[Struct]]:
    yield kind
    for other in kind.__subclasses__():
        yield from below(other)


for module in pkgutil.iter_modules(kube_rules.__path__, "kube_rules."):
    importlib.import_module(module.name)
STRUCTS = sorted(
    {kind for kind in below(Struct) if kind.__module__.startswith("kube_rules.")},
    key=lambda kind: (kind.__module__, kind.__name__),
)
KINDS = [kind for kind in STRUCTS if issubclass(kind, KubernetesObject) and kind is not KubernetesObject]


_NEEDED: dict[type[Struct], dict[str, int]] = {PriorityClass: {"value": 0}}
"""Fields without a default."""


def named(kind: type[Struct]) -> str:
    return kind.__name__


@pytest.mark.parametrize("kind", STRUCTS, ids=named)
def test_objects_are_frozen_and_made_by_names_alone(kind: type[Struct]) -> None:
    """All readers share one object, and a new field does not move the others."""
    made = kind(**_NEEDED.get(kind, {}))
    fields = kind.__struct_fields__
    for field in fields:
        with pytest.raises(AttributeError):
            setattr(made, field, getattr(made, field))
    for count in range(1, len(fields) + 1):
        with pytest.raises(TypeError, match="positional"):
            kind(*[getattr(made, field) for field in fields[:count]])
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.omit_defaults
    assert not kind.__struct_config__.gc


CLUSTER_SCOPED = {
    "CSIDriver",
    "CSINode",
    "DeviceClass",
    "DeviceTaintRule",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "ResourceSlice",
    "RuntimeClass",
    "StorageClass",
    "VolumeAttachment",
}


def test_kinds_have_namespaces_but_for_these() -> None:
    """The scopes of the Kubernetes API (`kubectl api-resources`)."""
    assert {kind.__name__ for kind in KINDS if not kind.NAMESPACED} == CLUSTER_SCOPED


DEFAULTS: dict[tuple[str, str], Any] = {
    ("Condition", "status"): "Unknown",
    ("ContainerPort", "protocol"): "TCP",
    ("PersistentVolumeClaimSpec", "volume_mode"): "Filesystem",
    ("PersistentVolumeClaimStatus", "phase"): "Pending",
    ("PersistentVolumeSpec", "persistent_volume_reclaim_policy"): "Retain",
    ("PersistentVolumeSpec", "volume_mode"): "Filesystem",
    ("PodSpec", "restart_policy"): "Always",
    ("PodSpec", "scheduler_name"): "default-scheduler",
    ("PodSpec", "termination_grace_period_seconds"): 30,
    ("PodStatus", "phase"): "Pending",
    ("PriorityClass", "preemption_policy"): "PreemptLowerPriority",
    ("RBDVolume", "pool"): "rbd",
    ("StorageClass", "reclaim_policy"): "Delete",
    ("StorageClass", "volume_binding_mode"): "Immediate",
    ("Toleration", "operator"): "Equal",
    ("TopologySpreadConstraint", "node_affinity_policy"): "Honor",
    ("TopologySpreadConstraint", "node_taints_policy"): "Ignore",
}
"""What an API server puts where nothing is written; every other field is zero, empty or absent."""


def test_fields_that_are_left_out_say_nothing_but_for_these() -> None:
    said = {
        (kind.__name__, field): found
        for kind in STRUCTS
        for field in kind.__struct_fields__
        if (found := getattr(kind(**_NEEDED.get(kind, {})), field)) and not isinstance(found, Struct)
    }
    assert said == DEFAULTS


def test_empty_maps_are_one_and_cannot_be_filled() -> None:
    """Invariant of `kube_rules.objects`; a copy of any kind is the same map again."""
    maps = [
        getattr(kind(**_NEEDED.get(kind, {})), field)
        for kind in STRUCTS
        for field in kind.__struct_fields__
        if isinstance(getattr(kind(**_NEEDED.get(kind, {})), field), dict)
    ]
    assert maps
    assert all(one is EMPTY_MAP for one in maps)
    for change in ("pop", "popitem", "clear", "update", "setdefault", "__setitem__", "__delitem__", "__ior__"):
        with pytest.raises(TypeError, match=r"msgspec\.structs\.replace"):
            getattr(EMPTY_MAP, change)()
    assert copy.copy(EMPTY_MAP) is copy.deepcopy(EMPTY_MAP) is pickle.loads(pickle.dumps(EMPTY_MAP)) is EMPTY_MAP
    assert msgspec.convert({}, KINDS[0]) == KINDS[0]()


@pytest.mark.parametrize(
    ("metadata", "key"),
    [({"name": "a", "namespace": "n"}, "n/a"), ({"name": "a"}, "a"), ({}, "")],
)
def test_object_is_named_by_namespace_and_name(metadata: dict[str, str], key: str) -> None:
    found = msgspec.convert({"metadata": metadata}, KINDS[0])
    assert (found.key, found.name, found.namespace) == (
        key,
        metadata.get("name", ""),
        metadata.get("namespace", ""),
    )


@pytest.mark.parametrize(
    ("spec", "least", "together", "key"),
    [
        ({}, None, False, None),
        ({"schedulingPolicy": {"basic": {}}}, None, False, None),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, 3, False, None),
        ({"disruptionMode": {"single": {}}}, None, False, None),
        ({"disruptionMode": {"all": {}}}, None, True, None),
        ({"schedulingConstraints": {"topology": []}}, None, False, None),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, None, False, "rack"),
    ],
)
def test_group_asks_for(spec: dict[str, Any], least: int | None, together: bool, key: str | None) -> None:
    found = msgspec.convert({"spec": spec}, PodGroup)
    assert (found.min_count, found.disrupts_all, found.topology_key) == (least, together, key)


@pytest.mark.parametrize(("policy", "least"), [({}, None), ({"basic": {}}, None), ({"gang": {"minGroupCount": 2}}, 2)])
def test_group_of_groups_asks_for(policy: dict[str, Any], least: int | None) -> None:
    found = msgspec.convert({"spec": {"schedulingPolicy": policy}}, CompositePodGroup)
    assert found.min_group_count == least


RULE = {"driver": "d", "pool": "p", "device": "v"}


@pytest.mark.parametrize(
    ("selector", "pool", "device"),
    [
        # whether any device of the pool may be meant, and whether this one is
        (None, False, False),
        ({}, True, True),
        (RULE, True, True),
        ({**RULE, "driver": "x"}, False, False),
        ({**RULE, "pool": "x"}, False, False),
        ({**RULE, "device": "x"}, True, False),
    ],
)
def test_which_devices_a_taint_is_for(selector: dict[str, str] | None, pool: bool, device: bool) -> None:
    """KEP-5055: without a selector none, with an empty one every device."""
    spec = {} if selector is None else {"deviceSelector": selector}
    found = msgspec.convert({"spec": spec}, DeviceTaintRule).spec
    assert (found.selects("d", "p"), found.selects("d", "p", "v")) == (pool, device)


@pytest.mark.parametrize(
    ("name", "parts"), [("a", ("driver", "a")), ("d.com/a", ("d.com", "a")), ("d/a/b", ("d", "a/b")), ("/a", ("", "a"))]
)
def test_driver_is_the_domain_of_names_without_one(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name, "driver") == parts
