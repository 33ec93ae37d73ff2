"""Flags and configuration files of the live scheduler, and how the command ends when they are wrong."""

from __future__ import annotations

import io
import os
import socket
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from reprieve.cli.commands import call
from reprieve.cli.outcome import Exit
from reprieve.client.errors import ConfigError
from reprieve.framework.configuration import ConfigurationError, LeaderElection
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.live.settings import (
    Settings,
    election_of,
    environment_of,
    named,
    pace_of,
    serving_of,
    timing_of,
)
from reprieve.scheduling.profiles import default_profile

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_election_defaults_are_kube_schedulers_but_for_the_name() -> None:
    found = election_of(None)
    assert found is not None
    assert (found.namespace, found.name) == ("kube-system", "reprieve-scheduler")
    assert (found.duration, found.renew_deadline, found.retry) == (15.0, 10.0, 2.0)


def test_flags_win_over_the_file() -> None:
    """As kube-scheduler has it."""
    file = LeaderElection(leader_elect=False, resource_name="theirs", lease_duration="30s")
    assert election_of(file) is None
    found = election_of(file, elect=True, lease_duration="20s", resource_namespace="here")
    assert found is not None
    assert (found.namespace, found.name, found.duration) == ("here", "theirs", 20.0)
    assert election_of(LeaderElection(), elect=False) is None


def test_names_from_flags_are_for_a_file_without_profiles() -> None:
    """interfaces.md `reprieve scheduler`: profiles of a file keep the names they have there."""
    only = {"schedulerName": "theirs"}
    for document in (None, HEAD, {**HEAD, "profiles": [only]}):
        file = configuration_of(document) if document is not None else None
        found = named(file, "ours", ["volcano", "ours", "volcano"]).profiles
        names = [(one.scheduler_name, one.also_known_as) for one in found]
        assert names == ([("ours", ("volcano",))] if document in (None, HEAD) else [("theirs", ())])


@pytest.mark.parametrize(
    ("file", "where"),
    [
        (LeaderElection(retry_period="often"), "leaderElection.retryPeriod"),
        (LeaderElection(lease_duration="5s"), "leaderElection"),
    ],
)
def test_election_that_cannot_work_names_its_field(file: LeaderElection, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        election_of(file)
    assert caught.value.path == where


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (None, (0.0, 100)),
        ({}, (0.0, 100)),
        ({"burst": 7}, (0.0, 100)),
        ({"qps": 20}, (20.0, 100)),
        ({"qps": 5000, "burst": 5000}, (5000.0, 5000)),
        ({"qps": -1}, (0.0, 100)),
    ],
)
def test_no_limit_unless_the_file_sets_one(connection: object, expected: tuple[float, int]) -> None:
    """clientConnection.qps: 0 stands for no limit; a negative one is Go's way to say so."""
    document = HEAD if connection is None else {**HEAD, "clientConnection": connection}
    assert pace_of(configuration_of(document)) == expected
    assert pace_of(None) == (0.0, 100)


def test_burst_is_at_least_one_request() -> None:
    document = {**HEAD, "clientConnection": {"qps": 1, "burst": 0}}
    assert pace_of(configuration_of(document)) == (1.0, 1)


def test_options_not_given_are_those_of_kube_scheduler() -> None:
    """No limit of requests, backoffs from 1 to 10 seconds, what waits is tried again after five minutes."""
    found = Settings({"first": default_profile(FeatureGates(), "first"), "second": default_profile(FeatureGates())})
    assert found.scheduler_name == "first", "events are written under the name of the first profile"
    assert (found.qps, found.burst, found.verbosity, found.log_format) == (0.0, 100, 2, "text")
    assert (found.election, found.serving, found.records, found.kubeconfig) == (None, None, None, None)
    assert timing_of(None) == found.timing
    assert (found.timing.initial_backoff, found.timing.max_backoff, found.timing.flush_after) == (1.0, 10.0, 300.0)
    assert found.feed.rediscover == 5.0
    assert (found.pace.tick, found.pace.bindings) == (1.0, 1000)


