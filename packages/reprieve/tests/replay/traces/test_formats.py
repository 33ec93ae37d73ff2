"""What happens to a row of each trace: the job, why it is none, or what is wrong with it (replay.md 2.7)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from reprieve.replay.job_list import JobListError, ReplayJob, Shape
from reprieve.replay.traces.importer import ImportOptions, Machine
from reprieve.replay.traces.registry import importer_of
from reprieve.replay.traces.trace_reader import ImportedTrace, read_machines, read_trace

GIB = 1 << 30
DAY = "2017-10-09"
MIDNIGHT = 1_507_507_200_000
"""Of that day, in milliseconds since 1970."""

COLUMNS = {
    "openb": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time",
        "t,500,1024,1,1000,,LS,10,110",
    ),
    "philly": ("timestamp,duration,num_gpus,cluster", f"{DAY} 00:00:01,60,1,abc"),
    "spot-gpu": (
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type",
        "j,Org 1,A10,4,1,1,5,50,HP",
    ),
    "helios": (
        "job_id,vc,gpu_num,cpu_num,node_num,submit_time,start_time,end_time,duration",
        f"j,VC a,1,4,1,{DAY} 00:00:01,{DAY} 00:00:02,{DAY} 00:01:02,60",
    ),
    "acme": (
        "job_id,user,gpu_num,cpu_num,node_num,type,submit_time,start_time,end_time,duration",
        f"j,User a,1,4,1,Pretrain,{DAY} 00:00:01,{DAY} 00:00:02,{DAY} 00:01:02,60",
    ),
}
"""Format -> the columns, and a row that becomes a job."""


def imported(folder: Path, format: str, text: str, **options: Any) -> ImportedTrace:
    file = folder / "trace"
    file.write_text(text)
    return read_trace(importer_of(format), file, ImportOptions(**options))


def outcome(folder: Path, format: str, text: str, **options: Any) -> ReplayJob | str:
    """The one job, why there is none, or what is wrong without the name of the file."""
    try:
        found = imported(folder, format, text, **options)
    except JobListError as error:
        return str(error).removeprefix(f"{folder / 'trace'}, ")
    if found.jobs:
        assert (len(found.jobs), found.left_out) == (1, {})
        return found.jobs[0]
    [(why, rows)] = found.left_out.items()
    assert rows == 1
    return why


def is_so(found: ReplayJob | str, wanted: ReplayJob | str) -> bool:
    """The same job, or a text that begins like this."""
    return found.startswith(wanted) if isinstance(found, str) and isinstance(wanted, str) else found == wanted


def row(format: str, **content: str) -> str:
    """The format's row with other content in some columns."""
    header, plain = COLUMNS[format]
    values = dict(zip(header.split(","), plain.split(","), strict=True)) | content
    assert len(values) == len(header.split(","))
    return f"{header}\n{','.join(values.values())}\n"


def shape(workers: int = 1, **more: Any) -> Shape:
    return Shape(workers=workers, min_workers=workers, **more)


OPENB: dict[str, Any] = {"cpu": 500, "memory": GIB, "priority_class": "openb-latency-sensitive", "priority": 1000}
SPOT: dict[str, Any] = {"models": ("A10",), "priority_class": "high-priority", "priority": 1000, "tenant": "org-1"}

