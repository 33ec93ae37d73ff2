"""The run of one policy over chosen jobs, from input to report, in this process or in its own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kube_rules import objects
from reprieve.replay.accounts import Timeline
from reprieve.replay.quotas import JobQuotas
from reprieve.replay.selection import ChosenJobs
from reprieve.replay.statistics import JobRow, PolicyReport, report, rows
from reprieve.replay.world import Policy, Replay, WorldSettings


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The results of one policy."""

    report: PolicyReport
    rows: list[JobRow]
    timeline: Timeline | None = None


class Stop:
    """Stops a replay, before it begins or while it runs."""

    def __init__(self) -> None:
        self.wanted = False
        self._replay: Replay | None = None

    def watch(self, replay: Replay) -> None:
        """Set the replay to stop."""
        self._replay = replay

    def now(self) -> None:
        """Stop; may be called from a signal handler."""
        self.wanted = True
        if self._replay is not None:
            self._replay.stop()


def simulate(
    name: str,
    chosen: ChosenJobs,
    cluster: Iterable[tuple[objects.KubernetesObject, float]],
    policy: Policy,
    settings: WorldSettings,
    *,
    start: float = 0.0,
    quotas: JobQuotas | None = None,
    stop: Stop | None = None,
    progress: Callable[[int, int], None] = lambda done, now: None,
) -> PolicyOutcome:
    """Run a replay. `progress` gets the number of ended jobs and the time in milliseconds. Raises ReplayError."""
    replay = Replay(chosen.jobs, cluster, policy, settings, start=start, quotas=quotas, progress=progress)
    stop = stop or Stop()
    stop.watch(replay)
    if not stop.wanted:
        replay.run(chosen.until)
    if stop.wanted:
        replay.close(replay.now)
    else:
        replay.close(max(replay.now, chosen.until or 0))
    return PolicyOutcome(report(name, replay, interrupted=stop.wanted), rows(replay), replay.timeline)
