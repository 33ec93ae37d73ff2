"""Device claims in simulated time, rule by rule: what the claim controller and the API server would do.

Source: the ResourceClaim controller (claims of templates, reservations that go), KEP-5729 for claims of PodGroups.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.controllers.claims import POD_CLAIM
from kube_rules.meta import ObjectRef
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import CreateObject, DeleteObject, PatchObject
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.simulation.controllers.claims import Claims
from tests.building import node
from tests.plugins.devices import Json, allocated, claim, template, user

NOW = 5.0
UIDS = ("uid-p", "uid-q")


class Cluster:
    """An engine and the device claims of its world."""

    def __init__(self, *, groups: bool = True) -> None:
        self.engine = Engine(EngineOptions(gates=FeatureGates.of({"GenericWorkload": groups})))
        self.engine.set(node("n1"), NOW)
        self.claims = Claims(self.engine, lambda effects: None)

    def add(self, given: objects.Pod) -> objects.Pod:
        """A pod comes into being, as it is then."""
        made = self.claims.prepared(given, NOW)
        self.engine.set(made, NOW)
        return made

    def group(self, given: objects.PodGroup) -> None:
        self.engine.set(given, NOW)
        self.claims.set_group(given, NOW)

    @property
    def there(self) -> dict[str, objects.ResourceClaim]:
        """Claims by name."""
        known = self.engine.cluster.devices.claims.values()
        return {each.claim.metadata.name: each.claim for each in known if each.object is not None}


def pod(name: str, *claims: str, templates: tuple[str, ...] = (), group: str = "", uid: str = "") -> objects.Pod:
    """A pod; each entry is called like the claim or template that it names."""
    made = user(name, *claims, templates=templates, **({"group": group} if group else {}))
    return replace(made, metadata=replace(made.metadata, uid=uid or f"uid-{name}"))


def gang(*templates: str, claims: tuple[str, ...] = (), status: Json | None = None) -> objects.PodGroup:
    """The group g with these entries."""
    entries = [{"name": one, "resourceClaimTemplateName": one} for one in templates]
    entries += [{"name": one, "resourceClaimName": one} for one in claims]
    body = {
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, "resourceClaims": entries},
        "status": status or {},
    }
    return msgspec.convert(body, objects.PodGroup)


def named(made: objects.Pod) -> dict[str, str | None]:
    """What the status says which claims the pod has."""
    return {one.name: one.resource_claim_name for one in made.status.resource_claim_statuses}


# -- claims of templates ---------------------------------------------------------------------------


def test_pod_gets_a_claim_of_its_own_of_each_template() -> None:
    cluster = Cluster()
    body = msgspec.to_builtins(template("t"))
    body["spec"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"note": "kept"}}
    cluster.claims.set_template(msgspec.convert(body, objects.ResourceClaimTemplate), NOW)
    made = cluster.add(pod("p", "own", templates=("t",)))
    assert named(made) == {"t": "p-t"}
    found = cluster.there["p-t"]
    meta = found.metadata
    assert (meta.namespace, meta.uid, meta.labels) == ("default", "claim/default/p-t", {"a": "b"})
    assert meta.annotations == {"note": "kept", POD_CLAIM: "t"}
    [owner] = meta.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == ("v1", "Pod", "p", "uid-p", True)
    assert [each["name"] for each in found.spec.devices["requests"]] == ["r"]
    assert cluster.claims.prepared(made, NOW) is made, "it is made once"
    assert list(cluster.there) == ["p-t"]


@pytest.mark.parametrize(
    ("taken", "free"), [([], "p-t"), (["p-t"], "p-t-2"), (["p-t", "p-t-2"], "p-t-3"), (["p-t-2"], "p-t")]
)
def test_name_that_is_taken_is_numbered_from_two(taken: list[str], free: str) -> None:
    cluster = Cluster()
    for name in taken:
        cluster.claims.set_claim(claim(name), NOW)
    cluster.claims.set_template(template("t"), NOW)
    assert named(cluster.add(pod("p", templates=("t",)))) == {"t": free}


def test_pod_waits_for_a_template_that_is_not_there() -> None:
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    assert named(cluster.add(pod("p", templates=("t", "later")))) == {"t": "p-t"}
    cluster.add(pod("q", templates=("later",)))
    gone = cluster.add(pod("gone", templates=("later",)))
    cluster.engine.remove(ObjectRef("Pod", uid=gone.metadata.uid), NOW)
    cluster.claims.set_template(template("later"), NOW)
    assert sorted(cluster.there) == ["p-later", "p-t", "q-later"]
    known = {one.name: [each.claim for each in one.claims] for one in cluster.engine.cluster.pods.values()}
    assert known == {"p": ["p-t", "p-later"], "q": ["q-later"]}


def test_template_or_claim_that_is_deleted_is_there_no_more() -> None:
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    cluster.claims.set_claim(claim("c"), NOW)
    assert cluster.claims.remove("ResourceClaimTemplate", "default", "t", NOW)
    assert not cluster.claims.remove("ResourceClaimTemplate", "default", "t", NOW)
    assert named(cluster.add(pod("p", templates=("t",)))) == {}
    assert cluster.claims.remove("ResourceClaim", "default", "c", NOW)
    assert not cluster.claims.remove("ResourceClaim", "default", "c", NOW)
    assert cluster.there == {}


# -- claims of groups ------------------------------------------------------------------------------


def test_pods_of_a_group_share_the_claim_of_its_template() -> None:
    """KEP-5729: where the entry is the same; else each has its own."""
    cluster = Cluster()
    for name in ("t", "u"):
        cluster.claims.set_template(template(name), NOW)
    cluster.group(gang("t"))
    pods = [cluster.add(pod(name, templates=("t", "u"), group="g")) for name in ("p", "q")]
    assert [named(each) for each in pods] == [{"t": "g-t", "u": "p-u"}, {"t": "g-t", "u": "q-u"}]
    [owner] = cluster.there["g-t"].metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("PodGroup", "g", "uid-g", True)
    assert owner.api_version == objects.PodGroup.API_VERSION
    assert sorted(cluster.there) == ["g-t", "p-u", "q-u"]
    assert named(cluster.add(pod("alone", templates=("t",)))) == {"t": "alone-t"}


def test_pods_of_a_group_that_is_not_there_get_no_claims_until_it_is() -> None:
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    assert named(cluster.add(pod("p", templates=("t",), group="g"))) == {}
    assert cluster.there == {}
    cluster.group(gang())
    assert sorted(cluster.there) == ["p-t"]
    shared = Cluster()
    shared.add(pod("p", templates=("t",), group="g"))
    shared.group(gang("t"))
    assert shared.there == {}
    shared.claims.set_template(template("t"), NOW)
    assert sorted(shared.there) == ["g-t"]
    [record] = shared.engine.cluster.pods.values()
    assert [each.claim for each in record.claims] == ["g-t"]


def test_claim_that_a_group_has_is_used() -> None:
    """By its status, or its owner and annotation."""
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    cluster.group(gang("t", status={"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "before"}]}))
    assert named(cluster.add(pod("p", templates=("t",), group="g"))) == {"t": "before"}
    assert cluster.there == {}
    for uid, entry, controller, known in (
        ("uid-g", "t", True, True),
        ("uid-g", "u", True, False),
        ("uid-other", "t", True, False),
        ("uid-g", "t", False, False),
    ):
        owned = Cluster()
        owner = {"apiVersion": "x", "kind": "PodGroup", "name": "g", "uid": uid, "controller": controller}
        owned.claims.set_claim(
            claim("kept", metadata={"ownerReferences": [owner], "annotations": {POD_CLAIM: entry}}), NOW
        )
        owned.claims.set_template(template("t"), NOW)
        owned.group(gang("t"))
        assert named(owned.add(pod("p", templates=("t",), group="g"))) == {"t": "kept" if known else "g-t"}


def test_without_groups_every_pod_has_its_own() -> None:
    cluster = Cluster(groups=False)
    cluster.claims.set_template(template("t"), NOW)
    cluster.claims.set_group(gang("t"), NOW)
    assert named(cluster.add(pod("p", templates=("t",), group="g"))) == {"t": "p-t"}


# -- what is written -------------------------------------------------------------------------------

GOT = allocated(("d", "n1", "gpu-0"))


def patched(status: Json, *, uid: str = "", name: str = "c", before: Json | None = None, **more: Any) -> Any:
    """The claim after a write of its status."""
    cluster = Cluster()
    cluster.claims.set_claim(claim("c", status=before), NOW)
    cluster.claims.carry_out([PatchObject("ResourceClaim", "default", name, {"status": status, **more}, uid=uid)], NOW)
    return cluster.there["c"]


def consumers(found: objects.ResourceClaim) -> list[str]:
    return [one.uid for one in found.status.reserved_for]


def reserved(*uids: str) -> list[Json]:
    return [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]


@pytest.mark.parametrize(
    ("before", "write", "uids"),
    [
        ([], ["a"], ["a"]),
        (["a"], ["b"], ["a", "b"]),
        (["a"], ["a", "b"], ["a", "b"]),
        (["a", "b"], [], []),
        (["a"], None, []),
    ],
)
def test_reservations_are_merged_by_uid(before: list[str], write: list[str] | None, uids: list[str]) -> None:
    """As a merge patch of a list with keys; an empty list takes all away."""
    status = {"reservedFor": reserved(*write) if write is not None else None}
    assert consumers(patched(status, before={"reservedFor": reserved(*before)})) == uids


def test_allocation_is_written_and_taken_back() -> None:
    found = patched({"allocation": GOT["allocation"], "reservedFor": reserved("a")})
    assert found.status.allocation is not None
    assert [each["device"] for each in found.status.allocation.devices["results"]] == ["gpu-0"]
    kept = patched({"reservedFor": reserved("b")}, before={**GOT, "reservedFor": reserved("a")})
    assert kept.status.allocation is not None, "what is not named stays"
    assert consumers(kept) == ["a", "b"]
    assert patched({"allocation": None}, before=GOT).status.allocation is None


def test_finalizers_are_added_once() -> None:
    found = patched({}, metadata={"finalizers": ["a", "b", "a/b"]})
    again = patched({}, metadata={})
    assert (found.metadata.finalizers, again.metadata.finalizers) == (("a", "b", "a/b"), ())
    cluster = Cluster()
    cluster.claims.set_claim(claim("c", metadata={"finalizers": ["a"]}), NOW)
    body = {"metadata": {"finalizers": ["a", "b"]}}
    cluster.claims.carry_out([PatchObject("ResourceClaim", "default", "c", body)], NOW)
    assert cluster.there["c"].metadata.finalizers == ("a", "b")


@pytest.mark.parametrize(
    ("uid", "name", "kind", "written"),
    [
        ("", "c", "ResourceClaim", True),
        ("uid-claim-c", "c", "ResourceClaim", True),
        ("another", "c", "ResourceClaim", False),
        ("", "d", "ResourceClaim", False),
        ("", "c", "PersistentVolumeClaim", False),
    ],
)
def test_only_the_claim_that_is_meant_is_written(uid: str, name: str, kind: str, written: bool) -> None:
    """By its name and, where there is one, its UID; claims of volumes are not this room's."""
    cluster = Cluster()
    cluster.claims.set_claim(claim("c"), NOW)
    write = PatchObject(kind, "default", name, {"status": {"reservedFor": reserved("a")}}, uid=uid)
    cluster.claims.carry_out([write], NOW)
    assert consumers(cluster.there["c"]) == (["a"] if written else [])