BECOMES: list[tuple[str, dict[str, str], ReplayJob | str]] = [
    ("openb", {}, ReplayJob("t", 10_000, 100_000, shape(gpu=1000, **OPENB))),
    ("openb", {"gpu_milli": "460"}, ReplayJob("t", 10_000, 100_000, shape(gpu=460, **OPENB))),
    ("openb", {"num_gpu": "2"}, ReplayJob("t", 10_000, 100_000, shape(gpu=2000, **OPENB))),
    ("openb", {"num_gpu": "0", "gpu_milli": "0"}, ReplayJob("t", 10_000, 100_000, shape(**OPENB))),
    (
        "openb",
        {"gpu_spec": "T4|V100 M|T4|"},
        ReplayJob("t", 10_000, 100_000, shape(gpu=1000, models=("T4", "V100-M"), **OPENB)),
    ),
    ("openb", {"qos": ""}, ReplayJob("t", 10_000, 100_000, shape(gpu=1000, **OPENB))),
    ("openb", {"qos": "Burstable"}, ReplayJob("t", 10_000, 100_000, shape(gpu=1000, **OPENB))),
    (
        "openb",
        {"qos": "BE"},
        ReplayJob(
            "t",
            10_000,
            100_000,
            shape(gpu=1000, **{**OPENB, "priority_class": "openb-best-effort", "priority": 100}),
        ),
    ),
    ("openb", {"qos": "XX"}, "line 2, column qos: expected one of LS, Guaranteed, Burstable, BE, found "),
    ("openb", {"deletion_time": ""}, ReplayJob("t", 10_000, None, shape(gpu=1000, **OPENB))),
    ("openb", {"creation_time": ""}, ReplayJob("t", 0, 110_000, shape(gpu=1000, **OPENB))),
    ("openb", {"deletion_time": "10"}, "ran no time at all"),
    ("openb", {"deletion_time": "9"}, "line 2: is deleted before it is created"),
    ("openb", {"gpu_milli": "1001"}, "line 2: expected gpu_milli of 1000, or at most that of a single GPU"),
    (
        "openb",
        {"num_gpu": "2", "gpu_milli": "999"},
        "line 2: expected gpu_milli of 1000, or at most that of a single GPU",
    ),
    ("openb", {"num_gpu": "1001"}, "line 2, column gpu: expected at most 1000 GPUs a worker"),
    ("openb", {"cpu_milli": "1000000001"}, "line 2, column cpu: expected at most a million cores a worker"),
    ("openb", {"memory_mib": "1099511627777"}, "line 2, column memory: expected a quantity from 0 to 1Ei"),
    ("philly", {}, ReplayJob("philly-2", MIDNIGHT + 1000, 60_000, shape(gpu=1000, tenant="abc"))),
    ("philly", {"num_gpus": "0"}, ReplayJob("philly-2", MIDNIGHT + 1000, 60_000, shape(tenant="abc"))),
    ("philly", {"num_gpus": "12"}, ReplayJob("philly-2", MIDNIGHT + 1000, 60_000, shape(2, gpu=6000, tenant="abc"))),
    ("philly", {"cluster": "A b"}, ReplayJob("philly-2", MIDNIGHT + 1000, 60_000, shape(gpu=1000, tenant="a-b"))),
    (
        "philly",
        {"num_gpus": "8000"},
        ReplayJob("philly-2", MIDNIGHT + 1000, 60_000, shape(1000, gpu=8000, tenant="abc")),
    ),
    ("philly", {"num_gpus": "8008"}, "line 2, column workers: expected a whole number from 1 to 1000"),
    ("philly", {"num_gpus": "999999999999989"}, "line 2, column workers: expected a whole number from 1 to 1000"),
    ("philly", {"duration": "0"}, "ran no time at all"),
    ("philly", {"duration": "0.001"}, ReplayJob("philly-2", MIDNIGHT + 1000, 1, shape(gpu=1000, tenant="abc"))),
    ("spot-gpu", {}, ReplayJob("j", 5000, 50_000, shape(cpu=4000, gpu=1000, **SPOT))),
    ("spot-gpu", {"cpu_request": "0.5"}, ReplayJob("j", 5000, 50_000, shape(cpu=500, gpu=1000, **SPOT))),
    ("spot-gpu", {"worker_num": "3"}, ReplayJob("j", 5000, 50_000, shape(3, cpu=4000, gpu=1000, **SPOT))),
    ("spot-gpu", {"gpu_request": "0.25"}, ReplayJob("j", 5000, 50_000, shape(cpu=4000, gpu=250, **SPOT))),
    ("spot-gpu", {"gpu_model": ""}, ReplayJob("j", 5000, 50_000, shape(cpu=4000, gpu=1000, **{**SPOT, "models": ()}))),
    (
        "spot-gpu",
        {"job_type": "Spot"},
        ReplayJob("j", 5000, 50_000, shape(cpu=4000, gpu=1000, **{**SPOT, "priority_class": "spot", "priority": 100})),
    ),
    ("spot-gpu", {"job_type": "spot"}, "line 2, column job_type: expected one of HP, Spot, found "),
    ("spot-gpu", {"duration": "0"}, "ran no time at all"),
    ("spot-gpu", {"worker_num": "0"}, "has no workers"),
    ("spot-gpu", {"worker_num": "1001"}, "line 2, column workers: expected a whole number from 1 to 1000"),
    ("spot-gpu", {"gpu_request": "1.5"}, "line 2, column gpu: expected whole GPUs above one"),
    ("helios", {}, ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(cpu=4000, gpu=1000, tenant="vc-a"))),
    ("helios", {"gpu_num": "0"}, ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(cpu=4000, tenant="vc-a"))),
    (
        "helios",
        {"gpu_num": "16", "node_num": "4"},
        ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(4, cpu=1000, gpu=4000, tenant="vc-a")),
    ),
    # two nodes hold 16 of 24 GPUs: as many more as make them equal
    (
        "helios",
        {"gpu_num": "24", "node_num": "2"},
        ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(3, cpu=1333, gpu=8000, tenant="vc-a")),
    ),
    ("helios", {"duration": ""}, ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(cpu=4000, gpu=1000, tenant="vc-a"))),
    ("helios", {"duration": "7"}, ReplayJob("j", MIDNIGHT + 1000, 7000, shape(cpu=4000, gpu=1000, tenant="vc-a"))),
    ("helios", {"duration": "", "start_time": "None"}, "never ran"),
    ("helios", {"duration": "", "end_time": ""}, "never ran"),
    ("helios", {"duration": "0"}, "ran no time at all"),
    ("helios", {"duration": "", "end_time": f"{DAY} 00:00:01"}, "line 2: ends before it starts"),
    ("helios", {"gpu_num": "0", "node_num": "1001"}, "line 2, column workers: expected a whole number from 1 to 1000"),
    ("acme", {}, ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(cpu=4000, gpu=1000, tenant="user-a"))),
    ("acme", {"duration": ""}, ReplayJob("j", MIDNIGHT + 1000, 60_000, shape(cpu=4000, gpu=1000, tenant="user-a"))),
    (
        "acme",
        {"job_id": "a/b"},
        "line 2, column job: expected a name of at most 253 characters without spaces, / and ~",
    ),
]


