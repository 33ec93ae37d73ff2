"""Bodies of requests: how much is read, what each Content-Type is read as, and how a failure is reported.

api.md 5: one clear error, with kube-apiserver's code; whatever a client chooses has a bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from functools import partial
from typing import Any

import pytest

from kube_standin.errors import StatusError
from kube_standin.schema.strict_json import MAX_DEPTH, MAX_VALUES
from kube_standin.server.bodies import (
    LIMIT,
    Disconnected,
    decode_body,
    decode_patch,
    load_yaml,
    media_type,
    read_body,
)
from tests.recorded.shapes import custom_kind, shape
from tests.server.inprocess import virtually

POD = shape("v1", "Pod")
CUSTOM = custom_kind("example.com", "v1", "Gang")


class Sender:
    """A client that sends a body in pieces of so many bytes; it marks the last one."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.sent = 0

    async def __call__(self) -> MutableMapping[str, Any]:
        size = self.sizes[self.sent]
        self.sent += 1
        return {"type": "http.request", "body": b"x" * size, "more_body": self.sent < len(self.sizes)}


@pytest.mark.parametrize("sizes", [(0,), (1,), (2, 3), (LIMIT,), (LIMIT - 1, 1)])
def test_body_is_read_whole(sizes: tuple[int, ...]) -> None:
    for length in (None, sum(sizes)):
        sender = Sender(*sizes)
        assert virtually(partial(read_body, sender, length)) == b"x" * sum(sizes)
        assert sender.sent == len(sizes)


def test_pieces_of_a_body_keep_their_order() -> None:
    pieces: Iterator[MutableMapping[str, Any]] = iter(
        [{"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.request", "body": b"c"}]
    )

    async def receive() -> MutableMapping[str, Any]:
        return next(pieces)

    assert virtually(lambda: read_body(receive, None)) == b"abc"


@pytest.mark.parametrize(
    ("sizes", "length", "read"),
    [
        ((LIMIT + 1,), None, 1),
        ((LIMIT, 1), None, 2),
        ((LIMIT + 1,), LIMIT + 1, 1),
        ((0,), 8 * LIMIT, 1),
        ((0,), 8 * LIMIT + 1, 0),  # that much is not even begun
        ((LIMIT,) * 8, None, 8),  # read to its end, so that the client gets to read the answer
        ((*(LIMIT,) * 8, 1, 1), None, 9),  # but no more than that
    ],
)
def test_body_has_a_length(sizes: tuple[int, ...], length: int | None, read: int) -> None:
    """413 beyond 3 MiB."""
    sender = Sender(*sizes)
    if sizes == (0,) and read:
        assert virtually(lambda: read_body(sender, length)) == b""
    else:
        with pytest.raises(StatusError) as refused:
            virtually(lambda: read_body(sender, length))
        error = refused.value
        assert (error.code, error.reason) == (413, "RequestEntityTooLarge")
        assert error.message == "Request entity too large: limit is 3145728"
    assert sender.sent == read


def test_client_that_leaves_has_sent_no_body() -> None:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(Disconnected):
        virtually(lambda: read_body(receive, None))


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", "application/json"),
        (";charset=utf-8", "application/json"),
        (" Application/YAML ; charset=utf-8", "application/yaml"),
        ("text/plain", "text/plain"),
    ],
)
def test_type_of_a_body(header: str, media: str) -> None:
    assert media_type(header) == media


@pytest.mark.parametrize(
    ("raw", "content_type", "read", "repeated"),
    [
        (b'{"a":1}', "", {"a": 1}, []),
        (b'{"a":1,"b":{"c":1,"c":2}}', "application/json", {"a": 1, "b": {"c": 2}}, ['duplicate field "b.c"']),
        (b"a: 1", "application/yaml", {"a": 1}, []),
        (b"\xef\xbb\xbfa: 1", "application/x-yaml", {"a": 1}, []),
        (
            b"a: 1\na: 2\n",
            "application/yaml",
            {"a": 2},
            ['yaml: unmarshal errors:\n  line 2: key "a" already set in map'],
        ),
    ],
)
def test_bodies_that_are_read(raw: bytes, content_type: str, read: object, repeated: list[str]) -> None:
    value, found = decode_body(raw, content_type, "Pod")
    assert (value, list(found.texts)) == (read, repeated)


@pytest.mark.parametrize("number", [1, 10, 11, 12])
def test_repeated_keys_are_shown_up_to_ten(number: int) -> None:
    raw = "".join(f"k{index}: 1\nk{index}: 2\n" for index in range(number)).encode()
    shown = [f'line {2 * index + 2}: key "k{index}" already set in map' for index in range(min(number, 10))]
    more = [f"and {number - 10} more"] if number > 10 else []
    text = "\n  ".join(["yaml: unmarshal errors:", *shown, *more])
    assert decode_body(raw, "application/yaml", "Pod")[1].texts == [text]


FRAME = "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; "
UNKNOWN = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


