"""Questions about a live cluster, without a server: what was read of it is given.

How one is read is in packages/reprieve/tests/client, and how the commands find it in test_explain.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprieve.cli import queue, queue_records
from reprieve.client.cluster_reader import ClusterReading
from reprieve.client.connection import Connection
from reprieve.inputs.loader import read
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseStore
from reprieve.observability.recorder import RecordKeeper
from reprieve.python.inputs import Warn
from reprieve.simulation.plan import PlanOptions, plan
from tests.cli.conftest import Run
from tests.cli.test_questions import CLUSTER, pod

WAITING = pod("waiting", "99").replace("{name: waiting}", "{name: waiting, creationTimestamp: '2026-05-04T03:02:01Z'}")
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """A cluster that is read again for each question; with what each time."""
    asked: list[dict[str, Any]] = []

    def read_live(
        kubeconfig: str | None, context: str | None, strictness: object, warn: Warn, **more: Any
    ) -> tuple[ClusterReading, str]:
        asked.append({"kubeconfig": kubeconfig, "context": context, **more})
        objects = [one.object for text in (CLUSTER, WAITING) for one in read([("here", text)]).all()]
        warn(["leases are not readable"])
        return ClusterReading(objects=objects), "https://here"

    monkeypatch.setattr("reprieve.python.inputs.read_live", read_live)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.yaml").write_text(pod("more", "1"))
    return asked


ASKED = ("queue", "--kubeconfig", "k")


def test_cluster_that_is_watched_is_read_again_every_two_seconds(
    run: Run, live: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 6.1, until it is interrupted. What could not be read is a warning each time."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("reprieve.cli.queue.time.sleep", sleep)
    monkeypatch.setattr(queue, "MOST_OBJECTS", 3)
    ended = run(*ASKED, "-w")
    assert (ended.code, pauses, len(live)) == (130, [2.0] * 3, 3)
    assert ended.out.count("1 pending workload\n") == 3
    assert ended.err.splitlines() == [
        "warning: leases are not readable",
        "suggestions skipped: more than 3 objects. Run `reprieve explain` to see what would help.",
        *["warning: leases are not readable"] * 2,
    ]
    once = run(*ASKED)
    assert (once.code, len(live), len(pauses)) == (0, 4, 3)


def test_watch_takes_no_standard_input(run: Run, live: list[dict[str, Any]]) -> None:
    ended = run(*ASKED, "-f", "-", "-w", stdin=pod("more", "1"))
    assert (ended.code, ended.out, live) == (2, "", [])
    assert ended.err == "error: -w: standard input can be read only once: use -f FILE\n"
    assert json.loads(run(*ASKED, "-f", "-", "-o", "json", stdin=pod("more", "1")).out)["items"][0]["name"] == "waiting"


def test_without_files_the_cluster_that_kubectl_would_ask_is_meant(run: Run, live: list[dict[str, Any]]) -> None:
    """Where there is none, nothing is asked about; a context is one of the kubeconfig that is found."""
    ended = run("queue")
    assert (ended.code, ended.out, live) == (2, "", [])
    assert ended.err.startswith("error: nothing to plan: ")
    assert run("queue", "--context", "c").code == 0
    Path(".kube").mkdir()
    Path(".kube/config").write_text("{}")
    assert run("queue").code == 0
    assert [(each["kubeconfig"], each["context"]) for each in live] == [(None, "c"), (None, None)]


def test_files_are_added_to_the_cluster_as_made_now(
    run: Run, live: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that waits there already, with the same priority, is tried first (whatif.md 6.5)."""
    monkeypatch.setattr("reprieve.python.inputs.time.time", lambda: 1_800_000_000.0)
    items = json.loads(run(*ASKED, "-f", "more.yaml", "-o", "json").out)["items"]
    assert [(item["name"], item["since"]) for item in items] == [
        ("waiting", "2026-05-04T03:02:01Z"),
        ("more", None),
    ]