def test_claim_of_extended_resources_is_made_and_deleted() -> None:
    cluster = Cluster()
    body = msgspec.to_builtins(claim("special"))
    cluster.claims.carry_out([CreateObject("ResourceClaim", "default", body)], NOW)
    assert cluster.there["special"].metadata.uid == "claim/default/special"
    for name in ("other", "special"):
        cluster.claims.carry_out([DeleteObject("ResourceClaim", "default", name)], NOW)
        assert ("special" in cluster.there) is (name == "other")
    cluster.claims.carry_out([CreateObject("Pod", "default", body), DeleteObject("Pod", "default", "x")], NOW)
    assert cluster.there == {}


# -- victims ---------------------------------------------------------------------------------------


def gone(cluster: Cluster, name: str) -> None:
    record = next(one for one in cluster.engine.cluster.pods.values() if one.name == name)
    cluster.engine.remove(ObjectRef("Pod", uid=record.uid), NOW)
    cluster.claims.gone(record, NOW)


def test_unused_claim_gives_its_devices_back() -> None:
    cluster = Cluster()
    cluster.claims.set_claim(claim("c", status={**GOT, "reservedFor": reserved(*UIDS)}), NOW)
    for name in ("p", "q", "stranger"):
        cluster.add(pod(name, "c"))
    gone(cluster, "stranger")
    assert consumers(cluster.there["c"]) == list(UIDS)
    gone(cluster, "p")
    assert consumers(cluster.there["c"]) == ["uid-q"]
    assert cluster.there["c"].status.allocation is not None
    gone(cluster, "q")
    assert consumers(cluster.there["c"]) == []
    assert cluster.there["c"].status.allocation is None


