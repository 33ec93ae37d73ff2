"""What `apiserver`, `up` and `down` make of their options and say, without a server: it is noted what one is asked for.

How real ones run is in kube-standin's test_command.py and test_up.py.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kube_standin.command import announce, default_data_dir, report_loaded
from kube_standin.errors import bad_request
from kube_standin.initial_objects import LoadReport
from kube_standin.storage.log import StorageError
from reprieve.cli import apiserver, outcome
from reprieve.live.supervisor import ChildRefusedError
from tests.cli.conftest import Ended, Run

SERVING = "kube_standin.server.control_plane.serving"
LOCAL = "reprieve.live.local.local_cluster"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Servers set how seldom garbage is collected, and where logs go, for the whole process."""
    thresholds, root = gc.get_threshold(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    gc.set_threshold(*thresholds)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options that a server or a cluster was started with; each is then refused."""
    found: list[Any] = []

    @asynccontextmanager
    async def starting(options: Any) -> AsyncIterator[None]:
        found.append(options)
        raise ValueError("noted")
        yield

    monkeypatch.setattr(SERVING, starting)
    monkeypatch.setattr(LOCAL, starting)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    return found


def serve_options(command: str, noted: list[Any]) -> Any:
    [options] = noted
    return options.serve if command == "up" else options


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_without_options_it_is_on_this_machine_alone_and_keeps_its_state(
    run: Run, noted: list[Any], command: str
) -> None:
    assert run(command) == Ended(2, "", "error: noted\n")
    found = serve_options(command, noted)
    assert (str(found.data_dir), found.host, found.port) == (f"/data/reprieve/{command}", "127.0.0.1", 6443)
    assert (found.kubeconfig, found.objects, found.controllers) == (None, [], "*")
    assert (found.anonymous, found.accept_loss, found.lenient) == (False, False, False)
    assert found.kubelets is not None
    assert found.kubelets.nodes == 0


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_each_option_is_passed_on(run: Run, noted: list[Any], tmp_path: Path, command: str) -> None:
    options = ("--data-dir", ":memory:", "--host", "0.0.0.0", "--port", "1", "--kubeconfig", tmp_path / "k")
    more = ("--nodes", "3", "--controllers", "none", "--anonymous", "--accept-loss", "--lenient")
    assert run(command, *options, *more).err == "error: noted\n"
    found = serve_options(command, noted)
    assert (str(found.data_dir), found.host, found.port) == (":memory:", "0.0.0.0", 1)
    assert (found.kubeconfig, found.kubelets.nodes, found.controllers) == (tmp_path / "k", 3, "none")
    assert (found.anonymous, found.accept_loss, found.lenient) == (True, True, True)


@pytest.mark.parametrize("command", ["apiserver", "up"])
@pytest.mark.parametrize(
    ("arguments", "objects", "kubelets"),
    [
        ((), "", True),
        (("--no-kubelets",), "", False),
        (("--no-kubelets",), MAP, False),
        (("--no-kubelets", "--nodes", "1"), "", True),
        (("--no-kubelets",), NODE, True),
    ],
)
def test_nodes_have_kubelets_even_where_none_are_wanted(
    run: Run, noted: list[Any], tmp_path: Path, command: str, arguments: tuple[str, ...], objects: str, kubelets: bool
) -> None:
    (tmp_path / "o.yaml").write_text(objects)
    files = ("-f", tmp_path / "o.yaml") if objects else ()
    run(command, "--data-dir", ":memory:", *arguments, *files)
    found = serve_options(command, noted)
    assert (found.kubelets is not None) == kubelets
    assert len(found.objects) == bool(objects)


@pytest.mark.parametrize("command", ["apiserver", "up"])
@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        ("", (), "{file}: no objects in it"),
        ("a: [1\n", (), "{file}: "),
        (MAP, ("--max-input-bytes", "0"), "--max-input-bytes: expected a size above 0, found '0'"),
        (MAP, ("--max-input-bytes", "x"), "--max-input-bytes: "),
        (MAP, ("--max-input-bytes", str(len(MAP) - 1)), "{file}: "),
        (None, (), "{file}: No such file or directory"),
    ],
)
def test_manifests_that_cannot_be_used_end_it_before_anything_starts(
    run: Run, noted: list[Any], tmp_path: Path, command: str, content: str | None, more: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "o.yaml"
    if content is not None:
        file.write_text(content)
    ended = run(command, "--data-dir", ":memory:", "-f", file, *more)
    assert (ended.code, ended.out, noted) == (2, "", [])
    assert ended.err.startswith(f"error: {message.format(file=file)}")
    assert ended.err.count("\n") == 1


def test_manifests_of_just_the_size_are_read(run: Run, noted: list[Any], tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text(MAP)
    run("apiserver", "--data-dir", ":memory:", "-f", tmp_path / "o.yaml", "--max-input-bytes", str(len(MAP)))
    assert len(serve_options("apiserver", noted).objects) == 1


@pytest.mark.parametrize("command", ["apiserver", "up"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StorageError("the state is damaged"), "the state is damaged"),
        (bad_request("no"), "no"),
        (ValueError("unknown controller"), "unknown controller"),
        (OSError(98, "Address already in use"), "Address already in use"),
        (PermissionError(13, "Permission denied", "/data"), "/data: Permission denied"),
    ],
)
def test_server_that_cannot_start_prints_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, error: Exception, message: str
) -> None:
    @asynccontextmanager
    async def starting(_options: object) -> AsyncIterator[None]:
        raise error
        yield

    monkeypatch.setattr(SERVING, starting)
    monkeypatch.setattr(LOCAL, starting)
    assert run(command, "--data-dir", ":memory:") == Ended(2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_DATA_HOME": "/data"}, "/data/reprieve/up"),
        ({"XDG_DATA_HOME": ""}, "{home}/.local/share/reprieve/up"),
        ({"XDG_DATA_HOME": "relative"}, "{home}/.local/share/reprieve/up"),
        ({}, "{home}/.local/share/reprieve/up"),
    ],
)
def test_state_goes_where_the_freedesktop_rules_say(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """XDG Base Directory Specification: unset, empty and relative values of XDG_DATA_HOME mean the default."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(default_data_dir("reprieve/up")) == expected.format(home=tmp_path)


@pytest.mark.parametrize(
    ("command", "option", "least", "most"),
    [
        ("apiserver", "--port", 0, 65_535),
        ("apiserver", "--nodes", 0, 100_000),
        ("up", "--port", 0, 65_535),
        ("up", "--nodes", 0, 100_000),
        ("up", "--metrics-port", 0, 65_535),
    ],
)
def test_numbers_have_bounds(run: Run, noted: list[Any], command: str, option: str, least: int, most: int) -> None:
    for number in (least - 1, most + 1):
        ended = run(command, "--data-dir", ":memory:", option, number)
        assert (ended.code, ended.out, noted) == (2, "", [])
        assert f"{number} is not in the range {least}<=x<={most}" in ended.err
    for number in (least, most):
        assert run(command, "--data-dir", ":memory:", option, number).err == "error: noted\n"
    assert len(noted) == 2


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_everything_is_logged_on_demand_alone(
    run: Run, noted: list[Any], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    verbose: list[bool] = []
    monkeypatch.setattr(apiserver, "log_to_stderr", verbose.append)
    for more in ((), ("-v",), ("--verbose",)):
        run(command, "--data-dir", ":memory:", *more)
    assert verbose == [False, True, True]


def test_garbage_among_old_objects_is_hardly_ever_collected(run: Run, noted: list[Any]) -> None:
    """Not the thresholds themselves: far more objects than an interpreter's own before each generation's turn."""
    gc.set_threshold(700, 10, 10)
    run("apiserver", "--data-dir", ":memory:")
    assert all(found >= usual for found, usual in zip(gc.get_threshold(), (7_000, 50, 1_000), strict=True))


# -- up alone ------------------------------------------------------------------------------------------------------

OTHERS = (
    "--scheduler-name=default-scheduler",
    "--also-known-as=volcano",
    "--also-known-as=scheduler-plugins-scheduler",
)


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ((), ("--v=0", "--feature-gates=", *OTHERS)),
        (("-v",), ("--v=2", "--feature-gates=", *OTHERS)),
        (("--compatible",), ("--v=0", "--feature-gates=", "--compatible", *OTHERS)),
        (
            ("--feature-gates", "GenericWorkload=false"),
            ("--v=0", "--feature-gates=GenericWorkload=false", *OTHERS),
        ),
        (("--config", "plain.yaml"), ("--v=0", "--feature-gates=", "--config=plain.yaml", *OTHERS)),
        (("--config", "profiles.yaml"), ("--v=0", "--feature-gates=", "--config=profiles.yaml")),
    ],
)
def test_up_passes_scheduler_names_and_options_to_the_scheduler(
    run: Run,
    noted: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    passed: tuple[str, ...],
) -> None:
    """Without profiles of its own also for pods that operators mark as another scheduler's (workloads.md 3.3)."""
    monkeypatch.chdir(tmp_path)
    form = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    Path("plain.yaml").write_text(form)
    Path("profiles.yaml").write_text(f"{form}profiles: [{{schedulerName: ours}}]\n")
    run("up", "--data-dir", ":memory:", *arguments)
    [options] = noted
    assert options.arguments == passed
    assert options.metrics_port == 0
    assert options.report is outcome.note


