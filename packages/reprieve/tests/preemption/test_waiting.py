"""cost.md 5.6, 5.7 and 6: when a preemptor waits instead of evicting, in simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.group_owners import Job
from kube_rules.meta import ObjectRef
from kube_rules.work_annotations import PREEMPTION_DELAY
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import Deferral, DeferralReason
from tests.building import START, Item, World, gang, group, node, pod, profile_with

T = TypeVar("T", objects.Pod, objects.PodGroup, objects.ReplicaSet)
Owner = tuple[str, str]
"""(kind, name)."""


def configured(**options: Any) -> dict[str, Profile]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    return {profile.name: profile}


def owned(item: T, kind: str, name: str) -> T:
    """The object with a controller."""
    reference = objects.OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=f"uid-{name}", controller=True)
    return replace(item, metadata=replace(item.metadata, owner_references=(reference,)))


def saying(item: T, **annotations: str) -> T:
    """The object with annotations of ours."""
    found = {f"scheduling.reprieve.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return replace(item, metadata=replace(item.metadata, annotations=found))


def at(seconds: float) -> str:
    """A time as annotations have it."""
    return f"{datetime.fromtimestamp(START + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def replica_set(name: str, deployment: str) -> objects.ReplicaSet:
    made = objects.ReplicaSet(metadata=objects.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"))
    return owned(made, "Deployment", deployment)


def deferrals(world: World) -> list[tuple[str, float | None]]:
    """What was deferred, why and until when (seconds after START), each once."""
    made = world.virtual.deferred.values()
    return [(each.deferral.why.name, each.deferral.until and each.deferral.until - START) for each in made]


def last_deferral(world: World) -> Deferral:
    found = [decision.deferral for decision in world.engine.decisions if decision.deferral is not None]
    return found[-1]


# -- predecessors ------------------------------------------------------------------------------------------------------


def rolling(old: Owner = ("ReplicaSet", "web"), new: Owner = ("ReplicaSet", "web"), **options: Any) -> World:
    """A pod that leaves, its replacement that comes, and a bystander of lower priority that could be evicted."""
    return World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        owned(pod("old", cpu=4, node="n1", priority=5, terminating=True), *old),
        pod("bystander", cpu=4, node="n2"),
        owned(pod("new", cpu=4, priority=5), *new),
        profiles=configured(**options),
    )


def test_replacement_takes_the_room_of_its_predecessor() -> None:
    """cost.md 5.6."""
    world = rolling().drain()
    assert (world.nominated, world.evicted) == ({"new": "n1"}, [])
    assert world.message("new").endswith("preemption: waiting for pod default/old of the same owner to terminate")
    found = last_deferral(world)
    assert (found.why, [one.name for one in found.pods]) == (DeferralReason.PREDECESSOR, ["old"])
    world.settle()
    assert (world.where, world.evicted) == ({"bystander": "n2", "new": "n1"}, [])


def test_pod_of_another_owner_that_terminates_is_no_predecessor() -> None:
    """cost.md 5.6: neither is its node taken, nor does it hide the predecessor."""
    nodes = [node(f"n{i}", cpu=4) for i in (1, 2, 3)]
    leaving = [
        owned(pod(name, cpu=4, node=f"n{i}", priority=5, terminating=True), "ReplicaSet", owner)
        for i, (name, owner) in enumerate((("away", "api"), ("old", "web")), 1)
    ]
    bystander, new = pod("bystander", cpu=4, node="n3"), owned(pod("new", cpu=4, priority=5), "ReplicaSet", "web")
    world = World(nodes, leaving, bystander, new).drain()
    assert (world.nominated, world.evicted) == ({"new": "n2"}, [])


def test_room_of_a_predecessor_is_held_against_others_of_its_priority() -> None:
    """cost.md 5.6."""
    world = rolling()
    world.drain().add(pod("other", cpu=4, priority=5)).drain()
    assert world.nominated == {"new": "n1", "other": "n2"}
    world.settle()
    assert (world.where, world.evicted) == ({"new": "n1", "other": "n2"}, ["bystander"])


@pytest.mark.parametrize(
    ("old", "new", "spared"),
    [
        (("ReplicaSet", "web-1"), ("ReplicaSet", "web-2"), True),
        (("ReplicaSet", "web-1"), ("ReplicaSet", "api-1"), False),
        (("ReplicaSet", "web-1"), ("Deployment", "web"), True),
        (("Job", "train"), ("Job", "train"), True),
        (("Job", "train"), ("StatefulSet", "train"), False),
    ],
    ids=["rolling update", "other deployment", "above and below", "same job", "same name, other kind"],
)
def test_owner_is_the_highest_controller_that_is_known(old: Owner, new: Owner, spared: bool) -> None:
    """cost.md 5.6: a Deployment replaces the pods of one ReplicaSet by those of another."""
    world = World(
        replica_set("web-1", "web"),
        replica_set("web-2", "web"),
        replica_set("api-1", "api"),
        node("n1", cpu=4),
        node("n2", cpu=4),
        owned(pod("old", cpu=4, node="n1", priority=5, terminating=True), *old),
        pod("bystander", cpu=4, node="n2"),
        owned(pod("new", cpu=4, priority=5), *new),
    ).settle()
    assert world.evicted == ([] if spared else ["bystander"])


def test_replica_set_that_is_not_known_yet_is_recognized_by_its_name() -> None:
    """cost.md 5.6: pods and ReplicaSets come by watches of their own, in no order; the name ends in the pods' label."""
    old = owned(pod("old", cpu=4, node="n1", priority=5, terminating=True), "ReplicaSet", "web-1")
    new = owned(pod("new", cpu=4, priority=5, labels={"pod-template-hash": "2"}), "ReplicaSet", "web-2")
    other = owned(pod("other", cpu=4, priority=5, labels={"pod-template-hash": "2"}), "ReplicaSet", "2")
    for comes, spared in ((new, True), (other, False)):
        world = World(node("n1", cpu=4), node("n2", cpu=4), replica_set("web-1", "web"), old, comes)
        world.add(pod("bystander", cpu=4, node="n2")).settle()
        assert (world.evicted == []) is spared


