"""DefaultPreemption: the plugin that makes room for single pods and for pod groups."""

from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.events import Hints
from reprieve.framework.plugin import (
    CycleState,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
)
from reprieve.framework.running import RunningProfile
from reprieve.framework.status import Code, Status
from reprieve.preemption.for_group import GroupOptions, preempt_for_group
from reprieve.preemption.for_pod import PodPreemption
from reprieve.preemption.outcome import GROUP_MEMBER, HOLD_SECONDS, MINIMIZE_VICTIMS, REPRIEVE


class DefaultPreemption(PostFilterPlugin, PodGroupPostFilterPlugin):
    """PostFilter and PodGroupPostFilter by preemption.md.

    It needs the profile it runs in, so it is `attach`ed once that is built.  `group_policy`: the gate
    PodGroupPreemptionPolicy.  `victim_search` and `placement`: the options of preemption.md 4.  `hold_seconds`: for
    how long room is held for a preemptor at most, 0 without an end (cost.md 5.1).  `plain` and `share` select the
    reference paths for property tests.
    """

    name = "DefaultPreemption"

    def __init__(
        self,
        *,
        group_policy: bool = True,
        victim_search: str = REPRIEVE,
        placement: str = MINIMIZE_VICTIMS,
        hold_seconds: float = HOLD_SECONDS,
        plain: bool = False,
        share: bool = True,
    ) -> None:
        self.hold_seconds = hold_seconds
        self._options = GroupOptions(group_policy, victim_search, placement, plain)
        self._plain = plain
        self._share = share
        self._attached_to: tuple[RunningProfile, PodPreemption] | None = None

    def attach(self, running: RunningProfile) -> None:
        """Tell the plugin where it runs."""
        self._attached_to = running, PodPreemption(running, plugin=self.name, plain=self._plain, share=self._share)

    def events(self) -> Hints:
        """Nothing wakes a pod because of preemption itself: what rejected it does."""
        return {}

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """See `PostFilterPlugin.post_filter`. Pods of a group never preempt on their own (preemption.md 2.4)."""
        if state.group is not None:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, f"preemption: {GROUP_MEMBER}", self.name))
        return self._attached()[1].preempt(state, diagnosis)

    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        """See `PodGroupPostFilterPlugin.pod_group_post_filter`."""
        return preempt_for_group(self._attached()[0], attempt, self.name, self._options)

    def _attached(self) -> tuple[RunningProfile, PodPreemption]:
        if self._attached_to is None:
            raise RuntimeError("DefaultPreemption is used before it was attached to a profile")
        return self._attached_to
