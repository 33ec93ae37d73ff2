"""What simulated containers use: what they request, or a share of it (`reprieve.dev/usage-percent`)."""

from __future__ import annotations

from typing import Final

from kube_rules.admission.amounts import Amount, Amounts, of_container
from kube_rules.json import Json
from kube_rules.selectors import parse_integer

USAGE_PERCENT: Final = "reprieve.dev/usage-percent"
"""How much of its requests each container uses."""
_MOST: Final = 100_000


def containers_of(pod: Json) -> list[Json]:
    """Return the containers that run as long as the pod does."""
    spec = pod.get("spec") or {}
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *sidecars]


def used_by(pod: Json) -> list[tuple[str, Amounts]]:
    """Return what each container of a running pod uses; nothing for other pods."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return []
    percent = _percent(pod["metadata"])
    return [(one["name"], _share(of_container(one, "requests"), percent)) for one in containers_of(pod)]


def _share(requests: Amounts, percent: int) -> Amounts:
    if percent == 100:
        return requests
    return {name: Amount(one.nano * percent // 100, one.form) for name, one in requests.items()}


def _percent(metadata: Json) -> int:
    value = parse_integer((metadata.get("annotations") or {}).get(USAGE_PERCENT, "100"))
    return value if value is not None and 0 <= value <= _MOST else 100
