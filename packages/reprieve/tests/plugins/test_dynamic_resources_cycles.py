"""DynamicResources in whole cycles: gangs, preemption, scores, what is written at binding, configuration."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules import objects
from kube_rules.errors import InputError
from kube_rules.meta import ObjectRef
from reprieve.framework.claim_writes import give_back, readiness
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import AwaitObject, PatchObject
from reprieve.framework.status import Code
from reprieve.inputs.loader import read
from reprieve.plugins.dynamic_resources import DynamicResources, _failed
from reprieve.scheduling.plugin_args import dynamic_resources
from reprieve.simulation.plan import PlanOptions, plan
from tests.building import Item, World, gang, node, pod
from tests.plugins.devices import (
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    devices,
    first_of,
    got,
    option,
    request,
    slice_of,
    template,
    user,
    why,
)

FIT = "0/1 nodes are available: "
PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def world_of(*items: Item | list[Item], nodes: int = 1, **options: Any) -> World:
    """Nodes n1..., the class `gpu`, and what else is given; run until nothing changes."""
    return World(*(node(f"n{i + 1}", cpu=8) for i in range(nodes)), device_class(), *items, **options).settle()


# -- gangs -----------------------------------------------------------------------------------------------------------


def members(name: str, size: int, priority: int = 0) -> list[Any]:
    """A gang of pods with a device each."""
    spec, *pods = gang(name, size, priority=priority)
    made = [user(p.metadata.name, templates=["t"], group=name, priority=priority) for p in pods]
    return [spec, *made]


@pytest.mark.parametrize(("size", "placed"), [(3, True), (4, False)])
def test_members_of_a_gang_see_each_others_devices(size: int, placed: bool) -> None:
    """The trial of the group counts what earlier members took: all get devices of their own, or none is placed."""
    world = world_of(slice_of("n1", devices(2)), slice_of("n2", devices(1)), template(), members("g", size), nodes=2)
    assert len(world.where) == (size if placed else 0)
    if placed:
        assert sorted(got(world, f"g-{i}-t")[0] for i in range(3)) == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0"]
    else:
        assert world.engine.cluster.devices.in_use.whole == {}


def test_gang_shares_a_claim_by_name() -> None:
    spec, *pods = gang("g", 3)
    made = [user(p.metadata.name, "c", group="g") for p in pods if isinstance(p, objects.Pod)]
    world = world_of(slice_of("n1", devices(1)), slice_of("n2", devices(1)), claim("c"), spec, *made, nodes=2)
    assert set(world.where.values()) == {"n1"}


# -- preemption ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
def test_pod_evicts_the_holder_of_the_device(plain: bool) -> None:
    """KEP-5690: the victim's devices are free once all consumers of its claim are gone."""
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(2)), template(), plain=plain)
    world.add(user("low", templates=["t"]), user("mid", templates=["t"], priority=5)).settle()
    world.add(user("high", templates=["t"], priority=10)).settle()
    assert world.where == {"high": "n1", "mid": "n1"}
    assert got(world, "high-t") == ["n1/gpu-1"]


def test_no_pods_are_evicted_for_devices_that_eviction_would_not_free() -> None:
    """A claim that another pod uses, too, or that is no pod's, keeps its devices."""
    shared = claim("shared", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-low", "uid-elsewhere"]))
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(1)), template(), shared)
    world.add(user("low", "shared", node="n1")).settle()
    world.add(user("high", templates=["t"], priority=10)).settle()
    assert world.where == {"low": "n1"}
    assert world.virtual.preemptions == []


def test_no_pods_are_evicted_for_devices_that_do_not_exist() -> None:
    world = world_of(pod("low", cpu=1, node="n1"), claim("c"), user("high", "c", priority=10))
    assert world.where == {"low": "n1"}
    assert why(world, "high") == FIT + "1 cannot allocate all claims. still not schedulable, " + PREEMPTION


