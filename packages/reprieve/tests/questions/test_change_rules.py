"""Changes, rule by rule: what each says of what it did, the bounds of its numbers, and what a copy of a node is.

Rules: whatif.md 4.  Beside `test_changes.py`, which plans what is changed.
"""

from __future__ import annotations

import time

import pytest

from kube_rules.errors import InputError
from tests.manifests import gang
from tests.questions.test_changes import Json, loaded, made, names, node, pod

NODES = (node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"}), node("n3", labels={"pool": "a"}))
PODS = (
    pod("w-5d4-aaaaa", on="n1", owner="ReplicaSet w-5d4"),
    pod("bare", on="n1"),
    pod("d-aaaaa", on="n1", owner="DaemonSet d"),
    pod("d-aaaab", on="n3", owner="DaemonSet d"),
    pod("static-n1", on="n1", owner="Node n1"),
    pod("mirror", on="n1", annotations={"kubernetes.io/config.mirror": "x"}),
)


@pytest.mark.parametrize(
    ("flag", "sentence", "touched", "needs"),
    [
        ("cordon n1", "1 node: no new pods are placed there", "n1", ""),
        ("cordon pool=a", "2 nodes: no new pods are placed there", "n1 n3", ""),
        ("uncordon pool in (a,b)", "3 nodes: new pods may be placed there again", "n1 n2 n3", ""),
        (
            "drain n1",
            "2 pods evicted from 1 node, 1 comes back, 1 without a controller is lost, 3 DaemonSet or static pods stay",
            "n1",
            "--force --ignore-daemonsets",
        ),
        ("drain n2", "0 pods evicted from 1 node", "n2", ""),
        ("drain n3", "0 pods evicted from 1 node, 1 DaemonSet or static pod stays", "n3", "--ignore-daemonsets"),
        ("remove-node n1", "1 node removed with 2 pods, 1 comes back, 1 without a controller is lost", "n1", ""),
        (
            "remove-node pool=a",
            "2 nodes removed with 2 pods, 1 comes back, 1 without a controller is lost",
            "n1 n3",
            "",
        ),
        ("fail n1", "1 node failed with 2 pods, 1 comes back, 1 without a controller is lost", "n1", ""),
        ("fail n2", "1 node failed with 0 pods", "n2", ""),
        (
            "taint n1 k:NoExecute",
            "1 node: taint k:NoExecute added, 5 pods evicted, 1 comes back, 1 without a controller is lost",
            "n1",
            "",
        ),
        ("taint n3 k:NoExecute", "1 node: taint k:NoExecute added, 1 pod evicted", "n3", ""),
        ("taint n2 k:NoExecute", "1 node: taint k:NoExecute added", "n2", ""),
        ("taint n1 k:PreferNoSchedule", "1 node: taint k:PreferNoSchedule added", "n1", ""),
        ("label n1=a=b", "1 node: label a=b", "n1", ""),
        ("label pool=a x=", "2 nodes: label x=", "n1 n3", ""),
        ("label pool=a pool-", "2 nodes: label pool removed", "n1 n3", ""),
        ("add-nodes 1 like n1", "1 node like n1: n1-1", "n1-1", ""),
        ("add-nodes 4 like n1", "4 nodes like n1: n1-1, n1-2, n1-3, n1-4", "n1-1 n1-2 n1-3 n1-4", ""),
        ("add-nodes 5 like n1", "5 nodes like n1: n1-1, n1-2, n1-3, n1-4 and 1 more", "n1-1 n1-2 n1-3 n1-4 n1-5", ""),
        ("without pod/bare", "pod default/bare is left out, with its 1 pod", "", ""),
        ("without daemonset/d", "daemonset default/d is left out, with its 2 pods", "", ""),
        ("without podgroup/g", "podgroup default/g is left out", "", ""),
        ("set-priority pod/bare=5", "priority of pod default/bare is 5", "", ""),
        (
            "set-priority pod/bare=system-node-critical",
            "priority of pod default/bare is 2000001000 (system-node-critical)",
            "",
            "",
        ),
        (
            "scale replicaset/w-5d4=3",
            "replicaset default/w-5d4 1 -> 3, the new ones like pod w-5d4-aaaaa: its template is not in the input",
            "",
            "",
        ),
        ("scale replicaset/w-5d4=0", "replicaset default/w-5d4 1 -> 0", "", ""),
        ("scale podgroup/g=2", "minCount of podgroup default/g 4 -> 2", "", ""),
    ],
)
def test_sentence_nodes_and_kubectl_flags_of_each_change(flag: str, sentence: str, touched: str, needs: str) -> None:
    """One of them alone; of drains what `kubectl drain` would ask for."""
    [one] = made(loaded(*NODES, *PODS, gang("g", 4)), flag).applied
    assert one.sentence == sentence
    assert (" ".join(one.nodes), " ".join(one.kubectl_needs)) == (touched, needs)


def test_several_come_back_and_several_are_lost() -> None:
    pods = [pod(f"w-aaaa{turn}", on="n1", owner="ReplicaSet w") for turn in "xyz"]
    lost = [pod(f"bare-{turn}", on="n1", volumes=[{"name": "v", "emptyDir": {}}]) for turn in "xy"]
    [one] = made(loaded(*NODES, *pods, *lost), "drain n1").applied
    assert one.sentence == (
        "5 pods evicted from 1 node, 3 come back, 2 without a controller are lost, 2 lose emptyDir data"
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("add-nodes 10000", "--like NODE must name the node that the new nodes copy"),
        ("add-nodes 10001 like n1", "expected a number of nodes from 1 to 10000"),
        ("add-nodes -1 like n1", "expected a number of nodes from 1 to 10000"),
        (f"add-nodes {'9' * 5000} like n1", "expected a number of nodes from 1 to 10000"),
        ("set-priority pod/bare=1000000000", ""),
        ("set-priority pod/bare=1000000001", "expected a class, or a number up to 1000000000"),
        ("set-priority pod/bare=-2147483648", ""),
        ("set-priority pod/bare=-2147483649", "expected a class, or a number up to 1000000000"),
        (f"set-priority pod/bare={'9' * 5000}", "expected a class, or a number up to 1000000000"),
        ("scale replicaset/w-5d4=20000", ""),
        ("scale podgroup/g=100000", ""),
        ("scale podgroup/g=100001", "expected a number from 0 to 100000"),
        ("scale replicaset/w-5d4=100001", "expected a number from 0 to 100000"),
        ("scale replicaset/w-5d4=1.5", "expected a number from 0 to 100000"),
        (f"scale replicaset/w-5d4={'9' * 5000}", "expected a number from 0 to 100000"),
        ("taint n1 a:NoSchedule:x", "expected KEY[=VALUE]:EFFECT"),
        ("taint n1 a-:NoSchedule", "expected KEY[=VALUE]:EFFECT"),
        ("taint n1 a-:NoSchedule-", "expected KEY[=VALUE]:EFFECT"),
        ("taint n1 a:Never-", "expected KEY[=VALUE]:EFFECT"),
        ("taint n1 a-b:NoSchedule", ""),
        ("label n1 =b", "expected KEY=VALUE"),
        ("label n1 a=b=c", '"b=c": a valid label must'),
        ("cordon a b", 'no node "a b"'),
        ("cordon !pool", 'no node matches "!pool"'),
        ("cordon !other", ""),
        ("without node/n1", "--remove-node n1 removes a node with its pods"),
        ("set-priority podgroup/g=x", "no PriorityClass with name x"),
        ("scale podgroup/basic=2", "a group without a gang has no minimum"),
    ],
)
def test_both_sides_of_what_a_change_may_say(flag: str, message: str) -> None:
    basic = gang("basic", 1)
    basic["spec"]["schedulingPolicy"] = {"basic": {}}
    given = loaded(*NODES, *PODS, gang("g", 4), basic)
    if not message:
        assert len(made(given, flag).applied) == 1
        return
    with pytest.raises(InputError) as refused:
        made(given, flag)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("cost", "goes"),
    [
        ("-1", True),
        ("-2147483648", True),
        ("-2147483649", False),  # no int32: as if it were not there
        ("1", False),
        ("0", False),
        ("--5", False),
        ("-", False),
        ("", False),
        ("-5.0", False),
        (f"-{'9' * 5000}", False),
    ],
)
def test_deletion_cost(cost: str, goes: bool) -> None:
    """whatif.md 4.8, as the ReplicaSet controller reads it; what it cannot read counts as 0, and the newest goes."""
    notes: Json = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}
    pods = (pod("a", on="n1", owner="ReplicaSet w", **notes), pod("b", on="n1", owner="ReplicaSet w"))
    assert names(made(loaded(*NODES, *pods), "scale rs/w=1")) == (["b"] if goes else ["a"])


