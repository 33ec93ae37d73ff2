"""Responses as they are sent: in which pieces, with which headers, compressed or not; and the forms of an object."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
import yaml

from kube_standin.errors import StatusError, bad_request
from kube_standin.registry import ObjectRegistry
from kube_standin.server import negotiation
from kube_standin.server.negotiation import PLAIN
from kube_standin.server.responses import (
    Renderer,
    Reply,
    SharedLines,
    chunks,
    error_reply,
    in_turns,
    send_parts,
    send_reply,
    warning_headers,
    warning_text,
)
from kube_standin.storage import Store
from kube_standin.storage.model import StoredObject
from tests.recorded.shapes import shape
from tests.server.inprocess import Answer, answered, virtually

Json = dict[str, Any]
KB = 1024


def sent(reply: Reply, **how: bool) -> Answer:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    virtually(lambda: send_reply(send, reply, **how))
    return answered(messages)


# -- pieces and headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        (b"", [0]),
        (b"x" * 32 * KB, [32 * KB]),
        ([b"x" * 16 * KB] * 2, [32 * KB]),
        (b"x" * (32 * KB + 1), [32 * KB + 1, 0]),
        ([b"x" * 16 * KB] * 3, [32 * KB, 16 * KB, 0]),
        ([b"x" * 20 * KB] * 3, [40 * KB, 20 * KB, 0]),
        ([b"x" * 64 * KB, b"y"], [64 * KB, 1, 0]),
        ([b"x" * 100 * KB, b"y"], [32 * KB, 32 * KB, 32 * KB, 4 * KB, 1, 0]),
    ],
)
def test_large_answer_goes_out_in_pieces(body: bytes | list[bytes], sizes: list[int]) -> None:
    """interfaces.md 5.7: of 64 KiB at most, of small objects and of a large one. Its length is sent before."""
    answer = sent(Reply(201, body, "text/x"))
    assert [len(piece) for piece in answer.pieces] == sizes
    assert answer.status == 201
    assert answer.headers == [
        ("content-type", "text/x"),
        ("cache-control", "no-cache, private"),
        ("content-length", str(sum(sizes))),
    ]


def test_pieces_are_joined_until_they_are_worth_sending() -> None:
    given = [b"aa", b"b", b"cc", b"d"]
    assert list(chunks(given, 3)) == [b"aab", b"ccd"]
    assert list(chunks(given, 4)) == [b"aabcc", b"d"]
    assert list(chunks([], 4)) == []
    assert list(chunks(iter(given), 100)) == [b"aabccd"]


@pytest.mark.parametrize(("size", "packed"), [(128 * KB - 1, False), (128 * KB, True)])
def test_large_answers_are_compressed_for_clients_that_accept_it(size: int, packed: bool) -> None:
    """From 128 KiB on, as kube-apiserver."""
    body = [b"x" * (size // 2), b"y" * (size - size // 2)]
    assert sent(Reply(200, body)).header("content-encoding") is None
    answer = sent(Reply(200, body), gzip=True)
    assert (answer.header("content-encoding") == "gzip") is packed
    assert (answer.header("vary") == "Accept-Encoding") is packed
    assert (answer.header("content-length") is None) is packed
    assert (gzip.decompress(answer.body) if packed else answer.body) == b"".join(body)


def test_compressed_answer_goes_out_in_pieces() -> None:
    """interfaces.md 5.7: what cannot be made smaller, too."""
    body = random.Random(1).randbytes(500 * KB)
    answer = sent(Reply(200, body), gzip=True)
    assert max(map(len, answer.pieces)) <= 64 * KB
    assert gzip.decompress(answer.body) == body


def test_slices_go_out_in_pieces() -> None:
    """interfaces.md 5.7: an object in YAML is one slice."""
    answer = sent(Reply(200, iter([b"x" * 65 * KB, b"y" * 10])))
    assert [len(piece) for piece in answer.pieces] == [32 * KB, 32 * KB, KB, 10, 0]


@pytest.mark.parametrize("size", [1, 300 * KB])
def test_head_is_answered_with_the_length(size: int) -> None:
    answer = sent(Reply(200, b"x" * size), head=True)
    assert (answer.pieces, answer.header("content-length")) == ([b""], str(size))


def test_headers_and_warnings_of_an_answer() -> None:
    answer = sent(Reply(200, b"", headers={"X-Some": "ä"}, warnings=["one", "two", "one"]))
    assert answer.headers[2:-1] == [("x-some", "ä"), ("warning", '299 - "one"'), ("warning", '299 - "two"')]


# -- warnings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [("plain", '299 - "plain"'), ('a "b" \\c', '299 - "a \\"b\\" \\\\c"'), ("a\r\nb\0", '299 - "a  b "')],
)
def test_warning_is_one_line(message: str, text: str) -> None:
    assert warning_text(message) == text


def lengths(messages: list[str]) -> list[int]:
    return [len(header) - len('299 - ""') for header in warning_headers(messages)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], []),
        ([4096], [4096]),  # whole
        ([4097], [256]),
        ([2048, 2048], [2048, 2048]),
        ([2048, 2049], [256, 256]),
        ([300] * 20, [256] * 16),  # 16 of 256 are 4096
        ([10] * 64, [10] * 64),
        ([10] * 65, [10] * 64),
    ],
)
def test_warnings_have_a_number_and_a_length(given: list[int], kept: list[int]) -> None:
    """4,096 characters together; where all are longer each is cut to 256; and no more than 64 headers."""
    assert lengths([f"{index:04d}".ljust(size, "x") for index, size in enumerate(given)]) == kept


# -- refusals --------------------------------------------------------------------------------------------------


def test_refusal_has_a_retry_delay() -> None:
    error = StatusError(504, "Timeout", "late", {"retryAfterSeconds": 1}, headers={"X-A": "b"}, warnings=("w",))
    reply = error_reply(error)
    assert (reply.status, reply.content_type, reply.warnings) == (504, "application/json", ("w",))
    assert reply.headers == {"X-A": "b", "Retry-After": "1"}
    assert isinstance(reply.body, bytes)
    assert json.loads(reply.body) == error.to_json()
    error.headers = {"Retry-After": "5"}
    assert error_reply(error).headers == {"Retry-After": "5"}
    assert error_reply(bad_request("no")).headers == {}


# -- lines that are shared -------------------------------------------------------------------------------------


def test_lines_are_kept_until_newer_ones_need_the_room() -> None:
    lines = SharedLines(limit=10)
    lines.put("a", b"xxxx")
    lines.put("b", b"xxxxxx")
    assert (lines.get("a"), lines.get("b")) == (b"xxxx", b"xxxxxx")
    lines.put("c", b"x")
    assert (lines.get("a"), lines.get("b"), lines.get("c")) == (None, b"xxxxxx", b"x")
    lines.put("d", b"xxx")
    assert lines.get("b") == b"xxxxxx"
    lines.put("e", b"x" * 20)  # more than there is room for: the last one is kept whatever it is
    assert [lines.get(key) for key in "bcde"] == [None, None, None, b"x" * 20]
    lines.put("f", b"x")
    assert (lines.get("e"), lines.get("f")) == (None, b"x")


# -- forms -----------------------------------------------------------------------------------------------------

MAP, GROUP, EVENT = shape("v1", "ConfigMap"), shape("scheduling.k8s.io/v1alpha2", "PodGroup"), shape("v1", "Event")
RAW = b'{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"data":{"k":"v"}}'
META = {"name": "a", "namespace": "n", "resourceVersion": "7"}
WHOLE = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": META, "data": {"k": "v"}}
STATE = StoredObject("configmaps", "n", "a", 7, RAW)
YAML = negotiation.AnswerForm(yaml=True)


def form(name: str, version: str = "v1") -> negotiation.AnswerForm:
    return negotiation.negotiate(f"application/json;as={name};v={version};g=meta.k8s.io")


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    store = Store()
    yield Renderer(ObjectRegistry(store))
    store.close()


def whole(reply: Reply) -> bytes:
    return reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)


def test_object_in_each_form(renderer: Renderer) -> None:
    reply = renderer.stored(MAP, STATE, PLAIN, {})
    assert (reply.status, reply.content_type) == (200, "application/json")
    assert whole(reply) == b'{"kind":"ConfigMap","apiVersion":"v1",' + RAW[1:] + b"\n"
    pretty = whole(renderer.stored(MAP, STATE, PLAIN, {"pretty": ""}))
    assert json.loads(pretty) == WHOLE
    assert pretty.startswith(b'{\n  "kind": "ConfigMap",\n')
    reply = renderer.stored(MAP, STATE, YAML, {})
    assert (reply.content_type, yaml.safe_load(whole(reply))) == ("application/yaml", WHOLE)
    assert whole(reply).startswith(b"apiVersion: v1\ndata:\n  k: v\nkind:")
    assert "ä: ö\n" in whole(renderer.document({"ä": "ö"}, YAML, {})).decode()
    for version in ("v1", "v1beta1"):
        reply = renderer.stored(MAP, STATE, form("PartialObjectMetadata", version), {})
        partial = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": META}
        assert json.loads(whole(reply)) == partial
        assert json.loads(renderer.raw_partial(STATE, version)) == partial
    reply = renderer.one(MAP, dict(WHOLE), form("Table"), {}, 201)
    table = json.loads(whole(reply))
    assert (reply.status, table["kind"], table["metadata"]) == (201, "Table", {"resourceVersion": "7"})
    assert [row["cells"][0] for row in table["rows"]] == ["a"]
    assert json.loads(whole(renderer.one(MAP, {"metadata": {"name": "a"}}, form("Table"), {})))["metadata"] == {
        "resourceVersion": ""
    }


@pytest.mark.parametrize(
    ("include", "attached"),
    [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap"), ("None", None)],
)
def test_table_has_beside_its_cells(renderer: Renderer, include: str, attached: str | None) -> None:
    table = renderer.table(MAP, [WHOLE], {}, {"includeObject": include})
    [row] = table["rows"]
    assert (row["object"] and row["object"]["kind"]) == attached


def test_include_object_is_one_of_three(renderer: Renderer) -> None:
    with pytest.raises(StatusError) as refused:
        renderer.table(MAP, [], {}, {"includeObject": "x"})
    assert (refused.value.code, refused.value.message) == (
        400,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', "
        "'Object', 'None', or empty",
    )


@pytest.mark.parametrize("number", [0, 1, 3])
def test_lists_in_each_form(renderer: Renderer, number: int) -> None:
    states = [STATE] * number
    listed = {"resourceVersion": "9"}
    reply = renderer.many(MAP, states, listed, PLAIN, {})
    plain = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": listed}
    item = {"metadata": META, "data": {"k": "v"}}
    assert json.loads(whole(reply)) == {**plain, "items": [item] * number}
    assert list(json.loads(whole(reply))) == ["kind", "apiVersion", "metadata", "items"]
    pretty = whole(renderer.many(MAP, states, listed, PLAIN, {"pretty": "true"}))
    assert pretty.startswith(b'{\n  "kind"')
    assert json.loads(pretty) == json.loads(whole(reply))
    packed = renderer.many(MAP, states, listed, YAML, {})
    assert (packed.content_type, yaml.safe_load(whole(packed))) == ("application/yaml", json.loads(whole(reply)))
    partial = json.loads(whole(renderer.many(MAP, states, listed, form("PartialObjectMetadataList", "v1beta1"), {})))
    one = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": META}
    head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1beta1", "metadata": listed}
    assert partial == {**head, "items": [one] * number}
    table = json.loads(whole(renderer.many(MAP, states, listed, form("Table"), {})))
    assert (table["metadata"], [row["cells"][0] for row in table["rows"]]) == (listed, ["a"] * number)


LARGE = [
    StoredObject(
        "configmaps",
        "n",
        f"a{number}",
        7,
        RAW.replace(b'"a"', b'"a%d"' % number).replace(b'"v"', b'"%s"' % (b"v" * 500)),
    )
    for number in range(300)
]
FORMS = [
    YAML,
    form("Table"),
    form("PartialObjectMetadataList"),
    negotiation.negotiate("application/yaml;as=Table;v=v1;g=meta.k8s.io"),
]


@pytest.mark.parametrize("query", [{}, {"pretty": "1"}], ids=["plain", "pretty"])
@pytest.mark.parametrize("answer", FORMS, ids=["YAML", "Table", "partial", "Table in YAML"])
def test_large_list_is_encoded_in_slices(
    renderer: Renderer, answer: negotiation.AnswerForm, query: dict[str, str]
) -> None:
    """interfaces.md 5.7: each slice is small, and what it says together is the list."""
    reply = renderer.many(MAP, LARGE, {"resourceVersion": "9"}, answer, query)
    assert reply.is_sliced
    assert isinstance(reply.body, Iterator)
    slices = list(reply.body)
    assert len(slices) > 4
    assert max(map(len, slices)) < 400 * KB
    text = b"".join(slices)
    found = yaml.load(text, yaml.CSafeLoader) if answer.yaml else json.loads(text)
    field = "rows" if answer.form == "table" else "items"
    small = [renderer.many(MAP, [state], {"resourceVersion": "9"}, answer, query) for state in LARGE[:2]]
    assert not any(reply.is_sliced for reply in small)
    first, second = (yaml.safe_load(whole(reply)) for reply in small)
    assert {**found, field: found[field][:2]} == {**first, field: first[field] + second[field]}
    assert len(found[field]) == len(LARGE)


@pytest.mark.parametrize("number", [0, 1, 2, 300])
def test_indented_lists_are_what_the_encoder_makes_of_the_whole(renderer: Renderer, number: int) -> None:
    for answer in (PLAIN, form("Table")):
        text = whole(renderer.many(MAP, LARGE[:number], {"resourceVersion": "9"}, answer, {"pretty": "1"}))
        assert text == msgspec.json.format(msgspec.json.encode(json.loads(text)), indent=2)
    packed = whole(renderer.many(MAP, LARGE[:number], {"resourceVersion": "9"}, YAML, {}))
    data = json.loads(whole(renderer.many(MAP, LARGE[:number], {"resourceVersion": "9"}, PLAIN, {})))
    assert packed.decode() == yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)


def test_large_object_is_encoded_while_it_is_sent(renderer: Renderer) -> None:
    large = {**WHOLE, "data": {"k": "v" * 20_000}}
    for answer, query in ((YAML, {}), (PLAIN, {"pretty": "1"})):
        reply = renderer.document(large, answer, query, 201)
        assert (reply.is_sliced, reply.status) == (True, 201)
        assert yaml.safe_load(whole(reply)) == large
    assert not renderer.document(large, PLAIN, {}).is_sliced


@pytest.mark.parametrize("packed", [True, False])
def test_slices_go_out_one_by_one(packed: bool) -> None:
    """Without a length, for it is not known before the end."""
    answer = sent(Reply(201, iter([b"a" * 1000, b"b" * 1000]), "text/x"), gzip=packed)
    assert (answer.status, answer.header("content-length")) == (201, None)
    assert answer.header("content-encoding") == ("gzip" if packed else None)
    assert (gzip.decompress(answer.body) if packed else answer.body) == b"a" * 1000 + b"b" * 1000
    if not packed:
        assert [len(piece) for piece in answer.pieces] == [1000, 1000, 0]


@pytest.mark.parametrize(
    ("many", "name", "kind", "message"),
    [
        (False, "PartialObjectMetadataList", MAP,
         "you requested PartialObjectMetadataList, but the requested object is not a list (*ConfigMap)"),
        (True, "PartialObjectMetadata", MAP,
         "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"),
        (True, "PartialObjectMetadata", GROUP,
         "you requested PartialObjectMetadata, but the requested object is a list (*scheduling.PodGroupList)"),
    ],
)  # fmt: skip
def test_forms_that_do_not_fit(renderer: Renderer, many: bool, name: str, kind: Any, message: str) -> None:
    answer = partial(renderer.many, kind, []) if many else partial(renderer.one, kind)
    with pytest.raises(StatusError) as refused:
        answer({}, form(name), {})
    assert (refused.value.code, refused.value.reason, refused.value.message) == (406, "NotAcceptable", message)


def test_object_that_is_stored_in_another_version_is_converted(renderer: Renderer) -> None:
    """api.md 2: an item of a list has neither kind nor apiVersion, in whichever version it is read."""
    spec = b'{"schedulingPolicy":{"basic":{}},"disruptionMode":{"all":{}}}'
    raw = b'{"metadata":{"name":"g","namespace":"n"},"spec":%s}' % spec
    state = StoredObject("scheduling.k8s.io/podgroups", "n", "g", 7, raw)
    one = json.loads(whole(renderer.stored(GROUP, state, PLAIN, {})))
    assert (one["kind"], one["apiVersion"], one["spec"]["disruptionMode"]) == (
        "PodGroup",
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
    )
    [item] = json.loads(whole(renderer.many(GROUP, [state], {}, PLAIN, {})))["items"]
    assert item == {key: value for key, value in one.items() if key not in ("kind", "apiVersion")}


def test_empty_part_of_an_answer_is_not_sent_and_does_not_end_it() -> None:
    """interfaces.md 5.7: compression gives empty parts while it gathers."""
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message["body"])

    virtually(lambda: send_parts(send, in_turns([b"a", b"", b"b" * 200 * KB])))
    assert all(bodies)
    assert b"".join(bodies) == b"a" + b"b" * 200 * KB
