"""`KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`), read as it is (scheduling.md 6).

This module knows the form; which plugins there are and what their args mean is the business of
`reprieve.scheduling.profiles`.  Unknown fields are errors that name their path in the file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"


class ConfigurationError(ValueError):
    """A configuration that cannot be used; `path` is where in the file."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of the parts of the file."""


class PluginRef(_Part, frozen=True, kw_only=True):
    """An enabled plugin; weight only for scores, 0 means the default."""

    name: str
    weight: int = 0


class PluginName(_Part, frozen=True, kw_only=True):
    """A disabled plugin, or `*` for all."""

    name: str
    weight: int = 0


class PluginSet(_Part, frozen=True, kw_only=True):
    """What a profile changes at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginName, ...] = ()


class Plugins(_Part, frozen=True, kw_only=True):
    """The extension points of a profile."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    placement_feasible: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """(name in the file, set) for every point but multiPoint."""
        for field in msgspec.structs.fields(self):
            if field.name != "multi_point":
                yield field.encode_name, getattr(self, field.name)


class PluginConfig(_Part, frozen=True, kw_only=True):
    """Args of one plugin; their form is the plugin's."""

    name: str
    args: dict[str, Any] = {}


class ProfileConfiguration(_Part, frozen=True, kw_only=True):
    """One profile."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(_Part, frozen=True, kw_only=True):
    """Leader election of the live scheduler; durations as Go writes them (`15s`)."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Part, frozen=True, kw_only=True):
    """How the live scheduler talks to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float | None = None
    """Requests a second; None: the file does not say."""
    burst: int | None = None


class SchedulerConfiguration(_Part, frozen=True, kw_only=True):
    """The whole file. `parallelism` and `percentageOfNodesToScore` are accepted; all nodes are always scored."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[ProfileConfiguration, ...] = ()
    extenders: tuple[dict[str, Any], ...] = ()
    delay_cache_until_active: bool = False


def configuration_of(document: object) -> SchedulerConfiguration:
    """The configuration in a parsed file. Raises ConfigurationError naming the path and what is wrong."""
    if not isinstance(document, Mapping):
        raise ConfigurationError("", f"want a {KIND} object")
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND:
        raise ConfigurationError("kind", f"{kind!r}: want {KIND}")
    if version != API_VERSION:
        raise ConfigurationError("apiVersion", f"{version!r}: want {API_VERSION}")
    try:
        found = msgspec.convert(_without_nulls(document), SchedulerConfiguration)
    except msgspec.ValidationError as error:
        raise _located(str(error)) from None
    _check(found)
    return found


def _check(found: SchedulerConfiguration) -> None:
    if found.pod_initial_backoff_seconds <= 0:
        raise ConfigurationError("podInitialBackoffSeconds", "must be greater than 0")
    if found.pod_max_backoff_seconds < found.pod_initial_backoff_seconds:
        raise ConfigurationError("podMaxBackoffSeconds", "must be greater than or equal to podInitialBackoffSeconds")
    if found.parallelism <= 0:
        raise ConfigurationError("parallelism", "must be greater than 0")
    percentages = [("percentageOfNodesToScore", found.percentage_of_nodes_to_score)]
    names: set[str] = set()
    for index, profile in enumerate(found.profiles):
        path = f"profiles[{index}]"
        percentages.append((f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score))
        if not profile.scheduler_name:
            raise ConfigurationError(f"{path}.schedulerName", "must not be empty")
        if profile.scheduler_name in names:
            raise ConfigurationError(f"{path}.schedulerName", f"{profile.scheduler_name!r} is used twice")
        names.add(profile.scheduler_name)
        seen: set[str] = set()
        for number, config in enumerate(profile.plugin_config):
            if config.name in seen:
                raise ConfigurationError(f"{path}.pluginConfig[{number}].name", f"{config.name!r} is given twice")
            seen.add(config.name)
    for where, percentage in percentages:
        if percentage is not None and not 0 <= percentage <= 100:
            raise ConfigurationError(where, f"{percentage}: want 0 to 100")
    if found.extenders:
        raise ConfigurationError("extenders", "HTTP extenders are not supported yet")


def _without_nulls(value: Any) -> Any:
    """An explicit null means absent, as in Go."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _located(text: str) -> ConfigurationError:
    """msgspec's `... - at `$.profiles[0].x`` as path and message."""
    message, _, where = text.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    if message.startswith("Object contains unknown field "):
        name = message.removeprefix("Object contains unknown field ").strip("`")
        return ConfigurationError(f"{path}.{name}" if path else name, "unknown field")
    return ConfigurationError(path, message[0].lower() + message[1:])
