"""Services that differ from a valid one in names and selectors are not checked by all rules again."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.validation import manifests
from kube_rules.validation.manifests import ManifestErrors, errors_of_manifest

Json = dict[str, Any]


def service(name: str = "web", *, selector: Any = None, **more: Any) -> Json:
    """A Service of one port."""
    spec = {"selector": {"app": "web"} if selector is None else selector, "ports": [{"port": 80}], **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def labelled(labels: Json, **more: Any) -> Json:
    """A Service with labels and more metadata."""
    return {**service(), "metadata": {"name": "web", "namespace": "team", "labels": labels, **more}}


def errors(manifest: Json) -> ManifestErrors:
    """What an API server says of it."""
    return errors_of_manifest("v1", "Service", manifest, namespaced=True)


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (service("Web"), "metadata.name"),
        (service(""), "metadata.name"),
        (service("1st", selector={"app": "a b"}), "spec.selector"),
        (service(selector={"a b": "web"}), "spec.selector"),
        (service(selector={"app": 1}), "spec.selector"),
        (service(ports=[{"port": 0}]), "spec.ports[0].port"),
        (service(ports=[{"port": "80"}]), "spec.ports[0].port"),
        (service(sessionAffinity="Never"), "spec.sessionAffinity"),
        (labelled({"a b": "c"}), "metadata.labels"),
        (labelled({"a": "b c"}), "metadata.labels"),
        (labelled({"a": 1}), "metadata.labels"),
        (labelled({"a": "b"}, annotations={"a b": "c"}), "metadata.annotations"),
        (labelled({"a": "b"}, finalizers=["a b"]), "metadata.finalizers"),
        ({**service(), "spec": {"selector": {"app": "web"}}}, "spec.ports"),
    ],
)
def test_service_that_is_like_a_valid_one_is_refused_for_what_it_breaks(found: Json, path: str) -> None:
    """whatif.md 2.9: a Service is checked by an API server's rules, also when many valid ones came before."""
    for turn in range(3):
        assert errors(service(f"valid-{turn}", selector={"app": f"app-{turn}"})) == ManifestErrors([], [])
    wrong = [*errors(found).missing, *errors(found).wrong]
    assert wrong[0].path.startswith(path)
    assert errors(service()) == ManifestErrors([], [])
    assert [*errors(found).missing, *errors(found).wrong] == wrong


def test_services_that_differ_in_names_and_labels_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those with a map of annotations that is empty, as programs write it."""
    checked = []
    rules = manifests._errors_of_rules

    def noted(*args: Any, **more: Any) -> ManifestErrors:
        checked.append(args)
        return rules(*args, **more)

    monkeypatch.setattr(manifests, "_errors_of_rules", noted)
    monkeypatch.setattr(manifests, "_valid_services", set())
    for turn in range(3):
        assert errors(labelled({"app": f"app-{turn}"}, annotations={})) == ManifestErrors([], [])
    assert len(checked) == 1
