"""Whatever is sent, the answer is a proper one: never an internal error, always a Status where it is a refusal.

500s without a reason are upstream's own answers (recorded 171, 226, 233, 266, 267, 304, 316) and allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_standin.kinds import BUILTIN, ServedKind
from tests.server.inprocess import Plane, running
from tests.server.live import pod

Json = Any
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=8),
    st.sampled_from(["", "0", "-1", "1Gi", "a/b/c", "../x", "\x00", "default", "metadata", "2026-01-01T00:00:00Z"]),
)  # fmt: skip
KEYS = st.sampled_from(
    ["metadata", "spec", "status", "name", "namespace", "labels", "annotations", "containers", "kind", "apiVersion",
     "finalizers", "ownerReferences", "resourceVersion", "uid", "managedFields", "conditions", "selector", "template",
     "versions", "schema", "rules", "target", "deleteOptions", "priority", "tolerations", "affinity", "x"]
)  # fmt: skip
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
CONTENT_TYPES = st.sampled_from(
    ["application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json",
     "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain", "", ";",
     "application/vnd.kubernetes.protobuf"]
)  # fmt: skip
STRANGE = st.sampled_from(
    ["9" * 400, str(2**70), str(2**63), str(-(2**63) - 1), "٣", "²", "1_0", " 1", "0x10", "1e9", "nan", "\x00", "%",
     "{", "[" * 5000, "e30", "eyJydiI6MX0", "W1tbW1tb", "a in (", "!", ",,,", "a=b=c", "\\", "=" * 50, "\ud7ff",
     "é" * 99, "%zz"]
)  # fmt: skip
QUERY = st.dictionaries(
    st.sampled_from(
        ["limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "dryRun",
         "fieldValidation", "fieldManager", "force", "gracePeriodSeconds", "propagationPolicy", "orphanDependents",
         "includeObject", "pretty", "timeoutSeconds", "sendInitialEvents"]
    ),
    st.one_of(
        st.text(max_size=6),
        STRANGE,
        st.sampled_from(["0", "1", "-1", "true", "All", "a=b", "metadata.name=a", "Exact"]),
    ),
    max_size=3,
)  # fmt: skip
ACCEPTS = st.sampled_from(
    ["", "application/json", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", ";;;=,,q=x",
     "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "text/html"]
)  # fmt: skip


MORE_HEADERS = st.dictionaries(
    st.sampled_from(["content-length", "accept-encoding", "impersonate-user", "impersonate-group", "impersonate-uid",
                     "impersonate-extra-a", "if-match", "transfer-encoding", "x-remote-user", "cookie"]),
    st.one_of(st.text(max_size=4), STRANGE, st.sampled_from(["gzip", "chunked", "system:masters", "0", "²"])),
    max_size=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def asked(
    plane: Plane, method: str, path: str, query: str = "", headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, bytes]:
    answer = plane.ask(f"{method} {path}?{query}", raw=body, **(headers or {}))
    return answer.status, answer.body


def path_of(kind: ServedKind, name: str, subresource: str) -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/default" if kind.namespaced else ""
    return base + scope + f"/{kind.plural}" + (f"/{name}" if name else "") + (f"/{subresource}" if subresource else "")


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, str, dict[str, str], bytes]:
    kind = draw(st.sampled_from(BUILTIN))
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]))
    name = draw(st.sampled_from(["", "a", "default", "x.y", "%00"])) if method != "POST" else ""
    subresource = draw(st.sampled_from(["", *sorted(kind.subresources)])) if name else ""
    if subresource in ("binding", "eviction", "token"):
        method = "POST"
    body = draw(ANY)
    if draw(st.booleans()):
        body = {"metadata": {"name": name or draw(st.sampled_from(["a", "b"]))}, "spec": body}
    if kind.kind == "Pod" and draw(st.booleans()):
        body = pod(name or "a")
        holder: Any = draw(st.sampled_from([body["metadata"], body["spec"], body["spec"]["containers"][0]]))
        holder[draw(KEYS)] = draw(ANY)
    raw = json.dumps(body).encode() if draw(st.integers(0, 9)) else draw(st.binary(max_size=30))
    headers = {"content-type": draw(CONTENT_TYPES), "accept": draw(ACCEPTS), "user-agent": draw(st.text(max_size=4)),
               **draw(MORE_HEADERS)}  # fmt: skip
    return method, path_of(kind, name, subresource), urlencode(draw(QUERY)), headers, raw


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_no_request_is_answered_by_an_internal_error(
    plane: Plane, request: tuple[str, str, str, dict[str, str], bytes]
) -> None:
    status, body = asked(plane, *request)
    assert b"see the server's log" not in body, request
    if status >= 400 and body and body[:1] == b"{":
        refusal = json.loads(body)
        assert (refusal["kind"], refusal["status"], refusal["code"]) == ("Status", "Failure", status)


@settings(max_examples=300, deadline=None)
@given(path=st.text(max_size=40), method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "X"]))
def test_no_path_is_answered_by_an_internal_error(plane: Plane, path: str, method: str) -> None:
    status, body = asked(plane, method, "/" + path)
    assert status in (200, 201, 301, 400, 404, 405, 406, 415), (path, body)


@settings(max_examples=300, deadline=None)
@given(body=ANY, patch_type=st.sampled_from(["json-patch+json", "merge-patch+json", "strategic-merge-patch+json"]))
def test_no_patch_of_a_pod_is_answered_by_an_internal_error(plane: Plane, body: Json, patch_type: str) -> None:
    plane.ask("POST /api/v1/namespaces/default/pods", pod("target"))
    headers = {"content-type": f"application/{patch_type}"}
    for path in ("", "/status"):
        target = f"/api/v1/namespaces/default/pods/target{path}"
        _, answer = asked(plane, "PATCH", target, "", headers, json.dumps(body).encode())
        assert b"see the server's log" not in answer, body
