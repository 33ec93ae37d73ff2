"""`reprieve replay` and `reprieve import`, as they are typed (replay.md 1, 2)."""

import csv
import gzip
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.conftest import run as run

JOBS = """job,submit,duration,workers,gpu,priority,tenant,checkpoint
a,0,3600,4,8,0,team-a,600
b,60,600,1,1,0,team-b,
c,1800,600,2,8,100,team-b,
"""
FOUR = ("--cluster", "four.yaml")
NO_PREEMPTION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    postFilter: {disabled: [{name: "*"}]}
    podGroupPostFilter: {disabled: [{name: "*"}]}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "endless.csv").write_text("job,submit,gpu\nweb,0,1\n")
    (tmp_path / "none.yaml").write_text(NO_PREEMPTION)
    node = "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{}}}\n"
    node += "status: {{allocatable: {{nvidia.com/gpu: 8, pods: 9}}}}\n"
    (tmp_path / "four.yaml").write_text("".join(map(node.format, range(1, 5))))
    return tmp_path


def test_policies_side_by_side_over_the_same_arrivals(run: Run, desk: Path) -> None:
    ended = run("replay", "jobs.csv", *FOUR, "--policy", "never=none.yaml", "--policy", "evict", "-o", "json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    never, evict = found["policies"]
    assert (never["name"], evict["name"]) == ("never", "evict")
    assert never["evictions"]["units"] == 0
    assert evict["evictions"]["units"] == 1
    assert never["total"]["jobs"] == evict["total"]["jobs"] == 3
    for policy in found["policies"]:
        time = policy["gpuTime"]
        assert time["allocated"] == time["useful"] + time["lost"] + time["restart"]
    text = run("replay", "jobs.csv", *FOUR, "--policy", "never=none.yaml", "--policy", "evict").out
    assert "never" in text.splitlines()[1]
    assert "evict" in text.splitlines()[1]
    assert " *" in text
    assert "%)" in text


def test_the_same_run_gives_the_same_bytes(run: Run, desk: Path) -> None:
    for form in ("text", "json", "csv", "trace"):
        arguments = ("replay", "jobs.csv", "-o", form, "--seed", "3", "--failures", "mtbf=6h,repair=10m")
        first, second = run(*arguments), run(*arguments)
        assert first.code == 0, first.err
        assert first.out == second.out


def test_csv_has_a_row_per_policy_and_job(run: Run, desk: Path) -> None:
    ended = run("replay", "jobs.csv", *FOUR, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert [(row["policy"], row["job"], row["start"]) for row in rows] == [
        ("default", "a", "0"),
        ("default", "b", "1830"),
        ("default", "c", "1830"),
    ]


def test_files_are_written_to_a_directory_and_the_table_to_stdout(run: Run, desk: Path) -> None:
    ended = run("replay", "jobs.csv", "-o", "json", "--out", "found")
    assert ended.out.startswith("Replay\n")
    assert json.loads((desk / "found" / "replay.json").read_text())["kind"] == "Replay"
    assert [file.name for file in (desk / "found").iterdir()] == ["replay.json"]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("", "empty"),
        ("job,submit\n", "no jobs to replay"),
        ("job,submit,gpus\na,0,1\n", 'unknown column "gpus"; did you mean "gpu"?'),
        ("job,duration\na,1\n", "column submit: no such column"),
        ("job,submit\na,0\na,1\n", 'line 3, column job: "a" is on line 2 already'),
        ("job,submit\na,-1\n", "line 2, column submit"),
        ("job,submit,gpu\na,0,1.5\n", "line 2, column gpu: want whole GPUs above one"),
        ("job,submit,gpu\na,0,0.5\n", "asks for a part of a GPU"),
        ("job,submit,workers,min_workers\na,0,2,3\n", "line 2, column min_workers: want at most workers, 2, found 3"),
        ("job,submit,workers\na,0,0\n", "line 2, column workers: want a whole number from 1 to 1000"),
        ("job,submit,duration\na,0,nan\n", "line 2, column duration: want seconds"),
        ("job,submit,duration\na,0,1e400\n", "line 2, column duration"),
        ("job,submit\na,2020-01-01T00:00:00Z\nb,5\n", "line 3, column submit: want RFC 3339 as in the rows before"),
        ("job,submit,memory\na,0,lots\n", "line 2, column memory: want a quantity"),
        ("job,submit,tenant\na,0,Team A\n", "line 2, column tenant"),
        ("job,submit,labels\na,0,x\n", "line 2, column labels"),
        ("job,submit,disruption\na,0,some\n", "line 2, column disruption: want all or single"),
        ("job,submit,priority_class\na,0,gold\n", 'names the priority class "gold"'),
        ("job,submit\na b,0\n", "line 2, column job"),
        ("job,submit\na,0,1\n", "line 2: 3 fields, the first line has 2"),
        ('job,submit\n"a,0\n', "broken CSV"),
        ("job,submit\n" + "x" * 70_000 + ",0\n", "line 2: a line of more than 65536 bytes"),
    ],
)
def test_what_makes_no_sense_is_named(run: Run, desk: Path, content: str, wanted: str) -> None:
    (desk / "bad.csv").write_text(content)
    cluster = desk / "cluster.yaml"
    cluster.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
        "status: {allocatable: {cpu: 8, nvidia.com/gpu: 8, pods: 9}}\n"
    )
    ended = run("replay", "bad.csv", "--cluster", "cluster.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert wanted in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("missing.csv",), "missing.csv: No such file"),
        (("jobs.csv", "--policy", "=x"), "--policy"),
        (("jobs.csv", "--policy", "a", "--policy", "a"), "given twice"),
        (("jobs.csv", "--policy", "a=nowhere.yaml"), "nowhere.yaml"),
        (("jobs.csv", "--from", "2017-10-01T00:00:00Z"), "no dates"),
        (("jobs.csv", "--from", "soon"), "--from"),
        (("jobs.csv", "--load", "0"), "--load"),
        (("jobs.csv", "--restart", "-1s"), "--restart"),
        (("jobs.csv", "--checkpoint", "0s"), "--checkpoint"),
        (("jobs.csv", "--failures", "mtbf=1d"), "--failures"),
        (("endless.csv", "--failures", "mtbf=1d,repair=1h"), 'job "web" never ends'),
        (("jobs.csv", "--failures", "nowhere.csv"), "--failures: nowhere.csv"),
        (("jobs.csv", "--cluster", "jobs.csv"), "jobs.csv"),
        (("jobs.csv", "--from", "30d"), "no jobs to replay between --from and --until"),
        (("jobs.csv", "--max-jobs", "2"), "more than 2 jobs (--max-jobs raises the limit)"),
        (("jobs.parquet",), "jobs.parquet"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(run: Run, desk: Path, arguments: tuple[str, ...], wanted: str) -> None:
    ended = run("replay", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert wanted in ended.err
    assert ended.err.count("error:") == 1


def test_bad_rows_are_left_out_and_counted_when_that_is_wanted(run: Run, desk: Path) -> None:
    (desk / "none.csv").write_text("job,submit\na,x\n")
    assert "no jobs to replay; 1 rows make no sense" in run("replay", "none.csv", "--skip-bad").err
    (desk / "some.csv").write_text("job,submit,duration\na,0,5\nb,x,5\nc,1,y\nd,2,5\n")
    ended = run("replay", "some.csv", "--skip-bad", "-o", "json")
    assert json.loads(ended.out)["policies"][0]["total"]["jobs"] == 2
    assert "2 rows make no sense and are left out; the first: some.csv, line 3, column submit" in ended.err


def test_from_until_load_and_sample(run: Run, desk: Path) -> None:
    (desk / "many.csv").write_text("job,submit,duration\n" + "".join(f"j{n},{n * 60},30\n" for n in range(100)))

    def rows(*more: str) -> list[dict[str, str]]:
        ended = run("replay", "many.csv", "-o", "csv", *more)
        assert ended.code == 0, ended.err
        return list(csv.DictReader(io.StringIO(ended.out)))

    window = rows("--from", "10m", "--until", "20m")
    assert [row["job"] for row in window] == [f"j{n}" for n in range(10, 20)]
    assert window[0]["submit"] == "0"
    assert rows("--load", "2")[-1]["submit"] == str(99 * 30)
    picked = rows("--sample", "7", "--seed", "5")
    assert len(picked) == 7
    assert picked == rows("--sample", "7", "--seed", "5")
    assert picked != rows("--sample", "7", "--seed", "6")


def test_listed_failures_are_at_times_of_the_trace_wherever_the_replay_begins(run: Run, desk: Path) -> None:
    """Down from before the replay until 10 s after it began; and again later (replay.md 3.7)."""
    (desk / "two.csv").write_text("job,submit,duration,gpu\nold,1000,1,1\nnew,5000,100,8\n")
    (desk / "down.csv").write_text("node,down,up\nn1,4000,5010\nn1,5060,5070\n")
    one = (desk / "four.yaml").read_text().split("---\n")[1]
    (desk / "one.yaml").write_text(one)
    ended = run("replay", "two.csv", "--cluster", "one.yaml", "--from", "4000s", "--failures", "down.csv", "-o", "csv")
    assert ended.code == 0, ended.err
    (row,) = csv.DictReader(io.StringIO(ended.out))
    assert (row["job"], row["submit"], row["start"], row["end"], row["runs"]) == ("new", "0", "10", "170", "2")


@pytest.mark.parametrize(
    ("down", "runs", "end"),
    [
        # The trace begins at 10 s, the job comes at 500 s of the replay; who fails 20 s later fails 10 s later.
        ("n1,1030,1050\n", "2", 500 + 10 + 20 + 100),
        # Down from 499 s on for 42 s, and again from 520 s on for 40: that is once, until 560 s.
        ("n1,1008,1050\nn1,1050,1090\n", "1", 560 + 100),
        # Down before the replay begins, and for 520 s of it: as long at any load.
        ("n1,1,530\n", "1", 520 + 1 + 100),
        ("n1,1110,\n", "1", None),
    ],
)
def test_a_trace_that_comes_faster_has_its_failures_come_faster_and_last_as_long(
    run: Run, desk: Path, down: str, runs: str, end: int | None
) -> None:
    """replay.md 1.4."""
    (desk / "two.csv").write_text("job,submit,duration,gpu\nfirst,10,1,1\nsecond,1010,100,8\n")
    (desk / "down.csv").write_text("node,down,up\n" + down)
    one = (desk / "four.yaml").read_text().split("---\n")[1]
    (desk / "one.yaml").write_text(one)
    arguments = ("two.csv", "--cluster", "one.yaml", "--load", "2", "--failures", "down.csv")
    ended = run("replay", *arguments, "-o", "csv")
    assert ended.code == 0, ended.err
    second = list(csv.DictReader(io.StringIO(ended.out)))[1]
    assert (second["runs"], second["end"]) == (runs, "" if end is None else str(end))


def test_a_list_of_failures_names_nodes_of_the_cluster(run: Run, desk: Path) -> None:
    """replay.md 3.7: a misspelt node is not one that never fails."""
    (desk / "down.csv").write_text("node,down,up\nn1,0,10\nm1,0,10\n")
    ended = run("replay", "jobs.csv", *FOUR, "--failures", "down.csv")
    assert (ended.code, ended.out) == (2, "")
    assert "--failures: down.csv: the cluster has no node 'm1'" in ended.err


def test_ctrl_c_at_any_moment_of_the_start_is_no_traceback(desk: Path) -> None:
    """Of more policies than run at a time, when the first processes have been begun and nothing is loaded in them."""
    (desk / "many.csv").write_text(  # what takes long is not over before this process comes to press
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},60,1,{n % 7}\n" for n in range(6_000))
    )
    names = [f"p{number}" for number in range(6)]
    policies = [part for name in names for part in ("--policy", name)]
    command = [sys.executable, "-m", "reprieve", "replay", "many.csv", *FOUR, *policies]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])  # as many run at a time as there are cores: where there are many, all
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        os.sched_setaffinity(0, cores)
    with process:
        deadline = time.monotonic() + 120
        # The first child is the interpreter's own, which looks after what processes share.
        while len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()) < 2:
            assert time.monotonic() < deadline
            os.sched_yield()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "not begun: " in err
    assert "p0" in out


