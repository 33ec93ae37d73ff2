"""Objects of the input that cannot be loaded."""

from __future__ import annotations

import copy

import pytest

from kube_rules.errors import InputError
from tests.test_initial_objects import (
    LIGHT,
    NODE,
    OF_STATEFUL,
    Json,
    _changed,
    all_of,
    everything,
    load,
    made,
    owner,
    plane,
    running,
    settled,
)

BAD: dict[str, tuple[Json, str]] = {
    "a field of the wrong type": (
        _changed(lambda pod: pod["spec"].update(containers=7)),
        'in.yaml: document 2: Pod "shop/bad": Pod in version "v1" cannot be handled as a Pod: ',
    ),
    "a rule broken": (
        _changed(lambda pod: pod["spec"]["containers"][0].pop("image")),
        'in.yaml: document 2: Pod "shop/bad": spec.containers[0].image: Required value',
    ),
    "a class that is not there": (
        _changed(lambda pod: pod["spec"].update(priorityClassName="lost")),
        'in.yaml: document 2: Pod "shop/bad": pods "bad" is forbidden: no PriorityClass with name lost was found',
    ),
    "a status that breaks a rule": (
        made("v1", "PersistentVolumeClaim", "bad", spec={"accessModes": ["ReadWriteOnce"]}, status={"phase": 7}),
        'in.yaml: document 2: PersistentVolumeClaim "shop/bad": PersistentVolumeClaim in version "v1"',
    ),
    "a kind that is misspelt": (
        made("v1", "Pood", "x"),
        'document 2: Pood "shop/x": no matches for kind "Pood" in version "v1"',
    ),
    "a request": (made("v1", "Binding", "x"), "a Binding is a request and cannot be stored"),
    "no metadata": ({"apiVersion": "v1", "kind": "Pod"}, "document 2: Pod: metadata: Required value"),
    "a status that is refused": (
        made(
            "policy/v1",
            "PodDisruptionBudget",
            "bad",
            spec={"minAvailable": 1, "selector": {}},
            status={"disruptionsAllowed": -1, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        ),
        'in.yaml: document 2: PodDisruptionBudget "shop/bad": status.disruptionsAllowed: Invalid value: -1',
    ),
    "labels of a node that are a list": (
        made("v1", "Node", "bad", "", metadata={"labels": ["a"]}),
        'in.yaml: document 2: Node "bad": Node in version "v1" cannot be handled as a Node: ',
    ),
    "a node without a name": (
        {"apiVersion": "v1", "kind": "Node", "metadata": {}},
        'in.yaml: document 2: Node "": metadata.name: Required value',
    ),
    "twice": (NODE, 'document 2: Node "n1": appears twice in the input; first in in.yaml: document 1'),
    "owners that are no list": (
        _changed(lambda pod: pod["metadata"].update(ownerReferences="me")),
        'in.yaml: document 2: Pod "shop/bad": Pod in version "v1" cannot be handled as a Pod: ',
    ),
}


def test_pods_of_any_shape_are_no_template() -> None:
    """What a light owner is given its template of is checked like the rest: the pod is at fault, and named."""
    for volumes in (7, [{"name": "v", "persistentVolumeClaim": {"claimName": {}}}]):
        pod = copy.deepcopy(OF_STATEFUL[0])
        pod["spec"]["volumes"] = volumes
        light = made("apps/v1", "StatefulSet", "db", metadata={"uid": "old-db"}, spec=LIGHT)
        with pytest.raises(InputError, match="cannot be handled as"):
            load(plane(), pod, light)


@pytest.mark.parametrize("what", BAD)
def test_bad_object_is_named_and_nothing_is_loaded(what: str) -> None:
    """whatif.md 12.1."""
    server = plane()
    before = everything(server)
    bad, told = BAD[what]
    with pytest.raises(InputError) as raised:
        load(server, NODE, bad, made("v1", "ConfigMap", "after"))
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    server.store.flush()
    assert everything(server) == before


@pytest.mark.parametrize("what", BAD)
def test_bad_object_may_be_left_out_and_is_named(what: str) -> None:
    """whatif.md 12.1: the rest is there as if it had not been in the input."""
    bad, told = BAD[what]
    server, without = plane(), plane()
    report = load(server, NODE, bad, made("v1", "ConfigMap", "after"), lenient=True)
    assert [told in line for line in report.left_out] == [True], report.left_out
    assert report.made == load(without, NODE, made("v1", "ConfigMap", "after")).made
    assert everything(server) == everything(without)


def test_dependents_of_a_refused_object_are_left_out_with_it() -> None:
    """whatif.md 12.1: objects that name a refused class; pods of an owner that is left out lose it, and stay."""
    server = plane()
    refused = made("scheduling.k8s.io/v1", "PriorityClass", "dear", "", value=2_000_000_000)
    asking = _changed(lambda pod: pod["spec"].update(priorityClassName="dear"))
    broken = made("apps/v1", "ReplicaSet", "web", metadata={"uid": "old-rs"}, spec={"replicas": "two"})
    owned = running("web-1", owner("apps/v1", "ReplicaSet", "web", "old-rs"), {"app": "web"})
    report = load(server, NODE, asking, refused, broken, owned, lenient=True)
    assert [line.split(": ")[2] for line in report.left_out] == [
        'Pod "shop/bad"',
        'PriorityClass "dear"',
        'ReplicaSet "shop/web"',
    ]
    assert report.orphaned == 1
    settled(server)
    assert list(all_of(server, "v1", "Pod")) == ["web-1"]


def test_everything_of_a_namespace_that_cannot_be_is_left_out() -> None:
    server = plane()
    spaced = [made("v1", "ConfigMap", name, "No_Namespace") for name in ("a", "b")]
    report = load(server, *spaced, made("v1", "ConfigMap", "c"), lenient=True)
    assert len(report.left_out) == 2
    assert list(all_of(server, "v1", "ConfigMap")) == ["c"]


def test_definitions_are_made_again_with_what_is_left() -> None:
    server = plane()
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    size = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": size}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = made("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com", "", spec=spec)
    broken = made("example.com/v1", "Thing", "broken", spec={"size": "large"})
    good = made("example.com/v1", "Thing", "good", spec={"size": 1})
    report = load(server, definition, broken, good, lenient=True)
    assert ["spec.size" in line for line in report.left_out] == [True]
    assert list(all_of(server, "example.com/v1", "Thing")) == ["good"]


# -- one object ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", ["name", "namespace", "uid", "generateName", "creationTimestamp", "deletionTimestamp"]
)
def test_metadata_that_is_read_before_decoding_holds_texts(field: str) -> None:
    bad = made("v1", "ConfigMap", "m", metadata={field: ["x"]})
    with pytest.raises(InputError, match=rf"document 1: metadata\.{field}: Invalid value: must be a string"):
        load(plane(), bad)
    load(plane(), made("v1", "ConfigMap", "m", metadata={field: None, "name": "m"}))


def test_several_refused_objects_are_left_out_in_the_order_of_the_input() -> None:
    server = plane()
    bad = [
        _changed(lambda pod: pod["spec"].update(containers=7)),
        _changed(lambda pod: pod["metadata"].update(name="B")),
    ]
    later = made("v1", "ConfigMap", "good")
    report = load(server, NODE, bad[1], later, bad[0], lenient=True)
    assert [line.split(": ")[1] for line in report.left_out] == ["document 2", "document 4"]
    assert report.made == 3
    assert set(all_of(server, "v1", "ConfigMap")) == {"good"}
    with pytest.raises(InputError, match="document 2"):
        load(plane(), NODE, bad[1], later, bad[0])
