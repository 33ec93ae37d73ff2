"""What every object has: times and uids, conditions, owners and finalizers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from kube_standin import conditions, metadata
from kube_standin.clock import ServerClock, parse_stamp, stamp
from tests.admission.plane import SetClock

Json = dict[str, Any]

# -- time ------------------------------------------------------------------------------------------------------


def test_stamps_have_seconds_and_are_read_again() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert stamp(moment) == "2026-01-02T03:04:05Z"
    assert parse_stamp("2026-01-02T03:04:05Z") == moment.replace(microsecond=0)
    clock = ServerClock()
    assert clock.now().tzinfo is UTC
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", clock.stamp())
    assert SetClock().stamp() == "2026-01-01T00:00:00Z"


def test_uids_and_suffixes() -> None:
    """Version 4 UUIDs (RFC 9562); five characters without vowels."""
    clock = ServerClock()
    uids, suffixes = {clock.uid() for _ in range(500)}, {clock.suffix() for _ in range(50)}
    assert len(uids) == 500
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one) for one in uids
    )
    assert {one[19] for one in uids} == set("89ab")
    assert all(re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{5}", one) for one in suffixes)
    assert len(suffixes) > 45


# -- conditions ------------------------------------------------------------------------------------------------


def test_condition_is_found_by_its_type() -> None:
    status = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}, {"type": "C"}]}
    assert conditions.condition_of(status, "B") == {"type": "B", "status": "False"}
    assert [conditions.state_of(status, name) for name in "ABCD"] == ["True", "False", "", None]
    assert [conditions.is_true(status, name) for name in "ABCD"] == [True, False, False, False]
    for nothing in (None, {}, {"conditions": None}):
        assert conditions.condition_of(nothing, "A") is None


def test_condition_takes_the_place_of_the_one_of_its_type() -> None:
    status: Json = {}
    for name in "AB":
        conditions.set_condition(status, {"type": name, "status": "False"})
    conditions.set_condition(status, {"type": "A", "status": "True"})
    assert status["conditions"] == [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]
    conditions.drop_condition(status, "A")
    assert status == {"conditions": [{"type": "B", "status": "False"}]}
    conditions.drop_condition(status, "B")
    assert status == {}


@pytest.mark.parametrize("update_time", [False, True])
def test_transition_is_a_change_of_status(update_time: bool) -> None:
    """What has another reason or message alone keeps its time; what is the same is not touched."""
    status: Json = {}

    def put(state: str, reason: str, message: str, now: str) -> tuple[str, str | None]:
        made = conditions.condition("A", state, reason, message)
        conditions.put_condition(status, made, now, update_time=update_time)
        [one] = status["conditions"]
        assert (one["status"], one["reason"], one["message"]) == (state, reason, message)
        return one["lastTransitionTime"], one.get("lastUpdateTime")

    steps = [("True", "R", "m", "t1"), ("True", "R", "m", "t2"), ("True", "R", "n", "t3"), ("True", "S", "n", "t4"),
             ("False", "S", "n", "t5")]  # fmt: skip
    assert [put(*step)[0] for step in steps] == ["t1", "t1", "t1", "t1", "t5"]
    status.clear()
    assert [put(*step)[1] for step in steps] == (["t1", "t1", "t3", "t4", "t5"] if update_time else [None] * 5)


def test_conditions_of_pods_have_no_empty_fields() -> None:
    bare = {"type": "A", "status": "True", "lastProbeTime": None, "lastTransitionTime": "t"}
    assert conditions.pod_condition("A", "True", "t") == bare
    assert conditions.pod_condition("A", "True", "t", "R", "m") == {**bare, "reason": "R", "message": "m"}
    pod: Json = {}
    conditions.set_disrupted(pod, "t", "R", "m")
    assert pod["status"]["conditions"] == [{**bare, "type": "DisruptionTarget", "reason": "R", "message": "m"}]


# -- owners and finalizers -------------------------------------------------------------------------------------

OWNER: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": "p", "uid": "u", "x": 1}}
REFERENCE: Json = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def test_owners() -> None:
    assert metadata.key_of(OWNER) == ("n", "p")
    assert metadata.key_of({"metadata": {"name": "p"}}) == ("", "p")
    assert metadata.reference_to(OWNER) == REFERENCE
    controller = {**REFERENCE, "controller": True, "blockOwnerDeletion": True}
    assert metadata.owner_reference(OWNER) == controller
    orphan: Json = {"metadata": {"name": "o", "ownerReferences": [{"uid": "other", "controller": False}]}}
    assert metadata.controller_of(orphan) is None
    metadata.owned_by(OWNER)(orphan)
    assert orphan["metadata"]["ownerReferences"] == [{"uid": "other", "controller": False}, controller]
    assert metadata.controller_of(orphan) == controller
    metadata.disowned({"u"})(orphan)
    assert orphan["metadata"]["ownerReferences"] == [{"uid": "other", "controller": False}]
    metadata.disowned({"other"})(orphan)
    assert orphan == {"metadata": {"name": "o"}}
    metadata.disowned({"other"})(orphan)
    assert metadata.annotations_of(orphan) == {}


def test_finalizers_are_taken_off() -> None:
    obj: Json = {"metadata": {"finalizers": ["a", "b"]}}
    metadata.without_finalizer("a")(obj)
    assert obj == {"metadata": {"finalizers": ["b"]}}
    metadata.without_finalizer("c", "spec")(obj)
    assert obj == {"metadata": {"finalizers": ["b"]}, "spec": {"finalizers": []}}
