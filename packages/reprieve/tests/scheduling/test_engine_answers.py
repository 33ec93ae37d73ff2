"""What the engine answers the executor of its decisions: what is known, what may be tried, what is under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kube_rules.foreign_groups import SCHEDULERS_OF
from kube_rules.group_owners import OWNER_KINDS, GroupOwner
from kube_rules.group_sources import GroupSources
from kube_rules.meta import ObjectMeta, ObjectRef, OwnerReference
from kube_rules.objects import Pod, ResourceQuota
from reprieve.cluster.state import ClusterState
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import CycleState, PostBindPlugin
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.effects import NO_EFFECTS, UNKNOWN
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import World, gang, group, node, pod, profile_with
from tests.plugins.devices import taint_rule

KINDS = {kind.KIND: kind for kind in OWNER_KINDS}


def test_calls_about_unknown_pods_change_nothing() -> None:
    """Confirmations may come after their pod is gone."""
    engine = World(node("n"), pod("p", cpu=1, node="n")).engine
    assert engine.confirm_binding("unknown") is NO_EFFECTS
    assert engine.fail_binding("unknown", 1.0) is NO_EFFECTS
    assert engine.remove(ObjectRef("Pod", uid="nobody"), 1.0) is UNKNOWN
    assert engine.mark_terminating("missing", 1.0) is NO_EFFECTS
    assert engine.finish_preemption("pod/missing", 1.0) is NO_EFFECTS
    assert engine.fail_preemption("pod/missing", 1.0) is NO_EFFECTS
    assert not engine.wants_room("pod/missing")
    assert not engine.is_preempting("pod/missing")
    assert engine.ask_permission(1.0) is NO_EFFECTS
    assert not engine.awaits_permission
    assert engine.step(1.0).decision is None
    assert engine.attempts == 0
    assert list(engine.cluster.pods) == ["uid-p"]


@pytest.mark.parametrize("fails", [False, True])
def test_every_attempt_is_measured_by_each_observer(fails: bool) -> None:
    """With the profile; while it runs only its thread may read the cluster cache, however it ends."""
    engine = Engine(EngineOptions({"mine": profile_with(), "yours": profile_with()}))
    seen: list[tuple[str, bool]] = []

    @contextmanager
    def watch(profile: str) -> Iterator[None]:
        seen.append((profile, engine.cluster.held_by_this_thread))
        if fails:
            raise RuntimeError
        yield

    engine.watch = watch
    engine.set(node("n", cpu=4), 0.0)
    engine.set(pod("p", cpu=1, scheduler="mine"), 1.0)
    engine.set(pod("q", cpu=1, scheduler="yours"), 2.0)
    for turn, profile in enumerate(("mine", "yours"), 1):
        assert not engine.cluster.held_by_this_thread
        if fails:
            with pytest.raises(RuntimeError):
                engine.step(3.0)
        else:
            decision = engine.step(3.0).decision
            assert decision is not None
            assert decision.profile == profile
        assert not engine.cluster.held_by_this_thread
        assert engine.attempts == turn
        assert seen[-1] == (profile, True)


def test_decision_names_its_profile_and_attempt() -> None:
    """Counted from one; `queued` is when the pod might first be tried, whenever it was."""
    world = World(node("n", cpu=1), pod("p", cpu=2))
    first = world.step()
    assert (first.attempt, first.profile) == (1, "default-scheduler")
    world.add(node("n", cpu=2))
    second = world.settle().engine.decisions[-1]
    assert (second.attempt, second.queued_at, second.ref) == (2, first.queued_at, first.ref)


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_controller_that_is_gone_is_forgotten_and_no_other(kind: str) -> None:
    """workloads.md 2.10: pods wait for a controller that is not known; those of one that does not ask do not."""
    engine = Engine(EngineOptions(sources=GroupSources.switched({"owners": True})))
    engine.watch_owners(["Job", "JobSet"], 0.0)
    for one in ("Job", "JobSet"):
        owner: GroupOwner = KINDS[one](metadata=ObjectMeta(name="o", namespace="default"))
        engine.set(owner, 1.0)

    def joins(name: str, of: str, namespace: str = "default") -> str | None:
        made = pod(name, namespace=namespace, labels={"jobset.sigs.k8s.io/jobset-name": "o"} if of == "JobSet" else {})
        labels = {**made.metadata.labels, "jobset.sigs.k8s.io/replicatedjob-name": "w"} if of == "JobSet" else {}
        job = "o-w-0" if of == "JobSet" else "o"
        above = OwnerReference(api_version="batch/v1", kind="Job", name=job, uid="u", controller=True)
        meta = replace(made.metadata, labels=labels, owner_references=(above,))
        found: Pod = replace(made, metadata=meta)
        engine.set(found, 2.0)
        return engine.cluster.pods[found.metadata.uid].group or None

    gangs = {"Job": "default/job:o", "JobSet": "default/jobset:o:w"}
    assert [joins(f"before-{one}".lower(), one) for one in gangs] == [None, None]
    engine.remove(ObjectRef(kind, "default/another"), 3.0)
    engine.remove(ObjectRef(kind, "elsewhere/o"), 3.0)
    assert [joins(f"between-{one}".lower(), one) for one in gangs] == [None, None]
    engine.remove(ObjectRef(kind, "default/o"), 3.0)
    assert [joins(f"after-{one}".lower(), one) for one in gangs] == [
        gangs[one] if one == kind else None for one in gangs
    ]


@pytest.mark.parametrize(
    ("profiles", "scheduler", "ours"),
    [
        ((), "", False),
        (("volcano",), "", True),
        (("mine",), "", False),
        (("mine",), "mine", True),
        (("mine",), "volcano", False),
        (("volcano",), "mine", False),
    ],
)
def test_group_of_another_api_and_its_owner(profiles: tuple[str, ...], scheduler: str, ours: bool) -> None:
    """workloads.md 4.4: that of its pods' scheduler; without pods the scheduler its API was made for has it."""
    version = "scheduling.volcano.sh/v1beta1"
    assert "volcano" in SCHEDULERS_OF[version]
    engine = Engine(EngineOptions({name: profile_with() for name in profiles}))
    if scheduler:
        engine.set(group("g", min_count=1), 0.0)
        engine.set(pod("p", group="g", scheduler=scheduler), 1.0)
    assert engine.is_for_us("default/g", version) is ours


