"""Reading the openb trace and filling its nodes (shared/data/README.md), and the command around it."""

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest

from reprieve.inputs.loader import load
from reprieve.replay.job_list import JobListError
from reprieve.replay.traces import openb_cluster as openb
from reprieve.replay.traces.importer import Machine
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.outside import BESIDE, needs

TRACE = BESIDE / "data"
EXAMPLES = Path(__file__).parents[5] / "examples"
needs_trace = needs(TRACE)

NODES = """sn,cpu_milli,memory_mib,gpu,model
cpu-0,32000,262144,0,
t4-0,16000,65536,2,T4
g2-0,8500,1000,1,G2
"""
TASK_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
TASKS = (
    TASK_HEADER
    + """late,1000,1024,1,500,G2|T4,BE,Running,20,90,25
first,1500,100,1,1000,G2,LS,Running,10,90,10
no-gpu,1000,1024,0,0,,Burstable,Pending,10,90,
second,1000,100,1,1000,G2,Guaranteed,Running,11,90,11
"""
)


def trace(tmp_path: Path, nodes: str = NODES, tasks: str = TASKS) -> tuple[Path, Path]:
    paths = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    for path, text in zip(paths, (nodes, tasks), strict=True):
        path.write_text(text)
    return paths


def machine(name: str, cpu: int, mebibytes: int, gpus: int, model: str) -> Machine:
    """Cpu in milli-cores."""
    return Machine(name, cpu, mebibytes << 20, gpus, model)


def filled(tmp_path: Path, nodes: str = NODES, tasks: str = TASKS) -> openb.FilledCluster:
    machines, work = trace(tmp_path, nodes, tasks)
    return openb.fill(openb.read_nodes(machines), openb.read_tasks(work))


def documents(found: openb.FilledCluster, kind: str) -> dict[str, openb.Document]:
    return {doc["metadata"]["name"]: doc for doc in found.documents if doc["kind"] == kind}


def test_nodes_carry_model_and_milli_gpus(tmp_path: Path) -> None:
    nodes = documents(filled(tmp_path), "Node")
    assert nodes["t4-0"]["metadata"]["labels"] == {"gpu-model": "T4"}
    assert nodes["t4-0"]["status"]["allocatable"] == {
        "cpu": "16",
        "memory": "64Gi",
        "alibabacloud.com/gpu-milli": "2000",
        "pods": "110",
    }
    assert "labels" not in nodes["cpu-0"]["metadata"]
    assert nodes["g2-0"]["status"]["allocatable"]["cpu"] == "8500m"
    assert nodes["g2-0"]["status"]["allocatable"]["memory"] == "1000Mi"
    assert "alibabacloud.com/gpu-milli" not in nodes["cpu-0"]["status"]["allocatable"]


def test_tasks_become_running_pods_where_the_engine_placed_them(tmp_path: Path) -> None:
    pods = documents(filled(tmp_path), "Pod")
    assert {name: pod["spec"]["nodeName"] for name, pod in pods.items()} == {
        "first": "g2-0",
        "no-gpu": "cpu-0",
        "late": "t4-0",
    }
    late = pods["late"]
    assert late["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi", "alibabacloud.com/gpu-milli": "500"},
        "limits": {"alibabacloud.com/gpu-milli": "500"},
    }
    required = late["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "gpu-model", "operator": "In", "values": ["G2", "T4"]}]}
    ]
    assert late["metadata"]["creationTimestamp"] == "2025-08-01T00:00:20Z"
    assert late["status"] == {"phase": "Running", "startTime": "2025-08-01T00:00:25Z"}


def test_task_never_scheduled_in_the_trace_starts_when_it_was_created(tmp_path: Path) -> None:
    assert documents(filled(tmp_path), "Pod")["no-gpu"]["status"]["startTime"] == "2025-08-01T00:00:10Z"


def test_tasks_arrive_by_creation_time_and_those_without_room_are_left_out(tmp_path: Path) -> None:
    """`second` asks for the GPU that `first`, created earlier, has: no pod leaves, none is preempted."""
    found = filled(tmp_path)
    assert (found.placed, found.left_out) == (3, ("second",))
    assert list(documents(found, "Pod")) == ["first", "no-gpu", "late"]


def test_tasks_created_at_once_arrive_in_file_order(tmp_path: Path) -> None:
    row = "{},1,1,1,1000,G2,LS,Running,5,9,5\n"
    for names in (("b", "a"), ("a", "b")):
        assert filled(tmp_path, tasks=TASK_HEADER + "".join(map(row.format, names))).left_out == (names[1],)