def test_gang_evicts_only_holders_of_devices_that_it_needs() -> None:
    world = World(node("n1", cpu=8), node("n2", cpu=8), device_class(), template())
    world.add(slice_of("n1", devices(2)), slice_of("n2", devices(1)))
    world.add(*(user(f"low-{i}", templates=["t"]) for i in range(3)), pod("plain", cpu=1)).settle()
    world.add(members("g", 2, priority=10)).settle()
    assert {"g-0", "g-1", "plain"} <= set(world.where)
    assert len(world.where) == 4


def test_preemptor_waits_for_the_devices_of_its_victims() -> None:
    """Gone is not given back: until the API says so no other pod is evicted (KEP-5690, "Risks")."""
    low = claim("low", status=allocated((DRIVER, "n1", "gpu-0"), to=["uid-low"]))
    other = claim("other", status=allocated((DRIVER, "n2", "gpu-0"), to=["uid-other"]))
    world = World(node("n1", cpu=8), node("n2", cpu=8), device_class(), low, other, claim("high"))
    world.add(slice_of("n1", devices(1)), slice_of("n2", devices(1)))
    world.add(user("low", "low", node="n1"), user("other", "other", node="n2"), user("high", "high", priority=10))
    engine, now = world.engine, world.now
    decision = world.step()
    assert decision.preemption is not None
    (victim,) = [p.name for v in decision.preemption.victims for p in v.unit.pods]
    engine.mark_terminating(f"uid-{victim}", now, preempted=True)
    engine.finish_preemption(decision.ref, now)
    engine.remove(ObjectRef("Pod", uid=f"uid-{victim}"), now)
    again = engine.step(now + 20).decision
    assert again is not None
    assert again.preemption is None, "a second victim would be one too many"
    assert world.record("high").nominated >= 0
    engine.set(claim(victim), now)
    last = engine.step(now + 60).decision
    assert last is not None
    assert [b.pod.name for b in last.bindings] == ["high"]


# -- score -----------------------------------------------------------------------------------------------------------


def test_node_with_an_earlier_option_is_better() -> None:
    """Score of prioritized lists (computeScore): weight 2, the best node 100."""
    big = f'device.attributes["{DRIVER}"].big'
    choice = first_of("r", option("big", "gpu", big), option("small"))
    world = world_of(
        slice_of("n1", [device("x", {"big": False})]),
        slice_of("n2", [device("y", {"big": True})]),
        claim("c", choice),
        user("p", "c"),
        nodes=2,
    )
    assert world.where == {"p": "n2"}
    allocation = world.engine.cluster.devices.claims["default/c"].allocation
    assert allocation is not None
    assert allocation.body["devices"]["results"][0]["request"] == "r/big"


# -- binding ---------------------------------------------------------------------------------------------------------


