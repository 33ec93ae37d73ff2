"""What is read of pods when they are added, and what is known beside them of their controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import pytest

from kube_rules import objects
from kube_rules.group_owners import Job
from kube_rules.selectors import IN
from reprieve.cluster.controllers import Controllers, ownership_key
from reprieve.cluster.default_selectors import DefaultSelectors
from reprieve.cluster.groups import spec_of
from reprieve.cluster.job_deadlines import JobDeadlines
from reprieve.cluster.pods import NO_ROW, PodClaim, PodRecord, claims_of, gone_by, queue_order, record_of
from reprieve.cluster.resources import LIMIT, ResourceTable, readable, shortages_text
from reprieve.cluster.signature import SignatureTable
from reprieve.cluster.sized_groups import SizedGroups
from reprieve.cluster.taints import tolerates, untolerated
from tests.building import START, pod, toleration
from tests.plugins.devices import user

replace = msgspec.structs.replace


def record(made: objects.Pod, **more: Any) -> PodRecord:
    """The record of a pod."""
    return record_of(made, SignatureTable(ResourceTable()), **{"created": 5.0, **more})


# -- pods -------------------------------------------------------------------------------------------------------------


def test_pod_without_fields_has_the_api_s_defaults() -> None:
    """api.md: what absent fields mean to the scheduler."""
    bare = objects.Pod(metadata=objects.ObjectMeta(name="p"), spec=objects.PodSpec())
    one = record(bare)
    assert (one.namespace, one.name, one.key, one.uid) == ("default", "p", "default/p", "default/p")
    assert (one.priority, one.group, one.created, one.start) == (0, None, 5.0, None)
    assert (one.scheduler_name, one.never_preempts, one.gates, one.grace) == ("default-scheduler", False, (), 30.0)
    assert (one.terminating, one.preempted, one.owner, one.claims, one.volumes) == (False, False, None, (), None)
    assert (one.generation, one.class_name, one.names_class, one.labels) == (0, "", False, {})
    assert (one.row, one.nominated, one.bound, one.scheduled, one.claim_keys) == (NO_ROW, NO_ROW, False, False, [])
    assert NO_ROW == -1
    plain = PodRecord(namespace="n", name="p", uid="u", signature=one.signature)
    for name in PodRecord.__struct_fields__:
        if name not in ("namespace", "key", "uid", "signature", "created"):
            assert getattr(plain, name) == getattr(one, name), name
    assert plain.created == 0.0


def test_record_of_a_pod_holds_the_fields_of_its_object() -> None:
    """Every field from its own place."""
    made = pod(
        "p",
        namespace="team",
        priority=7,
        priority_class="high",
        start=12,
        labels={"a": "b"},
        scheduler="other",
        never=True,
        gates=["g", "h"],
        grace=5,
        terminating=True,
        preempted=True,
        uid="u",
    )
    owners = (
        objects.OwnerReference(api_version="v1", kind="Node", name="n"),
        objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", controller=True),
    )
    made = replace(made, metadata=replace(made.metadata, owner_references=owners, generation=3))
    one = record(made, group="team/g")
    assert (one.key, one.uid, one.priority, one.class_name, one.names_class) == ("team/p", "u", 7, "high", True)
    assert (one.start, one.labels, one.scheduler_name) == (START + 12, {"a": "b"}, "other")
    assert (one.never_preempts, one.gates, one.grace, one.generation) == (True, ("g", "h"), 5.0, 3)
    assert (one.terminating, one.preempted, one.group) == (True, True, "team/g")
    assert one.owner == ("apps/v1", "ReplicaSet", "web")
    assert record(made, scheduler_name="mine").scheduler_name == "mine"
    assert record(pod("p", grace=0)).grace == 0.0
    assert record(pod("p"), group="").group is None
    assert gone_by(made) == START
    assert gone_by(pod("p")) is None
    assert str(one) == "<pod team/p priority=7 row=-1>"


@pytest.mark.parametrize(
    ("kind", "status", "reason", "preempted"),
    [
        ("DisruptionTarget", "True", "PreemptionByScheduler", True),
        ("DisruptionTarget", "False", "PreemptionByScheduler", False),
        ("DisruptionTarget", "True", "EvictionByEvictionAPI", False),
        ("Ready", "True", "PreemptionByScheduler", False),
    ],
)
def test_pods_that_were_preempted(kind: str, status: str, reason: str, preempted: bool) -> None:
    """preemption.md 2.3: deletionTimestamp apart, the condition and its reason."""
    made = pod("p")
    condition = objects.PodCondition(type=kind, status=status, reason=reason)
    other = objects.PodCondition(type="Ready", status="True")
    made = replace(made, status=replace(made.status, conditions=(other, condition)))
    assert record(made).preempted is preempted


def test_members_are_tried_by_priority_then_by_age() -> None:
    """scheduling.md 3.1; names settle ties."""
    pods = [
        record(pod("z", priority=2), created=9.0),
        record(pod("y", priority=1), created=1.0),
        record(pod("x", priority=1), created=2.0),
        record(pod("a", priority=1, namespace="b"), created=2.0),
        record(pod("w", priority=1), created=2.0),
        record(pod("v", priority=0), created=0.0),
    ]
    for seed in range(5):
        Random(seed).shuffle(pods)
        assert [one.key for one in sorted(pods, key=queue_order)] == [
            "default/z",
            "default/y",
            "b/a",
            "default/w",
            "default/x",
            "default/v",
        ]


def test_claims_that_a_pod_names() -> None:
    """resourceclaim.Name: by name, or made from a template as far as the status says so."""
    made = user("p", "c", templates=["t", "u", "v"])
    entries = (*made.spec.resource_claims, objects.PodResourceClaim(name="odd"))
    statuses = (
        objects.PodResourceClaimStatus(name="t", resource_claim_name="p-t"),
        objects.PodResourceClaimStatus(name="u", resource_claim_name=None),
    )
    made = replace(
        made,
        spec=replace(made.spec, resource_claims=entries),
        status=replace(made.status, resource_claim_statuses=statuses),
    )
    by_name, from_template, not_needed, not_made, unknown = claims_of(made)
    assert by_name == PodClaim("c", "c", generated=False, made=True)
    assert from_template == PodClaim("t", "p-t", generated=True, made=True, template="t")
    assert not_needed == PodClaim("u", None, generated=True, made=True, template="u")
    assert not_made == PodClaim("v", None, generated=True, made=False, template="v")
    assert unknown == PodClaim("odd", None, generated=False, made=False, known=False)
    assert (by_name.known, by_name.template, by_name.extended) == (True, None, False)
    assert (by_name.reference, from_template.reference) == (("c", "c", None), ("t", None, "t"))
    assert record(made).claim_keys == ["default/c", "default/p-t"]
    twice = user("p", "c", "c")
    assert record(twice).claim_keys == ["default/c"]


# -- signatures and amounts -------------------------------------------------------------------------------------------


def _image(name: str) -> objects.Container:
    return objects.Container(name="c", image=name)


@pytest.mark.parametrize(
    ("image", "listed"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("host:5000/nginx", "host:5000/nginx:latest"),
        ("host:5000/nginx:2", "host:5000/nginx:2"),
    ],
)
def test_images_are_named_as_nodes_list_them(image: str, listed: str) -> None:
    """A name without a tag means `:latest`; a port of the registry is no tag."""
    spec = objects.PodSpec(init_containers=(_image("first:1"),), containers=(_image(image), _image(image)))
    signatures = SignatureTable(ResourceTable())
    one = signatures.intern(objects.Pod(metadata=objects.ObjectMeta(name="p"), spec=spec))
    assert one.images == ("first:1", listed, listed)
    assert one.node_name == ""


def test_pod_adds_to_a_node() -> None:
    """scheduling.md 5: one pod, its requests, and for scoring 100m and 200Mi for a container that asks for nothing."""
    resources = ResourceTable()
    signatures = SignatureTable(resources)
    empty = signatures.intern(pod("a"))
    assert empty.delta[:6].tolist() == [100, 200 << 20, 0, 0, 0, 1]
    assert (empty.requests, empty.amounts) == (((5, 1),), {})
    full = signatures.intern(pod("b", cpu="1500m", memory="1Ki", gpu=2, more={"ephemeral-storage": "3"}))
    assert full.delta[:7].tolist() == [1500, 1024, 1500, 1024, 3, 1, 2]
    assert full.requests == ((2, 1500), (3, 1024), (4, 3), (5, 1), (6, 2))
    assert full.amounts == {"cpu": 1500, "memory": 1024, "ephemeral-storage": 3, "nvidia.com/gpu": 2}
    huge = signatures.intern(pod("c", cpu=str(LIMIT), memory=str(LIMIT + 1), more={"a.b/c": str(LIMIT + 1)}))
    assert set(huge.amounts.values()) == {LIMIT}
    assert huge.delta[:2].tolist() == [LIMIT, LIMIT]
    assert signatures.intern(pod("d", cpu="1500m", memory="1Ki", gpu=2, more={"ephemeral-storage": "3"})) is full
    assert len({empty.id, full.id, huge.id, full.constraints.id, full.constraints.nodes.id}) == 5
    del huge


def test_vectors_are_as_long_as_the_columns() -> None:
    """New resources make them longer; what was there stays."""
    resources = ResourceTable()
    signatures = SignatureTable(resources)
    one = signatures.intern(pod("a", cpu=1))
    assert len(one.delta) == 16
    names = [f"example.com/r{number}" for number in range(40)]
    resources.register(names)
    assert [resources.column(name) for name in names] == list(range(6, 46))
    assert resources.capacity == 48
    assert len(one.delta) == 16
    signatures.fit(resources.capacity)
    assert len(one.delta) == 48
    assert one.delta[:6].tolist() == [1000, 200 << 20, 1000, 0, 0, 1]
    assert not one.delta[6:].any()
    exactly = ResourceTable()
    exactly.register(f"example.com/r{number}" for number in range(10))
    assert (len(exactly), exactly.capacity) == (16, 16)
    exactly.column("example.com/one-more")
    assert (len(exactly), exactly.capacity) == (17, 32)
    assert exactly.vector({"cpu": 3, "example.com/new": LIMIT + 5})[[2, 17]].tolist() == [3, LIMIT]
    assert ("example.com/new" in exactly, "example.com/never" in exactly) == (True, False)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 1500, "1500m"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 3 << 20, "3Mi"),
        ("memory", 5 << 10, "5Ki"),
        ("memory", 1023, "1023"),
        ("ephemeral-storage", 2 << 30, "2Gi"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_amounts_as_people_write_them(name: str, value: int, text: str) -> None:
    """The largest unit that leaves no rest."""
    assert readable(name, value) == text


def test_shortages_in_a_line() -> None:
    """In the order given."""
    missing = {"nvidia.com/gpu": "8", "cpu": "32", "pods": "1"}
    assert shortages_text(missing) == (
        "Insufficient nvidia.com/gpu (8 short), Insufficient cpu (32 short), Too many pods (1 short)"
    )


@pytest.mark.parametrize(
    ("tolerations", "taints", "kept_away"),
    [
        ([], [], False),
        ([], [("k", "v", "PreferNoSchedule")], False),
        ([], [("k", "v", "NoSchedule")], True),
        ([], [("k", "v", "NoExecute")], True),
        ([toleration("k", value="v")], [("k", "v", "NoSchedule")], False),
        ([toleration("k", value="v")], [("k", "v", "NoSchedule"), ("l", "", "NoExecute")], True),
        ([toleration("k", value="w")], [("k", "v", "NoSchedule")], True),
        ([toleration("k", "Exists", effect="NoExecute")], [("k", "v", "NoSchedule")], True),
        ([toleration("k", value="x"), toleration(operator="Exists")], [("k", "v", "NoSchedule")], False),
    ],
)
def test_taints_that_keep_a_pod_away(
    tolerations: list[objects.Toleration], taints: list[tuple[str, str, str]], kept_away: bool
) -> None:
    """TaintToleration: NoSchedule and NoExecute, unless one toleration covers the taint."""
    signature = SignatureTable(ResourceTable()).intern(pod("p", tolerations=tolerations))
    assert untolerated(signature.tolerations, tuple(taints)) is kept_away
    assert tolerates(toleration("k", "Exists"), ("k", "v", "NoSchedule"))


# -- what kube-scheduler has no table for -----------------------------------------------------------------------------


def _owned(kind: Any, name: str, *owner: str) -> Any:
    references = (
        (objects.OwnerReference(api_version=owner[0], kind=owner[1], name=owner[2], controller=True),) if owner else ()
    )
    return kind(metadata=objects.ObjectMeta(name=name, namespace="default", owner_references=references))


def test_highest_controller_of_a_pod() -> None:
    """Along the owners that are known; a ReplicaSet that is not tells its Deployment by its name."""
    known = Controllers()
    known.set(_owned(objects.ReplicaSet, "web-1", "apps/v1", "Deployment", "web"))
    known.set(_owned(objects.ReplicaSet, "alone"))
    hashed = {"pod-template-hash": "5f"}

    def highest(
        name: str, labels: dict[str, str] | None = None, kind: str = "ReplicaSet", namespace: str = "default"
    ) -> str:
        version, found_kind, found = known.highest(namespace, ("apps/v1", kind, name), labels or {})
        assert version == "apps/v1"
        return f"{found_kind}/{found}"

    assert highest("web-1") == "Deployment/web"
    assert highest("web-1", namespace="other") == "ReplicaSet/web-1"
    assert highest("alone", {"pod-template-hash": "alone"}) == "ReplicaSet/alone", "known to have none above"
    assert highest("api-5f", hashed) == "Deployment/api"
    assert highest("api-5f") == "ReplicaSet/api-5f"
    assert highest("api-6a", hashed) == "ReplicaSet/api-6a"
    assert highest("api-5f", {"pod-template-hash": ""}) == "ReplicaSet/api-5f"
    assert highest("-5f", hashed) == "ReplicaSet/-5f"
    assert highest("api-5f", hashed, kind="StatefulSet") == "StatefulSet/api-5f"
    known.remove("ReplicaSet", "default", "web-1")
    known.remove("ReplicaSet", "default", "never")
    assert highest("web-1") == "ReplicaSet/web-1"
    bare = _owned(objects.ReplicaSet, "bare", "apps/v1", "Deployment", "d")
    known.set(replace(bare, metadata=replace(bare.metadata, namespace="")))
    assert highest("bare") == "Deployment/d"


def test_owners_are_followed_eight_steps() -> None:
    """A loop of references ends."""
    known = Controllers()
    for number in range(12):
        known.set(_owned(objects.ReplicaSet, f"r{number}", "apps/v1", "ReplicaSet", f"r{number + 1}"))
    assert known.highest("default", ("apps/v1", "ReplicaSet", "r0")) == ("apps/v1", "ReplicaSet", "r8")
    known.set(_owned(objects.ReplicaSet, "r1", "apps/v1", "ReplicaSet", "r0"))
    assert known.highest("default", ("apps/v1", "ReplicaSet", "r0"))[2] == "r0"


def test_pods_of_one_key_have_the_same_owners() -> None:
    """Namespace, controller, group and the hash of the template."""
    one = record(pod("p", labels={"pod-template-hash": "5f", "x": "y"}), group="default/g")
    assert ownership_key(one) == ("default", None, "default/g", "5f")
    assert ownership_key(record(pod("p"))) == ("default", None, None, None)


def _job(name: str, seconds: float | None = None, started: float | None = None, namespace: str = "default") -> Job:
    body: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace}, "spec": {}}
    if seconds is not None:
        body["spec"]["activeDeadlineSeconds"] = seconds
    if started is not None:
        body["status"] = {"startTime": datetime.fromtimestamp(started, UTC).isoformat()}
    return msgspec.convert(body, Job, strict=False)


def test_when_pods_of_a_job_have_to_have_ended() -> None:
    """cost.md 6.4: since the Job started, or, where that is not known, since each pod did."""
    deadlines = JobDeadlines()

    def due(start: float | None, kind: str = "Job", version: str = "batch/v1", name: str = "j") -> float | None:
        one = record(pod("p"))
        one.start, one.owner = start, (version, kind, name)
        return deadlines.of(one)

    assert due(10.0) is None
    assert deadlines.set(_job("j", 100)) is False, "no end is known to have changed: it has no start yet"
    assert (due(10.0), due(None)) == (110.0, None)
    assert deadlines.set(_job("j", 100)) is False
    assert deadlines.set(_job("j", 100, 50.0)) is True
    assert (due(10.0), due(None)) == (150.0, 150.0)
    assert deadlines.set(_job("j", 200, 50.0)) is True
    assert due(None) == 250.0
    assert deadlines.set(_job("k", 100, 50.0)) is True
    assert due(None, name="k") == 150.0
    assert (due(1.0, kind="CronJob"), due(1.0, version="v1"), due(1.0, name="other")) == (None, None, None)
    unowned = record(pod("p"))
    assert deadlines.of(unowned) is None
    assert deadlines.set(_job("j")) is True
    assert deadlines.set(_job("j")) is False
    assert due(1.0) is None
    deadlines.remove("default", "k")
    deadlines.remove("default", "never")
    assert due(None, name="k") is None


def test_groups_that_are_as_large_as_their_pods_say() -> None:
    """workloads.md 2.4: of several sizes the largest, as long as a pod of it is there."""
    sized = SizedGroups()
    assert sized.joined("default/g", "a", 3) is True
    assert sized.joined("default/g", "a", 3) is False
    assert sized.joined("default/g", "b", 2) is False
    assert sized.joined("default/g", "c", 5) is True
    assert sized.joined("default/g", "d", 5) is False
    assert (sized.size("default/g"), len(sized)) == (5, 4)
    assert sized.left("default/g", "c") is False
    assert sized.joined("default/g", "d", 1) is True
    assert sized.size("default/g") == 3
    assert sized.left("default/g", "nobody") is False
    made = sized.group("default/g")
    assert made is not None
    assert (made.metadata.namespace, made.metadata.name) == ("default", "g")
    gang_of = made.spec.scheduling_policy.gang
    assert gang_of is not None
    assert gang_of.min_count == 3
    assert made.spec.preemption_policy == objects.NO_POLICY_FIELD
    assert spec_of(made).foreign == ""
    for uid in "abd":
        sized.left("default/g", uid)
    assert (sized.size("default/g"), sized.group("default/g"), len(sized)) == (None, None, 0)


def _service(name: str, labels: dict[str, str], namespace: str = "default") -> objects.Service:
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": labels}}
    return msgspec.convert(body, objects.Service)


def test_default_selectors_of_services_and_controllers() -> None:
    """DefaultSelector of kube-scheduler: what a pod's services and its controller ask for, together."""
    known = DefaultSelectors()
    assert not known
    labels = {"app": "web", "tier": "x"}

    def asks(
        owner: tuple[str, str, str] | None = None, namespace: str = "default"
    ) -> list[tuple[str, tuple[str, ...]]] | None:
        found = known.default_selector(namespace, labels, owner)
        return None if found is None else [(one.key, one.values) for one in found.requirements if one.operator == IN]

    assert asks() is None
    known.set(_service("s", {"app": "web"}))
    assert (bool(known), known.version) == (True, 1)
    assert asks() == [("app", ("web",))]
    assert asks(namespace="other") is None
    known.set(_service("t", {"tier": "x", "app": "web"}))
    known.set(_service("u", {"tier": "other"}))
    known.set(_service("v", {}))
    assert asks() == [("app", ("web",)), ("tier", ("x",))]
    known.remove("Service", "default", "t")
    assert asks() == [("app", ("web",))]
    body: dict[str, Any] = {
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web", "own": "y"}}},
    }
    known.set(msgspec.convert(body, objects.ReplicaSet))
    owner = ("apps/v1", "ReplicaSet", "r")
    assert asks(owner) == [("app", ("web",)), ("own", ("y",))]
    assert asks(("extensions/v1beta1", "ReplicaSet", "r")) == [("app", ("web",))]
    known.set(_service("s", {"app": "db"}))
    assert asks() is None
    assert asks(owner) == [("app", ("web",)), ("own", ("y",))]
    known.remove("Service", "default", "s")
    version = known.version
    assert known.remove("Service", "default", "s") is False
    assert known.version == version
    known.set(msgspec.convert({**body, "spec": {"selector": {"app": "web"}}}, objects.ReplicationController))
    assert asks(("v1", "ReplicationController", "r")) == [("app", ("web",))]
    assert known.remove("ReplicaSet", "default", "r") is True
    assert asks(owner) is None
    assert known.remove("ReplicationController", "default", "r") is True
    nothing = msgspec.convert({**body, "spec": {}}, objects.StatefulSet)
    known.set(nothing)
    assert asks(("apps/v1", "StatefulSet", "r")) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 1000, "1"),
        ("cpu", 1500, "1500m"),
        ("cpu", 1001, "1001m"),
        ("cpu", 0, "0"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", (3 << 30) + (1 << 20), "3073Mi"),
        ("memory", (1 << 20) + (1 << 10), "1025Ki"),
        ("memory", (1 << 10) + 1, "1025"),
        ("ephemeral-storage", 5 << 20, "5Mi"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 2000, "2000"),
    ],
)
def test_amounts_are_written_as_people_write_them(name: str, value: int, text: str) -> None:
    """The largest unit that leaves no rest; other resources are counted."""
    assert readable(name, value) == text
