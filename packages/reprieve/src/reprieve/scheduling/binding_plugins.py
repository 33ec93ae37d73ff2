"""Reserve, Permit and PreBind: the steps between choosing a node and binding (scheduling.md 2)."""

from collections.abc import Callable
from dataclasses import replace

from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin import CycleState
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, PluginError, Status, call_plugin
from reprieve.scheduling.decision import SCHEDULER_ERROR, UNSCHEDULABLE, Binding, Decision, Rejection, replace_bindings


def reserve_all(decision: Decision, running_for: Callable[[PodRecord], RunningProfile]) -> Decision:
    """Run Reserve and Permit for assumed pods; the capacity of a refused pod is released.

    Returns the decision with the instructions of PreBind and Bind; `waiting` are pods that a Permit plugin lets wait.
    """
    bindings, waiting, rejections = [], [], list(decision.rejections)
    rejected_by = set(decision.rejected_by)
    for binding in decision.bindings:
        running = running_for(binding.pod)
        status = reserve(running, binding)
        if status.ok or status.code is Code.WAIT:
            try:
                binding = add_instructions(running, binding)
            except PluginError as error:
                running.report(error)
                unreserve(running, binding)
                status = Status(Code.ERROR, str(error), error.plugin)
        if status.ok:
            bindings.append(binding)
        elif status.code is Code.WAIT:
            waiting.append(binding)
        else:
            running.cluster.displace(binding.pod)
            failed = status.code is Code.ERROR
            rejections.append(Rejection(binding.pod, SCHEDULER_ERROR if failed else UNSCHEDULABLE, status.reason))
            if not failed:
                rejected_by.add(status.plugin)
    if len(bindings) == len(decision.bindings):
        return replace_bindings(decision, tuple(bindings))
    return replace(
        decision,
        bindings=tuple(bindings),
        waiting=tuple(waiting),
        rejections=tuple(rejections),
        rejected_by=frozenset(rejected_by),
    )


def reserve(running: RunningProfile, binding: Binding) -> Status:
    """Run Reserve, then Permit, for a pod that was just assumed.

    SUCCESS: bind it; WAIT: a Permit plugin decides later; anything else: refused, and already unreserved.
    """
    state = CycleState(running.cluster, binding.pod)
    try:
        for plugin in running.profile.reserves:
            status = call_plugin(plugin.name, "Reserve", plugin.reserve, state, binding.row)
            if not status.ok:
                unreserve(running, binding)
                return Status(status.code, status.reason, plugin.name)
    except PluginError as error:
        running.report(error)
        unreserve(running, binding)
        return Status(Code.ERROR, str(error), error.plugin)
    status = run_permit(running, binding)
    if not status.ok and status.code is not Code.WAIT:
        unreserve(running, binding)
    return status


def run_permit(running: RunningProfile, binding: Binding) -> Status:
    """Call all Permit plugins: SUCCESS, WAIT if one of them decides later, or the first refusal or error."""
    answer = SUCCESS
    permits = running.profile.permits
    if not permits:
        return answer
    state = CycleState(running.cluster, binding.pod)
    try:
        for permit in permits:
            status = call_plugin(permit.name, "Permit", permit.permit, state, binding.row)
            if status.code is Code.WAIT:
                answer = Status(Code.WAIT, status.reason, permit.name)
            elif not status.ok:
                return Status(status.code, status.reason, permit.name)
    except PluginError as error:
        running.report(error)
        return Status(Code.ERROR, str(error), error.plugin)
    return answer


def add_instructions(running: RunningProfile, binding: Binding) -> Binding:
    """Return the binding with the instructions of its PreBind and Bind plugins. Raises PluginError."""
    state = CycleState(running.cluster, binding.pod)
    before: list[Instruction] = []
    for plugin in running.profile.pre_binds:
        before += call_plugin(plugin.name, "PreBind", plugin.pre_bind, state, binding.row)
    for binder in running.profile.binders:
        how = call_plugin(binder.name, "Bind", binder.bind, state, binding.row)
        if how is not None:
            # `replace` takes several times as long, and this runs for every bound pod
            return Binding(binding.pod, binding.node, binding.row, tuple(before), how, binding.annotations)
    return replace(binding, pre_bind=tuple(before)) if before else binding


def run_post_bind(running: RunningProfile, pod: PodRecord, row: int) -> None:
    """Call the PostBind plugins; an exception changes nothing and is kept for the log."""
    state = CycleState(running.cluster, pod)
    for plugin in running.profile.post_binds:
        try:
            call_plugin(plugin.name, "PostBind", plugin.post_bind, state, row)
        except PluginError as error:
            running.report(error)


def given_up(running: RunningProfile, binding: Binding) -> list[Instruction]:
    """Return the instructions by which Reserve plugins undo their writes for a failed binding."""
    state = CycleState(running.cluster, binding.pod)
    result: list[Instruction] = []
    for plugin in running.profile.reserves:
        try:
            result += call_plugin(plugin.name, "Unreserve", plugin.give_up, state, binding.row)
        except PluginError as error:
            running.report(error)
    return result


def unreserve(running: RunningProfile, binding: Binding) -> None:
    """Undo every Reserve, in reverse order; an error of one plugin does not stop the others."""
    state = CycleState(running.cluster, binding.pod)
    for plugin in reversed(running.profile.reserves):
        try:
            call_plugin(plugin.name, "Unreserve", plugin.unreserve, state, binding.row)
        except PluginError as error:
            running.report(error)