@pytest.mark.parametrize(
    ("qos", "priority_class"),
    [
        ("LS", "openb-latency-sensitive"),
        ("Guaranteed", "openb-latency-sensitive"),
        ("Burstable", "openb-latency-sensitive"),
        ("BE", "openb-best-effort"),
    ],
)
def test_qos_becomes_one_of_two_priority_classes(qos: str, priority_class: str, tmp_path: Path) -> None:
    found = filled(tmp_path, tasks=TASK_HEADER + f"p,1,1,0,0,,{qos},Running,5,9,5\n")
    assert documents(found, "Pod")["p"]["spec"]["priorityClassName"] == priority_class
    classes = documents(found, "PriorityClass")
    assert classes["openb-latency-sensitive"]["value"] > classes["openb-best-effort"]["value"]


def test_more_important_task_evicts_no_pods_while_the_nodes_fill(tmp_path: Path) -> None:
    rows = "low,1,1,1,1000,G2,BE,Running,1,9,1\nhigh,1,1,1,1000,G2,LS,Running,2,9,2\n"
    assert filled(tmp_path, tasks=TASK_HEADER + rows).left_out == ("high",)


@pytest.mark.parametrize("ending", ["json", "yaml", "yml"])
def test_trace_written_loads_back(ending: str, tmp_path: Path, run: Run) -> None:
    nodes, pods = trace(tmp_path)
    output = tmp_path / f"cluster.{ending}"
    ended = run("import", "openb", "--nodes", nodes, "--pods", pods, "-o", output)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == (f"{output}: 3 nodes, 3 running pods\n1 task skipped, no node had enough capacity: second\n")
    manifests = load([output])
    assert [loaded.object.name for loaded in manifests.nodes] == ["cpu-0", "t4-0", "g2-0"]
    assert [(p.object.name, p.object.spec.node_name, p.object.spec.priority) for p in manifests.pods] == [
        ("first", "g2-0", 1000),
        ("no-gpu", "cpu-0", 1000),
        ("late", "t4-0", 100),
    ]
    assert all(p.object.metadata.creation_timestamp and p.object.status.start_time for p in manifests.pods)


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    import yaml

    found = filled(tmp_path).documents
    assert json.loads(openb.as_json(found))["items"] == list(yaml.safe_load_all(openb.as_yaml(found)))


