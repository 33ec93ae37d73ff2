"""One policy from the chosen jobs to its report, and how it is written (replay.md 1.6, 4.8)."""

from __future__ import annotations

import json

import pytest

from kube_rules import objects
from kube_rules.work_annotations import CHECKPOINT_INTERVAL, RESTART_COST
from reprieve.replay.accounts import Timeline
from reprieve.replay.documents import as_csv, as_json
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.job_objects import Makers, Terms, terms_for
from reprieve.replay.measures import ALWAYS, table
from reprieve.replay.perfetto import as_trace
from reprieve.replay.policy_run import PolicyOutcome, Stop, simulate
from reprieve.replay.selection import ChosenJobs
from reprieve.replay.world import Policy, WorldSettings
from tests.building import node
from tests.replay.building import gpu_nodes, job

ONE_AFTER_THE_OTHER = [job(name, at, 10, gpu=8) for at, name in enumerate("abc")]


def simulated(until: float | None = None, stop: Stop | None = None) -> tuple[PolicyOutcome, list[tuple[int, int]]]:
    """The outcome, and what was reported on the way: jobs that have ended, and when."""
    steps: list[tuple[int, int]] = []
    cluster = [(item, 0.0) for item in gpu_nodes(1)]
    chosen = ChosenJobs(ONE_AFTER_THE_OTHER, None if until is None else round(until * 1000), None)

    def progress(done: int, now: int) -> None:
        steps.append((done, now))
        if stop is not None:
            stop.now()

    return simulate("p", chosen, cluster, Policy(), WorldSettings(), stop=stop, progress=progress), steps


@pytest.mark.parametrize(
    ("until", "ended", "done"), [(None, 30, 3), (25, 25, 2), (30, 30, 2), (30.001, 30.001, 3), (100, 100, 3), (0, 0, 0)]
)
def test_run_ends_with_its_jobs_or_at_its_end(until: float | None, ended: float, done: int) -> None:
    """replay.md 1.3: what happens at the end itself is after it; a job that gets more time has waited for it."""
    found, steps = simulated(until)
    assert (found.report.ended, found.report.total.done, found.report.interrupted) == (ended, done, False)
    assert steps == [(1, 10_000), (2, 20_000), (3, 30_000)][:done]
    assert (found.report.name, found.timeline) == ("p", None)


def test_stopped_replay_is_reported_up_to_there() -> None:
    """replay.md 1.6; a policy that is stopped before it begins has simulated nothing."""
    found, steps = simulated(100, Stop())
    assert (found.report.ended, found.report.total.done, found.report.interrupted) == (10.0, 1, True)
    assert steps == [(1, 10_000)]
    stop = Stop()
    assert not stop.wanted
    stop.now()
    found, steps = simulated(100, stop)
    assert (found.report.ended, found.report.decisions, found.report.interrupted, steps) == (0.0, 0, True, [])


# -- documents -----------------------------------------------------------------------------------------------------


def test_json_has_the_setting_and_a_report_for_each_policy() -> None:
    found = simulated()[0]
    text = as_json([found, found], {"jobs": 3})
    assert text.startswith(
        '{\n "apiVersion": "reprieve.dev/v1alpha1",\n "kind": "Replay",\n "setting": {\n  "jobs": 3\n'
    )
    assert text.endswith("}\n")
    assert [policy["name"] for policy in json.loads(text)["policies"]] == ["p", "p"]
    assert json.loads(text)["policies"][0]["total"]["neverStarted"] == 0


def test_csv_has_whole_numbers_where_they_are_and_nothing_where_there_is_nothing() -> None:
    lines = as_csv([simulated(15.5)[0]]).splitlines()
    assert lines[0] == (
        "policy,job,tenant,priority_class,priority,workers,gpus,submit,start,end,waiting,completion,slowdown,runs,"
        "evictions,allocated_gpu_hours,useful_gpu_hours,lost_gpu_hours,restart_gpu_hours"
    )
    assert lines[1:] == [
        "p,a,default,,0,1,8,0,0,10,0,10,1,1,0,0.022222,0.022222,0,0",
        "p,b,default,,0,1,8,1,10,,9,,,1,0,0.012222,0.012222,0,0",
        "p,c,default,,0,1,8,2,,,13.5,,,0,0,0,0,0,0",
    ]


def test_rows_of_the_table_that_say_nothing_are_left_out() -> None:
    """replay.md 4.8: those by which policies are compared are always there."""
    quiet = simulated()[0].report
    found = dict(table([quiet, quiet]))
    assert found.keys() >= ALWAYS
    assert found["evicted units"] == ["0", "0"]
    assert found["jobs"] == found["done"] == ["3", "3"]
    assert {"evicted pods", "evicted runs", "budget violations", "never started", "unfinished"}.isdisjoint(found)
    assert "evicted runs" not in dict(table([simulated(0)[0].report])), "no run at all is no share of runs"


