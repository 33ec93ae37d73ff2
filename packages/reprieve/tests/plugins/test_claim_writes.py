"""What is written for claims of devices and of storage, whole, and in namespaces that are not the default one.

devices.md 1 and 4; kubernetes/kubernetes pkg/scheduler/framework/plugins/dynamicresources and volumebinding.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import KubernetesObject
from reprieve.framework.claim_writes import give_back, readiness
from reprieve.framework.instructions import AwaitObject, PatchObject
from reprieve.framework.status import Code
from reprieve.plugins.dynamic_resources import DynamicResources
from reprieve.plugins.volume_binding import VolumeBinding
from tests.building import World, node
from tests.plugins.devices import DRIVER, Json, allocated, claim, device, device_class, devices, slice_of, user
from tests.plugins.storage import claim as volume_claim
from tests.plugins.storage import pod as pod_with
from tests.plugins.storage import storage_class, volume

FINALIZER = "resource.kubernetes.io/delete-protection"


def within(item: Any, namespace: str) -> Any:
    """The object in another namespace."""
    return replace(item, metadata=replace(item.metadata, namespace=namespace))


def settled(item: KubernetesObject, **fields: Any) -> Any:
    """The object with other metadata."""
    return replace(item, metadata=replace(item.metadata, **fields))


@pytest.mark.parametrize("namespace", ["default", "team"])
def test_claim_is_written_where_it_is(namespace: str) -> None:
    """Finalizer, then allocation and reservation, then the wait: all of the claim by its UID."""
    slow = device("slow", bindingConditions=["Ready"])
    items = (within(claim("c"), namespace), within(user("p", "c"), namespace))
    world = World(node("n1"), device_class(), slice_of("n1", [slow]), *items)
    (binding,) = world.step().bindings
    finalizer, status, wait = binding.pre_bind
    assert isinstance(finalizer, PatchObject)
    assert isinstance(status, PatchObject)
    assert isinstance(wait, AwaitObject)
    for each in (finalizer, status):
        assert (each.kind, each.namespace, each.name, each.uid) == ("ResourceClaim", namespace, "c", "uid-claim-c")
        assert each.strategic
    assert (finalizer.subresource, status.subresource) == ("", "status")
    assert (wait.kind, wait.namespace, wait.name) == ("ResourceClaim", namespace, "c")
    assert wait.done(None).reason == f"claim {namespace}/c is gone"


def test_claim_that_has_the_finalizer_is_not_given_it_again() -> None:
    kept = claim("c", metadata={"finalizers": ["other", FINALIZER]})
    world = World(node("n1"), device_class(), slice_of("n1", devices(1)), kept, user("p", "c"))
    (binding,) = world.step().bindings
    (status,) = binding.pre_bind
    assert isinstance(status, PatchObject)
    assert set(status.patch["status"]) == {"allocation", "reservedFor"}


def test_every_claim_of_a_pod_is_written_and_only_those_that_need_it() -> None:
    """One that is allocated is reserved, one that is reserved left alone, whatever comes after them."""
    world = World(
        node("n1"),
        device_class(),
        slice_of("n1", devices(3)),
        claim("a", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-p"])),
        claim("b", status=allocated((DRIVER, "n1", "gpu-1"), to=["uid-q"])),
        claim("c"),
        user("p", "a", "b", "c"),
    )
    (binding,) = world.step().bindings
    patches = [
        (one.name, one.subresource, sorted(one.patch)) for one in binding.pre_bind if isinstance(one, PatchObject)
    ]
    assert patches == [("b", "status", ["status"]), ("c", "", ["metadata"]), ("c", "status", ["status"])]


@pytest.mark.parametrize("namespace", ["default", "team"])
@pytest.mark.parametrize("reported", [False, True])
def test_unused_allocation_is_given_back_as_it_was_read(namespace: str, reported: bool) -> None:
    """By UID and version; what devices reported goes with them, as only what is allocated may have a status."""
    status = allocated((DRIVER, "n1", "gpu-0"))
    if reported:
        status["devices"] = [{"driver": DRIVER, "pool": "n1", "device": "gpu-0"}]
    item = within(settled(claim("c", status=status), resource_version="7"), namespace)
    world = World(node("n1"), device_class(), item)
    patch = give_back(world.engine.cluster.devices.claims[f"{namespace}/c"])
    assert (patch.kind, patch.namespace, patch.name, patch.subresource) == ("ResourceClaim", namespace, "c", "status")
    assert (patch.uid, patch.resource_version, patch.strategic) == ("uid-claim-c", "7", False)
    wanted: Json = {"allocation": None, "reservedFor": None}
    assert patch.patch == {"status": {**wanted, "devices": None} if reported else wanted}


@pytest.mark.parametrize("there", [{}, {"status": None}, {"status": {"allocation": None}}, {"status": {}}])
def test_claim_without_allocation_is_not_given_back_again(there: Json) -> None:
    world = World(node("n1"), device_class(), claim("c", status=allocated((DRIVER, "n1", "gpu-0"))))
    patch = give_back(world.engine.cluster.devices.claims["default/c"])
    assert patch.again is not None
    assert not patch.again(there)


def test_claim_of_the_pod_alone_is_given_back() -> None:
    """ReservePlugin.give_up: claims that others hold or are listed for stay, and do not hide the next."""
    world = World(
        node("n1", cpu=8),
        device_class(),
        slice_of("n1", devices(6)),
        *(claim(name) for name in ("held", "own", "second")),
        claim("listed", status=allocated((DRIVER, "n1", "gpu-5"), to=["uid-other"])),
        user("q", "held", node="n1"),
        user("p", "held", "listed", "own", "second"),
    )
    (binding,) = world.step().bindings
    assert binding.pod.name == "p"
    plugin, state = DynamicResources(), world.state("p")
    assert plugin.reserve(state, 0).ok
    patches = [one.name for one in plugin.give_up(state, 0) if isinstance(one, PatchObject)]
    assert patches == ["own", "second"]


@pytest.mark.parametrize("status", [{}, allocated((DRIVER, "n1", "gpu-0"), to=["uid-q"])])
def test_claim_not_assumed_for_the_pod_cannot_be_reserved(status: Json) -> None:
    """A claim without devices, and one with devices that were not assumed for this pod."""
    world = World(node("n1"), device_class(), claim("c", status=status), user("p", "c"))
    refused = DynamicResources().reserve(world.state("p"), 0)
    assert (refused.code, refused.reason) == (Code.ERROR, "claim allocation of default/c not found for node")


# -- are the devices ready ----------------------------------------------------------------------------------------

READY: list[tuple[str, list[Json], dict[str, list[str]], str]] = [
    # what: (devices of the claim, conditions that are true by device, code)
    ("nothing to wait for", [{}], {}, "SUCCESS"),
    ("nothing to wait for, whatever is reported", [{"fail": ["F"]}], {"d0": ["F"]}, "SUCCESS"),
    ("not yet", [{"ready": ["R"]}], {}, "WAIT"),
    ("ready", [{"ready": ["R"]}], {"d0": ["R"]}, "SUCCESS"),
    ("one of two conditions", [{"ready": ["R", "S"]}], {"d0": ["R"]}, "WAIT"),
    ("both conditions", [{"ready": ["R", "S"]}], {"d0": ["S", "R"]}, "SUCCESS"),
    ("another device is ready", [{"ready": ["R"]}], {"d1": ["R"]}, "WAIT"),
    ("the second of two is not", [{"ready": ["R"]}, {"ready": ["R"]}], {"d0": ["R"]}, "WAIT"),
    ("the first of two is not", [{"ready": ["R"]}, {"ready": ["R"]}], {"d1": ["R"]}, "WAIT"),
    ("after one that needs nothing", [{}, {"ready": ["R"]}], {}, "WAIT"),
    ("failed", [{"ready": ["R"], "fail": ["F"]}], {"d0": ["R", "F"]}, "UNSCHEDULABLE"),
    ("failed while another waits", [{"ready": ["R"]}, {"ready": ["R"], "fail": ["F"]}], {"d1": ["F"]}, "UNSCHEDULABLE"),
    ("the second failure", [{"ready": ["R"], "fail": ["E", "F"]}], {"d0": ["F"]}, "UNSCHEDULABLE"),
]


@pytest.mark.parametrize(("what", "given", "true", "code"), READY, ids=[case[0] for case in READY])
def test_when_devices_are_ready(what: str, given: list[Json], true: dict[str, list[str]], code: str) -> None:
    """DeviceBindingConditions (KEP-5007): all of every device, and none of those that say that it failed."""
    results = [
        {
            "request": "r",
            "driver": DRIVER,
            "pool": "n1",
            "device": f"d{index}",
            "bindingConditions": one.get("ready", []),
            "bindingFailureConditions": one.get("fail", []),
        }
        for index, one in enumerate(given)
    ]
    stated = [
        {
            "driver": DRIVER,
            "pool": "n1",
            "device": name,
            "conditions": [
                {"type": "F", "status": "False"},
                *({"type": kind, "status": "True", "reason": "Why", "message": "m"} for kind in kinds),
            ],
        }
        for name, kinds in true.items()
    ]
    item = claim("c", status={"allocation": {"devices": {"results": results}}, "devices": stated})
    world = World(node("n1"), device_class(), item)
    allocation = world.engine.cluster.devices.claims["default/c"].stated
    assert allocation is not None
    found = readiness("default/c", item, allocation.grants)
    assert found.code is Code[code], what
    if code == "UNSCHEDULABLE":
        assert found.reason == 'claim default/c binding failed: reason=Why, message="m"'


@pytest.mark.parametrize(
    ("reported", "ready"),
    [
        ({}, True),
        ({"driver": "other.example.com"}, False),
        ({"pool": "n2"}, False),
        ({"device": "y"}, False),
        ({"shareID": "s"}, False),
        ({"shareID": ""}, True),
        ({"conditions": None}, False),
        ({"conditions": [{"type": "R", "status": "False"}]}, False),
    ],
)
def test_condition_counts_for_the_device_it_is_of(reported: Json, ready: bool) -> None:
    """Driver, pool, device and share all have to be those of the result."""
    status = allocated((DRIVER, "n1", "x"), bindingConditions=["R"])
    own = {"driver": DRIVER, "pool": "n1", "device": "x", "conditions": [{"type": "R", "status": "True"}]}
    item = claim("c", status={**status, "devices": [{**own, **reported}]})
    world = World(node("n1"), device_class(), item)
    allocation = world.engine.cluster.devices.claims["default/c"].stated
    assert allocation is not None
    assert readiness("default/c", item, allocation.grants).ok is ready


# -- who may use a claim ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "refused"),
    [
        (255, False),
        (256, True),
    ],
)
@pytest.mark.parametrize("among", [False, True])
def test_claim_serves_256_consumers(listed: int, refused: bool, among: bool) -> None:
    """resourceapi.ResourceClaimReservedForMaxSize; a pod that is one of them already may stay."""
    consumers = [f"uid-{i}" for i in range(listed - among)] + ["uid-p"] * among
    item = claim("c", status=allocated((DRIVER, "n1", "x"), to=consumers))
    world = World(node("n1"), device_class(), item, user("p", "c"))
    status = DynamicResources().pre_filter(world.state("p"))
    assert status.reason == ("resourceclaim in use" if refused and not among else "")
    assert status.ok is not (refused and not among)


@pytest.mark.parametrize("owner", [{}, {"controller": False}, {"uid": "uid-other"}])
def test_claim_made_from_a_template_has_to_be_the_pod_s(owner: Json) -> None:
    """Its controller is the pod, by UID."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True, **owner}
    made = claim("c", metadata={"ownerReferences": [reference]})
    item = user("p", templates=["t"])
    made_from = objects.PodResourceClaimStatus(name="t", resource_claim_name="c")
    item = replace(item, status=replace(item.status, resource_claim_statuses=(made_from,)))
    world = World(node("n1"), device_class(), made, item)
    status = DynamicResources().pre_enqueue(world.engine.cluster, world.record("p"))
    text = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
    assert status.reason == (text if owner else "")
    assert status.code is (Code.UNRESOLVABLE if owner else Code.SUCCESS)


