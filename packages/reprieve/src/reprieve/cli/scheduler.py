"""`reprieve scheduler`: the scheduler alone, against any API server."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reprieve.cli.options import (
    DEFAULT_PLUGIN_TIMEOUT,
    CompatibleOption,
    ConfigOption,
    GatesOption,
    PluginOption,
    PluginTimeoutOption,
    read_gates,
    read_profiles,
)
from reprieve.cli.outcome import CommandError, Exit, log_to_stderr, note, refuse
from reprieve.cli.source import ContextOption

if TYPE_CHECKING:
    from reprieve.live.settings import Settings, ShadowSettings
    from reprieve.observability.database.location import RecordsDatabase

_SHORTEST_TOKEN: Final = 16
_SHORTEST_HOLD: Final = 1.0
_LONGEST_HOLD: Final = 86_400.0


class LogFormat(StrEnum):
    """Log format."""

    TEXT = "text"
    JSON = "json"


def command(
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Kubeconfig of the cluster. Default: as kubectl finds it, or the service account."
        ),
    ] = None,
    context: ContextOption = None,
    config: ConfigOption = None,
    feature_gates: GatesOption = "",
    scheduler_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Schedule pods with this schedulerName. Default: from --config, else reprieve-scheduler.",
        ),
    ] = None,
    also_known_as: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also schedule pods with this schedulerName, e.g. volcano. Repeatable."),
    ] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            help="Use leader election: act only while holding the lease. Default: yes.",
        ),
    ] = None,
    leader_elect_lease_duration: Annotated[
        str | None, typer.Option(metavar="15s", help="Duration of the lease.")
    ] = None,
    leader_elect_renew_deadline: Annotated[
        str | None, typer.Option(metavar="10s", help="Stop leading if the lease cannot be renewed for this long.")
    ] = None,
    leader_elect_retry_period: Annotated[
        str | None, typer.Option(metavar="2s", help="Time between attempts to acquire or renew the lease.")
    ] = None,
    leader_elect_resource_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the lease. Default: reprieve-scheduler.")
    ] = None,
    leader_elect_resource_namespace: Annotated[
        str | None, typer.Option(metavar="NAMESPACE", help="Namespace of the lease. Default: kube-system.")
    ] = None,
    bind_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address for metrics and health checks.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--secure-port",
            "--port",
            metavar="NUMBER",
            min=0,
            max=65535,
            help="Port for metrics and health checks; 0 disables them.",
        ),
    ] = 10259,
    tls_cert_file: Annotated[str | None, typer.Option(metavar="FILE", help="TLS certificate of the endpoint.")] = None,
    tls_private_key_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Private key of the TLS certificate.")
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            help="Store decision records in this SQLite file, or in a database: postgresql://HOST/DATABASE. "
            "Default: in memory.",
        ),
    ] = None,
    records_spool: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for records while their database is unreachable. Default: FILE.spool, or reprieve-records "
            "in the temporary directory.",
        ),
    ] = None,
    records_spool_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Maximum size of --records-spool; beyond that the oldest are lost.")
    ] = "32Mi",
    records_cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Name of this cluster in a database that several clusters use.")
    ] = "",
    records_keep: Annotated[str, typer.Option(metavar="DAYS", help="Keep evictions this long, e.g. 90d.")] = "90d",
    records_keep_attempts: Annotated[
        str, typer.Option(metavar="DAYS", help="Keep attempts that evict no pods this long.")
    ] = "14d",
    records_max_bytes: Annotated[str, typer.Option(metavar="SIZE", help="Maximum size of the records.")] = "8Gi",
    endpoint_token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File with a bearer token that may read metrics, records and the shadow report beyond loopback.",
        ),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Compare with the scheduler of the cluster: make all decisions, but write nothing. "
            "--scheduler-name is then the name of the other scheduler. Default: default-scheduler.",
        ),
    ] = False,
    shadow_hold: Annotated[
        str,
        typer.Option(
            metavar="60s",
            help="With --shadow: how long to wait for the other scheduler to make the same decision before it "
            "counts as a difference.",
        ),
    ] = "60s",
    shadow_report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --shadow: keep the report in this file, for reprieve shadow report --from FILE."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Break ties between nodes at random with this seed instead of by name."),
    ] = None,
    verbosity: Annotated[
        int,
        typer.Option(
            "-v", "--v", metavar="LEVEL", min=0, max=10, help="Log verbosity: 0 problems, 2 every decision, 4 details."
        ),
    ] = 2,
    log_format: Annotated[LogFormat, typer.Option(help="Log format.")] = LogFormat.TEXT,
    compatible: CompatibleOption = False,
    plugin: PluginOption = None,
    plugin_timeout: PluginTimeoutOption = DEFAULT_PLUGIN_TIMEOUT,
) -> None:  # long: one parameter for each option, as typer wants them
    """Run the scheduler for a cluster.

    Ctrl-C or SIGTERM stops it: it completes running writes and releases the lease. When it loses the lease, it exits
    with code 1; restart it then.
    """
    from kube_rules.objects import DEFAULT_SCHEDULER
    from reprieve.client.errors import ConfigError
    from reprieve.framework.configuration import ConfigurationError
    from reprieve.live.settings import (
        SCHEDULER_NAME,
        Settings,
        election_of,
        named,
        pace_of,
        serving_of,
        timing_of,
    )
    from reprieve.python.configuration import read_configuration

    gates = read_gates(feature_gates)
    try:
        chosen = read_configuration(config) if config is not None else None
        if chosen is not None and chosen.profiles and scheduler_name is not None:
            refuse(f"--scheduler-name: the profiles of {config} already have names")
        if chosen is not None and chosen.profiles and also_known_as:
            refuse(f"--also-known-as: set alsoKnownAs of a profile of {config}")
        shadowing = read_shadow(shadow, shadow_hold, shadow_report, elect=leader_elect)
        default = DEFAULT_SCHEDULER if shadow else SCHEDULER_NAME
        wanted = named(chosen, scheduler_name or default, also_known_as or ())
        profiles, extenders = read_profiles(wanted, gates, config, plugin or (), plugin_timeout, compatible=compatible)
        election = election_of(
            chosen.leader_election if chosen is not None else None,
            elect=False if shadow else leader_elect,
            lease_duration=leader_elect_lease_duration,
            renew_deadline=leader_elect_renew_deadline,
            retry_period=leader_elect_retry_period,
            resource_name=leader_elect_resource_name,
            resource_namespace=leader_elect_resource_namespace,
        )
        token = read_token(endpoint_token_file)
        serving = serving_of(bind_address, port, certificate=tls_cert_file, key=tls_private_key_file, token=token)
    except ConfigurationError as error:
        refuse(f"{config}: {error}" if config is not None else str(error))
    except ConfigError as error:
        refuse(str(error))
    qps, burst = pace_of(chosen)
    configured = chosen.client_connection.kubeconfig if chosen is not None else ""
    values = {
        "--kubeconfig": kubeconfig or configured,
        "--context": context,
        "--config": config,
        "--feature-gates": feature_gates,
    }
    settings = Settings(
        profiles={profile.name: profile for profile in profiles},
        gates=gates,
        timing=timing_of(chosen),
        seed=seed,
        sources=wanted.sources,
        extenders=extenders,
        kubeconfig=kubeconfig if kubeconfig is not None else configured or None,
        context=context,
        qps=qps,
        burst=burst,
        election=election,
        serving=serving,
        plan_arguments=(
            *(f"{name}={value}" for name, value in values.items() if value),
            *(f"--plugin={item}" for item in plugin or ()),
            *(["--compatible"] if compatible else []),
        ),
        records=read_records(
            records,
            spool=(records_spool, records_spool_bytes),
            cluster=records_cluster,
            keep=(records_keep, records_keep_attempts),
            most=records_max_bytes,
        ),
        shadow=shadowing,
        verbosity=verbosity,
        log_format=log_format.value,
    )
    run(settings)


def read_records(
    place: str | None, *, spool: tuple[Path | None, str], cluster: str, keep: tuple[str, str], most: str
) -> "RecordsDatabase | None":
    """Return where records are stored; None: in memory. Bad usage ends with exit code 2."""
    import re

    from reprieve.cli.options import read_size
    from reprieve.observability.database.location import DAY, RecordsDatabase, RecordsRetention, address_of

    if place is None:
        return None
    seconds = []
    for option, text in zip(("--records-keep", "--records-keep-attempts"), keep, strict=True):
        match = re.fullmatch(r"([1-9][0-9]{0,4})d", text)
        if match is None:
            refuse(f"{option} {text}: expected a number of days such as 90d")
        seconds.append(int(match[1]) * DAY)
    if seconds[0] < seconds[1]:
        refuse("--records-keep: must be at least --records-keep-attempts")
    retention = RecordsRetention(seconds[0], seconds[1], read_size("--records-max-bytes", most))
    waiting = read_size("--records-spool-bytes", spool[1])
    return RecordsDatabase(address_of(place), cluster=cluster, spool=spool[0], spool_bytes=waiting, retention=retention)


def read_token(path: str | None, option: str = "--endpoint-token-file") -> str | None:
    """Return the bearer token in the file of an option. A file without one ends the command with exit code 2."""
    if path is None:
        return None
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        refuse(f"{option} {path}: {getattr(error, 'strerror', None) or 'is not text'}")
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        refuse(f"{option} {path}: expected one token of at least {_SHORTEST_TOKEN} printing characters")
    return token


def read_shadow(wanted: bool, hold: str, report: Path | None, *, elect: bool | None) -> "ShadowSettings | None":
    """Return the settings of a shadow; None without --shadow. Bad usage ends the command with exit code 2."""
    from kube_rules.durations import duration
    from reprieve.live.settings import ShadowSettings

    if not wanted:
        if report is not None:
            refuse("--shadow-report requires --shadow")
        return None
    if elect:
        refuse("--leader-elect cannot be combined with --shadow: a shadow writes nothing, not even a lease")
    try:
        hold_seconds = duration(hold)
    except ValueError as error:
        refuse(f"--shadow-hold {error}")
    if not _SHORTEST_HOLD <= hold_seconds <= _LONGEST_HOLD:
        refuse(f"--shadow-hold {hold}: expected a duration from 1s to 24h")
    return ShadowSettings(hold=hold_seconds, report=report)


def run(settings: "Settings") -> None:
    """Schedule until SIGINT or SIGTERM. Anything else that ends it is one error with its exit code (interfaces.md)."""
    from reprieve.client.errors import ClientError, ConfigError
    from reprieve.client.leader_election import LeadershipLostError

    log_to_stderr(False)  # what libraries log
    try:  # a loop that is twice as fast, where there is one
        from uvloop import run as run_loop
    except ImportError:
        from asyncio import run as run_loop  # type: ignore[assignment]
    try:
        run_loop(_serve(settings))
    except ConfigError as error:
        refuse(str(error))
    except LeadershipLostError as error:
        raise CommandError(str(error), Exit.NOT_SO) from None
    except ClientError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from None


async def _serve(settings: "Settings") -> None:
    import asyncio
    import signal

    from reprieve.live import app, shadow_app

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await (app.run(settings, stop) if settings.shadow is None else shadow_app.run(settings, stop))
    note("stopped")
