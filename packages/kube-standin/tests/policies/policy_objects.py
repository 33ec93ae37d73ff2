"""Policies, bindings and objects for tests of admission policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.server.inprocess import Answer, Plane

Json = dict[str, Any]
API = "/apis/admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = f"{API}/validatingadmissionpolicies", f"{API}/mutatingadmissionpolicies"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


def rule(resources: str, operations: str = "CREATE UPDATE", groups: str = "*", **more: Any) -> Json:
    """A rule for some resources."""
    return {
        "apiGroups": groups.split(","),
        "apiVersions": ["*"],
        "operations": operations.split(),
        "resources": resources.split(),
        **more,
    }


def policy(name: str, *rules: Json, match: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    """A policy that matches by rules."""
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": list(rules), **(match or {})}, **spec},
    }


def binding(name: str, policy_name: str, *actions: str, **spec: Any) -> Json:
    """A binding; of a validating policy it has actions."""
    more = {"validationActions": list(actions)} if actions else {}
    return {"metadata": {"name": name}, "spec": {"policyName": policy_name, **more, **spec}}


def created(plane: Plane, path: str, body: Json) -> Json:
    """Create an object and return it."""
    return plane.create(path, body)


def validate(plane: Plane, name: str, *rules: Json, actions: str = "Deny", bound: Any = None, **spec: Any) -> None:
    """Create a validating policy with one binding of the same name."""
    created(plane, VALIDATING, policy(name, *rules, **spec))
    created(plane, f"{API}/validatingadmissionpolicybindings", binding(name, name, *actions.split(), **(bound or {})))


def mutate(plane: Plane, name: str, *rules: Json, bound: Any = None, **spec: Any) -> None:
    """Create a mutating policy with one binding of the same name."""
    spec = {"reinvocationPolicy": "Never", **spec}
    created(plane, MUTATING, policy(name, *rules, **spec))
    created(plane, f"{API}/mutatingadmissionpolicybindings", binding(name, name, **(bound or {})))


def check(expression: str, **more: Any) -> list[Json]:
    """Validations of one expression."""
    return [{"expression": expression, **more}]


def config_map(name: str, **data: str) -> Json:
    """A ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


def deployment(name: str, replicas: int = 1, **pod: Any) -> Json:
    """A Deployment of pods of one container."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}], **pod},
    }
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


def warnings(answer: Answer) -> list[str]:
    """The warnings of an answer."""
    return [value for key, value in answer.headers if key == "warning"]