def test_without_claims_the_plugin_does_nothing() -> None:
    """Skipped, not scored, nothing written, nothing given back."""
    world = World(node("n1"), user("p"))
    plugin, state = DynamicResources(), world.state("p")
    assert plugin.pre_filter(state).code is Code.SKIP
    assert not plugin.concerns(state)
    assert not plugin.pre_score(state)
    assert plugin.pre_enqueue(world.engine.cluster, world.record("p")).ok
    assert plugin.reserve(state, 0).ok
    assert plugin.pre_bind(state, 0) == []
    assert plugin.give_up(state, 0) == []
    assert plugin.post_filter(state, None).status.reason == "no new claims to deallocate"  # type: ignore[arg-type]


# -- volumes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", ["default", "team"])
def test_volume_is_bound_to_the_claim_where_that_is(namespace: str) -> None:
    """The claimRef with the claim's namespace, UID and version; the wait for it there."""
    wanted = within(settled(volume_claim("c"), resource_version="9"), namespace)
    world = World(node("n1"), storage_class(), wanted, volume("v"), within(pod_with("p", "c"), namespace))
    (binding,) = world.step().bindings
    patch, wait = binding.pre_bind
    assert isinstance(patch, PatchObject)
    assert patch.patch["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": "c",
        "uid": "uid-c",
        "resourceVersion": "9",
    }
    assert isinstance(wait, AwaitObject)
    assert (wait.namespace, wait.name) == (namespace, "c")


