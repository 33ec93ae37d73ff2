"""`KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`) as types (scheduling.md 6).

`configuration_reader` reads it from a parsed file, `configuration_rules` validates its values, and
`reprieve.scheduling` interprets plugins and their args. Unknown fields are errors that name their path in the file.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from kube_rules.durations import duration as duration
from kube_rules.group_sources import GroupSources
from kube_rules.meta import Int32
from kube_rules.unknown_fields import did_you_mean, misnamed_in, path_text

T = TypeVar("T")

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
DEFAULT_EXTENDER_TIMEOUT = "5s"


class ConfigurationError(ValueError):
    """A configuration that cannot be used; `path` is the location in the file."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def converted(value: Any, kind: type[T]) -> T:
    """Return plain data as a type. Raises ConfigurationError with the path in the data and the nearest known name."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        path, message = split_error(error)
        misnamed = (item for item in misnamed_in(kind, value) if path_text(item.path) == path)
        meant = next((item.nearest for item in misnamed), "")
        raise ConfigurationError(path, message + did_you_mean(meant)) from None


def split_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the path and the message of msgspec's ``... - at `$.profiles[0].x` ``."""
    message, _, where = str(error).partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    start = "Object contains unknown field "
    if message.startswith(start):
        name = message.removeprefix(start).strip("`")
        return f"{path}.{name}" if path else name, "unknown field"
    return path, message[0].lower() + message[1:]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of the parts of the file."""


class PluginRef(_Part, frozen=True, kw_only=True):
    """An enabled plugin; `weight` is for Score and PlacementScore only, 0 or none means 1."""

    name: str
    weight: Int32 = 0


class PluginName(_Part, frozen=True, kw_only=True):
    """A disabled plugin, or `*` for all."""

    name: str
    weight: Int32 = 0


class PluginSet(_Part, frozen=True, kw_only=True):
    """The changes of a profile at one extension point."""

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
    """The args of one plugin; the plugin defines their type."""

    name: str
    args: dict[str, Any] = {}


class ProfileConfiguration(_Part, frozen=True, kw_only=True):
    """One profile."""

    scheduler_name: str | None = None
    """Unique among the profiles; optional where there is one profile."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Accepted without effect: all nodes are scored."""
    also_known_as: tuple[str, ...] = ()
    """Ours: further scheduler names that select this profile, such as `volcano` (workloads.md 3)."""
    percentage_of_placements_to_score: Int32 | None = None
    """Accepted without effect: all placements are scored."""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(_Part, frozen=True, kw_only=True):
    """Leader election of the live scheduler; durations as Go writes them (`15s`)."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    """Must be `leases`."""
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Part, frozen=True, kw_only=True):
    """The connection of the live scheduler to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    """Accepted without effect."""
    content_type: str = ""
    """Accepted without effect."""
    qps: float | None = None
    """The highest number of requests per second; no limit by default."""
    burst: Int32 | None = None
    """How many requests may exceed `qps` at once."""


class ExtenderTls(_Part, frozen=True, kw_only=True):
    """TLS settings of an extender; the data fields are base64, as in kubeconfig, and take precedence over the files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ManagedResource(_Part, frozen=True, kw_only=True):
    """An extended resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False
    """NodeResourcesFit ignores the resource."""


class Extender(_Part, frozen=True, kw_only=True):
    """An HTTP extender; an empty verb is not served."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    """The weight of the scores of `prioritizeVerb`, at most 2³¹-1."""
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTls | None = None
    http_timeout: str = DEFAULT_EXTENDER_TIMEOUT
    node_cache_capable: bool = False
    """The extender caches nodes: it receives only their names."""
    managed_resources: tuple[ManagedResource, ...] = ()
    """The extender is called for pods that request one of these resources; an empty list means all pods."""
    ignorable: bool = False
    """A failure of the extender does not fail the attempt."""

    @property
    def seconds(self) -> float:
        """Return the timeout of a call in seconds; 0 in the file means the default, 5 s."""
        return duration(self.http_timeout) or duration(DEFAULT_EXTENDER_TIMEOUT)


class SchedulerConfiguration(_Part, frozen=True, kw_only=True):
    """The whole file.

    `parallelism`, `percentageOfNodesToScore` and `percentageOfPlacementsToScore` are accepted without effect: all nodes
    and placements are scored.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    """Accepted without effect."""
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    """Accepted without effect."""
    enable_contention_profiling: bool = True
    """Accepted without effect."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Accepted without effect: all nodes are scored."""
    percentage_of_placements_to_score: Int32 | None = None
    """Accepted without effect: all placements are scored."""
    pod_initial_backoff_seconds: Int64 = 1
    """Seconds of backoff after the first failed attempt; doubled after each further one."""
    pod_max_backoff_seconds: Int64 = 10
    """The longest backoff in seconds."""
    profiles: tuple[ProfileConfiguration, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
    """Accepted without effect."""
    group_sources: dict[str, bool] | tuple[str, ...] = {}
    """Ours: how pods name their group (workloads.md 1.2).
    A map such as `{kueue: false}` switches sources, a list names all enabled ones.
    """

    @property
    def sources(self) -> GroupSources:
        """Return the enabled sources of groups. Raises ConfigurationError."""
        chosen = self.group_sources
        try:
            return GroupSources.switched(chosen) if isinstance(chosen, Mapping) else GroupSources(chosen)
        except ValueError as error:
            raise ConfigurationError("groupSources", str(error)) from None
