"""`reprieve up` as a user starts it: ready when it says so, what dies is started again, it ends cleanly."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprieve.live.local import kept_port
from tests.cli.conftest import Run
from tests.e2e.cluster import COMMAND, PODS, Up, ended, eventually, is_running, pod, up
from tests.waiting import DEADLINE

DEFAULT = PODS.format(namespace="default")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("up")
    with up(directory, "--nodes=2", data_dir=str(directory / "data")) as running:
        yield running


def test_pods_are_scheduled_and_run(cluster: Up) -> None:
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
    cluster.api.create(DEFAULT, pod("first"))
    eventually(lambda: cluster.api.runs("first"))
    first = cluster.api.pod("first")
    assert first is not None
    [event] = eventually(
        lambda: [one for one in cluster.api.events("Scheduled") if one["regarding"]["name"] == "first"],
        "the event of the binding",
    )
    assert event["note"] == f"Successfully assigned default/first to {first['spec']['nodeName']}"
    assert event["reportingController"] == "default-scheduler"
    eventually(lambda: cluster.metric("scheduler_schedule_attempts_total", result="scheduled") >= 1)


def test_scheduler_that_is_killed_is_started_again(cluster: Up) -> None:
    """interfaces.md 1.1."""
    [first] = eventually(cluster.children)
    os.kill(first, signal.SIGKILL)
    cluster.api.create(DEFAULT, pod("after"))
    eventually(lambda: cluster.api.runs("after"))
    [second] = cluster.children()
    assert second != first
    assert "the scheduler was ended by SIGKILL, starting it again in 0.2 s" in cluster.log.read_text()


def test_data_directory_in_use_is_named(cluster: Up, refused: Callable[..., str]) -> None:
    data = cluster.kubeconfig.parent
    eventually((data / "decisions.db").exists, "the scheduler has begun")
    done = refused("--data-dir", str(data), "--port", "0")
    assert "state.db" in done


def test_killed_parent_takes_the_scheduler_along_and_everything_is_there_again(tmp_path: Path) -> None:
    """interfaces.md 1.1."""
    data = str(tmp_path / "data")
    with up(tmp_path, "--nodes=1", data_dir=data) as cluster:
        cluster.api.create(DEFAULT, pod("kept"))
        eventually(lambda: cluster.api.runs("kept"))
        [scheduler] = cluster.children()
        cluster.process.kill()
        cluster.process.wait(DEADLINE)
        eventually(lambda: ended(scheduler), "the scheduler gone")
    with up(tmp_path, data_dir=data) as cluster:
        expected = "continuing with existing data: 1 nodes, 1 pods; --reset starts empty\n"
        assert cluster.log.read_text().count(expected) == 1
        assert cluster.api.runs("kept")
        cluster.api.create(DEFAULT, pod("more"))
        eventually(lambda: cluster.api.runs("more"))
        [scheduler] = cluster.children()
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(DEADLINE) == 0
        assert ended(scheduler)
        assert cluster.log.read_text().endswith("stopped\n"), "it had the time to say so"


def test_reset_starts_empty_and_down_leaves_nothing_behind(
    tmp_path: Path, cluster: Up, refused: Callable[..., str]
) -> None:
    """interfaces.md 1.1: what is cleared is what `up` made, and never under a cluster that runs."""
    data = tmp_path / "data"
    with up(tmp_path, "--nodes=1", data_dir=str(data)) as first:
        token = first.kubeconfig.read_text()
    (data / "mine.txt").write_text("kept")
    with up(tmp_path, "--reset", data_dir=str(data)) as second:
        assert second.api.items("/api/v1/nodes") == []
        assert "goes on" not in second.log.read_text()
        assert _users(second.kubeconfig.read_text()) == _users(token), "the kubeconfig stays valid"
    in_use = str(cluster.kubeconfig.parent)
    assert "in use by another running server; stop it first" in refused("--data-dir", in_use, "--port=0", "--reset")
    for place, code, expected in (
        (in_use, 2, "in use by another running server; stop it first"),
        (str(data), 0, f"removed the state in {data}"),
        (str(data), 0, f"nothing to remove in {data}"),
        (":memory:", 2, "--data-dir :memory: has no data to delete"),
    ):
        command = [*COMMAND[:-1], "down", "--data-dir", place]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
        assert (done.returncode, done.stdout) == (code, "")
        assert expected in done.stderr
    assert [path.name for path in data.iterdir()] == ["mine.txt"]
    assert cluster.api.items("/api/v1/nodes")


def _users(kubeconfig: str) -> list[str]:
    return [line for line in kubeconfig.splitlines() if "token" in line]


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """What a start that must fail prints on stderr, in one line."""

    def refused(*arguments: str) -> str:
        ended = run("up", *arguments)
        assert (ended.code, ended.out) == (2, ""), ended.err
        assert ended.err.startswith("error: ")
        assert ended.err.count("\n") == 1, ended.err
        return ended.err

    return refused


def test_data_directory_that_is_a_file_is_named(tmp_path: Path, refused: Callable[..., str]) -> None:
    """interfaces.md 1.9: what is wrong, not what the system calls it."""
    (tmp_path / "data").write_text("")
    assert refused("--data-dir", str(tmp_path / "data"), "--port=0") == (
        f"error: {tmp_path / 'data'}: is a file, not a directory\n"
    )


def test_ports_in_use_are_named(tmp_path: Path, refused: Callable[..., str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        expected = f"cannot listen on 127.0.0.1:{port}: Address already in use"
        assert expected in refused("--data-dir", ":memory:", "--port", port)
        assert expected in refused("--data-dir", str(tmp_path / "new"), "--port", port)
        assert expected in refused("--data-dir", ":memory:", "--port", "0", "--metrics-port", port)


@pytest.mark.skipif(sys.platform != "linux", reason="ports are kept on Linux")
def test_port_of_a_stopped_scheduler_stays_reserved() -> None:
    """It is kept from before the scheduler has started, and while it is started again."""
    with kept_port(0) as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as scheduler:
                assert scheduler.getsockname()[1] == port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_bad_input_is_refused_before_anything_is_made(tmp_path: Path, refused: Callable[..., str]) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: 7}")
    data = tmp_path / "data"
    for arguments, expected in (
        (["--config", str(config)], "scheduler.yaml: profiles"),
        (["--feature-gates", "Nonsense=true"], "unknown feature gate 'Nonsense'"),
        (["-f", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["--nodes-file", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["-f", str(config), "--max-input-bytes=10"], "larger than 10 bytes"),
    ):
        assert expected in refused("--data-dir", str(data), "--port", "0", *arguments)
        assert not data.exists()
    assert "unknown controller nonsense" in refused("--data-dir", str(data), "--port", "0", "--controllers", "nonsense")


CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop, uid: elsewhere}
  spec:
    replicas: 2
    selector: {matchLabels: {app: web}}
    template: &template
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-abc-there
    namespace: shop
    labels: {app: web, pod-template-hash: abc}
    creationTimestamp: "2026-01-02T03:04:05Z"
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, uid: x, controller: true}]
  spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
  status: {phase: Running, startTime: "2026-01-02T03:04:06Z"}
"""


