"""Fields of requests for devices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.test_fields import Json, found, of, requests


def exactly(name: str = "a", **more: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "c", **more}}


D = "spec.devices.requests"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (requests(exactly()), []),
        (requests(exactly(count=1)), []),
        (requests(exactly(allocationMode="ExactCount", count=-1)), [f"Invalid {D}[0].exactly.count"]),
        (requests(exactly(allocationMode="All")), []),
        (requests(exactly(allocationMode="All", count=1)), [f"Invalid {D}[0].exactly.count"]),
        (requests(exactly(allocationMode="Some")), [f"NotSupported {D}[0].exactly.allocationMode"]),
        (requests(exactly(deviceClassName="")), [f"Required {D}[0].exactly.deviceClassName"]),
        (requests(exactly(deviceClassName="A!")), [f"Invalid {D}[0].exactly.deviceClassName"]),
        (requests(exactly("A")), [f"Invalid {D}[0].name"]),
        (requests({"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]}), []),
        (requests({**exactly(), "firstAvailable": [{"name": "x", "deviceClassName": "c"}]}), [f"Invalid {D}[0]"]),
        (requests({"name": "a", "firstAvailable": []}), [f"Required {D}[0]"]),
        (requests(*(exactly(f"a{n}") for n in range(32))), []),
        (requests(*(exactly(f"a{n}") for n in range(33))), [f"TooMany {D}"]),
        (of("resource.k8s.io/v1", "ResourceSlice", spec={
            "driver": "D!", "nodeName": "n", "pool": {"name": "", "resourceSliceCount": 1},
            "devices": [{"name": "a"}, {"name": "a"}, {"name": ""}, {"name": ""}]}),
         ["Invalid spec.driver", "Required spec.pool.name", "Duplicate spec.devices[1]",
          "Required spec.devices[2].name", "Required spec.devices[3].name"]),
    ],
)  # fmt: skip
def test_devices(body: Json, expected: list[str]) -> None:
    """pkg/apis/resource/validation."""
    assert found(body) == expected
