"""Which volumes the claims of a pod get on each node, where new ones can be made, and the reasons where not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.storage import SELECTED_NODE
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volume_matching import VolumeReach, delayed, match, split, topologies_mask, volume_limit
from reprieve.cluster.volumes import key_of
from tests.building import World, node
from tests.plugins.storage import ZONE, capacity, claim, driver, pod, storage_class, volume

CSI = "disk.example.com"
replace = msgspec.structs.replace


def _matched(*items: Any, labels: tuple[str, ...] = ("a", "b")) -> tuple[dict[str, list[str]], dict[str, list[bool]]]:
    """For each claim that p searches for the volume on each row ("" for none), and the rows of each reason."""
    world = World(*(node(f"n{i}", labels={ZONE: zone}) for i, zone in enumerate(labels)), *items)
    cluster, one = world.engine.cluster, world.record("p")
    bound, unbound = split(cluster.volumes, one)
    found = match(cluster, VolumeReach(), bound, unbound)
    gets = {
        each.metadata.name: [offered[number].metadata.name if number >= 0 else "" for number in taken.tolist()]
        for each, offered, taken in zip(found.searching, found.offered, found.taken, strict=True)
    }
    assert found.rejected(len(labels)).tolist() == [
        any(mask[row] for mask in found.reasons.values()) for row in range(len(labels))
    ]
    return gets, {text: mask.tolist() for text, mask in found.reasons.items()}


OFFERED: list[tuple[str, list[Any], list[str]]] = [
    ("none", [], ["", ""]),
    ("one", [volume("v", "3Gi")], ["v", "v"]),
    ("the smallest that is large enough", [volume("l", "5Gi"), volume("m", "3Gi"), volume("s", "1Gi")], ["m", "m"]),
    ("exactly large enough", [volume("v", "2Gi")], ["v", "v"]),
    ("too small", [volume("v", "1Gi")], ["", ""]),
    ("of two alike the first by name", [volume("w", "3Gi"), volume("v", "3Gi")], ["v", "v"]),
    ("in reach", [volume("v", "3Gi", zone="a"), volume("w", "4Gi", zone="b")], ["v", "w"]),
    ("a larger one where the smaller is out of reach", [volume("v", "3Gi", zone="b"), volume("w", "4Gi")], ["w", "v"]),
    ("of another class", [volume("v", "3Gi", of="other")], ["", ""]),
    ("of another volume mode", [volume("v", "3Gi", mode="Block")], ["", ""]),
    ("with more access modes", [volume("v", "3Gi", modes=["ReadWriteOnce", "ReadOnlyMany"])], ["v", "v"]),
    ("without the access mode", [volume("v", "3Gi", modes=["ReadOnlyMany"])], ["", ""]),
    ("released", [volume("v", "3Gi", phase="Released")], ["", ""]),
    ("of no phase yet", [volume("v", "3Gi", phase="")], ["v", "v"]),
    ("terminating", [replace(volume("v", "3Gi"), metadata=claim("x", deleted=True).metadata)], ["", ""]),
    ("held for it", [volume("h", "9Gi", held="c", zone="b"), volume("v", "3Gi")], ["", "h"]),
    ("held for it, whatever its labels and phase", [volume("h", "9Gi", held="c", phase="Bound", modes=[])], ["h", "h"]),
    ("held for it, too small", [volume("h", "1Gi", held="c"), volume("v", "3Gi")], ["v", "v"]),
    ("held for it, of another mode", [volume("h", "9Gi", held="c", mode="Block"), volume("v", "3Gi")], ["v", "v"]),
    ("held for another", [volume("h", "2Gi", held="other"), volume("v", "3Gi")], ["v", "v"]),
]


@pytest.mark.parametrize(("volumes", "gets"), [o[1:] for o in OFFERED], ids=[o[0] for o in OFFERED])
def test_volume_that_a_claim_gets_on_each_node(volumes: list[Any], gets: list[str]) -> None:
    """FindMatchingVolume of kube-scheduler."""
    found, reasons = _matched(storage_class(), claim("c", "2Gi"), *volumes, pod("p", "c"))
    assert found == {"c": gets}
    missing = [not one for one in gets]
    assert reasons == ({"node(s) didn't find available persistent volumes to bind": missing} if any(missing) else {})


@pytest.mark.parametrize(
    ("labels", "gets"), [({"tier": "fast"}, "v"), ({"tier": "slow"}, "w"), ({"tier": "none"}, ""), ({}, "w")]
)
def test_claim_may_ask_for_labels(labels: dict[str, str], gets: str) -> None:
    """Its selector; an empty one takes any volume."""
    volumes = [volume("v", "3Gi", labels={"tier": "fast"}), volume("w", "2Gi", labels={"tier": "slow"})]
    found, _ = _matched(storage_class(), claim("c", "1Gi", selector=labels), *volumes, pod("p", "c"))
    assert found == {"c": [gets, gets]}


def test_smaller_claims_choose_first_and_no_volume_serves_two() -> None:
    """Claims of a pod in the order of their sizes, node by node."""
    volumes = [volume("v1", "1Gi", zone="a"), volume("v2", "2Gi"), volume("v3", "3Gi", zone="b")]
    found, reasons = _matched(
        storage_class(), claim("big", "2Gi"), claim("small", "1Gi"), *volumes, pod("p", "big", "small", "big")
    )
    assert found == {"small": ["v1", "v2"], "big": ["v2", "v3"]}
    assert list(found) == ["small", "big"]
    assert reasons == {}


PROVISIONED: list[tuple[str, list[Any], dict[str, list[bool]]]] = [
    ("no class", [], {"find available": [True, True]}),
    ("no provisioner", [storage_class()], {"find available": [True, True]}),
    ("an empty provisioner", [storage_class(provisioner="")], {"find available": [True, True]}),
    ("a provisioner", [storage_class(provisioner=CSI)], {}),
    ("in some zones", [storage_class(provisioner=CSI, zones=["b"])], {"find available": [True, False]}),
    ("in no zone that there is", [storage_class(provisioner=CSI, zones=["z"])], {"find available": [True, True]}),
    (
        "enough in one zone",
        [storage_class(provisioner=CSI), driver(CSI), capacity("k", "a", "2Gi"), capacity("l", "b", "1Gi")],
        {"enough free storage": [False, True]},
    ),
    ("nothing published", [storage_class(provisioner=CSI), driver(CSI)], {"enough free storage": [True, True]}),
    ("the driver publishes none", [storage_class(provisioner=CSI), driver(CSI, capacities=False)], {}),
    (
        "of another class",
        [storage_class(provisioner=CSI), driver(CSI), capacity("k", "a", "9Gi", of="other")],
        {"enough free storage": [True, True]},
    ),
    (
        "the largest volume is smaller than what is left",
        [
            storage_class(provisioner=CSI),
            driver(CSI),
            capacity("k", "a", "9Gi", largest="1Gi"),
            capacity("l", "b", "1Gi", largest="2Gi"),
        ],
        {"enough free storage": [True, False]},
    ),
    (
        "outside of the zones, and not enough within",
        [storage_class(provisioner=CSI, zones=["b"]), driver(CSI), capacity("k", "a", "9Gi")],
        {"find available": [True, False], "enough free storage": [False, True]},
    ),
]


@pytest.mark.parametrize(("items", "reasons"), [p[1:] for p in PROVISIONED], ids=[p[0] for p in PROVISIONED])
def test_where_a_volume_can_be_made(items: list[Any], reasons: dict[str, list[bool]]) -> None:
    """CheckVolumeProvisioning of kube-scheduler; a class that waits for consumers is what it is about."""
    wait = storage_class() if not items else items[0]
    others = items[1:] if items else []
    one = claim("c", "2Gi") if items else claim("c", "2Gi", of="wait")
    _, found = _matched(wait, *others, one, pod("p", "c"))
    words = {
        "find available": "node(s) didn't find available persistent volumes to bind",
        "enough free storage": "node(s) did not have enough free storage",
    }
    assert found == {words[text]: rows for text, rows in reasons.items()}


def test_where_a_claim_that_has_its_node_is_made() -> None:
    """The node that the API, or a pod before, has chosen, and no other; one that is gone is none."""
    made = storage_class(provisioner=CSI)
    words = "node(s) didn't find available persistent volumes to bind"
    for where, rows in (("n1", [True, False]), ("gone", [True, True])):
        one = claim("c", annotations={SELECTED_NODE: where})
        gets, reasons = _matched(made, one, volume("v"), pod("p", "c"))
        assert (gets, reasons) == ({}, {words: rows})


def test_which_bound_volume_is_out_of_reach() -> None:
    """The first claim that is not right decides the reason, node by node."""
    conflict = "node(s) didn't match PersistentVolume's node affinity"
    missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    bound = [claim(name, volume=f"v{name}", bound=True) for name in "abc"]
    volumes = [volume("va", zone="a"), volume("vb", zone="b"), volume("vc")]
    _, reasons = _matched(*bound, *volumes, pod("p", "c", "a"))
    assert reasons == {conflict: [False, True]}
    _, reasons = _matched(*bound, *volumes, pod("p", "a", "b"))
    assert reasons == {conflict: [True, True]}
    _, reasons = _matched(*bound, volumes[0], pod("p", "a", "b"))
    assert reasons == {conflict: [False, True], missing: [True, False]}
    _, reasons = _matched(*bound, volumes[0], pod("p", "b", "a"))
    assert reasons == {missing: [True, True]}


def test_which_claims_wait_for_their_pod() -> None:
    """Of a class that says so, and without a volume; unknown and immediate ones are not a pod's to bind."""
    items = [
        storage_class(),
        storage_class("now", wait=False),
        claim("bound", volume="v", bound=True),
        claim("waits"),
        claim("named", volume="v"),
        claim("at-once", of="now"),
        claim("classless", of=""),
    ]
    world = World(
        node("n"), *items, pod("p", "nobody", "bound", "bound", "named", "at-once", "classless", "waits", "waits")
    )
    store = world.engine.cluster.volumes
    bound, unbound = split(store, world.record("p"))
    assert [one.metadata.name for one in bound] == ["bound"]
    assert [one.metadata.name for one in unbound] == ["waits"]
    assert [one.metadata.name for one in store.claims.values() if delayed(store, one)] == ["waits"]