GATES = {
    "GenericWorkload": "generic_workload",
    "CompositePodGroup": "composite_pod_group",
    "PodGroupPreemptionPolicy": "pod_group_preemption_policy",
    "DRAWorkloadResourceClaims": "dra_workload_resource_claims",
    "DRADeviceTaintRules": "dra_device_taint_rules",
    "WorkloadWithJob": "workload_with_job",
}


@pytest.mark.parametrize("gate", GATES)
def test_gate_of_the_scheduler_that_is_off_is_off_in_the_api(run: Run, noted: list[Any], gate: str) -> None:
    run("up", "--data-dir", ":memory:", "--feature-gates", f"{gate}=false", "--metrics-port", "7")
    [options] = noted
    assert options.metrics_port == 7
    assert getattr(options.serve.features, GATES[gate]) is False


def test_reset_is_up_to_the_server_which_has_its_port_by_then(run: Run, noted: list[Any], tmp_path: Path) -> None:
    """interfaces.md 1.16: where the port is taken nothing is removed."""
    (tmp_path / "state.db").write_text("")
    run("up", "--data-dir", tmp_path)
    run("up", "--data-dir", tmp_path, "--reset")
    assert [options.serve.reset for options in noted] == [False, True]
    assert (tmp_path / "state.db").exists()


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, ""),
        ({"events": 3}, ""),
        ({"pods": 0, "nodes": 2}, "2 nodes"),
        (
            {
                "batch/jobs": 4,
                "nodes": 1,
                "pods": 2,
                "scheduling.k8s.io/podgroups": 3,
                "apps/deployments": 5,
                "scheduling.k8s.io/compositepodgroups": 6,
                "secrets": 7,
            },
            "1 nodes, 2 pods, 3 pod groups, 6 trees and subtrees of groups, 4 jobs, 5 deployments",
        ),
    ],
)
def test_objects_of_an_earlier_run_are_counted_by_kind(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, counts: dict[str, int], expected: str
) -> None:
    """Then how to use it; and it runs until it is interrupted or the scheduler refuses."""

    @asynccontextmanager
    async def running(_options: object) -> AsyncIterator[Any]:
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(ChildRefusedError(2))
        yield SimpleNamespace(server=serving_of(tmp_path, found=counts), scheduler_url="http://s:1", failed=failed)

    monkeypatch.setattr(LOCAL, running)
    ended = run("up", "--data-dir", tmp_path)
    went_on = [f"continuing with existing data: {expected}; --reset starts empty"] if expected else []
    assert ended.err.splitlines() == [
        *went_on,
        f"serving on https://here:1, state in {tmp_path}; Ctrl-C stops it",
        "the scheduler listens on http://s:1",
        "the page: http://s:1/ui/",
        "error: the scheduler ended with exit code 2",
    ]
    assert (ended.code, ended.out) == (2, f"export KUBECONFIG={tmp_path / 'kubeconfig'}\n")