def test_parquet_reads_like_csv(run: Run, desk: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    columns = list(zip(*csv.reader(io.StringIO(JOBS)), strict=True))
    table = pyarrow.table({name: list(values) for name, *values in columns})
    pyarrow.parquet.write_table(table, desk / "jobs.parquet")
    assert run("replay", "jobs.parquet", "-o", "csv").out == run("replay", "jobs.csv", "-o", "csv").out


def test_the_cluster_file_holds_classes_quotas_and_running_pods(run: Run, desk: Path) -> None:
    (desk / "cluster.yaml").write_text(
        """apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, pods: 20, nvidia.com/gpu: 8}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 1000
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: team}
spec: {hard: {pods: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: there}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {nvidia.com/gpu: 6}}}]}
status: {phase: Running}
"""
    )
    (desk / "two.csv").write_text(
        "job,submit,duration,gpu,priority_class,tenant\nx,0,10,1,gold,team\ny,0,10,1,gold,team\nz,0,10,2,,other\n"
    )
    ended = run("replay", "two.csv", "--cluster", "cluster.yaml", "-o", "csv")
    assert ended.code == 0, ended.err
    rows = {row["job"]: row for row in csv.DictReader(io.StringIO(ended.out))}
    assert (rows["x"]["start"], rows["y"]["start"], rows["z"]["start"]) == ("0", "10", "20")
    assert rows["x"]["priority"] == "1000"


def test_a_replay_that_is_killed_leaves_nothing_and_is_made_again(run: Run, desk: Path) -> None:
    """No half file, and no process that goes on for nobody (replay.md 7.5)."""
    (desk / "many.csv").write_text(
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},60,1,{n % 7}\n" for n in range(6_000))
    )
    arguments = ("replay", "many.csv", *FOUR, "--policy", "one", "--policy", "two", "-o", "csv", "--out", "found")
    command = [sys.executable, "-m", "reprieve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _wait_until_it_reads(process.pid, 2)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ends = [os.pidfd_open(int(child)) for child in children]
        process.kill()
    for end in ends:
        assert select.select([end], [], [], 240)[0], "a policy runs on for nobody"
        os.close(end)
    assert list((desk / "found").iterdir()) == []
    again = run(*arguments)
    assert again.code == 0, again.err
    assert (desk / "found" / "jobs.csv").read_text().count("\n") == 1 + 2 * 6_000


def test_ctrl_c_reports_what_has_been_simulated(desk: Path) -> None:
    (desk / "many.csv").write_text(
        "job,submit,duration,gpu,priority\n" + "".join(f"j{n},{n * 3},500,1,{n % 7}\n" for n in range(60_000))
    )
    for policies in ((), ("--policy", "one", "--policy", "two")):
        command = [sys.executable, "-m", "reprieve", "replay", "many.csv", "-o", "json", *policies]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            _wait_until_it_reads(process.pid, len(policies) // 2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        assert process.returncode == 130, err
        found = json.loads(out)
        assert "interrupted: this is what was simulated so far" in err
        for policy in found["policies"]:
            assert policy["interrupted"]
            assert policy["total"]["done"] < 60_000
            time_spent = policy["gpuTime"]
            assert time_spent["allocated"] == time_spent["useful"] + time_spent["lost"] + time_spent["restart"]


def _wait_until_it_reads(pid: int, children: int) -> None:
    """Until the engine is being loaded, here and in all children: Ctrl-C is handled from then on."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        if sum(map(_maps_engine, found)) >= children and _maps_engine(pid):
            return
        os.sched_yield()
    raise AssertionError("the engine was never loaded")


def _maps_engine(pid: int) -> bool:
    return "_multiarray_umath" in Path(f"/proc/{pid}/maps").read_text()


def test_a_policy_whose_process_dies_is_named_and_the_others_are_reported(desk: Path) -> None:
    (desk / "killer.py").write_text(
        "import os, signal\nimport reprieve\n\n\n"
        "class Killer(reprieve.ScorePlugin):\n    name = 'Killer'\n\n"
        "    def score(self, state, rows):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (desk / "killer.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n  plugins: {multiPoint: {enabled: [{name: Killer}]}}\n"
    )
    (desk / "plain.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n  plugins: {score: {disabled: [{name: Killer}]}}\n"
    )
    command = [sys.executable, "-m", "reprieve", "replay", "jobs.csv", "--plugin", "killer:Killer"]
    command += ["--policy", "dies=killer.yaml", "--policy", "lives=plain.yaml"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "."}, timeout=300
    )
    assert ended.returncode == 1, ended.stderr
    assert "policy dies: its process ended by signal 9" in ended.stderr
    assert "lives" in ended.stdout
    assert "dies" not in ended.stdout


PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,aaa
2017-10-09 06:13:03,2951.0,12,35412.0,bbb
2017-10-09 06:13:04,0.0,1,0.0,bbb
"""
LOG = json.dumps(
    [
        {
            "status": "Pass",
            "vc": "ee",
            "jobid": "application_1",
            "attempts": [
                {"start_time": "2017-10-09 07:00:00", "end_time": "2017-10-09 07:10:00", "detail": []},
                {
                    "start_time": "2017-10-09 07:20:00",
                    "end_time": "2017-10-09 07:30:00",
                    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}],
                },
            ],
            "submitted_time": "2017-10-09 06:59:00",
            "user": "u",
        },
        {
            "status": "Killed",
            "vc": "ee",
            "jobid": "application_2",
            "attempts": [],
            "submitted_time": "2017-10-09 06:59:00",
        },
    ]
)
SPOT = """job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
j1,Org 1,A100-SXM4-80GB,12,8,2,0,100,HP
j2,Org 2,A10,4,1,1,5,50,Spot
"""
SPOT_NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\nnode_0,A100-SXM4-80GB,8,96\nnode_1,A10,1,32\n"
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u,vcA,16,64,2,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 00:02:00,60,60
2,u,vcA,0,4,1,COMPLETED,2020-04-01 00:00:05,2020-04-01 00:01:00,2020-04-01 00:02:00,60,55
3,u,vcB,1,4,1,CANCELLED,2020-04-01 00:00:05,None,None,0,55
"""
ACME = """job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue
x1,User 7,4,32,256,Pretrain,FAILED,2023-04-01 00:00:00+08:00,2023-04-01 00:01:00+08:00,2023-04-01 01:01:00+08:00,3600,
"""
GAVEL = "ResNet-18\tpython x\t--num_steps\t1000\t0.5\t2\t100\nLM\tpython y\t--steps\t4000\t7\t1\t\n"
RATES = "type,steps_per_second\nLM,40\n"
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,1000,1024,1,460,T4|V100,LS,Running,10,110,10
p2,2000,1024,2,1000,,BE,Running,20,,20
"""
OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,2,T4\n"


