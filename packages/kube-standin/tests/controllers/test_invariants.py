"""What holds after any sequence of events: sources equal the store, nothing unowned stays, quotas hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_standin.controllers.sources import Source
from kube_standin.controllers.views import read_pod
from kube_standin.errors import StatusError
from tests.admission.plane import pod
from tests.controllers.test_lifecycle import config_map, reference
from tests.controllers.world import Json, World, owner

NAMES = st.sampled_from("abcde")
quick = settings(max_examples=60, deadline=None, derandomize=True)


@quick
@given(st.lists(st.tuples(st.sampled_from(("make", "label", "finish", "delete", "look")), NAMES), max_size=30))
def test_sources_equal_the_store(steps: list[tuple[str, str]]) -> None:
    world = World()
    source = world.controllers.context.sources.pods
    source.index("label", lambda one: ((one.metadata.labels or {}).get("app", ""),))
    told: dict[tuple[str, str], Any] = {}

    def hear(old: Any, new: Any) -> None:
        seen = new or old
        assert told.get(seen.metadata.key) == old, "a handler receives what changed since its last call"
        if new is None:
            del told[seen.metadata.key]
        else:
            told[seen.metadata.key] = new

    source.add_handler(hear)
    for number, (step, name) in enumerate(steps):
        try:
            match step:
                case "make":
                    world.create(pod(name))
                case "label":
                    world.patch("v1", "Pod", name, {"metadata": {"labels": {"app": str(number % 3)}}})
                case "finish":
                    world.set_phase(name, "Succeeded")
                case "delete":
                    world.delete("v1", "Pod", name)
                case "look":
                    world.controllers.context.sources.sync()
        except StatusError:
            continue
    world.controllers.context.sources.sync()
    expected = {state.key: read_pod(state.raw) for state in world.store.heads("pods")}
    assert source.items == expected == told
    for label in ("", "0", "1", "2"):
        wanted = {key for key, one in expected.items() if (one.metadata.labels or {}).get("app", "") == label}
        assert source.keys_by("label", label) == wanted


def test_source_that_fell_behind_lists_again() -> None:
    world = World()
    source: Source[Any] = world.controllers.context.sources.pods
    world.create(pod("gone"))
    source.sync()
    assert source.subscription is not None
    source.subscription._limit_events = 5
    world.delete("v1", "Pod", "gone")
    for number in range(20):
        world.create(pod(f"p{number}"))
    source.sync()
    assert sorted(key[1] for key in source.items) == sorted(f"p{number}" for number in range(20))


@quick
@given(
    st.lists(st.tuples(NAMES, st.sets(NAMES, max_size=2)), max_size=12),
    st.lists(st.tuples(NAMES, st.sampled_from(("Background", "Foreground", "Orphan"))), max_size=5),
)
def test_nothing_outlives_all_its_owners(made: list[tuple[str, set[str]]], deleted: list[tuple[str, str]]) -> None:
    """Every object left was never owned, was orphaned on purpose, or has an owner that is there."""
    world = World(("garbage-collector",))
    objects: dict[str, Json] = {}
    for name, owners in made:
        if name not in objects:
            references = [reference(objects[one], block=True) for one in sorted(owners) if one in objects]
            objects[name] = world.create(config_map(name, references))
    for name, policy in deleted:
        if world.has("v1", "ConfigMap", name):
            world.delete("v1", "ConfigMap", name, propagation=policy)
            world.settle()
    left = {one["metadata"]["uid"]: one for one in world.all("v1", "ConfigMap")}
    for one in left.values():
        assert "deletionTimestamp" not in one["metadata"], "a deletion that never ends"
        for owner_of in one["metadata"].get("ownerReferences") or ():
            assert owner_of["uid"] in left, f"{one['metadata']['name']} refers to an owner that is gone"


@quick
@given(
    st.lists(st.tuples(st.sampled_from(("make", "finish", "delete", "settle")), NAMES, st.integers(1, 9)), max_size=25)
)
def test_quota_is_never_exceeded_and_ends_up_exact(steps: list[tuple[str, str, int]]) -> None:
    world = World(("resourcequota",))
    hard = {"pods": "3", "requests.cpu": "1"}
    metadata = {"name": "q"}
    world.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    world.settle()

    def use() -> tuple[int, int]:
        active = [one for one in world.pods() if one["status"]["phase"] != "Succeeded"]
        cpu = sum(int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"].rstrip("m")) for one in active)
        return len(active), cpu

    for step, name, size in steps:
        try:
            match step:
                case "make":
                    world.create(pod(name, cpu=f"{size * 101}m"))
                case "finish":
                    world.set_phase(name, "Succeeded")
                case "delete":
                    world.delete("v1", "Pod", name)
                case "settle":
                    world.forward(1)
        except StatusError:
            continue
        count, cpu = use()
        assert count <= 3
        assert cpu <= 1000
    world.forward(2)
    count, cpu = use()
    used = world.get("v1", "ResourceQuota", "q")["status"]["used"]
    assert used == {"pods": str(count), "requests.cpu": f"{cpu}m" if cpu else "0"}


@quick
@given(
    st.lists(
        st.tuples(st.sampled_from(("scale", "kill", "fail", "restart")), st.integers(0, 6)), min_size=1, max_size=12
    )
)
def test_replica_set_always_comes_to_its_number(steps: list[tuple[str, int]]) -> None:
    world = World(("replicaset", "garbage-collector"), nodes=1)
    world.create(owner("ReplicaSet", replicas=3))
    wanted = 3
    for step, number in steps:
        world.schedule()
        names = [one["metadata"]["name"] for one in world.pods() if one["status"]["phase"] != "Failed"]
        match step:
            case "scale":
                wanted = number
                world.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": number}})
            case "kill" if number < len(names):
                world.delete("v1", "Pod", names[number])
            case "fail" if number < len(names):
                world.set_phase(names[number], "Failed")
            case "restart":
                world = World(("replicaset", "garbage-collector"), nodes=1, store=world.store, clock=world.set_clock)
    world.schedule()
    active = [one for one in world.pods() if one["status"]["phase"] == "Running"]
    assert len(active) == wanted
    assert world.get("apps/v1", "ReplicaSet", "a")["status"]["replicas"] == wanted


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"])
def test_owners_without_pods_rest(kind: str) -> None:
    world = World(None, nodes=1)
    spec: Json = {} if kind == "DaemonSet" else {"replicas": 0}
    if kind == "StatefulSet":
        spec["serviceName"] = "s"
    world.create(owner(kind, **spec))
    world.settle()
    before = world.store.revision
    world.controllers.settle()
    assert world.store.revision == before
