"""Evaluation of admission expressions for one write: within one budget, and outside the event loop if long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kube_rules.admission.expressions import CostBudget
from kube_standin.admission_chain import AdmissionRequest
from kube_standin.worker_thread import INLINE

ResultT = TypeVar("ResultT")
REQUEST_LIMIT = 20_000_000
"""Cost limit of all policies of one request, higher than any cluster needs; each policy has its own limits."""
INLINE_COST = 50_000
"""Cost limit of a write on the event loop, some milliseconds; beyond it, evaluation continues in a thread."""
UNWAITING_LIMIT = 1_000_000
"""Cost limit of all policies of a write that cannot wait, such as a controller's status: a tenth of a second."""


def evaluated(request: AdmissionRequest, step: str, inputs: Any, work: Callable[[CostBudget], ResultT]) -> ResultT:
    """Run an evaluation, outside the event loop if it is long; `inputs` are all values that it depends on.

    All evaluations of a write share one budget. An evaluation outside the loop restarts the write, so that it counts as
    at least `INLINE_COST`.
    """
    inline = request.off_loop_steps is INLINE
    short = CostBudget(max((UNWAITING_LIMIT if inline else INLINE_COST) - request.policy_cost, 0))
    result, cost = work(short), short.spent
    if short.exceeded and not inline:
        limit = max(REQUEST_LIMIT - request.policy_cost, 0)

        def measured() -> tuple[ResultT, int]:
            budget = CostBudget(limit)
            return work(budget), budget.spent

        result, cost = request.off_loop_steps.findings(step, [limit, inputs], measured)
        cost = max(cost, INLINE_COST)
    request.policy_cost += cost
    return result
