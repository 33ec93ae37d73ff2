"""The pod cycle (scheduling.md 2)."""

from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import Assigned, CycleState, PostFilterResult
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import call_plugin
from reprieve.preemption.eligibility import pod_is_ineligible
from reprieve.preemption.outcome import Deferral, Preemption
from reprieve.scheduling.decision import SCHEDULER_ERROR, UNSCHEDULABLE, Binding, Decision, Rejection, Result
from reprieve.scheduling.overtaken_nominations import pod_is_overtaken
from reprieve.scheduling.plugin_evictions import Preemptor, held_places, taken


def schedule_pod(
    running: RunningProfile,
    ref: str,
    pod: PodRecord,
    *,
    under_way: bool,
    lingering: bool = False,
    planned: object = None,
) -> Decision:
    """Decide for a single pod. The cluster is not changed; the engine applies the decision.

    `under_way`: victims of its last preemption are terminating; `lingering`: one is deleted, but its devices are not
    released. `planned`: its part in an eviction for several preemptors (cost.md 8).
    """
    cluster, evaluator = running.cluster, running.evaluator
    overtaken = False
    state = CycleState(cluster, pod, nominated=pod.nominated, preemption_under_way=under_way)
    state.planned = planned
    if pod.nominated < 0:
        row = evaluator.best_row(state)
        if row >= 0:
            return _bind(running, ref, pod, row)
        diagnosis = evaluator.diagnose(state)
        outcome, texts = _post_filters(running, state, diagnosis)
    else:
        with cluster.trial():
            cluster.clear_nomination(pod)
            row = evaluator.best_row(state)
            if row >= 0:
                return _bind(running, ref, pod, row)
            diagnosis = evaluator.diagnose(state)
            overtaken = not lingering and pod_is_overtaken(running, state)
            if overtaken:
                state = CycleState(cluster, pod)
            outcome, texts = _post_filters(running, state, diagnosis)
    preemption = outcome.proposal if outcome is not None and isinstance(outcome.proposal, Preemption) else None
    deferral = outcome.deferral if outcome is not None and isinstance(outcome.deferral, Deferral) else None
    nominations = held_places(outcome)
    clears = preemption is None and not nominations and (overtaken or outcome is None or outcome.clear_nomination)
    names = cluster.nodes.names
    return Decision(
        ref=ref,
        result=Result.WAITING if preemption is not None else Result.UNSCHEDULABLE,
        rejections=(Rejection(pod, UNSCHEDULABLE, diagnosis.message(", ".join(texts))),),
        preemption=preemption,
        deferral=deferral,
        nominations=((pod, preemption.domain),)
        if preemption is not None
        else tuple((pod, names[row]) for pod, row in nominations),
        cleared_nominations=(pod,) if clears and pod.nominated >= 0 else (),
        diagnosis=diagnosis,
        deferred_writes=outcome.deferred_writes if outcome is not None else (),
        rejected_by=frozenset(diagnosis.plugins),
    )


def pod_without_help(running: RunningProfile, ref: str, pod: PodRecord) -> Decision | None:
    """Decide for a pod without evictions; None if it does not fit in the present view."""
    with running.cluster.trial():
        nominated = pod.nominated
        running.cluster.clear_nomination(pod)
        row = running.evaluator.best_row(CycleState(running.cluster, pod, nominated=nominated))
        return _bind(running, ref, pod, row) if row >= 0 else None


def pod_places(running: RunningProfile, pod: PodRecord, nominated: int = NO_ROW) -> Assigned | None:
    """Return (pod, row) if the pod fits without a nomination in the present view; row `nominated` is tried first."""
    row = running.evaluator.best_row(CycleState(running.cluster, pod, nominated=nominated))
    return ((pod, row),) if row >= 0 else None


def _bind(running: RunningProfile, ref: str, pod: PodRecord, row: int) -> Decision:
    return Decision(ref=ref, result=Result.SCHEDULED, bindings=(Binding(pod, running.cluster.nodes.names[row], row),))


def _post_filters(
    running: RunningProfile, state: CycleState, diagnosis: Diagnosis
) -> tuple[PostFilterResult | None, list[str]]:
    """Run PostFilter plugins in order; the first Success ends it."""
    texts: list[str] = []
    last = None
    for plugin in running.profile.post_filters:
        last = call_plugin(plugin.name, "PostFilter", plugin.post_filter, state, diagnosis)
        if last.status.ok and (last.nominations or last.victims):
            preemptor = Preemptor.of_pod(state, pod_is_ineligible(state, diagnosis))
            last = taken(running, preemptor, last, plugin.name, "PostFilter")
        if last.status.ok:
            return last, []
        if last.status.reason:
            texts.append(last.status.reason)
        if last.deferred_writes or last.deferral is not None:
            break
    return last, texts


def failed_pod(ref: str, pod: PodRecord, error: str) -> Decision:
    """Return a decision with the reason SchedulerError (observability.md)."""
    return Decision(
        ref=ref,
        result=Result.ERROR,
        rejections=(Rejection(pod, SCHEDULER_ERROR, error),),
        cleared_nominations=(pod,) if pod.nominated >= 0 else (),
    )
