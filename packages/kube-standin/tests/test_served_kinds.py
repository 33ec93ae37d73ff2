"""What is served and in which form: feature gates, custom resources, the other form of events, generations.

Rules: KEP-5710, KEP-6012, KEP-5729 and KEP-5547 (upgrade and rollback); kube-apiserver 1.36 for the others.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_standin.admission_chain import AdmissionRequest, Operation, Step, User
from kube_standin.background import BackgroundWork
from kube_standin.conversion import from_storage, to_storage
from kube_standin.deletion import CRD_CLEANUP
from kube_standin.errors import StatusError
from kube_standin.features import DropDisabled, Features
from kube_standin.kubelet import KubeletOptions
from kube_standin.storage import StorageError, Store, open_log
from kube_standin.strategy import count_generation, date_taints
from tests.recorded.shapes import custom_kind, shape
from tests.server.inprocess import Plane, running

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


# -- feature gates ---------------------------------------------------------------------------------------------

SCHEDULING = "scheduling.k8s.io/v1beta1"
GATES: dict[str, Features] = {
    "none": Features(),
    "generic": Features(generic_workload=False),
    "composite": Features(composite_pod_group=False),
    "policy": Features(pod_group_preemption_policy=False),
    "claims": Features(dra_workload_resource_claims=False),
    "job": Features(workload_with_job=False),
}
"""By the gate that is off."""

GROUP_FIELDS: Json = {"preemptionPolicy": "Never", "resourceClaims": [{"name": "c"}], "priorityClassName": "p"}


def step(
    features: Features, kind: str, new: Json, operation: Operation = "CREATE", sub: str = "", old: Json | None = None
) -> Json:
    """An object after the step, both halves of it."""
    version, _, name = kind.rpartition("/")
    made = copy.deepcopy(new)
    row = shape(version, name)
    request = AdmissionRequest(operation, row, "default", "n", sub, made, old, User("u"), False, None)  # type: ignore[arg-type]
    one = DropDisabled(features)
    assert row.resource in one.kinds
    one.mutate(request)
    one.validate(request)
    return made


@pytest.mark.parametrize("off", GATES)
@pytest.mark.parametrize(
    ("kind", "spec", "fields"),
    [
        ("v1/Pod", {"schedulingGroup": {"podGroupName": "g"}, "priority": 1}, {"schedulingGroup": {"generic"}}),
        ("batch/v1/Job", {"scheduling": {}, "parallelism": 1}, {"scheduling": {"generic", "job"}}),
        (f"{SCHEDULING}/PodGroup", GROUP_FIELDS, {"preemptionPolicy": {"policy"}, "resourceClaims": {"claims"}}),
        ("scheduling.k8s.io/v1alpha3/CompositePodGroup", GROUP_FIELDS,
         {"preemptionPolicy": {"policy"}, "resourceClaims": {"claims"}}),
    ],
)  # fmt: skip
def test_new_object_is_without_the_fields_of_gates_that_are_off(
    off: str, kind: str, spec: Json, fields: dict[str, set[str]]
) -> None:
    """And what is there keeps them; neither has what stands beside a spec to be there."""
    left = {name: value for name, value in spec.items() if off not in fields.get(name, ())}
    assert step(GATES[off], kind, {"spec": spec}) == {"spec": left}
    assert step(GATES[off], kind, {"spec": spec}, "UPDATE", old={"spec": spec}) == {"spec": spec}
    assert step(GATES[off], kind, {"spec": spec}, "CREATE", "status") == {"spec": spec}
    assert step(GATES[off], kind, {}) == {}


@pytest.mark.parametrize("off", GATES)
def test_templates_are_without_the_fields_as_well(off: str) -> None:
    cron = {"schedule": "@daily", "jobTemplate": {"spec": {"scheduling": {}, "parallelism": 1}}}
    kept: Json = {} if off in ("generic", "job") else {"scheduling": {}}
    made = step(GATES[off], "batch/v1/CronJob", {"spec": cron})
    assert made["spec"]["jobTemplate"]["spec"] == {**kept, "parallelism": 1}
    assert step(GATES[off], "batch/v1/CronJob", {"spec": {"schedule": "x"}}) == {"spec": {"schedule": "x"}}
    workload = {"podGroupTemplates": [{"name": "a", **GROUP_FIELDS}, {"name": "b", **GROUP_FIELDS}]}
    dropped = {"policy": "preemptionPolicy", "claims": "resourceClaims"}.get(off)
    left = {name: value for name, value in GROUP_FIELDS.items() if name != dropped}
    made = step(GATES[off], f"{SCHEDULING}/Workload", {"spec": workload})
    assert made["spec"]["podGroupTemplates"] == [{"name": "a", **left}, {"name": "b", **left}]


TREES = [
    ("PodGroup", {"parentCompositePodGroupName": "root"}, "spec.parentCompositePodGroupName"),
    ("Workload", {"compositePodGroupTemplates": [{"name": "t"}]}, "spec.compositePodGroupTemplates"),
]


@pytest.mark.parametrize(("kind", "spec", "field"), TREES)
def test_new_tree_is_refused_where_there_are_none(kind: str, spec: Json, field: str) -> None:
    """composite.md 1: what is stored may stay."""
    off = GATES["composite"]
    with pytest.raises(StatusError) as refused:
        step(off, f"{SCHEDULING}/{kind}", {"spec": spec})
    assert (refused.value.code, refused.value.causes[0].field) == (422, field)
    step(GATES["none"], f"{SCHEDULING}/{kind}", {"spec": spec})
    step(off, f"{SCHEDULING}/{kind}", {"spec": spec}, "UPDATE", old={"spec": spec})
    step(off, f"{SCHEDULING}/{kind}", {"spec": spec}, "CREATE", "status")
    without: list[Json] = [{}, {"spec": {}}, {"spec": {"parentCompositePodGroupName": ""}}]
    for one in [*without, {"spec": {"compositePodGroupTemplates": []}}]:
        step(off, f"{SCHEDULING}/{kind}", one)


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
@pytest.mark.parametrize(
    ("off", "old", "kept"),
    [
        ("none", {}, True),
        ("claims", {}, False),
        ("claims", {"status": {}}, False),
        ("claims", {"status": {"resourceClaimStatuses": []}}, False),
        ("claims", {"status": {"resourceClaimStatuses": [{"name": "c"}]}}, True),
    ],
)
def test_claim_statuses_need_the_gate_unless_they_are_set_already(
    version: str, off: str, old: Json, kept: bool
) -> None:
    """KEP-5729: a status gets the field only with the gate, or where it has it already."""
    status = {"resourceClaimStatuses": [{"name": "d"}], "conditions": []}
    kind = f"scheduling.k8s.io/{version}/PodGroup"
    made = step(GATES[off], kind, {"status": status}, "UPDATE", "status", old)
    assert ("resourceClaimStatuses" in made["status"]) is kept
    assert made["status"]["conditions"] == []
    assert step(GATES[off], kind, {}, "UPDATE", "status", old) == {}
    assert step(GATES[off], kind, {"status": status}, "UPDATE", "", old) == {"status": status}


@pytest.mark.parametrize(
    ("features", "gone"),
    [
        (Features(), set()),
        (Features(generic_workload=False), {"PodGroup", "Workload", "CompositePodGroup"}),
        (Features(composite_pod_group=False), {"CompositePodGroup"}),
        (Features(generic_workload=False, composite_pod_group=False), {"PodGroup", "Workload", "CompositePodGroup"}),
        (Features(dra_device_taint_rules=False), {"DeviceTaintRule"}),
    ],
)
def test_kinds_without_their_gate_are_not_served(features: Features, gone: set[str]) -> None:
    assert {kind.gvk for kind in Features().kinds()} - {kind.gvk for kind in features.kinds()} == {
        kind.gvk for kind in Features().kinds() if kind.kind in gone
    }


# -- custom resources ------------------------------------------------------------------------------------------


def definition(plural: str, kind: str, group: str = "example.com", **names: Any) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def widgets(group: str = "example.com", plural: str = "widgets") -> str:
    return f"/apis/{group}/v1/namespaces/default/{plural}"


def conditions(plane: Plane, name: str) -> dict[str, tuple[str, str, str]]:
    found = plane.ask(f"GET {DEFINITIONS}/{name}").json["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (definition("gadgets", "Gadget"), None),
        (definition("widgets", "Widget", "other.com"), None),
        (definition("gadgets", "Widget"), ("ListKindConflict", '"WidgetList" is already in use')),
        (definition("widget", "Gadget"), ("PluralConflict", '"widget" is already in use')),
        (definition("wi", "Gadget"), ("PluralConflict", '"wi" is already in use')),
        (definition("gadgets", "Gadget", singular="widgets"), ("SingularConflict", '"widgets" is already in use')),
        (definition("gadgets", "Gadget", shortNames=["ga", "wi"]), ("ShortNamesConflict", '"wi" is already in use')),
    ],
)
def test_names_of_a_group_are_for_one_definition(plane: Plane, second: Json, why: tuple[str, str] | None) -> None:
    """apiextensions: what has a name that is taken is not served."""
    first = definition("widgets", "Widget", shortNames=["wi"])
    assert plane.ask(f"POST {DEFINITIONS}", first).status == 201
    assert plane.ask(f"POST {DEFINITIONS}", second).status == 201
    spec, name = second["spec"], second["metadata"]["name"]
    served = plane.ask(f"GET {widgets(spec['group'], spec['names']['plural'])}").status == 200
    assert served is (why is None)
    established = ("False", "NotAccepted", "not all names are accepted")
    if why is None:
        established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    accepted = ("True", "NoConflicts", "no conflicts found") if why is None else ("False", *why)
    assert conditions(plane, name) == {"NamesAccepted": accepted, "Established": established}
    status = plane.ask(f"GET {DEFINITIONS}/{name}").json["status"]
    accepted_kind = "" if why is not None and "Kind" in why[0] else spec["names"]["kind"]
    assert (status["acceptedNames"]["kind"], status["storedVersions"]) == (accepted_kind, ["v1"])
    assert plane.ask(f"GET {widgets()}").status == 200


def test_definitions_that_are_established_are_served_from_the_start() -> None:
    store = Store()
    with running(store=store) as plane:
        plane.ask(f"POST {DEFINITIONS}", definition("widgets", "Widget"))
        plane.ask(f"POST {DEFINITIONS}", definition("gadgets", "Widget"))
        plane.ask(f"POST {widgets()}", {"metadata": {"name": "w"}, "x": 1})
    with running(store=store) as again:
        assert again.ask(f"GET {widgets()}/w").json["x"] == 1
        assert again.ask(f"GET {widgets(plural='gadgets')}").status == 404, "its kind was taken"


def test_write_of_a_definition_that_is_undone_is_undone_for_its_resources(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was not made is not served, one that is not gone is; others do not change."""
    assert plane.ask(f"POST {DEFINITIONS}", definition("widgets", "Widget")).status == 201
    assert plane.ask(f"POST {DEFINITIONS}", definition("taken", "Widget")).status == 201

    def fail(_: Any) -> None:
        raise StorageError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(plane.store._log, "append", fail)
        assert plane.ask(f"POST {DEFINITIONS}", definition("gadgets", "Gadget")).status == 500
    assert plane.ask(f"GET {widgets(plural='gadgets')}").status == 404
    assert plane.ask(f"GET {widgets(plural='taken')}").status == 404
    assert plane.ask(f"GET {widgets()}").status == 200


