"""What `KIND/NAME` names, and what belongs to it (whatif.md 4.1, 4.8, 4.10)."""

from __future__ import annotations

import pytest

from kube_rules.errors import FieldError, InputError
from kube_rules.objects import Pod
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.named_workloads import (
    NamedObject,
    NotThereError,
    Workloads,
    makers_named,
    makes_pods_by_name,
)
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE
from tests.manifests import gang
from tests.questions.test_changes import (
    BOX,
    DEPLOYMENT,
    PYTORCH,
    Json,
    loaded,
    made,
    names,
    node,
    of_kind,
    pod,
)
from tests.questions.test_scaling_changes import ROWS, owned

NODES = (node("n1"), node("n2"))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("deployment/web", ("Deployment", "", "default", "web")),
        ("deploy/web", ("Deployment", "", "default", "web")),
        ("Deployments/web", ("Deployment", "", "default", "web")),
        ("deployments.apps/web", ("Deployment", "apps", "default", "web")),
        ("team/deployment/web", ("Deployment", "", "team", "web")),
        ("team/rs/web", ("ReplicaSet", "", "team", "web")),
        ("pytorchjob/pt/worker", ("PyTorchJob", "", "default", "pt")),
        ("team/pytorchjob/pt/worker", ("PyTorchJob", "", "team", "pt")),
        (" job/j ", ("Job", "", "default", "j")),
        ("vcjob/j", ("Job", "batch.volcano.sh", "default", "j")),
        ("deployment.example.com/web", None),
        ("pod/web", None),
        ("widget/w", None),
        ("deployment", None),
        ("deployment/", None),
        ("team/deployment", None),
        ("", None),
    ],
)
def test_workloads_that_make_pods_by_name(given: str, found: tuple[str, str, str, str] | None) -> None:
    """Before a cluster is read: what is to be read of it with its template."""
    assert makers_named(given) == ([found] if found else [])


@pytest.mark.parametrize(
    ("kind", "makes"),
    [
        ("deploy", True),
        ("Jobs", True),
        ("sts", True),
        ("jobset", True),
        ("pod", False),
        ("nodes", False),
        ("sweep", False),
        ("", False),
    ],
)
def test_which_kinds_make_pods(kind: str, makes: bool) -> None:
    assert makes_pods_by_name(kind) is makes
    rows = TABLE.with_more(read_rows("rows.yaml", ROWS))
    assert makes_pods_by_name(kind, rows) is (makes or kind == "sweep")


@pytest.mark.parametrize("short", ["deploy", "deployments", "deployment.apps", "Deployment", "default/deployment"])
def test_kind_has_several_spellings(short: str) -> None:
    assert len(names(made(loaded(*NODES, DEPLOYMENT), f"scale {short}/web=5"))) == 5


def test_only_what_belongs_to_a_name_is_scaled_or_gone() -> None:
    """A Deployment, a StatefulSet and a Job of one name each have their own pods; others have nothing to do with it."""
    labels: Json = {"labels": {"pod-template-hash": "5d4"}}
    pods = (
        pod("w-5d4-aaaax", on="n1", owner="ReplicaSet w-5d4", **labels),
        pod("w-0", on="n1", owner="StatefulSet w"),
        pod("w-bbbbb", on="n1", owner="Job w"),
        pod("other", on="n2"),
    )
    given = loaded(*NODES, *pods)
    for kind, own in (("deployment", "w-5d4-aaaax"), ("statefulset", "w-0"), ("job", "w-bbbbb")):
        rest = sorted({"w-5d4-aaaax", "w-0", "w-bbbbb", "other"} - {own})
        assert names(made(given, f"scale {kind}/w=0")) == rest
        assert names(made(given, f"without {kind}/w")) == rest
        assert {
            one.object.name: one.object.spec.priority for one in made(given, f"set-priority {kind}/w=7").manifests.pods
        } == {
            **dict.fromkeys(rest, 0),
            own: 7,
        }


