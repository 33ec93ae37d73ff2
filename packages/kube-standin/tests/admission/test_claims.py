"""Claims that grow (interfaces.md 4.15)."""

from __future__ import annotations

import pytest

from kube_standin.errors import StatusError
from tests.admission.plane import Json, Plane
from tests.controllers.test_volumes import claim, storage_class

CLASS = "storage.k8s.io/v1"
NOT_ALLOWED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def bound(plane: Plane, **spec: str) -> Plane:
    plane.create(claim("c", of=None, volumeName="v", **spec))
    plane.patch("v1", "PersistentVolumeClaim", "c", {"status": {"phase": "Bound"}}, "status")
    return plane


def sized(plane: Plane, size: str) -> Json:
    change = {"spec": {"resources": {"requests": {"storage": size}}}}
    return plane.patch("v1", "PersistentVolumeClaim", "c", change)


@pytest.mark.parametrize("classed", [{}, {"storageClassName": ""}, {"storageClassName": "fixed"},
                                     {"storageClassName": "missing"}])  # fmt: skip
def test_claim_grows_only_where_its_class_allows_it(plane: Plane, classed: dict[str, str]) -> None:
    plane.create(storage_class("fixed"))
    bound(plane, **classed)
    with pytest.raises(StatusError) as caught:
        sized(plane, "2Gi")
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message == f'persistentvolumeclaims "c" is forbidden: {NOT_ALLOWED}'
    assert sized(plane, "1024Mi")["spec"]["resources"]["requests"]["storage"] == "1Gi", "the same size"


def test_class_that_allows_it(plane: Plane) -> None:
    plane.create(storage_class("grows", allowVolumeExpansion=True))
    bound(plane, storageClassName="grows")
    assert sized(plane, "2Gi")["spec"]["resources"]["requests"]["storage"] == "2Gi"


def test_claim_that_is_not_bound_does_not_grow(plane: Plane) -> None:
    plane.create(storage_class("grows", allowVolumeExpansion=True))
    plane.create(claim("c", of="grows", volumeName="v"))
    with pytest.raises(StatusError) as caught:
        sized(plane, "2Gi")
    assert caught.value.code == 403
    assert "Only bound persistent volume claims can be expanded" in caught.value.message


def test_size_is_checked_after_the_rules_of_a_claim(plane: Plane) -> None:
    """Shrinking is a matter of validation (422)."""
    bound(plane)
    with pytest.raises(StatusError) as caught:
        sized(plane, "1Mi")
    assert caught.value.code == 422
