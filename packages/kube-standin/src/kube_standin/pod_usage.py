"""The usage of simulated containers: their requests, or a share of them (`reprieve.dev/usage-percent`)."""

from __future__ import annotations

from typing import Final

from kube_rules.admission.amounts import Amount, Amounts, of_container
from kube_rules.json import Json
from kube_rules.selectors import parse_integer

USAGE_PERCENT: Final = "reprieve.dev/usage-percent"
"""Percentage of its requests that each container uses."""
_MOST: Final = 100_000


def containers_of(pod: Json) -> list[Json]:
    """Return the containers that run as long as the pod."""
    spec = pod.get("spec") or {}
    sidecars = [
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
    return [*(spec.get("containers") or ()), *sidecars]


def used_by(pod: Json) -> list[tuple[str, Amounts]]:
    """Return the usage of each container of a running pod; nothing for other pods."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return []
    percent = _percent(pod["metadata"])
    return [
        (container["name"], _share(of_container(container, "requests"), percent)) for container in containers_of(pod)
    ]


def _share(requests: Amounts, percent: int) -> Amounts:
    if percent == 100:
        return requests
    return {name: Amount(amount.nano * percent // 100, amount.form) for name, amount in requests.items()}


def _percent(metadata: Json) -> int:
    value = parse_integer((metadata.get("annotations") or {}).get(USAGE_PERCENT, "100"))
    return value if value is not None and 0 <= value <= _MOST else 100