@pytest.mark.parametrize(
    ("raw", "content_type", "code", "message"),
    [
        (b"", "", 400, FRAME + "json parse error: unexpected end of JSON input (<empty>)"),
        (b"x", "", 400, FRAME + "json parse error: Expecting value at offset 0 (x)"),
        (b"x" * 30, "", 400, FRAME + f"json parse error: Expecting value at offset 0 ({'x' * 30})"),
        (b"x" * 31, "", 400, FRAME + f"json parse error: Expecting value at offset 0 ({'x' * 30} ...)"),
        (b"[]", "", 400, FRAME + "json parse error: json: cannot unmarshal array into an object ([])"),
        (b"- a", "application/yaml", 400, FRAME + "yaml: the document is not a mapping"),
        (b"a: 1\nb: ]\n", "application/yaml", 400, "error converting YAML to JSON: yaml: line 2: "),
        (b"k8s\0\xff", "application/vnd.kubernetes.protobuf", 415, ""),
        (b"{}", "text/plain", 415, UNKNOWN),
        (b"{}", "application/merge-patch+json", 415, UNKNOWN),
    ],
)
def test_bodies_that_are_refused(raw: bytes, content_type: str, code: int, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode_body(raw, content_type, "Pod")
    error = refused.value
    if message.endswith(" ") or not message:
        assert error.message.startswith(message)
        assert "None" not in error.message
    else:
        assert error.message == message
    assert error.code == code


def test_refusal_of_yaml_names_the_operation() -> None:
    for doing, words in (({}, "converting YAML to JSON"), ({"doing": "reading"}, "reading")):
        with pytest.raises(StatusError) as refused:
            load_yaml(b"a: \xff", **doing)
        assert refused.value.message == f"error {words}: yaml: not UTF-8 text: byte 3"


JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@pytest.mark.parametrize(
    ("raw", "content_type", "read"),
    [
        (b"[]", JSON_PATCH, ("json", [])),
        (b'[{"op":"test"}]', f"{JSON_PATCH};charset=utf-8", ("json", [{"op": "test"}])),
        (b'{"a":null}', MERGE, ("merge", {"a": None})),
        (b'{"a":1}', STRATEGIC, ("strategic", {"a": 1})),
        (b'{"a":1}', APPLY, ("apply", {"a": 1})),
        (b' \n{"a":1}', APPLY, ("apply", {"a": 1})),
        (b"a: 1", APPLY, ("apply", {"a": 1})),
        (b"{a: 1}", APPLY, ("apply", {"a": 1})),
    ],
)
def test_patches_that_are_read(raw: bytes, content_type: str, read: object) -> None:
    assert decode_patch(raw, content_type, POD) == read


DECODING = "error decoding patch: json: cannot unmarshal "


@pytest.mark.parametrize(
    ("raw", "content_type", "kind", "code", "message"),
    [
        (b"{}", "application/json", POD, 415, "415: Unsupported Media Type"),
        (b"{}", "", POD, 415, "415: Unsupported Media Type"),
        (b"{}", STRATEGIC, CUSTOM, 415,
         "the body of the request was in an unknown format - accepted media types include: "
         "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"),
        (b"- a", APPLY, POD, 400, "error decoding YAML: the applied configuration must be a mapping"),
        (b"{a: [", APPLY, POD, 400, None),
        (b"{}", JSON_PATCH, POD, 400, DECODING + "object into Go value of type []handlers.jsonPatchOp"),
        (b"[]", MERGE, POD, 400, DECODING + "array into Go value of type map[string]interface {}"),
        (b"1", MERGE, POD, 400, DECODING + "number into Go value of type map[string]interface {}"),
        (b"x", MERGE, POD, 400, "error decoding patch: JSON is malformed: invalid character (byte 0)"),
        (b'{"a":"\xff"}', MERGE, POD, 400, None),
    ],
)  # fmt: skip
def test_patches_that_are_refused(raw: bytes, content_type: str, kind: Any, code: int, message: str | None) -> None:
    with pytest.raises(StatusError) as refused:
        decode_patch(raw, content_type, kind)
    assert refused.value.code == code
    if message is not None:
        assert refused.value.message == message


@pytest.mark.parametrize(("type_", "code"), [(MERGE, 200), (STRATEGIC, 415), (JSON_PATCH, 400)])
def test_patches_of_custom_resources(type_: str, code: int) -> None:
    """A custom resource has no merge keys, so that no strategic patch is to be had; the others are."""
    if code == 200:
        assert decode_patch(b"{}", type_, CUSTOM) == ("merge", {})
        return
    with pytest.raises(StatusError) as refused:
        decode_patch(b"{}", type_, CUSTOM)
    assert refused.value.code == code


def nested(levels: int) -> bytes:
    """A value with so many objects and lists around it, by turns."""
    pairs, odd = divmod(levels, 2)
    return b'{"a":' * odd + b'{"a":[' * pairs + b"1" + b"]}" * pairs + b"}" * odd


@pytest.mark.parametrize("content_type", [MERGE, APPLY])
def test_patches_have_a_depth(content_type: str) -> None:
    """As bodies have: the deepest that is read, and one level more."""
    assert decode_patch(nested(MAX_DEPTH), content_type, POD)[1]
    with pytest.raises(StatusError) as refused:
        decode_patch(nested(MAX_DEPTH + 1), content_type, POD)
    assert refused.value.code == 400
    assert "deep" in refused.value.message


@pytest.mark.parametrize(
    ("wrap", "content_type", "more"),
    [(b'{"a":%s}', MERGE, 2), (b"%s", JSON_PATCH, 1)],
)
def test_patches_have_a_number_of_values(wrap: bytes, content_type: str, more: int) -> None:
    """What is around the values counts with them."""
    most = MAX_VALUES - more

    def patch(number: int) -> bytes:
        return wrap % json.dumps([0] * number, separators=(",", ":")).encode()

    assert decode_patch(patch(most), content_type, POD)[1]
    with pytest.raises(StatusError, match=f"error decoding patch: more than {MAX_VALUES} values"):
        decode_patch(patch(most + 1), content_type, POD)