@pytest.mark.parametrize(("cost", "goes"), [("1", False), ("+1", True), ("01", True), ("2147483648", True)])
def test_deletion_cost_above_none(cost: str, goes: bool) -> None:
    notes: Json = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}
    pods = (pod("a", on="n1", owner="ReplicaSet w"), pod("b", on="n1", owner="ReplicaSet w", **notes))
    assert names(made(loaded(*NODES, *pods), "scale rs/w=1")) == (["a"] if goes else ["b"])


def test_pending_pods_come_before_running_ones() -> None:
    notes: Json = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}
    pods = (pod("dear", owner="ReplicaSet w", **notes), pod("runs", on="n1", owner="ReplicaSet w"))
    assert names(made(loaded(*NODES, *pods), "scale rs/w=1")) == ["runs"]


@pytest.mark.parametrize(
    ("names_there", "number", "left"),
    [
        (("w-0", "w-1", "w-10", "w-9"), 2, "w-0 w-1"),
        (("w-0", "w-1", "w-10", "w-9"), 3, "w-0 w-1 w-9"),
        (("w-5", "w-99999999", "w-100000000"), 1, "w-5"),
        (("w-5", "w-2147483647"), 1, "w-5"),
        (("w-5", "w-2147483648"), 1, "w-2147483648"),  # no int32: as if it had none
        (("w-5", "w-x"), 1, "w-x"),
    ],
)
def test_stateful_set_ends_its_highest_ordinals_first(names_there: tuple[str, ...], number: int, left: str) -> None:
    """whatif.md 4.8: in the order in which its controller ends them."""
    pods = [pod(name, on="n1", owner="StatefulSet w") for name in names_there]
    assert " ".join(names(made(loaded(*NODES, *pods), f"scale sts/w={number}"))) == left


