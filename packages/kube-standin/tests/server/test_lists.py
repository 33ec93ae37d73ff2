"""GET on collections: pages, older revisions, what is selected, and what the list says of itself.

Rules and texts: kube-apiserver 1.36 (resourceVersion, limit and continue of a list).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.server.app import AppOptions
from kube_standin.server.query import ContinueToken
from tests.server.inprocess import Plane, running
from tests.server.live import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
EVERYWHERE = "/api/v1/configmaps"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Config maps a, b, c, d in default (a and c have a label) and b in kube-system."""
    with running() as made:
        for name in "abcd":
            body = config_map(name)
            if name in "ac":
                body["metadata"]["labels"] = {"odd": "yes"}
            assert made.ask(f"POST {MAPS}", body).status == 201
        assert made.ask("POST /api/v1/namespaces/kube-system/configmaps", config_map("b")).status == 201
        yield made


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (MAPS, "abcd"),
        (EVERYWHERE, "abcdb"),
        (f"{MAPS}?labelSelector=odd", "ac"),
        (f"{MAPS}?labelSelector=!odd", "bd"),
        (f"{MAPS}?fieldSelector=metadata.name%3Db", "b"),
        (f"{MAPS}?fieldSelector=metadata.name%3Db&labelSelector=odd", ""),
        (f"{MAPS}?fieldSelector=metadata.name%3Da&labelSelector=odd", "a"),
        (f"{MAPS}?fieldSelector=metadata.name%3Dx", ""),
        (f"{MAPS}?fieldSelector=metadata.name!%3Db", "acd"),
        (f"{MAPS}?fieldSelector=metadata.namespace%3Dkube-system", ""),
        (f"{EVERYWHERE}?fieldSelector=metadata.name%3Db", "bb"),
        (f"{EVERYWHERE}?fieldSelector=metadata.namespace%3Dkube-system", "b"),
        (f"{EVERYWHERE}?fieldSelector=metadata.namespace%3Dkube-system,metadata.name%3Da", ""),
        ("/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault", ["default"]),
        ("/api/v1/namespaces?fieldSelector=metadata.name%3Dx", ""),
    ],
)
def test_lists_select(plane: Plane, url: str, found: str | list[str]) -> None:
    answer = plane.ask(f"GET {url}")
    assert (answer.status, names(answer)) == (200, list(found))
    assert answer.json["metadata"] == {"resourceVersion": str(plane.store.revision)}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_pages_are_one_list(plane: Plane, size: int) -> None:
    """Each as of the first; it says how many are left, but not where a selector hides some."""
    seen: list[str] = []
    token = ""
    revision = str(plane.store.revision)
    while True:
        answer = plane.ask(f"GET {MAPS}?limit={size}" + (f"&continue={token}" if token else ""))
        found = names(answer)
        seen += found
        metadata = answer.json["metadata"]
        assert metadata["resourceVersion"] == revision
        token = metadata.get("continue", "")
        left = 4 - len(seen)
        assert metadata.get("remainingItemCount") == (left or None)
        if not token:
            break
        assert len(found) == size
    assert seen == list("abcd")


def test_selection_has_no_remaining_item_count(plane: Plane) -> None:
    answer = plane.ask(f"GET {MAPS}?limit=1&labelSelector=odd")
    assert names(answer) == ["a"]
    assert set(answer.json["metadata"]) == {"resourceVersion", "continue"}
    token = answer.json["metadata"]["continue"]
    assert names(plane.ask(f"GET {MAPS}?limit=1&labelSelector=odd&continue={token}")) == ["c"]


def test_list_of_one_name_goes_on_from_a_token_and_shows_the_past() -> None:
    """The look-up of one name is for the present alone."""
    with running() as plane:
        before = int(plane.ask(f"POST {MAPS}", config_map("a")).json["metadata"]["resourceVersion"])
        assert plane.ask(f"DELETE {MAPS}/a").status == 200
        one = "fieldSelector=metadata.name%3Da"
        assert names(plane.ask(f"GET {MAPS}?{one}")) == []
        past = plane.ask(f"GET {MAPS}?{one}&resourceVersion={before}&resourceVersionMatch=Exact")
        assert (names(past), past.json["metadata"]["resourceVersion"]) == (["a"], str(before))
        assert plane.ask(f"POST {MAPS}", config_map("a")).status == 201
        for after, found in (("0", ["a"]), ("a", [])):
            token = ContinueToken(-1, ("default", after)).encode()
            assert names(plane.ask(f"GET {MAPS}?{one}&continue={token}")) == found