def test_claim_writes_before_a_binding() -> None:
    """The finalizer, then allocation and reservation in one write of the status."""
    settings = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    wanted = claim(
        "c", request(tolerations=[{"key": "k", "operator": "Exists"}]), config=[{"requests": ["r"], **settings}]
    )
    world = World(
        node("n1"), device_class("gpu", config=[settings]), slice_of("n1", devices(1)), wanted, user("p", "c")
    )
    (binding,) = world.step().bindings
    finalizer, status = binding.pre_bind
    assert finalizer == PatchObject(
        "ResourceClaim",
        "default",
        "c",
        {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}},
        uid="uid-claim-c",
        strategic=True,
    )
    assert isinstance(status, PatchObject)
    assert (status.subresource, status.uid, status.strategic) == ("status", "uid-claim-c", True)
    result = {
        "request": "r",
        "driver": DRIVER,
        "pool": "n1",
        "device": "gpu-0",
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }
    assert status.patch["status"] == {
        "allocation": {
            "devices": {
                "results": [result],
                "config": [{"source": "FromClass", **settings}, {"source": "FromClaim", **settings}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}],
    }


def test_allocated_claim_is_only_reserved_and_a_reserved_one_left_alone() -> None:
    ours = claim("a", status=allocated((DRIVER, "n1", "x"), to=["uid-p"]))
    others = claim("b", status=allocated((DRIVER, "n1", "y"), to=["uid-q"]))
    world = World(node("n1"), ours, others, user("p", "a", "b"))
    (binding,) = world.step().bindings
    (only,) = binding.pre_bind
    assert isinstance(only, PatchObject)
    assert (only.name, set(only.patch["status"])) == ("b", {"reservedFor"})


def test_failed_binding_gives_the_claim_back() -> None:
    world = World(node("n1"), device_class(), slice_of("n1", devices(1)), claim("c"), user("p", "c"))
    world.step()
    (deferred,) = world.engine.fail_binding("uid-p", world.now).writes
    assert isinstance(deferred, PatchObject)
    assert deferred.patch == {"status": {"allocation": None, "reservedFor": None}}
    assert world.engine.cluster.devices.in_use.whole == {}
    assert world.virtual.writes == []


def test_unused_allocation_in_the_wrong_place_is_given_back() -> None:
    """PostFilter: no other pod uses the claim, and where its devices are the pod does not fit."""
    stuck = claim("c", status=allocated((DRIVER, "n2", "gpu-0"), to=["uid-p"]))
    world = World(node("n1", cpu=8), node("n2", cpu=0), device_class(), stuck, user("p", "c"))
    world.add(slice_of("n1", devices(1)), slice_of("n2", devices(1)), pod("low", cpu=1, node="n1", priority=-1))
    decision = world.step()
    assert "deallocation of ResourceClaim requested" in decision.rejections[0].message
    assert decision.preemption is None
    world.virtual.carry_out_writes()
    world.settle()
    assert world.where == {"p": "n1", "low": "n1"}


def test_binding_waits_until_devices_are_ready() -> None:
    """DeviceBindingConditions: all conditions true, none of those that say it failed."""
    slow = device("slow", bindingConditions=["Ready"], bindingFailureConditions=["Broken"])
    world = World(node("n1"), device_class(), slice_of("n1", [slow]), claim("c"), user("p", "c"))
    (binding,) = world.step().bindings
    wait = binding.pre_bind[-1]
    assert isinstance(wait, AwaitObject)
    assert wait.seconds == 600.0

    def code_of(*conditions: str) -> Code:
        device_status = {
            "driver": DRIVER,
            "pool": "n1",
            "device": "slow",
            "conditions": [{"type": one, "status": "True"} for one in conditions],
        }
        return wait.done(claim("c", status={"devices": [device_status]})).code

    assert code_of() is Code.WAIT
    assert code_of("Ready") is Code.SUCCESS
    assert code_of("Ready", "Broken") is Code.UNSCHEDULABLE
    assert wait.done(None).code is Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("found", "still"),
    [
        ({"reservedFor": [{"resource": "pods", "uid": "uid-old"}]}, True),
        ({}, True),
        ({"reservedFor": [{"resource": "pods", "uid": "uid-new"}]}, False),
        ({"reservedFor": [{"resource": "podgroups", "uid": "uid-old"}]}, False),
        ({"allocation": None}, False),
        ({"allocation": {"devices": {"results": []}}}, False),
    ],
)
def test_allocation_is_given_back_only_as_it_was_seen(found: Json, still: bool) -> None:
    """Written by another client meanwhile: tried again where the devices are the same and no pod came to use them."""
    status = allocated((DRIVER, "n1", "gpu-0"), to=["uid-old"])
    world = World(node("n1"), device_class(), claim("c", status=status))
    patch = give_back(world.engine.cluster.devices.claims["default/c"])
    assert patch.again is not None
    assert patch.again({"status": {"allocation": status["allocation"], **found}}) is still


def test_claim_never_allocated_is_not_given_back() -> None:
    world = World(node("n1"), device_class(), claim("c"))
    patch = give_back(world.engine.cluster.devices.claims["default/c"])
    assert patch.again is not None
    assert not patch.again({"status": {}})