def test_consumer_of_another_kind_is_not_the_pod_of_its_uid() -> None:
    cluster = Cluster()
    other = {"resource": "podgroups", "name": "p", "uid": "uid-p"}
    cluster.claims.set_claim(claim("c", status={**GOT, "reservedFor": [other]}), NOW)
    cluster.add(pod("p", "c"))
    gone(cluster, "p")
    assert consumers(cluster.there["c"]) == ["uid-p"]


def test_claim_of_a_template_goes_with_its_pod() -> None:
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    for name in ("p", "q"):
        cluster.add(pod(name, templates=("t",)))
    gone(cluster, "p")
    assert list(cluster.there) == ["q-t"]


def test_claims_of_a_group_are_released_with_the_group() -> None:
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    cluster.group(gang("t"))
    consumer = {"resource": "podgroups", "name": "g", "uid": "uid-g"}
    cluster.claims.set_claim(claim("shared", status={**GOT, "reservedFor": [consumer]}), NOW)
    cluster.claims.set_claim(claim("other", status={**GOT, "reservedFor": [{**consumer, "uid": "uid-h"}]}), NOW)
    cluster.add(pod("p", templates=("t",), group="g"))
    gone(cluster, "p")
    assert sorted(cluster.there) == ["g-t", "other", "shared"]
    cluster.engine.remove(ObjectRef("PodGroup", "default/g"), NOW)
    cluster.claims.group_gone("default/g", "uid-g", NOW)
    assert sorted(cluster.there) == ["other", "shared"]
    assert (cluster.there["shared"].status.allocation is None, consumers(cluster.there["shared"])) == (True, [])
    assert cluster.there["other"].status.allocation is not None
    cluster.claims.set_template(template("t"), NOW)
    assert sorted(cluster.there) == ["other", "shared"], "nothing is made for a group that is gone"


def test_pod_that_had_ended_before_uses_nothing() -> None:
    cluster = Cluster()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    cluster.claims.set_claim(claim("own", metadata={"ownerReferences": [owner]}), NOW)
    for name in ("c", "d"):
        cluster.claims.set_claim(claim(name, status={**GOT, "reservedFor": reserved("uid-p")}), NOW)
    ended = pod("p", "c", templates=("t",))
    statuses = (
        objects.PodResourceClaimStatus(name="t", resource_claim_name="own"),
        objects.PodResourceClaimStatus(name="u"),
    )
    ended = replace(ended, status=replace(ended.status, phase="Succeeded", resource_claim_statuses=statuses))
    cluster.claims.ended(ended, NOW)
    assert {name: consumers(one) for name, one in cluster.there.items()} == {"c": [], "d": ["uid-p"]}


def test_pod_without_a_uid_is_known_by_its_name() -> None:
    cluster = Cluster()
    cluster.claims.set_template(template("t"), NOW)
    given = pod("p", templates=("t",))
    cluster.add(replace(given, metadata=replace(given.metadata, uid="", namespace="")))
    [owner] = cluster.there["p-t"].metadata.owner_references
    assert owner.uid == "default/p"
    gone(cluster, "p")
    assert cluster.there == {}
