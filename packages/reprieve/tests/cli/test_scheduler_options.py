"""What `reprieve scheduler` is run with: options, a configuration, and which of the two counts.

Nothing is scheduled: it is noted what it would run with. How a real one runs is in packages/reprieve/tests/live.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from reprieve.cli import scheduler
from reprieve.client.errors import ConfigError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.observability.database.location import RecordsDatabase
from tests.cli.conftest import Ended, Run
from tests.waiting import DEADLINE

FORM = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(scheduler, "run", found.append)
    monkeypatch.chdir(tmp_path)
    return found


def settings(run: Run, noted: list[Any], *arguments: str) -> Any:
    assert run("scheduler", *arguments) == Ended(0, "", "")
    return noted[-1]


def test_without_options_it_is_the_one_that_leads_and_logs_decisions(run: Run, noted: list[Any]) -> None:
    found = settings(run, noted)
    assert list(found.profiles) == ["reprieve-scheduler"]
    assert (found.kubeconfig, found.context, found.seed, found.records, found.extenders) == (None,) * 5
    assert (found.verbosity, found.log_format) == (2, "text")
    assert (found.election.name, found.election.namespace) == ("reprieve-scheduler", "kube-system")
    assert (found.election.duration, found.election.renew_deadline, found.election.retry) == (15, 10, 2)
    assert (found.serving.host, found.serving.port) == ("127.0.0.1", 10259)


def test_each_option_is_passed_on(run: Run, noted: list[Any]) -> None:
    lease = ("--leader-elect-lease-duration", "9s", "--leader-elect-renew-deadline", "6s")
    named = ("--leader-elect-resource-name", "l", "--leader-elect-resource-namespace", "ns")
    of_lease = (*lease, "--leader-elect-retry-period", "1s", *named)
    served = ("--bind-address", "0.0.0.0", "--port", "7", "--tls-cert-file", "c", "--tls-private-key-file", "k")
    asked = ("--kubeconfig", "k.yaml", "--context", "c", "--seed", "3", "--records", "r.db", "--v", "4")
    names = ("--scheduler-name", "ours", "--also-known-as", "a", "--also-known-as", "b", "--log-format", "json")
    found = settings(run, noted, *of_lease, *served, *asked, *names, "--feature-gates", "GenericWorkload=false")
    assert (found.election.duration, found.election.renew_deadline, found.election.retry) == (9, 6, 1)
    assert (found.election.name, found.election.namespace) == ("l", "ns")
    assert (found.serving.host, found.serving.port) == ("0.0.0.0", 7)
    assert (found.serving.certificate, found.serving.key) == (Path("c"), Path("k"))
    assert (found.kubeconfig, found.context, found.seed) == ("k.yaml", "c", 3)
    assert found.records == RecordsDatabase(Path("r.db"))
    assert (found.verbosity, found.log_format, found.gates.generic_workload) == (4, "json", False)
    assert found.scheduler_name == "ours"
    assert settings(run, noted, "--no-leader-elect").election is None
    assert settings(run, noted, "--port", "0").serving is None


def test_configuration_counts_where_no_option_says_otherwise(run: Run, noted: list[Any]) -> None:
    Path("c.yaml").write_text(
        f"{FORM}clientConnection: {{kubeconfig: of-file, qps: 5, burst: 6}}\npodInitialBackoffSeconds: 2\n"
        "podMaxBackoffSeconds: 4\nleaderElection: {leaderElect: false}\nprofiles: [{schedulerName: theirs}]\n"
        "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n"
    )
    found = settings(run, noted, "--config", "c.yaml")
    assert (found.kubeconfig, found.qps, found.burst, found.election) == ("of-file", 5, 6, None)
    assert (found.timing.initial_backoff, found.timing.max_backoff) == (2, 4)
    assert list(found.profiles) == ["theirs"]
    assert found.extenders is not None
    assert settings(run, noted, "--config", "c.yaml", "--kubeconfig", "mine").kubeconfig == "mine"
    assert settings(run, noted, "--config", "c.yaml", "--leader-elect").election is not None
    for option in ("--scheduler-name", "--also-known-as"):
        ended = run("scheduler", "--config", "c.yaml", option, "x")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"error: {option}: ")
    Path("plain.yaml").write_text(FORM)
    assert list(settings(run, noted, "--config", "plain.yaml", "--scheduler-name", "x").profiles) == ["x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--leader-elect-retry-period", "soon"), "error: leaderElection.retryPeriod: "),
        (("--config", "bad.yaml"), "error: bad.yaml: profiles: "),
        (("--feature-gates", "Nope=true"), "error: --feature-gates: unknown feature gate"),
    ],
)
def test_options_that_cannot_be_used_are_one_line(
    run: Run, noted: list[Any], arguments: tuple[str, ...], message: str
) -> None:
    Path("bad.yaml").write_text(f"{FORM}profiles: 3\n")
    ended = run("scheduler", *arguments)
    assert (ended.code, ended.out, noted) == (2, "", [])
    assert ended.err.startswith(message)
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("no cluster"), 2), (LeadershipLostError("the lease is lost"), 1), (UnreachableError("nobody"), 3)],
)
def test_each_end_has_its_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int) -> None:
    """interfaces.md: a scheduler that lost the lease has to be restarted."""

    async def ending(_settings: object, _stop: object) -> None:
        raise error

    monkeypatch.setattr("reprieve.live.app.run", ending)
    assert run("scheduler") == Ended(code, "", f"error: {error}\n")


@pytest.mark.parametrize(
    ("option", "least", "most"), [("--port", 0, 65_535), ("--secure-port", 0, 65_535), ("--v", 0, 10)]
)
def test_numbers_have_bounds(run: Run, noted: list[Any], option: str, least: int, most: int) -> None:
    for number in (least - 1, most + 1):
        ended = run("scheduler", option, number)
        assert (ended.code, ended.out, noted) == (2, "", [])
        assert f"{number} is not in the range {least}<=x<={most}" in ended.err
    for number in (least, most):
        assert run("scheduler", option, number) == Ended(0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_scheduler_runs_until_it_is_interrupted_and_ends_well(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A signal without a handler would end the tests: it is handled here, and must not arrive here."""
    taken: list[int] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    async def scheduling(_settings: object, stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), DEADLINE)

    monkeypatch.setattr("reprieve.live.app.run", scheduling)
    for each in before:
        signal.signal(each, lambda found, _frame: taken.append(found))
    try:
        assert run("scheduler") == Ended(0, "", "stopped\n")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert taken == []