@pytest.mark.parametrize("namespace", ["default", "team"])
def test_claim_is_given_its_node_where_it_is(namespace: str) -> None:
    """The annotation that external provisioners wait for, by the UID and version that were read."""
    wanted = within(settled(volume_claim("c"), resource_version="9"), namespace)
    klass = storage_class(provisioner="disk.example.com")
    world = World(node("n1"), klass, wanted, within(pod_with("p", "c"), namespace))
    (binding,) = world.step().bindings
    patch, _ = binding.pre_bind
    assert isinstance(patch, PatchObject)
    assert (patch.kind, patch.namespace, patch.name) == ("PersistentVolumeClaim", namespace, "c")
    assert (patch.uid, patch.resource_version) == ("uid-c", "9")
    assert patch.patch == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}


def test_volume_held_for_the_claim_is_not_the_controller_s_work() -> None:
    """pv.kubernetes.io/bound-by-controller says that a claim did not ask for this very volume beforehand."""
    world = World(node("n1"), storage_class(), volume_claim("c"), volume("v", held="c"), pod_with("p", "c"))
    (binding,) = world.step().bindings
    patch = binding.pre_bind[0]
    assert isinstance(patch, PatchObject)
    assert set(patch.patch) == {"spec"}


def _wait(*items: Any, chosen: bool) -> tuple[World, AwaitObject]:
    klass = storage_class(provisioner="disk.example.com") if chosen else storage_class()
    world = World(node("n1", labels={"topology.kubernetes.io/zone": "a"}), klass, volume_claim("c"), *items)
    world.add(pod_with("p", "c"))
    (binding,) = world.step().bindings
    wait = binding.pre_bind[-1]
    assert isinstance(wait, AwaitObject)
    return world, wait


