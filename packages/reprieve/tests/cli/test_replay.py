"""`reprieve replay`, as it is typed (replay.md 1, 2)."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.replay_inputs import FOUR, JOBS
from tests.cli.replay_inputs import desk as desk


def test_policies_side_by_side_over_the_same_arrivals(run: Run, desk: Path) -> None:
    ended = run("replay", "jobs.csv", *FOUR, "--policy", "never=none.yaml", "--policy", "evict=default", "-o", "json")
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
    text = run("replay", "jobs.csv", *FOUR, "--policy", "never=none.yaml", "--policy", "evict=default").out
    assert "never" in text.splitlines()[1]
    assert "evict" in text.splitlines()[1]
    assert " *" in text
    assert "%)" in text


def test_same_run_gives_the_same_bytes(run: Run, desk: Path) -> None:
    """replay.md 1.7."""
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
    """replay.md 1.5."""
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
        ("job,submit,gpu\na,0,1.5\n", "line 2, column gpu: expected whole GPUs above one"),
        ("job,submit,gpu\na,0,0.5\n", "asks for a part of a GPU"),
        (
            "job,submit,workers,min_workers\na,0,2,3\n",
            "line 2, column min_workers: expected at most workers, 2, found 3",
        ),
        ("job,submit,workers\na,0,0\n", "line 2, column workers: expected a whole number from 1 to 1000"),
        ("job,submit,duration\na,0,nan\n", "line 2, column duration: expected seconds"),
        ("job,submit,duration\na,0,1e400\n", "line 2, column duration"),
        ("job,submit\na,2020-01-01T00:00:00Z\nb,5\n", "line 3, column submit: expected RFC 3339 as in the rows before"),
        ("job,submit,memory\na,0,lots\n", "line 2, column memory: expected a quantity"),
        ("job,submit,tenant\na,0,Team A\n", "line 2, column tenant"),
        ("job,submit,labels\na,0,x\n", "line 2, column labels"),
        ("job,submit,disruption\na,0,some\n", "line 2, column disruption: expected all or single"),
        ("job,submit,priority_class\na,0,gold\n", 'names the priority class "gold"'),
        ("job,submit\na b,0\n", "line 2, column job"),
        ("job,submit\na,0,1\n", "line 2: 3 fields, the first line has 2"),
        ('job,submit\n"a,0\n', "broken CSV"),
        ("job,submit\n" + "x" * 70_000 + ",0\n", "line 2: a line of more than 65536 bytes"),
    ],
)
def test_options_that_make_no_sense_are_named(run: Run, desk: Path, content: str, wanted: str) -> None:
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
        (("jobs.csv", "--policy", "a=default", "--policy", "a=none.yaml"), "given twice"),
        (("jobs.csv", "--policy", "a=nowhere.yaml"), "nowhere.yaml"),
        (("jobs.csv", "--from", "2017-10-01T00:00:00Z"), "no dates"),
        (("jobs.csv", "--from", "soon"), "--from"),
        (("jobs.csv", "--load", "0"), "--load"),
        (("jobs.csv", "--run-times", "limit"), "--run-times 'limit': no job has a time limit (column time_limit)"),
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
    """replay.md 1.9."""
    ended = run("replay", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert wanted in ended.err
    assert ended.err.count("error:") == 1


def test_bad_rows_are_left_out_and_counted_when_that_is_wanted(run: Run, desk: Path) -> None:
    (desk / "none.csv").write_text("job,submit\na,x\n")
    assert "no jobs to replay; 1 invalid row skipped" in run("replay", "none.csv", "--skip-bad").err
    (desk / "some.csv").write_text("job,submit,duration\na,0,5\nb,x,5\nc,1,y\nd,2,5\n")
    ended = run("replay", "some.csv", "--skip-bad", "-o", "json")
    assert json.loads(ended.out)["policies"][0]["total"]["jobs"] == 2
    assert "2 invalid rows skipped; the first: some.csv, line 3, column submit" in ended.err


def test_options_from_until_load_and_sample(run: Run, desk: Path) -> None:
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
        # The trace begins at 10 s, the job comes at 500 s of the replay; a node that fails 20 s later fails 10 s later.
        ("n1,1030,1050\n", "2", 500 + 10 + 20 + 100),
        # Down from 499 s on for 42 s, and again from 520 s on for 40: that is once, until 560 s.
        ("n1,1008,1050\nn1,1050,1090\n", "1", 560 + 100),
        # Down before the replay begins, and for 520 s of it: as long at any load.
        ("n1,1,530\n", "1", 520 + 1 + 100),
        ("n1,1110,\n", "1", None),
    ],
)
def test_trace_that_comes_faster_has_its_failures_come_faster_and_last_as_long(
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


def test_list_of_failures_names_nodes_of_the_cluster(run: Run, desk: Path) -> None:
    """replay.md 3.7: a misspelt node is not one that never fails."""
    (desk / "down.csv").write_text("node,down,up\nn1,0,10\nm1,0,10\n")
    ended = run("replay", "jobs.csv", *FOUR, "--failures", "down.csv")
    assert (ended.code, ended.out) == (2, "")
    assert '--failures: down.csv: the cluster has no node "m1"' in ended.err


def test_parquet_reads_like_csv(run: Run, desk: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    columns = list(zip(*csv.reader(io.StringIO(JOBS)), strict=True))
    table = pyarrow.table({name: list(values) for name, *values in columns})
    pyarrow.parquet.write_table(table, desk / "jobs.parquet")
    assert run("replay", "jobs.parquet", "-o", "csv").out == run("replay", "jobs.csv", "-o", "csv").out


def test_cluster_file_holds_classes_quotas_and_running_pods(run: Run, desk: Path) -> None:
    """replay.md 3.1."""
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


@pytest.mark.parametrize(
    ("given", "name", "evictions"),
    [
        ("none.yaml", "none", 0),
        ("./none.yaml", "none", 0),
        ("never=none.yaml", "never", 0),
        ("plainly", "plainly", 0),
        ("default", "default", 1),
        ("none=default", "none", 1),
        ("./default", "default", 0),
    ],
)
def test_policy_is_a_file_with_or_without_a_name(run: Run, desk: Path, given: str, name: str, evictions: int) -> None:
    """replay.md 1.1: a text without NAME= is a file, except for `default`."""
    for file in ("plainly", "default"):
        (desk / file).write_text((desk / "none.yaml").read_text())
    ended = run("replay", "jobs.csv", *FOUR, "--policy", given, "-o", "json")
    assert ended.code == 0, ended.err
    [policy] = json.loads(ended.out)["policies"]
    assert (policy["name"], policy["evictions"]["units"]) == (name, evictions)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nothing.yaml"], "nothing.yaml: No such file"),
        (["there/nothing"], "there/nothing: No such file"),
        (["none.yaml", "none=default"], "none is given twice"),
        (["none"], "--policy 'none': no such file, did you mean \"none.yaml\"? (none=default names the default"),
        (["nnoe"], 'did you mean "none.yaml"?'),
        (["defualt"], 'did you mean "default"?'),
        (["evict"], "--policy 'evict': no such file (evict=default names the default configuration)"),
        ([""], "Invalid value for --policy: the value is empty."),
        (["=none.yaml"], "expected FILE"),
        (["a="], "expected FILE"),
    ],
)
def test_policy_that_is_no_file_is_refused(run: Run, desk: Path, given: list[str], message: str) -> None:
    """replay.md 1.1"""
    ended = run("replay", "jobs.csv", *FOUR, *(part for one in given for part in ("--policy", one)))
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_jobs_that_never_started_are_reported_with_the_reason(run: Run, desk: Path) -> None:
    """replay.md 4.10: in the text and in the document; `--tolerate` lets them start (3.2)."""
    text = (desk / "four.yaml").read_text()
    taint = "spec: {taints: [{key: gpu, value: mine, effect: NoSchedule}]}\nstatus"
    (desk / "four.yaml").write_text(text.replace("status", taint))
    ended = run("replay", "jobs.csv", *FOUR)
    assert "untolerated taint(s): gpu=mine:NoSchedule" in ended.out
    assert "--tolerate" in ended.out
    [policy] = json.loads(run("replay", "jobs.csv", *FOUR, "-o", "json").out)["policies"]
    [reason] = policy["neverStarted"]
    assert (reason["jobs"], reason["first"]) == (3, "a")
    ended = run("replay", "jobs.csv", *FOUR, "--tolerate", "gpu")
    assert ended.code == 0, ended.err
    assert "ever started" not in ended.out
    assert run("replay", "jobs.csv", *FOUR, "--tolerate", "gpu:Never").code == 2
