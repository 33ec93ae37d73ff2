"""Questions about a live cluster, without a server: what was read of it is given.

How one is read is in tests/client, and how the commands find it in test_explain.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprieve.api.loading import read
from reprieve.cli import queue
from reprieve.client.reading import Reading
from tests.cli.conftest import Run
from tests.cli.test_questions import CLUSTER, pod

WAITING = pod("waiting", "99").replace("{name: waiting}", "{name: waiting, creationTimestamp: '2026-05-04T03:02:01Z'}")
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """A cluster that is read again for each question; with what each time."""
    asked: list[dict[str, Any]] = []

    def read_live(kubeconfig: str | None, context: str | None, strictness: object, **more: Any) -> tuple[Reading, str]:
        asked.append({"kubeconfig": kubeconfig, "context": context, **more})
        objects = [one.object for one in read([("cluster", CLUSTER), ("waiting", WAITING)]).all()]
        return Reading(objects=objects, warnings=["leases are not readable"]), "https://here"

    monkeypatch.setattr("reprieve.cli.asking.read_live", read_live)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.yaml").write_text(pod("more", "1"))
    return asked


ASKED = ("queue", "--kubeconfig", "k")


def test_a_cluster_that_is_watched_is_read_again_every_two_seconds(
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
    assert ended.out.count("1 waits\n") == 3
    assert ended.err.splitlines() == [
        "warning: leases are not readable",
        "in a cluster of more than 3 objects it is not tried what would help: ask explain",
        *["warning: leases are not readable"] * 2,
    ]
    once = run(*ASKED)
    assert (once.code, len(live), len(pauses)) == (0, 4, 3)


def test_a_watch_takes_no_standard_input(run: Run, live: list[dict[str, Any]]) -> None:
    ended = run(*ASKED, "-f", "-", "-w", stdin=pod("more", "1"))
    assert (ended.code, ended.out, live) == (2, "", [])
    assert ended.err == "error: -w: standard input can be read only once: a file for -f\n"
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
    """Who waits there already, with the same priority, is tried first (whatif.md 6.5)."""
    monkeypatch.setattr("reprieve.cli.asking.time.time", lambda: 1_800_000_000.0)
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


def test_an_answer_about_a_live_cluster_is_of_the_time_that_is_given(run: Run, live: list[dict[str, Any]]) -> None:
    """interfaces.md 1.5: before which nothing of it may be made; without one it is asked about now."""
    plan = ("plan", "--kubeconfig", "k", "-o", "json")
    assert json.loads(run(*plan).out)["pods"][0]["name"] == "waiting"
    assert run(*plan, "--now", "2026-05-04T03:02:01Z").code == 0
    ended = run(*plan, "--now", "2026-05-04T03:02:00Z")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1] == (
        'error: https://here: Pod "default/waiting": made or started at 2026-05-04T03:02:01Z, after the time that is '
        "planned for, 2026-05-04T03:02:00Z"
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