def test_only_what_its_room_does_not_cover_is_evicted() -> None:
    """cost.md 5.6: a larger replacement: two of the four cores are its predecessor's."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        owned(pod("old", cpu=2, node="n1", priority=5, terminating=True), "ReplicaSet", "web"),
        pod("small", cpu=2, node="n1", priority=1),
        pod("a", cpu=2, node="n2", priority=2),
        pod("b", cpu=2, node="n2", priority=2),
        owned(pod("new", cpu=4, priority=5), "ReplicaSet", "web"),
    ).drain()
    preemption = next(d.preemption for d in world.engine.decisions if d.preemption is not None)
    # Without the predecessor's room n1 would not do: it has the replacement's own priority.
    assert (preemption.domain, [verdict.unit.name for verdict in preemption.victims]) == ("n1", ["default/small"])


def test_room_is_for_one_of_two_replacements() -> None:
    """cost.md 5.6."""
    world = World(
        *[node(f"n{i}", cpu=4) for i in (1, 2)],
        owned(pod("old", cpu=4, node="n1", priority=5, terminating=True), "ReplicaSet", "web"),
        pod("bystander", cpu=4, node="n2"),
        *[owned(pod(f"new{i}", cpu=4, priority=5), "ReplicaSet", "web") for i in (1, 2)],
    ).settle()
    assert world.evicted == ["bystander"]
    assert {world.where["new1"], world.where["new2"]} == {"n1", "n2"}


def test_victims_replacement_has_no_claim_to_what_it_was_evicted_for() -> None:
    """cost.md 5.6: the capacity is nominated to the more important pod."""
    world = World(
        node("n1", cpu=4),
        owned(pod("old", cpu=4, node="n1", priority=1), "ReplicaSet", "web"),
        pod("high", cpu=4, priority=9),
    ).drain()
    world.add(owned(pod("again", cpu=4, priority=1), "ReplicaSet", "web")).drain()
    assert world.nominated == {"high": "n1"}
    assert world.settle().where == {"high": "n1"}


@pytest.mark.parametrize("whole", [False, True], ids=["single", "all"])
def test_gang_takes_the_room_of_the_gang_it_replaces(whole: bool) -> None:
    """cost.md 5.6: by the owner of the PodGroups; the pods have none."""
    old = [owned(group("old", min_count=2, priority=5, whole=whole), "LeaderWorkerSet", "serve")]
    new = [owned(group("new", min_count=2, priority=5), "LeaderWorkerSet", "serve")]
    world = World(
        *[node(f"n{i}", cpu=4) for i in range(4)],
        *old,
        *[pod(f"old-{i}", cpu=4, node=f"n{i}", group="old", priority=5, terminating=True) for i in range(2)],
        *[pod(f"low-{i}", cpu=4, node=f"n{i + 2}") for i in range(2)],
        *new,
        *[pod(f"new-{i}", cpu=4, group="new", priority=5) for i in range(2)],
    ).drain()
    assert (sorted(world.nominated.values()), world.evicted) == (["n0", "n1"], [])
    names = "default/old-0, default/old-1"
    assert world.condition("new")[2].endswith(f"unschedulable, waiting for pods {names} of the same owner to terminate")
    world.settle()
    assert {world.where["new-0"], world.where["new-1"]} == {"n0", "n1"}
    assert world.evicted == []


def test_nominated_node_that_failed_for_good_does_not_hide_the_predecessor() -> None:
    """cost.md 5.6, preemption.md 2.3: the first victim still terminates there, but the nomination no longer counts."""
    world = World(
        node("n1", cpu=4, unschedulable=True),
        pod("victim", cpu=4, node="n1", terminating=True, preempted=True),
        node("n2", cpu=4),
        owned(pod("old", cpu=4, node="n2", priority=5, terminating=True), "ReplicaSet", "web"),
        node("n3", cpu=4),
        pod("bystander", cpu=4, node="n3"),
        owned(pod("new", cpu=4, priority=5, nominated="n1"), "ReplicaSet", "web"),
    ).drain()
    assert last_deferral(world).why is DeferralReason.PREDECESSOR
    assert (world.evicted, world.nominated) == ([], {"new": "n2"})


def test_waiting_for_predecessors_can_be_turned_off() -> None:
    """cost.md 5.6."""
    assert rolling(successor=False).settle().evicted == ["bystander"]


def test_predecessor_that_does_not_terminate_is_not_waited_for_forever() -> None:
    """cost.md 5.7: it should have gone at START; after `holdSeconds` it is unknown whether it ever does."""
    world = rolling(hold_seconds=60)
    world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    world.drain()
    assert deferrals(world) == [("PREDECESSOR", 60.0)]
    world.virtual.until(START + 59)
    assert world.evicted == []
    world.virtual.until(START + 62)
    assert (world.evicted, world.nominated) == (["bystander"], {"new": "n2"})


def test_pod_that_never_preempts_waits_as_before() -> None:
    """cost.md 5.6, preemption.md 2.2: it is nominated to nothing."""
    world = World(
        node("n1", cpu=4),
        owned(pod("old", cpu=4, node="n1", priority=5, terminating=True), "ReplicaSet", "web"),
        owned(pod("new", cpu=4, priority=5, never=True), "ReplicaSet", "web"),
    ).drain()
    assert world.nominated == {}
    assert world.message("new").endswith("not eligible due to preemptionPolicy=Never.")


# -- the preemptor's own delay -----------------------------------------------------------------------------------------


def delayed(*pods: objects.KubernetesObject, classes: Mapping[str, str] | None = None) -> World:
    found = [
        objects.PriorityClass(metadata=objects.ObjectMeta(name=name, annotations={PREEMPTION_DELAY: text}), value=9)
        for name, text in (classes or {}).items()
    ]
    return World(*found, node("n1", cpu=4), (pod("low", cpu=4, node="n1"), START - 50), *[(one, START) for one in pods])


def test_no_pods_are_evicted_before_the_delay_is_over() -> None:
    """cost.md 6.1."""
    world = delayed(saying(pod("high", cpu=4, priority=9), preemption_delay="5m")).drain()
    assert (world.evicted, world.nominated) == ([], {})
    assert world.message("high").endswith(f"preemption: no pods are evicted before {at(300)} (preemption-delay 5m)")
    assert deferrals(world) == [("DELAY", 300.0)]
    assert world.engine.next_wakeup(flush=False) == START + 300
    world.virtual.until(START + 299)
    assert world.evicted == []
    world.virtual.until(START + 300)
    assert (world.evicted, world.nominated) == (["low"], {"high": "n1"})


def test_work_annotations_count_with_kube_schedulers_choice_too() -> None:
    """cost.md 4.9: a delay, and a minimum runtime, are set by annotations, whatever way places are chosen."""
    delayed = saying(pod("high", cpu=4, priority=9), preemption_delay="5m")
    young = saying(pod("low", cpu=4, node="n1", start=START - 50), minimum_runtime="10m")
    for running, preemptor, until in (
        (pod("low", cpu=4, node="n1"), delayed, ("DELAY", 300.0)),
        (young, pod("high", cpu=4, priority=9), ("MINIMUM_RUNTIME", 600.0)),
    ):
        there: list[Item] = [node("n1", cpu=4), (running, START - 50), (preemptor, START)]
        world = World(*there, profiles=configured(placement="Compatible")).drain()
        assert world.evicted == []
        assert deferrals(world) == [until]


def test_room_that_comes_meanwhile_is_used() -> None:
    """cost.md 6.2."""
    world = delayed(saying(pod("high", cpu=4, priority=9), preemption_delay="5m")).drain()
    world.gone("low").settle()
    assert (world.where, world.evicted) == ({"high": "n1"}, [])
    assert world.now < START + 300


def test_restart_does_not_begin_the_delay_anew() -> None:
    """cost.md 6.1: it counts from when the pod was made."""
    world = delayed(saying(pod("high", cpu=4, priority=9), preemption_delay="5m"))
    world.virtual.now = START + 299
    world.drain()
    assert deferrals(world) == [("DELAY", 300.0)]
    world.virtual.until(START + 301)
    assert world.evicted == ["low"]


def _group(name: str, delay: str | None, *delays: str | None) -> list[objects.KubernetesObject]:
    head = group(name, min_count=len(delays), priority=9)
    made = [pod(f"{name}-{i}", cpu=1, priority=9, group=name) for i in range(len(delays))]
    return [
        saying(head, preemption_delay=delay) if delay else head,
        *(saying(one, preemption_delay=own) if own else one for one, own in zip(made, delays, strict=True)),
    ]


@pytest.mark.parametrize(
    ("of_group", "of_pods", "until"),
    [("1m", (None, None), 60), (None, ("1m", "2m"), 120), ("5m", ("1m", "0s"), 60), ("5m", ("1m", None), 300)],
    ids=["the group's", "the longest of its pods", "a pod's own before the group's", "each by itself"],
)
def test_groups_delay_is_the_longest_of_its_pods(
    of_group: str | None, of_pods: tuple[str | None, ...], until: float
) -> None:
    """cost.md 6.1."""
    world = delayed(*_group("crew", of_group, *of_pods)).drain()
    assert deferrals(world) == [("DELAY", until)]
    text = f"pod group is unschedulable, no pods are evicted before {at(until)} (preemption-delay "
    assert text in world.condition("crew")[2]
    assert world.settle().evicted == ["low"]


def test_priority_class_sets_the_default() -> None:
    """cost.md 6.1."""
    high = pod("high", cpu=4, priority=9)
    high = replace(high, spec=replace(high.spec, priority_class_name="patient"))
    world = delayed(high, classes={"patient": "90s"}).drain()
    assert deferrals(world) == [("DELAY", 90.0)]


def test_delay_that_is_taken_back_ends_at_once() -> None:
    """cost.md 2.4, 6.1: the annotation counts from the next decision on."""
    world = delayed(saying(pod("high", cpu=4, priority=9), preemption_delay="5m")).drain()
    world.change_pod("high", lambda item: saying(item, preemption_delay="0s"))
    world.virtual.until(START + 2)
    assert world.evicted == ["low"]


def test_delay_has_no_effect_without_possible_victims() -> None:
    """cost.md 6.1: the answer is then why there are none."""
    world = World(node("n1", cpu=4), pod("same", cpu=4, node="n1", priority=9))
    world.add((saying(pod("high", cpu=4, priority=9), preemption_delay="5m"), START)).drain()
    assert "No preemption victims found for incoming pod" in world.message("high")
    assert deferrals(world) == []


# -- pods that end by themselves --------------------------------------------------------------------------------------


def waiting(*pods: objects.KubernetesObject, longest: float = 600) -> World:
    nodes = [node(f"n{i}", cpu=4) for i in (1, 2)]
    profiles = configured(wait_for_completions=longest)
    return World(*nodes, *[(one, START) for one in pods], profiles=profiles)


def test_pod_that_states_when_it_ends_is_waited_for() -> None:
    """cost.md 6.3."""
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(120)),
        pod("runs", cpu=4, node="n2"),
        pod("high", cpu=4, priority=9),
    ).drain()
    assert (world.evicted, world.nominated) == ([], {})
    text = f"preemption: waiting for pod default/ends to end by {at(120)}; no pods are evicted until then"
    assert world.message("high").endswith(text)
    world.settle()
    assert (world.where, world.evicted, world.now) == ({"high": "n1", "runs": "n2"}, [], START + 120)


@pytest.mark.parametrize(
    ("option", "states"),
    [
        ("wait_for_completions", {"expected_end": at(120)}),
        ("wait_for_checkpoint", {"checkpoint_interval": "2m"}),
    ],
)
def test_preemptor_waits_without_its_nomination(option: str, states: dict[str, str]) -> None:
    """cost.md 6.3: for completions; and for checkpoints (cost.md 6.6)."""
    low, high = pod("low", cpu=4, node="n1", start=-110), pod("high", cpu=4, priority=9, nominated="n1")
    profiles = configured(**{option: 600.0})
    decision = World(node("n1", cpu=4), (saying(low, **states), START), (high, START), profiles=profiles).step()
    assert (decision.deferral is not None, [cleared.name for cleared in decision.cleared_nominations]) == (
        True,
        ["high"],
    )


def test_waiting_for_completions_is_off_by_default() -> None:
    """cost.md 6.3."""
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(1)), pod("high", cpu=4, priority=9), longest=0
    )
    world.add(pod("runs", cpu=4, node="n2", priority=1)).drain()
    assert world.evicted == ["ends"]


@pytest.mark.parametrize(
    ("end", "longest", "waits"), [(120, 119, False), (120, 120, True), (0, 600, False), (-5, 600, False)]
)
def test_wait_is_never_longer_than_the_duration(end: float, longest: float, waits: bool) -> None:
    """cost.md 6.3."""
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(end)),
        pod("runs", cpu=4, node="n2", priority=1),
        pod("high", cpu=4, priority=9),
        longest=longest,
    ).drain()
    world.virtual.now = START + 2
    world.drain()
    assert world.evicted == ([] if waits else ["ends"])


def test_deadline_of_the_pod_gives_its_end_with_its_grace_period() -> None:
    """cost.md 6.4."""
    job = pod("job", cpu=4, node="n1", start=10, grace=5)
    world = waiting(
        replace(job, spec=replace(job.spec, active_deadline_seconds=100)),
        pod("runs", cpu=4, node="n2"),
        pod("high", cpu=4, priority=9),
    ).drain()
    assert deferrals(world) == [("COMPLETIONS", 116.0)]
    assert world.settle().where == {"high": "n1", "runs": "n2"}


def job_of(seconds: object, started: float | None, name: str = "train", **spec: object) -> Job:
    """A Job with a deadline; `started` in seconds after START."""
    meta = objects.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    status = {} if started is None else {"startTime": at(started)}
    return Job(metadata=meta, spec={"activeDeadlineSeconds": seconds, **spec}, status=status)


def made_by(item: objects.Pod, name: str, version: str = "batch/v1", kind: str = "Job") -> objects.Pod:
    reference = objects.OwnerReference(api_version=version, kind=kind, name=name, uid=f"uid-{name}", controller=True)
    return replace(item, metadata=replace(item.metadata, owner_references=(reference,)))


@pytest.mark.parametrize(
    ("job", "own", "until"),
    [
        (job_of(100, started=-20), None, 86.0),  # 100 s after the Job started, 5 s of grace, and a second
        (job_of(100, started=None), None, 116.0),  # a Job without a status: from the start of the pod
        (job_of(100, started=-20), 40, 56.0),  # the pod's own is earlier
        (job_of(100, started=-20), 400, 86.0),
        (job_of(100, started=-20, suspend=True), None, None),
        (job_of("100", started=-20), None, None),
        (job_of(True, started=-20), None, None),
        (job_of(100, started=-20, name="other"), None, None),
        (None, None, None),
        (None, 40, 56.0),  # the Job may not be known: then the pod's own alone
    ],
)
def test_deadline_of_its_job_counts_from_the_jobs_start(job: Job | None, own: int | None, until: float | None) -> None:
    """cost.md 6.4."""
    runs = made_by(pod("worker", cpu=4, node="n1", start=10, grace=5), "train")
    runs = replace(runs, spec=replace(runs.spec, active_deadline_seconds=own))
    items: list[objects.KubernetesObject] = [runs, pod("runs", cpu=4, node="n2"), *([job] if job is not None else [])]
    world = waiting(*items, pod("high", cpu=4, priority=9)).drain()
    assert deferrals(world) == ([("COMPLETIONS", until)] if until is not None else [])
    if until is not None:
        assert world.settle().where == {"high": "n1", "runs": "n2"}


def test_deadline_counts_only_of_a_job_of_batch_in_its_namespace() -> None:
    """cost.md 6.4."""
    elsewhere = job_of(100, started=0)
    elsewhere = replace(elsewhere, metadata=replace(elsewhere.metadata, namespace="other"))
    of_others = made_by(pod("worker", cpu=4, node="n1", start=10), "train", "batch.volcano.sh/v1alpha1")
    for items in ([made_by(pod("worker", cpu=4, node="n1"), "train"), elsewhere], [of_others, job_of(100, started=0)]):
        assert deferrals(waiting(*items, pod("runs", cpu=4, node="n2"), pod("high", cpu=4, priority=9)).drain()) == []


def test_job_that_changes_or_goes_is_followed() -> None:
    """cost.md 6.4: no preemptor waits for a deadline that was taken back."""
    world = waiting(
        made_by(pod("worker", cpu=4, node="n1", start=0), "train"),
        job_of(100, started=0),
        pod("runs", cpu=4, node="n2"),
        pod("high", cpu=4, priority=9),
    ).drain()
    assert deferrals(world) == [("COMPLETIONS", 131.0)]  # 30 s of grace
    engine = world.engine
    engine.set(job_of(60, started=0), world.virtual.now)
    world.virtual.until(START + 2)
    assert deferrals(world)[-1] == ("COMPLETIONS", 91.0)
    engine.set(job_of(None, started=0), world.virtual.now)
    world.virtual.until(START + 4)
    assert len(world.evicted) == 1
    engine.set(job_of(60, started=0), world.virtual.now)
    engine.remove(ObjectRef("Job", "default/train"), world.virtual.now)
    assert all(engine.cluster.job_deadlines.of(one) is None for one in engine.cluster.pods.values())


def test_more_important_pod_that_ends_counts_too() -> None:
    """cost.md 6.4: it is not evicted, and its capacity is as good as any other."""
    world = waiting(
        saying(pod("vip", cpu=4, node="n1", priority=50, start=0), expected_end=at(60)),
        pod("low", cpu=4, node="n2"),
        pod("high", cpu=4, priority=9),
    ).settle()
    assert (world.where, world.evicted) == ({"high": "n1", "low": "n2"}, [])


def test_groups_annotation_is_for_all_its_pods() -> None:
    """cost.md 6.4."""
    crew = gang("crew", 2, cpu=4)
    world = World(
        *[node(f"n{i}", cpu=4) for i in (1, 2)], *crew, profiles=configured(wait_for_completions=600)
    ).settle()
    head = crew[0]
    assert isinstance(head, objects.PodGroup)
    world.add(saying(head, expected_end=at(100)), (pod("high", cpu=4, priority=9), START)).drain()
    assert [why for why, _ in deferrals(world)] == ["COMPLETIONS"]


def test_earliest_end_that_suffices_is_waited_for() -> None:
    """cost.md 6.5: a gang of two wants both nodes: the first to end does not do, the third is not needed."""
    world = World(
        *[node(f"n{i}", cpu=4) for i in range(3)],
        *[
            (saying(pod(f"e{i}", cpu=4, node=f"n{i}", start=0), expected_end=at(100 * (i + 1))), START)
            for i in range(3)
        ],
        *[(one, START) for one in gang("crew", 2, priority=9, cpu=4)],
        profiles=configured(wait_for_completions=600),
    ).drain()
    assert deferrals(world) == [("COMPLETIONS", 201.0)]
    assert [one.name for one in last_deferral(world).pods] == ["e0", "e1"]
    world.settle()
    assert (world.evicted, world.where["e2"]) == ([], "n2")


def test_wrong_expectation_falls_back_to_preemption() -> None:
    """cost.md 6.5."""
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(120)),
        pod("runs", cpu=4, node="n2", priority=1),
        pod("high", cpu=4, priority=9),
    )
    world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    world.drain()
    world.virtual.until(START + 120.5)
    assert world.evicted == []
    world.virtual.until(START + 121)
    assert (world.evicted, world.nominated) == (["ends"], {"high": "n1"})


def test_pod_that_now_ends_later_is_no_longer_waited_for() -> None:
    """cost.md 2.4, 6.5: the annotation counts from the next decision on."""
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(120)),
        pod("runs", cpu=4, node="n2", priority=1),
        pod("high", cpu=4, priority=9),
    ).drain()
    world.change_pod("ends", lambda item: saying(item, expected_end=at(700)))
    world.virtual.until(START + 2)
    assert world.evicted == ["ends"]


def test_wait_does_not_begin_again_if_others_take_the_room() -> None:
    """cost.md 6.5: nothing is held meanwhile; the duration is counted from when the preemptor was made."""
    world = waiting(
        saying(pod("ends", cpu=4, node="n1", start=0), expected_end=at(120)),
        saying(pod("later", cpu=4, node="n2", start=0), expected_end=at(500)),
        pod("high", cpu=4, priority=9),
        longest=400,
    ).drain()
    world.add(pod("vip", cpu=4, priority=50, selector={"only": "n1"}), node("n1", cpu=4, labels={"only": "n1"}))
    world.virtual.until(START + 130)
    assert "ends" in world.evicted or world.where.get("vip") == "n1"
    world.settle()
    assert world.where["vip"] == "n1"
    assert world.where["high"] == "n2"


@pytest.mark.parametrize("needed", [2, 3])
def test_room_for_as_many_as_evicting_would_place(needed: int) -> None:
    """cost.md 6.3: a gang of minCount 1 that could place all its pods by evicting does not wait for room for one."""
    world = World(
        *[node(f"n{i}", cpu=4) for i in range(3)],
        *[(saying(pod(f"e{i}", cpu=4, node=f"n{i}", start=0), expected_end=at(100)), START) for i in range(2)],
        (pod("runs", cpu=4, node="n2"), START),
        *[(one, START) for one in gang("crew", needed, min_count=1, priority=9, cpu=4)],
        profiles=configured(wait_for_completions=600),
    ).drain()
    assert (world.evicted == []) is (needed == 2)
