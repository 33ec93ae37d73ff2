"""Groups of other APIs, and of no API, in a plan (workloads.md 1 and 2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kube_rules.errors import InputError
from kube_rules.group_sources import GroupSources
from reprieve.framework.gates import FeatureGates
from reprieve.inputs.loader import read
from reprieve.scheduling.profiles import default_profile
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Answer
from tests import manifests
from tests.manifests import node

Manifest = dict[str, Any]
COUNT = "kueue.x-k8s.io/pod-group-total-count"
COSCHEDULING, VOLCANO = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"


pod = partial(manifests.pod, cpu=3, priority=0)


def group(version: str, minimum: int, name: str = "g", **spec: Any) -> Manifest:
    return manifests.manifest(version, "PodGroup", name, spec={"minMember": minimum, **spec})


def in_volcano(name: str = "g") -> Manifest:
    return {"annotations": {"scheduling.k8s.io/group-name": name}}


def in_coscheduling(name: str = "g") -> Manifest:
    return {"labels": {"scheduling.x-k8s.io/pod-group": name}}


def in_kueue(count: Any, name: str = "g") -> Manifest:
    return {"labels": {"kueue.x-k8s.io/pod-group-name": name}, "annotations": {COUNT: str(count)}}


def answer(*manifests: Manifest, **options: Any) -> Answer:
    return plan(read([(f"{i}.yaml", one) for i, one in enumerate(manifests)]), PlanOptions(**options))


def outcomes(found: Answer) -> dict[str, str]:
    return {one.name: one.outcome for one in found.plan.pods}


TWO_NODES = (node("n1"), node("n2"))
GANGS: dict[str, tuple[Manifest, ...]] = {
    "coscheduling": (group(COSCHEDULING, 3), *(pod(f"p{i}", meta=in_coscheduling()) for i in range(3))),
    "volcano": (group(VOLCANO, 3), *(pod(f"p{i}", meta=in_volcano()) for i in range(3))),
    "kueue": tuple(pod(f"p{i}", meta=in_kueue(3)) for i in range(3)),
}


@pytest.mark.parametrize("source", GANGS)
def test_all_or_nothing(source: str) -> None:
    """workloads.md 2.1, 2.2, 2.4: three pods and room for two, then for three."""
    short = answer(*TWO_NODES, *GANGS[source])
    assert set(outcomes(short).values()) == {"Unschedulable"}
    [found] = short.plan.pod_groups
    assert (found.name, found.min_count, found.scheduled) == ("g", 3, 0)
    enough = answer(*TWO_NODES, node("n3"), *GANGS[source])
    assert set(outcomes(enough).values()) == {"Scheduled"}
    assert enough.account.warnings == ()


@pytest.mark.parametrize("source", GANGS)
def test_source_that_is_off_leaves_its_pods_alone(source: str) -> None:
    """workloads.md 1.3."""
    found = answer(*TWO_NODES, *GANGS[source], sources=GroupSources.switched({source: False}))
    assert sorted(outcomes(found).values()) == ["Scheduled", "Scheduled", "Unschedulable"]
    assert found.plan.pod_groups == ()


@pytest.mark.parametrize("source", GANGS)
def test_without_the_gate_no_source_is_read(source: str) -> None:
    """workloads.md 1.3: GenericWorkload off."""
    found = answer(*TWO_NODES, *GANGS[source], gates=FeatureGates.of({"GenericWorkload": False}))
    assert sorted(outcomes(found).values()) == ["Scheduled", "Scheduled", "Unschedulable"]


@pytest.mark.parametrize("source", ["coscheduling", "volcano"])
def test_fewer_pods_than_the_minimum_wait(source: str) -> None:
    """workloads.md 1.6 and 2: a minMember that is larger than the number of pods."""
    first, *pods = GANGS[source]
    larger = {**first, "spec": {"minMember": 4}}
    found = answer(*TWO_NODES, node("n3"), node("n4"), larger, *pods)
    assert set(outcomes(found).values()) == {"Gated"}
    assert {one.message for one in found.plan.pods} == {
        "waiting for minCount pods from a gang to appear in scheduling queue"
    }


@pytest.mark.parametrize("source", ["coscheduling", "volcano"])
def test_pods_of_a_missing_group_wait_for_it(source: str) -> None:
    """workloads.md 1.6."""
    _, *pods = GANGS[source]
    found = answer(*TWO_NODES, *pods)
    assert set(outcomes(found).values()) == {"Gated"}
    assert {one.message for one in found.plan.pods} == {
        'waiting for pods\'s pod group "g" to appear in scheduling queue'
    }


def test_gated_pods_of_kueue_do_not_count_until_their_gates_are_gone() -> None:
    """workloads.md 2.5."""
    gate = [{"name": "kueue.x-k8s.io/admission"}]
    open_ones = [pod(f"p{i}", cpu="1", meta=in_kueue(3)) for i in range(2)]
    found = answer(*TWO_NODES, *open_ones, pod("held", cpu="1", meta=in_kueue(3), schedulingGates=gate))
    assert outcomes(found) == dict.fromkeys(("p0", "p1", "held"), "Gated")


def test_largest_of_several_counts_counts_and_is_reported() -> None:
    """workloads.md 2.4: in any order."""
    for counts in ((2, 3), (3, 2)):
        found = answer(*TWO_NODES, *(pod(f"p{i}", meta=in_kueue(count)) for i, count in enumerate(counts)))
        assert [one.min_count for one in found.plan.pod_groups] == [3]
        assert found.account.warnings == ("group default/g: its pods state different sizes; 3 is used, not 2",)


@pytest.mark.parametrize("count", ["", "two", "0"])
def test_count_that_cannot_be_read_is_bad_input_in_a_file(count: str) -> None:
    """workloads.md 2.4."""
    with pytest.raises(InputError) as caught:
        answer(*TWO_NODES, pod("p0", meta=in_kueue(count)))
    assert caught.value.path == f"metadata.annotations[{COUNT}]"
    assert caught.value.origin.file == "2.yaml"


def test_pod_waits_on_a_cluster() -> None:
    """workloads.md 2.4: what the API has admitted stops no other pod."""
    stored = pod("p0", meta={**in_kueue("two"), "uid": "u0"})
    found = answer(*TWO_NODES, stored, pod("alone", cpu="1"))
    assert outcomes(found) == {"p0": "Gated", "alone": "Scheduled"}
    [warning] = found.account.warnings
    assert warning.startswith(f'Pod default/p0: metadata.annotations[{COUNT}]: Invalid value: "two"')


def test_stronger_object_of_one_name_counts_with_a_warning() -> None:
    """workloads.md 1.4, in whatever order they come."""
    pods = [pod(f"p{i}", meta=in_volcano()) for i in range(2)]
    for objects in ((group(VOLCANO, 2), group(COSCHEDULING, 3)), (group(COSCHEDULING, 3), group(VOLCANO, 2))):
        found = answer(*TWO_NODES, *objects, *pods)
        assert [one.min_count for one in found.plan.pod_groups] == [3]
        assert found.account.warnings == (
            f"PodGroup default/g exists as {COSCHEDULING} and as {VOLCANO}; {COSCHEDULING} is used",
        )
        off = answer(*TWO_NODES, *objects, *pods, sources=GroupSources.switched({"coscheduling": False}))
        assert [one.min_count for one in off.plan.pod_groups] == [2]


def test_object_counts_before_what_pods_say_of_their_number() -> None:
    """workloads.md 1.4."""
    native = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    found = answer(*TWO_NODES, native, *(pod(f"p{i}", meta=in_kueue(3)) for i in range(2)))
    assert [one.min_count for one in found.plan.pod_groups] == [2]
    assert set(outcomes(found).values()) == {"Scheduled"}


CLASSES = tuple(
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 1000), ("higher", 2000))
)


@pytest.mark.parametrize("source", GANGS)
def test_group_without_a_class_has_the_highest_priority_of_its_pods(source: str) -> None:
    """workloads.md 2.6: and preempts by it."""
    victims = [pod(f"v{i}", node=f"n{i}", priority=500) for i in (1, 2, 3)]
    pods = [{**one, "spec": {**one["spec"], "priority": 1000}} for one in GANGS[source] if one["kind"] == "Pod"]
    rest = [one for one in GANGS[source] if one["kind"] != "Pod"]
    found = answer(*TWO_NODES, node("n3"), *victims, *rest, *pods)
    assert set(outcomes(found).values()) == {"Scheduled"}
    [preemption] = found.plan.preemptions
    assert preemption.preemptor.priority == 1000
    assert len(preemption.victims) == 3


def test_pods_that_name_no_class_are_of_the_priority_of_their_group() -> None:
    """workloads.md 2.6: the class stands on the group alone, as the MPI operator's schedulingPolicy puts it."""
    victims = [pod(f"v{i}", node=f"n{i}", priority=500) for i in (1, 2)]
    foreign = group(VOLCANO, 2, priorityClassName="high")
    plain = [pod(f"p{i}", meta=in_volcano()) for i in range(2)]
    for one in plain:
        del one["spec"]["priority"]
    found = answer(*TWO_NODES, *CLASSES, *victims, foreign, *plain)
    assert set(outcomes(found).values()) == {"Scheduled"}


def test_pods_of_another_class_conflict_with_their_group() -> None:
    """workloads.md 2.6, preemption.md 8."""
    foreign = group(VOLCANO, 2, priorityClassName="high")
    pods = [pod(f"p{i}", meta=in_volcano(), priorityClassName="higher") for i in range(2)]
    for one in pods:
        del one["spec"]["priority"]
    found = answer(*TWO_NODES, *CLASSES, foreign, *pods)
    assert {one.reason for one in found.plan.pods} == {"SchedulerError"}


def test_pods_of_one_group_may_ask_for_one_profile_by_several_names() -> None:
    """workloads.md 3.1 and 3.2."""
    profile = replace(default_profile(FeatureGates(), "reprieve-scheduler"), also_known_as=("volcano",))
    names = ("volcano", "reprieve-scheduler")
    pods = [pod(f"p{i}", meta=in_volcano(), schedulerName=name) for i, name in enumerate(names)]
    found = answer(*TWO_NODES, group(VOLCANO, 2), *pods, profiles=(profile,))
    assert set(outcomes(found).values()) == {"Scheduled"}
    other = answer(*TWO_NODES, pod("p", schedulerName="yunikorn"), profiles=(profile,))
    assert outcomes(other) == {"p": "Unschedulable"}
