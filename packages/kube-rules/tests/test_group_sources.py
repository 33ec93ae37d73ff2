"""By what pods say that they belong together (workloads.md 1), and what foreign group objects say (2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.decoding import decode_object
from kube_rules.errors import InputError
from kube_rules.group_sources import (
    DEFAULT_SOURCES,
    GROUP_ANNOTATIONS,
    GROUP_LABELS,
    SOURCES,
    GroupSources,
    group_problems,
    pod_group_name,
)
from kube_rules.objects import Pod, PodGroup

OURS = {"scheduling.reprieve.dev/pod-group": "ours"}
COSCHEDULING = {"scheduling.x-k8s.io/pod-group": "co"}
VOLCANO = {"scheduling.k8s.io/group-name": "vc"}
VOLCANO_OWN = {"scheduling.volcano.sh/group-name": "vcown"}
KUEUE = {"kueue.x-k8s.io/pod-group-name": "kq"}


def pod(*, native: str = "", labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Pod:
    spec = {"schedulingGroup": {"podGroupName": native}} if native else {}
    meta = {"name": "p", "labels": labels or {}, "annotations": annotations or {}}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


SAYS: dict[str, tuple[Pod, str | None]] = {
    "nothing": (pod(), None),
    "an empty label": (pod(labels={"scheduling.x-k8s.io/pod-group": ""}), None),
    "our label": (pod(labels=OURS), "ours"),
    "the coscheduling label": (pod(labels=COSCHEDULING), "co"),
    "both labels": (pod(labels={**COSCHEDULING, **OURS}), "ours"),
    "the native field and our label": (pod(native="n", labels=OURS), "n"),
    "Volcano's first annotation": (pod(annotations=VOLCANO), "vc"),
    "Volcano's second annotation": (pod(annotations=VOLCANO_OWN), "vcown"),
    "both of Volcano's": (pod(annotations={**VOLCANO_OWN, **VOLCANO}), "vc"),
    "Volcano's key as a label": (pod(labels=VOLCANO_OWN), "vcown"),
    "coscheduling before Volcano": (pod(labels=COSCHEDULING, annotations=VOLCANO), "co"),
    "Kueue's label": (pod(labels=KUEUE), "kq"),
    "Volcano before Kueue": (pod(labels=KUEUE, annotations=VOLCANO), "vc"),
}


@pytest.mark.parametrize("says", SAYS)
def test_first_source_by_which_a_pod_names_a_group_counts(says: str) -> None:
    """workloads.md 1.1, 2.3."""
    found, expected = SAYS[says]
    assert pod_group_name(found) == expected


@pytest.mark.parametrize("name", [row.name for row in SOURCES if row.default])
def test_source_that_is_off_is_not_read(name: str) -> None:
    """workloads.md 1.3: and the next one counts."""
    everything = pod(native="n", labels={**OURS, **COSCHEDULING, **KUEUE}, annotations=VOLCANO)
    found = pod_group_name(everything, GroupSources.switched({name: False}))
    named = {row.name: row.names(everything) for row in SOURCES if row.default}
    assert found == next(its for other, its in named.items() if other != name)
    assert pod_group_name(everything, GroupSources([name])) == named[name]


def test_switches_change_what_is_on_by_default_and_refuse_other_names() -> None:
    """workloads.md 1.2."""
    assert GroupSources.switched({}) == DEFAULT_SOURCES
    assert "kueue" not in GroupSources.switched({"kueue": False})
    assert "volcano" in GroupSources.switched({"kueue": False})
    with pytest.raises(ValueError, match="'vulcano' is no source of groups; known: native, label"):
        GroupSources.switched({"vulcano": True})


def test_pod_that_names_several_groups_is_told_which_counts() -> None:
    """workloads.md 1.5."""
    twice = pod(labels=COSCHEDULING, annotations=VOLCANO)
    assert group_problems(twice, DEFAULT_SOURCES) == [
        'names the group "co" (coscheduling) and "vc" (volcano): the first counts'
    ]
    same = pod(labels=COSCHEDULING, annotations={"scheduling.k8s.io/group-name": "co"})
    assert group_problems(same, DEFAULT_SOURCES) == []


@pytest.mark.parametrize("name", ["v:x:9", "v:", "job:j", 'a"b', "a/b", "two\nlines", "Big", "n" * 254])
def test_annotation_that_is_no_name_is_told_and_is_in_no_group_that_is_made(name: str) -> None:
    """workloads.md 1.6."""
    wrong = pod(annotations={"scheduling.k8s.io/group-name": name})
    membership = DEFAULT_SOURCES.membership(wrong)
    assert membership is not None
    assert membership.name.startswith('"'), "no object, and no group that is made, is called like this"
    [problem] = group_problems(wrong, DEFAULT_SOURCES)
    assert problem.startswith("metadata.annotations: names the group ")
    assert "\n" not in problem
    assert len(problem) < 200


@pytest.mark.parametrize("count", [None, "", "three", "0", "-1", "2.5", "2147483648", "1" * 5000, "０", "1_0"])
def test_count_that_is_no_number_of_pods_makes_no_group(count: str | None) -> None:
    """workloads.md 2.4."""
    annotations = {} if count is None else {"kueue.x-k8s.io/pod-group-total-count": count}
    wrong = pod(labels=KUEUE, annotations=annotations)
    membership = DEFAULT_SOURCES.membership(wrong)
    assert membership is not None
    assert membership.size is None
    [problem] = group_problems(wrong, DEFAULT_SOURCES)
    assert problem.startswith("metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: ")
    assert len(problem) < 400


@pytest.mark.parametrize(("count", "size"), [("1", 1), ("3", 3), ("+4", 4), ("2147483647", 2147483647)])
def test_count_is_the_size_of_the_group(count: str, size: int) -> None:
    """workloads.md 2.4."""
    right = pod(labels=KUEUE, annotations={"kueue.x-k8s.io/pod-group-total-count": count})
    membership = DEFAULT_SOURCES.membership(right)
    assert membership is not None
    assert (membership.name, membership.size) == ("kq", size)
    assert group_problems(right, DEFAULT_SOURCES) == []


def group(api_version: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> PodGroup:
    meta = {"name": "g", "namespace": "default"}
    manifest = {"apiVersion": api_version, "kind": "PodGroup", "metadata": meta, "spec": spec, "status": status or {}}
    found = decode_object(manifest)
    assert isinstance(found, PodGroup)
    return found


CO, VC = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"


@pytest.mark.parametrize(
    ("version", "spec", "minimum"),
    [
        (CO, {"minMember": 3, "scheduleTimeoutSeconds": 10, "minResources": {"cpu": "3"}}, 3),
        (CO, {}, None),
        (VC, {"minMember": 3, "queue": "default", "minResources": {"cpu": "3"}}, 3),
        (VC, {"minMember": 0}, None),
        (VC, {}, None),
    ],
)
def test_min_member_is_min_count(version: str, spec: dict[str, Any], minimum: int | None) -> None:
    """api.md 3.2, workloads.md 2.1 and 2.2."""
    found = group(version, spec)
    assert found.min_count == minimum
    assert found.foreign is not None
    assert found.foreign.api_version == version
    assert group_problems(found, DEFAULT_SOURCES) == []


@pytest.mark.parametrize("version", [CO, VC])
@pytest.mark.parametrize("minimum", ["3", -1, True, 2**31, [], 1.5])
def test_min_member_that_is_no_number_of_pods_is_refused_with_its_field(version: str, minimum: Any) -> None:
    """api.md 5.1: the field that the user wrote, not what it becomes."""
    with pytest.raises(InputError) as caught:
        group(version, {"minMember": minimum})
    assert caught.value.path == "spec.minMember"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"minTaskMember": {"a": -1, "b": 3}}, "spec.minTaskMember[a]"),
        ({"minTaskMember": {"a": 2**31}}, "spec.minTaskMember[a]"),
        ({"minTaskMember": {"a": "x"}}, "spec.minTaskMember[a]"),
        ({"subGroupPolicy": 7}, "spec.subGroupPolicy"),
        ({"subGroupPolicy": [{"subGroupSize": -1}]}, "spec.subGroupPolicy[0].subGroupSize"),
        ({"subGroupPolicy": [{}, {"minSubGroups": 2**31}]}, "spec.subGroupPolicy[1].minSubGroups"),
        (
            {"subGroupPolicy": [{"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Within"}]}}]},
            "spec.subGroupPolicy[0].labelSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_parts_of_a_volcano_group_that_mean_nothing_are_refused_with_their_field(
    spec: dict[str, Any], path: str
) -> None:
    """api.md 5.1, workloads.md 2.2: what its definition does not refuse, so that nothing below has to."""
    with pytest.raises(InputError) as caught:
        group(VC, {"minMember": 2, **spec})
    assert caught.value.path == path


def test_queue_and_network_topology_of_volcano_are_told_to_be_left_aside() -> None:
    """workloads.md 2.2."""
    found = group(
        VC, {"minMember": 1, "queue": "research", "networkTopology": {"mode": "hard"}, "priorityClassName": "x"}
    )
    assert found.spec.priority_class_name == "x"
    queue, topology = group_problems(found, DEFAULT_SOURCES)
    assert queue == 'spec.queue: "research" is not read: there are no queues here'
    assert topology.startswith("spec.networkTopology is not read")
    assert group_problems(found, GroupSources.switched({"volcano": False})) == []


def test_pod_group_states_nothing_that_another_api_knows() -> None:
    """The key under which it is kept is none of an API's fields."""
    meta = {"name": "g", "namespace": "default"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    native = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}
    found = decode_object({**native, "$foreign": {"apiVersion": VC}})
    assert isinstance(found, PodGroup)
    assert found.foreign is None