def test_every_version_that_was_stored_is_recorded(plane: Plane) -> None:
    """So that a version in which there may be objects is not taken out of the definition; once each, oldest first."""
    body = definition("widgets", "Widget")
    [version] = body["spec"]["versions"]
    name = "widgets.example.com"
    plane.create(DEFINITIONS, body)
    since = plane.clock.stamp()
    plane.clock.forward(60)

    def put(*versions: tuple[str, bool]) -> tuple[int, list[str]]:
        found = plane.ask(f"GET {DEFINITIONS}/{name}").json
        found["spec"]["versions"] = [{**version, "name": one, "storage": stored} for one, stored in versions]
        status = plane.ask(f"PUT {DEFINITIONS}/{name}", found).status
        return status, plane.ask(f"GET {DEFINITIONS}/{name}").json["status"]["storedVersions"]

    assert put(("v1", True), ("v2", False)) == (200, ["v1"])
    assert put(("v1", False), ("v2", True)) == (200, ["v1", "v2"])
    assert put(("v2", True)) == (422, ["v1", "v2"])
    assert put(("v2", False), ("v1", True)) == (200, ["v1", "v2"])
    times = {one["lastTransitionTime"] for one in plane.ask(f"GET {DEFINITIONS}/{name}").json["status"]["conditions"]}
    assert times == {since}