def test_list_shows_the_past_exactly_or_something_newer() -> None:
    with running() as plane:
        revisions = [
            int(plane.ask(f"POST {MAPS}", config_map(name)).json["metadata"]["resourceVersion"]) for name in "abc"
        ]
        exactly = f"resourceVersion={revisions[1]}&resourceVersionMatch=Exact"
        answer = plane.ask(f"GET {MAPS}?{exactly}")
        assert (names(answer), answer.json["metadata"]["resourceVersion"]) == (["a", "b"], str(revisions[1]))
        page = plane.ask(f"GET {MAPS}?{exactly}&limit=1")
        token = page.json["metadata"]["continue"]
        assert ContinueToken.decode(token) == ContinueToken(revisions[1], ("default", "a"))
        rest = plane.ask(f"GET {MAPS}?continue={token}")
        assert (names(rest), rest.json["metadata"]["resourceVersion"]) == (["b"], str(revisions[1]))
        newer = plane.ask(f"GET {MAPS}?resourceVersion={revisions[1]}&resourceVersionMatch=NotOlderThan")
        assert names(newer) == ["a", "b", "c"]


def test_forgotten_revision_is_expired_and_a_list_may_go_on_without_it() -> None:
    """410 with the token that goes on inconsistently."""
    with running() as plane:
        for name in "abc":
            plane.ask(f"POST {MAPS}", config_map(name))
        token = plane.ask(f"GET {MAPS}?limit=1").json["metadata"]["continue"]
        plane.ask(f"POST {MAPS}", config_map("d"))
        plane.store.compact(plane.store.revision)
        answer = plane.ask(f"GET {MAPS}?resourceVersion=2&resourceVersionMatch=Exact")
        assert answer.refusal == (410, "Expired", "The resourceVersion for the provided list is too old.")
        assert answer.json["metadata"] == {}
        answer = plane.ask(f"GET {MAPS}?limit=1&continue={token}")
        status, reason, message = answer.refusal
        assert (status, reason) == (410, "Expired")
        assert message.startswith("The provided continue parameter is too old to display a consistent list result.")
        further = answer.json["metadata"]["continue"]
        assert ContinueToken.decode(further) == ContinueToken(-1, ("default", "a"))
        answer = plane.ask(f"GET {MAPS}?continue={further}")
        assert (names(answer), answer.json["metadata"]["resourceVersion"]) == (list("bcd"), str(plane.store.revision))


def test_token_from_the_future_is_refused(plane: Plane) -> None:
    now = plane.store.revision
    assert plane.ask(f"GET {MAPS}?continue={ContinueToken(now, ('default', 'c')).encode()}").status == 200
    answer = plane.ask(f"GET {MAPS}?continue={ContinueToken(now + 1, ('default', 'c')).encode()}")
    assert answer.refusal == (
        400,
        "BadRequest",
        "invalid continue token: continue key is not valid: from the future",
    )
    nowhere = ContinueToken(0, ("default", "c")).encode()
    assert names(plane.ask(f"GET {MAPS}?continue={nowhere}")) == ["d"]


