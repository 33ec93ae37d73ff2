"""`reprieve import`, as it is typed (replay.md 2)."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.replay_inputs import desk as desk

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


def test_nodes_of_a_trace(run: Run, desk: Path) -> None:
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
def test_another_way_of_packing_is_refused_by_its_name(run: Run, desk: Path, begin: bytes, name: str) -> None:
    (desk / "jobs.csv").write_bytes(begin + b"\0" * 20)
    for command in (("replay", "jobs.csv"), ("import", "jobs.csv", "--format", "philly", "-o", "out.csv")):
        ended = run(*command)
        assert (ended.code, ended.out) == (2, "")
        assert f"jobs.csv: compressed with {name}: expected plain text or gzip" in ended.err


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


def test_bad_row_of_a_trace_is_named_or_left_out(run: Run, desk: Path) -> None:
    (desk / "trace").write_text(PHILLY + "2017-10-09,66.0,one,66.0,aaa\n")
    ended = run("import", "trace", "--format", "philly", "-o", "out.csv")
    assert 'trace, line 5, column num_gpus: expected a whole number, found "one"' in ended.err
    assert run("import", "trace", "--format", "philly", "-o", "out.csv", "--skip-bad").code == 0


def test_help_names_the_rules_and_openb_stays_what_it_was(run: Run) -> None:
    shown = run("import", "--help").out
    assert all(name in shown for name in ("philly-log", "spot-gpu", "--priorities", "gpus>=8:high,else:low"))
    assert "--pods" in run("import", "openb", "--help").out


def test_import_counts_jobs_made_and_left_out(run: Run, desk: Path) -> None:
    """The rules first, then the files, then what is in none of them, by reason."""
    (desk / "trace").write_text(f"{PHILLY}bad,2951.0,12,35412.0,bbb\nworse,2951.0,12,35412.0,bbb\n")
    files = ("-o", "out.csv", "--cluster-out", "c.yaml")
    more = ("--skip-bad", "--only", "bbb", "--priorities", "gpus>=8:high,else:low")
    ended = run("import", "trace", "--format", "philly", *files, *more)
    assert (ended.code, ended.out) == (0, "")
    rules = [line for line in ended.err.splitlines() if line.startswith("rule: ")]
    assert len(rules) == 4
    assert ended.err.splitlines() == [
        *rules,
        "out.csv: 1 jobs",
        "c.yaml: 2 nodes that fit the jobs",
        "skipped: 1 row (not in --only)",
        "skipped: 1 row (ran no time at all)",
        "skipped: 2 invalid rows; the first: trace, line 5, column timestamp: expected a time such as "
        '2017-10-09 07:01:55, found "bad"',
    ]
    assert rules[-1] == "rule: priority classes high=200, low=100"
    plain = run("import", "trace", "--format", "philly", "-o", "out.csv", "--skip-bad").err
    assert [line for line in plain.splitlines() if "class" in line] == []
    assert "out.csv: 2 jobs\n" in plain
    nothing = run("import", "trace", "--format", "philly", "-o", "none.csv", "--skip-bad", "--only", "zzz")
    assert nothing.err.splitlines()[-1] == "error: trace: no jobs (3 not in --only)"


def test_nodes_of_a_list_are_those_and_no_others(run: Run, desk: Path) -> None:
    """Shared GPUs are counted in thousandths where a job asks for a part of one."""
    (desk / "nodes.csv").write_text(OPENB_NODES)
    files = ("--nodes", "nodes.csv", "-o", "out.csv", "--cluster-out", "cluster.yaml")
    for trace, resource in (
        (OPENB, "alibabacloud.com/gpu-milli"),
        (OPENB.replace("1,460,", "1,1000,"), "nvidia.com/gpu"),
    ):
        (desk / "trace").write_text(trace)
        ended = run("import", "trace", "--format", "openb", *files)
        number = OPENB_NODES.count("\n") - 1
        assert f"cluster.yaml: {number} nodes\n" in ended.err
        assert resource in (desk / "cluster.yaml").read_text()


@pytest.mark.parametrize(("most", "code"), [("2", 0), ("1", 2), ("0", 2)])
def test_trace_of_as_many_jobs_as_may_be_is_read(run: Run, desk: Path, most: str, code: int) -> None:
    (desk / "trace").write_text(PHILLY)
    assert run("import", "trace", "--format", "philly", "-o", "out.csv", "--max-jobs", most).code == code


def test_without_a_trace_it_is_the_help(run: Run) -> None:
    assert run("import") == run("import", "--help")