@pytest.mark.parametrize(
    ("arguments", "makers"),
    [
        (("--cordon", "n1"), []),
        (("--scale", "deployment/web=3"), [("Deployment", "", "default", "web")]),
        (("--scale", "team/job/j=2", "--cordon", "n1"), [("Job", "", "team", "j")]),
    ],
)
def test_only_what_is_to_be_scaled_is_read_with_its_template(
    run: Run, live: list[dict[str, Any]], arguments: tuple[str, ...], makers: list[tuple[str, ...]]
) -> None:
    """whatif.md 4.8."""
    run(*ASKED, *arguments)
    assert live == [{"kubeconfig": "k", "context": None, "owners": False, "jobs": False, "makers": makers}]


def test_answer_about_a_live_cluster_is_of_the_time_that_is_given(run: Run, live: list[dict[str, Any]]) -> None:
    """interfaces.md 1.5: before which nothing of it may be made; without one it is asked about now."""
    plan = ("plan", "--kubeconfig", "k", "-o", "json")
    assert json.loads(run(*plan).out)["pods"][0]["name"] == "waiting"
    assert run(*plan, "--now", "2026-05-04T03:02:01Z").code == 0
    ended = run(*plan, "--now", "2026-05-04T03:02:00Z")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1] == (
        'error: https://here: Pod "default/waiting": created or started at 2026-05-04T03:02:01Z, '
        "after the planned time 2026-05-04T03:02:00Z"
    )