def test_scheduler_that_does_not_become_ready_is_no_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def starting(_options: object) -> AsyncIterator[None]:
        raise TimeoutError
        yield

    monkeypatch.setattr(LOCAL, starting)
    ended = run("up", "--data-dir", ":memory:")
    assert ended == Ended(1, "", "error: the scheduler does not become ready\n")


# -- while it serves -----------------------------------------------------------------------------------------------


def serving_of(
    directory: Path, *, loaded: int = 0, found: dict[str, int] | None = None, data_dir: str | None = None
) -> Any:
    return SimpleNamespace(
        url="https://here:1",
        ca=None,
        keys=SimpleNamespace(reader_token="of-the-reader"),
        options=SimpleNamespace(data_dir=data_dir if data_dir is not None else directory),
        kubeconfig=directory / "kubeconfig",
        control_plane=SimpleNamespace(loaded=LoadReport(made=loaded), initial_counts=found or {}),
    )


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """Signals without another handler: without this one they would end the tests."""
    taken: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda found, _frame: taken.append(found))
    yield taken
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_apiserver_serves_until_it_is_interrupted_and_ends_well(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    signals: list[int],
    command: str,
    number: signal.Signals,
) -> None:
    left: list[bool] = []

    @asynccontextmanager
    async def running(_options: object) -> AsyncIterator[Any]:
        loop = asyncio.get_running_loop()
        loop.call_later(0, os.kill, os.getpid(), number)
        server = serving_of(tmp_path, loaded=2)
        try:
            local = SimpleNamespace(server=server, scheduler_url="http://s:1", failed=loop.create_future())
            yield server if command == "apiserver" else local
        finally:
            left.append(True)

    monkeypatch.setattr(SERVING, running)
    monkeypatch.setattr(LOCAL, running)
    reader = tmp_path / "reader"
    ended = run(command, "--data-dir", tmp_path, "--read-only-kubeconfig", reader)
    assert (ended.code, ended.out, left, signals) == (0, f"export KUBECONFIG={tmp_path / 'kubeconfig'}\n", [True], [])
    assert ended.err.splitlines() == [
        "loaded 2 objects",
        f"serving on https://here:1, state in {tmp_path}; Ctrl-C stops it",
        *(["the scheduler listens on http://s:1", "the page: http://s:1/ui/"] if command == "up" else []),
        "stopping",
    ]
    assert "of-the-reader" in reader.read_text()


