"""Which of several objects of one name counts, and what a composite without a priority gets: without a server.

workloads.md 1, composite.md 1, 2; `reprieve.live.namesakes`, `reprieve.live.composites`, `reprieve.live.remarks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kube_rules.group_sources import DEFAULT_SOURCES
from kube_rules.meta import KubernetesObject, ObjectRef
from kube_rules.objects import CompositePodGroup, PodGroup
from kube_rules.work_annotations import ClassTerms, class_terms
from reprieve.client.discovery import Resource
from reprieve.client.informer import Change, ChangeKind
from reprieve.live.composites import Composites
from reprieve.live.namesakes import Namesakes
from reprieve.live.remarks import AnnotationRemarks
from tests.building import World, annotated, composite, group, pod, priority_class

NATIVE = Resource("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", True)
OURS = Resource("scheduling.reprieve.dev", "v1beta1", "compositepodgroups", "CompositePodGroup", True)
ADDED, UPDATED, DELETED = ChangeKind.ADDED, ChangeKind.UPDATED, ChangeKind.DELETED
GROUPS = {name: Resource(name, "v1", "podgroups", "PodGroup", True) for name in ("strong.io", "weak.io", "weaker.io")}


# -- namesakes ---------------------------------------------------------------------------------------------------------


def added(name: str, uid: str = "") -> Change[PodGroup]:
    return Change(ADDED, group(name, uid=uid or f"uid-{name}"), None)


def counting(found: Namesakes[PodGroup], name: str = "default/g") -> tuple[str, str] | None:
    best = found.counting(name)
    return (best[0].metadata.uid, best[1].group) if best is not None else None


@pytest.mark.parametrize("order", [("strong.io", "weak.io", "weaker.io"), ("weaker.io", "weak.io", "strong.io")])
def test_one_of_the_strongest_api_group_counts_whichever_came_first(order: tuple[str, ...]) -> None:
    warnings: list[str] = []
    found: Namesakes[PodGroup] = Namesakes(tuple(GROUPS), warnings.append)
    assert counting(found) is None
    for name in order:
        found.take(added("g", name), GROUPS[name])
    assert counting(found) == ("strong.io", "strong.io")
    seen = []
    for name in ("strong.io", "weaker.io", "weak.io"):
        change = added("g", name)
        found.take(Change(DELETED, change.object, change.object), GROUPS[name])
        seen.append(counting(found))
    assert seen == [("weak.io", "weak.io"), ("weak.io", "weak.io"), None]


def test_each_that_does_not_count_is_warned_of_with_the_one_that_does() -> None:
    warnings: list[str] = []
    found: Namesakes[PodGroup] = Namesakes(tuple(GROUPS), warnings.append)
    for name in ("weaker.io", "weak.io", "strong.io"):
        found.take(added("g"), GROUPS[name])
    there = "PodGroup default/g exists as podgroups.v1.{}, which is used, and as podgroups.v1.{}, which is ignored"
    assert warnings == [
        there.format("weak.io", "weaker.io"),
        there.format("strong.io", "weak.io"),
        there.format("strong.io", "weaker.io"),
    ]


def test_names_are_apart_and_a_change_replaces_what_was_there() -> None:
    found: Namesakes[PodGroup] = Namesakes(tuple(GROUPS), lambda text: None)
    found.take(added("g", "one"), GROUPS["weak.io"])
    found.take(added("h", "other"), GROUPS["weak.io"])
    found.take(Change(UPDATED, group("g", uid="two"), group("g", uid="one")), GROUPS["weak.io"])
    assert [counting(found, f"default/{name}") for name in "gh"] == [("two", "weak.io"), ("other", "weak.io")]
    found.take(Change(DELETED, group("missing"), group("missing")), GROUPS["weak.io"])
    assert counting(found, "default/missing") is None


# -- composites --------------------------------------------------------------------------------------------------------


@dataclass
class Intake:
    """An engine that gets composites, and the changes of those that count."""

    world: World = field(default_factory=World)
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.composites = Composites(
            self.world.engine,
            effects=self.world.virtual.keep_effects,
            listener=lambda change, resource: self.changes.append(
                (change.kind.name, change.object.metadata.uid, resource.group)
            ),
            refused=lambda _, why: self.refusals.append(why),
            warn=lambda text: None,
        )

    def take(self, kind: ChangeKind, item: CompositePodGroup, resource: Resource = OURS) -> None:
        self.composites.take(Change(kind, item, None if kind is ADDED else item), resource, 1.0)

    def leaf(self, name: str, parent: str, priority: int | None) -> None:
        """A group below a composite appears, or has another priority."""
        self.world.engine.set(group(name, min_count=1, parent=parent, priority=priority), 1.0)
        self.composites.settled(f"default/{parent}", 1.0)

    def leaf_gone(self, name: str, parent: str) -> None:
        self.world.engine.remove(ObjectRef("PodGroup", f"default/{name}"), 1.0)
        self.composites.settled(f"default/{parent}", 1.0)

    def priority(self, name: str) -> int | None:
        state = self.world.engine.cluster.trees.composites.get(f"default/{name}")
        return state.spec.priority if state is not None and state.spec is not None and state.spec.has_priority else None


def named(name: str, uid: str, least: int = 1) -> CompositePodGroup:
    made = composite(name, min_groups=least)
    return replace(made, metadata=replace(made.metadata, uid=uid))


def test_changes_of_the_composite_that_counts_are_reported_once_the_engine_has_it() -> None:
    """The native one counts; where another one begins to count the one before is gone for its followers."""
    intake = Intake()
    for kind, uid, where in (
        (ADDED, "ours", OURS),
        (UPDATED, "ours", OURS),
        (ADDED, "native", NATIVE),
        (UPDATED, "ours", OURS),
        (UPDATED, "native", NATIVE),
        (DELETED, "native", NATIVE),
        (DELETED, "ours", OURS),
    ):
        intake.take(kind, named("c", uid), where)
    assert [(kind, uid) for kind, uid, _ in intake.changes] == [
        ("ADDED", "ours"),
        ("UPDATED", "ours"),
        ("DELETED", "ours"),
        ("ADDED", "native"),
        ("UPDATED", "native"),
        ("DELETED", "native"),
        ("ADDED", "ours"),
        ("DELETED", "ours"),
    ]
    assert intake.world.engine.cluster.trees.composites == {}


def test_composite_that_does_not_count_and_goes_changes_nothing() -> None:
    intake = Intake()
    intake.take(ADDED, named("c", "native", 2), NATIVE)
    intake.take(ADDED, named("c", "ours", 5), OURS)
    intake.take(DELETED, named("c", "ours", 5), OURS)
    assert intake.changes == [("ADDED", "native", NATIVE.group)]
    assert intake.world.engine.cluster.trees.composites["default/c"].min_count == 2


def test_composite_without_a_priority_follows_the_groups_in_it() -> None:
    """It rises and falls with them, whether they come before it or after it."""
    intake = Intake()
    intake.leaf("a", "c", 3)
    intake.take(ADDED, composite("c", priority=None))
    seen = [intake.priority("c")]
    for name, priority in (("b", 9), ("a", 5), ("b", 7), ("b", -1)):
        intake.leaf(name, "c", priority)
        seen.append(intake.priority("c"))
    intake.leaf_gone("a", "c")
    seen.append(intake.priority("c"))
    assert seen == [3, 9, 9, 7, 5, -1]


def test_priorities_rise_through_all_levels_that_have_none_of_their_own() -> None:
    intake = Intake()
    intake.take(ADDED, composite("top", priority=None))
    intake.take(ADDED, composite("middle", priority=None, parent="top"))
    intake.take(ADDED, composite("own", priority=4, parent="top"))
    assert [intake.priority(name) for name in ("top", "middle", "own")] == [4, None, 4]
    intake.leaf("low", "middle", 8)
    intake.leaf("beside", "own", 20)
    assert [intake.priority(name) for name in ("top", "middle", "own")] == [8, 8, 4]
    intake.take(DELETED, composite("middle", priority=None, parent="top"))
    assert [intake.priority(name) for name in ("top", "own")] == [4, 4]


def test_composite_that_gets_a_priority_of_its_own_keeps_that() -> None:
    intake = Intake()
    intake.take(ADDED, composite("c", priority=None))
    intake.leaf("a", "c", 3)
    intake.take(UPDATED, composite("c", priority=1))
    intake.leaf("a", "c", 9)
    assert intake.priority("c") == 1
    intake.take(UPDATED, composite("c", priority=None))
    assert intake.priority("c") == 9


def test_composites_in_a_circle_end_as_well() -> None:
    intake = Intake()
    for name, parent in (("a", "b"), ("b", "a")):
        intake.take(ADDED, composite(name, priority=None, parent=parent))
    intake.leaf("low", "a", 3)
    assert intake.priority("a") == 3


def test_composite_is_as_old_as_its_object() -> None:
    """scheduling.md 3.1: creation decides between equals; one without a time came first."""
    intake = Intake()
    made = composite("c", priority=None)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for name, stamp in (("old", None), ("new", at)):
        meta = replace(made.metadata, name=name, uid=name, creation_timestamp=stamp)
        intake.take(ADDED, replace(made, metadata=meta))
    intake.leaf("x", "new", 3)
    created = {key: state.created for key, state in intake.world.engine.cluster.trees.composites.items()}
    assert created == {"default/old": 0.0, "default/new": at.timestamp()}


# -- remarks -----------------------------------------------------------------------------------------------------------


def test_problem_is_reported_when_it_appears_and_again_only_after_it_was_gone() -> None:
    """cost.md 2; workloads.md 1.5, 2: by object, and for each problem by itself."""
    reports: list[tuple[str, str]] = []

    def report(item: KubernetesObject, problem: str) -> None:
        reports.append((item.name, problem.partition("]")[0].rpartition("/")[2]))

    remarks = AnnotationRemarks(report, DEFAULT_SOURCES, {})

    def inspect(name: str, **terms: str) -> list[tuple[str, str]]:
        reports.clear()
        remarks.inspect(pod(name, annotations=annotated(**terms)))
        return list(reports)

    assert inspect("a") == []
    assert inspect("a", restart_cost="soon") == [("a", "restart-cost")]
    assert inspect("b", restart_cost="soon") == [("b", "restart-cost")]
    assert inspect("a", restart_cost="soon") == []
    assert inspect("a", restart_cost="soon", last_checkpoint="x") == [("a", "last-checkpoint")]
    assert inspect("a", last_checkpoint="x") == []
    assert inspect("a", last_checkpoint="x", restart_cost="soon") == [("a", "restart-cost")]
    assert inspect("a") == []
    assert inspect("a", last_checkpoint="x") == [("a", "last-checkpoint")]
    remarks.forget(pod("a"))
    assert inspect("a", last_checkpoint="x") == [("a", "last-checkpoint")]
    assert inspect("b", restart_cost="soon") == []


def test_grant_that_is_exceeded_is_reported_once_for_each_grant() -> None:
    """cost.md 7.6: with the object, the value and the bound; nothing once it is granted, or the object is gone."""
    reports: list[str] = []
    classes: dict[str, ClassTerms] = {}
    remarks = AnnotationRemarks(
        lambda item, problem: reports.append(f"{item.name}: {problem.partition('; ')[0]}"), DEFAULT_SOURCES, classes
    )

    def granted(longest: str) -> list[str]:
        reports.clear()
        classes["long"] = class_terms(annotated(max_minimum_runtime=longest))
        remarks.classes_changed()
        return list(reports)

    long = pod("p", priority_class="long", annotations=annotated(minimum_runtime="9h"))
    remarks.inspect(long)
    exceeds = 'p: metadata.annotations[scheduling.reprieve.dev/minimum-runtime]: Forbidden: "9h" exceeds the granted'
    assert reports == [f"{exceeds} 1h"]
    assert granted("2h") == [f"{exceeds} 2h"]
    assert granted("2h") == []
    assert granted("9h") == []
    assert granted("8h") == [f"{exceeds} 8h"]
    remarks.forget(long)
    assert granted("7h") == []


def test_composite_counts_as_a_victim_by_the_class_that_it_names() -> None:
    """preemption.md 4, "Options", composite.md 4.3: as the class comes, changes and goes; too low, it is refused."""
    intake = Intake()

    def counts() -> int | None:
        return intake.world.engine.cluster.trees.composites["default/c"].victim_priority

    made = composite("c", priority=3)
    made = replace(made, metadata=replace(made.metadata, annotations=annotated(preemption_priority_class="high")))
    made = replace(made, spec=replace(made.spec, priority_class_name="granting"))
    intake.world.add(priority_class("granting", 3, annotated(max_preemption_priority="9")))
    intake.take(ADDED, made)
    assert (counts(), len(intake.refusals)) == (3, 1)
    for value, expected in ((9, 9), (7, 7), (2, 3)):
        intake.composites.set_class(priority_class("high", value), 1.0)
        assert counts() == expected
    assert "its value 2 is lower than the priority 3" in intake.refusals[-1]
    intake.composites.set_class(priority_class("high", 8), 1.0)
    intake.composites.remove_class("high")
    intake.take(UPDATED, replace(made, metadata=replace(made.metadata, labels={"a": "b"})))
    assert counts() == 8
