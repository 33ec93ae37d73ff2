"""Pods and the features that nodes declare (docs/rules/devices.md 2)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.decoding import decode_object
from kube_rules.node_features import needed_features
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.node_declared_features import LACKING, NodeDeclaredFeatures
from tests import manifests
from tests.building import World, node
from tests.building import pod as plain_pod
from tests.plugins.asking import FITS, UNRESOLVABLE, reasons, verdicts

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
MOUNTS = "VolumeBindMountOptions"
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


def declaring(name: str, *features: str, **more: Any) -> objects.Node:
    found = node(name, **more)
    return replace(found, status=replace(found.status, declared_features=features))


def manifest(name: str = "p", **spec: Any) -> dict[str, Any]:
    return manifests.pod(name, meta={"namespace": "default", "uid": f"uid-{name}"}, **spec)


def pod(name: str = "p", **spec: Any) -> objects.Pod:
    found = decode_object(manifest(name, **spec))
    assert isinstance(found, objects.Pod)
    return found


def container(name: str = "c", **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more}]


OPTIONS = [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]

NEEDS = [
    pytest.param({}, (), id="nothing"),
    pytest.param({"containers": container(restartPolicyRules=[RULE])}, (RESTART,), id="restart-rule"),
    pytest.param({"initContainers": container("i", restartPolicyRules=[RULE])}, (RESTART,), id="of-an-init-container"),
    pytest.param({"containers": container(restartPolicyRules=[{"action": "Restart"}])}, (), id="another-action"),
    pytest.param({"hostNetwork": True, "hostUsers": False}, (USERS,), id="own-users-on-the-host-network"),
    pytest.param({"hostNetwork": True, "hostUsers": True}, (), id="the-hosts-users"),
    pytest.param({"hostNetwork": True}, (), id="users-not-said"),
    pytest.param({"hostUsers": False}, (), id="own-users-alone"),
    pytest.param({"containers": container(volumeMounts=OPTIONS)}, (MOUNTS,), id="mount-options"),
    pytest.param({"initContainers": container("i", volumeMounts=OPTIONS)}, (MOUNTS,), id="mount-options-of-init"),
    pytest.param(
        {"ephemeralContainers": container("e", volumeMounts=OPTIONS)}, (MOUNTS,), id="mount-options-of-ephemeral"
    ),
    pytest.param({"containers": container(volumeMounts=[{"name": "v", "mountPath": "/v"}])}, (), id="plain-mount"),
    pytest.param(
        {
            "hostNetwork": True,
            "hostUsers": False,
            "containers": container(restartPolicyRules=[RULE], volumeMounts=OPTIONS),
        },
        (RESTART, USERS, MOUNTS),
        id="all",
    ),
]


@pytest.mark.parametrize(("spec", "needed"), NEEDS)
def test_pod_needs_features(spec: dict[str, Any], needed: tuple[str, ...]) -> None:
    """devices.md 2.2"""
    assert needed_features(pod(**spec).spec) == needed


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ((), UNRESOLVABLE),
        ((RESTART,), UNRESOLVABLE),
        ((USERS,), FITS),
        ((RESTART, USERS, MOUNTS), FITS),
        (("ExtendWebSocketsToKubelet",), UNRESOLVABLE),
        (("ExtendWebSocketsToKubelet", USERS), FITS),
    ],
)
def test_nodes_that_declare_less_are_rejected(declared: tuple[str, ...], code: int) -> None:
    """devices.md 2.3, 2.5"""
    world = World(declaring("n1", *declared), pod(hostNetwork=True, hostUsers=False))
    assert verdicts(world, NodeDeclaredFeatures()) == {"n1": code}
    assert reasons(world, NodeDeclaredFeatures()) == ({"n1": [LACKING]} if code else {})
    assert verdicts(world, NodeDeclaredFeatures(on=False)) == {}


def test_pod_that_needs_nothing_goes_anywhere() -> None:
    world = World(node("n1"), pod())
    assert verdicts(world, NodeDeclaredFeatures()) == {}
    assert world.settle().where == {"p": "n1"}


def test_unlike_pods_do_not_share_answers() -> None:
    """scheduling.md 4.3: what a pod needs is part of its signature."""
    needs = {"hostNetwork": True, "hostUsers": False}
    world = World(node("n1"), declaring("n2", USERS), pod("a"), pod("b", **needs), pod("c"), pod("d", **needs))
    assert world.settle().where["b"] == "n2"
    assert world.where["d"] == "n2"


def test_pod_waits_until_a_node_declares_its_feature() -> None:
    """devices.md 2.3-2.4; the message is that of kube-scheduler."""
    world = World(node("n1", cpu=1), plain_pod("old", cpu=1, node="n1", priority=0))
    world.add(pod("p", hostNetwork=True, hostUsers=False, priority=9)).settle()
    assert world.where == {"old": "n1"}
    world.add(declaring("n1", RESTART, cpu=1)).settle()
    assert world.where == {"old": "n1"}
    world.add(declaring("n1", USERS, cpu=1)).settle()
    assert world.where == {"old": "n1", "p": "n1"}


@pytest.mark.parametrize(("declared", "wakes"), [((), False), ((RESTART,), False), ((RESTART, USERS), True)])
@pytest.mark.parametrize("kind", [EventKind.NODE_ADDED, EventKind.NODE_CHANGED])
def test_which_node_wakes_it(declared: tuple[str, ...], wakes: bool, kind: EventKind) -> None:
    """devices.md 2.4"""
    world = World(declaring("n1", *declared), pod(hostNetwork=True, hostUsers=False))
    row = world.engine.cluster.nodes.row_of["n1"]
    hint = NodeDeclaredFeatures().events()[kind]
    assert hint(world.engine.cluster, world.record("p"), ClusterEvent(kind, row=row)) is wakes


def test_many_declarations_are_few_columns() -> None:
    """What decides nothing is not kept: the sets told apart are bounded whatever nodes declare."""
    world = World(*(declaring(f"n{i}", f"Feature{i}") for i in range(50)), declaring("x", USERS))
    assert world.engine.cluster.nodes.feature_sets == [frozenset(), frozenset({USERS})]


def test_gate_is_on() -> None:
    """devices.md 2.5"""
    assert FeatureGates().node_declared_features
    assert not FeatureGates.parse("NodeDeclaredFeatures=false").node_declared_features
    assert FeatureGates.parse("AllBeta=false").node_declared_features, "finished features are of no group"