@pytest.mark.parametrize(("data_dir", "kept"), [(":memory:", "nothing is kept"), ("/data", "state in /data")])
def test_directory_of_the_state_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data_dir: str, kept: str
) -> None:
    announce(serving_of(tmp_path, data_dir=data_dir), None, apiserver.CONSOLE)
    assert capsys.readouterr().err == f"serving on https://here:1, {kept}; Ctrl-C stops it\n"
    assert not list(tmp_path.iterdir())


NAMES = [f'Node "n{number}"' for number in range(5)]


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        (LoadReport(), []),
        (LoadReport(made=1), ["loaded 1 object"]),
        (LoadReport(made=2, added=NAMES[:1]), ['loaded 2 objects, including missing dependencies: Node "n0"']),
        (
            LoadReport(made=9, added=NAMES[:3]),
            ['loaded 9 objects, including missing dependencies: Node "n0", Node "n1", Node "n2"'],
        ),
        (
            LoadReport(made=9, added=NAMES[:4]),
            ['loaded 9 objects, including missing dependencies: Node "n0", Node "n1", Node "n2" and 1 more'],
        ),
        (LoadReport(kept=NAMES[:1]), ['kept 1 object that already existed: Node "n0"']),
        (
            LoadReport(kept=NAMES),
            ['kept 5 objects that already existed: Node "n0", Node "n1", Node "n2" and 2 more'],
        ),
        (LoadReport(orphaned=1), ["warning: the owners of 1 object are not in the input; loaded without them"]),
        (
            LoadReport(made=1, orphaned=2, warnings=["w"], left_out=["bad: no"]),
            [
                "warning: w",
                "warning: bad: no; left out",
                "warning: the owners of 2 objects are not in the input; loaded without them",
                "loaded 1 object",
            ],
        ),
        (LoadReport(warnings=["w"] * 20), ["warning: w"] * 20),
        (LoadReport(warnings=["w"] * 21), ["warning: w"] * 20 + ["warning: ... and 1 more like this"]),
        (LoadReport(left_out=["x"] * 25), ["warning: x; left out"] * 20 + ["warning: ... and 5 more like this"]),
    ],
)
def test_loading_of_manifests_is_summed_up_in_few_lines(
    loaded: LoadReport, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    report_loaded(loaded, apiserver.CONSOLE)
    assert capsys.readouterr().err.splitlines() == expected


@pytest.mark.parametrize(
    ("verbose", "expected"), [(False, ["WARNING our: loud"]), (True, ["INFO our: quiet", "WARNING our: loud"])]
)
def test_warnings_are_logged_and_on_demand_everything(
    verbose: bool, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger().handlers.clear()
    outcome.log_to_stderr(verbose)
    log = logging.getLogger("our")
    log.info("quiet")
    log.warning("loud")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == expected


# -- down ----------------------------------------------------------------------------------------------------------


def test_down_removes_all_that_up_made_and_reports_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    there = tmp_path / "reprieve" / "up"
    assert run("down") == Ended(0, "", f"nothing to remove in {there}\n")
    there.mkdir(parents=True)
    for name in ("state.db", "tokens.json"):
        (there / name).write_text("")
    assert run("down") == Ended(0, "", f"removed the state in {there}\n")
    assert not there.exists()
    other = tmp_path / "other"
    assert run("down", "--data-dir", other) == Ended(0, "", f"nothing to remove in {other}\n")


def test_down_of_what_keeps_nothing_and_of_what_runs_is_refused(run: Run, tmp_path: Path) -> None:
    ended = run("down", "--data-dir", ":memory:")
    assert ended == Ended(2, "", "error: --data-dir :memory: has no data to delete\n")
    from kube_standin.storage.log import locked

    (tmp_path / "state.db").write_text("")
    with locked(tmp_path / "state.db"):
        ended = run("down", "--data-dir", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("; stop it first\n")
    assert (tmp_path / "state.db").exists()


def test_data_that_cannot_be_removed_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(directory: Path, *, everything: bool) -> bool:
        raise PermissionError(13, "Permission denied", str(directory))

    monkeypatch.setattr("kube_standin.storage.cleanup.clear", failing)
    assert run("down", "--data-dir", tmp_path) == Ended(2, "", f"error: {tmp_path}: Permission denied\n")
