"""The accounts of each job and of the GPUs, in whole numbers (replay.md 3.3, 3.4, 4.3).

Times are milliseconds since the start of the replay, GPUs are thousandths. GPU-time is their product, and exact:
allocated = useful + lost + restart.

A job's clock runs while it has its minimum of workers. It first pays the restart cost, then counts work. At a
checkpoint, by the clock since the start of the run, the counted work is saved. `pending` is the GPU-time of unsaved
work, which becomes useful or lost.
"""

from collections.abc import Sequence

from reprieve.cluster.pods import PodRecord
from reprieve.replay.job_list import ReplayJob

WAITING, RUNNING, DONE = range(3)


class ReplayAccount:
    """The state and the results of one job."""

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
        """By UID of the existing pods, with the number of the worker."""
        self.counted: set[str] = set()
        """UIDs of the pods that are on nodes and not terminating."""
        self.group = ""
        """`namespace/name` of its current pod group."""
        self.beside = 0
        """Number of earlier jobs in the list with the same submission time."""
        self.round = 0
        """Number of times that it was queued as a whole."""
        self.serial = 0
        """Number of pods created."""
        self.token = 0
        """Increases when the clock starts or stops, which cancels a scheduled end."""
        self.at = 0
        """GPU-time is accounted for until then."""
        self.holding = 0
        """Number of pods on nodes."""
        self.working = 0
        """Number of those that are not terminating: the size of `counted`."""
        self.done = 0
        """Milliseconds of work that is not lost."""
        self.saved = 0
        """Milliseconds of work before the last checkpoint."""
        self.since = 0
        """Milliseconds since the last checkpoint, or the start of the run: it saves by the clock (replay.md 3.6)."""
        self.restart_left = 0
        self.satisfied = 0
        """Milliseconds in which it had its minimum."""
        self.pending = self.useful = self.lost = self.restart = self.allocated = 0
        self.runs = 0
        self.evicted_runs = 0
        self.lost_runs = 0
        """Runs that ended by a node failure."""
        self.evictions = 0
        self.first_start: int | None = None
        self.end: int | None = None

    def accrue(self, now: int, checkpoint: int | None) -> int:
        """Account for the time since the last call, and return the GPU-time lost in it."""
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
        """Account for the loss of the work since the last checkpoint, and return its GPU-time."""
        thrown, self.pending = self.pending, 0
        self.lost += thrown
        self.done, self.since = self.saved, 0
        return thrown

    def keep(self) -> None:
        """Count pending work as useful: the work is done, or the replay ends."""
        self.useful += self.pending
        self.pending = 0
        self.saved, self.since = self.done, 0

    def forget(self) -> None:
        """Free the state of an ended job."""
        self.pods = _NO_PODS
        self.counted = _NO_UIDS
        self.group = ""


_NO_PODS: dict[str, tuple[PodRecord, int]] = {}
_NO_UIDS: set[str] = set()


class Series:
    """Means over equal intervals of amounts that change in steps, in bounded memory (replay.md 4.9).

    A point covers `width` milliseconds; above `MOST` points, each pair is merged.
    """

    MOST = 1024

    def __init__(self, names: tuple[str, ...], width: int = 1000) -> None:
        self.names = names
        self.width = width
        self.sums: list[list[int]] = [[] for _ in names]
        """By name and point: amount × milliseconds."""
        self.at = 0

    def advance(self, now: int, amounts: tuple[int, ...]) -> None:
        """Add the amounts that applied since the last call."""
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
        """Add an amount to the current point."""
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
    """When and where pods ran, with their preemptors, for figures. Parallel lists with an entry per stay on a node."""

    def __init__(self) -> None:
        self.job: list[int] = []
        """-1: a pod of the cluster file."""
        self.others: dict[int, str] = {}
        """Names of pods of the cluster file, by stay."""
        self.worker: list[int] = []
        self.node: list[str] = []
        self.begin: list[int] = []
        self.end: list[int] = []
        """-1 until the pod has left."""
        self.how: list[str] = []
        """`done`, `preempted`, `lost` (by a failure of its node or of a node of its gang), `unfinished`."""
        self.preemptions: list[tuple[int, int, tuple[int, ...]]] = []
        """(time, job of the preemptor or -1 for a pod of the cluster file, stays of the victims)."""
        self._open: dict[str, int] = {}

    def placed(self, uid: str, job: int, worker: int, node: str, now: int, name: str = "") -> None:
        """Begin the stay of a pod; `name`: of a pod of the cluster file."""
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
        """Record the eviction of pods for a preemptor."""
        stays = tuple(self._open[uid] for uid in uids if uid in self._open)
        for stay in stays:
            self.how[stay] = "preempted"
        self.preemptions.append((now, preemptor, stays))

    def name(self, stay: int, jobs: Sequence[str]) -> str:
        """Return the name of the job, or of the pod of the cluster file; `jobs`: names of the jobs."""
        return jobs[self.job[stay]] if self.job[stay] >= 0 else self.others[stay]

    def lost(self, uid: str) -> None:
        """Record the loss of a pod by a node failure, unless it was preempted before."""
        stay = self._open.get(uid)
        if stay is not None and self.how[stay] == "done":
            self.how[stay] = "lost"

    def gone(self, uid: str, now: int) -> None:
        """End the stay of a pod."""
        stay = self._open.pop(uid, None)
        if stay is not None:
            self.end[stay] = now

    def close(self, now: int) -> None:
        """End the remaining stays as unfinished."""
        for stay in self._open.values():
            self.end[stay] = now
            if self.how[stay] == "done":
                self.how[stay] = "unfinished"
