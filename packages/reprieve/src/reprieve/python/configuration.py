"""Plan options from a scheduler's configuration file and third-party plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kube_rules.errors import InputError, Origin
from kube_rules.yamltext import YamlError, read_documents
from reprieve.framework.configuration import ConfigurationError, SchedulerConfiguration
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.framework.profile import Profile
from reprieve.queueing.timers import Timing
from reprieve.scheduling.profile_remarks import remarks_on
from reprieve.scheduling.profiles import IN_TREE_NAMES, profiles_of
from reprieve.scheduling.third_party_plugins import third_party
from reprieve.simulation.plan import PlanOptions

if TYPE_CHECKING:
    from reprieve.live.extenders import ExtenderCalls

MAX_CONFIGURATION_BYTES: Final = 1024 * 1024
PLUGIN_TIMEOUT: Final = 10.0
"""Timeout in seconds for a call of a third-party plugin."""
NOT_ASKED: Final = "{}: its extenders are not called, so the answer may differ from the live scheduler"


def read_configuration(file: str | Path) -> SchedulerConfiguration:
    """Read a KubeSchedulerConfiguration in YAML or JSON.

    Raises InputError for an unreadable file, ConfigurationError for an invalid configuration.
    """
    return configuration_of(read_configuration_document(file))


def read_configuration_document(file: str | Path) -> Any:
    """Return the only document of a YAML or JSON file as plain data. Raises InputError."""
    origin = Origin(str(file))
    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_CONFIGURATION_BYTES + 1)
    except OSError as error:
        raise InputError(origin, error.strerror or str(error)) from None
    except ValueError as error:
        raise InputError(Origin(repr(str(file))), str(error)) from None  # a NUL in the name
    if len(data) > MAX_CONFIGURATION_BYTES:
        raise InputError(origin, f"larger than {MAX_CONFIGURATION_BYTES} bytes: not a configuration")
    try:
        documents = list(read_documents(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        raise InputError(origin, "not UTF-8 text") from None
    except YamlError as error:
        raise InputError(origin, (f"line {error.line}: " if error.line is not None else "") + str(error)) from None
    if len(documents) != 1:
        raise InputError(origin, f"expected one document, found {len(documents)}")
    return documents[0].data


def profiles_for(
    configuration: SchedulerConfiguration,
    gates: FeatureGates,
    plugins: Sequence[str | type[Plugin]] = (),
    plugin_timeout: float = PLUGIN_TIMEOUT,
    *,
    call_extenders: bool = True,
    compatible: bool = False,
) -> tuple[tuple[Profile, ...], ExtenderCalls | None]:
    """Return the profiles of a configuration with third-party plugins, and the caller of its extenders if any.

    Without `call_extenders` extenders are left out. `compatible` sets `placement: Compatible` in every profile. Raises
    PluginLoadError and ConfigurationError.
    """
    from reprieve.live.extenders import Bodies, ExtenderCalls
    from reprieve.live.watchdog import Watchdog

    loaded = third_party(plugins, in_tree=IN_TREE_NAMES)
    watch = Watchdog(plugin_timeout)
    extenders = None
    if call_extenders and configuration.extenders:
        extenders = ExtenderCalls(configuration.extenders, Bodies(), watch.report)
    plugin = extenders.plugin if extenders is not None else None
    return profiles_of(configuration, gates, loaded.watched(watch), plugin, compatible=compatible), extenders


def plan_options(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    first_decision: bool = False,
    gates: FeatureGates | None = None,
    seed: int | None = None,
    plugins: Sequence[str | type[Plugin]] = (),
    plugin_timeout: float = PLUGIN_TIMEOUT,
    call_extenders: bool = False,
    compatible: bool = False,
    not_asked: str = NOT_ASKED,
) -> PlanOptions:
    """Return the options of a plan. `config`: a KubeSchedulerConfiguration, as a file or as plain data.

    Extenders of the configuration are called only with `call_extenders`; otherwise the answer has the warning
    `not_asked`. Raises InputError for an invalid configuration, PluginLoadError for an invalid plugin.
    """
    gates = gates or FeatureGates()
    if config is None and not plugins and not compatible:
        return PlanOptions(first_decision=first_decision, gates=gates, seed=seed)
    name = "<configuration>" if isinstance(config, Mapping) else str(config)
    try:
        if config is None:
            chosen = SchedulerConfiguration()
        else:
            chosen = configuration_of(config) if isinstance(config, Mapping) else read_configuration(config)
        call_them = call_extenders and bool(chosen.extenders)
        profiles, extenders = profiles_for(
            chosen, gates, plugins, plugin_timeout, call_extenders=call_them, compatible=compatible
        )
    except ConfigurationError as error:
        if config is None:
            raise InputError(Origin("--plugin"), error.message) from None
        raise InputError(Origin(name), error.message, path=error.path) from None
    timing = Timing(float(chosen.pod_initial_backoff_seconds), float(chosen.pod_max_backoff_seconds))
    remarks = (remark.text for profile in profiles for remark in remarks_on(profile, gates))
    warnings = (*remarks, *(() if call_them or not chosen.extenders else (not_asked.format(name),)))
    return PlanOptions(
        first_decision=first_decision,
        gates=gates,
        profiles=profiles,
        timing=timing,
        seed=seed,
        sources=chosen.sources,
        any_scheduler=config is None,
        on_object=extenders.bodies.seen if extenders is not None else None,
        warnings=warnings,
    )