@pytest.mark.parametrize(
    ("left", "largest", "limit"), [("1Ki", None, 1024), ("1Ki", "2Ki", 2048), (None, "3", 3), (None, None, None)]
)
def test_largest_volume_that_can_be_made(left: Any, largest: str | None, limit: int | None) -> None:
    """maximumVolumeSize goes before what is left."""
    assert volume_limit(capacity("k", "a", left, largest=largest)) == limit


def test_topologies_of_a_class() -> None:
    """Terms are alternatives, requirements of a term hold together; a term without any means no node."""
    state = ClusterState()
    for number, (zone, rack) in enumerate([("a", "1"), ("a", "2"), ("b", "1")]):
        state.set_node(node(f"n{number}", labels={ZONE: zone, "rack": rack}))
    state.set_node(node("bare"))

    def rows(*terms: dict[str, list[str]]) -> list[bool]:
        body = [{"matchLabelExpressions": [{"key": k, "values": v} for k, v in term.items()]} for term in terms]
        made = msgspec.convert(
            {"metadata": {"name": "c"}, "provisioner": CSI, "allowedTopologies": body}, type(storage_class())
        )
        return list(map(bool, topologies_mask(state.nodes, made)))

    assert rows() == [True] * 4
    assert rows({ZONE: ["a"]}) == [True, True, False, False]
    assert rows({ZONE: ["a", "b"], "rack": ["1"]}) == [True, False, True, False]
    assert rows({ZONE: ["b"]}, {"rack": ["2"]}) == [False, True, True, False]
    assert rows({}) == [False] * 4
    assert rows({ZONE: ["nowhere"]}) == [False] * 4