def test_versions_are_served_as_they_are_named(plane: Plane) -> None:
    """What is no longer served is gone at once, what is served again is there with its short names and scope."""
    body = definition("widgets", "Widget", shortNames=["wd"], categories=["all"])
    [version] = body["spec"]["versions"]
    body["spec"]["scope"] = "Cluster"
    body["spec"]["versions"] = [
        {**version, "name": "v1", "served": False, "storage": False},
        {**version, "name": "v2", "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}},
        {**version, "name": "v3", "storage": False},
    ]  # fmt: skip
    plane.create(DEFINITIONS, body)
    assert "v1" not in plane.registry.kinds.groups()["example.com"]
    second, third = (plane.registry.kind(f"example.com/{one}", "Widget") for one in ("v2", "v3"))
    assert second.subresources == {"status", "scale"}
    assert third.subresources == set()
    for kind in (second, third):
        assert (kind.singular, kind.list_kind, kind.plural) == ("widget", "WidgetList", "widgets")
        assert (kind.short_names, kind.categories, kind.namespaced) == (("wd",), ("all",), False)
        assert (kind.generation, kind.unconditional_update, kind.custom) == (True, False, True)
        assert (kind.storage_version, kind.status_metadata) == ("example.com/v2", "reset")
    plane.create("/apis/example.com/v3/widgets", {"metadata": {"name": "w"}})
    found = plane.ask(f"GET {DEFINITIONS}/widgets.example.com").json
    found["spec"]["versions"][2]["served"] = False
    assert plane.ask(f"PUT {DEFINITIONS}/widgets.example.com", found).status == 200
    assert plane.ask("GET /apis/example.com/v3/widgets").status == 404
    assert plane.ask("GET /apis/example.com/v2/widgets/w").json["apiVersion"] == "example.com/v2"


def test_objects_that_are_held_hold_their_definition(plane: Plane) -> None:
    """Looked at five times a second; what is refused does not keep others from going."""

    class Refuses(Step):
        on = True

        def validate(self, request: AdmissionRequest) -> None:
            if self.on and request.operation == "DELETE" and request.name == "a":
                raise StatusError(403, "Forbidden", "not now")

    refuses = Refuses()
    plane.registry.chain.add(refuses)
    plane.create(DEFINITIONS, definition("widgets", "Widget"))
    for name in ("a", "b"):
        plane.create(widgets(), {"metadata": {"name": name}})
    plane.create(widgets(), {"metadata": {"name": "held", "finalizers": ["a/b"]}})
    assert plane.ask(f"DELETE {DEFINITIONS}/widgets.example.com").status == 200
    plane.run(asyncio.sleep(0.1))
    assert [one["metadata"]["name"] for one in plane.ask(f"GET {widgets()}").json["items"]] == ["a", "held"]
    refuses.on = False
    plane.ask(
        f"PATCH {widgets()}/held", {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json"
    )
    plane.run(asyncio.sleep(0.25))
    assert plane.ask(f"GET {DEFINITIONS}/widgets.example.com").status == 404
    assert plane.ask(f"GET {widgets()}").status == 404


def test_definition_that_goes_goes_on_after_a_restart(tmp_path: Path) -> None:
    with running(store=Store(open_log(tmp_path / "state.db"))) as plane:
        plane.create(DEFINITIONS, definition("widgets", "Widget"))
        plane.create(widgets(), {"metadata": {"name": "held", "finalizers": ["a/b"]}})
        assert plane.ask(f"DELETE {DEFINITIONS}/widgets.example.com").status == 200
        plane.run(asyncio.sleep(0.1))
    with running(store=Store(open_log(tmp_path / "state.db"))) as plane:
        plane.run(asyncio.sleep(1))
        assert plane.ask(f"GET {DEFINITIONS}/widgets.example.com").status == 200
        body = {"metadata": {"finalizers": None}}
        plane.ask(f"PATCH {widgets()}/held", body, content_type="application/merge-patch+json")
        plane.run(asyncio.sleep(1))
        assert plane.ask(f"GET {DEFINITIONS}/widgets.example.com").status == 404


def test_custom_binding_binds_nothing(plane: Plane) -> None:
    """It is stored like any other custom resource; only `bindings` of the core group name a pod and a node."""
    assert plane.ask(f"POST {DEFINITIONS}", definition("bindings", "Binding")).status == 201
    made = plane.create(widgets(plural="bindings"), {"metadata": {"name": "w"}})
    assert plane.ask(f"GET {widgets(plural='bindings')}/w").json == made


# -- events, generations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("component", "left"), [("", False), ("me", True)])
def test_event_of_the_other_group_is_without_an_empty_reporter(component: str, left: bool) -> None:
    """The core form always has both fields, that of events.k8s.io leaves out what is empty."""
    kind = shape("events.k8s.io/v1", "Event")
    core = {"apiVersion": "v1", "kind": "Event", "reportingComponent": component, "reportingInstance": component,
            "message": "m", "involvedObject": {"name": "p"}}  # fmt: skip
    found = from_storage(kind, core)
    assert ("reportingController" in found, "reportingInstance" in found) == (left, left)
    assert (found["note"], found["regarding"], found["eventTime"]) == ("m", {"name": "p"}, None)
    assert (found["deprecatedSource"], found["deprecatedFirstTimestamp"]) == ({}, None)
    back = to_storage(kind, found)
    assert {name: back[name] for name in core} == core
    assert (back["source"], "count" in back) == ({}, False)


@pytest.mark.parametrize(
    ("counts", "before", "changed", "door", "after"),
    [
        (True, None, "", "", 1),
        (True, None, "spec", "", 2),
        (True, 4, "", "", 4),
        (True, 4, "spec", "", 5),
        (True, 4, "spec", "status", 4),
        (True, 4, "status", "", 4),
        (True, 4, "metadata", "", 4),
        (False, None, "spec", "", None),
        (False, 4, "spec", "", 4),
    ],
)
def test_generation_is_carried_over_and_counted(
    counts: bool, before: int | None, changed: str, door: str, after: int | None
) -> None:
    """A change outside of metadata and status makes the next one, of kinds that have any; one that is there stays."""
    kind = custom_kind("g", "v1", "Gang", generation=counts, subresources=frozenset(("status",)))
    old: Json = {"metadata": {} if before is None else {"generation": before}, "spec": {"a": 1}, "status": {"b": 1}}
    new: Json = {"metadata": {"generation": 9}, "spec": {"a": 1}, "status": {"b": 1}}
    if changed:
        new[changed]["new"] = "x"
    count_generation(kind, new, old, door)
    assert new["metadata"].get("generation") == after


def test_definition_is_removed_with_its_objects_once_no_finalizer_holds_it(plane: Plane) -> None:
    """It says that it goes, once; a second DELETE changes nothing; its finalizers are kept, ours goes with the last."""
    held = definition("widgets", "Widget")
    held["metadata"]["finalizers"] = ["a/b"]
    assert plane.ask(f"POST {DEFINITIONS}", held).status == 201
    plane.create(widgets(), {"metadata": {"name": "w"}})
    name = "widgets.example.com"
    gone = plane.ask(f"DELETE {DEFINITIONS}/{name}").json
    assert gone["metadata"]["deletionTimestamp"] == plane.clock.stamp()
    assert gone["metadata"]["finalizers"] == ["a/b", CRD_CLEANUP]
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    assert gone["status"]["conditions"][-1]["message"] == text
    plane.run(asyncio.sleep(1))
    assert conditions(plane, name)["Terminating"][1] == "InstanceDeletionInProgress"
    assert plane.store.count("widgets.example.com") == 0
    left = plane.ask(f"GET {DEFINITIONS}/{name}").json
    assert left["metadata"]["finalizers"] == ["a/b"]
    assert plane.ask(f"DELETE {DEFINITIONS}/{name}").status == 200
    assert plane.ask(f"GET {DEFINITIONS}/{name}").json == left
    assert (
        plane.ask(f"PUT {DEFINITIONS}/{name}", {**left, "metadata": {**left["metadata"], "finalizers": []}}).status
        == 200
    )
    assert plane.ask(f"GET {DEFINITIONS}/{name}").status == 404


def test_deletion_of_a_definition_that_is_undone_deletes_nothing(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plane.ask(f"POST {DEFINITIONS}", definition("widgets", "Widget")).status == 201
    plane.create(widgets(), {"metadata": {"name": "w"}})

    def fail(_: Any) -> None:
        raise StorageError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(plane.store._log, "append", fail)
        assert plane.ask(f"DELETE {DEFINITIONS}/widgets.example.com").status == 500
    plane.run(asyncio.sleep(1))
    assert plane.ask(f"GET {widgets()}/w").status == 200
    assert "deletionTimestamp" not in plane.ask(f"GET {DEFINITIONS}/widgets.example.com").json["metadata"]


@pytest.mark.parametrize(("kind", "dated"), [("ResourceSlice", True), ("ResourceClaim", False)])
def test_taints_of_devices_without_a_time_get_one(kind: str, dated: bool) -> None:
    """KEP-5055: a slice says of each taint of each device since when; other kinds have none."""
    devices = [{"name": "a", "taints": [{"key": "k"}, {"key": "l", "timeAdded": "then"}]}, {"name": "b"}]
    new: Json = {"spec": {"devices": devices}}
    date_taints(shape("resource.k8s.io/v1", kind), new, None, "now")
    times = [taint.get("timeAdded") for taint in new["spec"]["devices"][0]["taints"]]
    assert times == ["now" if dated else None, "then"]
    assert new["spec"]["devices"][1] == {"name": "b"}


@pytest.mark.parametrize(("kubelets", "nodes"), [(None, 0), (KubeletOptions(nodes=2), 2)])
def test_simulated_kubelets_register_their_nodes(plane: Plane, kubelets: KubeletOptions | None, nodes: int) -> None:
    async def use() -> None:
        work = BackgroundWork(kubelets=kubelets)
        await work.start(plane.registry)
        await work.stop()

    plane.run(use())
    assert len(plane.ask("GET /api/v1/nodes").json["items"]) == nodes
