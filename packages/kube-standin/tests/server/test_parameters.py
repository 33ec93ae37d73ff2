"""Targets and query parameters, each rule on both sides: what is read, what is refused, and with which words.

api.md 5: refusals are Status objects with kube-apiserver's code, reason and text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.errors import StatusError
from kube_standin.registry import WriteOptions
from kube_standin.rights import Attributes
from kube_standin.server.query import (
    ContinueToken,
    ListOptions,
    WatchOptions,
    check_timeout,
    list_options,
    manager_of,
    parse_revision,
    watch_options,
    write_options,
)
from kube_standin.server.target import Target, read_target

JANE = User("jane", ("devs",))


# -- targets ---------------------------------------------------------------------------------------------------

PODS = {"version": "v1", "resource": "pods"}
OF_A = {**PODS, "namespace": "a"}


@pytest.mark.parametrize(
    ("line", "verb", "parts"),
    [
        # Methods are verbs, of collections others than of objects.
        ("GET /api/v1/pods", "list", PODS),
        ("HEAD /api/v1/pods", "list", PODS),
        ("HEAD /api/v1/namespaces/a/pods/p", "get", {**OF_A, "name": "p"}),
        ("POST /api/v1/namespaces/a/pods", "create", OF_A),
        ("PUT /api/v1/namespaces/a/pods/p", "update", {**OF_A, "name": "p"}),
        ("PATCH /api/v1/namespaces/a/pods/p", "patch", {**OF_A, "name": "p"}),
        ("DELETE /api/v1/namespaces/a/pods/p", "delete", {**OF_A, "name": "p"}),
        ("DELETE /api/v1/namespaces/a/pods", "deletecollection", OF_A),
        ("OPTIONS /api/v1/pods", "options", PODS),
        # Two shapes of path; what is shorter is no resource.
        ("GET /api/v1", "get", {}),
        ("GET /api", "get", {}),
        ("GET /api/v1/", "get", {}),
        ("GET /apis/apps/v1/", "get", {}),
        ("GET /apis/apps/v1", "get", {}),
        ("HEAD /apis", "head", {}),
        ("POST /other/v1/pods/p/x", "post", {}),
        ("GET /apis/apps/v1/deployments", "list", {"group": "apps", "version": "v1", "resource": "deployments"}),
        # A namespace is a scope and an object; status and finalize are its own, anything else is inside.
        ("GET /api/v1/namespaces", "list", {"version": "v1", "resource": "namespaces"}),
        ("GET /api/v1/namespaces/a", "get", {"version": "v1", "namespace": "a", "resource": "namespaces", "name": "a"}),
        *(
            (
                f"GET /api/v1/namespaces/a/{sub}",
                "get",
                {"version": "v1", "namespace": "a", "resource": "namespaces", "name": "a", "subresource": sub},
            )
            for sub in ("status", "finalize")
        ),
        (
            "GET /api/v1/namespaces/a/status/b",
            "get",
            {"version": "v1", "namespace": "a", "resource": "status", "name": "b"},
        ),
        ("GET /api/v1/namespaces/a/pods/p/status", "get", {**OF_A, "name": "p", "subresource": "status"}),
        ("GET /api/v1/namespaces/a/pods/p/proxy/x/y", "get", {**OF_A, "name": "p", "subresource": "proxy/x/y"}),
        ("GET /api/v1/namespaces/a/pods/", "list", OF_A),
        # The old paths of watches.
        ("GET /api/v1/watch/pods", "watch", {**PODS, "watch": True}),
        ("GET /api/v1/watch/namespaces/a/pods/p", "watch", {**OF_A, "name": "p", "watch": True}),
        ("GET /api/v1/watch", "list", {"version": "v1", "resource": "watch"}),
        ("DELETE /api/v1/watch/namespaces/a/pods", "deletecollection", OF_A),
        # A parameter makes a watch of a list, of nothing else.
        ("GET /api/v1/pods?watch", "list", PODS),
        ("GET /api/v1/pods?watch=", "list", PODS),
        ("GET /api/v1/pods?watch=0", "list", PODS),
        ("GET /api/v1/pods?watch=False", "list", PODS),
        ("GET /api/v1/pods?watch=1", "watch", {**PODS, "watch": True}),
        ("GET /api/v1/pods?watch=true", "watch", {**PODS, "watch": True}),
        ("GET /api/v1/namespaces/a/pods/p?watch=true", "get", {**OF_A, "name": "p"}),
        ("POST /api/v1/namespaces/a/pods?watch=true", "create", OF_A),
        ("DELETE /api/v1/namespaces/a/pods?watch=true", "deletecollection", OF_A),
    ],
)  # fmt: skip
def test_request_line_is_about(line: str, verb: str, parts: dict[str, Any]) -> None:
    """kube-apiserver's RequestInfo."""
    method, url = line.split(" ")
    path, _, query = url.partition("?")
    found = read_target(method, path, query.encode())
    assert found == Target(method, path, verb, found.query, **parts)


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (b"", {}),
        (b"a=1&b=&c", {"a": "1", "b": "", "c": ""}),
        (b"labelSelector=a%3Db%2Cc&labelSelector=d", {"labelSelector": "d"}),
    ],
)
def test_parameters_of_a_request_line(query: bytes, read: dict[str, str]) -> None:
    """Empty ones are there; of several of one name the last counts."""
    assert read_target("GET", "/api/v1/pods", query).query == read