WRONG = {
    "missing column": ("nodes", NODES.replace(",gpu,", ",gpus,"), ", line 1, column gpu: no such column"),
    "empty file": ("nodes", "", ", line 1: empty: expected a first line with the names of the columns"),
    "no number": (
        "nodes",
        NODES.replace("16000", "16k"),
        ", line 3, column cpu_milli: expected a whole number from 0 to",
    ),
    "negative": (
        "pods",
        TASKS.replace("late,1000", "late,-1"),
        ", line 2, column cpu_milli: expected a whole number from 0",
    ),
    "far too large": ("pods", TASKS.replace("late,1000", "late," + "9" * 5000), ", line 2, column cpu_milli: expected"),
    "no name": ("nodes", NODES.replace("t4-0", "T4_0"), ", line 3, column sn: expected a name of lower-case letters"),
    "no label": (
        "nodes",
        NODES.replace("2,T4", "2,T 4"),
        ", line 3, column model: expected a value that can be a label",
    ),
    "unknown qos": (
        "pods",
        TASKS.replace("BE", "XX"),
        ", line 2, column qos: expected one of LS, Guaranteed, Burstable, BE",
    ),
    "short row": ("pods", TASKS + "x,1\n", ", line 6: 2 fields, the first line has 11"),
    "twice": ("nodes", NODES + "t4-0,1,1,0,\n", ', line 5, column sn: "t4-0" is on line 3 already'),
    "open quote": ("nodes", NODES + '"x', ", line 5: broken CSV: unexpected end of data"),
    "zero byte": ("nodes", NODES + "a\0,1,1,0,\n", ", line 5, column sn: expected a name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_broken_trace_is_one_error_with_file_line_and_column(case: str, tmp_path: Path, run: Run) -> None:
    which, text, message = WRONG[case]
    nodes, pods = trace(tmp_path, **{"nodes" if which == "nodes" else "tasks": text})
    output = tmp_path / "cluster.json"
    ended = run("import", "openb", "--nodes", nodes, "--pods", pods, "-o", output)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {tmp_path / which}.csv{message}")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 400 + len(str(tmp_path))
    assert not output.exists()


def test_trace_that_is_no_text_or_too_large_is_refused(tmp_path: Path, run: Run) -> None:
    nodes, pods = trace(tmp_path)
    options = ("import", "openb", "--nodes", nodes, "--pods", pods, "-o", tmp_path / "cluster.json")
    assert "larger than 20 bytes" in run(*options, "--max-input-bytes", "20").err
    nodes.write_bytes(NODES.encode() + b"\xff")
    ended = run(*options)
    assert (ended.code, ended.err) == (2, f"error: {nodes}, line 5: not UTF-8 text\n")


def test_place_that_cannot_be_written_is_one_error(tmp_path: Path, run: Run) -> None:
    nodes, pods = trace(tmp_path)
    ended = run("import", "openb", "--nodes", nodes, "--pods", pods, "-o", tmp_path / "no" / "cluster.json")
    assert ended.code == 2
    assert ended.err == f"error: {tmp_path / 'no' / 'cluster.json'}: No such file or directory\n"


@needs_trace
def test_whole_trace_and_a_gang_that_takes_64_whole_nodes(tmp_path: Path, run: Run) -> None:
    """1,523 nodes, 8,152 tasks, then 64 pods of 8,000 milli-GPUs at top priority; the same answer every time."""
    cluster = tmp_path / "cluster.json"
    nodes, pods = TRACE / "openb_node_list_all_node.csv", TRACE / "openb_pod_list_default.csv"
    assert run("import", "openb", "--nodes", nodes, "--pods", pods, "-o", cluster).code == 0
    again = openb.fill(openb.read_nodes(nodes), openb.read_tasks(pods))
    assert cluster.read_bytes() == openb.as_json(again.documents)
    assert again.placed + len(again.left_out) == 8152
    assert len(again.left_out) < 100
    command = ("plan", "-f", cluster, "-f", EXAMPLES / "openb-gang.yaml", "-o", "json", "--fail-on-pending")
    plans = []
    for _ in range(2):
        ended = run(*command)
        assert (ended.code, ended.err) == (0, "")
        plan = msgspec.json.decode(ended.out)
        del plan["stats"]["seconds"]
        plans.append(plan)
    assert plans[0] == plans[1]
    assert len({pod["nodeName"] for pod in plans[0]["pods"]}) == 64
    assert len(plans[0]["preemptions"]) == 1


# -- the bounds of each column, without the command ----------------------------------------------------------------


def node_of(tmp_path: Path, *fields: str) -> Machine:
    """The machine of one row."""
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\n" + ",".join(fields) + "\n")
    [found] = openb.read_nodes(tmp_path / "nodes.csv")
    return found


@pytest.mark.parametrize(
    ("position", "text", "taken"),
    [
        (0, "a", True),
        (0, "a" * 253, True),
        (0, "a" * 254, False),
        (0, "a-.b", True),
        (0, "-a", False),
        (0, "a-", False),
        (0, "", False),
        (1, "0", True),
        (1, "1000000000", True),
        (1, "1000000001", False),
        (1, "0" * 30 + "7", True),
        (1, "٣", False),
        (1, "", False),
        (1, " 1", True),
        (4, "", True),
        (4, "A_b.c-9", True),
        (4, "a" * 63, True),
        (4, "a" * 64, False),
        (4, "-a", False),
    ],
)
def test_both_sides_of_what_a_column_takes(position: int, text: str, taken: bool, tmp_path: Path) -> None:
    fields = ["n", "1", "1", "1", "M"]
    fields[position] = text
    if taken:
        found = node_of(tmp_path, *fields)
        values = (found.name, found.cpu, found.memory, found.gpus, found.model)
        assert str(values[position]) == (text.strip().lstrip("0") or "0" if position == 1 else text)
        return
    with pytest.raises(JobListError) as refused:
        node_of(tmp_path, *fields)
    column = ("sn", "cpu_milli", "memory_mib", "gpu", "model")[position]
    assert f"line 2, column {column}: expected" in str(refused.value)


@pytest.mark.parametrize(("length", "shown"), [(80, '"' + "A" * 80 + '"'), (81, '"' + "A" * 77 + '..."')])
def test_values_found_are_shown_up_to_a_length(length: int, shown: str, tmp_path: Path) -> None:
    with pytest.raises(JobListError) as refused:
        node_of(tmp_path, "A" * length, "1", "1", "1", "")
    assert str(refused.value).endswith(f"found {shown}")


def test_file_of_exactly_the_most_bytes_is_read(tmp_path: Path) -> None:
    nodes, pods = trace(tmp_path)
    for path, read in ((nodes, openb.read_nodes), (pods, openb.read_tasks)):
        size = path.stat().st_size
        assert read(path, max_bytes=size)
        with pytest.raises(JobListError, match=rf"larger than {size - 1} bytes \(--max-input-bytes raises the limit\)"):
            read(path, max_bytes=size - 1)


def test_byte_order_mark_other_columns_and_empty_lines_are_no_trouble(tmp_path: Path) -> None:
    text = "\ufeffmodel,other,gpu,memory_mib,cpu_milli,sn\n\nT4,x,2,3,4,n1\n\n,y,0,1,2,n0\n"
    (tmp_path / "nodes.csv").write_text(text, encoding="utf-8")
    assert openb.read_nodes(tmp_path / "nodes.csv") == [
        machine("n1", 4, 3, 2, "T4"),
        machine("n0", 2, 1, 0, ""),
    ]


def test_task_asks_for(tmp_path: Path) -> None:
    """num_gpu x gpu_milli; models as they are listed, each once; it starts when it was scheduled, or created."""
    rows = "b,1,2,3,500,G2||T4|G2,LS,Running,7,9,8\na,1,2,0,1000,,BE,Running,6,9,\n"
    (tmp_path / "pods.csv").write_text(TASK_HEADER + rows)
    assert openb.read_tasks(tmp_path / "pods.csv") == [
        openb.TraceTask("a", 1, 2, 0, (), "openb-best-effort", 6, 6),
        openb.TraceTask("b", 1, 2, 1500, ("G2", "T4"), "openb-latency-sensitive", 7, 8),
    ]


@pytest.mark.parametrize(
    ("cpu", "memory", "cpu_text", "memory_text"),
    [
        (0, 0, "0", "0Mi"),
        (1, 1, "1m", "1Mi"),
        (999, 1023, "999m", "1023Mi"),
        (1000, 1024, "1", "1Gi"),
        (1001, 1025, "1001m", "1025Mi"),
        (64000, 2048, "64", "2Gi"),
    ],
)
def test_amounts_are_written_in_the_largest_unit(
    cpu: int, memory: int, cpu_text: str, memory_text: str, tmp_path: Path
) -> None:
    [node] = documents(openb.fill([machine("n", cpu, memory, 1, "M")], []), "Node").values()
    assert node["status"]["allocatable"] == {
        "cpu": cpu_text,
        "memory": memory_text,
        "alibabacloud.com/gpu-milli": "1000",
        "pods": "110",
    }
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["metadata"]["creationTimestamp"] == "2025-08-01T00:00:00Z"


def test_node_takes_as_many_pods_as_kubelets_do() -> None:
    tasks = [openb.TraceTask(f"t{i:03}", 0, 0, 0, (), "openb-best-effort", i, i) for i in range(111)]
    found = openb.fill([machine("n", 1000, 1024, 0, "")], tasks)
    assert (found.placed, found.left_out) == (110, ("t110",))


def test_task_of_a_model_goes_to_no_other(tmp_path: Path) -> None:
    machines = [machine(name, 1000, 1024, 1, model) for name, model in (("a", "M1"), ("b", "M2"), ("c", ""))]
    tasks = [openb.TraceTask(f"t{i}", 1, 1, 1000, ("M2",), "openb-best-effort", i, i) for i in range(2)]
    found = openb.fill(machines, tasks)
    assert [one["spec"]["nodeName"] for one in documents(found, "Pod").values()] == ["b"]
    assert found.left_out == ("t1",)
    [first] = documents(found, "Pod").values()
    assert first["spec"]["priorityClassName"] == "openb-best-effort"
    assert "affinity" in first["spec"]
    plain = documents(openb.fill(machines, [tasks[0], *(replaced(one, ()) for one in tasks[1:])]), "Pod")["t1"]
    assert "affinity" not in plain["spec"]


def replaced(task: openb.TraceTask, models: tuple[str, ...]) -> openb.TraceTask:
    """The task for other models."""
    return dataclasses.replace(task, models=models)