def test_things_that_make_no_pods_are_as_if_they_had_never_been_there() -> None:
    budget: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {}},
    }
    widgets = [of_kind("example.com/v1", "Widget", name) for name in ("one", "two")]
    given = loaded(*NODES, budget, *widgets)
    assert [one.manifest["metadata"]["name"] for one in made(given, "without widget/one").manifests.unknown] == ["two"]
    assert [one.object.name for one in made(given, "without pdb/b").manifests.all()] == ["n1", "n2"]
    with pytest.raises(InputError, match="no widget default/three is in the input"):
        made(given, "without widget/three")


def test_run_of_a_cron_job_has_a_name_that_a_job_may_have() -> None:
    """As its controller names it: at most 52 characters of its own, and the minute."""
    template: Json = {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
    for length in (1, 52):
        cron = of_kind("batch/v1", "CronJob", "c" * length, schedule="* * * * *", jobTemplate=template)
        found = expand(loaded(*NODES, cron), run=["c" * length])
        [one] = found.manifests.pods
        [owner] = one.object.metadata.owner_references
        assert (owner.kind, owner.name.rpartition("-")[0]) == ("Job", "c" * length)
        assert one.object.name == f"{f'{owner.name}-'[:58]}00000", "as generateName cuts it"


# -- what a name means -----------------------------------------------------------------------------


def workloads(*documents: Json, rows: str = "") -> Workloads:
    given = loaded(*NODES, *documents)
    table = TABLE.with_more(read_rows("rows.yaml", rows) if rows else [])
    makers, given.unknown = table.makers_among(given.unknown)
    given.pod_makers += makers
    return Workloads(given, table)


def in_team(document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "namespace": "team"}}