P = "/api/v1/namespaces/a/pods"


def _equating(verb: str, name: str, *fields: tuple[str, str]) -> Attributes:
    return Attributes(verb, "", "pods", "", "a", name, field_values=fields)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("GET /version", Attributes("get", path="/version")),
        ("POST /version", Attributes("post", path="/version")),
        (
            "PUT /apis/apps/v1/namespaces/a/deployments/d/scale",
            Attributes("update", "apps", "deployments", "scale", "a", "d"),
        ),
        ("GET /api/v1/pods?watch=1", Attributes("watch", "", "pods")),
        # A list or watch of one name has that name; a comma that belongs to a value separates nothing.
        (f"GET {P}?fieldSelector=metadata.name%3Dp", _equating("list", "p", ("metadata.name", "p"))),
        (f"GET {P}?fieldSelector=metadata.name%3D%3Dp&watch=1", _equating("watch", "p", ("metadata.name", "p"))),
        (f"DELETE {P}?fieldSelector=metadata.name%3Dp", _equating("deletecollection", "", ("metadata.name", "p"))),
        (f"GET {P}?fieldSelector=metadata.name%3Da/b", _equating("list", "", ("metadata.name", "a/b"))),
        (f"GET {P}?fieldSelector=metadata.name!%3Dp", _equating("list", "")),
        (f"GET {P}?fieldSelector=metadata.name!%3Dx%5C,metadata.name%3Dp", _equating("list", "")),
        (f"GET {P}?fieldSelector=metadata.name", _equating("list", "")),
    ],
)
def test_question_to_the_authorizer(line: str, asked: Attributes) -> None:
    """interfaces.md 5.18."""
    method, url = line.split(" ")
    path, _, query = url.partition("?")
    assert read_target(method, path, query.encode()).attributes == asked


# -- writes ----------------------------------------------------------------------------------------------------


WORDS = ("true", "True", "1")