def test_pending_pod_wants_capacity_until_it_may_not_be_tried() -> None:
    world = World(node("n", cpu=2), pod("low", cpu=2, node="n"), pod("high", cpu=2, priority=5))
    decision = world.step()
    engine, key = world.engine, decision.ref
    assert (engine.wants_room(key), engine.is_preempting(key)) == (True, True)
    engine.finish_preemption(key, world.now)
    assert engine.is_preempting(key)
    world.gone("low")
    assert (engine.wants_room(key), engine.is_preempting(key)) == (True, False)
    world.gone("high")
    assert (engine.wants_room(key), engine.is_preempting(key)) == (False, False)


def test_preemption_that_fails_takes_its_nominations_back() -> None:
    """preemption.md 7.5: of all members; they are notified, and nothing is under way any more."""
    low = [pod(f"low{turn}", cpu=2, node=f"n{turn}") for turn in range(2)]
    world = World(node("n0", cpu=2), node("n1", cpu=2), *low, *gang("g", 2, cpu=2, priority=5))
    decision = world.step()
    assert len(decision.nominations) == 2
    assert world.engine.is_preempting(decision.ref)
    assert world.engine.cluster.doomed == {"uid-low0", "uid-low1"}
    reverted = world.engine.fail_preemption(decision.ref, world.now).unnominated_pods
    assert sorted(one.name for one in reverted) == ["g-0", "g-1"]
    assert not world.engine.is_preempting(decision.ref)
    assert world.engine.cluster.doomed == set()
    assert {one.nominated for one in reverted} == {-1}


