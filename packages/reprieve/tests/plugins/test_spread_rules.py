"""PodTopologySpread rule by rule (kubernetes/kubernetes pkg/scheduler/framework/plugins/podtopologyspread)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects, owners
from kube_rules.topology_terms import HOSTNAME
from kube_rules.topology_terms import ZONE as SYSTEM_ZONE
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.plugins.pod_topology_spread import PodTopologySpread
from tests.building import World, node, pod, toleration
from tests.plugins.asking import UNRESOLVABLE, UNSCHEDULABLE, scores, verdicts
from tests.plugins.neighbours import HOST, ZONE, spread, spreading

WEB = {"app": "web"}
U, X = UNSCHEDULABLE, UNRESOLVABLE
ROOMS = [
    node("n1", labels={HOST: "n1", ZONE: "a"}),
    node("n2", labels={HOST: "n2", ZONE: "a"}),
    node("n3", labels={HOST: "n3", ZONE: "b"}),
    node("n4", labels={HOST: "n4"}),
]


def _web(*where: str, **more: Any) -> list[objects.Pod]:
    return [pod(f"r{i}", labels=WEB, node=name, **more) for i, name in enumerate(where)]


def _world(running: list[objects.Pod], *constraints: objects.TopologySpreadConstraint, **more: Any) -> World:
    return World(ROOMS, running, spreading(pod("p", labels=WEB, **more), *constraints))


@pytest.mark.parametrize(
    ("running", "constraints", "expected"),
    [
        pytest.param(["n1"], [spread(ZONE, WEB)], [U, U, 0, X], id="skew 2 in zone a"),
        pytest.param(["n1"], [spread(ZONE, WEB, skew=2)], [0, 0, 0, X], id="skew 2 allowed"),
        pytest.param(["n1", "n3"], [spread(ZONE, WEB)], [0, 0, 0, X], id="even"),
        pytest.param(["n1", "n3"], [spread(HOST, WEB)], [U, 0, U, 0], id="by hostname"),
        pytest.param(["n1"], [spread(ZONE, {"app": "db"})], [0, 0, 0, X], id="others do not count, nor does it itself"),
        pytest.param(["n1"], [spread(ZONE, {})], [0, 0, 0, X], id="an empty selector counts no pods"),
        pytest.param(["n1"], [spread(ZONE, None)], [0, 0, 0, X], id="an absent one neither"),
        pytest.param(["n1", "n3"], [spread(ZONE, WEB, domains=3)], [U, U, U, X], id="fewer domains than minDomains"),
        pytest.param(["n1", "n3"], [spread(ZONE, WEB, domains=2)], [0, 0, 0, X], id="as many domains"),
        pytest.param(
            ["n1", "n4"], [spread(ZONE, WEB, skew=2), spread(HOST, WEB)], [U, 0, 0, X], id="both constraints hold"
        ),
        pytest.param(["n1"], [spread("rack", WEB)], [X, X, X, X], id="no node has the label"),
        pytest.param(["n1"], [spread(ZONE, WEB, anyway=True)], [], id="a preference does not filter"),
    ],
)
def test_filter(running: list[str], constraints: list[objects.TopologySpreadConstraint], expected: list[int]) -> None:
    """skew = pods in the domain + 1 - the least of any eligible domain."""
    world = _world(_web(*running), *constraints)
    assert list(verdicts(world, PodTopologySpread()).values()) == expected


def test_pods_on_their_way_out_do_not_count() -> None:
    """A terminating pod is as good as gone."""
    world = _world(_web("n1", terminating=True), spread(ZONE, WEB))
    assert list(verdicts(world, PodTopologySpread()).values()) == [0, 0, 0, X]


def test_other_namespaces_do_not_count() -> None:
    """Constraints look at the pod's own namespace."""
    world = _world(_web("n1", namespace="other"), spread(ZONE, WEB))
    assert list(verdicts(world, PodTopologySpread()).values()) == [0, 0, 0, X]


@pytest.mark.parametrize(("policy", "expected"), [("Honor", 0), ("Ignore", U)])
def test_node_affinity_policy(policy: str, expected: int) -> None:
    """Honor: zones the pod may not use are no domains; Ignore: they count, and zone b is emptier."""
    world = _world(_web("n1"), spread(ZONE, WEB, affinity=policy), selector={ZONE: "a"})
    assert verdicts(world, PodTopologySpread())["n1"] == expected


@pytest.mark.parametrize(
    ("policy", "tolerates", "expected"), [("Ignore", False, U), ("Honor", False, 0), ("Honor", True, U)]
)
def test_node_taints_policy(policy: str, tolerates: bool, expected: int) -> None:
    """Honor: nodes with taints the pod does not tolerate are no domains."""
    tainted = node("n5", labels={ZONE: "c"}, taints=[("dedicated", "x", "NoSchedule")])
    tolerations = [toleration("dedicated", "Exists")] if tolerates else []
    world = World(ROOMS[0], tainted, _web("n1"))
    world.add(spreading(pod("p", labels=WEB, tolerations=tolerations), spread(ZONE, WEB, taints=policy)))
    assert verdicts(world, PodTopologySpread())["n1"] == expected


def test_match_label_keys() -> None:
    """Only pods of the same version count."""
    old = pod("old", labels={**WEB, "version": "1"}, node="n1")
    world = World(ROOMS, old)
    world.add(spreading(pod("p", labels={**WEB, "version": "2"}), spread(ZONE, WEB, match=["version"])))
    assert list(verdicts(world, PodTopologySpread()).values()) == [0, 0, 0, X]