def stateful(start: int, replicas: int) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"replicas": replicas, "ordinals": {"start": start}, "template": INDEXED["spec"]["template"]},
    }


@pytest.mark.parametrize("start", [0, 7, 99_999_998, 100_000_000])
def test_ordinals_are_counted_from_where_they_start(start: int) -> None:
    pods = [pod(f"w-{start + turn}", on="n1", owner="StatefulSet w") for turn in range(3)]
    after = made(loaded(*NODES, stateful(start, 3), *pods), "scale sts/w=2")
    assert names(after) == [f"w-{start}", f"w-{start + 1}"]
    assert after.applied[0].sentence.startswith("statefulset default/w 3 -> 2")


@pytest.mark.parametrize(("expected", "before"), [({}, 1), ({"replicas": 4}, 4), ({"replicas": 0}, 0)])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_count_that_is_left_out_is_one(kind: str, expected: Json, before: int) -> None:
    whole = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {**expected, "template": INDEXED["spec"]["template"]},
    }
    [one] = made(loaded(*NODES, whole), f"scale {kind}/w=5").applied
    assert one.sentence.startswith(f"{kind.lower()} default/w {before} -> 5")


def test_returning_pod_is_the_youngest() -> None:
    """whatif.md 4.4, 6.5: it waits behind pods that waited, in the order in which they were evicted."""
    pods = [pod(f"w-{turn}", on="n1", owner="StatefulSet w") for turn in range(3)]
    for turn, one in enumerate(pods):
        one["metadata"]["creationTimestamp"] = f"2026-01-0{3 - turn}T00:00:00Z"
    given = loaded(*NODES, *pods, pod("waits"))
    latest = max(one.created for one in given.all())
    back = [one for one in made(given, "drain n1").manifests.pods if one.object.name.startswith("w-")]
    created = [one.created for one in back]
    assert len(set(created)) == 3
    assert created == sorted(created)
    assert created[0] > latest
    assert [one.dated for one in back] == [False, False, False]
    assert [one.order for one in back] == sorted({one.order for one in back})
    assert back[0].order > max(one.order for one in given.all())


INDEXED: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "default"},
    "spec": {
        "completions": 6,
        "parallelism": 6,
        "completionMode": "Indexed",
        "template": {"spec": {"containers": [{"name": "c"}]}},
    },
}


