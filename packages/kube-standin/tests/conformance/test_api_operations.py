"""What conformance asks of every kind that is stored: found in discovery, and each verb does what it says.

Facts of upstream's specs "should support X API operations", "should run through the lifecycle of X" and "should
validate X status endpoints" (test/e2e), which do the same for one kind each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.features import EVERY_RELEASE
from kube_standin.kinds import BUILTIN, ServedKind, subresource
from tests.server.inprocess import Plane, running
from tests.server.manifests_of_kinds import manifest

Json = dict[str, Any]
KINDS = [kind for kind in BUILTIN if kind.stored]
MERGE = "application/merge-patch+json"
LABEL = "e2e-test"
_CONDITION = {"type": "StatusPatched", "status": "True", "reason": "E2E", "message": "Set by a test"}
_DATED = {**_CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}
STATUSES: dict[str, Json] = {
    "Ingress": {"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}},
    "Service": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}},
    "CronJob": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    "VolumeAttachment": {"attached": True},
    "PersistentVolume": {"message": "StatusPatched", "reason": "E2E"},
    "PersistentVolumeClaim": {"conditions": [_CONDITION]},
    "PodDisruptionBudget": {
        "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1, "observedGeneration": 1,
    },
    "ResourceQuota": {"hard": {"cpu": "1"}},
    "ReplicationController": {"replicas": 0, "conditions": [_CONDITION]},
    "ReplicaSet": {"replicas": 0, "conditions": [_CONDITION]},
    "StatefulSet": {"replicas": 0, "conditions": [_CONDITION]},
    "DaemonSet": {
        "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        "conditions": [_CONDITION],
    },
    "Namespace": {"phase": "Active", "conditions": [_CONDITION]},
    "Pod": {"phase": "Pending", "conditions": [_CONDITION]},
    "autoscaling/v1/HorizontalPodAutoscaler": {"currentReplicas": 1, "desiredReplicas": 2},
    "ResourceClaim": {"allocation": {"devices": {"config": [{"source": "FromClass", "requests": ["r"]}]}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running(features=EVERY_RELEASE) as made:
        yield made


def _base(kind: ServedKind) -> str:
    start = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    return f"{start}/namespaces/default/{kind.plural}" if kind.namespaced else f"{start}/{kind.plural}"


def _labelled(kind: ServedKind, name: str) -> Json:
    made = manifest(kind.api_version, kind.kind, f"{kind.version}-{name}")
    made["metadata"]["labels"] = {LABEL: f"{kind.version}-{kind.plural}"}
    return made


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_kinds_are_in_discovery(plane: Plane, kind: ServedKind) -> None:
    """The group, its version, the resource and its subresources with their verbs."""
    if kind.group:
        groups = {group["name"]: group for group in plane.ask("GET /apis").json["groups"]}
        assert kind.api_version in {version["groupVersion"] for version in groups[kind.group]["versions"]}
        alone = plane.ask(f"GET /apis/{kind.group}").json
        assert alone == {"kind": "APIGroup", "apiVersion": "v1", **groups[kind.group]}
    start = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    rows = {row["name"]: row for row in plane.ask(f"GET {start}").json["resources"]}
    assert set(rows[kind.plural]["verbs"]) == set(kind.verbs)
    for name in kind.subresources:
        assert set(rows[f"{kind.plural}/{name}"]["verbs"]) == set(subresource(kind, name).verbs)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_every_verb_of_a_kind(plane: Plane, kind: ServedKind) -> None:
    """create, get, list, watch, patch, update, delete and deletecollection, in the order of the specs."""
    plane.run(_lifecycle(plane, kind))


async def _lifecycle(plane: Plane, kind: ServedKind) -> None:
    base = _base(kind)
    chosen = f"labelSelector={LABEL}={kind.version}-{kind.plural}"
    begin = (await plane.asked(f"GET {base}?{chosen}")).json
    assert begin["items"] == []
    at = begin["metadata"]["resourceVersion"]
    async with plane.watching(f"GET {base}?watch=true&{chosen}&resourceVersion={at}") as watch:
        assert (await watch.start())["status"] == 200

        async def seen(expected: str, name: str, **annotations: str) -> Json:
            while True:  # the watch ends with a failure if it does not come
                event = await watch.event()
                found: Json = event["object"]
                metadata = found["metadata"]
                same = (event["type"], metadata["name"]) == (expected, name)
                if same and annotations.items() <= (metadata.get("annotations") or {}).items():
                    return found
                assert kind.kind in ("APIService", "CustomResourceDefinition"), event  # their statuses are written

        first, second, third = [_labelled(kind, name) for name in "abc"]
        names = []
        for body in (first, second, third):
            made = await plane.asked(f"POST {base}", body)
            assert made.status == 201, made.body
            names.append(made.json["metadata"]["name"])
            assert (await seen("ADDED", names[-1]))["metadata"]["uid"] == made.json["metadata"]["uid"]
        path = f"{base}/{names[0]}"
        got = (await plane.asked(f"GET {path}")).json
        listed = (await plane.asked(f"GET {base}?{chosen}")).json
        assert [item["metadata"]["name"] for item in listed["items"]] == sorted(names)
        if kind.namespaced:
            everywhere = await plane.asked(f"GET {base.replace('/namespaces/default', '')}?{chosen}")
            assert len(everywhere.json["items"]) == 3
        patch = {"metadata": {"annotations": {"patched": "true"}, "labels": {"more": "patched"}}}
        patched = await plane.asked(f"PATCH {path}", patch, content_type=MERGE)
        assert (patched.status, patched.json["metadata"]["annotations"]["patched"]) == (200, "true")
        await seen("MODIFIED", names[0], patched="true")
        stale = await plane.asked(f"PUT {path}", got)
        assert stale.refusal[:2] == (409, "Conflict")
        fresh = (await plane.asked(f"GET {path}")).json
        fresh["metadata"].setdefault("annotations", {})["updated"] = "true"
        updated = await plane.asked(f"PUT {path}", fresh)
        assert (updated.status, updated.json["metadata"]["annotations"]["updated"]) == (200, "true"), updated.body
        await seen("MODIFIED", names[0], updated="true")
        if "status" in kind.subresources:
            await _status(plane, kind, path)
            await seen("MODIFIED", names[0])
        await _deletes(plane, kind, base, chosen, names)


async def _status(plane: Plane, kind: ServedKind, path: str) -> None:
    status = STATUSES.get(f"{kind.api_version}/{kind.kind}") or STATUSES.get(kind.kind, {"conditions": [_DATED]})
    if not status:
        return
    patched = await plane.asked(f"PATCH {path}/status", {"status": status}, content_type=MERGE)
    assert patched.status == 200, patched.body
    assert _within(status, patched.json["status"]), patched.json["status"]
    for line in (f"GET {path}/status", f"GET {path}"):
        assert _within(status, (await plane.asked(line)).json["status"])


def _within(part: Any, whole: Any) -> bool:
    """Whether all of a part is in the whole."""
    if isinstance(part, dict):
        known = isinstance(whole, dict) and part.keys() <= whole.keys()
        return known and all(_within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return all(any(_within(one, other) for other in whole) for one in part)
    return bool(part == whole)


async def _deletes(plane: Plane, kind: ServedKind, base: str, chosen: str, names: list[str]) -> None:
    gone = await plane.asked(f"DELETE {base}/{names[0]}", {"gracePeriodSeconds": 0})
    assert gone.status == 200, gone.body
    if kind.kind == "Namespace":
        return
    if "deletecollection" in kind.verbs:
        many = await plane.asked(f"DELETE {base}?{chosen}", {"gracePeriodSeconds": 0})
        assert many.status == 200, many.body
    assert "deletecollection" in kind.verbs
    left = (await plane.asked(f"GET {base}?{chosen}")).json["items"]
    assert all(item["metadata"].get("deletionTimestamp") and item["metadata"].get("finalizers") for item in left)
