"""Admission steps against the recorded answers of kube-apiserver 1.36 and the rules they cite."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.controlplane.admission.plane import Plane, pod, pod_group, priority_class

from reprieve.controlplane.admission import PROTECTION, STEPS, admission_steps
from reprieve.controlplane.admission.amounts import ONE
from reprieve.controlplane.admission.priority import Priority
from reprieve.controlplane.admission.usage import in_scope, usage_of
from reprieve.controlplane.admission_chain import Request, Step, User
from reprieve.controlplane.errors import StatusError

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    """A control plane with the classes of the recordings: std (default, 10), high (1000), low-never (-5)."""
    made = Plane()
    made.create(priority_class("std", 10, globalDefault=True))
    made.create(priority_class("high", 1000))
    made.create(priority_class("low-never", -5, preemptionPolicy="Never"))
    return made


def refused(plane: Plane, obj: Json) -> StatusError:
    with pytest.raises(StatusError) as caught:
        plane.create(obj)
    return caught.value


# -- the table


def test_steps_can_be_left_out_by_name() -> None:
    assert len(admission_steps(None, off=("Priority", "ResourceQuota"))) == len(STEPS) - 2
    with pytest.raises(ValueError, match="unknown admission plugin Prio; known: LimitRanger"):
        admission_steps(None, off=("Prio",))


# -- priority (preemption.md 8)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priorityClassName": "high"}, ("high", 1000, "PreemptLowerPriority")),  # 152
        ({"priorityClassName": "low-never"}, ("low-never", -5, "Never")),  # 153
        ({"priorityClassName": "high", "priority": 1000}, ("high", 1000, "PreemptLowerPriority")),  # 155
        ({"priorityClassName": "system-node-critical"}, ("system-node-critical", 2000001000, "PreemptLowerPriority")),
        ({}, ("std", 10, "PreemptLowerPriority")),  # 491: the global default
        (
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            ("high", 1000, "PreemptLowerPriority"),
        ),
    ],
)
def test_pod_priority_is_resolved(plane: Plane, spec: Json, expected: tuple[str, int, str]) -> None:
    made = plane.create(pod(**spec))["spec"]
    assert (made["priorityClassName"], made["priority"], made["preemptionPolicy"]) == expected


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nosuch"}, "no PriorityClass with name nosuch was found"),  # 151
        (
            {"priorityClassName": "high", "priority": 5},  # 154
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 1000 from the given PriorityClass name",
        ),
        (
            {"priority": 5},  # 156
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 10 from the given PriorityClass name",
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},  # 157
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_pod_priority_by_hand_is_refused(plane: Plane, spec: Json, why: str) -> None:
    error = refused(plane, pod("x", **spec))
    assert (error.code, error.reason, error.message) == (403, "Forbidden", f'pods "x" is forbidden: {why}')


def test_without_a_default_class_priority_is_zero() -> None:
    made = Plane().create(pod())["spec"]
    assert (made["priority"], made["preemptionPolicy"], "priorityClassName" in made) == (
        0,
        "PreemptLowerPriority",
        False,
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("std", 10)),  # 439
        ({"priorityClassName": "high"}, ("high", 1000)),  # 456
        ({"priorityClassName": "high", "priority": 1000}, ("high", 1000)),  # 460
    ],
)
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2"])
def test_group_priority_is_resolved_in_every_version(
    plane: Plane, version: str, spec: Json, expected: tuple[str, int]
) -> None:
    made = plane.create(pod_group("g", version=version, **spec))
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == expected
    assert made["metadata"]["finalizers"] == [PROTECTION]


def test_group_takes_preemption_policy_from_its_class(plane: Plane) -> None:
    assert plane.create(pod_group("g", priorityClassName="low-never"))["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nosuch"}, "no PriorityClass with name nosuch was found"),  # 457
        (
            {"priorityClassName": "high", "priority": 5},  # 458
            "priority set in the pod group (5) must match the priority computed (1000) based on the priority class "
            "set in the spec",
        ),
        (
            {"priority": 5},  # 459
            "priority set in the pod group (5) must match the priority computed (10) based on the priority class "
            "set in the spec",
        ),
        ({"workloadRef": {"workloadName": "no", "templateName": "a"}}, 'PodGroup rejected: Workload "no" not found'),
        (
            {"workloadRef": {"workloadName": "wl", "templateName": "zzz"}},  # 444
            'PodGroup rejected: PodGroupTemplate "zzz" not found in Workload "wl"',
        ),
    ],
)
def test_group_is_refused(plane: Plane, spec: Json, why: str) -> None:
    plane.create(workload("wl"))
    error = refused(plane, pod_group("x", **spec))
    assert (error.code, error.message) == (403, f'podgroups.scheduling.k8s.io "x" is forbidden: {why}')


def test_group_with_a_true_reference_is_accepted(plane: Plane) -> None:
    plane.create(workload("wl"))
    made = plane.create(pod_group("g", workloadRef={"workloadName": "wl", "templateName": "a"}))
    assert made["spec"]["priority"] == 10  # nothing is copied from the template (442)


def workload(name: str, version: str = "v1beta1", **template: Any) -> Json:
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}, **template}]},
    }


def test_template_priority_is_resolved(plane: Plane) -> None:
    """preemption.md 8: the same for PodGroup templates."""
    made = plane.create(workload("wl", priorityClassName="high"))["spec"]["podGroupTemplates"][0]
    assert (made["priorityClassName"], made["priority"]) == ("high", 1000)
    error = refused(plane, workload("x", priorityClassName="nosuch"))
    assert error.message == 'workloads.scheduling.k8s.io "x" is forbidden: no PriorityClass with name nosuch was found'
    error = refused(plane, workload("x", priorityClassName="high", priority=7))
    assert "priority set in the pod group template (7) must match the priority computed (1000)" in error.message


def test_template_of_v1alpha2_is_left_as_it_comes(plane: Plane) -> None:
    """418, 419, 430: a 1.36 server resolves nothing in templates and accepts unknown classes."""
    made = plane.create(workload("wl", "v1alpha2", priorityClassName="nosuch"))["spec"]["podGroupTemplates"][0]
    assert "priority" not in made


@pytest.mark.parametrize(
    ("obj", "resolved"),
    [
        (workload("wl"), False),
        (priority_class("plain", 7), False),
        (pod_group("g"), True),
    ],
    ids=["workload", "class", "group"],
)
@pytest.mark.parametrize("spec", [None, "left out"])
def test_without_a_spec_only_what_has_a_priority_gets_one(
    plane: Plane, obj: Json, resolved: bool, spec: str | None
) -> None:
    """preemption.md 8: pods and groups have a priority; a workload and a class get no spec for want of one.

    What else is wrong with an object without a spec is for validation to say, which comes later.
    """
    kind = plane.kind(obj["apiVersion"], obj["kind"])
    new = {key: value for key, value in obj.items() if key != "spec"} | ({} if spec else {"spec": None})
    before, name = copy.deepcopy(new), obj["metadata"]["name"]
    request = Request("CREATE", kind, "default", name, "", new, None, User("u"), False, plane.registry)
    Priority().mutate(request)
    assert (new.get("spec") or {}).get("priority") == (10 if resolved else None)
    assert ("priority" in (new.get("spec") or {})) is resolved
    assert resolved or new == before


def test_only_one_default_class(plane: Plane) -> None:
    error = refused(plane, priority_class("std2", 20, globalDefault=True))  # 097
    why = "PriorityClass std is already marked as default. Only one default can exist"
    assert error.message == f'priorityclasses.scheduling.k8s.io "std2" is forbidden: {why}'
    with pytest.raises(StatusError, match="already marked as default"):  # 107
        plane.patch("scheduling.k8s.io/v1", "PriorityClass", "high", {"globalDefault": True})
    plane.patch("scheduling.k8s.io/v1", "PriorityClass", "std", {"description": "kept"})


def test_deleting_a_class_changes_nothing_that_exists(plane: Plane) -> None:
    plane.create(pod("p", priorityClassName="high"))
    plane.delete("scheduling.k8s.io/v1", "PriorityClass", "high")
    assert plane.get("v1", "Pod", "p")["spec"]["priority"] == 1000


# -- service account, tolerations, node taint


# -- the preemption priority of a group (preemption.md 4, "Options")

AS_VICTIM = "scheduling.reprieve.dev/preemption-priority-class"
RESOLVED = "scheduling.reprieve.dev/preemption-priority"


def group_as_victim(name: str, annotations: Json, **spec: Any) -> Json:
    group = pod_group(name, **spec)
    group["metadata"]["annotations"] = annotations
    return group


@pytest.mark.parametrize(
    ("annotations", "spec", "shown"),
    [
        ({AS_VICTIM: "high"}, {}, "1000"),
        ({AS_VICTIM: "high"}, {"priorityClassName": "high"}, "1000"),
        ({AS_VICTIM: "std"}, {"priorityClassName": "low-never"}, "10"),
        ({AS_VICTIM: "high", RESOLVED: "1000"}, {}, "1000"),
        ({"other": "x"}, {}, None),
        ({AS_VICTIM: ""}, {}, None),
    ],
)
def test_preemption_priority_is_resolved_and_shown(
    plane: Plane, annotations: Json, spec: Json, shown: str | None
) -> None:
    made = plane.create(group_as_victim("g", annotations, **spec))
    assert made["metadata"]["annotations"].get(RESOLVED) == shown
    assert plane.get("scheduling.k8s.io/v1beta1", "PodGroup", "g")["metadata"]["annotations"].get(RESOLVED) == shown


@pytest.mark.parametrize(
    ("annotations", "spec", "why"),
    [
        (
            {AS_VICTIM: "std"},
            {"priorityClassName": "high"},
            f'metadata.annotations[{AS_VICTIM}]: Invalid value: "std": its value 10 is lower than the priority 1000',
        ),
        ({AS_VICTIM: "low-never"}, {}, "its value -5 is lower than the priority 10"),
        ({AS_VICTIM: "nope"}, {}, "no PriorityClass with name nope was found"),
        ({AS_VICTIM: "high", RESOLVED: "2000"}, {}, "2000 must match the value 1000 of the class high"),
        *(
            ({RESOLVED: value, **named}, {}, f"set from the class that {AS_VICTIM} names, and not without one")
            for value in ("9", "10", "2000", "many", "", "9" * 5000)
            for named in ({}, {AS_VICTIM: ""})
        ),
    ],
)
def test_preemption_priority_that_cannot_be_is_refused(plane: Plane, annotations: Json, spec: Json, why: str) -> None:
    error = refused(plane, group_as_victim("g", annotations, **spec))
    assert (error.code, why in error.message) == (403, True), error.message
    assert error.message.startswith('podgroups.scheduling.k8s.io "g" is forbidden: ')


def test_preemption_priority_may_change_but_not_below_the_priority(plane: Plane) -> None:
    version = "scheduling.k8s.io/v1beta1"
    plane.create(priority_class("higher", 5000))
    plane.create(group_as_victim("g", {AS_VICTIM: "higher"}, priorityClassName="high"))

    def change(**annotations: str | None) -> Json:
        keys = {"cls": AS_VICTIM, "value": RESOLVED, "other": "other"}
        named = {keys[key]: value for key, value in annotations.items()}
        patched = plane.patch(version, "PodGroup", "g", {"metadata": {"annotations": named}})
        shown: Json = patched["metadata"].get("annotations") or {}
        return shown

    assert change(cls="high")[RESOLVED] == "1000"
    for refusal in ({"cls": "std"}, {"cls": "nope"}, {"value": "7"}, {"value": "2000"}):
        with pytest.raises(StatusError):
            change(**refusal)
    assert change(cls="higher", value="1000")[RESOLVED] == "5000", "the value of the class before comes along"
    plane.delete("scheduling.k8s.io/v1", "PriorityClass", "higher", ns="")
    assert change(other="x")[RESOLVED] == "5000", "deleting a class changes nothing that exists"
    assert change(value=None)[RESOLVED] == "5000", "a manifest that never had it takes nothing away"
    assert RESOLVED not in change(cls=None)
    with pytest.raises(StatusError, match="and not without one"):
        change(value="5000")


def test_pod_gets_account_and_tolerations(plane: Plane) -> None:
    spec = plane.create(pod())["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["tolerations"] == [  # 538
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ]


def test_named_account_must_exist(plane: Plane) -> None:
    error = refused(plane, pod("x", serviceAccountName="robot"))
    assert error.message == (
        'pods "x" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    )
    plane.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    assert plane.create(pod("x", serviceAccountName="robot"))["spec"]["serviceAccountName"] == "robot"


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, ["node.kubernetes.io/unreachable"]),
        (
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
        ),
    ],
)
def test_tolerations_given_are_kept(plane: Plane, toleration: Json, added: list[str]) -> None:
    made = plane.create(pod(tolerations=[toleration]))["spec"]["tolerations"]
    assert made[0] == toleration
    assert [one["key"] for one in made[1:]] == added


def test_new_node_is_tainted(plane: Plane) -> None:
    made = plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})  # 115
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


# -- quota


def quota(name: str, hard: Json, used: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")},
    }


def with_quota(plane: Plane, name: str, hard: Json, used: Json | None = None, **spec: Any) -> None:
    wanted = quota(name, hard, used, **spec)
    plane.create(wanted)
    plane.patch("v1", "ResourceQuota", name, {"status": wanted["status"]}, "status")


def used(plane: Plane, name: str) -> Json:
    found: Json = plane.get("v1", "ResourceQuota", name)["status"]["used"]
    return found


def sized(name: str, **requests: str) -> Json:
    return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])


def test_quota_with_empty_status_restricts_nothing(plane: Plane) -> None:
    plane.create({**quota("q", {"pods": "1"}), "status": {}})  # 538
    for name in ("a", "b"):
        plane.create(pod(name))


def test_quota_of_a_priority_class(plane: Plane) -> None:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    with_quota(
        plane, "q", {"pods": "1", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "100m"}, scopeSelector=scope
    )
    error = refused(plane, pod("qp1", priorityClassName="high"))  # 540
    assert error.message == (
        'pods "qp1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    plane.create(pod("qp2"))  # 541
    assert used(plane, "q") == {"pods": "1", "requests.cpu": "100m"}


def test_quota_charges_and_refuses(plane: Plane) -> None:
    with_quota(plane, "qm", {"requests.memory": "1Gi"})
    error = refused(plane, pod("qp3"))  # 544
    assert error.message == 'pods "qp3" is forbidden: failed quota: qm: must specify requests.memory for: c'
    plane.create(sized("qp4", memory="256Mi", cpu="1m"))  # 545
    assert used(plane, "qm") == {"requests.memory": "256Mi"}  # 546
    error = refused(plane, sized("qp5", memory="800Mi", cpu="1m"))  # 547
    assert error.message == (
        'pods "qp5" is forbidden: exceeded quota: qm, requested: requests.memory=800Mi, used: requests.memory=256Mi, '
        "limited: requests.memory=1Gi"
    )
    assert used(plane, "qm") == {"requests.memory": "256Mi"}


def test_quota_is_not_charged_by_dry_runs_and_failed_creates(plane: Plane) -> None:
    with_quota(plane, "q", {"pods": "5"})
    plane.create(pod("a"), dry_run=True)
    assert used(plane, "q") == {"pods": "0"}
    plane.create(pod("a"))
    assert refused(plane, pod("a")).reason == "AlreadyExists"
    assert used(plane, "q") == {"pods": "1"}


def test_a_create_within_a_create_is_charged_like_any_other(plane: Plane) -> None:
    """Charges belong to their request: another one that passes in between takes nothing from them."""

    class Twin(Step):
        kinds = frozenset(("pods",))

        def validate(self, request: Request) -> None:
            if request.name == "outer":
                plane.create(pod("inner"))

    plane.registry.chain.add(Twin())
    with_quota(plane, "q", {"pods": "3"})
    plane.create(pod("outer"))
    assert used(plane, "q") == {"pods": "2"}


def test_quota_counts_what_device_classes_serve(plane: Plane) -> None:
    """By either name of the resource (devices.md 4.1)."""
    names = ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu")
    with_quota(plane, "q", {f"requests.{name}": "1" for name in names})
    for name in names:
        one = {"requests": {name: "1"}, "limits": {name: "1"}}
        for turn, fits in (("first", True), ("second", False)):
            wanted = pod(f"{turn}-{names.index(name)}", containers=[{"name": "c", "image": "i", "resources": one}])
            if fits:
                plane.create(wanted)
            else:
                assert f"requested: requests.{name}=1, used: requests.{name}=1" in refused(plane, wanted).message


def test_quota_counts_every_kind(plane: Plane) -> None:
    with_quota(
        plane, "q", {"count/podgroups.scheduling.k8s.io": "1", "configmaps": "1", "requests.nvidia.com/gpu": "4"}
    )
    plane.create(pod_group("g"))
    assert "exceeded quota: q, requested: count/podgroups.scheduling.k8s.io=1" in refused(plane, pod_group("h")).message
    plane.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert refused(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}).code == 403
    gpu = {"requests": {"nvidia.com/gpu": "3"}, "limits": {"nvidia.com/gpu": "3"}}
    for name, fits in (("x", True), ("y", False)):
        wanted = pod(name, containers=[{"name": "c", "image": "i", "resources": gpu}])
        if fits:
            plane.create(wanted)
        else:
            assert (
                "requested: requests.nvidia.com/gpu=3, used: requests.nvidia.com/gpu=3"
                in refused(plane, wanted).message
            )


def test_quota_with_unknown_use(plane: Plane) -> None:
    with_quota(plane, "q", {"pods": "5"}, {})
    assert refused(plane, pod("x")).message == 'pods "x" is forbidden: status unknown for quota: q, resources: pods'


def test_quota_counts_limits_of_its_own(plane: Plane) -> None:
    """Limits count for `limits.*` and nowhere else; those of extended resources do not count at all."""
    with_quota(plane, "q", {"limits.cpu": "4", "limits.memory": "4Gi", "requests.cpu": "4"})
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "2Gi", "a.com/x": "1"}}
    resources["requests"]["a.com/x"] = "1"
    for name in ("x", "y"):
        wanted = pod(name, containers=[{"name": "c", "image": "i", "resources": resources}])
        if name == "x":
            plane.create(wanted)
        else:
            assert (
                "requested: limits.cpu=3, used: limits.cpu=3, limited: limits.cpu=4" in refused(plane, wanted).message
            )
    assert used(plane, "q") == {"limits.cpu": "3", "limits.memory": "2Gi", "requests.cpu": "1"}


def test_quota_asks_what_a_pod_specifies(plane: Plane) -> None:
    """Each container states what a quota limits, unless the pod states it for all of them (PodLevelResources)."""
    with_quota(plane, "q", {"requests.cpu": "2"})
    assert "must specify requests.cpu for: c" in refused(plane, pod("none", cpu=None)).message
    plane.create(pod("whole", cpu=None, resources={"requests": {"cpu": "1500m"}}))
    assert used(plane, "q") == {"requests.cpu": "1500m"}
    assert "requested: requests.cpu=1" in refused(plane, pod("more", cpu="1")).message


@pytest.mark.parametrize(
    ("kind", "scope", "obj", "covered"),
    [
        ("PersistentVolumeClaim", "VolumeAttributesClass", {"spec": {"volumeAttributesClassName": "gold"}}, True),
        ("PersistentVolumeClaim", "VolumeAttributesClass", {"spec": {"volumeAttributesClassName": "tin"}}, False),
        (
            "PersistentVolumeClaim",
            "VolumeAttributesClass",
            {"status": {"currentVolumeAttributesClassName": "gold"}},
            True,
        ),
        ("PersistentVolumeClaim", "PriorityClass", {"spec": {"volumeAttributesClassName": "gold"}}, False),
        ("Pod", "VolumeAttributesClass", {"spec": {"volumeAttributesClassName": "gold"}}, False),
        ("Pod", "PriorityClass", {"spec": {"priorityClassName": "gold"}}, True),
        ("Service", "PriorityClass", {"spec": {"priorityClassName": "gold"}}, False),
    ],
)
def test_which_scopes_cover_which_kinds(plane: Plane, kind: str, scope: str, obj: Json, covered: bool) -> None:
    """pkg/quota of 1.36: a scope covers one kind; of another kind the quota counts nothing."""
    term = {"scopeName": scope, "operator": "In", "values": ["gold"]}
    selected = quota("q", {}, scopeSelector={"matchExpressions": [term]})
    assert in_scope(selected, plane.kind("v1", kind), {"metadata": {"name": "x"}, **obj}) is covered


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        (["BestEffort"], pod("i", cpu=None), pod("o")),
        (["NotBestEffort"], pod("i"), pod("o", cpu=None)),
        (["Terminating"], pod("i", activeDeadlineSeconds=5), pod("o")),
        (["NotTerminating"], pod("i"), pod("o", activeDeadlineSeconds=5)),
    ],
)
def test_quota_scopes(plane: Plane, scopes: list[str], inside: Json, outside: Json) -> None:
    with_quota(plane, "q", {"pods": "0"}, scopes=scopes)
    plane.create(outside)
    assert "exceeded quota: q" in refused(plane, inside).message


@pytest.mark.parametrize(
    ("operator", "values", "name", "covered"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "std", False),
        ("NotIn", ["high"], "std", True),
        ("NotIn", ["high"], "high", False),
        ("Exists", [], "high", True),
    ],
)
def test_quota_scope_selector(plane: Plane, operator: str, values: list[str], name: str, covered: bool) -> None:
    term: Json = {"scopeName": "PriorityClass", "operator": operator}
    if values:
        term["values"] = values
    with_quota(plane, "q", {"pods": "0"}, scopeSelector={"matchExpressions": [term]})
    if covered:
        assert "exceeded quota: q" in refused(plane, pod("x", priorityClassName=name)).message
    else:
        plane.create(pod("x", priorityClassName=name))


def test_quota_of_storage(plane: Plane) -> None:
    with_quota(plane, "q", {"requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/requests.storage": "4Gi"})

    def claim(name: str, size: str, storage_class: str) -> Json:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
        }
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}

    plane.create(claim("a", "3Gi", "fast"))
    assert "fast.storageclass.storage.k8s.io/requests.storage=3Gi" in refused(plane, claim("b", "3Gi", "fast")).message
    plane.create(claim("c", "7Gi", "slow"))
    assert refused(plane, claim("d", "1Gi", "slow")).code == 403


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({}, 0, 0),
        ({"type": "ClusterIP"}, 0, 0),
        ({"type": "ExternalName"}, 0, 0),
        ({"type": "NodePort"}, 2, 0),
        ({"type": "NodePort", "allocateLoadBalancerNodePorts": False}, 2, 0),
        ({"type": "NodePort", "ports": None}, 0, 0),
        ({"type": "LoadBalancer"}, 2, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}, 2, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, 0, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False,
          "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]}, 1, 1),
    ],
)  # fmt: skip
def test_what_a_service_uses(plane: Plane, spec: Json, node_ports: int, load_balancers: int) -> None:
    """pkg/quota/v1/evaluator/core/services.go: every port of these types; where none are allocated, the asked-for."""
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}, {"port": 81}], **spec}}
    used = usage_of(plane.kind("v1", "Service"), service, plane.clock.now())
    counted = {name: one.nano / ONE.nano for name, one in used.items()}
    assert (counted.pop("services.nodeports", 0), counted.pop("services.loadbalancers", 0)) == (
        node_ports,
        load_balancers,
    )
    assert counted == {"services": 1, "count/services": 1}


def test_quota_of_node_ports(plane: Plane) -> None:
    """Services are counted by their ports at the door as well."""
    with_quota(plane, "q", {"services.nodeports": "2", "services.loadbalancers": "1"})

    def service(name: str, kind: str, ports: int) -> Json:
        spec = {"type": kind, "ports": [{"name": f"p{n}", "port": 80 + n} for n in range(ports)]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    plane.create(service("a", "ClusterIP", 3))
    plane.create(service("b", "LoadBalancer", 1))
    assert (
        "requested: services.nodeports=2, used: services.nodeports=1"
        in refused(plane, service("c", "NodePort", 2)).message
    )
    plane.create(service("d", "NodePort", 1))


# -- limit ranges


def limit_range(**item: Any) -> Json:
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "lr"}, "spec": spec}


def test_limit_range_fills_in_defaults(plane: Plane) -> None:
    plane.create(limit_range(defaultRequest={"memory": "64Mi"}, default={"memory": "128Mi"}, max={"memory": "1Gi"}))
    made = plane.create(pod("lrp"))  # 551
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "128Mi"},
        "requests": {"cpu": "100m", "memory": "64Mi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: memory request for container c; memory limit for container c"
    )


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},  # 552
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"min": {"cpu": "200m"}},
            {"requests": {"cpu": "100m"}},
            "minimum cpu usage per Container is 200m, but request is 100m",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"requests": {"memory": "2"}},
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
    ],
)
def test_limit_range_bounds(plane: Plane, item: Json, resources: Json, why: str) -> None:
    plane.create(limit_range(**item))
    error = refused(plane, pod("lrq", containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert error.message == f'pods "lrq" is forbidden: {why}'


@pytest.mark.parametrize(
    ("item", "resources"),
    [
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
    ],
)
def test_limit_range_bounds_are_inclusive(plane: Plane, item: Json, resources: Json) -> None:
    """LimitRanger of 1.36 compares with greater and less, never with equal."""
    plane.create(limit_range(**item))
    plane.create(pod("lrq", containers=[{"name": "c", "image": "i", "resources": resources}]))


@pytest.mark.parametrize(
    ("spec", "bounds", "why"),
    [
        ({"resources": {"requests": {"storage": "1Gi"}}}, {"min": {"storage": "2Gi"}},
         "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ({"resources": {"requests": {"storage": "3Gi"}}}, {"max": {"storage": "2Gi"}},
         "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ({"resources": {"requests": {"storage": "2Gi"}}}, {"min": {"storage": "2Gi"}, "max": {"storage": "2Gi"}}, ""),
    ],
)  # fmt: skip
def test_limit_range_bounds_claims(plane: Plane, spec: Json, bounds: Json, why: str) -> None:
    """LimitRanger of 1.36 (PersistentVolumeClaimValidateLimitFunc): bounds are inclusive, and of requests alone.

    One that requests no storage does not come so far: validation refuses it before.
    """
    plane.create(limit_range(type="PersistentVolumeClaim", **bounds))
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"], **spec}}  # fmt: skip
    if why:
        error = refused(plane, manifest)
        assert (error.code, error.message) == (403, f'persistentvolumeclaims "c" is forbidden: {why}')
    else:
        plane.create(manifest)
