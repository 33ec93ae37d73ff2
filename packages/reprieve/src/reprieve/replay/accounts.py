"""What happened to each job, and to the GPUs, in whole numbers (replay.md 3.3, 3.4, 4.3).

Times are milliseconds since the replay began, GPUs thousandths; GPU-time is their product, and adds up exactly:
allocated = useful + lost + restart.

A job's *clock* runs while enough of its workers do.  It first pays the restart cost, then counts work; at a checkpoint,
by the clock since the run began, what has been counted is saved.  `pending` is the GPU-time of work that is not saved
yet: it becomes useful, or lost.
"""

from collections.abc import Sequence

from reprieve.cluster.pods import PodRecord
from reprieve.replay.job_list import ReplayJob

WAITING, RUNNING, DONE = range(3)


class ReplayAccount:
    """One job: what it has, and what it came to."""

    __slots__ = (
        "allocated",
        "at",
        "beside",
        "counted",
        "done",
        "end",
        "evicted_runs",
        "evictions",
        "first_start",
        "group",
        "holding",
        "index",
        "job",
        "lost",
        "lost_runs",
        "pending",
        "pods",
        "restart",
        "restart_left",
        "round",
        "runs",
        "satisfied",
        "saved",
        "serial",
        "since",
        "state",
        "token",
        "useful",
        "working",
    )

    def __init__(self, index: int, job: ReplayJob) -> None:
        self.index = index
        self.job = job
        self.state = WAITING
        self.pods: dict[str, tuple[PodRecord, int]] = {}
        """By UID: the pods that exist, each with the number of the worker it is."""
        self.counted: set[str] = set()
        """UIDs of those on nodes and not terminating."""
        self.group = ""
        """`namespace/name` of its PodGroup now."""
        self.beside = 0
        """How many jobs before it in the list have the same submit."""
        self.round = 0
        """How often it has been queued again as a whole."""
        self.serial = 0
        """Pods made so far."""
        self.token = 0
        """Grows when the clock starts or stops: an end that was foreseen before is void."""
        self.at = 0
        """Up to when GPU-time is accounted for."""
        self.holding = 0
        """Pods that occupy a node."""
        self.working = 0
        """Those of them that count: the size of `counted`."""
        self.done = 0
        """Milliseconds of work counted and not lost."""
        self.saved = 0
        """Those of them before the last checkpoint."""
        self.since = 0
        """Milliseconds since then, or since the start of the run: it saves by the clock (replay.md 3.6)."""
        self.restart_left = 0
        self.satisfied = 0
        """Milliseconds in which it had its minimum."""
        self.pending = self.useful = self.lost = self.restart = self.allocated = 0
        self.runs = 0
        self.evicted_runs = 0
        self.lost_runs = 0
        """Runs that a failed node ended."""
        self.evictions = 0
        self.first_start: int | None = None
        self.end: int | None = None

    def accrue(self, now: int, checkpoint: int | None) -> int:
        """Account for the time since the last call; returns the GPU-time that was lost in it."""
        span = now - self.at
        self.at = now
        if span <= 0 or not self.holding:
            return 0
        gpu = self.job.shape.gpu
        self.allocated += self.holding * gpu * span
        if self.state != RUNNING:
            idle = self.holding * gpu * span
            self.lost += idle
            return idle
        self.satisfied += span
        paid = min(self.restart_left, span)
        self.restart_left -= paid
        rate = self.working * gpu
        self.restart += rate * paid
        if checkpoint is not None:
            self.since = (self.since + paid) % checkpoint
        self._work(span - paid, rate, checkpoint)
        idle = (self.holding - self.working) * gpu * span
        self.lost += idle
        return idle

    def _work(self, span: int, rate: int, checkpoint: int | None) -> None:
        self.done += span
        self.since += span
        if checkpoint is not None and self.since >= checkpoint:
            unsaved = self.since % checkpoint
            self.useful += self.pending + rate * (span - unsaved)
            self.pending = rate * unsaved
            self.since = unsaved
            self.saved = self.done - unsaved
        else:
            self.pending += rate * span

    def throw_away(self) -> int:
        """The work since the last checkpoint is lost; returns its GPU-time."""
        thrown, self.pending = self.pending, 0
        self.lost += thrown
        self.done, self.since = self.saved, 0
        return thrown

    def keep(self) -> None:
        """The work is done, or accounted for in the middle: what is pending was of use."""
        self.useful += self.pending
        self.pending = 0
        self.saved, self.since = self.done, 0

    def forget(self) -> None:
        """It has ended: what only matters while it is there is no more."""
        self.pods = _NO_PODS
        self.counted = _NO_UIDS
        self.group = ""