@pytest.mark.parametrize(
    ("running", "constraints", "expected"),
    [
        # Zone a holds 2, b 0; ln(2 + 2) * 2 = 2.77 -> 3; 100 * (3 + 0 - 3) // 3 = 0
        pytest.param(["n1", "n2"], [spread(ZONE, WEB, anyway=True)], [0, 0, 100, 0], id="by zone, none without one"),
        pytest.param([], [spread(ZONE, WEB, anyway=True)], [100, 100, 100, 0], id="all empty: all 100"),
        # Four hosts: ln(6) * 1 = 1.79 -> 2; ln(6) * 2 = 3.58 -> 4; 100 * (4 + 0 - 2) // 4 = 50
        pytest.param(["n1", "n1", "n2"], [spread(HOST, WEB, anyway=True)], [0, 50, 100, 100], id="by hostname"),
        # maxSkew - 1 waters it down: 1.79 + 4 -> 6, 4; 100 * (6 + 4 - 6) // 6 = 66
        pytest.param(["n1"], [spread(HOST, WEB, skew=5, anyway=True)], [66, 100, 100, 100], id="a generous skew"),
        pytest.param(["n1"], [spread(HOST, WEB)], [], id="a rule that filters does not score"),
    ],
)
def test_scores(running: list[str], constraints: list[objects.TopologySpreadConstraint], expected: list[int]) -> None:
    """Pods * ln(domains + 2) + maxSkew - 1, rounded, reversed."""
    world = _world(_web(*running), *constraints)
    assert list(scores(world, PodTopologySpread()).values()) == expected


def _service(name: str = "web", labels: dict[str, str] | None = None) -> objects.Service:
    return objects.Service(
        metadata=objects.ObjectMeta(name=name, namespace="default"),
        spec=owners.ServiceSpec(selector=labels if labels is not None else WEB),
    )


def test_built_in_defaults_need_a_selector() -> None:
    """Pods of a service are spread over hosts and zones; without service or controller there is nothing to count."""
    zones = {"n1": "a", "n2": "a", "n3": "b"}
    rooms = [node(name, labels={HOST: name, SYSTEM_ZONE: zone}) for name, zone in zones.items()]
    world = World(rooms, node("n4", labels={HOST: "n4"}), _web("n1"), pod("p", labels=WEB))
    assert scores(world, PodTopologySpread()) == {}
    world.engine.cluster.default_selectors.set(_service(labels={"app": "db"}))
    assert scores(world, PodTopologySpread()) == {}
    world.engine.cluster.default_selectors.set(_service())
    # Hosts: ln(6) + 2 = 3.79, else 2. Zones a, b and none: ln(5) + 4 = 5.61 in a, 4 in b, n4 has none.
    # n1 9.4 -> 9, n2 7.6 -> 8, n3 6, n4 2: 100 * (11 - x) // 9
    assert list(scores(world, PodTopologySpread()).values()) == [22, 33, 55, 100]
    assert scores(world, PodTopologySpread((), system=False)) == {}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_controllers_have_selectors_too(kind: str) -> None:
    """The controller that owns the pod, by kind and name."""
    owner = objects.OwnerReference(
        api_version="v1" if kind == "ReplicationController" else "apps/v1", kind=kind, name="web", controller=True
    )
    meta = objects.ObjectMeta(name="web", namespace="default")
    selecting = owners.SelectingSpec(selector=objects.LabelSelector(match_labels=WEB))
    made: dict[str, Any] = {
        "ReplicaSet": owners.ReplicaSet(metadata=meta, spec=selecting),
        "StatefulSet": owners.StatefulSet(metadata=meta, spec=selecting),
        "ReplicationController": owners.ReplicationController(
            metadata=meta, spec=owners.ReplicationControllerSpec(selector=WEB)
        ),
    }
    item = pod("p", labels=WEB)
    owned = replace(item, metadata=replace(item.metadata, owner_references=(owner,)))
    world = World(ROOMS, _web("n1"), owned)
    assert scores(world, PodTopologySpread()) == {}
    world.engine.cluster.default_selectors.set(made[kind])
    assert scores(world, PodTopologySpread())["n4"] == 100
    assert world.engine.cluster.default_selectors.remove(kind, "default", "web")
    assert scores(world, PodTopologySpread()) == {}


def test_defaults_of_a_list_can_filter() -> None:
    """defaultingType List: constraints that filter, with the service's selector."""
    plugin = PodTopologySpread([spread(ZONE, None)], system=False)
    world = World(ROOMS, _web("n1"), pod("p", labels=WEB))
    assert verdicts(world, plugin) == {}
    world.engine.cluster.default_selectors.set(_service())
    assert list(verdicts(world, plugin).values()) == [U, U, 0, X]


@pytest.mark.parametrize(
    ("kind", "labels", "expected"),
    [
        (EventKind.POD_GONE, WEB, True),
        (EventKind.POD_GONE, {"app": "db"}, False),
        (EventKind.POD_TERMINATING, WEB, True),
        (EventKind.POD_PLACED, WEB, True),
        (EventKind.NODE_ADDED, WEB, True),
    ],
)
def test_hints(kind: EventKind, labels: dict[str, str], expected: bool) -> None:
    """scheduling.md 1: pods of the selector come or go, nodes have the keys."""
    world = _world([], spread(ZONE, WEB)).add(pod("e", labels=labels))
    event = ClusterEvent(kind, row=world.row("n1"), pod=world.record("e"))
    hint = PodTopologySpread().events()[kind]
    assert hint(world.engine.cluster, world.record("p"), event) is expected
    if kind is EventKind.NODE_ADDED:
        assert not hint(world.engine.cluster, world.record("p"), ClusterEvent(kind, row=world.row("n4")))


def test_hostname_key() -> None:
    """The name of the label is upstream's."""
    assert HOSTNAME == HOST