def test_cluster_of_files_is_there_before_anything_is_decided(tmp_path: Path) -> None:
    """Its pods stay where they run, its Deployment makes the one that lacks, a snapshot of it is loaded alike."""
    file, snapshot = tmp_path / "cluster.yaml", tmp_path / "snapshot.yaml"
    file.write_text(CLUSTER)
    with up(tmp_path, "-f", str(file)) as first:
        assert "loaded 5 objects, including missing dependencies: ReplicaSet" in first.log.read_text()
        eventually(lambda: sum(map(is_running, first.api.pods("shop").values())) == 2)
        before = first.api.pods("shop")
        assert before["web-abc-there"]["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
        arguments = ["--kubeconfig", str(first.kubeconfig), "-o", str(snapshot)]
        subprocess.run([*COMMAND[:-1], "snapshot", *arguments], check=True, timeout=DEADLINE)
    (tmp_path / "again").mkdir()
    with up(tmp_path / "again", "-f", str(snapshot)) as second:
        assert second.api.runs(*before, namespace="shop")
        assert set(second.api.pods("shop")) == set(before)


def test_bad_object_is_named_and_nothing_is_half_loaded(tmp_path: Path, refused: Callable[..., str]) -> None:
    file, data = tmp_path / "cluster.yaml", tmp_path / "data"
    file.write_text(f"{CLUSTER}---\n{{apiVersion: v1, kind: Pod, metadata: {{name: bad}}, spec: {{}}}}\n")
    shown = refused("--data-dir", str(data), "--port", "0", "-f", str(file))
    assert "cluster.yaml: document 2" in shown
    assert 'Pod "default/bad": spec.containers: Required value' in shown
    with up(tmp_path, data_dir=str(data)) as cluster:
        assert not cluster.api.items("/api/v1/nodes")
        assert not cluster.api.items("/apis/apps/v1/deployments")


def test_profiles_of_a_configuration_are_scheduled_for(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "profiles: [{schedulerName: default-scheduler}, {schedulerName: second}]}"
    )
    with up(tmp_path, "--nodes=1", f"--config={config}") as cluster:
        for name in ("default-scheduler", "second", "nobody"):
            manifest = pod(name)
            manifest["spec"]["schedulerName"] = name
            cluster.api.create(DEFAULT, manifest)
        eventually(lambda: cluster.api.runs("default-scheduler", "second"))
        unwanted = cluster.api.pod("nobody")
        assert unwanted is not None
        assert "nodeName" not in unwanted["spec"]


def test_every_option_is_in_the_help() -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "commands.md"
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True, timeout=DEADLINE)
    options = set(re.findall(r"--[a-z][a-z-]+", done.stdout)) - {
        "--help",
        "--nodes-file",
        "--filename",
        "--kubelets",
        "--verbose",
    }
    assert {option for option in options if option not in page.read_text()} == set()