@pytest.mark.parametrize(("age", "held"), [(4.0, True), (5.0, False), (6.0, False)])
def test_gated_groups_hold_no_room_after_the_given_time(age: float, held: bool) -> None:
    """scheduling.md 3.8: the others may be yet to come; from `after` seconds on they are not waited for."""
    world = World(node("n", cpu=4), group("g", min_count=2))
    world.engine.set(pod("p", cpu=1, group="g", nominated="n"), world.now)
    effects = world.engine.give_up_gated(world.now + age, after=5.0)
    assert (world.record("p").nominated >= 0) is held
    assert [pod.name for pod in effects.unnominated_pods] == ([] if held else ["p"])


def test_effects_are_returned_once() -> None:
    world = World(node("n", cpu=4), group("g", min_count=2))
    world.engine.set(pod("p", cpu=1, group="g", nominated="n"), world.now)
    assert [pod.name for pod in world.engine.complete(world.now).unnominated_pods] == ["p"]
    assert world.engine.complete(world.now) is NO_EFFECTS


@pytest.mark.parametrize(("stamp", "created", "expected"), [(None, None, 7.0), (None, 3.0, 3.0), (5.0, None, 5.0)])
def test_when_a_pod_was_made(stamp: float | None, created: float | None, expected: float) -> None:
    """By the caller's time, else by the pod's, else now."""
    made = pod("p")
    if stamp is not None:
        made = replace(made, metadata=replace(made.metadata, creation_timestamp=datetime.fromtimestamp(stamp, UTC)))
    engine = Engine()
    engine.set(made, 7.0, created=created)
    assert engine.cluster.pods["uid-p"].created == expected


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running", "Pending", "Unknown"])
def test_pod_that_has_ended_is_gone(phase: str) -> None:
    """preemption.md 1: it has no room; with any other phase it stays."""
    engine = Engine()
    engine.set(node("n"), 0.0)
    engine.set(pod("p", node="n"), 1.0)
    ended = phase in ("Succeeded", "Failed")
    for name in ("p", "q"):
        engine.set(pod(name, node="n", phase=phase), 2.0)
    assert set(engine.cluster.pods) == (set() if ended else {"uid-p", "uid-q"})


def test_pod_without_uid_is_known_by_its_name() -> None:
    nameless = pod("p")
    for namespace, uid in ((None, "default/p"), ("other", "other/p")):
        meta = replace(nameless.metadata, uid="", namespace=namespace or "")
        engine = Engine()
        engine.set(replace(nameless, metadata=meta), 0.0)
        assert list(engine.cluster.pods) == [uid]