def test_owners_are_a_source_only_where_they_are_asked_for() -> None:
    """workloads.md 1.2: off by default; what made a pod is no second opinion."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
    made = msgspec.convert({"metadata": {"name": "p", "ownerReferences": [reference]}}, Pod)
    owners = GroupSources.switched({"owners": True})
    assert pod_group_name(made) is None
    assert pod_group_name(made, owners) == "job:j"
    named = msgspec.convert({"metadata": {"name": "p", "ownerReferences": [reference], "labels": COSCHEDULING}}, Pod)
    assert pod_group_name(named, owners) == "co"
    assert group_problems(named, owners) == []
    membership = owners.membership(made)
    assert membership is not None
    assert (membership.name, membership.source.name, membership.size) == ("job:j", "owners", None)


def test_which_sources_are_on_and_what_they_read() -> None:
    one = GroupSources(["volcano", "native"])
    assert one == GroupSources(["native", "volcano"])
    assert hash(one) == hash(GroupSources(["native", "volcano"]))
    assert one != GroupSources(["native"])
    assert one != "native"
    assert repr(one) == "GroupSources(['native', 'volcano'])"
    assert one.api_groups == ("scheduling.k8s.io", "scheduling.volcano.sh")
    assert DEFAULT_SOURCES.api_groups == (
        "scheduling.k8s.io",
        "scheduling.reprieve.dev",
        "scheduling.x-k8s.io",
        "scheduling.volcano.sh",
    )
    assert one.read(group(VC, {}))
    assert not one.read(group(CO, {}))
    native: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    assert GroupSources([]).read(group("scheduling.k8s.io/v1beta1", native))
    assert group_problems(group("scheduling.k8s.io/v1beta1", native), DEFAULT_SOURCES) == []


@pytest.mark.parametrize(("length", "shown"), [(128, "x" * 128), (129, "x" * 128 + "...")])
def test_count_is_quoted_in_an_excerpt(length: int, shown: str) -> None:
    annotations = {"kueue.x-k8s.io/pod-group-total-count": "x" * length}
    [problem] = group_problems(pod(labels=KUEUE, annotations=annotations), DEFAULT_SOURCES)
    assert f'Invalid value: "{shown}": expected a number of pods from 1 to 2147483647' in problem


@pytest.mark.parametrize("name", ["a" * 253, "a.b-c", "0"])
def test_annotation_that_is_a_name_counts(name: str) -> None:
    """workloads.md 1.6."""
    assert pod_group_name(pod(annotations={"scheduling.k8s.io/group-name": name})) == name


@pytest.mark.parametrize(
    ("first", "second", "expected"), [("", "b", "b"), ("a", "", "a"), ("", "", None), ("Big", "b", '"Big"')]
)
def test_first_annotation_that_says_something_counts(first: str, second: str, expected: str | None) -> None:
    annotations = {"scheduling.k8s.io/group-name": first, "scheduling.volcano.sh/group-name": second}
    assert pod_group_name(pod(annotations=annotations)) == expected


def test_annotation_that_is_no_name_is_quoted_in_one_short_line() -> None:
    """workloads.md 1.6: 64 characters, its start and its end."""
    for length, quoted in ((64, 64), (65, 64), (300, 64)):
        found = pod_group_name(pod(annotations={"scheduling.k8s.io/group-name": "A" * length}))
        assert found is not None
        assert len(found) == quoted + 2
        assert ("..." in found) is (length > 64)


_KEYS = (*GROUP_LABELS, *GROUP_ANNOTATIONS, "app", "jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-name")
_TEXTS = st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(["", "a", "b"]), max_size=3)


@given(
    on=st.sets(st.sampled_from([row.name for row in SOURCES])),
    labels=_TEXTS,
    annotations=_TEXTS,
    native=st.sampled_from([None, "a"]),
    job=st.booleans(),
)
def test_pods_that_are_passed_over_are_in_no_group(
    on: set[str], labels: dict[str, str], annotations: dict[str, str], native: str | None, job: bool
) -> None:
    """workloads.md 1.1: a pod without any key of a source is not asked of each; the answer is that of all sources."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    meta: dict[str, Any] = {"name": "p", "namespace": "default", "labels": labels, "annotations": annotations}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    if job:
        meta["ownerReferences"] = [owner]
    if native:
        spec["schedulingGroup"] = {"podGroupName": native}
    found = decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    assert isinstance(found, Pod)
    sources = GroupSources(on)
    named = next((name for row in sources.rows if (name := row.names(found))), None)
    membership = sources.membership(found)
    assert (membership.name if membership else None) == named == pod_group_name(found, sources)
