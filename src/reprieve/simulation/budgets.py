"""The status the disruption controller would give a PodDisruptionBudget that has none."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from reprieve.api import objects
from reprieve.api.selectors import compile_label_selector
from reprieve.cluster.budgets import ByLabel
from reprieve.cluster.pods import PodRecord


def _share(value: int | str, of: int) -> int:
    """An IntOrString of a count: percentages round up, as upstream's disruption controller does."""
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * of // 100)
    return int(value)


def with_statuses(
    budgets: Sequence[objects.PodDisruptionBudget], pods: Iterable[PodRecord]
) -> list[objects.PodDisruptionBudget]:
    """The budgets with `status.disruptionsAllowed` worked out from their specs and the pods there are.

    Healthy are matching pods that run and are not terminating; expected are all matching pods, since who owns them and
    at what scale is not part of the picture.
    """
    spaces = [budget.metadata.namespace or "default" for budget in budgets]
    selectors = [compile_label_selector(budget.spec.selector) for budget in budgets]
    by_label = ByLabel((number, *each) for number, each in enumerate(zip(spaces, selectors, strict=True)))
    expected, healthy = [0] * len(budgets), [0] * len(budgets)
    for pod in pods:
        for number in by_label.candidates(pod.namespace, pod.labels):
            if selectors[number].matches(pod.labels):
                expected[number] += 1
                healthy[number] += pod.row >= 0 and not pod.terminating
    return [_with_status(*each) for each in zip(budgets, expected, healthy, strict=True)]


def _with_status(pdb: objects.PodDisruptionBudget, expected: int, healthy: int) -> objects.PodDisruptionBudget:
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