VOLCANO = of_kind("batch.volcano.sh/v1alpha1", "Job", "j", tasks=[{"name": "t", "template": BOX}])
BATCH = of_kind("batch/v1", "Job", "j", template=BOX)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("deployment/web", ("apps", "Deployment", "default", "web", "")),
        ("deployment/web/part", ("apps", "Deployment", "default", "web", "part")),
        ("team/deployment/web", ("apps", "Deployment", "team", "web", "")),
        ("team/deployment/web/part", ("apps", "Deployment", "team", "web", "part")),
        ("node/n1", ("", "Node", "", "n1", "")),
        ("no/n1", ("", "Node", "", "n1", "")),
        ("team/node/n1", ("", "Node", "", "n1", "")),
        ("po/alone", ("", "Pod", "default", "alone", "")),
        ("pg/g", ("scheduling.k8s.io", "PodGroup", "default", "g", "")),
        ("job.batch/j", ("batch", "Job", "default", "j", "")),
        ("vj/j", ("batch.volcano.sh", "Job", "default", "j", "")),
        ("rs/r-5d4", ("apps", "ReplicaSet", "default", "r-5d4", "")),
        ("deploy/r", ("apps", "Deployment", "default", "r", "")),
        ("ds/agent", ("apps", "DaemonSet", "default", "agent", "")),
        ("widgets/w", ("example.com", "Widget", "default", "w", "")),
    ],
)
def test_names_in_an_input_mean(given: str, found: tuple[str, str, str, str, str]) -> None:
    """whatif.md 4.1: objects of any kind; owners that only a reference of a pod names; what has no namespace."""
    labels: Json = {"labels": {"pod-template-hash": "5d4"}}
    there = workloads(
        DEPLOYMENT,
        in_team(DEPLOYMENT),
        VOLCANO,
        BATCH,
        gang("g", 2),
        of_kind("example.com/v1", "Widget", "w"),
        pod("alone"),
        pod("r-5d4-aaaaa", owner="ReplicaSet r-5d4", **labels),
        pod("agent-aaaaa", owner="DaemonSet agent"),
        pod("static-n1", on="n1", owner="Node n1"),
    )
    assert tuple(there.named(given)) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("web", '"web": expected KIND/NAME or NAMESPACE/KIND/NAME'),
        ("deployment/", "expected KIND/NAME"),
        ("/web", "expected KIND/NAME"),
        ("a/b/c/d/e", "expected KIND/NAME"),
        ("team/deployment/web/part/more", "expected KIND/NAME"),
        ("deploymnt/web", 'no kind "deploymnt", did you mean "deployment"?'),
        ("xyzzyx/web", 'no kind "xyzzyx"'),
        ("deployment/wbe", 'no deployment default/wbe is in the input, did you mean "deployment/web"?'),
        ("deployment/other", "no deployment default/other is in the input"),
        ("team/deployment/web", 'no deployment team/web is in the input, did you mean "deployment/web"?'),
        ("deployment.example.com/web", 'no deployment default/web is in the input, did you mean "deployment/web"?'),
        ("job/j", "job/j names 2 objects: specify one of job.batch/j or job.batch.volcano.sh/j"),
        ("ndoe/n1", 'no kind "ndoe", did you mean "node"?'),
        ("statefulset/web", "no statefulset default/web is in the input"),
    ],
)
def test_name_that_means_nothing_or_too_much_is_an_error(given: str, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        workloads(DEPLOYMENT, VOLCANO, BATCH).named(given)
    if "expected" in message:
        assert message in caught.value.message
    else:
        assert caught.value.message == message
    assert isinstance(caught.value, NotThereError) == ("is in the input" in message)


def pods_named(there: Workloads, given: str) -> str:
    return " ".join(one.object.name for one in there.pods_of(there.named(given)))


def test_which_pods_belong_to_a_name() -> None:
    """whatif.md 1.2, 4.10: directly, through others, by the group they name."""
    labels: Json = {"labels": {"pod-template-hash": "5d4"}}
    member: Json = {"schedulingGroup": {"podGroupName": "g"}}
    other = in_team(pod("g-2", **member))
    there = workloads(
        gang("g", 2),
        pod("g-0", **member),
        pod("g-1", owner="Job j", **member),
        other,
        pod("r-5d4-aaaaa", owner="ReplicaSet r-5d4", **labels),
        in_team(pod("r-5d4-bbbbb", owner="ReplicaSet r-5d4", **labels)),
        pod("r-xyz-aaaaa", owner="ReplicaSet r-xyz", **labels),
        pod("s-0", owner="StatefulSet s", **labels),
    )
    assert pods_named(there, "podgroup/g") == "g-0 g-1"
    assert pods_named(there, "job/j") == "g-1"
    assert pods_named(there, "pod/g-0") == "g-0"
    assert pods_named(there, "team/pod/g-2") == "g-2"
    assert pods_named(there, "deployment/r") == "r-5d4-aaaaa"
    assert pods_named(there, "team/deployment/r") == "r-5d4-bbbbb"
    assert pods_named(there, "rs/r-xyz") == "r-xyz-aaaaa"
    assert pods_named(there, "rs/r-5d4") == "r-5d4-aaaaa"
    assert pods_named(there, "sts/s") == "s-0"


def test_members_of_a_group_share_what_is_done_to_one_owner_s() -> None:
    """whatif.md 4.9: the pods of a workload and those of the groups they name, once each, in their own namespace."""
    member: Json = {"schedulingGroup": {"podGroupName": "g"}}
    there = workloads(
        gang("g", 2),
        gang("other", 2),
        in_team(gang("g", 2)),
        pod("a", owner="Job j", **member),
        pod("b", owner="Job k", **member),
        pod("c", owner="Job j"),
        pod("d", schedulingGroup={"podGroupName": "other"}),
        in_team(pod("e", **member)),
    )
    for given, members in (("job/j", "a c b"), ("job/k", "b a"), ("podgroup/g", "a b"), ("pod/d", "d")):
        pods, groups = there.members(there.named(given))
        assert " ".join(one.object.name for one in pods) == members
        assert [one.object.key for one in groups] == ["default/other" if given == "pod/d" else "default/g"]
    pods, groups = there.members(there.named("pod/c"))
    assert ([one.object.name for one in pods], groups) == (["c"], [])


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "template", "makes"),
    [
        ("DaemonSet", "agent", "default", True, True),
        ("DaemonSet", "agent", "default", False, False),
        ("DaemonSet", "other", "default", True, False),
        ("DaemonSet", "agent", "team", True, False),
        ("StatefulSet", "agent", "default", True, False),
    ],
)
def test_daemon_set_makes_the_pods_of_new_nodes(
    kind: str, name: str, namespace: str, template: bool, makes: bool
) -> None:
    """With its template in the input; a light object of a snapshot makes none."""
    whole = of_kind("apps/v1", kind, name, **({"template": BOX} if template else {"selector": {}}))
    whole["metadata"]["namespace"] = namespace
    given = loaded(*NODES, whole, pod("agent-aaaaa", on="n1", owner="DaemonSet agent"), pod("alone", on="n1"))
    there = Workloads(given, TABLE)
    own, alone = (one.object for one in given.pods)
    assert isinstance(own, Pod)
    assert there.makes_daemons(own) is makes
    assert there.makes_daemons(alone) is False


