"""The reader of a `KubeSchedulerConfiguration` from a parsed file (scheduling.md 6)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube_rules.objects import DEFAULT_SCHEDULER
from kube_rules.unknown_fields import did_you_mean, misnamed_in, path_text
from reprieve.framework.configuration import (
    API_VERSION,
    KIND,
    ConfigurationError,
    SchedulerConfiguration,
)
from reprieve.framework.configuration_rules import check


def configuration_of(document: object) -> SchedulerConfiguration:
    """Return the configuration in a parsed file. Raises ConfigurationError with the path and the problem."""
    if not isinstance(document, Mapping):
        raise ConfigurationError("", f"expected a {KIND} object")
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND:
        raise ConfigurationError("kind", f"{kind!r}: expected {KIND}")
    if version != API_VERSION:
        raise ConfigurationError("apiVersion", f"{version!r}: expected {API_VERSION}")
    try:
        result = msgspec.convert(_without_nulls(document), SchedulerConfiguration)
    except msgspec.ValidationError as error:
        raise _located(str(error), document) from None
    only = result.profiles[0] if len(result.profiles) == 1 else None
    if only is not None and only.scheduler_name is None:
        named = msgspec.structs.replace(only, scheduler_name=DEFAULT_SCHEDULER)
        result = msgspec.structs.replace(result, profiles=(named,))
    check(result)
    return result


def _without_nulls(value: Any) -> Any:
    """Return the value without explicit nulls, which mean absent fields, as in Go."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _located(text: str, document: Mapping[str, Any]) -> ConfigurationError:
    """Split msgspec's ``... - at `$.profiles[0].x` `` into a path and a message."""
    message, _, where = text.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    if message.startswith("Object contains unknown field "):
        name = message.removeprefix("Object contains unknown field ").strip("`")
        path = f"{path}.{name}" if path else name
        misnamed = (item for item in misnamed_in(SchedulerConfiguration, document) if path_text(item.path) == path)
        meant = next((item.nearest for item in misnamed), "")
        return ConfigurationError(path, f"unknown field{did_you_mean(meant)}")
    return ConfigurationError(path, message[0].lower() + message[1:])