def test_next_wakeup_counts_the_flush_and_the_end_of_holds_unless_they_are_left_out() -> None:
    """queueing: an unschedulable pod is tried again after five minutes; cost.md 5.1: nothing is held here."""
    world = World(node("n", cpu=1), pod("p", cpu=2))
    world.step()
    assert world.engine.next_wakeup() == world.now + 300
    assert world.engine.next_wakeup(flush=False) is None
    held = profile_with(DefaultPreemption(PreemptionOptions(hold_seconds=40.0)))
    world = World(
        node("n", cpu=1), pod("low", cpu=1, node="n"), pod("p", cpu=1, priority=9), profiles={held.name: held}
    )
    decision = world.step()
    assert decision.held_until is not None
    assert world.engine.next_wakeup() == decision.held_until
    assert world.engine.next_wakeup(holds=False) != decision.held_until


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("call", ["arrival", "leaving", "gone", "step", "failed binding", "change"])
def test_picture_that_contradicts_itself_is_found_where_the_engine_validates(
    call: str, validate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each call that changes it, and only where it was asked for: it costs as much as there are pods."""
    engine = Engine(EngineOptions(validate=validate))
    engine.set(node("n", cpu=4), 0.0)
    engine.set(pod("p", cpu=1), 1.0)
    if call == "failed binding":
        engine.step(2.0)
    checked: list[str] = []
    monkeypatch.setattr(ClusterState, "check", lambda _cluster: checked.append(call))
    if call == "arrival":
        engine.set(pod("q", cpu=1), 2.0)
    elif call == "leaving":
        engine.mark_terminating("uid-p", 2.0)
    elif call == "gone":
        engine.remove(ObjectRef("Pod", uid="uid-p"), 2.0)
    elif call == "step":
        engine.step(2.0)
    elif call == "failed binding":
        engine.fail_binding("uid-p", 3.0)
    else:
        engine.set(pod("p", cpu=1, labels={"a": "b"}), 2.0)
    assert checked == [call] * validate


class Afterwards(PostBindPlugin):
    """Keeps what it was called for."""

    name = "Afterwards"

    def __init__(self) -> None:
        self.bound: list[tuple[str, int]] = []

    def post_bind(self, state: CycleState, row: int) -> None:
        self.bound.append((state.pod.name, row))


@pytest.mark.parametrize("nodes", [1, 2])
def test_post_bind_is_called_for_pods_with_a_node(nodes: int) -> None:
    """scheduling.md 2: once the API has confirmed it, on the first node as on any other."""
    after = Afterwards()
    profile = profile_with(after)
    world = World(*[node(f"n{turn}", cpu=turn + 1) for turn in range(nodes)], profiles={profile.name: profile})
    world.add(pod("p", cpu=nodes), pod("waits", cpu=9))
    world.engine.confirm_binding("uid-waits")
    assert after.bound == []
    world.step()
    world.engine.confirm_binding("uid-p")
    assert after.bound == [("p", nodes - 1)]


def test_bound_pod_is_not_taken_back() -> None:
    """scheduling.md 2: a refusal that comes after the confirmation, ours or another scheduler's, means nothing."""
    for confirmed in ("by the call", "by the object"):
        world = World(node("n", cpu=1), pod("p", cpu=1))
        world.step()
        if confirmed == "by the call":
            world.engine.confirm_binding("uid-p")
        else:
            world.engine.set(pod("p", cpu=1, node="n"), world.now)
        world.engine.fail_binding("uid-p", world.now)
        assert world.where == {"p": "n"}


def test_objects_of_other_kinds_are_refused_or_unknown() -> None:
    """Kinds that are not in the table are refused; a rule about taints needs its gate."""
    world = World(node("n"))
    with pytest.raises(TypeError, match="ResourceQuota is not a kind that the scheduler reads"):
        world.engine.set(ResourceQuota(metadata=ObjectMeta(name="x")), world.now)
    assert not world.engine.reads("ResourceQuota")
    assert not world.engine.remove(ObjectRef("ResourceQuota", "x"), world.now).known
    for on in (True, False):
        world = World(node("n"), gates=FeatureGates.of({"DRADeviceTaintRules": on}))
        world.engine.set(taint_rule(), world.now)
        assert world.engine.remove(ObjectRef("DeviceTaintRule", "rule"), world.now).known is on


@pytest.mark.parametrize(
    ("name", "priority", "helped"),
    [("p", 1, True), ("p", 0, False), ("large", 1, False), ("placed", 1, True), ("gated", 1, False)],
    ids=["evicts", "has it already", "never fits", "is placed", "may not be tried"],
)
def test_whether_a_higher_priority_helps(name: str, priority: int, helped: bool) -> None:
    """whatif.md 5: nothing is changed by the question."""
    world = World(node("n1", cpu=4), pod("placed", cpu=4), pod("p", cpu=4), pod("large", cpu=9))
    world.add(pod("gated", cpu=4, gates=["g"])).drain()
    before = [(entity.ref, entity.priority, entity.state) for entity in world.engine.queue.entities()]
    assert world.engine.helped_by_priority(f"pod/uid-{name}", priority) is helped
    assert [(entity.ref, entity.priority, entity.state) for entity in world.engine.queue.entities()] == before
    assert (world.where, world.nominated) == ({"placed": "n1"}, {})
