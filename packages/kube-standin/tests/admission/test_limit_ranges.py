"""LimitRanges: defaults and bounds of pods and claims."""

from typing import Any

import pytest

from tests.admission.plane import Plane, pod, refused

Json = dict[str, Any]


def limit_range(**item: Any) -> Json:
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "lr"}, "spec": spec}


def test_limit_range_fills_in_defaults(plane: Plane) -> None:
    plane.create(limit_range(defaultRequest={"memory": "64Mi"}, default={"memory": "128Mi"}, max={"memory": "1Gi"}))
    made = plane.create(pod("lrp"))  # 551
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "128Mi"},
        "requests": {"cpu": "100m", "memory": "64Mi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: memory request for container c; memory limit for container c"
    )


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},  # 552
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"min": {"cpu": "200m"}},
            {"requests": {"cpu": "100m"}},
            "minimum cpu usage per Container is 200m, but request is 100m",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"requests": {"memory": "2"}},
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
    ],
)
def test_limit_range_bounds(plane: Plane, item: Json, resources: Json, why: str) -> None:
    plane.create(limit_range(**item))
    error = refused(plane, pod("lrq", containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert error.message == f'pods "lrq" is forbidden: {why}'


@pytest.mark.parametrize(
    ("item", "resources"),
    [
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
    ],
)
def test_limit_range_bounds_are_inclusive(plane: Plane, item: Json, resources: Json) -> None:
    """LimitRanger of 1.36 compares with greater and less, never with equal."""
    plane.create(limit_range(**item))
    plane.create(pod("lrq", containers=[{"name": "c", "image": "i", "resources": resources}]))


@pytest.mark.parametrize(
    ("spec", "bounds", "why"),
    [
        ({"resources": {"requests": {"storage": "1Gi"}}}, {"min": {"storage": "2Gi"}},
         "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ({"resources": {"requests": {"storage": "3Gi"}}}, {"max": {"storage": "2Gi"}},
         "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ({"resources": {"requests": {"storage": "2Gi"}}}, {"min": {"storage": "2Gi"}, "max": {"storage": "2Gi"}}, ""),
    ],
)  # fmt: skip
def test_limit_range_bounds_claims(plane: Plane, spec: Json, bounds: Json, why: str) -> None:
    """LimitRanger of 1.36 (PersistentVolumeClaimValidateLimitFunc): bounds are inclusive, and of requests alone.

    One that requests no storage does not come so far: validation refuses it before.
    """
    plane.create(limit_range(type="PersistentVolumeClaim", **bounds))
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"], **spec}}  # fmt: skip
    if why:
        error = refused(plane, manifest)
        assert (error.code, error.message) == (403, f'persistentvolumeclaims "c" is forbidden: {why}')
    else:
        plane.create(manifest)
