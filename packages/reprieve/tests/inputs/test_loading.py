"""Loading: sources, documents, lists, order, references (interfaces.md, api.md)."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kube_rules import shared_parts
from kube_rules.errors import InputError
from kube_rules.manifests import Manifests
from kube_rules.objects import ObjectMeta, Pod, PriorityClass
from reprieve.inputs.loader import FIRST_CREATION, load

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c}]%s}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
GROUP = "apiVersion: scheduling.k8s.io/%s\nkind: PodGroup\nmetadata: {name: g}\nspec: %s\n"
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n"


def read(*documents: str, **options: Any) -> Manifests:
    return load(["-"], stdin=io.BytesIO("---\n".join(documents).encode()), **options)


def refused(*documents: str) -> str:
    with pytest.raises(InputError) as caught:
        read(*documents)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names(found: Manifests) -> list[str]:
    return [loaded.object.name for loaded in found.pods]


def test_files_directories_and_stdin_in_the_order_given(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    (folder / "deeper").mkdir(parents=True)
    (folder / "b.yml").write_text(POD % ("b", ""))
    (folder / "a.json").write_text(
        json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
        )
    )
    (folder / "c.txt").write_text("not a manifest")
    (folder / "deeper" / "x.yaml").write_text(POD % ("x", ""))  # kubectl without -R stays at the top
    single = tmp_path / "z"
    single.write_text(POD % ("z", ""))
    found = load([single, "-", str(folder)], stdin=io.BytesIO((POD % ("s", "")).encode()))
    assert names(found) == ["z", "s", "a", "b"]
    assert [loaded.origin.file for loaded in found.pods] == [
        str(single),
        "<stdin>",
        str(folder / "a.json"),
        str(folder / "b.yml"),
    ]


def test_lists_are_opened_and_typed_lists_name_the_kind_of_their_items() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    whole = {"apiVersion": "v1", "kind": "Pod", **pod}
    other = {**whole, "metadata": {"name": "b"}}
    for kind, items in (("List", [whole, other]), ("PodList", [pod, {**pod, "metadata": {"name": "b"}}])):
        text = json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {}, "items": items})
        for written in (text, "# as YAML\n" + text):
            found = read(written)
            assert names(found) == ["a", "b"]
            assert [loaded.origin.item for loaded in found.pods] == [0, 1]
    assert read('{"apiVersion": "v1", "kind": "List", "items": null}').all() == []


@pytest.mark.parametrize("between", ["", " ", "\n", "\r\n\n", "\n---\n", "\n--- # next\n"])
def test_json_values_may_follow_each_other(between: str) -> None:
    one = [json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}"}}) for i in range(3)]
    found = load(["-"], stdin=io.BytesIO(between.join(one).encode()))
    assert [(loaded.object.name, loaded.origin.document) for loaded in found.nodes] == [("n0", 1), ("n1", 2), ("n2", 3)]


def test_unknown_kinds_are_counted_and_scenarios_kept_as_they_are() -> None:
    scenario = "apiVersion: reprieve.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec: {steps: [{wait: 5s}]}\n"
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: null}\n"
    metrics = "apiVersion: metrics.k8s.io/v1beta1\nkind: NodeMetrics\nmetadata: {name: n}\n"
    found = read(config % "a", scenario, config % "b", metrics)
    assert Counter(f"{item.api_version}/{item.kind}" for item in found.unknown) == {
        "v1/ConfigMap": 2,
        "metrics.k8s.io/v1beta1/NodeMetrics": 1,
    }
    assert found.scenarios[0].manifest["spec"] == {"steps": [{"wait": "5s"}]}
    assert found.scenarios[0].origin.document == 2


def test_objects_without_a_time_are_created_one_second_apart_in_document_order() -> None:
    """interfaces.md 1.11."""
    found = read(NODE, POD % ("a", ""), POD % ("b", ""))
    base = FIRST_CREATION.timestamp()
    assert [loaded.order for loaded in found.pods] == [1, 2]
    assert [loaded.created for loaded in found.pods] == [base + 1, base + 2]
    for loaded in found.all():
        stamp = loaded.object.metadata.creation_timestamp
        assert stamp is not None
        assert stamp.timestamp() == loaded.created


def test_beside_dated_objects_those_without_a_time_are_created_after_the_newest() -> None:
    """interfaces.md 1.11: in document order, whichever comes first, workloads among them."""
    times = (("newer", "2026-06-02T00:00:00Z"), ("older", "2025-01-01T00:00:00Z"))
    dated = [(POD % (name, "")).replace("name: ", f"creationTimestamp: {when}, name: ", 1) for name, when in times]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
    newest = datetime(2026, 6, 2, tzinfo=UTC).timestamp()
    found = read(NODE, POD % ("a", ""), *dated, json.dumps(job) + "\n", POD % ("c", ""))
    assert {loaded.object.name: loaded.created - newest for loaded in found.pods if not loaded.dated} == {
        "a": 2,
        "c": 4,
    }
    assert [loaded.created - newest for loaded in found.nodes] == [1]
    assert [(maker.created - newest, maker.dated) for maker in found.pod_makers] == [(3, False)]
    assert [loaded.created for loaded in found.pods if loaded.dated] == [newest, 1735689600.0]
    for loaded in found.all():
        assert loaded.object.metadata.creation_timestamp == datetime.fromtimestamp(loaded.created, UTC)


def test_generated_name_is_made_from_the_order() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: web-}\nspec: {containers: [{name: c}]}\n"
    assert names(read(text, text)) == ["web-00000", "web-00001"]


def test_priorities_are_resolved_from_classes_anywhere_in_the_input() -> None:
    found = read(POD % ("a", ", priorityClassName: high"), CLASS)
    assert found.pods[0].object.spec.priority == 7
    extra = PriorityClass(metadata=ObjectMeta(name="x"), value=9)
    assert read(POD % ("a", ", priorityClassName: x"), classes=[extra]).pods[0].object.spec.priority == 9


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2"])
def test_groups_of_every_served_version_are_read(version: str) -> None:
    found = read(GROUP % (version, "{schedulingPolicy: {gang: {minCount: 3}}}")).pod_groups[0].object
    assert (found.min_count, found.disrupts_all) == (3, False)


def test_errors_name_file_document_object_and_field() -> None:
    assert refused(NODE, POD % ("a", ", nodeName: gone")) == (
        '<stdin>: document 2 (line 4): Pod "default/a": spec.nodeName: '
        'Invalid value: "gone": no Node with this name is in the input'
    )
    assert "document 2 (line 5)" in refused(POD % ("a", ""), POD % ("a", ""))
    assert 'Duplicate value: "a": already defined in <stdin>: document 1' in refused(POD % ("a", ""), POD % ("a", ""))
    assert "no PriorityClass with name nope was found" in refused(POD % ("a", ", priorityClassName: nope"))


def test_finished_pod_may_outlive_its_node_and_a_partial_input_is_not_held_to_its_nodes() -> None:
    done = POD % ("a", ", nodeName: gone") + "status: {phase: Succeeded}\n"
    assert names(read(done)) == ["a"]
    assert names(read(POD % ("a", ", nodeName: gone"), complete=False)) == ["a"]


def test_same_name_in_another_namespace_or_kind_is_no_duplicate() -> None:
    elsewhere = (POD % ("a", "")).replace("name: a", "name: a, namespace: other")
    found = read(POD % ("a", ""), elsewhere, NODE.replace("n1", "a"))
    assert len(found.all()) == 3


ALL_BASIC = "{schedulingPolicy: {basic: {}}, disruptionMode: {all: {}}}"


def test_all_with_basic_is_refused_unless_an_older_server_admitted_it() -> None:
    group = GROUP % ("v1beta1", ALL_BASIC)
    member = ", schedulingGroup: {podGroupName: g}"
    assert "spec.disruptionMode: Forbidden" in refused(group)
    assert "spec.disruptionMode: Forbidden" in refused(NODE, group, POD % ("a", member))
    found = read(NODE, group, POD % ("a", member + ", nodeName: n1"))  # bound: stored objects stay as they are
    assert found.pod_groups[0].object.disrupts_all
    assert read(group.replace("name: g", "name: g, uid: u")).pod_groups  # a UID is given when an object is stored


def test_directories_without_manifests_and_missing_files_are_errors(tmp_path: Path) -> None:
    for source, message in (
        (tmp_path, "holds no .yaml, .yml, .json file"),
        (tmp_path / "no.yaml", "No such file"),
        ("a\0b", "null"),
    ):
        with pytest.raises(InputError) as caught:
            load([source])
        assert message in str(caught.value)


def test_text_in_other_encodings() -> None:
    pod = POD % ("a", "")
    assert names(load(["-"], stdin=io.BytesIO(b"\xef\xbb\xbf" + pod.encode()))) == ["a"]
    assert names(load(["-"], stdin=io.BytesIO(pod.encode("utf-16")))) == ["a"]
    with pytest.raises(InputError, match="not UTF-8 text"):
        load(["-"], stdin=io.BytesIO(b"a: \xff"))


def test_same_cluster_from_yaml_and_json_is_the_same() -> None:
    spec = {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": 1.5}}}], "affinity": None}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": None}, "spec": spec}
    text = json.dumps(pod)
    one, other = read(text).pods[0].object, read("# YAML\n" + text).pods[0].object
    assert one == other
    assert isinstance(one, Pod)


@pytest.mark.parametrize("value", ["", ', "value": null'])
def test_priority_class_states_its_value(value: str) -> None:
    """api.md 5.5: a class of 0 by accident changes which pods are evicted."""
    head = '{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}'
    text = f"{head}{value}}}\n"
    for document in (text, f"# YAML\n{text}"):
        assert refused(document).endswith('PriorityClass "high": value: Required value')
    assert read(CLASS.replace("7", "0")).of(PriorityClass)[0].object.value == 0


def test_creation_that_a_manifest_does_not_state_is_not_taken_for_stated() -> None:
    """interfaces.md 1.11: the time that stands for it orders objects; `queue` shows none."""
    stated = (POD % ("b", "")).replace("{name: b}", "{name: b, creationTimestamp: '2026-05-04T03:02:01Z'}")
    assert [loaded.dated for loaded in read(POD % ("a", ""), stated).pods] == [False, True]


def test_tables_of_shared_parts_are_empty_after_loading() -> None:
    """What an input shares is kept by its objects; a plan needs the memory of the tables for itself."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team"}}
    spec = {"containers": [{"name": "main"}], "tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeName": "n"}
    pods = [{**pod, "metadata": {"name": name, "namespace": "team"}, "spec": spec} for name in "ab"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    first, second = (loaded.object for loaded in load([("pods.json", text)], complete=False).pods)
    assert first.spec.tolerations is second.spec.tolerations
    assert not shared_parts._parts
    assert not shared_parts._selecting
    assert not shared_parts._texts
