"""Which events may help a pod that a plugin rejected (scheduling.md 1.4), asked of the hints themselves.

What an event of the queue wakes is in `../queueing/test_hints.py`; here are the cases in between: what is gone, what
changed in something else, what belongs to others.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.meta import KubernetesObject, ObjectMeta
from kube_rules.objects import NodeAffinity as Affinity
from kube_rules.storage import CSIDriver, PersistentVolume
from reprieve.cluster.extended_resources import ANNOTATION
from reprieve.framework.events import ClusterEvent, EventKind, always
from reprieve.framework.plugin import Plugin
from reprieve.plugins.dynamic_resources import DynamicResources
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.node_affinity import NodeAffinityPlugin
from reprieve.plugins.node_name import NodeName
from reprieve.plugins.node_ports import NodePorts
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.node_unschedulable import NodeUnschedulable
from reprieve.plugins.node_volume_limits import NodeVolumeLimits
from reprieve.plugins.pod_topology_spread import PodTopologySpread
from reprieve.plugins.scheduling_gates import SchedulingGates
from reprieve.plugins.taint_toleration import TaintToleration
from reprieve.plugins.volume_binding import VolumeBinding
from reprieve.plugins.volume_restrictions import VolumeRestrictions
from reprieve.plugins.volume_zone import VolumeZone
from tests.building import GPU, Item, World, node, pod, toleration
from tests.plugins import devices, storage
from tests.plugins.neighbours import HOST, ZONE, rules, spread, spreading, term

K = EventKind


def helps(plugin: Plugin, world: World, event: ClusterEvent, name: str = "p") -> bool:
    """The plugin's hint; an event that it does not register for helps no pods."""
    hint = plugin.events().get(event.kind)
    return hint is not None and hint(world.engine.cluster, world.record(name), event)


# -- pods that leave -----------------------------------------------------------------------------------------------

LEAVES: list[tuple[str, Plugin, dict[str, Any], dict[str, Any], bool]] = [
    ("cpu is wanted and freed", NodeResourcesFit(), {"cpu": 1}, {"cpu": 1}, True),
    ("however little", NodeResourcesFit(), {"cpu": 4}, {"cpu": "1m"}, True),
    ("something else is freed", NodeResourcesFit(), {"gpu": 1}, {"cpu": 1}, True),  # a place among the pods of a node
    ("one of two ports", NodePorts(), {"ports": [80, 81]}, {"ports": [81]}, True),
    ("another port", NodePorts(), {"ports": [80]}, {"ports": [81]}, False),
    ("the port of another protocol", NodePorts(), {"ports": [80]}, {"ports": [(80, "UDP")]}, False),
    ("the port of another address", NodePorts(), {"ports": [80]}, {"ports": [(80, "TCP", "10.0.0.1")]}, True),
    ("no port", NodePorts(), {"ports": [80]}, {}, False),
]


@pytest.mark.parametrize(("what", "plugin", "wants", "leaves", "helped"), LEAVES, ids=[case[0] for case in LEAVES])
def test_pod_that_leaves_helps_pods_that_want_what_it_had(
    what: str, plugin: Plugin, wants: dict[str, Any], leaves: dict[str, Any], helped: bool
) -> None:
    world = World(node("n", cpu=8, gpu=1), pod("p", **wants), pod("r", node="n", **leaves))
    assert helps(plugin, world, ClusterEvent(K.POD_GONE, pod=world.record("r"))) is helped, what
    assert helps(plugin, world, ClusterEvent(K.POD_GONE)), "room that was held"


# -- nodes ---------------------------------------------------------------------------------------------------------