@pytest.mark.parametrize(
    ("format", "trace", "more", "wanted"),
    [
        (
            "philly",
            PHILLY,
            (),
            ["philly-3,2017-10-09T06:13:03Z,2951,2,6,bbb", "philly-2,2017-10-09T07:01:55Z,66,1,1,aaa"],
        ),
        ("philly", PHILLY, ("--only", "aaa"), ["philly-2,2017-10-09T07:01:55Z,66,1,1,aaa"]),
        ("philly-log", LOG, (), ["application_1,2017-10-09T06:59:00Z,1200,2,2,ee"]),
        (
            "spot-gpu",
            SPOT,
            (),
            [
                "j1,0,100,2,12,8,A100-SXM4-80GB,high-priority,1000,org-1",
                "j2,5,50,1,4,1,A10,spot,100,org-2",
            ],
        ),
        (
            "helios",
            HELIOS,
            (),
            ["1,2020-04-01T00:00:00Z,60,2,32,8,vca", "2,2020-04-01T00:00:05Z,60,1,4,,vca"],
        ),
        ("acme", ACME, (), ["x1,2023-03-31T16:00:00Z,3600,4,64,8,user-7"]),
        ("gavel", GAVEL, ("--durations", "rates.csv"), ["gavel-1,0.5,100,2,1", "gavel-2,7,100,1,1"]),
        (
            "openb",
            OPENB,
            (),
            [
                "p1,10,100,1,1,1Gi,0.46,T4|V100,openb-latency-sensitive,1000",
                "p2,20,,1,2,1Gi,2,,openb-best-effort,100",
            ],
        ),
    ],
)
def test_each_format_becomes_a_job_list(
    run: Run, desk: Path, format: str, trace: str, more: tuple[str, ...], wanted: list[str]
) -> None:
    (desk / "trace").write_text(trace)
    (desk / "rates.csv").write_text(RATES)
    ended = run("import", "trace", "--format", format, "-o", "jobs.csv", "--cluster-out", "nodes.yaml", *more)
    assert ended.code == 0, ended.err
    assert (desk / "jobs.csv").read_text().splitlines()[1:] == wanted
    assert "rule: " in ended.err
    replayed = run("replay", "jobs.csv", "--cluster", "nodes.yaml", "-o", "json", "--until", "2d")
    assert replayed.code == 0, replayed.err
    assert json.loads(replayed.out)["policies"][0]["total"]["neverStarted"] == 0


