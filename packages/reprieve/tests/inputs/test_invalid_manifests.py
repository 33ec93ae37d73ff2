"""Manifests that an API server refuses are refused with its message (whatif.md 1.12)."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
import yaml

from kube_rules.errors import InputError
from kube_rules.manifests import Manifests
from reprieve.inputs.loader import read
from reprieve.simulation.scenario import read_scenarios
from reprieve.simulation.workloads.table import TABLE

Json = dict[str, Any]
TEMPLATE: Json = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
ENDING = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "web"}}
FORMS = ["plain", "json", "yaml"]


def manifest(version: str, kind: str, spec: Json | None = None, **fields: Any) -> Json:
    whole: Json = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}
    return whole if spec is None else {**whole, "spec": spec}


def loaded(whole: Json, form: str = "plain") -> Manifests:
    texts = {"json": lambda: msgspec.json.encode(whole).decode(), "yaml": lambda: yaml.safe_dump(whole)}
    return read([("input", texts[form]() if form in texts else whole)], complete=False)


WRONG: dict[str, tuple[Json, str, str]] = {
    "selector of a Deployment": (
        manifest("apps/v1", "Deployment", {"selector": {"matchLabels": {"app": "other"}}, "template": TEMPLATE}),
        "spec.template.metadata.labels",
        "does not match template",
    ),
    "negative replicas": (
        manifest("apps/v1", "StatefulSet", {"replicas": -1, "selector": SELECTOR, "template": TEMPLATE}),
        "spec.replicas",
        "must be greater than or equal to 0",
    ),
    "operator of a toleration in a template": (
        manifest(
            "apps/v1",
            "DaemonSet",
            {
                "selector": SELECTOR,
                "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "tolerations": [{"operator": "Like"}]}},
            },
        ),
        "spec.template.spec.tolerations[0].operator",
        "operator must be Exists when `key` is empty",
    ),
    "mode of a Job": (
        manifest("batch/v1", "Job", {"completionMode": "Odd", "template": ENDING}),
        "spec.completionMode",
        "Unsupported value",
    ),
    "schedule of a CronJob": (
        manifest("batch/v1", "CronJob", {"schedule": "never", "jobTemplate": {"spec": {"template": ENDING}}}),
        "spec.schedule",
        "Invalid value",
    ),
    "type of a field that a plan does not read": (
        manifest("apps/v1", "Deployment", {"paused": "yes", "selector": SELECTOR, "template": TEMPLATE}),
        "spec.paused",
        "cannot unmarshal string",
    ),
    "mode of a claim": (
        manifest(
            "v1", "PersistentVolumeClaim", {"accessModes": ["Foo"], "resources": {"requests": {"storage": "1Gi"}}}
        ),
        "spec.accessModes",
        "Unsupported value",
    ),
    "two sources of a volume": (
        manifest(
            "v1",
            "PersistentVolume",
            {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/a"},
                "nfs": {"path": "/a", "server": "s"},
            },
        ),
        "spec.nfs",
        "may not specify more than 1 volume type",
    ),
    "binding mode of a storage class": (
        manifest("storage.k8s.io/v1", "StorageClass", provisioner="a.example/b", volumeBindingMode="Later"),
        "volumeBindingMode",
        "Unsupported value",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("whole", "path", "message"), WRONG.values(), ids=WRONG)
def test_manifest_that_an_api_server_refuses_is_an_error(whole: Json, path: str, message: str, form: str) -> None:
    """whatif.md 1.12."""
    with pytest.raises(InputError) as caught:
        loaded(whole, form)
    assert caught.value.path == path
    assert message in caught.value.message
    assert caught.value.subject.startswith(whole["kind"])


@pytest.mark.parametrize(
    "field", [{"uid": "u"}, {"resourceVersion": "7"}, {"creationTimestamp": "2026-01-01T00:00:00Z"}]
)
@pytest.mark.parametrize("form", FORMS)
def test_objects_of_a_cluster_are_not_validated_again(field: Json, form: str) -> None:
    """whatif.md 1.12: a server has accepted them."""
    for whole, _, _ in (WRONG["selector of a Deployment"], WRONG["binding mode of a storage class"]):
        stored = copy.deepcopy(whole)
        stored["metadata"] |= field
        loaded(stored, form)


DRAFTS: dict[str, tuple[Json, str]] = {
    "no selector": (manifest("apps/v1", "Deployment", {"template": TEMPLATE}), "spec.selector: Required value"),
    "no labels": (
        manifest("apps/v1", "ReplicaSet", {"selector": SELECTOR, "template": {"spec": TEMPLATE["spec"]}}),
        "spec.template.metadata.labels",
    ),
    "no policy": (manifest("batch/v1", "Job", {"template": TEMPLATE}), "spec.template.spec.restartPolicy"),
    "no provisioner": (manifest("storage.k8s.io/v1", "StorageClass"), "provisioner: Required value"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("whole", "text"), DRAFTS.values(), ids=DRAFTS)
def test_draft_without_required_fields_is_a_remark(whole: Json, text: str, form: str) -> None:
    """whatif.md 1.12: a plan goes on, a strict one does not."""
    [remark] = loaded(whole, form).remarks
    assert text in remark.message
    assert remark.strict


@pytest.mark.parametrize(
    "whole",
    [
        manifest("apps/v1", "Deployment", {"selector": SELECTOR, "template": TEMPLATE}),
        manifest("apps/v1", "Deployment", {"selector": {"matchLabels": {"app": "other"}}}),
        manifest("batch/v1", "Job", {"template": ENDING}),
        manifest("v1", "ReplicationController", {"template": TEMPLATE}),
        manifest("example.com/v1", "Job", {"completionMode": "Odd"}),
        manifest("v1", "ConfigMap", data={"a": 5}),
        manifest("v1", "PersistentVolume", {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}),
    ],
    ids=[
        "without an image",
        "light, without a template",
        "Job",
        "default selector",
        "another group",
        "not read",
        "volume",
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_manifest_that_is_accepted_or_not_read_has_no_remark(whole: Json, form: str) -> None:
    assert loaded(whole, form).remarks == []


@pytest.mark.parametrize(("whole", "path", "message"), WRONG.values(), ids=WRONG)
def test_step_that_creates_what_an_api_server_refuses_is_an_error(whole: Json, path: str, message: str) -> None:
    """whatif.md 1.12: in a Scenario as in a file."""
    scenario = manifest("reprieve.dev/v1alpha1", "Scenario", {"steps": [{"create": [whole]}]})
    with pytest.raises(InputError) as caught:
        read_scenarios(loaded(scenario), TABLE)
    assert caught.value.path == f"spec.steps[0].create[0].{path}"
    assert message in caught.value.message