def test_manifests_may_name_what_only_the_cluster_has(run: Run, live: list[dict[str, Any]]) -> None:
    """A pod that runs on a node of the cluster; on a node of neither it is bad input."""
    Path("more.yaml").write_text(pod("runs", "1", more="nodeName: n2, "))
    assert run(*ASKED, "-f", "more.yaml").code == 0
    Path("more.yaml").write_text(pod("runs", "1", more="nodeName: n9, "))
    ended = run(*ASKED, "-f", "more.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert "no Node with this name is in the cluster or the input" in ended.err


@pytest.mark.parametrize(
    ("more", "owners", "jobs"),
    [
        ("", False, False),
        ("groupSources: {owners: true}", True, False),
        (
            "profiles: [{schedulerName: default-scheduler, pluginConfig: "
            "[{name: DefaultPreemption, args: {waitForCompletions: 30m}}]}]",
            False,
            True,
        ),
    ],
    ids=["default", "owners", "completions"],
)
def test_controllers_and_jobs_are_read_where_the_configuration_asks_for_them(
    run: Run, live: list[dict[str, Any]], more: str, owners: bool, jobs: bool
) -> None:
    """Beside plans under another configuration as well: each is of the same cluster."""
    Path("c.yaml").write_text(f"{CONFIGURATION}{more}\n")
    for asked in (("--config", "c.yaml"), ("--compare", "c.yaml")):
        ended = run("plan", "--kubeconfig", "k", *asked)
        assert ended.code == 0, ended.err
        assert {(each["owners"], each["jobs"]) for each in live} == {(owners, jobs)}


SMALL = pod("small", "1")
GATE = ("plan", "--kubeconfig", "k", "--no-suggest")
GATES: dict[str, tuple[tuple[str, ...], dict[str, str], str, int]] = {
    "a pod that fits": (("-f", "new.yaml"), {"new.yaml": SMALL}, "The pod is placed.", 0),
    "a pod that does not": (("-f", "new.yaml"), {"new.yaml": pod("big", "77")}, "0 of 1 pods placed, 1 pending.", 1),
    "one of each": (
        ("-f", "new.yaml"),
        {"new.yaml": SMALL + pod("big", "77")},
        "1 of 2 pods placed, 1 pending.",
        1,
    ),
    "nothing that makes pods": (
        ("-f", "new.yaml"),
        {"new.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: more}\n"},
        "No pods are pending.",
        0,
    ),
    "a node that holds no pods": (("--add-nodes", "1", "--like", "n1", "--drain", "n1-1"), {}, "No pods", 0),
    "a drain": (("--drain", "n2"), {}, "The pod is placed.", 0),
    "a cordon is about all": (("--cordon", "n1"), {}, "0 of 1 pods placed, 1 pending.", 1),
    "so is nothing": ((), {}, "0 of 1 pods placed, 1 pending.", 1),
    "a taint that evicts": (("--taint", "n2 a=b:NoExecute"), {}, "The pod is placed.", 0),
    "a taint that does not": (("--taint", "n2 a=b:NoSchedule"), {}, "0 of 1 pods placed, 1 pending.", 1),
    "the rank of the pod that waits": (("--set-priority", "pod/waiting=3"), {}, "0 of 1 pods placed, 1 pending.", 1),
    "the rank of another": (("--set-priority", "pod/low=3"), {}, "No pods are pending.", 0),
}


ABOUT_WAITING = (
    "a cordon is about all",
    "so is nothing",
    "a taint that does not",
    "the rank of the pod that waits",
)


@pytest.mark.parametrize("case", GATES)
def test_gate_on_a_live_cluster_is_about_what_was_asked(run: Run, live: list[dict[str, Any]], case: str) -> None:
    """whatif.md 13: the pod that waits there for 99 cores is no concern of it, and is counted apart."""
    arguments, files, first, code = GATES[case]
    for name, text in files.items():
        Path(name).write_text(text)
    ended = run(*GATE, *arguments, "--fail-on-pending")
    assert ended.code == code, ended.out + ended.err
    lines = ended.out.splitlines()
    if lines[0] == "Changes":
        lines = lines[lines.index("") + 1 :]
    assert lines[0].startswith(first)
    concerned = case in ABOUT_WAITING
    assert ("  Outside this plan: 1 pod already pending in the cluster, 1 still pending." in lines) is not concerned
    assert ("default/waiting" in "\n".join(lines[1:])) is concerned
    document = json.loads(run(*GATE, *arguments, "-o", "json").out)
    asked = {one["name"]: one["asked"] for one in document["pods"]}
    assert asked.pop("waiting") is concerned
    assert all(asked.values())


def test_pods_preempted_for_others_do_not_fail_a_gate(
    run: Run, live: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 13.2: in the cluster a pod of priority 3 waits, and evicts `low`."""
    monkeypatch.setattr("tests.cli.test_live_questions.WAITING", pod("other", "6", 3))
    Path("new.yaml").write_text(SMALL)
    ended = run(*GATE, "-f", "new.yaml", "--fail-on-preemption", "--fail-on-pending")
    assert ended.code == 0, ended.out + ended.err
    assert "No pods are evicted." in ended.out
    assert (
        "Outside this plan: 1 pod already pending in the cluster, 1 placed, 1 workload (1 pod) evicted for them."
        in ended.out
    )
    assert run(*GATE, "--fail-on-preemption").code == 1


def test_plans_side_by_side_are_about_what_one_of_them_is_about(run: Run, live: list[dict[str, Any]]) -> None:
    """whatif.md 13.2"""
    Path("new.yaml").write_text(SMALL)
    ended = run(*GATE, "--compare-to", "new.yaml", "-o", "json", "--fail-on-pending")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert [(one["placed"], one["waiting"]) for one in found["variants"]] == [(0, 0), (1, 0)]
    assert [row["name"] for row in found["rows"]] == ["small"]


def test_group_is_asked_about_with_all_its_pods(
    run: Run, live: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 13.1: a pod that joins a group with pending pods."""
    group = (
        "---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
        "spec: {schedulingPolicy: {gang: {minCount: 2}}}\n"
    )
    member = "schedulingGroup: {podGroupName: g}, "
    monkeypatch.setattr("tests.cli.test_live_questions.WAITING", group + pod("g-0", "1", 0, member) + pod("x", "99"))
    Path("new.yaml").write_text(pod("g-1", "1", 0, member))
    document = json.loads(run(*GATE, "-f", "new.yaml", "-o", "json").out)
    assert {one["name"]: (one["asked"], one["outcome"]) for one in document["pods"]} == {
        "g-0": (True, "Scheduled"),
        "g-1": (True, "Scheduled"),
        "x": (False, "Unschedulable"),
    }
    assert [one["asked"] for one in document["podGroups"]] == [True]
    assert json.loads(run(*GATE, "-f", "more.yaml", "-o", "json").out)["podGroups"][0]["asked"] is False


def test_nothing_is_tried_for_what_is_not_asked_about(run: Run, live: list[dict[str, Any]]) -> None:
    """whatif.md 5.4, 13.2"""
    asked = json.loads(run("plan", "--kubeconfig", "k", "-o", "json").out)["pods"]
    assert [bool(one["help"]) for one in asked] == [True]
    Path("new.yaml").write_text(SMALL)
    asked = json.loads(run("plan", "--kubeconfig", "k", "-f", "new.yaml", "-o", "json").out)["pods"]
    assert not any(one["help"] for one in asked)


@pytest.mark.parametrize("command", ["plan", "queue", "capacity", "drain-plan", "explain"])
def test_without_manifests_the_cluster_of_kubectl_is_asked(
    run: Run,
    live: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
) -> None:
    """interfaces.md 1.5, 1.12: whether KUBECONFIG names it or ~/.kube/config is there; else there is nothing to ask."""
    needed = {"explain": ("--all-waiting",), "capacity": ("--shape", "more.yaml"), "drain-plan": ("n1",)}
    arguments = (command, *needed.get(command, ()))
    asked = run(*arguments)
    assert (asked.code, live) == (2, [])
    assert asked.err.startswith("error: nothing to plan")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "some"))
    assert run(*arguments).code == 0
    monkeypatch.delenv("KUBECONFIG")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    assert run(*arguments).code == 0
    assert [one["kubeconfig"] for one in live] == [None, None]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database in which the pod `waiting` was tried, as the scheduler of the cluster saw it."""
    monkeypatch.setattr(
        "reprieve.cli.queue_records.connect", lambda *_: Connection(server="https://here", source="test")
    )
    address = f"sqlite:///{tmp_path}/records.db"
    store = DatabaseStore(RecordsDatabase(address, spool=tmp_path / "spool"))
    plan(read([("here", CLUSTER), ("more", WAITING)]), PlanOptions(observer=RecordKeeper(store)))
    store.close()
    return address


def test_records_show_the_last_attempt(run: Run, live: list[dict[str, Any]], records: str) -> None:
    """whatif.md 6.6: the newest record of the workload, as text and as JSON."""
    [item] = json.loads(run(*ASKED, "--records", records, "-o", "json").out)["items"]
    made = item["lastAttempt"]
    assert (item["name"], made["result"]) == ("waiting", "Unschedulable")
    assert made["attempt"] >= 1
    assert made["time"] > "2026-05-04T03:02:01"
    assert "Insufficient cpu" in made["message"]
    shown = run(*ASKED, "--records", records).out
    assert f"attempt {made['attempt']} at {made['time']}: Unschedulable, 0/" in shown
    assert json.loads(run(*ASKED, "-o", "json").out)["items"][0]["lastAttempt"] is None


def test_records_of_an_earlier_workload_of_the_name_are_not_shown(
    run: Run, live: list[dict[str, Any]], records: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 6.6: the pod of now was created after them."""
    later = WAITING.replace("2026-05-04", "2027-05-04")
    reading = [one.object for text in (CLUSTER, later) for one in read([("here", text)]).all()]
    monkeypatch.setattr(
        "reprieve.python.inputs.read_live", lambda *_, **__: (ClusterReading(objects=reading), "https://here")
    )
    [item] = json.loads(run(*ASKED, "--records", records, "-o", "json").out)["items"]
    assert (item["name"], item["lastAttempt"]) == ("waiting", None)


def test_only_so_many_workloads_are_looked_up(
    run: Run, live: list[dict[str, Any]], records: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """whatif.md 6.6: the others are named by their number."""
    monkeypatch.setattr(queue_records, "MOST_ASKED", 0)
    ended = run(*ASKED, "--records", records, "-o", "json")
    assert json.loads(ended.out)["items"][0]["lastAttempt"] is None
    assert "records of the first 0 workloads were read" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("queue", "-f", "more.yaml", "--records", "x.db"), 2, "--records needs a live cluster: --kubeconfig FILE"),
        ((*ASKED, "--records", "mysql://me:pw@h/x"), 2, "mysql://h/x: expected http://HOST:PORT"),
        ((*ASKED, "--records", "nowhere.db"), 2, "nowhere.db: not a file of decision records"),
        ((*ASKED, "--records", "postgresql://me:pw@127.0.0.1:1/x"), 3, "me:***@127.0.0.1:1/x"),
    ],
)
def test_records_that_cannot_be_read_are_one_error(
    run: Run, live: list[dict[str, Any]], records: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    """As `history` and `explain` end."""
    ended = run(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert "pw" not in ended.err
