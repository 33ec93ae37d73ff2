"""Reading protobuf bodies: what kubectl 1.33 sent, and messages made by hand from the published field
numbers.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.schema import nodes
from kube_standin import protobuf
from kube_standin.protobuf import UnsupportedProtobuf, decode, wire
from kube_standin.protobuf.wire import encode_bytes as b
from kube_standin.protobuf.wire import encode_number as n
from kube_standin.schema import schema_for

Json = dict[str, Any]
SENT: dict[str, Json] = json.loads((Path(__file__).parent / "sent_by_kubectl.json").read_text())


@pytest.mark.parametrize("name", SENT)
def test_bodies_of_kubectl(name: str) -> None:
    one = SENT[name]
    obj = decode(bytes.fromhex(one["body"]))
    cleaned, unknown, problems = schema_for(obj["apiVersion"], obj["kind"]).check(obj, collect_unknown=True)
    assert (unknown, problems) == ([], [])
    assert {key: value for key, value in cleaned.items() if key != "status"} == one["object"]


def body(api_version: str, kind: str, message: bytes) -> bytes:
    return b"k8s\x00" + b(1, b(1, api_version) + b(2, kind)) + b(2, message)


def time(seconds: int, nanos: int = 0) -> bytes:
    return n(1, seconds) + (n(2, nanos) if nanos else b"")


def quantity(text: str) -> bytes:
    return b(1, text)


POD = b(
    2,
    b(2, b(1, "c") + b(2, "i") + b(8, b(2, b(1, "cpu") + b(2, quantity("100m")))))
    + b(1, b(1, "v") + b(2, b(1, b(1, "/x"))))
    + b(1, b(1, "e") + b(2, b(2, b"")))
    + n(25, -5)
    + n(21, 0)
    + b(10, "")
    + b(43, b(1, "group")),
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            body("v1", "Pod", b(1, b(1, "p") + b(2, "") + b(8, b"") + b(11, b(1, "a") + b(2, "b"))) + POD + b(3, b"")),
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
                    "volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "e", "emptyDir": {}}],
                    "priority": -5,
                    "automountServiceAccountToken": False,
                    "schedulingGroup": {"podGroupName": "group"},
                },
                "status": {},
            },
        ),
        (
            body("coordination.k8s.io/v1", "Lease", b(2, b(1, "") + n(2, 15) + b(4, time(1767225600, 5000)) + n(5, 0))),
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "spec": {
                    "holderIdentity": "",
                    "leaseDurationSeconds": 15,
                    "renewTime": "2026-01-01T00:00:00.000005Z",
                    "leaseTransitions": 0,
                },
            },
        ),
        (
            body(
                "events.k8s.io/v1",
                "Event",
                b(2, time(1767225600)) + b(3, n(1, 2) + b(2, time(1767225601))) + b(7, "R") + b(10, "note") + n(15, 0),
            ),
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
                "reason": "R",
                "note": "note",
            },
        ),
        (
            body("v1", "Binding", b(1, b(1, "p")) + b(2, b(1, "Node") + b(3, "n1"))),
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "p"},
                "target": {"kind": "Node", "name": "n1"},
            },
        ),
        (
            body("policy/v1", "PodDisruptionBudget", b(2, b(1, n(1, 1) + b(3, "30%")) + b(3, n(1, 0) + n(2, 0)))),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "spec": {"minAvailable": "30%", "maxUnavailable": 0},
            },
        ),
        (
            body(
                "authorization.k8s.io/v1",
                "SubjectAccessReview",
                b(2, b(3, "u") + b(4, "g") + b(4, "h") + b(5, b(1, "k") + b(2, b(1, "x") + b(1, "y")))),
            ),
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": "u", "groups": ["g", "h"], "extra": {"k": ["x", "y"]}},
            },
        ),
        (
            body("v1", "Secret", b(2, b(1, "k") + b(2, b"\x00\xff"))),
            {"apiVersion": "v1", "kind": "Secret", "data": {"k": "AP8="}},
        ),
        (
            body("scheduling.k8s.io/v1alpha2", "PodGroup", b(2, b(2, b(2, n(1, 4))) + b(5, "PodGroup"))),
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup"},
            },
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_messages_made_by_hand(raw: bytes, expected: Json) -> None:
    assert decode(raw) == expected


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "does not begin with"),
        (b'{"kind":"Pod"}', "does not begin with"),
        (b"k8s\x00", "names no apiVersion and kind"),
        (body("v9", "Pod", b""), "not supported for v9 Pod"),
        (body("v1", "Pod", b"\x0a\xff"), "ends inside"),
        (body("v1", "Pod", b(1, n(1, 5))), "number where string stands"),
        (body("v1", "Pod", b(1, b(1, b"\xff"))), "not UTF-8"),
        (body("v1", "Pod", b"\x07"), "wire type"),
        (body("v1", "ConfigMap", n(2, 1)), "map entry"),
        (b"k8s\x00" + b(1, b(1, "v1") + b(2, "Pod")) + b(3, "gzip"), "content encoding"),
        (body("v1", "Event", b(6, time(2**62))), "Kubernetes protobuf"),
    ],
)
def test_bytes_that_cannot_be_read_are_reported(raw: bytes, said: str) -> None:
    with pytest.raises(UnsupportedProtobuf, match=said):
        decode(raw)


def test_depth_is_bounded() -> None:
    inner = b""
    for _ in range(300):
        inner = b(1, b(2, inner))
    with pytest.raises(UnsupportedProtobuf):
        decode(body("apps/v1", "Deployment", b(2, b(3, b(2, b(18, inner))))) + b"\xff")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for data in (raw, body("v1", "Pod", raw), body("v1", "Node", raw)):
        with contextlib.suppress(UnsupportedProtobuf):
            assert decode(data)["kind"]


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_come_back(value: int) -> None:
    ((number, kind, raw),) = wire.fields(n(7, value))
    assert isinstance(raw, int)
    assert (number, kind, wire.signed(raw)) == (7, wire.VARINT, value)


def test_every_line_of_field_numbers_fits_its_type() -> None:
    for name in protobuf._numbers():
        node = nodes.named(name)
        found = _names(protobuf.slots_of(node))
        assert len(found) == len(set(found))
        assert set(found) <= set(node.fields)


def _names(table: dict[int, Any]) -> list[str]:
    return [name for slot in table.values() for name in (_names(slot.inner) if slot.inner is not None else [slot.name])]
