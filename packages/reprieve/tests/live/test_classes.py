"""Which class a group counts with as a victim (`reprieve.live.classes`)."""

from __future__ import annotations

from msgspec.structs import replace

from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.objects import PodGroup
from reprieve.live.classes import VictimClasses
from tests.building import group, priority_class


def naming(name: str, *, priority: int = 1) -> PodGroup:
    """A group that names a class for itself as a victim."""
    found = group("g", priority=priority)
    return replace(found, metadata=replace(found.metadata, annotations={PREEMPTION_PRIORITY_CLASS: name}))


def value(found: PodGroup) -> str | None:
    return found.metadata.annotations.get(PREEMPTION_PRIORITY)


def test_groups_are_set_anew_when_the_value_of_their_class_changes_and_only_then() -> None:
    """A class that comes, one of the name with another value; not one that is merely written again."""
    refused: list[str] = []
    classes = VictimClasses(lambda _, why: refused.append(why))
    assert value(classes.resolved(naming("high"))) is None
    assert len(refused) == 1
    assert classes.set_class(priority_class("other", 5)) == []
    assert classes.set_class(priority_class("high", 7)) == ["default/g"]
    assert value(classes.resolved(naming("high"))) == "7"
    assert classes.set_class(priority_class("high", 7)) == []
    assert classes.set_class(priority_class("high", 8)) == ["default/g"]
    classes.forget("default/g")
    assert classes.set_class(priority_class("high", 9)) == []


def test_refusal_is_reported_once_for_every_reason() -> None:
    refused: list[str] = []
    classes = VictimClasses(lambda _, why: refused.append(why))
    for _ in range(2):
        classes.resolved(naming("nobody"))
    assert len(refused) == 1
    classes.set_class(priority_class("nobody", 0))
    classes.resolved(naming("nobody", priority=3))  # a value below the group's own
    assert len(refused) == 2


def test_refusal_after_it_counted_is_reported_again() -> None:
    """What was reported before the class counted is history: the same reason is news once more."""
    refused: list[str] = []
    classes = VictimClasses(lambda _, why: refused.append(why))
    classes.set_class(priority_class("high", 7))
    for priority, reports in ((9, 1), (1, 1), (9, 2), (9, 2)):
        classes.resolved(naming("high", priority=priority))
        assert len(refused) == reports
    classes.forget("default/g")
    classes.resolved(naming("high", priority=9))
    assert len(refused) == 3, "another group of its name"


def test_deleted_class_changes_nothing_for_its_pods() -> None:
    """preemption.md 8: by name and UID, for as long as this process remembers."""
    classes = VictimClasses(lambda *_: None)
    classes.set_class(priority_class("high", 7))
    classes.resolved(naming("high"))
    classes.remove_class("high")
    assert value(classes.resolved(naming("high"))) == "7"
    again = naming("high")
    assert value(classes.resolved(replace(again, metadata=replace(again.metadata, uid="another")))) is None


def test_number_without_a_class_is_refused_and_forgets_the_class_of_before() -> None:
    """Any user could write it (preemption.md 4, "Options"); it does not count."""
    refused: list[str] = []
    classes = VictimClasses(lambda _, why: refused.append(why))
    classes.set_class(priority_class("high", 7))
    classes.resolved(naming("high"))
    plain = group("g", priority=1)
    numbered = replace(plain, metadata=replace(plain.metadata, annotations={PREEMPTION_PRIORITY: "2000"}))
    for _ in range(2):
        assert value(classes.resolved(numbered)) is None
    assert refused == [
        f"metadata.annotations[{PREEMPTION_PRIORITY}]: Forbidden: it is the value of the class that "
        f"{PREEMPTION_PRIORITY_CLASS} names, and none is named"
    ]
    assert classes.set_class(priority_class("high", 8)) == [], "it names no class any more"
    classes.remove_class("high")
    assert value(classes.resolved(naming("high"))) is None, "what it had before is forgotten"


def test_group_without_annotations_comes_out_as_it_is_and_is_forgotten() -> None:
    refused: list[str] = []
    classes = VictimClasses(lambda _, why: refused.append(why))
    classes.resolved(naming("nobody"))
    plain = group("g", priority=1)
    assert classes.resolved(plain) is plain
    assert classes.set_class(priority_class("nobody", 8)) == []
    classes.remove_class("nobody")
    classes.resolved(naming("nobody"))
    assert len(refused) == 2, "the refusal of before is forgotten with it"
