"""Unknown and misspelt fields of everything that is read: named with file, line, path and the nearest known name."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
import yaml

from kube_rules.errors import InputError
from kube_rules.manifests import Manifests
from kube_rules.schema.packed_schemas import PackedSchemas
from kube_rules.unknown_fields import UnknownField, nearest
from reprieve.inputs.loader import load, read

SCHEMAS = PackedSchemas()
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c"}]},
}


def found_in(*documents: str | dict[str, Any], name: str = "a.yaml") -> list[UnknownField]:
    given = [(name, document) for document in documents]
    return read(given, complete=False, schemas=SCHEMAS).unknown_fields


def changed(path: tuple[str | int, ...], value: Any, base: dict[str, Any] = POD) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(base))
    at: Any = made
    for step in path[:-1]:
        at = at[step] if isinstance(step, int) else at.setdefault(step, {})
    at[path[-1]] = value
    return made


GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {}}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
}
COSCHEDULING = {**GROUP, "apiVersion": "scheduling.x-k8s.io/v1alpha1", "spec": {"minMember": 3}}

MISSPELT: list[tuple[dict[str, Any], tuple[str | int, ...], str, str]] = [
    (POD, ("spec", "schedulingGroups"), "spec.schedulingGroups", "schedulingGroup"),
    (POD, ("spec", "nodeSelectr"), "spec.nodeSelectr", "nodeSelector"),
    (POD, ("spec", "nodename"), "spec.nodename", "nodeName"),
    (POD, ("spec", "priorityClasName"), "spec.priorityClasName", "priorityClassName"),
    (DEPLOYMENT, ("spec", "template", "spec", "workloadRef"), "spec.template.spec.workloadRef", "schedulingGroup"),
    (
        POD,
        ("spec", "containers", 0, "resources", "request"),
        "spec.containers[0].resources.request",
        "requests",
    ),
    (POD, ("spec", "containers", 0, "requests"), "spec.containers[0].requests", "resources.requests"),
    (POD, ("metadata", "label"), "metadata.label", "labels"),
    (POD, ("specs",), "specs", "spec"),
    (POD, ("spec", "qqqq"), "spec.qqqq", ""),
    (GROUP, ("spec", "disruptonMode"), "spec.disruptonMode", "disruptionMode"),
    (GROUP, ("spec", "schedulingPolicy", "gang", "minCounts"), "spec.schedulingPolicy.gang.minCounts", "minCount"),
    (GROUP, ("spec", "minMember"), "spec.minMember", ""),
    ({**GROUP, "apiVersion": "scheduling.reprieve.dev/v1beta1"}, ("spec", "priorty"), "spec.priorty", "priority"),
    (COSCHEDULING, ("spec", "minMembers"), "spec.minMembers", "minMember"),
    (BUDGET, ("spec", "minAvailible"), "spec.minAvailible", "minAvailable"),
    (DEPLOYMENT, ("spec", "replica"), "spec.replica", "replicas"),
    (DEPLOYMENT, ("spec", "template", "spec", "tolerances"), "spec.template.spec.tolerances", "tolerations"),
]


@pytest.mark.parametrize("as_text", ["plain", "json", "yaml"])
@pytest.mark.parametrize(("base", "path", "written", "meant"), MISSPELT, ids=[case[2] for case in MISSPELT])
def test_misspelt_field_is_named_with_the_nearest_known_one(
    base: dict[str, Any], path: tuple[str | int, ...], written: str, meant: str, as_text: str
) -> None:
    manifest = changed(path, {}, base)
    given: Any = {"plain": manifest, "json": json.dumps(manifest), "yaml": yaml.safe_dump(manifest)}[as_text]
    (found,) = found_in(given)
    hint = f', did you mean "{meant}"?' if meant else ""
    assert str(found).endswith(f': {base["kind"]} "{base["metadata"]["name"]}": unknown field "{written}"{hint}')
    assert not found_in(base)


KNOWN_BUT_NOT_READ: list[tuple[dict[str, Any], tuple[str | int, ...], Any]] = [
    (POD, ("spec", "dnsPolicy"), "Default"),
    (POD, ("spec", "containers", 0, "env"), [{"name": "A", "value": "b"}]),
    (POD, ("spec", "containers", 0, "livenessProbe"), {"httpGet": {"port": 80}}),
    (POD, ("metadata", "managedFields"), [{"manager": "x", "fieldsV1": {"f:spec": {"f:whatever": {}}}}]),
    (POD, ("metadata", "creationTimestamp"), None),
    (POD, ("metadata", "annotations"), {"any/thing": "x", "spec.nodeSelectr": "y"}),
    (POD, ("status",), {"hostIP": "1.2.3.4", "qosClass": "Burstable"}),
    (POD, ("status",), None),
    (GROUP, ("spec", "workloadRef"), {"workloadName": "w", "templateName": "t"}),
    (COSCHEDULING, ("status", "phase"), "Running"),
    (DEPLOYMENT, ("spec", "strategy"), {"rollingUpdate": {"maxSurge": 1}}),
]


@pytest.mark.parametrize(
    ("base", "path", "value"), KNOWN_BUT_NOT_READ, ids=[str(case[1]) for case in KNOWN_BUT_NOT_READ]
)
def test_fields_known_and_not_read_are_not_unknown(
    base: dict[str, Any], path: tuple[str | int, ...], value: Any
) -> None:
    manifest = changed(path, value, base)
    assert not found_in(manifest)
    assert not found_in(json.dumps(manifest))


def test_foreign_kinds_have_no_unknown_fields() -> None:
    assert not found_in({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "anything": 1})


YAML_TEXT = """\
# a comment
apiVersion: v1
kind: Namespace
metadata: {name: ns}
---
apiVersion: v1
kind: List
itemz: []
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec:
    containers:
    - name: c
      resources:
        request: {cpu: 1}