@pytest.mark.parametrize(
    ("completed", "failed", "left"),
    [
        ("", "", "012345"),
        ("0", "", "12345"),
        ("0-2,5", "", "34"),
        ("5,0-2", "", "34"),
        ("0-2,1-3", "", "45"),
        ("0-4,1", "", "5"),
        ("1", "3", "0245"),
        ("x,2", "", "01345"),
        ("2-,4", "", "01235"),
        ("2-1", "", "012345"),
        ("9" * 5000, "", "012345"),
        (f"0-{'9' * 5000}", "", "012345"),
        ("0-2147483647", "", ""),
    ],
)
def test_which_indexes_of_a_job_are_done(completed: str, failed: str, left: str) -> None:
    """whatif.md 2.1: as the status writes them; what is no index counts for nothing."""
    status = {"completedIndexes": completed, "failedIndexes": failed}
    given = loaded(*NODES, {**INDEXED, "status": status})
    assert names(made(given, "cordon n1")) == [f"j-{index}-00000" for index in left]


def test_intervals_that_say_the_same_again_and_again_cost_little() -> None:
    """Twenty thousand of a hundred thousand indexes took longer than a user waits."""
    given = loaded(*NODES, {**INDEXED, "status": {"completedIndexes": ",".join(["0-99999"] * 20_000)}})
    before = time.process_time()
    assert names(made(given, "cordon n1")) == []
    assert time.process_time() - before < 30.0


@pytest.mark.parametrize(
    ("first", "second", "newest"),
    [("1", "2", "w-b"), ("2", "1", "w-a"), ("10", "9", "w-a"), ("x", "1", "w-b"), ("9" * 5000, "1", "w-b")],
)
def test_newest_replica_set_is_that_of_the_highest_revision(first: str, second: str, newest: str) -> None:
    """whatif.md 2.2: what the Deployment lacks are that one's pods; what is no revision is below all."""
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": INDEXED["spec"]["template"]}
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "u", "controller": True}
    sets = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [above],
            },
            "spec": spec,
        }
        for name, revision in (("w-a", first), ("w-b", second))
    ]
    whole = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": spec,
    }
    [name] = names(made(loaded(*NODES, whole, *sets), "cordon n1"))
    assert name.startswith(f"{newest}-")


# -- names of returning pods ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "taken", "successor"),
    [
        ("db-0", [], "db-0"),
        ("w-5d4-abcde", [], "w-5d4-00000"),
        ("w-5d4-00000", [], "w-5d4-00001"),
        ("w-5d4-abcde", ["w-5d4-00000", "w-5d4-00001"], "w-5d4-00002"),
        ("w-abcd", [], "w-abcd"),
        ("w-ABCDE".lower(), [], "w-00000"),
        ("x" * 60 + "-abcde", [], "x" * 58 + "00000"),
    ],
)
def test_successor_name(name: str, taken: list[str], successor: str) -> None:
    """whatif.md 4.4: under its own name, or where the controller made five characters up, under a free one."""
    others = [pod(other, on="n2") for other in taken]
    [displaced] = made(loaded(*NODES, pod(name, on="n1", owner="ReplicaSet w"), *others), "drain n1").displaced
    assert (displaced.name, displaced.successor) == (name, successor)


# -- nodes ---------------------------------------------------------------------------------------------------------


