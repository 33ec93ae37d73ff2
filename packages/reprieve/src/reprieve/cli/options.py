"""Options that several commands share: sizes, feature gates and the scheduler's configuration file.

A wrong value ends the command with exit code 2 and one line that names the option or the place in the file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from reprieve.cli.outcome import FAILED_WHEN, note, refuse

if TYPE_CHECKING:
    from reprieve.framework.configuration import SchedulerConfiguration
    from reprieve.framework.gates import FeatureGates
    from reprieve.framework.profile import Profile
    from reprieve.live.extenders import ExtenderCalls
    from reprieve.simulation.plan import PlanOptions

ORDER = "reprieve.order"
"""Key of a context's `meta`: the names of the given options in order, once for each use."""
DEFAULT_MAX_BYTES = "64Mi"
DEFAULT_PLUGIN_TIMEOUT = "10s"
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="MODULE:CLASS", help="A third-party plugin, enabled in every profile. Repeatable."
    ),
]
PluginTimeoutOption = Annotated[
    str, typer.Option(metavar="DURATION", help="Time limit for a call of a third-party plugin.")
]
ConfigOption = Annotated[str | None, typer.Option(metavar="FILE", help="A KubeSchedulerConfiguration.")]
GatesOption = Annotated[str, typer.Option(metavar="A=true,B=false", help="Feature gates, named as in kube-scheduler.")]
CompatibleOption = Annotated[
    bool,
    typer.Option(
        "--compatible",
        help="Preempt for groups on the nodes that kube-scheduler would choose, instead of where the fewest pods are "
        "evicted.",
    ),
]
NOT_ASKED = (
    "{}: its extenders are not called, so the answer may differ from the live scheduler; --call-extenders calls them"
)


_MAY_BE_EMPTY = ("feature_gates",)
"""`--feature-gates "$UNSET"` asks for the defaults."""


class Command(TyperCommand):
    """A command that keeps the order of its options (`ORDER`) and refuses empty and repeated ones.

    An empty name would mean the current directory, which is never meant by `--data-dir "$UNSET"`. Other empty values
    would be ignored, as would all but the last value of an option that is not repeatable.
    """

    as_kube_scheduler = False
    """Only empty names are refused: command lines of kube-scheduler may have other empty and repeated options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse empty and repeated options as bad usage, else read the arguments."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [param.name for param in order]
        for param in self.get_params(ctx):
            names = " / ".join(param.opts)
            metavar = getattr(param, "metavar", None) or ""
            value = given.get(param.name or "")
            values = value if isinstance(value, list | tuple) else [value]
            is_file = bool({"FILE", "DIR", "CSV"} & set(metavar.split("|")))
            strict = param.param_type_name == "option" and not self.as_kube_scheduler
            if "" in values and (is_file or (strict and param.name not in _MAY_BE_EMPTY)):
                ctx.fail(f"Invalid value for {names}: the {'name' if is_file else 'value'} is empty.")
            if strict and order.count(param) > 1 and _takes_one(param):
                ctx.fail(f"Invalid value for {names}: it is given more than once.")
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write when the command ends with exit code 1, below the options."""
        if self.name in FAILED_WHEN:
            with formatter.section("Exit code 1"):
                formatter.write_text(FAILED_WHEN[self.name])


class KubeSchedulerCommand(Command):
    """A command that also takes command lines of kube-scheduler, where the last value of an option counts."""

    as_kube_scheduler = True


def _takes_one(option: Any) -> bool:
    """Return whether all but the last use of an option would be ignored and could differ from the last."""
    return not option.multiple and not option.count and (not option.is_flag or bool(option.secondary_opts))


def read_options(
    *,
    first_decision: bool = False,
    config: str | None = None,
    feature_gates: str = "",
    seed: int | None = None,
    plugins: Sequence[str] = (),
    plugin_timeout: str = DEFAULT_PLUGIN_TIMEOUT,
    call_extenders: bool = False,
    compatible: bool = False,
) -> "PlanOptions":
    """Return the options of a plan. Extenders of the configuration are called only with `call_extenders`.

    `compatible`: `placement: Compatible` in every profile, whatever the configuration has.
    """
    from reprieve.simulation.plan import PlanOptions

    gates = read_gates(feature_gates)
    if config is None and not plugins and not compatible:
        return PlanOptions(first_decision=first_decision, gates=gates, seed=seed)
    from reprieve.python.configuration import plan_options
    from reprieve.scheduling.third_party_plugins import PluginLoadError

    limit = read_seconds("--plugin-timeout", plugin_timeout)
    try:
        return plan_options(
            config,
            first_decision=first_decision,
            gates=gates,
            seed=seed,
            plugins=plugins,
            plugin_timeout=limit,
            call_extenders=call_extenders,
            compatible=compatible,
            not_asked=NOT_ASKED,
        )
    except PluginLoadError as error:
        refuse(f"--plugin {error}")


def read_profiles(
    configuration: "SchedulerConfiguration",
    gates: "FeatureGates",
    file: str | None,
    plugins: Sequence[str] = (),
    plugin_timeout: str = DEFAULT_PLUGIN_TIMEOUT,
    *,
    compatible: bool = False,
) -> "tuple[tuple[Profile, ...], ExtenderCalls | None]":
    """Return the profiles of a configuration (read from `file`) with plugins, and the caller of its extenders.

    `compatible`: as for `read_options`.
    """
    from reprieve.framework.configuration import ConfigurationError
    from reprieve.python.configuration import profiles_for
    from reprieve.scheduling.third_party_plugins import PluginLoadError

    limit = read_seconds("--plugin-timeout", plugin_timeout)
    try:
        return profiles_for(configuration, gates, plugins, limit, call_extenders=True, compatible=compatible)
    except PluginLoadError as error:
        refuse(f"--plugin {error}")
    except ConfigurationError as error:
        refuse(f"{file}: {error}" if file is not None else f"--plugin: {error.message}")


def read_seconds(option: str, text: str) -> float:
    """Return a duration above zero, as Go writes it (`10s`)."""
    from kube_rules.durations import duration

    try:
        result = duration(text)
    except ValueError as error:
        refuse(f"{option}: {error}")
    if result <= 0:
        refuse(f"{option}: expected more than 0, found {text!r}")
    return result


def read_gates(text: str) -> "FeatureGates":
    """`A=true,B=false`."""
    from reprieve.framework.gates import FeatureGates, GateError

    try:
        gates, notes = FeatureGates.read(text)
    except GateError as error:
        refuse(f"--feature-gates: {error}")
    for item in notes:
        note(f"warning: --feature-gates: {item}")
    return gates


def read_size(option: str, text: str) -> int:
    """Return a number of bytes above zero, in Kubernetes quantity notation."""
    from kube_rules.quantity import QuantityError, parse, value

    try:
        size = value(parse(text))
    except QuantityError as error:
        refuse(f"{option}: {error}")
    if size <= 0:
        refuse(f"{option}: expected a size above 0, found {text!r}")
    return size


def read_time(option: str, text: str) -> float:
    """Return a time in RFC 3339, in seconds since the epoch. Ends the command with exit code 2 for anything else."""
    from kube_rules.work_annotations import moment

    try:
        return moment(text)
    except ValueError as error:
        refuse(f'{option}: "{text}": {error}')