SELECTED = "volume.kubernetes.io/selected-node"


@pytest.mark.parametrize(
    ("seen", "codes"),
    [
        ([{}, {}], ["WAIT", "WAIT"]),
        ([{SELECTED: "n1"}, {SELECTED: "n1"}], ["WAIT", "WAIT"]),
        ([{}, {SELECTED: "n1"}, {}], ["WAIT", "WAIT", "ERROR"]),
        ([{SELECTED: "n2"}], ["ERROR"]),
        ([{SELECTED: "n1"}, {SELECTED: "n2"}], ["WAIT", "ERROR"]),
    ],
)
def test_claim_that_loses_its_node_was_not_provisioned(seen: list[dict[str, str]], codes: list[str]) -> None:
    """Upstream's checkBindings: "provisioning failed"; that it has no node yet may be old news."""
    _, wait = _wait(chosen=True)
    found = [wait.done(volume_claim("c", annotations=notes)) for notes in seen]
    assert [status.code.name for status in found] == codes
    for status in found:
        if status.code is Code.ERROR:
            assert status.reason == 'binding volumes: provisioning failed for PVC "c"'
            assert status.plugin == VolumeBinding.name


def test_claim_that_was_not_given_a_node_may_have_none() -> None:
    """It is bound to a volume that was there: a note about a node is not looked at."""
    _, wait = _wait(volume("v"), chosen=False)
    for notes in ({SELECTED: "n2"}, {}, {SELECTED: "n1"}, {}):
        assert wait.done(volume_claim("c", annotations=notes)).code is Code.WAIT


@pytest.mark.parametrize(
    ("zone", "code", "reason"),
    [
        ("a", "SUCCESS", ""),
        (None, "SUCCESS", ""),
        ("b", "ERROR", 'binding volumes: pv "w" node affinity doesn\'t match node "n1"'),
    ],
)
def test_bound_claim_has_to_be_in_reach(zone: str | None, code: str, reason: str) -> None:
    """What another controller bound it to meanwhile; a volume that is not seen yet is waited for."""
    world, wait = _wait(chosen=True)
    bound = volume_claim("c", volume="w", bound=True)
    assert wait.done(bound).code is Code.WAIT
    world.engine.set(volume("w", zone=zone), world.now)
    assert (wait.done(bound).code.name, wait.done(bound).reason) == (code, reason)
    gone = wait.done(None)
    assert gone.code is Code.ERROR
    assert gone.reason == 'binding volumes: failed to check binding: persistentvolumeclaim "c" not found'