@pytest.mark.parametrize(
    ("verb", "query", "read"),
    [
        ("create", {}, {}),
        ("update", {"dryRun": "", "fieldValidation": "", "fieldManager": ""}, {}),
        ("create", {"dryRun": "All"}, {"dry_run": True}),
        *(("create", {"fieldValidation": word}, {"validation": word}) for word in ("Ignore", "Warn", "Strict")),
        ("update", {"fieldManager": "m"}, {"manager": "m"}),
        ("create", {"fieldManager": "é" * 64}, {"manager": "é" * 64}),
        ("apply", {"fieldManager": "m"}, {"manager": "m"}),
        *(("apply", {"fieldManager": "m", "force": word}, {"manager": "m", "force": True}) for word in WORDS),
        *(("apply", {"fieldManager": "m", "force": word}, {"manager": "m"}) for word in ("false", "", "yes")),
        ("create", {"force": "true"}, {"force": True}),
    ],
)  # fmt: skip
def test_parameters_of_a_write(verb: str, query: dict[str, str], read: dict[str, Any]) -> None:
    """Defaults: checked with a warning, done, owned by the manager that the User-Agent names."""
    method = "patch" if verb == "apply" else verb
    found = write_options(method, query, JANE, "kubectl/v1.36", apply=verb == "apply")
    sent: dict[str, Any] = {name: value for name, value in query.items() if name != "force" and value}
    if "dryRun" in sent:
        sent["dryRun"] = [sent["dryRun"]]
    wanted = {"manager": "kubectl", "dry_run": False, "validation": "Warn", "force": False, "sent": sent, **read}
    assert found == WriteOptions(user=JANE, **wanted)


NOT_PRINTABLE = 'fieldManager: Invalid value: "a\\u0007": should only contain printable characters'


@pytest.mark.parametrize(
    ("verb", "query", "message"),
    [
        ("create", {"dryRun": "x"}, 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]: '
         'supported values: "All"'),
        ("update", {"fieldValidation": "x"}, 'UpdateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported '
         'value: "x": supported values: "", "Ignore", "Strict", "Warn"'),
        ("patch", {"fieldManager": "é" * 64 + "x"}, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: '
         "may not be more than 128 bytes"),
        ("create", {"fieldManager": "a\a"}, f'CreateOptions.meta.k8s.io "" is invalid: {NOT_PRINTABLE}'),
        ("apply", {}, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply '
         "patch"),
        ("patch", {"force": ""}, 'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for '
         "non-apply patch"),
    ],
)  # fmt: skip
def test_parameters_of_a_write_that_are_refused(verb: str, query: dict[str, str], message: str) -> None:
    with pytest.raises(StatusError) as refused:
        write_options("patch" if verb == "apply" else verb, query, JANE, "", apply=verb == "apply")
    error = refused.value
    assert (error.code, error.reason, error.message) == (422, "Invalid", message)


@pytest.mark.parametrize(
    ("query", "agent", "manager"),
    [
        ({"fieldManager": "given"}, "kubectl/v1", "given"),
        ({}, "kubectl/v1.36 (linux/amd64)", "kubectl"),
        ({}, "python", "python"),
        ({}, "", "unknown"),
        ({}, "/v1", "unknown"),
        ({}, "x" * 129 + "/1", "x" * 128),
    ],
)
def test_owner_of_written_fields(query: dict[str, str], agent: str, manager: str) -> None:
    """The parameter, else the User-Agent up to its first slash, of which 128 characters count."""
    assert manager_of(query, agent) == manager


# -- lists -----------------------------------------------------------------------------------------------------

TOKEN = ContinueToken(7, ("ns", "name"))
NOT_OLDER = {"resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ({}, ListOptions()),
        ({"labelSelector": "a=b", "fieldSelector": "c=d"}, ListOptions(labels="a=b", fields="c=d")),
        ({"limit": ""}, ListOptions()),
        ({"limit": "0"}, ListOptions()),
        ({"limit": "1"}, ListOptions(limit=1)),
        ({"resourceVersion": "0"}, ListOptions()),
        ({"resourceVersion": "0", "limit": "3"}, ListOptions()),
        ({"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan", "limit": "3"}, ListOptions()),
        ({"resourceVersion": "7"}, ListOptions(at_least=7)),
        ({"resourceVersion": "7", "limit": "3"}, ListOptions(limit=3, at=7, at_least=7)),
        ({"resourceVersion": "7", "resourceVersionMatch": "Exact"}, ListOptions(at=7, at_least=7)),
        ({"resourceVersion": "7", **NOT_OLDER, "limit": "3"}, ListOptions(limit=3, at_least=7)),
        ({"continue": TOKEN.encode(), "limit": "3"}, ListOptions(limit=3, token=TOKEN)),
        ({"continue": TOKEN.encode(), "resourceVersion": "0"}, ListOptions(token=TOKEN)),
    ],
)  # fmt: skip
def test_parameters_of_a_list(query: dict[str, str], read: ListOptions) -> None:
    """kube-apiserver's table of resourceVersion, resourceVersionMatch and limit."""
    assert list_options(query) == read