# -- scaling ---------------------------------------------------------------------------------------


def scaled(there: Workloads, given: str, number: int) -> tuple[int, str, str]:
    """What it was, the pods that go, and those to make others like."""
    before, going, like = there.scale(there.named(given), number)
    return before, *(" ".join(one.object.name for one in each) for each in (going, like))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("number", "answer"),
    [(0, (2, "a b", "")), (1, (2, "b", "")), (2, (2, "", "")), (3, (2, "", "a")), (5, (2, "", "a a a"))],
)
def test_pods_without_their_template_are_scaled_by_themselves(number: int, answer: tuple[int, str, str]) -> None:
    """whatif.md 4.8: of a snapshot; what has ended is none of them."""
    ended = pod("c", on="n1", owner="ReplicaSet r")
    ended["status"] = {"phase": "Failed"}
    pods = [pod(name, on="n1", owner="ReplicaSet r") for name in ("a", "b")]
    assert scaled(workloads(*pods, ended), "rs/r", number) == answer
    light = of_kind("apps/v1", "ReplicaSet", "r", replicas=2, selector={})
    assert scaled(workloads(light, *pods, ended), "rs/r", number) == answer


def test_nothing_to_scale_is_an_error() -> None:
    ended = pod("c", on="n1", owner="ReplicaSet r")
    ended["status"] = {"phase": "Failed"}
    with pytest.raises(NotThereError, match="replicaset default/r has no template and no pods: nothing to scale"):
        scaled(workloads(ended), "rs/r", 1)
    cron = of_kind("batch/v1", "CronJob", "c", jobTemplate={"spec": {"template": BOX}})
    with pytest.raises(FieldError, match="cronjob default/c: its kind has no count to set"):
        scaled(workloads(cron), "cronjob/c", 1)
    workflow = of_kind("argoproj.io/v1alpha1", "Workflow", "w", templates=[{"template": BOX}])
    with pytest.raises(FieldError, match="workflow default/w"):
        scaled(workloads(workflow), "workflow/w", 1)


