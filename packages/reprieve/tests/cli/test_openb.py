"""`reprieve import openb`: what it says of what it wrote, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ended, Run

NODES = "sn,cpu_milli,memory_mib,gpu,model\nt4-0,16000,65536,2,T4\n"
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def tasks(fitting: int, others: int) -> str:
    """Tasks that find room, and such that are larger than the node."""
    rows = [("fits", 100)] * fitting + [("large", 99_000)] * others
    return HEADER + "".join(
        f"{name}-{at},{cpu},10,0,0,,LS,Running,{at},90,{at}\n" for at, (name, cpu) in enumerate(rows)
    )


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text(NODES)
    Path("pods.csv").write_text(tasks(2, 0))
    return tmp_path


ASKED = ("import", "openb", "--nodes", "nodes.csv", "--pods", "pods.csv", "-o")


@pytest.mark.parametrize("name", ["out.json", "out.yaml", "out.yml"])
def test_cluster_is_written_that_can_be_planned(run: Run, desk: Path, name: str) -> None:
    assert run(*ASKED, name) == Ended(0, "", f"{name}: 1 node, 2 running pods\n")
    assert Path(name).read_text().startswith("{") == name.endswith(".json")
    assert run("plan", "-f", name).out.startswith("No pods are pending.\n")


@pytest.mark.parametrize(
    ("others", "named"),
    [
        (1, "large-1"),
        (3, "large-1, large-2, large-3"),
        (4, "large-1, large-2, large-3, ..."),
    ],
)
def test_tasks_without_room_are_counted_and_three_are_named(run: Run, desk: Path, others: int, named: str) -> None:
    Path("pods.csv").write_text(tasks(1, others))
    assert run(*ASKED, "out.json").err.splitlines() == [
        "out.json: 1 node, 1 running pod",
        f"{others} task{'' if others == 1 else 's'} skipped, no node had enough capacity: {named}",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("out.txt",), "-o out.txt: expected a name ending in .json, .yaml, .yml"),
        (("out",), "-o out: expected a name ending in .json, .yaml, .yml"),
        (("out.json", "--max-input-bytes", "0"), "--max-input-bytes: expected a size above 0, found '0'"),
        (
            ("out.json", "--max-input-bytes", str(len(NODES) - 1)),
            "nodes.csv, line 2: larger than 55 bytes (--max-input-bytes",
        ),
        (("no/out.json",), "no/out.json: No such file or directory"),
    ],
)
def test_trace_that_cannot_be_imported_is_one_line(
    run: Run, desk: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = run(*ASKED, *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"error: {message}")
    assert {path.name for path in desk.iterdir()} == {"nodes.csv", "pods.csv"}


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("none.csv", "pods.csv", "none.csv: No such file or directory"),
        ("nodes.csv", "nodes.csv", "nodes.csv"),
    ],
)
def test_list_that_cannot_be_imported_is_one_line(run: Run, desk: Path, nodes: str, pods: str, message: str) -> None:
    ended = run("import", "openb", "--nodes", nodes, "--pods", pods, "-o", "out.json")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"error: {message}")


def test_file_of_just_the_size_is_read(run: Run, desk: Path) -> None:
    most = max(len(NODES), len(tasks(2, 0)))
    assert run(*ASKED, "out.json", "--max-input-bytes", str(most)).code == 0
