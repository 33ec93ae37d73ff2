"""Values in protobuf messages: what is left out and what is kept, lists, maps, times, numbers, and bounds.

Rules: the published field numbers (`generated.proto`) and the protobuf encoding. A zero that an encoder writes because
it must (gogo proto writes every field that is no pointer) is not there in JSON, where `omitempty` leaves it out.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.schema import nodes
from kube_standin import protobuf
from kube_standin.protobuf import UnsupportedProtobuf, decode, wire
from kube_standin.protobuf.encoder import encode
from kube_standin.protobuf.wire import encode_bytes as b
from kube_standin.protobuf.wire import encode_number as n
from tests.protobuf.test_decode import body, quantity, time

Json = dict[str, Any]


def spec_of_pod(raw: bytes) -> Json:
    found: Json = decode(body("v1", "Pod", b(2, raw)))["spec"]
    return found


def container(raw: bytes) -> Json:
    [found] = spec_of_pod(b(2, b(1, "c") + raw))["containers"]
    assert found.pop("name") == "c"
    only: Json = found
    return only


def claim(raw: bytes) -> Json:
    found: Json = decode(body("v1", "PersistentVolumeClaim", b(2, raw)))["spec"]
    return found


def metadata(raw: bytes) -> Json:
    found: Json = decode(body("v1", "ConfigMap", b(1, raw)))["metadata"]
    return found


# -- unset fields


@pytest.mark.parametrize(
    ("port", "found"),
    [
        (n(2, 0) + n(3, 80), {"containerPort": 80}),
        (n(2, 1) + n(3, 80), {"containerPort": 80, "hostPort": 1}),
        (n(3, 0), {"containerPort": 0}),
        (n(2, 5) + n(2, 0), {}),
        (b(1, "http") + b(1, ""), {}),
    ],
)
def test_zero_is_a_value_or_it_is_not(port: bytes, found: Json) -> None:
    """Required fields keep theirs; of a field that comes twice the last counts, also where that says "not set"."""
    assert container(b(6, port)) == {"ports": [found]}


@pytest.mark.parametrize(
    ("probe", "found"),
    [
        (b"".join(n(number, 0) for number in range(2, 7)), {}),
        (
            b"".join(n(number, number) for number in range(2, 7)) + n(7, 0),
            {
                "initialDelaySeconds": 2,
                "timeoutSeconds": 3,
                "periodSeconds": 4,
                "successThreshold": 5,
                "failureThreshold": 6,
                "terminationGracePeriodSeconds": 0,
            },
        ),
        (b(1, b(1, b(1, "true")) + b(3, b(1, n(2, 80)))), {"exec": {"command": ["true"]}, "tcpSocket": {"port": 80}}),
    ],
)
def test_probes(probe: bytes, found: Json) -> None:
    assert container(b(10, probe)) == {"livenessProbe": found}


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b(3, "") + b(5, "") + b(9, ""), {"storageClassName": "", "volumeAttributesClassName": ""}),
        (b(6, "") + b(3, "v"), {"volumeName": "v"}),
    ],
)
def test_texts_that_may_be_empty(raw: bytes, found: Json) -> None:
    """Those that are pointers in Go: no class is not the same as any class."""
    assert claim(raw) == found


def test_false_is_said() -> None:
    assert spec_of_pod(n(11, 0) + n(21, 1)) == {"hostNetwork": False, "automountServiceAccountToken": True}


# -- lists


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (n(4, 1) + n(4, 300), [1, 300]),
        (b(4, bytes([1, 0xAC, 2])), [1, 300]),
        (n(4, 1) + b(4, bytes([2, 3])) + n(4, 4), [1, 2, 3, 4]),
        (n(4, -1), [-1]),
        (b(4, wire.encode_varint(-2)), [-2]),
        (b(4, b""), []),
    ],
)
def test_numbers_of_a_list_come_one_by_one_or_packed(groups: bytes, found: list[int]) -> None:
    """The encoding says that a reader takes both."""
    assert spec_of_pod(b(14, groups)) == {"securityContext": {"supplementalGroups": found}}


def test_words_of_a_list() -> None:
    assert metadata(b(14, "a") + b(14, "") + b(14, "c")) == {"finalizers": ["a", "", "c"]}


def test_packed_booleans_are_booleans() -> None:
    """An attribute of a device (resource.k8s.io) is the one list of them."""
    node = nodes.named("io.k8s.api.resource.v1.DeviceAttribute")
    number = next(number for number, slot in protobuf.slots_of(node).items() if slot.name == "bools")
    for raw in (b(number, bytes([1, 0])), n(number, 1) + n(number, 0)):
        found = protobuf._struct(node, raw, 0, protobuf.FieldBudget())
        assert found == {"bools": [True, False]}
        assert all(value is True or value is False for value in found["bools"])


# -- maps


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b(11, b(1, "a") + b(2, "b")), {"labels": {"a": "b"}}),
        (b(11, b(1, "a")), {"labels": {"a": ""}}),
        (b(11, b(2, "b")), {"labels": {"": "b"}}),
        (b(11, b(1, "a") + b(2, "1")) + b(11, b(1, "a") + b(2, "2")), {"labels": {"a": "2"}}),
        (b(11, b(1, "a") + b(3, "x") + b(2, "b")), {"labels": {"a": "b"}}),
    ],
)
def test_entries_of_a_map(raw: bytes, found: Json) -> None:
    """A key or value that is left out is the zero of its type; the last of two entries counts."""
    assert metadata(raw) == found


@pytest.mark.parametrize("amount", [b"", b(2, b""), b(2, quantity(""))])
def test_amount_that_is_left_out_is_nought(amount: bytes) -> None:
    assert claim(b(2, b(2, b(1, "storage") + amount))) == {"resources": {"requests": {"storage": "0"}}}


@pytest.mark.parametrize(
    ("entry", "words"), [(b"", []), (b(2, b""), []), (b(2, b(1, "x")), ["x"]), (b(2, b(2, "no") + b(1, "x")), ["x"])]
)
def test_lists_in_a_map(entry: bytes, words: list[str]) -> None:
    found = decode(body("authorization.k8s.io/v1", "SubjectAccessReview", b(2, b(5, b(1, "k") + entry))))
    assert found["spec"] == {"extra": {"k": words}}


@pytest.mark.parametrize("entry", [b"", b(2, b"")])
def test_objects_in_a_map(entry: bytes) -> None:
    """Attributes of a device, by name."""
    devices = b(6, b(1, "d") + b(2, b(1, "a") + entry))
    found = decode(body("resource.k8s.io/v1", "ResourceSlice", b(2, devices)))
    assert found["spec"] == {"devices": [{"name": "d", "attributes": {"a": {}}}]}


# -- times, numbers, JSON


@pytest.mark.parametrize(
    ("stamp", "found"),
    [
        (time(0), "1970-01-01T00:00:00Z"),
        (time(-1), "1969-12-31T23:59:59Z"),
        (n(2, 5), "1970-01-01T00:00:00Z"),
        (time(1767225600, 999_999_999), "2026-01-01T00:00:00Z"),
        (b"", None),
    ],
)
def test_times(stamp: bytes, found: str | None) -> None:
    """Seconds since 1970 and nanoseconds; an empty message is no time."""
    assert metadata(b(1, "x") + b(8, stamp)).get("creationTimestamp") == found


@pytest.mark.parametrize(
    ("nanos", "micros"), [(0, "000000"), (999, "000000"), (1000, "000001"), (999_999_999, "999999")]
)
def test_times_with_microseconds(nanos: int, micros: str) -> None:
    lease = decode(body("coordination.k8s.io/v1", "Lease", b(2, b(3, time(1, nanos)))))
    assert lease["spec"] == {"acquireTime": f"1970-01-01T00:00:01.{micros}Z"}


@pytest.mark.parametrize("part", [1, 2])
def test_time_of_texts_is_none(part: int) -> None:
    with pytest.raises(UnsupportedProtobuf, match="a time that is none"):
        metadata(b(8, b(part, "x")))


@pytest.mark.parametrize("seconds", [-62_135_596_801, 253_402_300_800, 2**62])
def test_time_outside_the_calendar_is_refused(seconds: int) -> None:
    with pytest.raises(UnsupportedProtobuf, match="a time outside the years 1 to 9999"):
        metadata(b(8, time(seconds % 2**64)))


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnsupportedProtobuf, match="a text that is not UTF-8"):
        metadata(b(1, b"\xff"))


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"", 0),
        (n(1, 0) + n(2, -7), -7),
        (n(2, 7) + b(3, "text"), 7),
        (n(1, 1) + n(2, 7) + b(3, "text"), "text"),
        (n(1, 1), ""),
        (n(1, 1) + n(3, 5), ""),
        (n(1, 2) + n(2, 7), 7),
        (b(2, "x"), 0),
    ],
)
def test_numbers_or_texts(raw: bytes, found: int | str) -> None:
    """Field 1 says which: 1 the text in field 3, else the number in field 2."""
    made = decode(body("policy/v1", "PodDisruptionBudget", b(2, b(1, raw))))
    assert made["spec"] == {"minAvailable": found}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b(1, b'{"a": [1]}'), {"a": [1]}),
        (b(1, b""), None),
        (b"", None),
        (n(1, 5), None),
    ],
)
def test_json_in_a_message(data: bytes, found: Json | None) -> None:
    assert decode(body("apps/v1", "ControllerRevision", b(2, data))).get("data") == found


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000])
def test_json_that_is_none(text: bytes) -> None:
    with pytest.raises(UnsupportedProtobuf, match="an extension that is no JSON"):
        decode(body("apps/v1", "ControllerRevision", b(2, b(1, text))))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b(25, "x"), "bytes where int32 stands"),
        (b"\xcd\x01abcd", "wire type 5 where int32 stands"),
        (b"\x0d\0\0\0\0", "wire type 5 where v1.Volume stands"),
        (n(2, 1), "a number where v1.Container stands"),
        (n(7, 5), "map entry that is no message"),
    ],
)
def test_fields_of_another_form(raw: bytes, said: str) -> None:
    with pytest.raises(UnsupportedProtobuf, match=said):
        spec_of_pod(raw)


def test_unknown_fields_are_skipped() -> None:
    """Of every wire type, before and behind those that are known."""
    unknown = n(900, 1) + b(901, "x") + wire.encode_varint(902 << 3 | 1) + b"12345678"
    unknown += wire.encode_varint(903 << 3 | 5) + b"1234"
    assert metadata(unknown + b(1, "x") + unknown) == {"name": "x"}


# -- the envelope


def test_envelope() -> None:
    """Only texts count in it; an encoding that is named, and nothing else, is refused."""
    named = b(1, n(1, 5) + n(2, 6) + b(1, "v1") + b(2, "Namespace") + b(3, "x"))
    raw = b(2, b(1, b(1, "n")))
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    for extra in (b"", n(1, 5), n(2, 5), n(3, 5), b(3, ""), b(4, "application/json")):
        assert decode(b"k8s\0" + named + raw + extra) == wanted
    for half in (b(1, b(1, "v1")), b(1, b(2, "Namespace"))):
        with pytest.raises(UnsupportedProtobuf, match="names no apiVersion and kind"):
            decode(b"k8s\0" + half + raw)


# -- bounds


def nested(levels: int) -> bytes:
    """A Workload with so many templates inside each other."""
    inner = b(1, "t")
    for _ in range(levels - 1):
        inner = b(9, inner)
    return body("scheduling.k8s.io/v1beta1", "Workload", b(2, b(3, inner)))


def test_how_deep_a_message_may_be() -> None:
    """A hundred levels below the object; its spec is the first."""
    assert decode(nested(99))["kind"] == "Workload"
    with pytest.raises(UnsupportedProtobuf, match="nested deeper than 100 levels"):
        decode(nested(100))


def test_how_many_fields_a_message_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed number, an entry of a map, its parts and an item of a list in it count as fields do."""
    monkeypatch.setattr(protobuf, "MAX_VALUES", 100)
    entry = b(11, b(1, "k") + b(2, "v"))
    words = b(2, b"".join(b(1, "x") for _ in range(15)))
    within = [
        body("v1", "ConfigMap", b(1, n(900, 1) * 99)),
        body("v1", "Pod", b(2, b(14, b(4, b"\1" * 97)))),
        body("v1", "ConfigMap", b(1, entry * 33)),
        body("authorization.k8s.io/v1", "SubjectAccessReview", b(2, b(5, b(1, "k") + words) + n(900, 1) * 74)),
    ]
    beyond = [
        body("v1", "ConfigMap", b(1, n(900, 1) * 100)),
        body("v1", "Pod", b(2, b(14, b(4, b"\1" * 98)))),
        body("v1", "ConfigMap", b(1, entry * 33 + n(900, 1))),
        body("authorization.k8s.io/v1", "SubjectAccessReview", b(2, b(5, b(1, "k") + words) + n(900, 1) * 75)),
    ]
    for raw in within:
        decode(raw)
    for raw in beyond:
        with pytest.raises(UnsupportedProtobuf, match="a message of more than 100 fields"):
            decode(raw)


