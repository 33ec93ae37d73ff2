"""The status the disruption controller would give a PodDisruptionBudget that has none."""

from collections.abc import Iterable

from msgspec.structs import replace

from reprieve.api import objects
from reprieve.api.selectors import compile_label_selector
from reprieve.cluster.pods import PodRecord


def _share(value: int | str, of: int) -> int:
    """An IntOrString of a count: percentages round up, as upstream's disruption controller does."""
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * of // 100)
    return int(value)


def with_status(pdb: objects.PodDisruptionBudget, pods: Iterable[PodRecord]) -> objects.PodDisruptionBudget:
    """The budget with `status.disruptionsAllowed` worked out from its spec and the pods there are.

    Healthy are matching pods that run and are not terminating; expected are all matching pods, since who owns them and
    at what scale is not part of the picture.
    """
    namespace = pdb.metadata.namespace or "default"
    selector = compile_label_selector(pdb.spec.selector)
    matching = [pod for pod in pods if pod.namespace == namespace and selector.matches(pod.labels)]
    healthy = sum(1 for pod in matching if pod.row >= 0 and not pod.terminating)
    expected = len(matching)
    spec = pdb.spec
    if spec.max_unavailable is not None:
        desired = expected - _share(spec.max_unavailable, expected)
    elif spec.min_available is not None:
        desired = _share(spec.min_available, expected)
    else:
        desired = 1
    status = objects.PodDisruptionBudgetStatus(
        disruptions_allowed=max(0, healthy - max(desired, 0)),
        current_healthy=healthy,
        desired_healthy=max(desired, 0),
        expected_pods=expected,
    )
    return replace(pdb, status=status)