# -- the trace -----------------------------------------------------------------------------------------------------


def by_hand() -> PolicyOutcome:
    """Two pods beside each other on n1, one of which goes for a job that comes to n0; times in milliseconds."""
    line = Timeline()
    line.placed("a", 2, 2, "n1", 5)
    line.placed("b", 1, 0, "n1", 6)
    line.preempted(10, 0, ["b"])
    line.preempted(11, -1, [])
    line.gone("b", 40)
    line.placed("c", 0, 0, "n0", 40)
    line.close(50)
    found = simulated()[0]
    return PolicyOutcome(found.report, found.rows, line)


def test_every_event_of_a_trace() -> None:
    """Processes are the preemptions and then the nodes by name, threads their slots; times in microseconds."""
    events = json.loads(as_trace([by_hand()]))["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {(1, 0): "preemptions", (2, 0): "slot 1", (3, 0): "slot 1", (3, 1): "slot 2"} | {}
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {1: "preemptions", 2: "n0", 3: "n1"}
    slices = [
        (event["name"], event["cat"], event["pid"], event["tid"], event["ts"], event["dur"], event["args"])
        for event in events
        if event["ph"] == "X"
    ]
    assert slices == [
        ("a", "unfinished", 2, 0, 40_000, 10_000, {"worker": 0, "outcome": "unfinished"}),
        ("c", "unfinished", 3, 0, 5000, 45_000, {"worker": 2, "outcome": "unfinished"}),
        ("b", "preempted", 3, 1, 6000, 34_000, {"worker": 0, "outcome": "preempted"}),
        ("a preempts", "preemption", 1, 0, 10_000, 1_000_000, {"preemptor": "a", "victims": 1}),
        (
            *("a pod of the cluster file preempts", "preemption", 1, 1, 11_000, 1_000_000),
            {"preemptor": "a pod of the cluster file", "victims": 0},
        ),
    ]
    flows = [(event["ph"], event["pid"], event["tid"], event["ts"]) for event in events if event["ph"] in "sf"]
    assert flows == [("s", 1, 0, 10_000), ("f", 3, 1, 10_000)]


def test_policies_of_a_trace_have_processes_and_flows_of_their_own() -> None:
    found = by_hand()
    events = json.loads(as_trace([found, found]))["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    one = {1: "preemptions", 2: "n0", 3: "n1"}
    assert processes == {pid + more: f"p: {name}" for more in (0, 3) for pid, name in one.items()}
    flows = [event["id"] for event in events if event["ph"] == "s"]
    assert len(flows) == len(set(flows)) == 2
    without = PolicyOutcome(found.report, found.rows)
    assert json.loads(as_trace([without])) == {"traceEvents": [], "displayTimeUnit": "ms"}


# -- jobs as objects -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "terms"),
    [
        ([node("n")], ("nvidia.com/gpu", 1, "gpu-model")),
        ([node("n", gpu=8)], ("nvidia.com/gpu", 1, "gpu-model")),
        ([node("n", more={"a.com/gpu-milli": 1000})], ("a.com/gpu-milli", 1000, "gpu-model")),
        ([node("n", more={"b.com/gpu-milli": 1, "a.com/gpu-milli": 1})], ("a.com/gpu-milli", 1000, "gpu-model")),
        # whole GPUs beside thousandths: the whole ones
        ([node("n", more={"a.com/gpu-milli": 1000}), node("m", gpu=8)], ("nvidia.com/gpu", 1, "gpu-model")),
        ([node("n", labels={"nvidia.com/gpu.product": "T4"})], ("nvidia.com/gpu", 1, "nvidia.com/gpu.product")),
        (
            [node("n", labels={"nvidia.com/gpu.product": "T4"}), node("m", labels={"gpu-model": "T4"})],
            ("nvidia.com/gpu", 1, "gpu-model"),
        ),
        ([objects.Node(metadata=objects.ObjectMeta(name="bare"))], ("nvidia.com/gpu", 1, "gpu-model")),
    ],
)
def test_how_the_nodes_call_gpus_and_models(nodes: list[objects.Node], terms: tuple[str, int, str]) -> None:
    """replay.md 3.2."""
    found = terms_for(nodes, checkpoint=5, restart=7)
    assert (found.gpu, found.per_gpu, found.model_label, found.checkpoint, found.restart) == (*terms, 5, 7)


def made(one: ReplayJob, terms: Terms | None = None) -> tuple[objects.Pod, objects.PodGroup]:
    makers = Makers(terms or Terms(), {"high": 1000})
    return makers.pod(one, "u", "j-0", "j"), makers.group(one, "j")


@pytest.mark.parametrize(
    ("content", "terms", "requests"),
    [
        ({"gpu": 0}, Terms(), {}),
        ({"gpu": 2}, Terms(), {"nvidia.com/gpu": "2"}),
        ({"gpu": 0.5}, Terms("x/gpu-milli", 1000), {"x/gpu-milli": "500"}),
        ({"gpu": 2}, Terms("x/gpu-milli", 1000), {"x/gpu-milli": "2000"}),
        ({"gpu": 0, "cpu": 1500, "memory": 7}, Terms(), {"cpu": "1500m", "memory": "7"}),
    ],
)
def test_worker_requests(content: dict[str, float], terms: Terms, requests: dict[str, str]) -> None:
    pod, _ = made(job("j", 0, 1, **content), terms)  # type: ignore[arg-type]
    (container,) = pod.spec.containers
    assert container.resources.requests == requests


def test_worker_of_a_gang_and_its_group() -> None:
    one = job(
        *("j", 0, 1),
        workers=4,
        min_workers=3,
        models=("A", "B"),
        priority_class="high",
        tenant="t",
        topology_key="rack",
        labels=(("k", "v"),),
        whole=False,
    )
    pod, group = made(one)
    assert (pod.metadata.name, pod.metadata.namespace, pod.metadata.uid, pod.metadata.labels) == (
        *("j-0", "t", "u"),
        {"k": "v"},
    )
    assert pod.spec.scheduling_group == objects.PodSchedulingGroup(pod_group_name="j")
    assert (pod.spec.priority, pod.spec.priority_class_name) == (1000, "high")
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    [[wanted]] = [term.match_expressions for term in required.node_selector_terms]
    assert (wanted.key, wanted.operator, tuple(wanted.values)) == ("gpu-model", "In", ("A", "B"))
    assert (group.metadata.name, group.metadata.namespace, group.metadata.uid) == ("j", "t", "t/j")
    spec = group.spec
    assert spec.scheduling_policy is not None
    assert spec.scheduling_policy.gang == objects.GangSchedulingPolicy(min_count=3)
    assert spec.scheduling_constraints is not None
    assert [one.key for one in spec.scheduling_constraints.topology] == ["rack"]
    assert spec.disruption_mode == objects.DisruptionMode(single=objects.Empty())
    assert (spec.priority, spec.priority_class_name) == (1000, "high")


def test_plain_worker_and_group() -> None:
    one = job("j", 0, 1, workers=2)
    pod, group = made(one)
    assert (pod.spec.affinity, pod.spec.priority, pod.metadata.annotations) == (None, 0, {})
    assert group.spec.scheduling_constraints is not None
    assert group.spec.scheduling_constraints.topology == ()
    assert group.spec.disruption_mode == objects.DisruptionMode(all=objects.Empty())
    alone = Makers(Terms(), {}).pod(one, "u", "j", "")
    assert alone.spec.scheduling_group is None


@pytest.mark.parametrize(
    ("own", "given", "restart", "annotations"),
    [
        (None, None, 0, {}),
        (60, None, 0, {CHECKPOINT_INTERVAL: "60000ms"}),
        (None, 5, 0, {CHECKPOINT_INTERVAL: "5ms"}),
        (60, 5, 7, {CHECKPOINT_INTERVAL: "60000ms", RESTART_COST: "7ms"}),
    ],
)
def test_engine_knows_checkpoints_and_the_restart_cost_by_annotations(
    own: int | None, given: int | None, restart: int, annotations: dict[str, str]
) -> None:
    """replay.md 3.6."""
    one = job("j", 0, 1) if own is None else job("j", 0, 1, checkpoint=own)
    assert made(one, Terms(checkpoint=given, restart=restart))[0].metadata.annotations == annotations


def test_jobs_of_other_shapes_have_other_specs() -> None:
    """Specs are kept by shape."""
    makers = Makers(Terms(), {})
    requests = []
    for gpu in (1, 2, 1):
        pod = makers.pod(job("j", 0, 1, gpu=gpu), "u", "j", "")
        requests.append(pod.spec.containers[0].resources.requests)
    assert requests == [{"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}]
    first, second = (makers.group(job("j", 0, 1, workers=count), "g") for count in (2, 3))
    assert first.spec.scheduling_policy != second.spec.scheduling_policy
