"""PodGroups of other schedulers: what their status says in our terms and back, and what goes back as it was
(workloads.md 2, 4).
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.decoding import decode_object
from kube_rules.errors import InputError
from kube_rules.foreign_groups import (
    COSCHEDULING_VERSION,
    FOREIGN,
    VOLCANO_VERSION,
    accepted,
    below,
    coscheduling_up,
    has_message,
    made_for,
    manifest_of,
    named_by,
    status_of,
    volcano_up,
)
from kube_rules.objects import PodGroup

CO, VC = COSCHEDULING_VERSION, VOLCANO_VERSION
SCHEDULED = "PodGroupInitiallyScheduled"
TIME = "2026-01-31T12:00:00Z"


def up(version: str, status: Any) -> list[dict[str, Any]]:
    """The conditions that a status becomes."""
    manifest = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}, "status": status}
    made = (coscheduling_up if version == CO else volcano_up)(manifest)
    assert made[FOREIGN]["apiVersion"] == version
    conditions: list[dict[str, Any]] = made.get("status", {}).get("conditions", [])
    return conditions


YES = {"type": SCHEDULED, "status": "True", "reason": "Scheduled"}
NO = {"type": SCHEDULED, "status": "False", "reason": "Unschedulable"}


def condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, **more}


@pytest.mark.parametrize(
    ("version", "status", "expected"),
    [
        *((CO, {"phase": phase}, [YES]) for phase in ("Scheduled", "Running", "Finished", "Failed")),
        *((CO, {"phase": phase}, []) for phase in ("", "Pending", "Unknown", "Inqueue")),
        (CO, {"phase": "Scheduling"}, [NO]),
        (CO, {"phase": 7}, []),
        (CO, {}, []),
        (CO, None, []),
        *((VC, {"phase": phase}, [YES]) for phase in ("Running", "Completed", "Succeeded")),
        *((VC, {"phase": phase}, []) for phase in ("Pending", "Inqueue", "", "Odd")),
        (VC, {"conditions": [condition("Scheduled")]}, [YES]),
        (VC, {"conditions": [condition("Scheduled", "False")]}, []),
        (VC, {"conditions": [condition("Unschedulable", reason="NotEnoughResources")]}, [NO]),
        (VC, {"conditions": [condition("Unschedulable", reason="NotEnoughTasks")]}, [NO]),
        (VC, {"conditions": [condition("Unschedulable", reason="NotEnoughPodsOfTask")]}, [NO]),
        (VC, {"conditions": [condition("Unschedulable", reason="Odd")]}, [{**NO, "reason": "Odd"}]),
        (VC, {"conditions": [condition("Unschedulable", reason=7)]}, [NO]),
        (VC, {"conditions": [condition("Unschedulable")]}, [NO]),
        (VC, {"conditions": [condition("Unschedulable"), condition("Scheduled")]}, [YES]),
        (VC, {"conditions": [condition("Unschedulable", message="m", lastTransitionTime=TIME)]},
         [{**NO, "message": "m", "lastTransitionTime": TIME}]),
        (VC, {"conditions": [condition("Unschedulable", message=7)]}, [NO]),
        (VC, {"conditions": [7, condition("Scheduled")]}, [YES]),
        (VC, {"conditions": 7, "phase": "Running"}, [YES]),
        (VC, {"conditions": [condition("Unschedulable")], "phase": "Running"}, [NO]),
    ],
)  # fmt: skip
def test_status_states(version: str, status: Any, expected: list[dict[str, Any]]) -> None:
    assert up(version, status) == expected


@pytest.mark.parametrize(
    ("version", "spec", "expected"),
    [
        (CO, {"minMember": 1}, {"gang": {"minCount": 1}}),
        (CO, {"minMember": 2**31 - 1}, {"gang": {"minCount": 2**31 - 1}}),
        (CO, {"minMember": None}, {"basic": {}}),
        (CO, {"minMember": 0}, "must be from 1 to 2147483647"),
        (CO, {"minMember": 2**31}, "must be from 1 to 2147483647"),
        (CO, {"minMember": "3"}, 'Invalid value: "3": must be a number of pods'),
        (CO, None, {"basic": {}}),
        (VC, {"minMember": 0}, {"basic": {}}),
        (VC, {"minMember": -1}, "must be from 0 to 2147483647"),
        (VC, {"minTaskMember": {"a": 0}}, {"basic": {}}),
        (VC, {"minTaskMember": {"a": 2**31 - 1}}, {"basic": {}}),
        (VC, {"minTaskMember": {"a": 2**31}}, "spec.minTaskMember[a]: Invalid value: 2147483648: must be from 0 to"),
        (VC, {"subGroupPolicy": [{"subGroupSize": 0, "minSubGroups": 2**31 - 1}]}, {"basic": {}}),
        (VC, {"subGroupPolicy": [{"subGroupSize": -1}]}, "spec.subGroupPolicy[0].subGroupSize: Invalid value: -1"),
        (VC, {"subGroupPolicy": [{"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]},
         {"basic": {}}),
        (VC, {"subGroupPolicy": [{"labelSelector": {"matchExpressions": [{"key": "k"}]}}]},
         'matchExpressions[0].operator: Invalid value: "": not a valid selector operator'),
    ],
)  # fmt: skip
def test_least_number_of_pods(version: str, spec: Any, expected: Any) -> None:
    manifest = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    if isinstance(expected, str):
        with pytest.raises(InputError) as caught:
            decode_object(manifest)
        assert expected in str(caught.value)
        return
    made = (coscheduling_up if version == CO else volcano_up)(manifest)
    assert made["spec"]["schedulingPolicy"] == expected
    assert isinstance(decode_object(manifest), PodGroup)


FEW = "waiting for 2 more pods"
BOUND = {"type": SCHEDULED, "status": "True", "reason": "Scheduled", "lastTransitionTime": TIME}


def refused(reason: str, message: str) -> dict[str, Any]:
    return {
        "type": SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": TIME,
    }


def volcano(phase: str, scheduled: tuple[str, str], unschedulable: tuple[str, str, str]) -> dict[str, Any]:
    one = {"type": "Scheduled", "status": scheduled[0], "reason": scheduled[1], "message": ""}
    other = dict(zip(("status", "reason", "message"), unschedulable, strict=True))
    entries = (one, {"type": "Unschedulable", **other})
    return {"phase": phase, "conditions": [{**entry, "lastTransitionTime": TIME} for entry in entries]}


READY = "tasks in gang are ready to be scheduled"


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [
        (CO, BOUND, {"phase": "Scheduled"}),
        (CO, refused("Unschedulable", FEW), {"phase": "Pending"}),
        (CO, refused("Unschedulable", "no room"), {"phase": "Scheduling"}),
        (CO, {"type": "Other", "status": "True"}, {}),
        (VC, {"type": "Other", "status": "True"}, {}),
        (VC, BOUND, volcano("Running", ("True", READY), ("False", "Scheduled", ""))),
        (
            VC,
            refused("Unschedulable", FEW),
            volcano("Inqueue", ("False", "NotEnoughTasks"), ("True", "NotEnoughTasks", FEW)),
        ),
        (
            VC,
            refused("Unschedulable", "no room"),
            volcano("Inqueue", ("False", "NotEnoughResources"), ("True", "NotEnoughResources", "no room")),
        ),
        (
            VC,
            refused("SchedulerError", "x"),
            volcano("Inqueue", ("False", "SchedulerError"), ("True", "SchedulerError", "x")),
        ),
    ],
)  # fmt: skip
def test_condition_is_written_as(version: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert status_of(version, given) == expected


@pytest.mark.parametrize("given", [BOUND, refused("Unschedulable", "no room"), refused("SchedulerError", "x")])
def test_values_written_are_read_as_they_were(given: dict[str, Any]) -> None:
    """So that it is not written again."""
    [found] = up(VC, status_of(VC, given))
    assert (found["status"], found["reason"]) == (given["status"], given["reason"])
    [other] = up(CO, status_of(CO, given))
    assert other["status"] == given["status"]


def test_group_goes_back_as_it_came() -> None:
    """Except for fields that are not read here."""
    spec = {"minMember": 3, "minTaskMember": {"a": 2}, "queue": "q", "priorityClassName": "high"}
    manifest = {
        "apiVersion": VC,
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": spec,
        "status": {"phase": "Inqueue"},
    }
    assert manifest_of(volcano_up(manifest)) == manifest
    plain = {"apiVersion": CO, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 1}}
    assert manifest_of(coscheduling_up(plain)) == plain
    empty = {"apiVersion": CO, "metadata": {"name": "g"}, "spec": {}}
    assert manifest_of(coscheduling_up(empty)) == empty


@pytest.mark.parametrize(
    ("version", "phase", "expected"),
    [
        (VC, "", {"phase": "Inqueue"}),
        (VC, "Pending", {"phase": "Inqueue"}),
        (VC, "Inqueue", {}),
        (VC, "Running", {}),
        (CO, "", {"phase": "Pending"}),
        (CO, "Pending", {}),
        (CO, "Scheduled", {}),
    ],
)
def test_group_without_a_phase_is_accepted(version: str, phase: str, expected: dict[str, str]) -> None:
    """workloads.md 4: controllers of Volcano make the pods of a group only then."""
    assert accepted(version, phase) == expected


def test_only_volcano_has_room_for_a_reason() -> None:
    assert has_message(VC)
    assert not has_message(CO)


@pytest.mark.parametrize(
    ("name", "root", "of"),
    [("g", None, "g"), ("g:", "g", "g"), ("g:a", None, "g"), ("g:a:b", None, "g"), ("g::", None, "g")],
)
def test_names_of_groups_in_a_tree_that_is_made(name: str, root: str | None, of: str) -> None:
    assert made_for(name) == root
    assert named_by(name) == of


def test_name_in_a_tree_is_made_of_its_parts() -> None:
    assert (below("g"), below("g", "a"), below("g", "a", "b")) == ("g:", "g:a", "g:a:b")


@pytest.mark.parametrize(
    ("own", "unread"),
    [
        ({}, 0),
        ({"queue": "default"}, 0),
        ({"queue": "q"}, 1),
        ({"networkTopology": {"mode": "hard"}}, 1),
        ({"queue": "q", "networkTopology": {"mode": "hard"}}, 2),
    ],
)
def test_foreign_fields_left_unread(own: dict[str, Any], unread: int) -> None:
    """workloads.md 2.2."""
    spec = {"minMember": 1, **own}
    found = decode_object({"apiVersion": VC, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
    assert isinstance(found, PodGroup)
    assert found.foreign is not None
    assert len(found.foreign.unread) == unread