@pytest.mark.parametrize(
    ("given", "number", "answer"),
    [
        ("pytorchjob/pt/worker", 1, (3, "pt-worker-1", "")),
        ("pytorchjob/pt/Worker", 0, (3, "pt-worker-0 pt-worker-1", "")),
        ("pytorchjob/pt/worker", 2, (3, "", "")),
        ("pytorchjob/pt/master", 0, (1, "pt-master-0", "")),
    ],
)
def test_count_that_is_set_is_one_of_several_and_its_pods_leave(
    given: str, number: int, answer: tuple[int, str, str]
) -> None:
    """whatif.md 4.8: KIND/NAME/PART says which."""
    of = "kubeflow.org/v1 PyTorchJob pt"
    runs = [owned(f"pt-{each}", of) for each in ("master-0", "worker-0", "worker-1")]
    whole = {
        **PYTORCH,
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"template": BOX},
                "Worker": {"replicas": 3, "template": BOX},
            }
        },
    }
    assert scaled(workloads(whole, *runs), given, number) == answer


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (3, ""),
        (4, "raycluster default/ray (small): no more than its maxReplicas, 3"),
    ],
)
def test_no_more_are_set_than_the_object_may_have(number: int, message: str) -> None:
    groups = [{"groupName": "small", "replicas": 1, "maxReplicas": 3, "template": BOX}]
    there = workloads(
        of_kind("ray.io/v1", "RayCluster", "ray", headGroupSpec={"template": BOX}, workerGroupSpecs=groups)
    )
    if not message:
        assert scaled(there, "raycluster/ray/small", number) == (1, "", "")
        return
    with pytest.raises(FieldError) as caught:
        scaled(there, "raycluster/ray/small", number)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("size", "number", "going"),
    [
        (1, 2, ""),
        (1, 1, "f-b"),
        (1, 0, "f-a f-b"),
        (2, 1, ""),
        (2, 0, "f-a f-b"),
    ],
)
def test_pods_with_made_up_names_stay_as_replicas_call_for(size: int, number: int, going: str) -> None:
    """`size` pods of each replica."""
    rows = f"""
apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
- group: example.com
  kind: Flat
  sets: [{{each: spec, template: template, replicas: count, size: {size}, name: "{{name}}-"}}]
"""
    pods = [owned(f"f-{each}", "example.com/v1 Flat f") for each in "ab"]
    there = workloads(of_kind("example.com/v1", "Flat", "f", count=2, template=BOX), *pods, rows=rows)
    assert scaled(there, "flat/f", number) == (2, going, "")


@pytest.mark.parametrize(("number", "going"), [(0, "t-4 t-5 t-6"), (1, "t-5 t-6"), (2, "t-6"), (3, "")])
def test_indexes_that_stay_are_counted_from_where_they_start(number: int, going: str) -> None:
    rows = """
apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
- group: example.com
  kind: Stack
  sets: [{each: spec, replicas: depth, start: first, name: "{name}-{index}"}]
"""
    pods = [owned(f"t-{each}", "example.com/v1 Stack t") for each in (4, 5, 6)]
    there = workloads(of_kind("example.com/v1", "Stack", "t", depth=3, first=4, template=BOX), *pods, rows=rows)
    assert scaled(there, "stack/t", number) == (3, going, "")


@pytest.mark.parametrize(("start", "number", "going"), [(None, 1, "db-1 db-2"), (None, 2, "db-2"), (1, 1, "db-2")])
def test_ordinals_start_at_zero_where_nothing_else_is_set(start: int | None, number: int, going: str) -> None:
    """whatif.md 2.3, 4.8."""
    pods = [owned(f"db-{each}", "apps/v1 StatefulSet db") for each in range(3)]
    spec: Json = {"replicas": 3, "template": BOX, **({} if start is None else {"ordinals": {"start": start}})}
    there = workloads(of_kind("apps/v1", "StatefulSet", "db", **spec), *pods)
    before, gone, like = scaled(there, "sts/db", number)
    assert (before, sorted(gone.split()), like) == (3, going.split(), "")


GROUPS = """
apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
- group: example.com
  kind: Group
  scale: spec.count
  sets:
  - {each: spec, replicas: count, start: first, name: "{name}-{replica}", labels: {role: leader}}
  - {each: spec, replicas: count, start: first, size: size, less: 1, name: "{name}-{replica}-{member}",
     labels: {role: worker}}
"""


