"""Targets, parameters and Accept headers, read as kube-apiserver reads them."""

from __future__ import annotations

import pytest

from kube_standin.errors import StatusError
from kube_standin.kinds import BUILTIN, KindTable
from kube_standin.selectors import select
from kube_standin.server.bodies import load_yaml
from kube_standin.server.discovery import wants_aggregated
from kube_standin.server.negotiation import AnswerForm, negotiate
from kube_standin.server.query import ContinueToken, list_options, watch_options
from kube_standin.server.target import read_target
from kube_standin.storage.model import StoredObject


@pytest.mark.parametrize(
    ("line", "verb", "group", "resource", "namespace", "name", "subresource"),
    [
        ("GET /api/v1/pods", "list", "", "pods", "", "", ""),
        ("GET /api/v1/pods/", "list", "", "pods", "", "", ""),
        ("GET /api/v1/namespaces", "list", "", "namespaces", "", "", ""),
        ("GET /api/v1/namespaces/a", "get", "", "namespaces", "a", "a", ""),
        ("PUT /api/v1/namespaces/a/finalize", "update", "", "namespaces", "a", "a", "finalize"),
        ("GET /api/v1/namespaces/a/status", "get", "", "namespaces", "a", "a", "status"),
        ("GET /api/v1/namespaces/a/pods", "list", "", "pods", "a", "", ""),
        ("POST /api/v1/namespaces/a/pods/p/binding", "create", "", "pods", "a", "p", "binding"),
        ("DELETE /api/v1/namespaces/a/pods", "deletecollection", "", "pods", "a", "", ""),
        ("DELETE /apis/apps/v1/namespaces/a/deployments/d", "delete", "apps", "deployments", "a", "d", ""),
        ("GET /apis/apps/v1/deployments?watch=1", "watch", "apps", "deployments", "", "", ""),
        ("GET /apis/apps/v1/deployments?watch=false", "list", "apps", "deployments", "", "", ""),
        ("GET /api/v1/watch/namespaces/a/pods/p", "watch", "", "pods", "a", "p", ""),
        ("GET /api/v1/namespaces/a/pods/p?watch=true", "get", "", "pods", "a", "p", ""),  # recorded 602
        ("GET /apis/apps/v1", "get", "", "", "", "", ""),
        ("GET /version", "get", "", "", "", "", ""),
        ("GET //api/v1/pods", "get", "", "", "", "", ""),  # recorded 044
    ],
)
def test_targets(line: str, verb: str, group: str, resource: str, namespace: str, name: str, subresource: str) -> None:
    method, url = line.split(" ")
    path, _, query = url.partition("?")
    found = read_target(method, path, query.encode())
    parts = (found.verb, found.group, found.resource, found.namespace, found.name, found.subresource)
    assert parts == (verb, group, resource, namespace, name, subresource)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", AnswerForm()),
        ("*/*", AnswerForm()),
        ("application/json", AnswerForm()),
        ("application/yaml", AnswerForm(yaml=True)),
        ("application/vnd.kubernetes.protobuf,application/json", AnswerForm()),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", AnswerForm("table")),
        ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
         "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", AnswerForm("partial")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", AnswerForm()),  # recorded 064
        ("application/json;q=0.1,application/yaml;q=0.9", AnswerForm(yaml=True)),
    ],
)  # fmt: skip
def test_accept(accept: str, expected: AnswerForm) -> None:
    assert negotiate(accept) == expected


@pytest.mark.parametrize("accept", ["text/html", "application/json;as=Table;v=v9;g=meta.k8s.io"])  # recorded 062, 063
def test_accept_that_cannot_be_met(accept: str) -> None:
    with pytest.raises(StatusError) as caught:
        negotiate(accept)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")


