"""The outcomes of trees of groups in the report of a plan: failed levels, and short children.

Source of the rules: composite.md 5.
"""

from reprieve.cluster.groups import CompositeState, Fault
from reprieve.cluster.trees import waiting_for_object
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import INVALID, SCHEDULER_ERROR, UNSCHEDULABLE, TreeLevel
from reprieve.simulation.report import CompositeOutcome
from reprieve.simulation.virtual import VirtualCluster


def composite_outcomes(world: VirtualCluster) -> tuple[CompositeOutcome, ...]:
    """Return the outcome of every CompositePodGroup, by namespace and name."""
    composites = world.engine.cluster.trees.composites.values()
    levels = {(level.kind, level.group): level for attempt in world.levels.values() for level in attempt}
    outcomes = (_outcome(world, composite, levels.get((composite.kind, composite.key))) for composite in composites)
    return tuple(sorted(outcomes, key=lambda outcome: (outcome.namespace, outcome.name)))


def _outcome(world: VirtualCluster, composite: CompositeState, level: TreeLevel | None) -> CompositeOutcome:
    spec = composite.spec
    assert spec is not None
    outcome, reason, message = _status(world, composite)
    return CompositeOutcome(
        namespace=composite.namespace,
        name=composite.name,
        parent=spec.parent.split("/", 1)[1] if spec.parent is not None else None,
        priority=spec.priority,
        min_group_count=spec.min_count,
        groups=tuple(child.name for child in composite.children),
        scheduled=composite.scheduled,
        outcome=outcome,
        reason=reason,
        message=message,
        succeeded=level.succeeded if level is not None else None,
        short=level.failed_groups if level is not None else (),
    )


def _status(world: VirtualCluster, composite: CompositeState) -> tuple[str, str | None, str | None]:
    """Return outcome, reason and message."""
    engine = world.engine
    if composite.fault is not None:
        return "Gated", *_reason_and_message(composite.fault)
    if isinstance(composite.root, CompositeState) and (wrong := composite.root.wrong_layout()) is not None:
        return "Gated", INVALID, wrong
    condition = world.conditions.get(composite.ref)
    if condition is not None and condition.scheduled:
        return "Scheduled", None, None
    entity = engine.queue.get(composite.home)
    if entity is not None and entity.state is QueueState.GATED and entity.block_reason is None and not entity.gate.ok:
        return "Gated", UNSCHEDULABLE, entity.gate.reason
    if condition is None:
        # No pod was ever tried: all of them run, or there are none.
        return ("Scheduled", None, None) if composite.scheduled else ("Gated", UNSCHEDULABLE, None)
    if condition.reason in (SCHEDULER_ERROR, INVALID):
        return "Error", condition.reason, condition.message
    waits = engine.is_preempting(composite.home) or world.awaits_room(composite.home)
    return "Nominated" if waits else "Unschedulable", condition.reason, condition.message


def _reason_and_message(fault: Fault) -> tuple[str, str]:
    """Return reason and message of a group without a root."""
    if fault.missing:
        return UNSCHEDULABLE, waiting_for_object(fault.missing)
    return INVALID, fault.message
