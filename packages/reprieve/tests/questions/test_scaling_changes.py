"""`--scale` and `--set-priority` of workloads of every kind (whatif.md 2.5)."""

from __future__ import annotations

import pytest

from reprieve.questions.changes import InputChange, changed
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.table import TABLE
from tests.questions.test_changes import BOX, DEPLOYMENT, NODES, PYTORCH, RAY, Json, loaded, made, names, of_kind, pod


def test_scaling_sets_the_count_of_a_template() -> None:
    assert len(names(made(loaded(*NODES, DEPLOYMENT), "scale deployment/web=5"))) == 5
    assert names(made(loaded(*NODES, DEPLOYMENT), "scale deploy/web=0")) == []


def test_scaling_one_part_of_a_workload() -> None:
    assert names(made(loaded(*NODES, PYTORCH), "scale pytorchjob/pt/worker=1")) == ["pt-master-0", "pt-worker-0"]
    runs = {**pod("pt-worker-1", on="n1"), "metadata": {"name": "pt-worker-1", "namespace": "default"}}
    runs["metadata"]["ownerReferences"] = [
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "pt", "controller": True}
    ]
    assert names(made(loaded(*NODES, PYTORCH, runs), "scale pytorchjob/pt/worker=1")) == ["pt-master-0", "pt-worker-0"]


ROWS = """
apiVersion: reprieve.dev/v1alpha1
kind: WorkloadKinds
workloadKinds:
- group: example.com
  kind: Sweep
  sets:
  - {each: spec.trials.*, template: pod, replicas: count, labels: {example.com/trial: "{part}"}}
- group: example.com
  kind: Flat
  sets:
  - {each: spec, template: template, replicas: count, name: "{name}-"}
- group: example.com
  kind: Stack
  scale: spec.depth
  sets:
  - {each: spec, replicas: depth, name: "{name}-{index}"}
"""


def owned(name: str, by: str, labels: dict[str, str] | None = None) -> Json:
    """A running pod; `by`: `VERSION KIND NAME` of its controller."""
    version, kind, of = by.split()
    found = pod(name, on="n1", cpu="100m", labels=labels or {})
    found["metadata"]["ownerReferences"] = [{"apiVersion": version, "kind": kind, "name": of, "controller": True}]
    return found


def of_jobset(part: str, job: int, index: int) -> Json:
    labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": part}
    labels["batch.kubernetes.io/job-completion-index"] = str(index)
    return owned(f"js-{part}-{job}-{index}-abcde", f"batch/v1 Job js-{part}-{job}", labels)


JOBSET = of_kind(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    "js",
    replicatedJobs=[
        {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": BOX}}}
    ],
)
LWS = of_kind(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    "lw",
    replicas=2,
    leaderWorkerTemplate={"size": 2, "workerTemplate": BOX},
)
OF_LWS = [
    owned(name, f"apps/v1 StatefulSet {above}", {"leaderworkerset.sigs.k8s.io/name": "lw", **of})
    for name, above, of in (
        ("lw-0", "lw", {"leaderworkerset.sigs.k8s.io/worker-index": "0"}),
        ("lw-0-1", "lw-0", {"leaderworkerset.sigs.k8s.io/worker-index": "1"}),
        ("lw-1", "lw", {"leaderworkerset.sigs.k8s.io/worker-index": "0"}),
        ("lw-1-1", "lw-1", {"leaderworkerset.sigs.k8s.io/worker-index": "1"}),
    )
]
OF_LWS += [
    {
        **of_kind("apps/v1", "StatefulSet", name),
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": [{"apiVersion": version, "kind": kind, "name": of, "controller": True}],
        },
    }
    for name, version, kind, of in (
        ("lw", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lw"),
        ("lw-0", "v1", "Pod", "lw-0"),
        ("lw-1", "v1", "Pod", "lw-1"),
    )
]
SWEEP = of_kind("example.com/v1", "Sweep", "s", trials={"small": {"count": 1, "pod": BOX}, "large": {"pod": BOX}})
MPI = of_kind(
    "kubeflow.org/v2beta1",
    "MPIJob",
    "mpi",
    mpiReplicaSpecs={"Launcher": {"template": BOX}, "Worker": {"replicas": 2, "template": BOX}},
)


ORDINALS = of_kind("apps/v1", "StatefulSet", "db", replicas=3, ordinals={"start": 4}, template=BOX)


@pytest.mark.parametrize(
    ("given", "flag", "there"),
    [
        pytest.param([SWEEP], "sweep/s/small=2", "s-large-0 s-small-0 s-small-1", id="a part of a row of one's own"),
        pytest.param(
            [SWEEP, owned("s-small-0", "example.com/v1 Sweep s", {"example.com/trial": "small"})],
            "sweep/s/small=0",
            "s-large-0",
            id="a part that runs, less of it",
        ),
        pytest.param(
            [of_kind("example.com/v1", "Flat", "f", count=1, template=BOX), owned("f-xyzab", "example.com/v1 Flat f")],
            "flat/f=2",
            "f-00000 f-xyzab",
            id="the one count there is",
        ),
        pytest.param(
            [of_kind("example.com/v1", "Stack", "t", template=BOX)], "stack/t=2", "t-0 t-1", id="the count of the row"
        ),
        pytest.param(
            [JOBSET, *(of_jobset("w", job, index) for job in (0, 1) for index in (0, 1))],
            "jobset/js/w=1",
            "js-w-0-0-abcde js-w-0-1-abcde",
            id="Jobs between",
        ),
        pytest.param([LWS, *OF_LWS], "lws/lw=1", "lw-0 lw-0-1", id="groups of a LeaderWorkerSet"),
        pytest.param([MPI], "mpijob/mpi=1", "mpi-launcher-00000 mpi-worker-0", id="workers, as launchers are one"),
        pytest.param([MPI], "mpijob/mpi/worker=1", "mpi-launcher-00000 mpi-worker-0", id="workers by name"),
        pytest.param(
            [RAY], "raycluster/ray/small=2", "ray-head-00000 ray-small-worker-00000 ray-small-worker-00001", id="Ray"
        ),
        pytest.param(
            [ORDINALS, owned("db-4", "apps/v1 StatefulSet db"), owned("db-6", "apps/v1 StatefulSet db")],
            "sts/db=2",
            "db-4 db-5",
            id="ordinals with a gap",
        ),
    ],
)
def test_scaling_follows_the_templates_of_every_kind(given: list[Json], flag: str, there: str) -> None:
    """whatif.md 4.8: the count is set, fewer go as their controller ends them, more are made of the template."""
    rows = TABLE.with_more(read_rows("rows.yaml", ROWS))
    after = changed(loaded(*NODES, *given), [InputChange("scale", flag)], rows=rows)
    made_of = expand(after.manifests, rows=rows)
    assert (not made_of.problems, " ".join(sorted(one.object.name for one in made_of.manifests.pods))) == (True, there)
    assert "the new ones like" not in after.applied[0].sentence


def test_priority_of_a_kind_of_ones_own_is_set_in_its_templates() -> None:
    """whatif.md 4.9, and 4.10: without it nothing asks for its pods."""
    rows = TABLE.with_more(read_rows("rows.yaml", ROWS))
    later = changed(loaded(*NODES, SWEEP), [InputChange("set-priority", "sweep/s=7")], rows=rows)
    assert [one.object.spec.priority for one in expand(later.manifests, rows=rows).manifests.pods] == [7, 7]
    never = changed(loaded(*NODES, SWEEP), [InputChange("without", "sweep/s")], rows=rows)
    assert not expand(never.manifests, rows=rows).manifests.pods
