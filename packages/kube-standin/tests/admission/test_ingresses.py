"""The default class of a new Ingress (interfaces.md 4.11)."""

from __future__ import annotations

import pytest

from tests.admission.plane import Json, Plane, SetClock

NETWORKING = "networking.k8s.io/v1"


def ingress(plane: Plane, name: str, **spec: str) -> Json:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    metadata: Json = {"name": name}
    if "annotation" in spec:
        metadata["annotations"] = {"kubernetes.io/ingress.class": spec.pop("annotation")}
    manifest = {"apiVersion": NETWORKING, "kind": "Ingress", "metadata": metadata}
    made: Json = plane.create({**manifest, "spec": {"defaultBackend": backend, **spec}})["spec"]
    return made


def ingress_class(plane: Plane, name: str, default: str | None) -> None:
    annotations = {} if default is None else {"ingressclass.kubernetes.io/is-default-class": default}
    metadata = {"name": name, "annotations": annotations}
    manifest = {"apiVersion": NETWORKING, "kind": "IngressClass", "metadata": metadata}
    plane.create({**manifest, "spec": {"controller": "example.com/c"}})


@pytest.mark.parametrize("default", [None, "false", ""])
def test_class_that_is_no_default(default: str | None) -> None:
    plane = Plane()
    ingress_class(plane, "a", default)
    assert "ingressClassName" not in ingress(plane, "i")


def test_newest_default_is_chosen_then_the_first_by_name() -> None:
    clock = SetClock()
    plane = Plane(clock=clock)
    ingress_class(plane, "a", "true")
    assert ingress(plane, "i")["ingressClassName"] == "a"
    clock.forward(1)
    ingress_class(plane, "c", "true")
    ingress_class(plane, "b", "true")
    assert ingress(plane, "j")["ingressClassName"] == "b"


def test_ingress_that_names_its_class_keeps_it() -> None:
    plane = Plane()
    ingress_class(plane, "a", "true")
    assert ingress(plane, "i", ingressClassName="other")["ingressClassName"] == "other"
    assert "ingressClassName" not in ingress(plane, "j", annotation="other")