@pytest.mark.parametrize(("number", "going"), [(0, "lw-3 lw-3-1 lw-4 lw-4-1"), (1, "lw-4 lw-4-1"), (2, "")])
@pytest.mark.parametrize("size", [None, 1, 2])
def test_replicas_that_stay_are_counted_from_where_they_start(size: int | None, number: int, going: str) -> None:
    """A group of a size that nothing gives is a leader alone."""
    of = "example.com/v1 Group lw"
    pods = [owned(f"lw-{each}", of, {"role": "leader"}) for each in (3, 4)]
    pods += [owned(f"lw-{each}-1", of, {"role": "worker"}) for each in (3, 4) if size == 2]
    spec: Json = {"count": 2, "first": 3, "template": BOX, **({} if size is None else {"size": size})}
    there = workloads(of_kind("example.com/v1", "Group", "lw", **spec), *pods, rows=GROUPS)
    left = [each for each in going.split() if size == 2 or not each.endswith("-1")]
    before, gone, like = scaled(there, "group/lw", number)
    assert (before, sorted(gone.split()), like) == (2, left, "")


def test_no_more_than_eight_parts_are_named() -> None:
    specs = {f"Part{turn}": {"template": BOX} for turn in range(9)}
    there = workloads(of_kind("kubeflow.org/v1", "PyTorchJob", "pt", pytorchReplicaSpecs=specs))
    with pytest.raises(FieldError) as caught:
        scaled(there, "pytorchjob/pt", 1)
    choices = " or ".join(f"pytorchjob/pt/part{turn}" for turn in range(8))
    assert caught.value.message == f"pytorchjob default/pt has several counts: specify {choices}"


# -- priorities, and without -----------------------------------------------------------------------


def test_priority_is_set_in_every_template_in_place_of_a_class() -> None:
    """whatif.md 4.9: a class or a number, never both; how many templates there were."""
    given = loaded(*NODES, PYTORCH)
    there = Workloads(given, TABLE)
    found = there.named("pytorchjob/pt")

    def specs() -> list[tuple[object, object]]:
        parts = given.pod_makers[0].manifest["spec"]["pytorchReplicaSpecs"].values()
        return [
            (each["template"]["spec"].get("priorityClassName"), each["template"]["spec"].get("priority"))
            for each in parts
        ]

    assert there.set_priority(found, "high", 1000) == 2
    assert specs() == [("high", None)] * 2
    assert there.set_priority(found, "", 7) == 2
    assert specs() == [(None, 7)] * 2
    assert there.set_priority(NamedObject("apps", "ReplicaSet", "default", "gone"), "", 7) == 0


def test_workload_is_deleted_with() -> None:
    """whatif.md 4.10: what it owns, its pods, and the groups that no other pods name."""
    member: Json = {"schedulingGroup": {"podGroupName": "shared"}}
    own: Json = {"schedulingGroup": {"podGroupName": "own"}}
    below = of_kind("batch/v1", "Job", "js-w-0", template=BOX)
    below["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "controller": True}
    ]
    jobset = of_kind("jobset.x-k8s.io/v1alpha2", "JobSet", "js", replicatedJobs=[])
    documents = (
        jobset,
        below,
        BATCH,
        gang("shared", 1),
        gang("own", 1),
        gang("idle", 1),
        pod("a", owner="Job js-w-0", **own),
        pod("b", owner="Job js-w-0", **member),
        pod("c", **member),
        pod("d", owner="Job j"),
    )
    for given, pods, groups, left in (
        ("jobset/js", "a b", "own", "Job/j"),
        ("job/js-w-0", "a b", "own", "JobSet/js Job/j"),
        ("job/j", "d", "", "JobSet/js Job/js-w-0"),
        ("pod/a", "a", "", "JobSet/js Job/js-w-0 Job/j"),
        ("podgroup/shared", "b c", "shared", "JobSet/js Job/js-w-0 Job/j"),
        ("podgroup/idle", "", "idle", "JobSet/js Job/js-w-0 Job/j"),
    ):
        there = loaded(*NODES, *documents)
        work = Workloads(there, TABLE)
        going, gone = work.remove(work.named(given))
        assert " ".join(one.object.name for one in going) == pods
        assert " ".join(one.object.name for one in gone) == groups
        kinds = [f"{one.manifest['kind']}/{one.manifest['metadata']['name']}" for one in there.pod_makers]
        assert " ".join(kinds) == left
