"""Device claims in random clusters: no device has two holders, shared work changes nothing, trials leave no trace.

Every step is checked by `ClusterState.check` (the devices in use are the sum of all allocations, none twice).
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kube_rules import objects
from tests.building import World, gang, node
from tests.plugins.devices import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    first_of,
    option,
    request,
    slice_of,
    taint_rule,
    template,
    user,
)

KIND_A, IMPLICIT_A = "example.com/a", "deviceclass.resource.kubernetes.io/a"
ATTRIBUTE = f'device.attributes["{DRIVER}"].kind'


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Nodes with devices of two kinds, some reached from everywhere, and pods and gangs that come in two waves."""
    nodes = draw(st.integers(1, 4))
    items: list[Any] = [device_class(), device_class("a", f'{ATTRIBUTE} == "a"', extendedResourceName=KIND_A)]
    for i in range(1, nodes + 1):
        kinds = draw(st.lists(st.sampled_from("ab"), max_size=4))
        listed = [device(f"d-{k}", {"kind": kind, "numa": k % 2}) for k, kind in enumerate(kinds)]
        own = {KIND_A: draw(st.integers(1, 2))} if draw(st.integers(0, 3)) == 0 else {}
        items += [node(f"n{i}", cpu=draw(st.integers(1, 4)), more=own), slice_of(f"n{i}", listed)]
    if draw(st.booleans()):
        items.append(taint_rule(draw(st.sampled_from(["NoSchedule", "NoExecute"])), device="d-1"))
    net = [device(f"net-{k}", {"kind": "b"}) for k in range(draw(st.integers(0, 2)))]
    items.append(slice_of(None, net, allNodes=True))
    items += [
        template("one"),
        template("two", request(count=2)),
        template("special", request("r", "a")),
        template("choice", first_of("r", option("two", count=2), option("one"))),
    ]
    items += [claim("shared"), claim("taken", status=allocated((DRIVER, "n1", "d-0"), to=["uid-nobody"]))]
    waves = []
    for wave in range(2):
        count = draw(st.integers(0, 4))
        pods: list[Any] = [_pod(draw, f"p{wave}-{i}", priority=draw(st.integers(0, 3))) for i in range(count)]
        if draw(st.booleans()):
            size, priority = draw(st.integers(1, 3)), draw(st.integers(0, 5))
            spec, *_ = gang(f"g{wave}", size, priority=priority, whole=draw(st.booleans()))
            pods.append(spec)
            uses = _uses(draw)
            pods += [user(f"g{wave}-{i}", **uses, group=f"g{wave}", priority=priority) for i in range(size)]
        waves.append(pods)
    return items + waves[0], waves[1]


def _uses(draw: st.DrawFn) -> dict[str, Any]:
    templates = draw(st.lists(st.sampled_from(["one", "two", "special", "choice"]), unique=True, max_size=2))
    asked = draw(st.sampled_from([0, 0, 1, 2]))
    return {"templates": templates, "more": {draw(st.sampled_from([KIND_A, IMPLICIT_A])): asked} if asked else {}}


def _pod(draw: st.DrawFn, name: str, *, priority: int) -> objects.Pod:
    shared = ("shared",) if draw(st.booleans()) else ()
    return user(name, *shared, **_uses(draw), priority=priority)


def outcome(world: World) -> tuple[dict[str, str], dict[str, list[tuple[str, str, str]]]]:
    """Where pods are, and which devices each claim has."""
    claims = world.engine.cluster.devices.claims
    has = {key: [g.device for g in c.allocation.grants] for key, c in claims.items() if c.allocation is not None}
    return world.where, has


def played(first: list[Any], second: list[Any], *, plain: bool = False) -> World:
    """Both waves, everything settled."""
    return World(*first, plain=plain).settle().add(*second).settle()


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_no_device_is_given_twice_and_the_reference_path_agrees(waves: tuple[list[Any], list[Any]]) -> None:
    world = played(*waves)
    where, has = outcome(world)
    given_out = [one for devices in has.values() for one in devices]
    assert len(given_out) == len(set(given_out))
    for name in where:
        book, pod = world.engine.cluster.devices, world.record(name)
        special = book.special(pod)
        for key in pod.claim_keys:
            own = special is not None and key == special.key and book.special_shape(pod, pod.row) is None
            assert own or has.get(key), f"{name} runs without {key}"
    assert outcome(played(*waves, plain=True)) == (where, has)


@settings(max_examples=40, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_trials_leave_no_trace(waves: tuple[list[Any], list[Any]], random: Any) -> None:
    """Undo restores the holder of each device (scheduling.md 7)."""
    world = World(*waves[0]).settle().add(*waves[1])
    cluster = world.engine.cluster
    before = cluster.digest()
    rows = [row for row in range(len(cluster.nodes)) if cluster.nodes.alive[row]]
    pods = sorted(cluster.pods.values(), key=lambda pod: pod.key)
    with cluster.trial():
        for _ in range(6):
            if pods:
                pod = random.choice(pods)
                if pod.row >= 0:
                    cluster.displace(pod)
                else:
                    cluster.place(pod, random.choice(rows))
            cluster.devices.check()
        with cluster.trial():
            for pod in pods:
                if pod.row >= 0:
                    cluster.displace(pod)
            cluster.devices.check()
    assert cluster.digest() == before
    cluster.check()