@pytest.mark.parametrize(
    ("format", "content", "wanted"), BECOMES, ids=[f"{at}-{format}" for at, (format, _, _) in enumerate(BECOMES)]
)
def test_row_becomes(tmp_path: Path, format: str, content: dict[str, str], wanted: ReplayJob | str) -> None:
    """A job that no list holds (replay.md 2.1-2.4) is refused where it is imported, not where it is replayed."""
    found = outcome(tmp_path, format, row(format, **content))
    assert is_so(found, wanted)


@pytest.mark.parametrize("format", COLUMNS)
def test_which_columns_a_table_may_lack(tmp_path: Path, format: str) -> None:
    header, plain = COLUMNS[format]
    optional = {"openb": {"gpu_spec", "qos", "creation_time", "deletion_time"}, "acme": {"type"}}.get(format, set())
    names, values = header.split(","), plain.split(",")
    for at, name in enumerate(names):
        less = "\n".join(",".join([*each[:at], *each[at + 1 :]]) for each in (names, values))
        found = outcome(tmp_path, format, f"{less}\n")
        if name in optional:
            assert isinstance(found, ReplayJob)
        else:
            assert str(found).startswith(f"line 1, column {name}: no such column; the first line has ")


# -- the job log of Philly -----------------------------------------------------------------------------------------


def entry(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"jobid": name, "submitted_time": f"{DAY} 00:00:01", "vc": "VC a", "attempts": [attempt(0, 60, 1)], **more}


def attempt(begin: int | None, end: int | None, *gpus: int) -> dict[str, Any]:
    """From and to so many seconds after midnight, on hosts with so many GPUs each."""
    times = [None if at is None else f"{DAY} {at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}" for at in (begin, end)]
    hosts = [{"ip": "m", "gpus": [f"gpu{number}" for number in range(count)]} for count in gpus]
    return {"start_time": times[0], "end_time": times[1], "detail": hosts}


def logged(work: int, workers: int, gpu: int) -> ReplayJob:
    return ReplayJob("a", MIDNIGHT + 1000, work * 1000, shape(workers, gpu=gpu * 1000, tenant="vc-a"))