@pytest.mark.parametrize("url", [MAPS, f"{MAPS}/a"])
def test_revision_that_is_not_reached_is_waited_for_a_while(url: str) -> None:
    """interfaces.md 4.4: 504 after the time there is, as kube-apiserver; what comes meanwhile is waited for."""
    with running(AppOptions(future_wait=3.0)) as plane:
        plane.ask(f"POST {MAPS}", config_map("a"))
        ahead = plane.store.revision + 1
        assert plane.ask(f"GET {url}?resourceVersion={ahead - 1}").status == 200
        began = plane.runner.get_loop().time()
        answer = plane.ask(f"GET {url}?resourceVersion={ahead}")
        assert plane.runner.get_loop().time() - began == pytest.approx(3.0)
        assert answer.refusal == (
            504,
            "Timeout",
            f"Timeout: Too large resource version: {ahead}, current: {ahead - 1}",
        )
        assert answer.json["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }
        assert answer.header("retry-after") == "1"

        async def met() -> int:
            asking = asyncio.ensure_future(plane.asked(f"GET {url}?resourceVersion={ahead}"))
            await asyncio.sleep(1.0)
            await plane.asked(f"POST {MAPS}", config_map("b"))
            return (await asking).status

        began = plane.runner.get_loop().time()
        assert plane.run(met()) == 200
        assert plane.runner.get_loop().time() - began < 1.2


SPEC: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "on": {"type": "boolean"},
        "inner": {"type": "object", "properties": {"count": {"type": "integer"}, "share": {"type": "number"}}},
        "many": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        (".spec.name", True),
        (".spec.on", True),
        (".spec.inner.count", True),
        (".spec.inner.share", False),
        (".spec.inner", False),
        (".spec.many", False),
        (".spec.absent", False),
        (".spec.absent.deeper", False),
        (".spec.name.deeper", False),
        (".spec.name deeper", False),
        ("spec.name", False),
    ],
)
def test_custom_resources_may_be_selected_by(path: str, valid: bool) -> None:
    """Texts, booleans and whole numbers that the schema has at the path (KEP-4358); then a list asks for them."""
    with running() as plane:
        version = {"name": "v1", "served": True, "storage": True, "selectableFields": [{"jsonPath": path}],
                   "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}}  # fmt: skip
        names = {"plural": "gangs", "kind": "Gang"}
        spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
        body = {"metadata": {"name": "gangs.example.com"}, "spec": spec}
        answer = plane.ask("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        assert answer.status == (201 if valid else 422)
        if not valid:
            assert "selectableFields[0].jsonPath" in answer.json["message"]
            return
        found = plane.ask(f"GET /apis/example.com/v1/gangs?fieldSelector={path.lstrip('.')}%3Dx")
        assert (found.status, found.json["items"]) == (200, [])


@pytest.mark.parametrize(("version", "status"), [("", 200), ("0", 200), ("1", 200), ("x", 500), ("-1", 500)])
def test_revision_of_a_get(plane: Plane, version: str, status: int) -> None:
    """What is no number is a 500 of a get, as upstream (recorded 226), and a 400 of a list."""
    answer = plane.ask(f"GET {MAPS}/a?resourceVersion={version}")
    assert answer.status == status
    if status == 500:
        assert "strconv.ParseUint" in answer.json["message"]
        assert plane.ask(f"GET {MAPS}?resourceVersion={version}").status == 400


def test_lists_of_custom_resources_always_show_where_they_go_on() -> None:
    """As upstream: `continue` is there, empty where the list is whole; but only of whole objects."""
    with running() as plane:
        definition: Json = {
            "metadata": {"name": "gangs.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "gangs", "kind": "Gang"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object"}}}],
            },
        }  # fmt: skip
        assert plane.ask("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).status == 201
        gangs = "/apis/example.com/v1/namespaces/default/gangs"
        assert plane.ask(f"POST {gangs}", {"metadata": {"name": "a"}}).status == 201
        listed = plane.ask(f"GET {gangs}").json
        assert listed["metadata"]["continue"] == ""
        assert (listed["kind"], listed["apiVersion"]) == ("GangList", "example.com/v1")
        definition["metadata"]["name"] = "crews.example.com"
        definition["spec"]["names"] = {"plural": "crews", "kind": "Crew", "listKind": "Crowd", "singular": "one"}
        assert plane.ask("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).status == 201
        assert plane.ask("GET /apis/example.com/v1/crews").json["kind"] == "Crowd"
        [item] = listed["items"]
        assert (item["kind"], item["apiVersion"]) == ("Gang", "example.com/v1")
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        assert "continue" not in plane.ask(f"GET {gangs}", accept=table).json["metadata"]
        assert plane.ask(f"GET {gangs}/a/scale").json["message"] == 'gangs.example.com "a" not found'
        assert plane.ask(f"GET {gangs}/a/other").json["message"] == "the server could not find the requested resource"
        for method, url in (("PUT", "scale"), ("PATCH", "status")):
            assert plane.ask(f"{method} {gangs}/a/{url}", {}).status == 404
