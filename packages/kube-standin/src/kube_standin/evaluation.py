"""Expressions of admission evaluated for one write: all within one budget, beside the event loop if they are long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kube_rules.admission.expressions import CostBudget
from kube_standin.admission_chain import AdmissionRequest
from kube_standin.worker_thread import INLINE

ResultT = TypeVar("ResultT")
REQUEST_LIMIT = 20_000_000
"""Cost of all policies of one request, which no cluster has; each has its own limits within."""
INLINE_COST = 50_000
"""Cost of a write that is evaluated on the event loop, some milliseconds; what comes after is evaluated beside it."""
UNWAITING_LIMIT = 1_000_000
"""Cost of all policies of a write that cannot wait, such as a status of a controller: a tenth of a second."""


def evaluated(request: AdmissionRequest, step: str, given: Any, work: Callable[[CostBudget], ResultT]) -> ResultT:
    """Do an evaluation, beside the event loop if it turns out long; `given` is all that it depends on.

    All evaluations of a write have one budget. One that is done beside the loop begins the write again, so that it
    counts as `INLINE_COST` at least.
    """
    inline = request.off_loop_steps is INLINE
    short = CostBudget(max((UNWAITING_LIMIT if inline else INLINE_COST) - request.policy_cost, 0))
    result, cost = work(short), short.spent
    if short.exceeded and not inline:
        limit = max(REQUEST_LIMIT - request.policy_cost, 0)

        def measured() -> tuple[ResultT, int]:
            budget = CostBudget(limit)
            return work(budget), budget.spent

        result, cost = request.off_loop_steps.findings(step, [limit, given], measured)
        cost = max(cost, INLINE_COST)
    request.policy_cost += cost
    return result
