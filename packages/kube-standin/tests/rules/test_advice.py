"""What a kube-apiserver 1.36.2 warns of in pods that it accepts: every row was sent to one."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.advice import warnings_about
from tests.recorded.shapes import pod, shape, stored

Json = dict[str, Any]
NOTHING = "a null labelSelector results in matching no pod"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}


def _using(amount: Json) -> Json:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": amount}}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"topologySpreadConstraints": [SPREAD]},
                     [f"spec.topologySpreadConstraints[0].labelSelector: {NOTHING}"], id="spread"),
        pytest.param({"topologySpreadConstraints": [{**SPREAD, "labelSelector": {"matchLabels": {"a": "b"}}}]}, [],
                     id="spread of some"),
        pytest.param({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "z"}]}}},
                     [f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector: {NOTHING}"], id="anti-affinity"),
        pytest.param(_using({"memory": "100m"}),
                     ['spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, '
                      "must be an integer"], id="a tenth of a byte"),
        pytest.param(_using({"memory": "100M", "cpu": "100m"}), [], id="megabytes"),
    ],
)  # fmt: skip
def test_warnings_about_a_pod(spec: Json, expected: list[str]) -> None:
    """Warnings of `kube_rules/pod`; the pod is taken all the same."""
    assert warnings_about(shape("v1", "Pod"), stored(pod(**spec))) == expected
