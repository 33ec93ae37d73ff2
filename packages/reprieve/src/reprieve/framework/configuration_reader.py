"""The reader of a `KubeSchedulerConfiguration` from a parsed file (scheduling.md 6)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube_rules.objects import DEFAULT_SCHEDULER
from reprieve.framework.configuration import (
    API_VERSION,
    KIND,
    ConfigurationError,
    SchedulerConfiguration,
    converted,
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
    result = converted(_without_nulls(document), SchedulerConfiguration)
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