PREFERS_ZONE_A = Affinity(
    required_during_scheduling_ignored_during_execution=storage.volume("v", zone="a").spec.node_affinity.required  # type: ignore[union-attr]
)
NODES: list[tuple[str, Plugin, dict[str, Any], dict[str, Any], bool]] = [
    ("exactly as large", NodeResourcesFit(), {"cpu": 4}, {"cpu": 4}, True),
    ("too small", NodeResourcesFit(), {"cpu": 4}, {"cpu": "3999m"}, False),
    ("too small in one of two", NodeResourcesFit(), {"cpu": 1, "memory": "2Gi"}, {"memory": "1Gi"}, False),
    ("without the resource", NodeResourcesFit(), {"cpu": 1, "gpu": 1}, {}, False),
    ("with the resource", NodeResourcesFit(), {"cpu": 1, "gpu": 1}, {"gpu": 1}, True),
    ("cordoned", NodeUnschedulable(), {}, {"unschedulable": True}, False),
    ("not cordoned", NodeUnschedulable(), {}, {}, True),
    ("tainted", TaintToleration(), {}, {"taints": [("k", "", "NoSchedule")]}, False),
    ("tainted softly", TaintToleration(), {}, {"taints": [("k", "", "PreferNoSchedule")]}, True),
    (
        "tainted and tolerated",
        TaintToleration(),
        {"tolerations": [toleration("k", "Exists")]},
        {"taints": [("k", "", "NoExecute")]},
        True,
    ),
    ("not selected", NodeAffinityPlugin(), {"selector": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}, False),
    ("selected", NodeAffinityPlugin(), {"selector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, True),
    ("no selector", NodeAffinityPlugin(), {}, {}, True),
    ("not what is added for all", NodeAffinityPlugin(PREFERS_ZONE_A), {}, {"labels": {storage.ZONE: "b"}}, False),
    ("what is added for all", NodeAffinityPlugin(PREFERS_ZONE_A), {}, {"labels": {storage.ZONE: "a"}}, True),
    (
        "only what is added for all",
        NodeAffinityPlugin(PREFERS_ZONE_A),
        {"selector": {"disk": "ssd"}},
        {"labels": {storage.ZONE: "a"}},
        False,
    ),
    ("any other", NodeName(), {}, {}, True),
    ("one more for ports", NodePorts(), {}, {}, True),
    ("one more for volumes", VolumeBinding(), {}, {}, True),
    ("one more for disks", VolumeRestrictions(), {}, {}, True),
    ("one more for zones", VolumeZone(), {}, {}, True),
    ("one more for devices", DynamicResources(), {}, {}, True),
    (
        "without a label of the terms",
        InterPodAffinity(),
        {"affinity": rules(near=[term(ZONE, {"app": "x"})])},
        {"labels": {HOST: "m"}},
        False,
    ),
    (
        "with one label of two terms",
        InterPodAffinity(),
        {"affinity": rules(near=[term(ZONE, {"app": "x"}), term("rack", {"app": "x"})])},
        {"labels": {"rack": "1"}},
        True,
    ),
    ("where there are no terms", InterPodAffinity(), {}, {}, True),
]


@pytest.mark.parametrize(("what", "plugin", "wants", "has", "helped"), NODES, ids=[case[0] for case in NODES])
def test_new_node_helps_pods_that_may_run_there(
    what: str, plugin: Plugin, wants: dict[str, Any], has: dict[str, Any], helped: bool
) -> None:
    """Its own row is looked at, whatever other nodes are like."""
    world = World(node("n", cpu="100m", unschedulable=True), node("m", **has), node("o"), pod("p", **wants))
    event = ClusterEvent(K.NODE_ADDED, row=world.row("m"))
    assert helps(plugin, world, event) is helped, what


@pytest.mark.parametrize(("labels", "helped"), [({ZONE: "a", "rack": "1"}, True), ({ZONE: "a"}, False), ({}, False)])
def test_node_needs_the_labels_of_all_constraints(labels: dict[str, str], helped: bool) -> None:
    """PodTopologySpread: one that lacks any is no place for the pod; of a node that goes or changes any may help."""
    item = spreading(pod("p", labels={"app": "x"}), spread(ZONE, {"app": "x"}), spread("rack", {"app": "x"}))
    world = World(node("n", labels=labels), item)
    assert helps(PodTopologySpread(), world, ClusterEvent(K.NODE_ADDED, row=0)) is helped
    assert helps(PodTopologySpread(), world, ClusterEvent(K.NODE_CHANGED, row=0))
    assert helps(PodTopologySpread(), world, ClusterEvent(K.NODE_REMOVED, row=0))


@pytest.mark.parametrize(
    ("namespace", "labels", "moved", "relabeled"),
    [
        ("default", {"app": "x"}, True, True),
        ("default", {"app": "y"}, False, True),
        ("other", {"app": "x"}, False, False),
    ],
)
def test_only_pods_of_the_namespace_that_are_selected_are_counted(
    namespace: str, labels: dict[str, str], moved: bool, relabeled: bool
) -> None:
    """PodTopologySpread; a pod with other labels now may have been counted before."""
    item = spreading(pod("p", labels={"app": "x"}), spread(ZONE, {"app": "x"}))
    world = World(node("n"), item, pod("o", namespace=namespace, labels=labels))
    other = world.record("o")
    for kind in (K.POD_PLACED, K.POD_GONE, K.POD_TERMINATING):
        assert helps(PodTopologySpread(), world, ClusterEvent(kind, pod=other)) is moved
    assert helps(PodTopologySpread(), world, ClusterEvent(K.POD_RELABELED, pod=other)) is relabeled
    for kind in (K.POD_PLACED, K.POD_GONE, K.POD_TERMINATING, K.POD_RELABELED):
        assert helps(PodTopologySpread(), world, ClusterEvent(kind))


@pytest.mark.parametrize(
    ("own", "theirs", "matters"),
    [
        (None, None, False),
        (rules(near=[term(ZONE, {"app": "x"})]), None, True),
        (rules(apart=[term(ZONE, {"app": "x"})]), None, True),
        (None, rules(apart=[term(ZONE, {"app": "x"})]), True),
    ],
)
def test_pod_that_changes_may_matter_where_there_are_terms(own: Any, theirs: Any, matters: bool) -> None:
    """InterPodAffinity: the pod's own required terms, or any of pods that are known."""
    world = World(node("n"), pod("p", affinity=own), pod("o", node="n", affinity=theirs))
    for kind in (K.POD_CHANGED, K.POD_RELABELED):
        assert helps(InterPodAffinity(), world, ClusterEvent(kind, pod=world.record("o"))) is matters


def test_gates_that_are_taken_off_are_all_that_helps_a_gated_pod() -> None:
    assert dict(SchedulingGates().events()) == {K.GATES_REMOVED: always}


# -- storage -------------------------------------------------------------------------------------------------------

_CLASS, _ZONED = storage.storage_class(), storage.storage_class(zones=["a"])
_NOW = storage.storage_class(wait=False)
_MARKED = replace(_CLASS, metadata=replace(_CLASS.metadata, labels={"a": "b"}))
_A, _B = (storage.volume("v", labels={storage.ZONE: zone}) for zone in "ab")
_PLAIN = replace(_A, metadata=replace(_A.metadata, annotations={"a": "b"}))
_NODE, _MIGRATED = storage.csi_node("n", {}), storage.csi_node("n", {}, migrated="kubernetes.io/aws-ebs")
_MORE = storage.csi_node("n", {"d": 3})
_CLAIM = storage.claim("c")

Change = tuple[str, Plugin, EventKind, KubernetesObject | None, KubernetesObject | None, bool]
STORED: list[Change] = [
    ("a class comes", VolumeBinding(), K.STORAGE_CLASS_CHANGED, None, _CLASS, True),
    ("a class goes", VolumeBinding(), K.STORAGE_CLASS_CHANGED, _CLASS, None, False),
    ("a class allows other zones", VolumeBinding(), K.STORAGE_CLASS_CHANGED, _CLASS, _ZONED, True),
    ("a class is labelled", VolumeBinding(), K.STORAGE_CLASS_CHANGED, _CLASS, _MARKED, False),
    ("a volume comes", VolumeBinding(), K.VOLUME_CHANGED, None, _A, True),
    ("a volume changes", VolumeBinding(), K.VOLUME_CHANGED, _A, _B, True),
    ("a volume goes", VolumeBinding(), K.VOLUME_CHANGED, _A, None, False),
    ("a node's drivers come", VolumeBinding(), K.CSI_NODE_CHANGED, None, _NODE, True),
    ("a node's drivers go", VolumeBinding(), K.CSI_NODE_CHANGED, _NODE, None, False),
    ("a plugin is migrated", VolumeBinding(), K.CSI_NODE_CHANGED, _NODE, _MIGRATED, True),
    ("a plugin is migrated no more", VolumeBinding(), K.CSI_NODE_CHANGED, _MIGRATED, _NODE, True),
    ("a limit changes", VolumeBinding(), K.CSI_NODE_CHANGED, _NODE, _MORE, False),
    ("a driver stops to publish", VolumeBinding(), K.CSI_DRIVER_CHANGED, storage.driver("d"), None, True),
    ("its claim", VolumeBinding(), K.CLAIM_CHANGED, None, _CLAIM, True),
    ("another claim", VolumeBinding(), K.CLAIM_CHANGED, None, storage.claim("d"), False),
    ("its claim changes", VolumeBinding(), K.CLAIM_CHANGED, _CLAIM, _CLAIM, True),
    ("a class that waits comes", VolumeZone(), K.STORAGE_CLASS_CHANGED, None, _CLASS, True),
    ("a class that does not wait comes", VolumeZone(), K.STORAGE_CLASS_CHANGED, None, _NOW, False),
    ("a class changes", VolumeZone(), K.STORAGE_CLASS_CHANGED, _NOW, _CLASS, False),
    ("a zone's class goes", VolumeZone(), K.STORAGE_CLASS_CHANGED, _CLASS, None, False),
    ("a volume of a zone comes", VolumeZone(), K.VOLUME_CHANGED, None, _A, True),
    ("a volume has another zone", VolumeZone(), K.VOLUME_CHANGED, _A, _B, True),
    ("a volume has another note", VolumeZone(), K.VOLUME_CHANGED, _A, _PLAIN, False),
    ("a volume of a zone goes", VolumeZone(), K.VOLUME_CHANGED, _A, None, False),
    ("the claim of a zone", VolumeZone(), K.CLAIM_CHANGED, _CLAIM, _CLAIM, True),
    ("the claim to share comes", VolumeRestrictions(), K.CLAIM_CHANGED, None, _CLAIM, True),
    ("the claim to share changes", VolumeRestrictions(), K.CLAIM_CHANGED, _CLAIM, _CLAIM, False),
    ("another claim to share", VolumeRestrictions(), K.CLAIM_CHANGED, None, storage.claim("d"), False),
    ("the claim to attach comes", NodeVolumeLimits(), K.CLAIM_CHANGED, None, _CLAIM, True),
    ("the claim to attach changes", NodeVolumeLimits(), K.CLAIM_CHANGED, _CLAIM, _CLAIM, False),
    ("a node's limits come", NodeVolumeLimits(), K.CSI_NODE_CHANGED, None, _MORE, True),
    ("a node's limits go", NodeVolumeLimits(), K.CSI_NODE_CHANGED, _MORE, None, True),
    ("a node's limits stay", NodeVolumeLimits(), K.CSI_NODE_CHANGED, _MORE, _MORE, False),
    ("another claim to attach", NodeVolumeLimits(), K.CLAIM_CHANGED, None, storage.claim("d"), False),
]


@pytest.mark.parametrize(
    ("what", "plugin", "kind", "before", "after", "helped"), STORED, ids=[case[0] for case in STORED]
)
def test_storage_events_that_help(
    what: str,
    plugin: Plugin,
    kind: EventKind,
    before: KubernetesObject | None,
    after: KubernetesObject | None,
    helped: bool,
) -> None:
    """Upstream's isSchedulableAfter... of volumebinding, volumezone, volumerestrictions and nodevolumelimits."""
    world = World(node("n"), storage.claim("c"), storage.claim("d"), storage.pod("p", "c"))
    assert helps(plugin, world, ClusterEvent(kind, before=before, item=after)) is helped, what


@pytest.mark.parametrize(
    ("leaves", "binding", "restrictions", "limits"),
    [
        (storage.pod("r", "c", node="n"), True, True, True),
        (storage.pod("r", "d", node="n"), True, False, True),
        (pod("r", node="n"), False, False, False),
    ],
)
def test_pod_that_leaves_gives_volumes_back(leaves: Item, binding: bool, restrictions: bool, limits: bool) -> None:
    """Volumes kept for it, a claim that one pod at a time may use, places to attach to."""
    world = World(node("n"), storage.claim("c"), storage.claim("d"), storage.pod("p", "c"), leaves, pod("q"))
    event = ClusterEvent(K.POD_GONE, pod=world.record("r"))
    assert helps(VolumeBinding(), world, event) is binding
    assert helps(VolumeRestrictions(), world, event) is restrictions
    assert helps(NodeVolumeLimits(), world, event) is limits
    assert not helps(VolumeRestrictions(), world, event, "q")
    for plugin in (VolumeBinding(), VolumeRestrictions(), NodeVolumeLimits()):
        assert helps(plugin, world, ClusterEvent(K.POD_GONE))


def test_events_of_another_kind_give_no_hint() -> None:
    """A hint does not take what it does not know for what it waits for."""
    world = World(node("n"), storage.claim("c"), storage.pod("p", "c"))
    stranger = CSIDriver(metadata=ObjectMeta(name="d"))
    assert not helps(VolumeBinding(), world, ClusterEvent(K.STORAGE_CLASS_CHANGED, item=stranger))
    assert not helps(VolumeZone(), world, ClusterEvent(K.VOLUME_CHANGED, item=stranger))
    assert helps(VolumeZone(), world, ClusterEvent(K.VOLUME_CHANGED, item=_A, before=stranger))
    assert isinstance(_A, PersistentVolume)


# -- devices -------------------------------------------------------------------------------------------------------

_FREE = devices.claim("c")
_TAKEN = devices.claim("c", status=devices.allocated((devices.DRIVER, "n", "gpu-0"), to=["uid-p"]))
_RESERVED = devices.claim("c", status=devices.allocated((devices.DRIVER, "n", "gpu-0"), to=["uid-p", "uid-q"]))
_NOTED = devices.claim("c", metadata={"annotations": {"a": "b"}})
_OTHER = devices.claim("d")
_OTHER_TAKEN = devices.claim("d", status=devices.allocated((devices.DRIVER, "n", "gpu-0")))
_ELSEWHERE = devices.claim("c", metadata={"namespace": "other"})
_SLICE, _KLASS = devices.slice_of("n", devices.devices(1)), devices.device_class()

DEVICES: list[tuple[str, EventKind, KubernetesObject | None, KubernetesObject | None, bool]] = [
    ("a slice comes", K.DEVICE_SLICE_CHANGED, None, _SLICE, True),
    ("a slice changes", K.DEVICE_SLICE_CHANGED, _SLICE, _SLICE, True),
    ("a slice goes", K.DEVICE_SLICE_CHANGED, _SLICE, None, False),
    ("a class comes", K.DEVICE_CLASS_CHANGED, None, _KLASS, True),
    ("a class goes", K.DEVICE_CLASS_CHANGED, _KLASS, None, False),
    ("its claim comes", K.DEVICE_CLAIM_CHANGED, None, _FREE, True),
    ("its claim is noted upon", K.DEVICE_CLAIM_CHANGED, _FREE, _NOTED, False),
    ("its claim is allocated", K.DEVICE_CLAIM_CHANGED, _FREE, _TAKEN, True),
    ("its claim is reserved", K.DEVICE_CLAIM_CHANGED, _TAKEN, _RESERVED, True),
    ("its claim is free", K.DEVICE_CLAIM_CHANGED, _TAKEN, _FREE, True),
    ("its claim goes with its devices", K.DEVICE_CLAIM_CHANGED, _TAKEN, None, True),
    ("its claim goes", K.DEVICE_CLAIM_CHANGED, _FREE, None, False),
    ("another claim comes", K.DEVICE_CLAIM_CHANGED, None, _OTHER, False),
    ("another claim is allocated", K.DEVICE_CLAIM_CHANGED, _OTHER, _OTHER_TAKEN, False),
    ("another claim gives its devices back", K.DEVICE_CLAIM_CHANGED, _OTHER_TAKEN, _OTHER, True),
    ("another claim goes with its devices", K.DEVICE_CLAIM_CHANGED, _OTHER_TAKEN, None, True),
    ("a claim of the name in another namespace", K.DEVICE_CLAIM_CHANGED, None, _ELSEWHERE, False),
]


@pytest.mark.parametrize(("what", "kind", "before", "after", "helped"), DEVICES, ids=[case[0] for case in DEVICES])
def test_device_events_that_help(
    what: str, kind: EventKind, before: KubernetesObject | None, after: KubernetesObject | None, helped: bool
) -> None:
    """Upstream's isSchedulableAfterClaimChange: devices that are free for any pod, and news of the pod's own claims."""
    world = World(node("n"), devices.device_class(), devices.claim("c"), devices.claim("d"), devices.user("p", "c"))
    assert helps(DynamicResources(), world, ClusterEvent(kind, before=before, item=after)) is helped, what


def test_news_of_a_claim_do_not_help_while_another_is_missing() -> None:
    """The pod could not be tried; devices that are given back count all the same."""
    world = World(node("n"), devices.device_class(), devices.claim("c"), devices.user("p", "c", "e"))
    assert not helps(DynamicResources(), world, ClusterEvent(K.DEVICE_CLAIM_CHANGED, item=_FREE))
    assert not helps(DynamicResources(), world, ClusterEvent(K.DEVICE_CLAIM_CHANGED, before=_FREE, item=_TAKEN))
    assert helps(DynamicResources(), world, ClusterEvent(K.DEVICE_CLAIM_CHANGED, before=_OTHER_TAKEN, item=_OTHER))


@pytest.mark.parametrize(
    ("owner", "made_for_it", "helped"), [("p", True, True), ("p", False, False), ("q", True, False)]
)
def test_claim_an_earlier_attempt_left_helps_by_going(owner: str, made_for_it: bool, helped: bool) -> None:
    """devices.md 4.6: the claim for the pod's own extended resources; one that merely changes is still in the way."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
    notes = {ANNOTATION: "true"} if made_for_it else {}
    item = devices.claim("left", metadata={"ownerReferences": [reference], "annotations": notes})
    world = World(node("n"), pod("p"), pod("q"))
    assert helps(DynamicResources(), world, ClusterEvent(K.DEVICE_CLAIM_CHANGED, before=item)) is helped
    assert not helps(DynamicResources(), world, ClusterEvent(K.DEVICE_CLAIM_CHANGED, before=item, item=item))


@pytest.mark.parametrize(("leaves", "helped"), [(devices.user("r", "d", node="n"), True), (pod("r", node="n"), False)])
def test_pod_that_leaves_gives_devices_back(leaves: Item, helped: bool) -> None:
    """What was only assumed for it is free; no other event will report it."""
    world = World(
        node("n"), devices.device_class(), devices.claim("c"), devices.claim("d"), devices.user("p", "c"), leaves
    )
    assert helps(DynamicResources(), world, ClusterEvent(K.POD_GONE, pod=world.record("r"))) is helped
    assert not helps(DynamicResources(), world, ClusterEvent(K.POD_GONE))


@pytest.mark.parametrize(
    ("item", "helped"),
    [
        (devices.device_class("gpu", extendedResourceName=GPU), True),
        (devices.device_class("other", extendedResourceName="example.com/x"), False),
        (devices.device_class("plain"), False),
        (None, False),
    ],
)
def test_class_that_serves_a_resource_helps_pods_that_request_it(item: KubernetesObject | None, helped: bool) -> None:
    """devices.md 4.1: nodes need not have it themselves any more; NodeResourcesFit had rejected the pod."""
    given = [item] if item is not None else []
    world = World(node("n"), *given, pod("p", gpu=1), pod("q", cpu=1))
    event = ClusterEvent(K.DEVICE_CLASS_CHANGED, item=item)
    assert helps(NodeResourcesFit(), world, event) is helped
    assert not helps(NodeResourcesFit(), world, event, "q")
