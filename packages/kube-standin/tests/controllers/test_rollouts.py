"""One step of a rollout from a given state: sizes, revisions, names, status (upstream: pkg/controller/deployment).

Replica sets and their statuses are made by hand, and the deployment controller runs alone: what it does depends on
nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kube_rules.controllers.amounts import share_of
from kube_rules.controllers.pods import template_hash
from kube_standin.controllers.availability import available
from kube_standin.controllers.views import Meta, PodView
from kube_standin.metadata import owner_reference
from tests.controllers.world import Json, World, owner, template

ANNOTATION = "deployment.kubernetes.io/"
Sets = Sequence[tuple[str, int, int]]


def with_image(image: str, **metadata: Any) -> Json:
    made = template()
    made["metadata"] |= metadata
    made["spec"]["containers"][0]["image"] = image
    return made


def state(replicas: int, sets: Sets, *, scaled_from: int | None = None, most: int | None = None, **spec: Any) -> World:
    """Deployment `a` of image `new` with these replica sets (image, replicas, available), oldest first, unseen."""
    world = World(())
    made = world.create(owner("Deployment", replicas=replicas, pod=with_image("new"), **spec))
    for number, (image, size, count) in enumerate(sets, 1):
        desired = str(replicas if scaled_from is None else scaled_from)
        marks = {ANNOTATION + "revision": str(number), ANNOTATION + "desired-replicas": desired}
        replica_set = owner("ReplicaSet", f"a-{image}", pod=with_image(image), replicas=size)
        replica_set["metadata"] |= {
            "labels": {"app": "a"},
            "annotations": marks | ({ANNOTATION + "max-replicas": str(most)} if most else {}),
            "ownerReferences": [owner_reference(made)],
        }
        world.create(replica_set)
        counts = {"replicas": size, "readyReplicas": count, "availableReplicas": count}
        world.set_status("apps/v1", "ReplicaSet", f"a-{image}", counts)
        world.set_clock.forward(1)
    return world


def sizes(world: World) -> dict[str, int]:
    """Replicas by image."""
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"]
        for one in world.all("apps/v1", "ReplicaSet")
    }


def step(world: World) -> World:
    return world.restarted(("deployment",))


def deployment(world: World) -> Json:
    return world.get("apps/v1", "Deployment", "a")


def rolling(surge: int | str, unavailable: int | str) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("replicas", "strategy", "sets", "expected"),
    [
        # The new set gets what there may be more; the old ones give what there may be less.
        (10, rolling(2, 2), [("old", 10, 10), ("new", 0, 0)], (8, 4)),
        (10, rolling(3, 0), [("old", 10, 10), ("new", 0, 0)], (10, 3)),
        (10, rolling(3, 0), [("old", 10, 10), ("new", 3, 2)], (8, 5)),
        (10, rolling(0, 3), [("old", 10, 10), ("new", 0, 0)], (7, 3)),
        (10, rolling(0, 3), [("old", 7, 7), ("new", 3, 3)], (4, 6)),
        (10, rolling(0, 3), [("old", 7, 7), ("new", 3, 2)], (5, 5)),
        (10, rolling("25%", "25%"), [("old", 10, 10), ("new", 0, 0)], (8, 5)),
        (4, {}, [("old", 4, 4), ("new", 0, 0)], (3, 2)),
        # Neither more nor less would never move: then one may be missing.
        (3, rolling(0, "25%"), [("old", 3, 3), ("new", 0, 0)], (2, 1)),
        # What is not available goes first, from the oldest set on.
        (10, rolling(0, 2), [("bad", 5, 0), ("old", 5, 5), ("new", 0, 0)], (3, 5, 2)),
        (10, rolling(0, 2), [("old", 5, 5), ("bad", 5, 0), ("new", 0, 0)], (5, 3, 2)),
        (10, rolling(0, 4), [("bad", 2, 0), ("worse", 2, 0), ("old", 6, 6), ("new", 0, 0)], (0, 0, 6, 4)),
        # As many as there may be already: nothing grows; more of the new ones than wanted: they shrink.
        (4, rolling(1, 0), [("old", 4, 4), ("new", 1, 0)], (4, 1)),
        (4, rolling(1, 0), [("old", 1, 1), ("new", 6, 4)], (0, 4)),
        (4, rolling(1, 1), [("old", 0, 0), ("new", 3, 3)], (0, 4)),
        # No more may be missing than there are.
        (1, rolling(0, 5), [("old", 1, 1), ("new", 0, 0)], (0, 1)),
        (0, rolling(1, 1), [("old", 2, 2), ("new", 0, 0)], (0, 0)),
        # Recreate: nothing new before the old is gone.
        (3, {"type": "Recreate"}, [("old", 3, 3), ("new", 0, 0)], (0, 3)),
        (3, {"type": "Recreate"}, [("old", 3, 3)], (0, 3)),
    ],
)
def test_sizes(replicas: int, strategy: Json, sets: Sets, expected: tuple[int, ...]) -> None:
    names = [image for image, _size, _available in sets]
    names += ["new"] * ("new" not in names)
    found = sizes(step(state(replicas, sets, strategy=strategy)))
    assert tuple(found[name] for name in names) == expected


@pytest.mark.parametrize(
    ("before", "replicas", "strategy", "sets", "expected"),
    [
        # One set alone, or none: it gets all.
        (4, 7, {}, [("new", 4, 4)], (7,)),
        (4, 7, {}, [("old", 4, 4), ("new", 0, 0)], (7, 0)),
        # A rollout that is done but for empty ones.
        (4, 3, rolling(1, 1), [("old", 2, 2), ("new", 3, 3)], (0, 3)),
        # Several: in proportion, the largest takes what is left over; of equal ones the newer when there is more to
        # give, the older when there is less.
        (10, 20, rolling(2, 2), [("old", 8, 8), ("new", 4, 0)], (15, 7)),
        (10, 5, rolling(0, 1), [("old", 5, 5), ("new", 5, 0)], (2, 3)),
        (10, 15, rolling(0, 1), [("old", 5, 5), ("new", 5, 0)], (7, 8)),
        (12, 6, rolling(0, 3), [("a", 3, 3), ("b", 3, 3), ("new", 6, 0)], (2, 2, 2)),
        (10, 0, rolling(5, 0), [("old", 5, 5), ("new", 5, 0)], (0, 0)),
        (5, 6, rolling(4, 0), [("old", 5, 5), ("new", 5, 0)], (5, 5)),
        (10, 9, {"type": "Recreate"}, [("old", 5, 5), ("new", 5, 0)], (5, 5)),
    ],
)
def test_sizes_when_the_number_changes_on_the_way(
    before: int, replicas: int, strategy: Json, sets: Sets, expected: tuple[int, ...]
) -> None:
    world = state(replicas, sets, scaled_from=before, strategy=strategy, paused=True)
    found = sizes(step(world))
    assert tuple(found[image] for image, _size, _available in sets) == expected


@pytest.mark.parametrize(
    ("most", "expected"),
    [(12, (15, 7)), (24, (18, 4)), (6, (18, 4)), (0, (15, 7))],
)
def test_part_is_that_of_all_there_might_have_been(most: int, expected: tuple[int, int]) -> None:
    """Upstream: the annotation `max-replicas`; no set gets more than there is to give."""
    sets = [("old", 8, 8), ("new", 4, 0)]
    world = state(20, sets, scaled_from=10, most=most, strategy=rolling(2, 2), paused=True)
    found = sizes(step(world))
    assert (found["old"], found["new"]) == expected


@pytest.mark.parametrize("text", ["x", "-1", "\u00b2", "9" * 5000, ""])
def test_annotations_that_are_no_number(text: str) -> None:
    world = state(20, [("old", 8, 8), ("new", 4, 0)], scaled_from=10, strategy=rolling(2, 2), paused=True)
    marks = {ANNOTATION + "max-replicas": text, ANNOTATION + "revision": text}
    world.patch("apps/v1", "ReplicaSet", "a-old", {"metadata": {"annotations": marks}})
    assert sizes(step(world)) == {"old": 15, "new": 7}


def test_marks_on_the_sets_say_what_they_were_sized_for() -> None:
    """So that a change of the number differs from a rollout."""
    world = step(state(10, [("old", 10, 10)], strategy=rolling(3, 2)))
    found = world.all("apps/v1", "ReplicaSet")
    marks = [
        (one["metadata"]["annotations"][ANNOTATION + "desired-replicas"],
         one["metadata"]["annotations"][ANNOTATION + "max-replicas"])
        for one in found
    ]  # fmt: skip
    assert marks == [("10", "13"), ("10", "13")]


@pytest.mark.parametrize(("most", "sets", "expected"), [(12, [("old", 10, 10), ("new", 0, 0)], (8, 4)),
                                                        (99, [("old", 0, 0), ("new", 10, 10)], (0, 10))])  # fmt: skip
def test_sets_are_sized_and_marked_whichever_of_the_two_is_new(
    most: int, sets: Sets, expected: tuple[int, int]
) -> None:
    """A set that is marked well may have the wrong size, and one of the right size other marks."""
    world = step(state(10, sets, most=most, strategy=rolling(2, 2)))
    assert (sizes(world)["old"], sizes(world)["new"]) == expected
    assert (notes(world, "new")["desired-replicas"], notes(world, "new")["max-replicas"]) == ("10", "12")


def events(world: World) -> set[str]:
    return {one["message"] for one in world.all("v1", "Event") if one["reason"] == "ScalingReplicaSet"}


def test_scale_of_kinds() -> None:
    world = step(state(10, [("old", 10, 10)], strategy=rolling(2, 2)))
    [made] = [one["metadata"]["name"] for one in world.all("apps/v1", "ReplicaSet") if one["spec"]["replicas"] == 4]
    assert events(world) == {
        f"Scaled up replica set {made} from 0 to 2",
        "Scaled down replica set a-old from 10 to 8",
        f"Scaled up replica set {made} from 2 to 4",
    }


# -- revisions and names


def notes(world: World, image: str) -> Json:
    [found] = [
        one
        for one in world.all("apps/v1", "ReplicaSet")
        if one["spec"]["template"]["spec"]["containers"][0]["image"] == image
    ]
    held: Json = found["metadata"]["annotations"]
    return {key.removeprefix(ANNOTATION): value for key, value in held.items()}


def test_new_set_has_the_next_revision_and_the_deployment_has_it_too() -> None:
    world = step(state(1, [("one", 0, 0), ("two", 1, 1)]))
    assert notes(world, "new")["revision"] == "3"
    assert deployment(world)["metadata"]["annotations"][ANNOTATION + "revision"] == "3"
    assert "revision-history" not in notes(world, "new")


def test_set_that_is_new_again_gets_the_highest_revision_and_remembers_its_own() -> None:
    """What `kubectl rollout history` reads."""
    world = state(1, [("new", 0, 0), ("one", 0, 0), ("two", 1, 1)])
    world = step(world)
    assert (notes(world, "new")["revision"], notes(world, "new")["revision-history"]) == ("4", "1")
    assert world.condition(deployment(world), "Progressing")["reason"] in ("FoundNewReplicaSet", "ReplicaSetUpdated")
    for image in ("two", "new"):
        world.patch("apps/v1", "Deployment", "a", {"spec": {"template": with_image(image)}})
        world.settle()
    assert (notes(world, "new")["revision"], notes(world, "new")["revision-history"]) == ("6", "1,4")
    assert notes(world, "two")["revision-history"] == "3"


def test_revision_that_is_no_number_counts_as_none() -> None:
    world = state(1, [("one", 1, 1)])
    world.patch("apps/v1", "ReplicaSet", "a-one", {"metadata": {"annotations": {ANNOTATION + "revision": "x"}}})
    assert notes(step(world), "new")["revision"] == "1"


def test_annotations_of_the_deployment_are_those_of_its_new_set() -> None:
    """But for kubectl's and the controller's own."""
    world = state(1, [("new", 1, 1)])
    given = {"mine": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}", ANNOTATION + "revision": "9"}
    world.patch("apps/v1", "Deployment", "a", {"metadata": {"annotations": given}})
    world = step(world)
    assert notes(world, "new") == {"mine": "1", "revision": "1", "desired-replicas": "1", "max-replicas": "2"}
    world.patch("apps/v1", "Deployment", "a", {"metadata": {"annotations": {"mine": "2"}}})
    assert notes(world.settle(), "new")["mine"] == "2"


def test_hash_is_no_part_of_the_template() -> None:
    """A set's template differs from the deployment's by the label with it, and is its template all the same."""
    world = step(state(2, [("old", 2, 2)]))
    [made] = [one for one in world.all("apps/v1", "ReplicaSet") if one["metadata"]["name"] != "a-old"]
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert made["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": digest}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "a", "pod-template-hash": digest}
    assert made["spec"].get("minReadySeconds", 0) == 0
    assert len(step(world).all("apps/v1", "ReplicaSet")) == 2


def test_name_that_is_taken_makes_another_hash() -> None:
    first = step(state(1, []))
    [taken] = [one["metadata"]["name"] for one in first.all("apps/v1", "ReplicaSet")]
    world = state(1, [])
    other = owner("ReplicaSet", taken, pod=with_image("other"))
    other["spec"]["selector"] = {"matchLabels": {"b": "c"}}
    other["spec"]["template"]["metadata"]["labels"] = {"b": "c"}
    world.create(other)
    world = step(world).forward(1)
    names = {one["metadata"]["name"] for one in world.all("apps/v1", "ReplicaSet")}
    assert len(names) == 2
    assert deployment(world)["status"]["collisionCount"] == 1


def test_hashes_of_templates() -> None:
    made = with_image("i")
    digests = [template_hash(made, collisions) for collisions in range(3)]
    assert len(set(digests)) == 3
    assert {len(digest) for digest in digests} == {10}
    assert template_hash(dict(reversed(made.items()))) == digests[0], "whatever the order of keys"
    assert template_hash(with_image("j")) not in digests


@pytest.mark.parametrize(
    ("controller", "labels", "deleted", "adopted"),
    [
        (None, {"app": "a"}, False, True),
        (None, {"app": "b"}, False, False),
        ("other", {"app": "a"}, False, False),
        (None, {"app": "a"}, True, False),
    ],
)
def test_sets_without_a_controller_are_adopted(
    controller: str | None, labels: Json, deleted: bool, adopted: bool
) -> None:
    world = state(1, [])
    stray = owner("ReplicaSet", "stray", pod=template(labels), replicas=0)
    stray["spec"]["selector"]["matchLabels"] = labels
    stray["metadata"]["labels"] = labels
    if controller:
        stray["metadata"]["ownerReferences"] = [
            {"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
        ]
    if deleted:
        world.patch("apps/v1", "Deployment", "a", {"metadata": {"finalizers": ["example.com/wait"]}})
        world.delete("apps/v1", "Deployment", "a")
    world = step(world)
    world.create(stray)
    found = world.settle().get("apps/v1", "ReplicaSet", "stray")["metadata"].get("ownerReferences") or []
    uid = deployment(world)["metadata"]["uid"]
    assert (uid in [one["uid"] for one in found]) is adopted


# -- history


@pytest.mark.parametrize(
    ("limit", "left"),
    [(0, ["new"]), (1, ["c", "new"]), (2, ["b", "c", "new"]), (3, ["a", "b", "c", "new"]), (9, ["a", "b", "c", "new"])],
)
def test_only_so_many_empty_sets_are_kept(limit: int, left: list[str]) -> None:
    world = state(1, [("a", 0, 0), ("b", 0, 0), ("c", 0, 0), ("new", 1, 1)], revisionHistoryLimit=limit)
    assert sorted(sizes(step(world))) == sorted(left)


@pytest.mark.parametrize(
    "sets",
    [
        [("a", 0, 0), ("new", 1, 0)],  # not available yet
        [("a", 0, 0), ("b", 1, 1), ("new", 1, 1)],  # one too many
    ],
)
def test_history_is_kept_until_a_rollout_is_done(sets: Sets) -> None:
    assert "a" in sizes(step(state(1, sets, revisionHistoryLimit=0, strategy=rolling(1, 0))))


def test_set_that_still_has_pods_is_kept() -> None:
    world = state(1, [("a", 0, 0), ("new", 1, 1)], revisionHistoryLimit=0)
    world.set_status("apps/v1", "ReplicaSet", "a-a", {"replicas": 1})
    assert sorted(sizes(step(world))) == ["a", "new"]


# -- status


def test_counts_and_conditions() -> None:
    world = step(state(4, [("old", 3, 3), ("new", 2, 1)], strategy=rolling(1, 0)))
    found = deployment(world)
    status = found["status"]
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    assert tuple(status[name] for name in counts) == (5, 2, 4, 4, 1)
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert world.condition(found, "Available")["reason"] == "MinimumReplicasAvailable"


@pytest.mark.parametrize(("count", "status"), [(3, "True"), (2, "False")])
def test_available_is_what_the_strategy_demands(count: int, status: str) -> None:
    world = step(state(4, [("new", 4, count)], strategy=rolling(0, 1)))
    found = world.condition(deployment(world), "Available")
    assert found["status"] == status
    assert found["reason"] == ("MinimumReplicasAvailable" if count == 3 else "MinimumReplicasUnavailable")


def test_set_that_cannot_make_pods_is_told_and_forgotten() -> None:
    world = state(1, [("new", 1, 0)])
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no room"}
    world.set_status("apps/v1", "ReplicaSet", "a-new", {"conditions": [failed]})
    world = step(world)
    found = world.condition(deployment(world), "ReplicaFailure")
    assert {name: found[name] for name in failed} == failed
    world.set_status("apps/v1", "ReplicaSet", "a-new", {"conditions": None})
    assert world.condition(deployment(world.settle()), "ReplicaFailure") == {}


def progressing(world: World) -> tuple[str, str]:
    found = world.condition(deployment(world), "Progressing")
    return found.get("status", ""), found.get("reason", "")


def touch(world: World, text: str) -> World:
    world.patch("apps/v1", "Deployment", "a", {"metadata": {"labels": {"touched": text}}})
    return world.settle()


def test_deadline_is_counted_from_the_last_progress() -> None:
    world = step(state(2, [("new", 2, 0)], progressDeadlineSeconds=30))
    assert progressing(world) == ("True", "ReplicaSetUpdated")
    world.set_clock.forward(20)
    world.set_status("apps/v1", "ReplicaSet", "a-new", {"availableReplicas": 1, "readyReplicas": 1})
    assert progressing(world.settle()) == ("True", "ReplicaSetUpdated")
    world.set_clock.forward(29)
    assert progressing(touch(world, "late")) == ("True", "ReplicaSetUpdated")
    world.set_clock.forward(1)
    assert progressing(touch(world, "too-late")) == ("False", "ProgressDeadlineExceeded")
    world.set_status("apps/v1", "ReplicaSet", "a-new", {"availableReplicas": 2, "readyReplicas": 2})
    assert progressing(world.settle()) == ("True", "NewReplicaSetAvailable")


def test_deadline_is_noticed_without_a_look() -> None:
    world = step(state(2, [("new", 2, 0)], progressDeadlineSeconds=30))
    assert progressing(world.forward(30)) == ("True", "ReplicaSetUpdated")
    assert progressing(world.forward(1)) == ("False", "ProgressDeadlineExceeded")


@pytest.mark.parametrize(
    ("sets", "reason"), [([], "NewReplicaSetCreated"), ([("new", 0, 0), ("old", 0, 0)], "FoundNewReplicaSet")]
)
def test_deadline_is_counted_from_the_new_set_if_nothing_moves_at_all(sets: Sets, reason: str) -> None:
    """That is made, or is found to be the new one again; upstream: `lastUpdateTime` of Progressing."""
    world = step(state(2, sets, progressDeadlineSeconds=30))
    assert progressing(world) == ("True", reason)
    world.forward(29)
    assert progressing(touch(world, "late"))[0] == "True"
    assert progressing(world.forward(2)) == ("False", "ProgressDeadlineExceeded")


def test_deadline_of_a_rollout_that_goes_on_after_a_pause_is_noticed() -> None:
    world = step(state(2, [("new", 2, 0)], progressDeadlineSeconds=30, paused=True))
    world.forward(100)
    world.patch("apps/v1", "Deployment", "a", {"spec": {"paused": False}})
    assert progressing(world.forward(30)) == ("Unknown", "DeploymentResumed")
    assert progressing(world.forward(1)) == ("False", "ProgressDeadlineExceeded")


def test_without_a_deadline_nothing_is_said_of_progress() -> None:
    world = step(state(2, [("new", 2, 0)], progressDeadlineSeconds=2**31 - 1))
    assert progressing(world) == ("", "")


def test_old_pods_that_go_are_progress() -> None:
    world = step(state(2, [("old", 2, 0), ("new", 1, 0)], progressDeadlineSeconds=30, strategy=rolling(1, 0)))
    world.set_clock.forward(20)
    world.set_status("apps/v1", "ReplicaSet", "a-old", {"replicas": 1})
    world.settle()
    assert world.condition(deployment(world), "Progressing")["lastUpdateTime"].endswith("00:00:22Z")


def test_pause_stops_the_clock() -> None:
    world = step(state(2, [("new", 2, 0)], progressDeadlineSeconds=30))
    world.patch("apps/v1", "Deployment", "a", {"spec": {"paused": True}})
    assert progressing(world.settle()) == ("Unknown", "DeploymentPaused")
    assert progressing(world.forward(100)) == ("Unknown", "DeploymentPaused")
    world.patch("apps/v1", "Deployment", "a", {"spec": {"paused": False}})
    assert progressing(world.settle()) == ("Unknown", "DeploymentResumed")
    world.set_clock.forward(29)
    assert progressing(touch(world, "late")) == ("Unknown", "DeploymentResumed")
    world.set_clock.forward(1)
    assert progressing(touch(world, "too-late")) == ("False", "ProgressDeadlineExceeded")


def test_finished_rollout_that_loses_a_pod_is_no_new_one() -> None:
    world = step(state(2, [("new", 2, 2)], progressDeadlineSeconds=30))
    assert progressing(world) == ("True", "NewReplicaSetAvailable")
    world.set_status("apps/v1", "ReplicaSet", "a-new", {"availableReplicas": 1, "readyReplicas": 1})
    assert progressing(world.forward(100)) == ("True", "NewReplicaSetAvailable")


def test_deployment_that_is_deleted_makes_nothing_and_tells_its_counts() -> None:
    world = state(2, [("old", 2, 1)])
    world.patch("apps/v1", "Deployment", "a", {"metadata": {"finalizers": ["example.com/wait"]}})
    world.delete("apps/v1", "Deployment", "a")
    world = step(world)
    assert sizes(world) == {"old": 2}
    assert deployment(world)["status"]["availableReplicas"] == 1


# -- what counts as available


@pytest.mark.parametrize(
    ("value", "total", "up", "found"),
    [("25%", 10, True, 3), ("25%", 10, False, 2), ("50%", 10, True, 5), ("50%", 10, False, 5), ("0%", 10, True, 0),
     ("100%", 7, False, 7), ("101%", 100, True, 101), (3, 10, True, 3), (0, 10, False, 0), ("1%", 1, True, 1)],
)  # fmt: skip
def test_shares(value: int | str, total: int, up: bool, found: int) -> None:
    assert share_of(value, total, up=up) == found


def test_share_is_a_percentage() -> None:
    with pytest.raises(ValueError, match="'3' is neither a number nor a percentage"):
        share_of("3", 10, up=True)


def seen(ready: bool, since: str | None) -> PodView:
    return PodView(Meta(), "", "", "Running", ready, since, False)


@pytest.mark.parametrize(
    ("least", "found"),
    [(0, (4, None)), (9, (4, None)), (10, (4, None)), (11, (3, 1.0)), (20, (3, 10.0)), (21, (2, 1.0)),
     (30, (2, 10.0)), (31, (1, 1.0))],
)  # fmt: skip
def test_when_pods_are_available(least: int, found: tuple[int, float | None]) -> None:
    """Ready for so long; one without a time since when counts; others never. The time is that of the next one."""
    world = World(())
    world.set_clock.forward(30)
    since = ("2026-01-01T00:00:20Z", None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z")
    pods = [*(seen(True, one) for one in since), seen(False, "2026-01-01T00:00:00Z")]
    assert available(pods, least, world.set_clock.now()) == found
