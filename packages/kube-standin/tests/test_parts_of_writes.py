"""The parts every write is made of, each by itself: preparation, first objects, scales, selectors, steps.

Rules and texts: kube-apiserver 1.36 (api.md 2 and 5); KEP-5055 for taints of devices.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from kube_rules.group_templates import templates
from kube_rules.selectors import compile_selector, is_plain
from kube_standin.admission_chain import AdmissionRequest, Operation, User
from kube_standin.background import background
from kube_standin.bootstrap import KeptTolerations, NamespaceLifecycle, PodOverhead, SystemClasses, ensure_base
from kube_standin.conversion import complete_event, from_storage, to_storage
from kube_standin.errors import StatusError
from kube_standin.features import Features
from kube_standin.kinds import BUILTIN, KindTable, ServedKind
from kube_standin.metadata import key_of
from kube_standin.off_loop import INLINE, NotYetDoneError, OffLoopSteps, TooManyTurnsError, repeated
from kube_standin.preparing import before_create, count_generation, date_taints, restrict
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.scaling import scale_of, write_scale_now
from kube_standin.selectors import select
from kube_standin.storage import Store
from tests.admission.plane import Plane, pod
from tests.recorded.shapes import custom_kind, shape
from tests.server.inprocess import Plane as Served
from tests.server.inprocess import running

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


def message_of(work: Any, *given: Any, **more: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as refused:
        work(*given, **more)
    return refused.value.code, refused.value.message


# -- preparation -----------------------------------------------------------------------------------------------


def taint(effect: str = "NoExecute", time: str | None = None) -> Json:
    return {"key": "k", "effect": effect, **({"timeAdded": time} if time else {})}


@pytest.mark.parametrize(
    ("old", "new", "time"),
    [
        (None, taint(), "now"),
        (None, taint(time="then"), "then"),
        (taint(time="then"), taint(time="then"), "then"),
        (taint(time="then"), taint("NoSchedule", "then"), "now"),
        (taint(time="then"), taint("NoSchedule", "other"), "other"),
        (taint(time="then"), taint(time="other"), "other"),
        (taint(time="then"), taint(), "now"),
    ],
)
def test_since_when_a_rule_taints_devices(old: Json | None, new: Json, time: str) -> None:
    """A new effect begins now, unless its author states when."""
    kind = shape("resource.k8s.io/v1", "DeviceTaintRule")
    body: Json = {"spec": {"taint": copy.deepcopy(new)}}
    date_taints(kind, body, None if old is None else {"spec": {"taint": old}}, "now")
    assert body["spec"]["taint"] == {**new, "timeAdded": time}
    untainted: list[Json] = [{}, {"spec": None}, {"spec": {}}, {"spec": {"taint": None}}, {"spec": {"taint": {}}}]
    for bare in untainted:
        made = copy.deepcopy(bare)
        date_taints(kind, made, None, "now")
        assert made == bare
        date_taints(kind, body, bare, "now")
        assert body["spec"]["taint"]["timeAdded"] in (time, "now")


@pytest.mark.parametrize("spec", [None, {}, {"devices": None}, {"devices": [{"name": "a", "taints": None}]}])
def test_a_slice_without_taints_is_left_as_it_is(spec: Any) -> None:
    body = {"spec": copy.deepcopy(spec)}
    date_taints(shape("resource.k8s.io/v1", "ResourceSlice"), body, None, "now")
    assert body == {"spec": spec}


@pytest.mark.parametrize(("counts", "generation"), [(True, 1), (False, None)])
def test_a_new_object_has_its_first_generation(counts: bool, generation: int | None) -> None:
    for given in ({}, {"generation": 9}):
        new: Json = {"metadata": dict(given)}
        before_create(custom_kind("g", "v1", "Gang", generation=counts), new, "now")
        assert new["metadata"].get("generation") == generation


def test_a_new_taint_rule_is_dated() -> None:
    new: Json = {"metadata": {}, "spec": {"taint": taint()}}
    before_create(shape("resource.k8s.io/v1", "DeviceTaintRule"), new, "now")
    assert new["spec"]["taint"]["timeAdded"] == "now"


META_KEYS = ("labels", "annotations", "finalizers", "ownerReferences")


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (shape("v1", "Pod"), {"ownerReferences"}),
        (shape("v1", "Node"), set()),
        (shape("apps/v1", "Deployment"), {"labels"}),
        (shape("scheduling.k8s.io/v1beta1", "PodGroup"), set(META_KEYS)),
        (custom_kind("g", "v1", "Pod", subresources=frozenset(("status",))), set()),
    ],
)
def test_what_a_write_of_a_status_may_change_of_metadata(kind: ServedKind, kept: set[str]) -> None:
    """By the strategy of the kind; what was not there before is taken off again. Of the rest it may change nothing."""
    for was_there in (True, False):
        old: Json = {"metadata": dict.fromkeys(META_KEYS, "old") if was_there else {}, "spec": 1, "data": 1}
        new: Json = {"kind": "K", "apiVersion": "v", "metadata": dict.fromkeys(META_KEYS, "new"), "spec": 2, "more": 3,
                     "status": "new"}  # fmt: skip
        restrict(kind, new, {**old, "status": "old", "kind": "L"}, "status")
        assert {key: new[key] for key in new if key != "metadata"} == {
            "kind": "K", "apiVersion": "v", "spec": 1, "data": 1, "status": "new"}  # fmt: skip
        for key in META_KEYS:
            expected = "new" if key not in kept else "old" if was_there else None
            assert new["metadata"].get(key) == expected, key


@pytest.mark.parametrize("before", [{"status": "old"}, {}])
@pytest.mark.parametrize("door", ["", "binding"])
def test_a_write_of_the_object_leaves_its_status(before: Json, door: str) -> None:
    kind = custom_kind("g", "v1", "Gang", subresources=frozenset(("status",)))
    for row, has_door in ((kind, door == ""), (custom_kind("g", "v1", "Gang"), False)):
        new: Json = {"metadata": {}, "spec": 2, "status": "new"}
        restrict(row, new, {"metadata": {}, "spec": 1, **before}, door)
        assert new == {"metadata": {}, "spec": 2, **(before if has_door else {"status": "new"})}


@pytest.mark.parametrize(
    ("door", "old", "sent", "spec"),
    [
        ("", {"spec": {"finalizers": ["k"]}}, {"finalizers": ["x"]}, {"finalizers": ["k"]}),
        ("", {}, {"finalizers": ["x"]}, {}),
        ("finalize", {"spec": {"finalizers": ["k"]}}, {"finalizers": ["x"]}, {"finalizers": ["x"]}),
        ("finalize", {"spec": {"finalizers": ["k"]}}, {"finalizers": []}, {}),
        ("finalize", {"spec": {"finalizers": ["k"]}}, None, {}),
    ],
)
def test_finalizers_of_a_namespace_have_their_own_door(door: str, old: Json, sent: Any, spec: Json) -> None:
    kind = shape("v1", "Namespace")
    whole: Json = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Active"}, **old}
    before = copy.deepcopy(whole)
    new: Json = {"metadata": {"labels": {"c": "d"}}, "spec": sent, "status": {}}
    restrict(kind, new, whole, door)
    assert (new["spec"], new["status"]) == (spec, {"phase": "Active"})
    assert new["metadata"] == {"labels": {"a": "b"} if door else {"c": "d"}}
    assert whole == before


@pytest.mark.parametrize(
    ("kind", "key", "counts"),
    [
        (shape("scheduling.k8s.io/v1", "PriorityClass"), "description", False),
        (custom_kind("g", "v1", "PriorityClass", generation=True), "description", True),
        (shape("policy/v1", "PodDisruptionBudget"), "status", False),
        (custom_kind("g", "v1", "Gang", generation=True), "status", True),
        (custom_kind("g", "v1", "Gang", generation=True), "kind", False),
    ],
)
def test_what_counts_as_a_new_generation(kind: ServedKind, key: str, counts: bool) -> None:
    """A status counts where it has no door of its own; what is taken away counts like what is changed."""
    for new, old in (({key: 2}, {key: 1}), ({}, {key: 1}), ({key: 1}, {})):
        body: Json = {"metadata": {}, **new}
        count_generation(kind, body, {"metadata": {"generation": 4}, **old}, "")
        assert body["metadata"]["generation"] == (5 if counts else 4)


# -- what every server has -------------------------------------------------------------------------------------


def test_the_first_objects_are_made_once() -> None:
    plane = Plane()
    names = {key_of(one)[1] for one in plane.all("v1", "Namespace")}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    classes = {one["metadata"]["name"]: (one["value"], one["description"])
               for one in plane.all("scheduling.k8s.io/v1", "PriorityClass")}  # fmt: skip
    assert classes == {
        "system-cluster-critical": (
            2000000000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if "
            "necessary.",
        ),
        "system-node-critical": (
            2000001000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    }
    revision = plane.store.revision
    ensure_base(plane.registry)
    plane.store.flush()
    assert plane.store.revision == revision


def write(
    plane: Plane, kind: str, new: Json | None, operation: Operation = "CREATE", *, name: str = "n", sub: str = "",
    namespace: str = "default", old: Json | None = None,
) -> AdmissionRequest:  # fmt: skip
    version, _, word = kind.rpartition("/")
    row = shape(version, word)
    return AdmissionRequest(operation, row, namespace, name, sub, new, old, User("u"), False, plane.registry)


@pytest.mark.parametrize(
    ("kind", "operation", "namespace", "refused"),
    [
        ("v1/ConfigMap", "CREATE", "default", None),
        ("v1/ConfigMap", "CREATE", "gone", (404, 'namespaces "gone" not found')),
        ("v1/ConfigMap", "UPDATE", "gone", None),
        ("v1/Node", "CREATE", "", None),
        ("v1/Binding", "CREATE", "gone", None),
        ("v1/ConfigMap", "CREATE", "going",
         (403, 'configmaps "n" is forbidden: unable to create new content in namespace going because it is being '
          "terminated")),
        ("v1/ConfigMap", "UPDATE", "going", None),
        ("v1/ConfigMap", "CREATE", "words", None),
    ],
)  # fmt: skip
def test_nothing_is_made_where_there_is_no_namespace(
    plane: Plane, kind: str, operation: Operation, namespace: str, refused: tuple[int, str] | None
) -> None:
    """Nor where it is terminating; a label that is called like the time of it is none."""
    for name, more in (("going", {"finalizers": ["a/b"]}), ("words", {"labels": {"deletionTimestamp": "x"}})):
        plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **more}})
    plane.delete("v1", "Namespace", "going", "")
    request = write(plane, kind, {}, operation, namespace=namespace)
    if refused is None:
        NamespaceLifecycle().mutate(request)
        return
    assert message_of(NamespaceLifecycle().mutate, request) == refused


@pytest.mark.parametrize(
    ("kind", "operation", "name", "kept"),
    [
        ("v1/Namespace", "DELETE", "default", True),
        ("v1/Namespace", "DELETE", "kube-system", True),
        ("v1/Namespace", "DELETE", "kube-public", True),
        ("v1/Namespace", "DELETE", "kube-node-lease", False),
        ("v1/Namespace", "UPDATE", "default", False),
        ("v1/ConfigMap", "DELETE", "default", False),
    ],
)
def test_some_namespaces_may_not_be_deleted(
    plane: Plane, kind: str, operation: Operation, name: str, kept: bool
) -> None:
    request = write(plane, kind, {}, operation, name=name)
    if kept:
        assert message_of(NamespaceLifecycle().validate, request) == (
            403, f'namespaces "{name}" is forbidden: this namespace may not be deleted')  # fmt: skip
    else:
        NamespaceLifecycle().validate(request)


def test_system_classes_may_not_be_deleted(plane: Plane) -> None:
    step, kind = SystemClasses(), "scheduling.k8s.io/v1/PriorityClass"
    for name in ("system-cluster-critical", "system-node-critical"):
        code, message = message_of(step.validate, write(plane, kind, None, "DELETE", name=name))
        assert (code, message.rpartition(": ")[2]) == (403, "this is a system priority class and cannot be deleted")
        step.validate(write(plane, kind, {}, "UPDATE", name=name))
    step.validate(write(plane, kind, None, "DELETE", name="other"))


@pytest.mark.parametrize(
    ("operation", "sub", "overhead", "refused", "left"),
    [
        ("CREATE", "", None, False, None),
        ("CREATE", "", {}, True, {}),
        ("CREATE", "", {"cpu": "1"}, True, {"cpu": "1"}),
        ("CREATE", "binding", {}, False, None),
        ("UPDATE", "", {}, False, None),
        ("UPDATE", "", {"cpu": "1"}, False, {"cpu": "1"}),
        ("UPDATE", "", None, False, None),
    ],
)
def test_a_new_pod_states_no_overhead(
    plane: Plane, operation: Operation, sub: str, overhead: Json | None, refused: bool, left: Json | None
) -> None:
    """There are no classes that would add any; of a pod that is there an empty one is taken off."""
    new: Json = {"spec": {} if overhead is None else {"overhead": dict(overhead)}}
    request = write(plane, "v1/Pod", new, operation, sub=sub)
    if refused:
        assert message_of(PodOverhead().mutate, request)[1].endswith(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
    else:
        PodOverhead().mutate(request)
    assert new["spec"].get("overhead") == left
    PodOverhead().mutate(write(plane, "v1/Pod", {}, operation, sub=sub))


def toleration(key: str, effect: str = "NoExecute", **more: Any) -> Json:
    return {"key": key, "operator": "Exists", "effect": effect, **more}


NOT_READY = toleration("node.kubernetes.io/not-ready", tolerationSeconds=300)
UNREACHABLE = toleration("node.kubernetes.io/unreachable", tolerationSeconds=300)
OWN = toleration("own")


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ([NOT_READY, UNREACHABLE], [], [NOT_READY, UNREACHABLE]),
        ([NOT_READY, UNREACHABLE], None, [NOT_READY, UNREACHABLE]),
        ([NOT_READY, OWN], [], [NOT_READY]),
        ([NOT_READY, UNREACHABLE], [OWN, UNREACHABLE], [OWN, UNREACHABLE, NOT_READY]),
        ([NOT_READY], [toleration(NOT_READY["key"], tolerationSeconds=5)],
         [toleration(NOT_READY["key"], tolerationSeconds=5)]),
        ([toleration(NOT_READY["key"], "NoSchedule")], [], []),
        ([NOT_READY], [{"operator": "Exists"}], [{"operator": "Exists"}]),
        ([], [OWN], [OWN]),
        (None, [], []),
        ([OWN], None, None),
    ],
)  # fmt: skip
def test_the_tolerations_of_every_pod_stay(plane: Plane, old: Any, new: Any, after: Any) -> None:
    """recorded 238, 261: an update that leaves them out gets them back, at the end."""

    def updated(operation: Operation = "UPDATE", sub: str = "", before: Json | None = None) -> Any:
        body: Json = {"spec": {"tolerations": copy.deepcopy(new)}}
        before = {"spec": {"tolerations": old}} if before is None else before
        request = write(plane, "v1/Pod", body, operation, sub=sub, old=before if operation != "CREATE" else None)
        KeptTolerations().mutate(request)
        return body["spec"]["tolerations"]

    assert updated() == after
    assert updated(sub="status") == new
    assert updated("CREATE") == new
    assert updated(before={}) == new


# -- gates, templates, tables ----------------------------------------------------------------------------------


def test_every_gate_is_on_unless_it_is_turned_off() -> None:
    assert [kind.gvk for kind in Features().kinds()] == [kind.gvk for kind in BUILTIN]


def test_templates_come_in_the_order_of_the_manifest_with_their_depth() -> None:
    inner = {"name": "inner", "podGroupTemplates": [{"name": "leaf"}], "compositePodGroupTemplates": [{"name": "deep"}]}
    spec = {
        "compositePodGroupTemplates": [inner, "x", {"name": "second", "podGroupTemplates": [7, {"name": "last"}]}],
        "podGroupTemplates": [{"name": "first", "podGroupTemplates": [{"name": "not looked at"}]}],
    }
    groups, composites = "podGroupTemplates", "compositePodGroupTemplates"
    assert [(one.holder["name"], one.place, one.composite, one.listed, one.level) for one in templates(spec)] == [
        ("first", f"spec.{groups}[0]", False, f"spec.{groups}", 1),
        ("inner", f"spec.{composites}[0]", True, f"spec.{composites}", 1),
        ("second", f"spec.{composites}[2]", True, f"spec.{composites}", 1),
        ("leaf", f"spec.{composites}[0].{groups}[0]", False, f"spec.{composites}[0].{groups}", 2),
        ("deep", f"spec.{composites}[0].{composites}[0]", True, f"spec.{composites}[0].{composites}", 2),
        ("last", f"spec.{composites}[2].{groups}[1]", False, f"spec.{composites}[2].{groups}", 2),
    ]
    assert list(templates({groups: None})) == []


def test_a_registry_serves_the_kinds_it_is_given() -> None:
    table = KindTable([shape("v1", "ConfigMap")])
    assert ObjectRegistry(Store(), kinds=table).kinds is table
    assert ObjectRegistry(Store()).kind("v1", "Pod").plural == "pods"
    with pytest.raises(KeyError, match="v1 Pod"):
        ObjectRegistry(Store(), kinds=table).kind("v1", "Pod")


# -- versions --------------------------------------------------------------------------------------------------


def test_fields_a_core_event_always_shows_are_its_own() -> None:
    first: Json = {"source": {"component": "c"}}
    second: Json = {}
    complete_event(first)
    complete_event(second)
    assert first["source"] == {"component": "c"}
    assert (second["source"], second["reportingInstance"]) == ({}, "")
    second["source"]["component"] = "d"
    third: Json = {}
    complete_event(third)
    assert third["source"] == {}


def test_an_object_is_served_in_the_version_of_its_row() -> None:
    plain = custom_kind("g", "v1", "Gang", storage_version="g/v1")
    body = {"apiVersion": "g/v1", "kind": "Gang"}
    assert to_storage(plain, body) is from_storage(plain, body) is body
    other = custom_kind("g", "v2", "Gang", storage_version="g/v1")
    assert to_storage(other, {**body, "apiVersion": "g/v2"}) == body
    assert from_storage(other, body) == {**body, "apiVersion": "g/v2"}
    old = shape("scheduling.k8s.io/v1alpha2", "PodGroup")
    group: Json = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    stored = to_storage(old, group)
    assert stored["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert from_storage(old, stored)["apiVersion"] == "scheduling.k8s.io/v1alpha2"


# -- scales ----------------------------------------------------------------------------------------------------


def scaled(**paths: str) -> ServedKind:
    scale = {"specReplicasPath": ".spec.size.wanted", "statusReplicasPath": ".status.size", **paths}
    definition = {"subresources": {"scale": scale}, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip
    return custom_kind("g", "v1", "Gang", definition=definition, storage_version="g/v1", storage_key="g/gangs",
                       subresources=frozenset(("scale",)))  # fmt: skip


META: Json = {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5", "creationTimestamp": "t", "labels": {}}
SHOWN = {key: META[key] for key in META if key != "labels"}
BY_LABELS: Json = {"matchLabels": {"b": "2", "a": "1"}}
BY_SEVERAL_KEYS: Json = {
    "matchLabels": {"z": "1", "a": "2"}, "matchExpressions": [{"key": "m", "operator": "In", "values": ["y", "x"]}]
}  # fmt: skip
BY_EXPRESSION: Json = {"matchExpressions": [{"key": "k", "operator": "Exists"}], **BY_LABELS}


@pytest.mark.parametrize(
    ("kind", "body", "replicas", "found", "selector"),
    [
        (shape("apps/v1", "Deployment"), {"spec": {"replicas": 3, "selector": BY_LABELS}, "status": {"replicas": 2}},
         3, 2, "a=1,b=2"),
        (shape("apps/v1", "Deployment"), {"spec": {"selector": BY_EXPRESSION}}, 0, 0, "a=1,b=2,k"),
        (shape("apps/v1", "Deployment"), {"spec": {"selector": BY_SEVERAL_KEYS}}, 0, 0, "a=2,m in (x,y),z=1"),
        (shape("apps/v1", "Deployment"), {"spec": {"selector": {}}}, 0, 0, None),
        (shape("apps/v1", "Deployment"), {"spec": None, "status": None}, 0, 0, None),
        (shape("v1", "ReplicationController"), {"spec": {"selector": {"b": "2", "a": "1"}}}, 0, 0, "a=1,b=2"),
        (scaled(), {"spec": {"size": {"wanted": 3}, "selector": BY_LABELS}, "status": {"size": 2}}, 3, 2, None),
        (scaled(), {"spec": {"size": 7}}, 0, 0, None),
        (scaled(labelSelectorPath=".status.chosen"), {"status": {"chosen": "x=y"}}, 0, 0, "x=y"),
        (scaled(labelSelectorPath=".status.chosen"), {"status": {}}, 0, 0, None),
        (custom_kind("g", "v1", "Gang"), {"spec": {"replicas": 4}}, 4, 0, None),
        (custom_kind("g", "v1", "Gang", definition={"subresources": None}), {"spec": {"replicas": 4}}, 4, 0, None),
    ],
)  # fmt: skip
def test_the_scale_of_an_object(kind: ServedKind, body: Json, replicas: int, found: int, selector: str | None) -> None:
    """Of a custom resource where its definition says that the fields are."""
    status: Json = {"replicas": found, **({} if selector is None else {"selector": selector})}
    assert scale_of(kind, {"metadata": META, **body}) == {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": SHOWN, "spec": {"replicas": replicas},
        "status": status}  # fmt: skip


@pytest.fixture
def gangs(plane: Plane) -> ServedKind:
    """The row of a custom kind with a scale, of which there is one object `g` in `default`."""
    kind = scaled()
    plane.registry.kinds.add(kind)
    plane.registry.declare(kind)
    plane.registry.create_now(kind, "default", {"metadata": {"name": "g"}, "spec": {"a": 1}}, WriteOptions(manager=""))
    return kind


def test_a_scale_is_written_to_the_fields_the_definition_names(plane: Plane, gangs: ServedKind) -> None:
    def put(scale: Json) -> Any:
        return write_scale_now(plane.registry, gangs, "default", "g", scale, WriteOptions(manager=""))

    assert put({"spec": {"replicas": 3}}).object["spec"] == {"replicas": 3}
    found = plane.registry.find(gangs, "default", "g")
    assert found is not None
    assert found["spec"] == {"a": 1, "size": {"wanted": 3}}
    version = found["metadata"]["resourceVersion"]
    assert put({"metadata": {"name": "g", "resourceVersion": version}, "spec": None}).object["spec"] == {"replicas": 0}
    modified = "the object has been modified; please apply your changes to the latest version and try again"
    for scale, refused in (
        ({"metadata": {"name": "x"}}, (400, "the name of the object (x) does not match the name on the URL (g)")),
        ({"metadata": {"resourceVersion": version}},
         (409, f'Operation cannot be fulfilled on gangs.g "g": {modified}')),
        *(({"spec": {"replicas": bad}},
           (422, f'Scale.autoscaling "g" is invalid: spec.replicas: Invalid value: {shown}: must be greater than or '
            "equal to 0")) for bad, shown in ((-1, "-1"), (True, "true"), ("x", '"x"'))),
    ):  # fmt: skip
        assert message_of(put, scale) == refused
    absent = message_of(write_scale_now, plane.registry, gangs, "default", "x", {}, WriteOptions())
    assert absent == (404, 'gangs.g "x" not found')


# -- selectors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "plain", "labels", "fits"),
    [
        ({"a": "b"}, True, {"a": "b", "c": "d"}, True),
        ({"a": "b"}, True, {"a": "c"}, False),
        ({"matchLabels": {"a": "b"}}, False, {"a": "b"}, True),
        ({"matchLabels": "x"}, True, {"matchLabels": "x"}, True),
        ({}, False, {"a": "b"}, True),
        (BY_EXPRESSION, False, {"a": "1", "b": "2"}, False),
        (BY_EXPRESSION, False, {"a": "1", "b": "2", "k": ""}, True),
    ],
)
def test_selectors_of_objects(selector: Json, plain: bool, labels: dict[str, str], fits: bool) -> None:
    """Plain labels are those of a ReplicationController."""
    assert is_plain(selector) is plain
    assert compile_selector(selector).matches(labels) is fits


@pytest.mark.parametrize(
    ("labels", "fields", "name", "namespace", "everything"),
    [
        ("", "", None, None, True),
        ("a=b", "", None, None, False),
        ("", "metadata.name=n", "n", None, False),
        ("", "metadata.name=n,metadata.namespace=s", "n", "s", False),
        ("", "metadata.name!=n", None, None, False),
        ("", "spec.nodeName=x", None, None, False),
    ],
)
def test_what_can_be_found_by_its_name(
    labels: str, fields: str, name: str | None, namespace: str | None, everything: bool
) -> None:
    found = select(shape("v1", "Pod"), labels, fields)
    assert (found.name, found.namespace, found.match is None) == (name, namespace, everything)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (shape("v1", "Pod"), "field label not supported: spec.x"),
        (custom_kind("g", "v1", "Gang"), "field label not supported: spec.x"),
        (
            shape("v1", "ConfigMap"),
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_fields_that_are_not_offered(kind: ServedKind, message: str) -> None:
    assert message_of(select, kind, "", "spec.x=1") == (400, message)


# -- steps that take long --------------------------------------------------------------------------------------


def test_a_step_is_done_again_when_what_it_is_given_changes() -> None:
    """The result is kept by what it was made of, for each step by itself, and is fresh each time."""
    steps = OffLoopSteps(always=True)
    calls: list[str] = []

    def value(step: str, given: Any) -> Any:
        def work() -> Json:
            calls.append(step)
            return {"of": given}

        return steps.value(step, given, work)

    def done(step: str, given: Any) -> Any:
        with pytest.raises(NotYetDoneError) as missing:
            value(step, given)
        missing.value.work()
        return value(step, given)

    first = done("a", 1)
    assert first == {"of": 1}
    first["of"] = "changed"
    assert value("a", 1) == {"of": 1}
    assert done("a", 2) == {"of": 2}
    assert done("b", 2) == {"of": 2}
    assert done("a", 1) == {"of": 1}
    assert value("b", 2) == {"of": 2}
    assert calls == ["a", "a", "b", "a"]


def test_small_writes_wait_for_nothing_but_findings() -> None:
    steps = OffLoopSteps(always=False)
    assert steps.value("a", 1, lambda: 5) == INLINE.value("a", 1, lambda: 5) == 5
    with pytest.raises(NotYetDoneError) as missing:
        steps.findings("a", 2**70, lambda: 5)
    missing.value.work()
    assert steps.findings("a", 2**70, lambda: 6) == 5


@pytest.mark.parametrize(("steps", "ends"), [(0, True), (23, True), (24, False), (100, False)])
def test_a_write_is_begun_anew_for_each_of_its_steps(steps: int, ends: bool) -> None:
    """Twenty-four times; then what it depends on never rests."""
    done: list[int] = []

    def write() -> str:
        if len(done) < steps:
            raise NotYetDoneError(lambda: done.append(1))
        return "written"

    async def run() -> str:
        return await repeated(write)

    if ends:
        assert asyncio.run(run()) == "written"
        assert len(done) == steps
        return
    with pytest.raises(TooManyTurnsError):
        asyncio.run(run())
    assert len(done) == 24


# -- beside the server -----------------------------------------------------------------------------------------


def test_controllers_work_while_the_context_lasts() -> None:
    def count(served: Served, kind: str) -> int:
        return sum(1 for _ in served.store.heads(served.registry.kind("apps/v1", kind).storage_key))

    def deployment(name: str) -> Json:
        spec = {"selector": {"matchLabels": {"a": name}}, "template": {
            "metadata": {"labels": {"a": name}}, "spec": pod()["spec"]}}  # fmt: skip
        return {"metadata": {"name": name}, "spec": spec}

    path = "/apis/apps/v1/namespaces/default/deployments"
    with running() as served:

        async def work() -> None:
            async with background(served.registry):
                await served.asked(f"POST {path}", deployment("first"))
                await asyncio.sleep(5)
                assert count(served, "ReplicaSet") == 1
            await served.asked(f"POST {path}", deployment("second"))
            await asyncio.sleep(5)
            assert count(served, "ReplicaSet") == 1
            async with background(served.registry, controllers="none"):
                await asyncio.sleep(5)
            assert count(served, "ReplicaSet") == 1
            with pytest.raises(ValueError, match="made-up"):
                async with background(served.registry, controllers="made-up"):
                    pass

        served.run(work())