# -- pods of one trial ------------------------------------------------------------------------------------------------


def test_later_pods_of_a_trial_see_what_earlier_ones_have_chosen() -> None:
    """A volume serves one claim; a claim that is to be made for a node is made there for all of its users."""
    world = World(
        node("n0"),
        node("n1"),
        storage_class(),
        storage_class("made", provisioner=CSI),
        claim("c"),
        claim("d"),
        claim("m", of="made"),
        volume("v"),
        volume("w", "2Gi"),
        pod("a", "c", "m"),
        pod("b", "d", "m"),
        pod("e", "d"),
        pod("bare", "gone"),
    )
    cluster = world.engine.cluster
    a, b = world.record("a"), world.record("b")

    def asks(one: Any) -> tuple[list[str], list[str], dict[str, list[bool]]]:
        bound, unbound = split(cluster.volumes, one)
        found = match(cluster, VolumeReach(), bound, unbound)
        volumes, rest = found.on_row(0)
        chosen = sorted(f"{key} {each.metadata.name}" for key, each in volumes.items())
        return chosen, sorted(key_of(each) for each in rest), {t: mask.tolist() for t, mask in found.reasons.items()}

    alone = asks(b)
    assert alone == (["default/d v"], ["default/m"], {})
    elsewhere = {"node(s) didn't find available persistent volumes to bind": [False, True]}
    with cluster.trial():
        cluster.place(a, 0)
        cluster.place(world.record("bare"), 0)
        assert asks(b) == (["default/d w"], ["default/m"], elsewhere)
        cluster.place(b, 0)
        assert asks(world.record("e")) == (["default/d w"], [], {}), "its claim has that one"
        assert [each.taken for each in cluster.volumes.unsettled.values()] == [
            {"v": "default/c"},
            {},
            {"w": "default/d"},
        ]
        cluster.displace(a)
        assert asks(world.record("a"))[0] == ["default/c v"]
    assert asks(b) == alone


def test_pods_of_a_trial_choose_in_the_order_in_which_they_were_placed() -> None:
    """Also a pod that was taken off within another trial, and is back: as if that had not been tried."""
    world = World(
        node("n0"),
        storage_class(),
        *(claim(name) for name in "cde"),
        *(volume(name, f"{size}Gi") for size, name in enumerate("uvw", start=1)),
        *(pod(name, of) for name, of in zip("abx", "cde", strict=True)),
    )
    cluster = world.engine.cluster
    a, b = world.record("a"), world.record("b")
    with cluster.trial():
        cluster.place_all([a, b], [0, 0])
        for taken_off in ([a], [b], [a, b], [b, a]):
            with cluster.trial():
                cluster.displace_all(taken_off)
            assert [each.pod.name for each in cluster.volumes.unsettled.values()] == ["a", "b"]
        bound, unbound = split(cluster.volumes, world.record("x"))
        volumes, _ = match(cluster, VolumeReach(), bound, unbound).on_row(0)
        assert [each.metadata.name for each in volumes.values()] == ["w"]
        assert [each.taken for each in cluster.volumes.unsettled.values()] == [{"u": "default/c"}, {"v": "default/d"}]
