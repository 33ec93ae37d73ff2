"""The settings of the live scheduler, from flags and a `KubeSchedulerConfiguration`.

Rules: a flag takes precedence over the file, as in kube-scheduler. Leader election is on by default, as there. The
client's rate limit is that of the file (`clientConnection.qps`, `burst`); without an explicit value there is no limit:
kube-scheduler's defaults, 50 and 100, would limit the binding rate to 50 pods a second, and API servers protect
themselves (priority and fairness).
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from kube_rules.durations import duration
from kube_rules.group_sources import DEFAULT_SOURCES, GroupSources
from reprieve.client.leader_election import LeaseOptions
from reprieve.framework.configuration import (
    ConfigurationError,
    LeaderElection,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.live.event_handlers import ClusterFeedOptions
from reprieve.live.extenders import ExtenderCalls
from reprieve.live.http_endpoint import ServingOptions
from reprieve.live.loop import Pace
from reprieve.observability.database.location import RecordsDatabase
from reprieve.queueing.timers import Timing

SCHEDULER_NAME: Final = "reprieve-scheduler"
LEASE_NAME: Final = "reprieve-scheduler"
_UNLIMITED: Final = 0.0


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """How to shadow another scheduler. `report`: the file of the report; None: only in memory."""

    hold: float = 60.0
    """Seconds for which a decision is assumed without one of the acting scheduler, and until a difference counts."""
    report: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `reprieve.live.app.run`; times in seconds."""

    profiles: Mapping[str, Profile]
    gates: FeatureGates = field(default_factory=FeatureGates)
    timing: Timing = field(default_factory=Timing)
    seed: int | None = None
    sources: GroupSources = DEFAULT_SOURCES
    """The labels and annotations that define groups of pods."""
    extenders: ExtenderCalls | None = None
    """The calls of HTTP extenders, if any."""
    kubeconfig: str | None = None
    context: str | None = None
    qps: float = _UNLIMITED
    """Requests a second; 0: no limit."""
    burst: int = 100
    election: LeaseOptions | None = None
    """None: there is only this scheduler, and it acts at once."""
    serving: ServingOptions | None = None
    plan_arguments: tuple[str, ...] = ()
    """Options of `reprieve plan` that select this cluster and configuration, for the questions of the page."""
    records: RecordsDatabase | None = None
    """The file or database of decision records; None: in memory."""
    shadow: ShadowSettings | None = None
    """Watch another scheduler and write nothing; None: schedule."""
    verbosity: int = 2
    log_format: str = "text"
    feed: ClusterFeedOptions = field(default_factory=ClusterFeedOptions)
    pace: Pace = field(default_factory=Pace)
    environment: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def scheduler_name(self) -> str:
        """Return the name of the first profile, under which events are written."""
        return next(iter(self.profiles))


def named(
    configuration: SchedulerConfiguration | None, scheduler_name: str, also_known_as: Sequence[str] = ()
) -> SchedulerConfiguration:
    """Return the configuration with a profile of that name, and of further names, if it has no profiles."""
    result = configuration or SchedulerConfiguration()
    if result.profiles:
        return result
    further = tuple(dict.fromkeys(name for name in also_known_as if name != scheduler_name))
    only = ProfileConfiguration(scheduler_name=scheduler_name, also_known_as=further)
    return msgspec.structs.replace(result, profiles=(only,))


def election_of(
    configured: LeaderElection | None,
    *,
    elect: bool | None = None,
    lease_duration: str | None = None,
    renew_deadline: str | None = None,
    retry_period: str | None = None,
    resource_name: str | None = None,
    resource_namespace: str | None = None,
) -> LeaseOptions | None:
    """Return the options of leader election, None for none; arguments override the file. Raises ConfigurationError."""
    file = configured or LeaderElection(resource_name=LEASE_NAME)
    if not (file.leader_elect if elect is None else elect):
        return None
    times = {}
    for name, flag, value in (
        ("leaseDuration", lease_duration, file.lease_duration),
        ("renewDeadline", renew_deadline, file.renew_deadline),
        ("retryPeriod", retry_period, file.retry_period),
    ):
        try:
            times[name] = duration(flag if flag is not None else value)
        except ValueError as error:
            raise ConfigurationError(f"leaderElection.{name}", str(error)) from None
    try:
        return LeaseOptions(
            namespace=resource_namespace or file.resource_namespace,
            name=resource_name or file.resource_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            duration=times["leaseDuration"],
            renew_deadline=times["renewDeadline"],
            retry=times["retryPeriod"],
        )
    except ValueError as error:
        raise ConfigurationError("leaderElection", str(error)) from None


def timing_of(configuration: SchedulerConfiguration | None) -> Timing:
    """Return the configured backoffs."""
    if configuration is None:
        return Timing()
    return Timing(float(configuration.pod_initial_backoff_seconds), float(configuration.pod_max_backoff_seconds))


def pace_of(configuration: SchedulerConfiguration | None) -> tuple[float, int]:
    """Return the configured requests a second (0: no limit) and burst (see the module)."""
    connection = configuration.client_connection if configuration is not None else None
    if connection is None or connection.qps is None:
        return _UNLIMITED, 100
    burst = connection.burst if connection.burst is not None else 100
    return max(float(connection.qps), 0.0), max(burst, 1)


def serving_of(
    address: str,
    port: int,
    *,
    certificate: str | None = None,
    key: str | None = None,
    token: str | None = None,
) -> ServingOptions | None:
    """Return where to serve metrics and health; None for port 0. Raises ConfigError."""
    if port == 0:
        return None
    return ServingOptions(
        host=address,
        port=port,
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        token=token,
        names=("localhost", socket.gethostname()),
    )


def environment_of(settings: Settings) -> Mapping[str, str]:
    """Return the environment of the connection settings."""
    return os.environ if settings.environment is None else settings.environment