LIST = 'ListOptions.meta.k8s.io "" is invalid: '
NO_NUMBER = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"limit": "-1"}, 422, f"{LIST}limit: Invalid value: -1: must be greater than or equal to 0"),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"limit": "9" * 20}, 400, f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
        ({"sendInitialEvents": ""}, 422,
         f"{LIST}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ({"resourceVersion": "x"}, 400,
         f"invalid resource version: {NO_NUMBER}"),
        ({"resourceVersionMatch": "Exact"}, 422,
         f"{LIST}resourceVersionMatch: Forbidden: "
         "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "x", "resourceVersion": "5"}, 422,
         f'{LIST}resourceVersionMatch: Unsupported value: "x": supported values: "Exact", "NotOlderThan", ""'),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422,
         f'{LIST}resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "5", "continue": TOKEN.encode()}, 422,
         f"{LIST}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"),
        ({"continue": TOKEN.encode(), "resourceVersion": "5"}, 400,
         "specifying resource version is not allowed when using continue"),
    ],
)  # fmt: skip
def test_parameters_of_a_list_that_are_refused(query: dict[str, str], code: int, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        list_options(query)
    assert (refused.value.code, refused.value.message) == (code, message)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("0", 0), ("9" * 19, int("9" * 19))])
def test_revisions(text: str, number: int) -> None:
    assert parse_revision(text) == number


@pytest.mark.parametrize("text", ["9" * 20, str(2**64), "9" * 5000, "-1", "+1", "٣", "²", " 1", "1 ", "x" * 5000])
def test_text_that_is_no_revision(text: str) -> None:
    problem = "value out of range" if text.startswith(("9", "184")) else "invalid syntax"
    with pytest.raises(ValueError, match=rf"strconv\.ParseUint: parsing .{{1,100}}: {problem}$"):
        parse_revision(text)


def encoded(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


VERSION = "meta.k8s.io/v1"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (encoded({"v": VERSION, "rv": 12, "start": "ns/a/b"}), ContinueToken(12, ("ns", "a/b"))),
        (encoded({"v": VERSION, "rv": -1, "start": "/a"}), ContinueToken(-1, ("", "a"))),
        (encoded({"v": VERSION, "rv": 2**63 - 1, "start": "ns/a"}), ContinueToken(2**63 - 1, ("ns", "a"))),
    ],
)
def test_continue_tokens(text: str, read: ContinueToken) -> None:
    """A token is what an answer of this server had, padded or not."""
    assert ContinueToken.decode(text) == read
    assert ContinueToken.decode(read.encode()) == read


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (base64.urlsafe_b64encode(b"x1").decode(), "invalid character 'x' looking for beginning of value"),
        (base64.urlsafe_b64encode(b"\xff1").decode(), r"invalid character '\xff' looking for beginning of value"),
        (encoded({"v": VERSION, "rv": 12, "start": "a" * 2000 + "/" + "b" * 2000}), "too long"),
        (encoded({"v": VERSION, "rv": 2**63, "start": "ns/a"}), "unknown form"),
        (encoded({"v": VERSION, "rv": -(2**63), "start": "ns/a"}), "unknown form"),
        (encoded({"v": VERSION, "rv": True, "start": "ns/a"}), "unknown form"),
        (encoded({"v": VERSION, "rv": "12", "start": "ns/a"}), "unknown form"),
        (encoded({"v": VERSION, "rv": 12, "start": "a"}), "unknown form"),
        (encoded({"v": VERSION, "rv": 12, "start": 5}), "unknown form"),
        (encoded({"v": "meta.k8s.io/v9", "rv": 12, "start": "ns/a"}), "unknown form"),
    ],
)
def test_continue_tokens_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(StatusError) as refused:
        ContinueToken.decode(text)
    assert refused.value.code == 400
    assert refused.value.message == f"invalid continue token: continue key is not valid: {problem}"


