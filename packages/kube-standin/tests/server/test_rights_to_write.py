"""Which verbs each way of writing takes, for every kind (api.md 7)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from kube_standin.features import EVERY_RELEASE
from kube_standin.kinds import BUILTIN, ServedKind, subresource
from tests.server.inprocess import Answer, Plane, running
from tests.server.manifests_of_kinds import FIELDS, definition, manifest

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VERBS = ("create", "update", "patch", "delete", "deletecollection", "get")
STORED = [kind for kind in BUILTIN if kind.stored]
MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{name}"
    for name in ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply-patch+yaml")
)


class Way(NamedTuple):
    """One way to write: the request, the verbs it takes, and the status code of a user with them."""

    line: str
    verbs: tuple[str, ...]
    code: int
    body: Any = None
    content_type: str = "application/json"


SIGNERS = {"verbs": ["approve", "sign"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}
"""What decisions about certificates need besides the right to write (interfaces.md 4.9)."""


def named(verbs: tuple[str, ...]) -> str:
    return "-".join(verbs) or "none"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A server with a user for each set of verbs, on everything; and one with all of them, but on no subresource."""
    with running(features=EVERY_RELEASE) as made:
        group = "rbac.authorization.k8s.io"

        def user(name: str, rules: list[Json]) -> None:
            made.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [*rules, SIGNERS]})
            reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
            user = {"apiGroup": group, "kind": "User", "name": name}
            made.create(f"{RBAC}/clusterrolebindings",
                        {"metadata": {"name": name}, "roleRef": reference, "subjects": [user]})  # fmt: skip

        for count in range(3):
            for verbs in combinations(VERBS, count):
                user(named(verbs), [{"verbs": list(verbs), "apiGroups": ["*"], "resources": ["*"]}] if verbs else [])
        plurals = sorted({kind.plural for kind in STORED})
        user("objects-only", [{"verbs": ["*"], "apiGroups": ["*"], "resources": plurals}])
        user("empty", [])
        made.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("widgets.example.com"))
        yield made