# -- the wire


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xff" * 9 + b"\x01", 2**64 - 1),
    ],
)
def test_numbers_on_the_wire(raw: bytes, value: int) -> None:
    assert wire.varint(b"x" + raw + b"y", 1) == (value, 1 + len(raw))
    assert wire.encode_varint(value) == raw


@pytest.mark.parametrize(
    ("value", "signed"),
    [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1), (2**64, 0), (2**64 + 5, 5)],
)
def test_signs(value: int, signed: int) -> None:
    assert wire.signed(value) == signed


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\x80" * 10 + b"\x01", "longer than ten bytes"),
        (b"\x80" * 9, "ends inside a number"),
        (b(1, "abc")[:-1], "ends inside a field"),
        (n(1, 1) + b(1, "abc")[:-1], "ends inside a field"),
        (b"\x09" + b"1234567", "ends inside a field"),
        (n(1, 1) + b"\x09" + b"1234567", "ends inside a field"),
        (b"\x0d" + b"123", "ends inside a field"),
        (b"\x0b", "unknown wire type 3"),
        (n(0, 1), "field number 0"),
    ],
)
def test_bytes_that_are_no_message(raw: bytes, said: str) -> None:
    with pytest.raises(wire.WireError, match=said):
        list(wire.fields(raw))


def test_every_wire_type() -> None:
    raw = n(1, 7) + b"\x11" + b"12345678" + b(3, "abc") + b"\x25" + b"1234"
    assert list(wire.fields(raw)) == [
        (1, wire.VARINT, 7),
        (2, wire.FIXED64, b"12345678"),
        (3, wire.BYTES, b"abc"),
        (4, wire.FIXED32, b"1234"),
    ]


def test_text_of_any_value_is_escaped_as_go_does() -> None:
    """Clients compare the bytes of a revision with those that Go's encoder writes."""
    body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {"args": ["a && b <c> \u2028 é"]}}
    message = encode(body)
    assert '{"args":["a \\u0026\\u0026 b \\u003cc\\u003e \\u2028 é"]}'.encode() in message
    assert decode(message)["data"] == body["data"]