@pytest.mark.parametrize(
    ("watched", "conditions", "failed"),
    [
        ({"bindingFailureConditions": ["Broken"], "bindingConditions": ["Ready"]}, ["Broken"], True),
        ({"bindingFailureConditions": ["Broken"], "bindingConditions": ["Ready"]}, ["Ready"], False),
        ({"bindingConditions": ["Ready"]}, ["Broken"], False),
        ({}, ["Broken"], False),
    ],
)
def test_when_a_device_has_failed(watched: Json, conditions: list[str], failed: bool) -> None:
    """KEP-5007: only a failure condition that the allocation names counts."""
    status = allocated((DRIVER, "n1", "x"), **watched)
    stated = [{"type": name, "status": "True", "reason": "R"} for name in conditions]
    status["devices"] = [{"driver": DRIVER, "pool": "n1", "device": "x", "conditions": stated}]
    world = World(node("n1"), device_class(), claim("c", status=status), claim("free"))
    claims = world.engine.cluster.devices.claims
    assert _failed(claims["default/c"]) is failed
    assert not _failed(claims["default/free"])


def test_claim_with_a_failed_device_is_not_usable() -> None:
    broken = allocated(
        (DRIVER, "n1", "x"), to=["uid-p"], bindingConditions=["Ready"], bindingFailureConditions=["Broken"]
    )
    broken["devices"] = [
        {
            "driver": DRIVER,
            "pool": "n1",
            "device": "x",
            "conditions": [{"type": "Broken", "status": "True", "reason": "R"}],
        }
    ]
    failed = claim("c", status=broken)
    world = World(node("n1"), device_class(), failed, user("p", "c"))
    decision = world.step()
    assert decision.bindings == ()
    stated = world.engine.cluster.devices.claims["default/c"].stated
    assert stated is not None
    assert (
        readiness("default/c", failed, stated.grants).reason == 'claim default/c binding failed: reason=R, message=""'
    )
    (deferred,) = world.virtual.writes
    assert isinstance(deferred, PatchObject)
    assert deferred.patch == {"status": {"allocation": None, "reservedFor": None, "devices": None}}


def test_no_limit_is_named_where_all_nodes_advertise_the_resource() -> None:
    fast = device_class("fast", extendedResourceName="example.com/gpu")
    world = World(node("n1", more={"example.com/gpu": 1}), fast, pod("p", more={"example.com/gpu": 2})).settle()
    assert "not supported" not in world.message("p")


# -- plan -------------------------------------------------------------------------------------------------------------


def test_plan_reports_what_a_pod_waits_for_before_it_is_tried() -> None:
    answer = plan(read([("p", msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **PLAIN}))]))
    (found,) = answer.plan.pods
    assert (found.outcome, found.reason) == ("Gated", "Unschedulable")
    assert found.message == 'resourceclaim.resource.k8s.io "mine" not found'


def test_plan_refuses_claims_of_pod_groups_when_their_gate_is_off() -> None:
    """KEP-5729: ignoring the field would be a guess."""
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    gates = FeatureGates.parse("DRAWorkloadResourceClaims=false")
    with pytest.raises(InputError, match=r"spec\.resourceClaims: the feature gate DRAWorkloadResourceClaims is off"):
        plan(read([("g", body)]), PlanOptions(gates=gates))


PLAIN: Json = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "c", "resourceClaimName": "mine"}]},
}


# -- configuration ---------------------------------------------------------------------------------------------------


def test_args() -> None:
    """DynamicResourcesArgs."""
    made = dynamic_resources(FeatureGates(), {"filterTimeout": "0s", "bindingTimeout": "1m"})
    assert isinstance(made, DynamicResources)
    world = World(node("n1"))
    assert made.pre_enqueue(world.engine.cluster, world.add(pod("p")).record("p")).ok


@pytest.mark.parametrize(
    ("args", "path"), [({"bindingTimeout": "0s"}, "bindingTimeout"), ({"filterTimeout": "soon"}, "filterTimeout")]
)
def test_wrong_args(args: Json, path: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        dynamic_resources(FeatureGates(), args)
    assert error.value.path == path
