"""Validation of a `KubeSchedulerConfiguration` beyond its types: upstream's checks, each with its path in the file.

Source: kubernetes/kubernetes pkg/scheduler/apis/config/validation and k8s.io/component-base/config/validation.
"""

from typing import Final

from kube_rules.labels import qualified_name_errors
from reprieve.framework.configuration import (
    ConfigurationError,
    Extender,
    LeaderElection,
    PluginSet,
    ProfileConfiguration,
    SchedulerConfiguration,
    duration,
)

REMOVED: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins of earlier versions of the configuration that v1 no longer has."""


def check(configuration: SchedulerConfiguration) -> None:
    """Raise ConfigurationError for the first invalid value."""
    burst = configuration.client_connection.burst
    if burst is not None and burst < 0:
        raise ConfigurationError("clientConnection.burst", f"{burst}: must be non-negative")
    if configuration.leader_election.leader_elect:
        _check_election(configuration.leader_election)
    if configuration.parallelism <= 0:
        raise ConfigurationError("parallelism", "should be an integer value greater than zero")
    if configuration.pod_initial_backoff_seconds <= 0:
        raise ConfigurationError("podInitialBackoffSeconds", "must be greater than 0")
    if configuration.pod_max_backoff_seconds < configuration.pod_initial_backoff_seconds:
        raise ConfigurationError("podMaxBackoffSeconds", "must be greater than or equal to podInitialBackoffSeconds")
    _check_percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score)
    _check_percentage("percentageOfPlacementsToScore", configuration.percentage_of_placements_to_score)
    names: dict[str, int] = {}
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}]"
        name = profile.scheduler_name
        if not name:
            raise ConfigurationError(f"{path}.schedulerName", "is required where there are several profiles")
        if name in names:
            first_use = f"profiles[{names[name]}]"
            raise ConfigurationError(f"{path}.schedulerName", f"{name!r} is used twice: it is that of {first_use}, too")
        names[name] = index
        for number, alias in enumerate(profile.also_known_as):
            at = f"{path}.alsoKnownAs[{number}]"
            if not alias:
                raise ConfigurationError(at, "must not be empty")
            owner = names.setdefault(alias, index)
            if owner != index or alias == name:
                raise ConfigurationError(at, f"{alias!r} is used twice: it is that of profiles[{owner}], too")
        _check_profile(profile, path)
    _check_extenders(configuration.extenders)
    _ = configuration.sources


def _check_percentage(path: str, value: int | None) -> None:
    if value is not None and not 0 <= value <= 100:
        raise ConfigurationError(path, f"{value}: not in valid range [0-100]")


def _check_election(election: LeaderElection) -> None:
    times = {}
    for name, text in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        path = f"leaderElection.{name}"
        times[name] = checked_duration(path, text)
        if times[name] <= 0:
            raise ConfigurationError(path, "must be greater than zero")
    if times["leaseDuration"] <= times["renewDeadline"]:
        raise ConfigurationError("leaderElection.leaseDuration", "must be greater than renewDeadline")
    if election.resource_lock != "leases":
        raise ConfigurationError("leaderElection.resourceLock", f'{election.resource_lock!r}: must be "leases"')


def checked_duration(path: str, text: str) -> float:
    """Return the seconds of a duration. Raises ConfigurationError."""
    try:
        return duration(text)
    except ValueError as error:
        raise ConfigurationError(path, str(error)) from None


def _check_profile(profile: ProfileConfiguration, path: str) -> None:
    _check_percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    _check_percentage(f"{path}.percentageOfPlacementsToScore", profile.percentage_of_placements_to_score)
    sets = [*profile.plugins.points(), ("multiPoint", profile.plugins.multi_point)]
    for point, chosen in sets:
        _check_set(chosen, f"{path}.plugins.{point}")
    names: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}].name"
        if config.name in REMOVED:
            raise ConfigurationError(where, f"{config.name!r} was removed from this version of the configuration")
        if config.name in names:
            raise ConfigurationError(where, f"{config.name!r} is given twice")
        names.add(config.name)


def _check_set(chosen: PluginSet, path: str) -> None:
    for index, ref in enumerate(chosen.enabled):
        where = f"{path}.enabled[{index}]"
        if ref.name in REMOVED:
            raise ConfigurationError(
                f"{where}.name", f"{ref.name!r} was removed from this version of the configuration"
            )
        if ref.weight < 0:
            raise ConfigurationError(f"{where}.weight", f"{ref.weight}: must not be negative")


def _check_extenders(extenders: tuple[Extender, ...]) -> None:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if not extender.url_prefix:
            raise ConfigurationError(f"{path}.urlPrefix", "must not be empty")
        if extender.prioritize_verb and extender.weight <= 0:
            raise ConfigurationError(f"{path}.weight", "must have a positive weight applied to it")
        if extender.weight > 2**31 - 1:
            raise ConfigurationError(f"{path}.weight", f"{extender.weight}: not more than {2**31 - 1}")
        if checked_duration(f"{path}.httpTimeout", extender.http_timeout) < 0:
            raise ConfigurationError(f"{path}.httpTimeout", "must not be negative")
        for number, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{number}].name"
            _check_extended_resource(where, resource.name)
            if resource.name in managed:
                raise ConfigurationError(where, f"{resource.name!r}: duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        raise ConfigurationError("extenders", f"found {binders} extenders implementing bind: only one can")


def _check_extended_resource(path: str, name: str) -> None:
    for problem in qualified_name_errors(name):
        raise ConfigurationError(path, f"{name!r}: {problem}")
    domain, slash, _ = name.rpartition("/")
    if not slash or domain.endswith("kubernetes.io") or domain.startswith("requests."):
        raise ConfigurationError(path, f"{name!r}: is an invalid extended resource name")