@pytest.mark.parametrize(
    ("attempts", "wanted"),
    [
        ([attempt(0, 60, 1)], logged(60, 1, 1)),
        # the time of all, the hosts of the last
        ([attempt(0, 60, 4, 4), attempt(100, 107, 8, 8, 8)], logged(67, 3, 8)),
        ([attempt(0, 60, 2, 1)], logged(60, 3, 1)),  # as many more as make them equal
        ([attempt(0, 60, 16)], logged(60, 2, 8)),
        # attempts without a beginning or an end are none
        ([attempt(None, 60, 1), attempt(5, None, 1), attempt(0, 60, 1)], logged(60, 1, 1)),
        ([{**attempt(0, 60, 1), "end_time": "None"}, attempt(0, 60, 1)], logged(60, 1, 1)),
        ([], "never ran"),
        ([attempt(5, None, 1)], "never ran"),
        ([{**attempt(0, 60, 1), "start_time": ""}], "never ran"),
        ([attempt(60, 60, 1)], "ran no time at all"),
        ([attempt(0, 60)], "was never placed"),
        ([attempt(61, 60, 1)], "line 2: ends before it starts"),
        (
            [{**attempt(0, 60, 1), "end_time": "soon"}],
            f'line 2, column attempts: expected a time such as 2017-10-09 07:01:55, found "{DAY} 00:00:00 to soon"',
        ),
        ([attempt(0, 60, 8008)], "line 2, column workers: expected a whole number from 1 to 1000"),
        ([attempt(0, 60, *[8] * 1000)], logged(60, 1000, 8)),
    ],
)
def test_job_log_entry_becomes(tmp_path: Path, attempts: list[dict[str, Any]], wanted: ReplayJob | str) -> None:
    found = outcome(tmp_path, "philly-log", json.dumps([entry(attempts=attempts)]))
    assert is_so(found, wanted)


def test_entries_of_the_job_log_that_make_no_sense_are_left_out_one_by_one(tmp_path: Path) -> None:
    """Entries are counted from 2, as rows of a table with a header are (replay.md 2.3)."""
    file = tmp_path / "log.json"
    entries = [entry("a"), {"jobid": 5}, entry("b", attempts=[{**attempt(0, 1, 1), "end_time": "soon"}]), entry("c")]
    file.write_text(json.dumps(entries))
    with pytest.raises(JobListError, match=r"log\.json, line 3: not a job \(counted from 2\): "):
        read_trace(importer_of("philly-log"), file)
    found = read_trace(importer_of("philly-log"), file, skip_bad=True)
    assert ([job.name for job in found.jobs], found.skipped) == (["a", "c"], 2)
    assert ", line 3: not a job (counted from 2): " in found.first_problem


@pytest.mark.parametrize(("text", "fits"), [("[]   ", True), ("[]    ", False)])
def test_job_log_has_at_most_as_many_bytes_as_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, fits: bool
) -> None:
    monkeypatch.setattr("reprieve.replay.traces.philly_log.MAX_BYTES", 5)
    if fits:
        assert imported(tmp_path, "philly-log", text).jobs == []
    else:
        with pytest.raises(JobListError, match="trace: larger than 5 bytes"):
            imported(tmp_path, "philly-log", text)


@pytest.mark.parametrize("text", ["{}", "", "[" * 100_000], ids=["an object", "nothing", "without end"])
def test_job_log_is_a_json_array(tmp_path: Path, text: str) -> None:
    with pytest.raises(JobListError, match="trace: not a JSON array of jobs: "):
        imported(tmp_path, "philly-log", text)


def test_job_log_is_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    file.write_bytes(b'[{"jobid": "\xff"}]')
    with pytest.raises(JobListError, match=r"log\.json, line 2: not a job \(counted from 2\): 'utf-8' codec"):
        read_trace(importer_of("philly-log"), file)


# -- Gavel ---------------------------------------------------------------------------------------------------------