def collection(kind: ServedKind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


def path_of(kind: ServedKind, name: str) -> str:
    return f"{collection(kind)}/{manifest(kind.api_version, kind.kind, name)['metadata']['name']}"


def ways(kind: ServedKind, there: Json) -> Iterator[Way]:
    """Every way to write an object of a kind; `there` exists, `new` does not. All are tried without lasting effect."""
    new = manifest(kind.api_version, kind.kind, "new")
    at, missing, dry = path_of(kind, "there"), path_of(kind, "new"), "?dryRun=All"
    applied = {name: value for name, value in new.items() if name != "status"}
    note = {"metadata": {"annotations": {"a": "b"}}}
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    yield Way(f"POST {collection(kind)}{dry}", ("create",), 201, new)
    yield Way(f"PUT {at}{dry}", ("update",), 200, there)
    if kind.create_on_update:
        yield Way(f"PUT {missing}{dry}", ("create", "update"), 201, new)
    else:
        yield Way(f"PUT {missing}", ("update",), 404, {**new, "metadata": {**new["metadata"], "resourceVersion": "1"}})
    for content_type, patch in ((MERGE, note), (STRATEGIC, note), (JSON_PATCH, operations)):
        yield Way(f"PATCH {at}{dry}", ("patch",), 200, patch, content_type)
        yield Way(f"PATCH {missing}", ("patch",), 404, patch, content_type)
    mine = {"apiVersion": kind.api_version, "kind": kind.kind, **note}
    yield Way(f"PATCH {at}?fieldManager=m&dryRun=All", ("patch",), 200, mine, APPLY)
    yield Way(f"PATCH {missing}?fieldManager=m&dryRun=All", ("create", "patch"), 201, applied, APPLY)
    yield Way(f"DELETE {at}{dry}", ("delete",), 200)
    if "deletecollection" in kind.verbs:
        yield Way(f"DELETE {collection(kind)}{dry}&labelSelector=a%3Dnone", ("deletecollection",), 200)


def below(kind: ServedKind) -> Iterator[Way]:
    """Every way to write a subresource."""
    at, missing = path_of(kind, "there"), path_of(kind, "new")
    for name in sorted(kind.subresources):
        for verb in subresource(kind, name).verbs:
            if verb == "get":
                continue
            line, code = {"create": "POST", "update": "PUT", "patch": "PATCH"}[verb], 0
            yield Way(f"{line} {at}/{name}?dryRun=All", (verb,), code, {}, MERGE if verb == "patch" else "")
            if verb == "patch" and name == "status":
                applied = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
                yield Way(f"PATCH {missing}/{name}?fieldManager=m", ("patch",), 404, applied, APPLY)


def asked(plane: Plane, way: Way, user: str) -> Answer:
    return plane.ask(way.line, way.body, impersonate_user=user, content_type=way.content_type)


def refused(answer: Answer, verb: str) -> None:
    code, reason, message = answer.refusal
    assert (code, reason) == (403, "Forbidden")
    assert f" cannot {verb} resource " in message


def present(plane: Plane, kind: ServedKind) -> Json:
    """Create the object that is there, if it is not yet, and read it."""
    made = plane.ask(f"POST {collection(kind)}", manifest(kind.api_version, kind.kind, "there"))
    assert made.status in (201, 409), made.body
    answer = plane.ask(f"GET {path_of(kind, 'there')}")
    assert answer.status == 200, answer.body
    found: Json = answer.json
    return found


def test_manifests_exist_for_every_kind() -> None:
    """None is left out of the table."""
    written = {f"{kind.api_version}/{kind.kind}" for kind in STORED}
    assert written - {"apiextensions.k8s.io/v1/CustomResourceDefinition"} == set(FIELDS)


CUSTOM = ("example.com", "v1", "widgets")


@pytest.mark.parametrize("place", [(k.group, k.version, k.plural) for k in STORED] + [CUSTOM], ids="-".join)
def test_each_way_of_writing_takes_its_verbs(plane: Plane, place: tuple[str, str, str]) -> None:
    """api.md 7.1, 7.2: with them it is done, without any one of them it is refused with the verb that is missing."""
    kind = plane.registry.kinds.at(*place)
    assert kind is not None
    for way in ways(kind, present(plane, kind)):
        if kind.custom and way.content_type == STRATEGIC:
            continue
        answer = asked(plane, way, named(way.verbs))
        assert answer.status == way.code, (way, answer.body)
        for verb in way.verbs:
            others = tuple(other for other in way.verbs if other != verb)
            refused(asked(plane, way, named(others)), verb)
        for more in VERBS:
            if more not in way.verbs and len(way.verbs) == 1:
                refused(asked(plane, way, named((more,))), way.verbs[0])
    gone = plane.ask(f"GET {path_of(kind, 'new')}")
    assert gone.status == 404


@pytest.mark.parametrize(
    "place", [(k.group, k.version, k.plural) for k in STORED if k.subresources] + [CUSTOM], ids="-".join
)
def test_each_subresource_is_a_right_of_its_own(plane: Plane, place: tuple[str, str, str]) -> None:
    """api.md 7.3: the right to write an object is none to write its subresources; each needs its own verb."""
    kind = plane.registry.kinds.at(*place)
    assert kind is not None
    present(plane, kind)
    for way in below(kind):
        (verb,) = way.verbs
        assert asked(plane, way, verb).status != 403, way
        if not kind.custom:
            refused(asked(plane, way, "objects-only"), verb)
        for other in VERBS:
            if other != verb:
                refused(asked(plane, way, other), verb)


def test_right_to_create_by_name_counts_for_writes_that_name_the_object(plane: Plane) -> None:
    """api.md 7.2: a PUT and an apply name what they create, a POST does not."""
    rules = [
        {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]},
        {"verbs": ["patch"], "apiGroups": [""], "resources": ["configmaps"]},
    ]
    plane.create(f"{RBAC}/clusterroles", {"metadata": {"name": "jane"}, "rules": rules})
    group = "rbac.authorization.k8s.io"
    body = {"metadata": {"name": "jane"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "jane"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}]}  # fmt: skip
    plane.create(f"{RBAC}/clusterrolebindings", body)
    maps = "/api/v1/namespaces/default/configmaps"

    def code(method: str, place: str, name: str) -> int:
        made = manifest("v1", "ConfigMap", name)
        return plane.ask(f"{method} {place}?fieldManager=m", made, impersonate_user="jane", content_type=APPLY).status

    assert code("PATCH", f"{maps}/mine", "mine") == 201
    assert code("PATCH", f"{maps}/other", "other") == 403
    assert code("POST", maps, "mine") == 403