def test_connections_are_read_from_the_environment_of_the_process_where_none_is_given() -> None:
    profiles = {"a": default_profile(FeatureGates(), "a")}
    assert environment_of(Settings(profiles)) is os.environ
    assert environment_of(Settings(profiles, environment={})) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("kube-system", "reprieve-scheduler", 15.0, 10.0, 2.0)),
        (
            {
                "resource_namespace": "ns",
                "resource_name": "n",
                "lease_duration": "30s",
                "renew_deadline": "20s",
                "retry_period": "5s",
            },
            ("ns", "n", 30.0, 20.0, 5.0),
        ),
    ],
    ids=["of-the-file", "flags"],
)
def test_every_flag_of_the_election(given: dict[str, str], expected: tuple[object, ...]) -> None:
    found = election_of(LeaderElection(resource_name="reprieve-scheduler"), **given)  # type: ignore[arg-type]
    assert found is not None
    assert (found.namespace, found.name, found.duration, found.renew_deadline, found.retry) == expected
    other = election_of(None)
    assert other is not None
    assert other.identity != found.identity, "two on one machine are two"
    assert other.identity.startswith(f"{socket.gethostname()}_")


def test_names_besides_the_schedulers_own_are_each_there_once() -> None:
    [only] = named(None, "ours", ["b", "a", "ours", "b"]).profiles
    assert only.also_known_as == ("b", "a")


def test_server_has_a_certificate_for_this_machine() -> None:
    found = serving_of("10.0.0.1", 10259, certificate="c.pem", key="k.pem")
    assert found is not None
    assert (found.host, found.port, found.certificate, found.key) == ("10.0.0.1", 10259, Path("c.pem"), Path("k.pem"))
    assert found.names == ("localhost", socket.gethostname())
    plain = serving_of("127.0.0.1", 1)
    assert plain is not None
    assert (plain.port, plain.certificate, plain.key) == (1, None, None)


def test_backoffs_come_from_the_file() -> None:
    found = timing_of(configuration_of({**HEAD, "podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 60}))
    assert (found.initial_backoff, found.max_backoff, found.flush_after) == (2.0, 60.0, 300.0)


def test_port_zero_serves_nothing() -> None:
    assert serving_of("127.0.0.1", 0) is None
    with pytest.raises(ConfigError):
        serving_of("127.0.0.1", 10259, certificate="only.pem")


# -- the command ---------------------------------------------------------------------------------------------


def ended(*arguments: str) -> tuple[int, str]:
    """Return the exit code and the message of a command that is refused."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = call(["scheduler", *arguments], "reprieve")
    assert out.getvalue() == "", "nothing on stdout when it is refused"
    return code, err.getvalue().removeprefix("error: ")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """Of a server that is not there."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], "
        "users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )
    return str(file)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--feature-gates", "Nonsense=true"], "unknown feature gate 'Nonsense'"),
        (["--kubeconfig", "nowhere"], "nowhere: No such file"),
        (["--leader-elect-retry-period", "soon"], "leaderElection.retryPeriod: 'soon'"),
        (["--leader-elect-lease-duration", "1s"], "leaderElection: leader election needs"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: No such file"),
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str], says: str) -> None:
    """interfaces.md: 2 bad usage or bad input, message on stderr."""
    code, error = ended(*arguments)
    assert code == Exit.BAD_INPUT
    assert says in error


def test_configuration_that_is_wrong_names_file_and_field(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"apiVersion: {HEAD['apiVersion']}\nkind: {HEAD['kind']}\nleaderElection: {{retryPeriod: soon}}\n")
    code, error = ended("--config", str(file))
    assert code == Exit.BAD_INPUT
    assert error.startswith(f"{file}: leaderElection.retryPeriod: 'soon'")
    file.write_text(f"apiVersion: {HEAD['apiVersion']}\nkind: {HEAD['kind']}\nprofiles: [{{schedulerName: a}}]\n")
    assert ended("--config", str(file), "--scheduler-name", "b")[0] == Exit.BAD_INPUT


def test_server_that_is_not_there_ends_with_3(kubeconfig: str) -> None:
    """interfaces.md: 3 the API server cannot be reached or refused."""
    code, error = ended("--kubeconfig", kubeconfig, "--no-leader-elect", "--port", "0")
    assert code == Exit.UNREACHABLE
    assert "127.0.0.1:9" in error