RATES = {("LM", 0): 40.0, ("LM", 2): 100.0}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        # type, command, flag, steps, arrival, scale factor; then a duration, if there is one
        (("LM", "c", "-s", "4000", "7", "1"), ReplayJob("gavel-1", 7000, 100_000, shape(gpu=1000))),
        (("LM", "c", "-s", "4000", "7", "2"), ReplayJob("gavel-1", 7000, 40_000, shape(2, gpu=1000))),
        (("LM", "c", "-s", "4000", "0.5", "1", "3"), ReplayJob("gavel-1", 500, 3000, shape(gpu=1000))),
        (("LM", "c", "-s", "4000", "7", "1", ""), ReplayJob("gavel-1", 7000, 100_000, shape(gpu=1000))),
        # the artifact's: type, command, flag, needs data, steps, scale factor, weight, SLO, arrival
        (("LM", "c", "-s", "0", "4000", "2", "1", "-1", "7"), ReplayJob("gavel-1", 7000, 40_000, shape(2, gpu=1000))),
        (
            ("LM", "c", "-s", "0", "4000", "2", "1", "-1", "7", "9"),
            ReplayJob("gavel-1", 7000, 9000, shape(2, gpu=1000)),
        ),
        (("LM", "c", "-s", "0", "7", "1"), "ran no time at all"),
        (("LM", "c", "-s", "4000", "7", "1", "0"), "ran no time at all"),
        (("LM", "c", "-s", "4000", "7", "0"), "line 1: expected a scale factor from 1"),
        (
            ("RL", "c", "-s", "4000", "7", "4"),
            'line 1: no duration, and --durations has no "RL" of scale factor 4',
        ),
        (("LM", "c", "-s", "4000", "7"), "line 1: 5 fields, expected 6, 7, 9, 10"),
        (("LM", "c", "-s", "0", "4000", "2", "1", "-1"), "line 1: 8 fields, expected 6, 7, 9, 10"),
        (("LM", "c", "-s", "4000", "7", "1001", "1"), "line 1, column workers: expected a whole number from 1 to 1000"),
        (("LM", "c", "-s", "12648960000", "7", "1"), ReplayJob("gavel-1", 7000, 316_224_000_000, shape(gpu=1000))),
        (
            ("LM", "c", "-s", "12648960001", "7", "1"),
            "line 1: 12648960001 steps at 40 a second take more than ten years",
        ),
    ],
)
def test_gavel_line_becomes(tmp_path: Path, fields: tuple[str, ...], wanted: ReplayJob | str) -> None:
    found = outcome(tmp_path, "gavel", "\t".join(fields) + "\n", durations=RATES)
    assert is_so(found, wanted)


def test_steps_without_end_are_refused(tmp_path: Path) -> None:
    found = outcome(tmp_path, "gavel", "LM\tc\t-s\t999999999999999\t7\t1\n", durations={("LM", 1): 1e-300})
    assert found == "line 1: 999999999999999 steps at 1e-300 a second take more than ten years"


def test_lines_of_gavel_that_make_no_sense_are_left_out_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text("LM\tc\t-s\t1\t0\t1\t5\nLM\n\nLM\tc\t-s\t1\tx\t1\t5\nLM\tc\t-s\t1\t0\t1\t5\n")
    found = read_trace(importer_of("gavel"), file, skip_bad=True)
    assert ([job.name for job in found.jobs], found.skipped) == (["gavel-1", "gavel-5"], 2)
    assert found.first_problem == f"{file}, line 2: 1 fields, expected 6, 7, 9, 10"


# -- nodes, clusters, packed files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "text", "machines"),
    [
        (
            "openb",
            "sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,T4\nb,500,1,0,\n",
            [Machine("a", 64_000, GIB, 2, "T4"), Machine("b", 500, 1 << 20, 0, "")],
        ),
        (
            "spot-gpu",
            "node_name,gpu_model,gpu_capacity_num,cpu_num\na,A100 SXM,8,96\nb,,0,0.5\n",
            [Machine("a", 96_000, 0, 8, "A100-SXM"), Machine("b", 500, 0, 0, "")],
        ),
    ],
)
def test_nodes_of_a_trace(tmp_path: Path, format: str, text: str, machines: list[Machine]) -> None:
    file = tmp_path / "nodes"
    file.write_text(text)
    assert read_machines(importer_of(format), file) == machines


@pytest.mark.parametrize("format", ["philly", "philly-log", "helios", "acme", "gavel"])
def test_other_traces_have_no_list_of_nodes(tmp_path: Path, format: str) -> None:
    with pytest.raises(JobListError, match=f"traces of the format {format} have no list of nodes"):
        read_machines(importer_of(format), tmp_path / "nodes")


@pytest.mark.parametrize(
    ("format", "column", "cluster"),
    [
        ("philly", "cluster", "abc"),
        ("spot-gpu", "gpu_model", "A10"),
        ("helios", "vc", "vc-a"),
        ("acme", "type", "Pretrain"),
    ],
)
def test_jobs_of_some_clusters_alone(tmp_path: Path, format: str, column: str, cluster: str) -> None:
    """`--only`: the others are counted, and need make no sense as jobs."""
    text = row(format)
    assert isinstance(outcome(tmp_path, format, text, only=("other", cluster)), ReplayJob)
    assert outcome(tmp_path, format, text, only=("other",)) == "not in --only"


def test_trace_without_clusters_is_kept_whole(tmp_path: Path) -> None:
    assert isinstance(outcome(tmp_path, "openb", row("openb"), only=("any",)), ReplayJob)


def test_packed_trace_is_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.gz"
    file.write_bytes(gzip.compress(row("philly").encode(), mtime=0))
    assert [job.name for job in read_trace(importer_of("philly"), file).jobs] == ["philly-2"]