def test_copy_of_a_node_is_ready_open_and_has_its_drivers_and_devices() -> None:
    """whatif.md 4.7: labels, taints and capacity, but not what the lifecycle of the other brought."""
    meta = {"uid": "u1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    old = node("n1", labels={"pool": "a"}, cpu="8")
    old["metadata"] |= meta
    old["spec"] = {
        "unschedulable": True,
        "providerID": "aws:///i-1",
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        ],
    }
    old["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown"},
        {"type": "DiskPressure", "status": "False"},
    ]
    csi = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1", "uid": "u2"},
        "spec": {"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 3}}]},
    }
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{on}-gpu"},
            "spec": {"driver": "d", "nodeName": on, "pool": {"name": on, "generation": 1, "resourceSliceCount": 1}},
        }
        for on in ("n1", "n2")
    ]
    after = made(loaded(old, node("n2"), csi, *slices), "add-nodes 1 like n1").manifests
    new = after.nodes[-1].object
    assert (new.name, new.metadata.uid, new.metadata.resource_version) == ("n1-1", "", "")
    assert new.metadata.creation_timestamp is None
    assert new.metadata.labels == {"kubernetes.io/hostname": "n1-1", "pool": "a"}
    assert (new.spec.unschedulable, new.spec.provider_id) == (False, "")
    assert [(taint.key, taint.value) for taint in new.spec.taints] == [("gpu", "yes")]
    assert [each.type for each in new.status.conditions] == ["DiskPressure"]
    of_new = [one.object for one in after.all() if one.object.name.endswith("n1-1")]
    assert [(one.KIND, one.name) for one in of_new] == [
        ("Node", "n1-1"),
        ("CSINode", "n1-1"),
        ("ResourceSlice", "n1-gpu-n1-1"),
    ]
    [made_slice] = [one for one in of_new if one.KIND == "ResourceSlice"]
    assert (made_slice.spec.node_name, made_slice.spec.pool.name) == ("n1-1", "n1-n1-1")  # type: ignore[attr-defined]


def test_copy_has_no_host_name_that_the_other_has_not() -> None:
    plain = node("n1")
    del plain["metadata"]["labels"]
    assert made(loaded(plain), "add-nodes 1 like n1").manifests.nodes[-1].object.metadata.labels == {}


def test_nodes_that_fail_or_go_take_their_devices_along() -> None:
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{on}-gpu"},
            "spec": {"driver": "d", "nodeName": on, "pool": {"name": on, "generation": 1, "resourceSliceCount": 1}},
        }
        for on in ("n1", "n2")
    ]
    for flag in ("fail n1", "remove-node n1"):
        after = made(loaded(*NODES, *slices), flag).manifests
        assert [one.object.name for one in after.all() if one.object.KIND == "ResourceSlice"] == ["n2-gpu"]


def test_failed_node_is_unreachable_and_one_that_is_cordoned_twice_has_one_taint() -> None:
    after = made(loaded(*NODES), "fail n1", "fail n1", "cordon n2", "cordon n2").manifests
    failed, cordoned, other = (one.object for one in after.nodes)
    assert [(taint.key, taint.effect) for taint in failed.spec.taints] == [
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert [(each.type, each.status) for each in failed.status.conditions] == [("Ready", "Unknown")]
    assert [taint.key for taint in cordoned.spec.taints] == ["node.kubernetes.io/unschedulable"]
    assert (cordoned.spec.unschedulable, other.spec.unschedulable, other.spec.taints) == (True, False, ())


def test_taint_of_the_same_key_and_effect_is_replaced() -> None:
    flags = ("taint n1 k=a:NoSchedule", "taint n1 k=b:NoSchedule", "taint n1 k=c:NoExecute", "taint n1 x:NoSchedule")
    taints = [
        [
            (taint.key, taint.value, taint.effect)
            for taint in made(loaded(*NODES), *some).manifests.nodes[0].object.spec.taints
        ]
        for some in (flags, (*flags, "taint n1 k:NoSchedule-"), (*flags, "taint n1 k-"))
    ]
    b, c, x = ("k", "b", "NoSchedule"), ("k", "c", "NoExecute"), ("x", "", "NoSchedule")
    assert taints == [[b, c, x], [c, x], [x]]


@pytest.mark.parametrize(
    ("on", "minimum", "broken"), [("n1", 4, True), ("n1", 3, True), ("n1", 2, False), ("n3", 4, False)]
)
def test_gang_is_broken_where_fewer_than_its_minimum_stay(on: str, minimum: int, broken: bool) -> None:
    """whatif.md 4.6: two of four were there; one that was broken before is not broken by this."""
    member: Json = {"schedulingGroup": {"podGroupName": "g"}, "owner": "Job g"}
    pods = [pod(f"g-{turn}", on=f"n{turn % 2 + 1}", **member) for turn in range(4)]
    found = made(loaded(*NODES, gang("g", minimum), *pods), f"drain {on}").broken
    assert [(one.name, one.min_count, one.before, one.left, one.coming_back) for one in found] == (
        [("g", minimum, 4, 2, 2)] if broken else []
    )
    assert made(loaded(*NODES, gang("g", 5), *pods), "drain n1").broken == []