_NO_PODS: dict[str, tuple[PodRecord, int]] = {}
_NO_UIDS: set[str] = set()


class Series:
    """Means over equal times of amounts that change in steps, in bounded memory (replay.md 4.9).

    `width` milliseconds a point; when `MOST` points do not suffice two become one.
    """

    MOST = 1024

    def __init__(self, names: tuple[str, ...], width: int = 1000) -> None:
        self.names = names
        self.width = width
        self.sums: list[list[int]] = [[] for _ in names]
        """By name and point: amount × milliseconds."""
        self.at = 0

    def advance(self, now: int, amounts: tuple[int, ...]) -> None:
        """The amounts that held from the last call until now."""
        while self.at < now:
            point = self.at // self.width
            if point >= self.MOST:
                self._halve()
                continue
            end = min(now, (point + 1) * self.width)
            self._reach(point)
            span = end - self.at
            for sums, amount in zip(self.sums, amounts, strict=False):
                sums[point] += amount * span
            self.at = end

    def add(self, name: str, amount: int) -> None:
        """Something that happens now, by itself: it counts for the point that now is in."""
        while self.at // self.width >= self.MOST:
            self._halve()
        point = self.at // self.width
        self._reach(point)
        self.sums[self.names.index(name)][point] += amount

    def _reach(self, point: int) -> None:
        for sums in self.sums:
            if len(sums) <= point:
                sums.extend([0] * (point + 1 - len(sums)))

    def _halve(self) -> None:
        self.width *= 2
        self.sums = [[sum(sums[start : start + 2]) for start in range(0, len(sums), 2)] for sums in self.sums]


class Timeline:
    """Where and when pods ran, and their preemptors, for figures. Parallel lists, an entry for each stay on a node."""

    def __init__(self) -> None:
        self.job: list[int] = []
        """-1: a pod of the cluster file."""
        self.others: dict[int, str] = {}
        """The names of those, by stay."""
        self.worker: list[int] = []
        self.node: list[str] = []
        self.begin: list[int] = []
        self.end: list[int] = []
        """-1 while it is there."""
        self.how: list[str] = []
        """`done`, `preempted`, `lost` (with its node, or that of another of its gang), `unfinished`."""
        self.preemptions: list[tuple[int, int, tuple[int, ...]]] = []
        """(when, the preemptor's job, -1 for a pod of the cluster file; stays of the victims)."""
        self._open: dict[str, int] = {}

    def placed(self, uid: str, job: int, worker: int, node: str, now: int, name: str = "") -> None:
        """A pod came to a node; one of the cluster file with its name."""
        self._open[uid] = len(self.job)
        if job < 0:
            self.others[len(self.job)] = name
        self.job.append(job)
        self.worker.append(worker)
        self.node.append(node)
        self.begin.append(now)
        self.end.append(-1)
        self.how.append("done")

    def preempted(self, now: int, preemptor: int, uids: list[str]) -> None:
        """Pods are evicted for a preemptor."""
        stays = tuple(self._open[uid] for uid in uids if uid in self._open)
        for stay in stays:
            self.how[stay] = "preempted"
        self.preemptions.append((now, preemptor, stays))

    def name(self, stay: int, jobs: Sequence[str]) -> str:
        """Return the name of its job, or of the pod of the cluster file; `jobs` are the names of jobs."""
        return jobs[self.job[stay]] if self.job[stay] >= 0 else self.others[stay]

    def lost(self, uid: str) -> None:
        """A pod goes because a node failed; of one that was preempted before, that is what is kept."""
        stay = self._open.get(uid)
        if stay is not None and self.how[stay] == "done":
            self.how[stay] = "lost"

    def gone(self, uid: str, now: int) -> None:
        """A pod left its node."""
        stay = self._open.pop(uid, None)
        if stay is not None:
            self.end[stay] = now

    def close(self, now: int) -> None:
        """The run is accounted for: what is there is unfinished."""
        for stay in self._open.values():
            self.end[stay] = now
            if self.how[stay] == "done":
                self.how[stay] = "unfinished"
