"""The object that a record is about: by owner, and by the object that exists (observability.md 4.9)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from reprieve.cli.evidence import Evidence, ExplainTarget, OwnerEvidence, belongs, tells_of_object
from reprieve.cli.explain_text import explanation_of, state_of
from reprieve.decisions.records import DecisionRecord, EntityReference, UnitRecord
from tests.building import group, pod
from tests.cli.test_explain_text import preempting, record

AT = datetime(2026, 7, 1, 14, 4, 44, tzinfo=UTC).timestamp()


def unit(
    name: str, *, kind: str = "Pod", uid: str = "", pods: dict[str, str] | None = None, owner: str = ""
) -> UnitRecord:
    named = pods or {f"default/{name}": uid}
    return UnitRecord(
        unit=f"default/{name}",
        kind=kind,
        outcome="Evicted",
        priority=1,
        pods=len(named),
        pod_names=tuple(named),
        nodes=("n1",),
        uid=uid,
        pod_uids=tuple(named.values()),
        owners=(owner,) if owner else (),
    )


def eviction_of(*units: UnitRecord) -> DecisionRecord:
    high = EntityReference(kind="Pod", namespace="default", name="high", uid="uid-high", priority=9)
    return record(entity=high, result="Preempting", preemption=preempting(evicted=list(units), state="Done"))


def story_of(found: Evidence, told: DecisionRecord) -> list[str]:
    found.records = [one for one in (told,) if belongs(found, one)]
    return [section.title for section in explanation_of(found) if section.title.startswith("Preempted by")]


@pytest.mark.parametrize(("uid", "told"), [("uid-a", True), ("uid-of-another", False)])
@pytest.mark.parametrize("how", ["alone", "in a group"])
def test_pod_that_was_recreated_does_not_inherit_the_eviction_of_its_predecessor(
    uid: str, told: bool, how: str
) -> None:
    item = pod("a", node="n1", group="crew" if how != "alone" else None)
    assert item.metadata.uid == "uid-a"
    evicted = unit("a", uid=uid) if how == "alone" else unit("crew", kind="PodGroup", uid="g", pods={"default/a": uid})
    found = Evidence(ExplainTarget("Pod", "default", "a"), pod=item, source="s")
    if how != "alone":
        crew = group("crew", min_count=1)
        found.group = replace(crew, metadata=replace(crew.metadata, uid="g"))
    assert bool(story_of(found, eviction_of(evicted))) is told


@pytest.mark.parametrize(("uid", "told"), [("uid-crew", True), ("before", False)])
def test_group_that_was_recreated_does_not_inherit_either(uid: str, told: bool) -> None:
    crew = group("crew", min_count=1)
    crew = replace(crew, metadata=replace(crew.metadata, uid="uid-crew"))
    found = Evidence(ExplainTarget("PodGroup", "default", "crew"), group=crew, source="s")
    assert bool(story_of(found, eviction_of(unit("crew", kind="PodGroup", uid=uid, pods={"default/x": "u"})))) is told
    failed = record(entity=EntityReference(kind="PodGroup", namespace="default", name="crew", uid=uid, priority=1))
    assert belongs(found, failed) is told


@pytest.mark.parametrize(("seconds", "told"), [(-60, True), (60, False)])
def test_record_without_a_uid_is_of_an_object_that_was_there_by_then(seconds: int, told: bool) -> None:
    item = pod("a", node="n1")
    stamp = datetime.fromtimestamp(AT + seconds, UTC)
    item = replace(item, metadata=replace(item.metadata, creation_timestamp=stamp))
    found = Evidence(ExplainTarget("Pod", "default", "a"), pod=item, source="s")
    told_of = eviction_of(unit("a", uid=""))
    assert belongs(found, told_of) is told
    assert tells_of_object(found, told_of) is told


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (OwnerEvidence("Job", "default", "train", 0, 0, exists=False), True),
        (OwnerEvidence("Job", "default", "train", 0, 0, created=AT - 60), True),
        (OwnerEvidence("Job", "default", "train", 0, 0, created=AT + 60), False),
        (OwnerEvidence("Job", "default", "other", 0, 0, exists=False), False),
        (OwnerEvidence("Job", "team", "train", 0, 0, exists=False), False),
        (OwnerEvidence("Deployment", "default", "train", 0, 0, exists=False), False),
    ],
    ids=["gone", "without pods", "recreated", "another name", "another namespace", "another kind"],
)
def test_owner_is_told_of_the_eviction_of_its_pods(owner: OwnerEvidence, told: bool) -> None:
    """Also when it has no pods any more; not one that was recreated."""
    found = Evidence(ExplainTarget(owner.kind, owner.namespace, owner.name), owner=owner, source="s")
    titles = story_of(found, eviction_of(unit("train-x", uid="u", owner="job default/train")))
    assert bool(titles) is told
    if told:
        sentence = state_of(found)[1]
        wanted = "has no pods: they were preempted." if owner.exists else "is gone: its pods were preempted."
        assert sentence == f"job default/train {wanted}"
        [section] = [one for one in explanation_of(found) if one.title in titles]
        assert "Evicted from job default/train: pod default/train-x (1 pod)." in section.notes


def test_object_that_is_gone_has_the_records_of_its_name() -> None:
    found = Evidence(ExplainTarget("Pod", "default", "a"), source="s")
    assert story_of(found, eviction_of(unit("a", uid="whichever")))


def test_unit_that_was_not_evicted_is_nobodys_story() -> None:
    kept = replace(unit("a", uid="uid-a", owner="job default/train"), outcome="NotEvicted")
    owner = OwnerEvidence("Job", "default", "train", 0, 0, exists=False)
    assert (
        story_of(Evidence(ExplainTarget("Job", "default", "train"), owner=owner, source="s"), eviction_of(kept)) == []
    )
    assert (
        story_of(Evidence(ExplainTarget("Pod", "default", "a"), pod=pod("a", node="n1"), source="s"), eviction_of(kept))
        == []
    )
