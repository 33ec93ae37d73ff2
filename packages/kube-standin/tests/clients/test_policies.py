"""Policies written with the official Python client, against a real server process (interfaces.md 6.10 to 6.14)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.clients.cluster import client, eventually, running

API = "admissionregistration.k8s.io/v1"
REPLICAS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: replicas
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= int(params.data.most)
    messageExpression: "'at most ' + params.data.most + ' replicas'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: replicas
spec:
  policyName: replicas
  paramRef: {name: limits, parameterNotFoundAction: Deny}
  validationActions: [Deny]
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a server with controllers."""
    with running(tmp_path_factory.mktemp("cluster")) as started:
        yield started.api()


def _deployment(name: str, replicas: int) -> Any:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_policy_limits_replicas_by_its_parameter(api: Any) -> None:
    policies, apps = client.AdmissionregistrationV1Api(api), client.AppsV1Api(api)
    policy, binding = yaml.safe_load_all(REPLICAS)
    policies.create_validating_admission_policy(policy)
    policies.create_validating_admission_policy_binding(binding)
    eventually(lambda: policies.read_validating_admission_policy("replicas").status.type_checking, "type checking")
    with pytest.raises(client.ApiException) as error:
        apps.create_namespaced_deployment("default", _deployment("early", 1))
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in str(error.value.body)
    limits = {"metadata": {"name": "limits"}, "data": {"most": "3"}}
    client.CoreV1Api(api).create_namespaced_config_map("default", limits)
    with pytest.raises(client.ApiException) as error:
        apps.create_namespaced_deployment("default", _deployment("web", 5))
    assert error.value.status == 422
    assert "denied request: at most 3 replicas" in str(error.value.body)
    apps.create_namespaced_deployment("default", _deployment("web", 3))


def test_pods_of_controllers_are_changed_and_held_to_policies(api: Any) -> None:
    """What a ReplicaSet makes is admitted as what a client makes."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    match = {"resourceRules": [rule], "objectSelector": {"matchLabels": {"app": "labelled"}}}
    expression = "Object{metadata: Object.metadata{labels: {'team': 'blue'}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    body = {
        "apiVersion": API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "team"},
        "spec": {"matchConstraints": match, "mutations": [mutation], "reinvocationPolicy": "Never"},
    }
    policies = client.AdmissionregistrationV1Api(api)
    policies.create_mutating_admission_policy(body)
    bound = {"apiVersion": API, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "team"}}
    policies.create_mutating_admission_policy_binding({**bound, "spec": {"policyName": "team"}})
    client.AppsV1Api(api).create_namespaced_deployment("default", _deployment("labelled", 2))

    def labelled() -> bool:
        pods = client.CoreV1Api(api).list_namespaced_pod("default", label_selector="app=labelled,team=blue")
        return len(pods.items) == 2

    eventually(labelled, "two labelled pods")