def test_the_nodes_of_a_trace(run: Run, desk: Path) -> None:
    for format, trace, nodes, amount in (
        ("openb", OPENB, OPENB_NODES, "alibabacloud.com/gpu-milli: '2000'"),
        ("spot-gpu", SPOT, SPOT_NODES, "nvidia.com/gpu: '8'"),
    ):
        (desk / "trace").write_text(trace)
        (desk / "nodes.csv").write_text(nodes)
        arguments = ("--nodes", "nodes.csv", "-o", "out.csv", "--cluster-out", "cluster.yaml")
        ended = run("import", "trace", "--format", format, *arguments)
        assert ended.code == 0, ended.err
        assert amount in (desk / "cluster.yaml").read_text()


def test_packed_traces_are_unpacked(run: Run, desk: Path) -> None:
    (desk / "trace.csv.gz").write_bytes(gzip.compress(PHILLY.encode()))
    assert run("import", "trace.csv.gz", "--format", "philly", "-o", "out.csv").code == 0
    (desk / "trace.csv.gz").write_bytes(gzip.compress(PHILLY.encode())[:-9])
    ended = run("import", "trace.csv.gz", "--format", "philly", "-o", "out.csv")
    assert ended.code == 2, "the file is cut short"


@pytest.mark.parametrize(
    ("begin", "name"),
    [(b"PK\x03\x04\x14\0", "zip"), (b"BZh91AY", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd\x24", "zstd")],
)
def test_packed_in_another_way_is_said_to_be(run: Run, desk: Path, begin: bytes, name: str) -> None:
    (desk / "jobs.csv").write_bytes(begin + b"\0" * 20)
    for command in (("replay", "jobs.csv"), ("import", "jobs.csv", "--format", "philly", "-o", "out.csv")):
        ended = run(*command)
        assert (ended.code, ended.out) == (2, "")
        assert f"jobs.csv: packed with {name}; want it plain, or packed with gzip" in ended.err


def test_the_page_without_what_draws_it_is_refused_at_once(
    run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is an extra is named, and nothing is simulated in vain; the rest works without."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = run("replay", "missing.csv", "-o", "html")
    assert (ended.code, ended.out) == (2, "")
    assert "not installed: pip install 'reprieve[replay]'" in ended.err
    assert run("replay", "jobs.csv", *FOUR, "-o", "trace").code == 0


def test_priorities_by_rule(run: Run, desk: Path) -> None:
    (desk / "trace").write_text(PHILLY)
    rules = "gpus>=8:high,tenant=aaa:mid=7,else:low"
    ended = run("import", "trace", "--format", "philly", "-o", "out.csv", "--priorities", rules)
    assert ended.code == 0, ended.err
    with (desk / "out.csv").open() as file:
        found = {row["job"]: (row["priority_class"], row["priority"]) for row in csv.DictReader(file)}
    assert found == {"philly-3": ("high", "300"), "philly-2": ("mid", "7")}
    assert "high=300, mid=7, low=100" in ended.err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("trace", "--format", "filly"), '"filly" is no known format; known: openb, philly'),
        (("trace", "--format", "philly", "--priorities", "gpus>8"), "--priorities"),
        (("trace", "--format", "philly", "--priorities", "size>8:x"), "--priorities"),
        (("trace", "--format", "philly", "--only", "zzz"), "no jobs"),
        (("trace", "--format", "helios"), "trace, line 1, column job_id: no such column"),
        (("nowhere", "--format", "philly"), "nowhere"),
        (("trace", "--format", "philly", "--nodes", "trace"), "--cluster-out"),
        (("trace", "--format", "philly-log"), "not a JSON array"),
        (("trace", "--format", "gavel"), "line 1: 1 fields"),
    ],
)
def test_bad_imports_are_one_line(run: Run, desk: Path, arguments: tuple[str, ...], wanted: str) -> None:
    (desk / "trace").write_text(PHILLY)
    ended = run("import", *arguments, "-o", "out.csv")
    assert ended.code == 2
    assert wanted in ended.err
    assert not (desk / "out.csv").exists()


def test_a_bad_row_of_a_trace_is_named_or_left_out(run: Run, desk: Path) -> None:
    (desk / "trace").write_text(PHILLY + "2017-10-09,66.0,one,66.0,aaa\n")
    ended = run("import", "trace", "--format", "philly", "-o", "out.csv")
    assert 'trace, line 5, column num_gpus: want a whole number, found "one"' in ended.err
    assert run("import", "trace", "--format", "philly", "-o", "out.csv", "--skip-bad").code == 0


def test_help_names_the_rules_and_openb_stays_what_it_was(run: Run) -> None:
    told = run("import", "--help").out
    assert all(name in told for name in ("philly-log", "spot-gpu", "--priorities", "gpus>=8:high,else:low"))
    assert "--pods" in run("import", "openb", "--help").out