- apiVersion: v1
  kind: List
  items:
  - {apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {containers: [{name: c}],
     nodeSelectr: {}}}
---
base: &spec
  containers: [{name: c}]
  hostnam: x
apiVersion: v1
kind: Pod
metadata: {name: r}
spec: *spec
"""


def test_every_finding_has_its_line_in_yaml() -> None:
    found = found_in(YAML_TEXT)
    assert [(each.origin.document, each.origin.line, each.path[-1]) for each in found] == [
        (2, 8, "itemz"),
        (2, 17, "request"),
        (2, 22, "nodeSelectr"),
        (3, 24, "base"),
        (3, 30, "hostnam"),  # it stands in the text where the alias goes
    ]
    assert str(found[1]) == (
        'a.yaml: document 2 (line 17): items[0]: Pod "p": unknown field "spec.containers[0].resources.request", '
        'did you mean "requests"?'
    )


def test_every_finding_has_its_line_in_json() -> None:
    misspelt = changed(("spec", "nodeSelectr"), {})
    text = json.dumps(POD | {"metadata": {"name": "first"}}, indent="\t") + "\n" + json.dumps(misspelt, indent=2)
    (found,) = found_in(text, name="a.json")
    assert found.origin.document == 2
    assert text.splitlines()[(found.origin.line or 0) - 1].strip() == '"nodeSelectr": {}'


def test_items_of_typed_lists_and_manifests_in_a_scenario_are_looked_at() -> None:
    item = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], "hostnam": "x"}}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [item]}
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "s", "labls": {}},
        "spec": {"steps": [{"create": [changed(("spec", "nodeSelectr"), {})]}]},
    }
    for given in (pods, json.dumps(pods)):
        (found,) = found_in(given)
        assert (found.origin.item, found.path) == (0, ("spec", "hostnam"))
    assert [str(each).partition(": ")[2] for each in found_in(scenario)] == [
        'Scenario "s": unknown field "metadata.labls", did you mean "labels"?',
        'Pod "p": unknown field "spec.steps[0].create[0].spec.nodeSelectr", did you mean "nodeSelector"?',
    ]


def test_without_schemas_nothing_is_said() -> None:
    assert not read([("a", changed(("spec", "nodeSelectr"), {}))]).unknown_fields


def test_error_brings_the_unknown_fields_of_its_document_along() -> None:
    """A required field that is missing may be one that was misspelt."""
    broken = changed(("spec", "schedulingPolicy"), {"gang": {"minCounts": 3}}, GROUP)
    other = changed(("metadata", "name"), "other", changed(("spec", "nodeSelectr"), {}))
    with pytest.raises(InputError) as caught:
        load(["-"], stdin=io.BytesIO(yaml.safe_dump_all([other, broken]).encode()), schemas=SCHEMAS)
    (note,) = caught.value.__notes__
    assert 'did you mean "minCount"?' in note


@pytest.mark.parametrize(
    ("name", "meant"),
    [("requets", "requests"), ("NODENAME", "nodeName"), ("x", ""), ("nodeName" * 100, ""), ("", "")],
)
def test_nearest_name(name: str, meant: str) -> None:
    assert nearest(name, ("nodeName", "requests", "limits")) == meant


def test_findings_are_bounded() -> None:
    names = {f"field{number}": 1 for number in range(30_000)}
    before = time.process_time()
    found: Manifests = read(
        [("a.json", json.dumps(POD | {"spec": {"containers": [{"name": "c"}], **names}}))], schemas=SCHEMAS
    )
    assert time.process_time() - before < 10
    assert 1 <= len(found.unknown_fields) <= 10_000


@pytest.mark.timed
def test_looking_costs_little_beside_reading() -> None:
    """A cluster of 150,000 pods has to be read: looking for unknown fields takes microseconds a pod."""
    pods = [POD | {"metadata": {"name": f"p{number}", "labels": {"app": "x"}}} for number in range(6_000)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}).encode()

    def seconds(schemas: PackedSchemas | None) -> float:
        before = time.process_time()
        read([("a.json", text)], schemas=schemas)
        return time.process_time() - before

    seconds(SCHEMAS)  # schemas are compiled once
    without = min(seconds(None) for _ in range(3))
    assert min(seconds(SCHEMAS) for _ in range(3)) < 2 * without + 0.1