def test_aggregated_discovery_is_for_clients_that_prefer_it() -> None:
    form = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
    assert wants_aggregated(f"{form.format('v2')},application/json") == "v2"
    assert wants_aggregated(f"{form.format('v9')},{form.format('v2beta1')},application/json") == "v2beta1"
    assert wants_aggregated("application/json") is None


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ({"limit": "abc"}, 400, "BadRequest"),  # recorded 213
        ({"limit": "-1"}, 422, "Invalid"),
        ({"resourceVersion": "abc"}, 400, "BadRequest"),  # 221
        ({"resourceVersion": "9" * 30}, 400, "BadRequest"),
        ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),  # 218
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "Invalid"),  # 219
        ({"resourceVersionMatch": "Foo", "resourceVersion": "5"}, 422, "Invalid"),  # 220
        ({"continue": "garbage"}, 400, "BadRequest"),  # 211
        ({"continue": ContinueToken(5, ("a", "b")).encode(), "resourceVersion": "5"}, 400, "BadRequest"),  # 212
        ({"sendInitialEvents": "true"}, 422, "Invalid"),  # 223
    ],
)
def test_bad_list_parameters(query: dict[str, str], code: int, reason: str) -> None:
    with pytest.raises(StatusError) as caught:
        list_options(query)
    assert (caught.value.code, caught.value.reason) == (code, reason)


def test_resource_version_zero_ignores_the_limit() -> None:
    """Recorded 215."""
    assert list_options({"resourceVersion": "0", "limit": "2"}).limit is None
    assert list_options({"resourceVersion": "7", "limit": "2"}).at == 7  # the legacy form of Exact
    assert list_options({"resourceVersion": "7"}).at is None


def test_continue_tokens_round_trip() -> None:
    token = ContinueToken(12, ("ns", "name"))
    assert ContinueToken.decode(token.encode()) == token


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"sendInitialEvents": "true"}, 422),  # recorded 593
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"}, 422),  # 594
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "5"}, 422),  # 595
        ({"resourceVersion": "abc"}, 400),  # 599 has 500
    ],
)
def test_bad_watch_parameters(query: dict[str, str], code: int) -> None:
    with pytest.raises(StatusError) as caught:
        watch_options(query)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("labels", "fields", "selected"),
    [
        ("", "", True),
        ("app=a", "", True),
        ("app!=a", "", False),
        ("app in (a,b),!x", "", True),
        ("", "spec.nodeName=n1", True),
        ("", "spec.nodeName=", False),
        ("", "status.phase!=Running", True),
        ("", "metadata.name=p,metadata.namespace=ns", True),
        ("app=a", "spec.nodeName=n2", False),
        ("", "spec.hostNetwork=false", True),
    ],
)
def test_selection(labels: str, fields: str, selected: bool) -> None:
    raw = b'{"metadata":{"name":"p","labels":{"app":"a"}},"spec":{"nodeName":"n1"},"status":{"phase":"Pending"}}'
    pods = KindTable().at("", "v1", "pods")
    assert pods is not None
    match = select(pods, labels, fields).match
    assert (match is None or match(StoredObject("pods", "ns", "p", 2, raw))) is selected


@pytest.mark.parametrize(
    ("plural", "labels", "fields", "text"),
    [
        ("pods", "app in a", "", "unable to parse requirement: found 'a' expected: '('"),  # recorded 196
        ("pods", "", "spec.priority=1", "field label not supported: spec.priority"),  # 203
        (
            "configmaps",
            "",
            "data.a=1",
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("pods", "", "metadata.name in (a)", "can't understand 'metadata.name in (a)'"),  # 204
    ],
)
def test_selectors_that_are_refused(plural: str, labels: str, fields: str, text: str) -> None:
    kind = next(kind for kind in BUILTIN if kind.plural == plural)
    with pytest.raises(StatusError) as caught:
        select(kind, labels, fields)
    assert caught.value.code == 400
    assert text in caught.value.message


def test_every_kind_has_one_place_and_one_storage_form() -> None:
    table = KindTable()
    assert len(list(table)) == len(BUILTIN) == len({kind.gvk for kind in BUILTIN})
    for kind in BUILTIN:
        storage = table.storage_kind(kind)
        assert storage.storage_version == storage.api_version, kind
        assert storage.storage_key == kind.storage_key, kind


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"a: 1\nb: [\n", r"yaml: line \d+: "),
        (b"a: 1\n---\nb: 2\n", r"yaml: (?!line None)"),
        (b"a: \xff", "yaml: not UTF-8 text: byte 3"),
    ],
)
def test_invalid_yaml_is_reported_with_its_place(raw: bytes, problem: str) -> None:
    """With its line, where it is known."""
    with pytest.raises(StatusError, match=problem) as refused:
        load_yaml(raw)
    assert refused.value.code == 400
    assert "None" not in str(refused.value)
