"""Edges of loading: how deep lists go, what an object without a kind is, when objects were created, what is counted
(interfaces.md, api.md).  Everything goes for YAML, for JSON and for plain data alike.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kube_rules.decoding import decode_object, refuse_dense
from kube_rules.documents import is_json, read_plain
from kube_rules.errors import InputError, Origin
from kube_rules.manifests import Manifests, PodMaker, UnknownObject
from kube_rules.objects import Pod
from kube_rules.unknown_fields import Manifest, MisnamedField
from reprieve.inputs.loader import FIRST_CREATION, load, read

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c"}]},
}
FORMS = ("yaml", "json", "plain")


def given(document: Any, form: str) -> Any:
    return (
        document
        if form == "plain"
        else json.dumps(document)
        if form == "json"
        else "# as YAML\n" + json.dumps(document)
    )


def taken(document: Any, form: str) -> Manifests:
    return read([("a", given(document, form))])


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {**POD, "metadata": {"name": name, **meta}}


def lists(depth: int) -> dict[str, Any]:
    found = POD
    for _ in range(depth):
        found = {"apiVersion": "v1", "kind": "List", "items": [found]}
    return found


@pytest.mark.parametrize("form", FORMS)
def test_lists_in_lists(form: str) -> None:
    """Eight of them, and no more."""
    assert [loaded.object.name for loaded in taken(lists(8), form).pods] == ["p"]
    with pytest.raises(InputError, match="lists nested deeper than 8"):
        taken(lists(9), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"apiVersion": "v1"}, "kind: Required value: every object needs one"),
        ({"kind": "Pod"}, "Pod: apiVersion: Required value: every object needs one"),
        ({"kind": "", "apiVersion": "v1"}, "kind: Required value"),
        ({"kind": "Pod", "apiVersion": ""}, "apiVersion: Required value"),
        ({"kind": "List", "apiVersion": "v1", "items": {}}, "items: Invalid value: must be a list"),
        ({"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1"}]}, "items[0]: kind: Required value"),
        ({"kind": "List", "apiVersion": "v1", "items": [POD, {"kind": "X"}]}, "items[1]: X: apiVersion: Required"),
        ({"kind": "PodList", "apiVersion": "v1", "items": [POD, {}]}, "items[1]: metadata.name: Required value"),
    ],
)
def test_object_without_its_kind_or_version(document: Any, error: str, form: str) -> None:
    with pytest.raises(InputError) as caught:
        taken(document, form)
    assert error in str(caught.value).replace('Pod "default/": ', "").replace('Pod "": ', "")


@pytest.mark.parametrize("form", FORMS)
def test_items_of_a_typed_list_have_its_kind_unless_they_say_their_own(form: str) -> None:
    plain = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    found = taken({"kind": "PodList", "apiVersion": "v1", "items": [plain, node]}, form)
    assert [(loaded.object.KIND, loaded.object.name) for loaded in found.all()] == [("Pod", "a"), ("Node", "n")]
    config = {"metadata": {"name": "x"}}
    other = taken({"kind": "ConfigMapList", "apiVersion": "v1", "items": [config]}, form)
    assert [item.kind for item in other.unknown] == ["ConfigMap"]
    assert other.unknown[0].subject == 'ConfigMap "x"'


@pytest.mark.parametrize("form", FORMS)
def test_kind_that_ends_in_list_and_has_no_items_is_a_kind(form: str) -> None:
    found = taken({"kind": "CheckList", "apiVersion": "x/v1", "metadata": {"name": "c"}}, form)
    assert [item.kind for item in found.unknown] == ["CheckList"]


MAKER = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
TYPED_MAKER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "r"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2025-01-01T00:00:00Z", 1735689600.0),
        ("2025-01-01T01:00:00+01:00", 1735689600.0),
        ("2025-01-01T00:00:00", 1735689600.0),  # without a zone it is UTC, wherever this runs
        ("yesterday", None),
        (7, None),
        (None, None),
    ],
)
def test_when_objects_that_stay_plain_data_were_created(stamp: Any, seconds: float | None, form: str) -> None:
    """What cannot be read counts as not there: their turn in document order stands for it."""
    for document in (MAKER, OTHER):
        dated = {**document, "metadata": {"name": "x", "creationTimestamp": stamp}}
        found = taken({"kind": "List", "apiVersion": "v1", "items": [POD, dated]}, form)
        both: list[PodMaker | UnknownObject] = [*found.pod_makers, *found.unknown]
        [one] = both
        expected = FIRST_CREATION.timestamp() + 1 if seconds is None else seconds
        assert (one.created, one.dated) == (expected, seconds is not None)


def test_times_of_plain_data_may_be_times() -> None:
    for stamp in (datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 1, 1)):
        found = read([("a", {**OTHER, "metadata": {"name": "x", "creationTimestamp": stamp}})])
        assert (found.unknown[0].created, found.unknown[0].dated) == (1735689600.0, True)
        pods = read([("a", named("p", creationTimestamp=stamp))]).pods
        assert (pods[0].created, pods[0].dated) == (1735689600.0, True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stamp", ["2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", "2025-01-01T00:00:00"])
def test_when_objects_of_the_cluster_were_created(stamp: str, form: str) -> None:
    [pod] = taken(named("p", creationTimestamp=stamp), form).pods
    assert pod.object.metadata.creation_timestamp == datetime(2025, 1, 1, tzinfo=UTC)
    assert (pod.created, pod.dated) == (1735689600.0, True)


class OnlyPods:
    """Schemas of one kind."""

    def unknown_fields(self, api_version: str, kind: str, manifest: Manifest) -> Sequence[MisnamedField]:
        return ()

    def knows(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) == ("v1", "Pod")

    def kinds(self) -> Iterable[tuple[str, str]]:
        return [("v1", "Pod")]


def test_unknown_kinds_get_suggestions_up_to_two_hundred() -> None:
    """A search takes its time: an input of nothing but unknown kinds does not get one for each."""
    kinds = [{"apiVersion": f"v{number}", "kind": "Pdo", "metadata": {"name": "x"}} for number in range(2, 203)]
    documents = [("a", one) for one in (*kinds, kinds[0])]
    found = read(documents, schemas=OnlyPods()).unknown
    assert {one.known for one in found} == {False}
    assert {one.nearest for one in found[:200]} == {'"Pod" in version "v1"'}
    assert (found[200].nearest, found[201].nearest) == ("", found[0].nearest)


@pytest.mark.parametrize("form", FORMS)
def test_every_object_has_its_turn(form: str) -> None:
    """A controller that is also an object of the cluster has one turn, not two."""
    documents = [POD, MAKER, OTHER, TYPED_MAKER, named("q")]
    found = taken({"kind": "List", "apiVersion": "v1", "items": documents}, form)
    assert [(loaded.object.name, loaded.order) for loaded in found.all()] == [("p", 0), ("r", 3), ("q", 4)]
    base = FIRST_CREATION.timestamp()
    assert [one.created - base for one in found.pod_makers] == [1, 3]
    assert [one.created - base for one in found.unknown] == [2]
    assert [loaded.dated for loaded in found.all()] == [False] * 3
    assert [one.origin.item for one in found.pod_makers] == [1, 3]


@pytest.mark.parametrize("form", FORMS)
def test_names_and_namespaces_are_completed(form: str) -> None:
    plain = {**POD, "metadata": {"generateName": "web-"}}
    [pod] = taken(plain, form).pods
    assert (pod.object.namespace, pod.object.name) == ("default", "web-00000")
    [both] = taken(named("a", generateName="web-", namespace="n"), form).pods
    assert (both.object.namespace, both.object.name) == ("n", "a")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    assert taken(node, form).nodes[0].object.namespace == ""


def test_so_many_bytes_are_read_of_all_sources_together() -> None:
    one = json.dumps(POD)
    other = json.dumps(named("q"))
    size = len(one) + len(other)
    sources = [("a", one), ("b", other)]
    assert len(load(sources, max_bytes=size).pods) == 2
    with pytest.raises(InputError) as caught:
        load(sources, max_bytes=size - 1)
    assert str(caught.value) == f"b: the input is larger than {size - 1} bytes; raise the limit to read it"
    assert len(load(["-"], stdin=io.BytesIO(one.encode()), max_bytes=len(one)).pods) == 1
    with pytest.raises(InputError, match="<stdin>: the input is larger than"):
        load(["-"], stdin=io.BytesIO(one.encode()), max_bytes=len(one) - 1)


@pytest.mark.parametrize("form", FORMS)
def test_depth_of_plain_data(form: str) -> None:
    """A document may go a hundred levels down."""
    inner: Any = 1
    for _ in range(98):
        inner = [inner]
    scenario = {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "spec": inner}
    assert len(taken(scenario, form).scenarios) == 1
    with pytest.raises(InputError, match="nested deeper than 100 levels"):
        taken({**scenario, "spec": [[inner]]}, form)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_objects_as_they_stand_there(form: str, tmp_path: Any) -> None:
    """For callers with checks of their own: lists are opened, nothing is completed, nothing is left out."""
    item = {"metadata": {"name": "a", "labels": None}}
    document = {"kind": "PodList", "apiVersion": "v1", "items": [item, OTHER]}
    path = tmp_path / "a.yaml"
    path.write_text(given(document, form))
    found = read_plain([(str(path), path.read_bytes())], 10_000)
    assert [one.manifest for one in found] == [{**item, "apiVersion": "v1", "kind": "Pod"}, OTHER]
    assert [one.origin.item for one in found] == [0, 1]


MILLIONS = 4 * 1024 * 1024


def test_large_json_of_values_of_no_length_is_refused() -> None:
    """One value in eight bytes is too many; small text may be as dense as it likes."""

    def text(size: int, commas: int) -> bytes:
        return b"," * commas + b" " * (size - commas)

    refuse_dense(text(MILLIONS, MILLIONS), Origin("a"))
    size = MILLIONS + 8
    refuse_dense(text(size, size // 8), Origin("a"))
    with pytest.raises(InputError, match=f"more than {size // 8} values: too many for {size} bytes"):
        refuse_dense(text(size, size // 8 + 1), Origin("a"))


@pytest.mark.parametrize(
    ("name", "data", "json_text"),
    [
        ("a.json", b"a: 1", True),
        ("a.yaml", b'{"a": 1}', True),
        ("a.yaml", b'\xef\xbb\xbf \n\t\r{ "a": 1}', True),
        ("a.yaml", b"{}", True),
        ("a.yaml", b"{", True),
        ("a.yaml", b"{a: 1}", False),
        ("a.json", b'{"a": 1}\n---\n{"b": 2}', False),
        ("a.yaml", b"[1]", False),
        ("a.yaml", b"a: 1", False),
        ("a.yaml", b"", False),
    ],
)
def test_texts_read_as_json(name: str, data: bytes, json_text: bool) -> None:
    assert is_json(name, data) is json_text


def volume(**source: Any) -> dict[str, Any]:
    return {"name": "v", **source}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("meta", "source", "empty"),
    [
        ({}, {}, True),  # an API server makes an empty directory of a volume that says nothing
        ({}, {"emptyDir": {}}, True),
        ({}, {"hostPath": None}, True),
        ({}, {"hostPath": {"path": "/x"}}, False),  # a source that is not read
        ({}, {"csi": {"driver": "d"}}, False),
        ({"uid": "u"}, {}, False),  # it was completed when it was admitted
    ],
)
def test_volumes_without_a_source(meta: dict[str, Any], source: dict[str, Any], empty: bool, form: str) -> None:
    pod = {**named("p", **meta), "spec": {**POD["spec"], "volumes": [volume(**source)]}}
    [found] = taken(pod, form).pods
    assert (found.object.spec.volumes[0].empty_dir is not None) is empty


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2"])
@pytest.mark.parametrize("form", FORMS)
def test_group_of_a_version_without_preemption_policy_has_none_of_its_own(version: str, form: str) -> None:
    """api.md, the table of versions: `v1alpha2` has no such field."""
    group = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    [found] = taken(group, form).pod_groups
    assert found.object.spec.preemption_policy == ("" if version == "v1alpha2" else None)
    workload = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]},
    }
    assert len(taken(workload, form).all()) == 1


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"containers": [{"name": 7}]}, "spec.containers[0].name: Invalid value: 7: expected `str`, got `int`"),
        ({"containers": 7}, "spec.containers: Invalid value: 7: expected `array`, got `int`"),
        ({"containers": {}}, "spec.containers: Invalid value: expected `array`, got `object`"),
        ({"nodeSelector": {"a": "b", "c": True}}, "nodeSelector[c]: Invalid value: true: expected `str`, got `bool`"),
        ({"priority": "9" * 200}, "..."),
        ({"overhead": {"cpu": []}}, "spec.overhead[cpu]: Invalid value: expected `int | float | str`, got `array`"),
        (7, "spec: Invalid value: 7: expected `object`, got `int`"),
    ],
)  # fmt: skip
def test_wrong_types_are_named_with_their_place(spec: Any, error: str) -> None:
    for form in FORMS:
        with pytest.raises(InputError) as caught:
            taken({**POD, "spec": spec}, form)
        assert error in str(caught.value)
        assert len(str(caught.value)) < 300


def test_nulls_are_absent_however_deep() -> None:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": None, "limits": {"cpu": None}}}],
        "tolerations": None,
    }
    found = decode_object({**POD, "spec": spec})
    assert isinstance(found, Pod)
    assert found.spec.containers[0].resources.limits == {}


@pytest.mark.parametrize("form", ["map", "list"])
def test_data_that_is_given_directly_is_followed_a_hundred_levels_down(form: str) -> None:
    def nested(levels: int) -> Any:
        found: Any = None
        for _ in range(levels):
            found = {"a": found} if form == "map" else [found]
        return {**POD, "metadata": {"name": "p", "labels": None}, "spec": {**POD["spec"], "workloadRef": found}}

    with pytest.raises(InputError, match=r"v1alpha1 is not served"):
        decode_object({**nested(90), "status": {"phase": None, "conditions": None}})
    with pytest.raises(InputError, match="nested deeper than 100 levels"):
        decode_object({**nested(120), "status": {"phase": None}})


def test_objects_as_a_cluster_returns_them_are_read() -> None:
    """api.md: with status, ephemeral containers, mounts, probes, and all else that a scheduler does not read."""
    manifests = load([Path(__file__).parent / "objects_of_a_cluster.yaml"])
    assert [loaded.object.name for loaded in manifests.pods] == ["full"]
    assert [loaded.object.name for loaded in manifests.nodes] == ["n0", "n1"]