@pytest.mark.parametrize(("length", "refused"), [(4096, False), (4097, True)])
def test_continue_token_has_a_length(length: int, refused: bool) -> None:
    """interfaces.md 5.3: whatever a client chooses has a bound."""
    with pytest.raises(StatusError) as caught:
        ContinueToken.decode("e" + "3" * (length - 1))
    assert ("too long" in caught.value.message) is refused


# -- watches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ({}, WatchOptions()),
        ({"labelSelector": "a=b", "fieldSelector": "c=d"}, WatchOptions(labels="a=b", fields="c=d")),
        ({"resourceVersion": "0"}, WatchOptions()),
        ({"resourceVersion": "5"}, WatchOptions(since=5)),
        *(({"sendInitialEvents": word, **NOT_OLDER}, WatchOptions(initial=True)) for word in ("true", "True", "1")),
        *(({"sendInitialEvents": word, **NOT_OLDER}, WatchOptions(initial=False)) for word in ("false", "0")),
        ({"sendInitialEvents": ""}, WatchOptions()),
        *(({"allowWatchBookmarks": word}, WatchOptions(bookmarks=True)) for word in ("true", "True", "1")),
        *(({"allowWatchBookmarks": word}, WatchOptions()) for word in ("false", "0", "")),
        ({"timeoutSeconds": "7"}, WatchOptions(timeout=7.0)),
        ({"timeoutSeconds": ""}, WatchOptions()),
        ({"timeoutSeconds": "0"}, WatchOptions()),
        ({"timeoutSeconds": "-7"}, WatchOptions()),
        ({"timeoutSeconds": str(2**40)}, WatchOptions(timeout=30 * 24 * 3600.0)),
    ],
)
def test_parameters_of_a_watch(query: dict[str, str], read: WatchOptions) -> None:
    assert watch_options(query) == read


UNLESS = (
    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
)
REQUIRES = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (NOT_OLDER, 422, f"{LIST}{UNLESS}"),
        ({"sendInitialEvents": "false"}, 422, f"{LIST}{REQUIRES}"),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, 422,
         f'{LIST}[{REQUIRES}, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]'),
        ({"resourceVersion": "x"}, 400, f"invalid resource version: {NO_NUMBER}"),
        ({"timeoutSeconds": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ],
)  # fmt: skip
def test_parameters_of_a_watch_that_are_refused(query: Mapping[str, str], code: int, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        watch_options(query)
    assert (refused.value.code, refused.value.message) == (code, message)


# -- the timeout of a request ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        *((f"GET /version?timeout={text}", False) for text in ("", "0s", "3m", "1m30s", "-1s", "1.5h")),
        ("GET /version?timeout=invalid", True),
        ("DELETE /api/v1/namespaces/a/pods/p?timeout=30", True),
        (f"GET /version?timeout={'9' * 400}s", True),
        ("GET /api/v1/pods?timeout=x", True),
        ("GET /api/v1/pods?watch=1&timeout=x", False),
        ("GET /api/v1/namespaces/a/pods/p/log?timeout=x", False),
    ],
)
def test_timeout_is_a_duration(line: str, refused: bool) -> None:
    """interfaces.md 4.7."""
    method, _, url = line.partition(" ")
    path, _, query = url.partition("?")
    target = read_target(method, path, query.encode())
    if not refused:
        return check_timeout(target)
    with pytest.raises(StatusError, match="invalid timeout specified in the request URL") as refusal:
        check_timeout(target)
    assert refusal.value.code == 400
    return None
