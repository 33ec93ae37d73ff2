"""Six policies for shared GPUs (replay.md 5), of "Beware of Fragmentation" (USENIX ATC 2023).

A pod asks for `alibabacloud.com/gpu-milli`: below 1000 for a part of one GPU, else for whole ones.  An amount per node
does not say on which GPU there is room, so each policy keeps the room of every GPU by itself: a filter says whether the
pod fits on the GPUs of a node as they are taken, a score ranks the nodes, and Reserve notes which GPUs a pod got.

Which GPU that is: the fullest that has room for a part, and free ones in their order for whole GPUs; FGD and Random
choose in their own way.
"""

import zlib
from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

import reprieve

GPU_MILLI = "alibabacloud.com/gpu-milli"
MODEL_LABEL = "gpu-model"
MOST_CPU, MOST_GPU = 128_000, 8_000
"""The largest node of the trace: what amounts are divided by."""
SLOTS = 8
"""The most GPUs of a node that are looked at."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Room:
    """Free thousandths of every GPU, brought up to date row by row.

    `free`: int64[rows, SLOTS], 0 where there is no GPU.  Which GPUs a pod has is kept by UID as long as the pod is
    there; a pod that came from elsewhere is put where the policy would have put it.
    """

    def __init__(self, choose: "reprieve.Plugin") -> None:
        self._policy = choose
        self.free: Ints = np.zeros((0, SLOTS), dtype=np.int64)
        self.gpus: Ints = np.zeros(0, dtype=np.int64)
        self._seen: Ints = np.zeros((0, 3), dtype=np.int64)
        self._taken: dict[str, tuple[int, ...]] = {}

    def look(self, cluster: reprieve.ClusterState, rows: reprieve.Rows) -> Ints:
        """Bring those rows up to date; returns their numbers."""
        nodes, resources = cluster.nodes, cluster.resources
        count = len(nodes)
        column, pods = resources.column(GPU_MILLI), resources.column("pods")
        nodes.fit_columns()
        if len(self.free) < count:
            more = count - len(self.free)
            self.free = np.vstack([self.free, np.zeros((more, SLOTS), dtype=np.int64)])
            self.gpus = np.concatenate([self.gpus, np.zeros(more, dtype=np.int64)])
            self._seen = np.vstack([self._seen, np.full((more, 3), -1, dtype=np.int64)])
        numbers: Ints = np.arange(count, dtype=np.int64)[rows] if isinstance(rows, slice) else rows
        now = np.stack([nodes.allocatable[column], nodes.used[column], nodes.used[pods]], axis=1)[numbers]
        stale = (now != self._seen[numbers]).any(axis=1)
        for row in numbers[stale].tolist():
            self._recount(cluster, row, int(nodes.allocatable[column, row]))
        self._seen[numbers] = now
        return numbers

    def take(self, cluster: reprieve.ClusterState, pod: reprieve.PodRecord, row: int) -> None:
        """The pod gets GPUs of the row: those that the policy chooses."""
        asked = pod.signature.amounts.get(GPU_MILLI, 0)
        if not asked:
            return
        self._taken.pop(pod.uid, None)
        there = cluster.nodes.pods[row]
        before = {uid: other for uid, other in there.items() if uid != pod.uid}
        free = self._counted(before, int(self.gpus[row]), cluster, row)
        self._taken[pod.uid] = self._policy.choose_gpus(cluster, pod, row, free, asked)  # type: ignore[attr-defined]
        self._seen[row] = -1
        if len(self._taken) > 2 * len(cluster.pods) + 64:
            self._taken = {uid: gpus for uid, gpus in self._taken.items() if uid in cluster.pods}

    def forget(self, uid: str) -> None:
        """The pod did not get there after all."""
        self._taken.pop(uid, None)
        self._seen[:] = -1

    def _recount(self, cluster: reprieve.ClusterState, row: int, milli: int) -> None:
        self.gpus[row] = min(milli // 1000, SLOTS)
        self.free[row] = self._counted(cluster.nodes.pods[row], int(self.gpus[row]), cluster, row)

    def _counted(
        self, pods: dict[str, reprieve.PodRecord], gpus: int, cluster: reprieve.ClusterState, row: int
    ) -> Ints:
        free = np.zeros(SLOTS, dtype=np.int64)
        free[:gpus] = 1000
        for uid, pod in pods.items():
            asked = pod.signature.amounts.get(GPU_MILLI, 0)
            if not asked:
                continue
            taken = self._taken.get(uid)
            if taken is None:
                taken = self._policy.choose_gpus(cluster, pod, row, free, asked)  # type: ignore[attr-defined]
                self._taken[uid] = taken
            for gpu in taken:
                free[gpu] -= min(asked, 1000)
        return free


def fullest(free: Ints, asked: int) -> tuple[int, ...]:
    """The fullest GPU that has room for a part; the first free ones for whole GPUs. `free`: int64[SLOTS]."""
    if asked < 1000:
        fitting = np.flatnonzero(free >= asked)
        return (int(fitting[np.argmin(free[fitting])]),) if len(fitting) else ()
    return tuple(np.flatnonzero(free == 1000)[: asked // 1000].tolist())


class SharedGpus(reprieve.FilterPlugin, reprieve.ScorePlugin, reprieve.ReservePlugin):
    """What the policies have in common; each says how it ranks nodes, and may say which GPU it takes."""

    scope: ClassVar[reprieve.Scope] = reprieve.Scope.NODE

    def __init__(self) -> None:
        self.room = Room(self)

    def choose_gpus(
        self, cluster: reprieve.ClusterState, pod: reprieve.PodRecord, row: int, free: Ints, asked: int
    ) -> tuple[int, ...]:
        """The GPUs a pod takes of a node with that room."""
        return fullest(free, asked)

    def free_per_gpu(self, cluster: reprieve.ClusterState) -> Ints:
        """Free thousandths, int64[rows, SLOTS]: what a replay measures fragmentation by."""
        self.room.look(cluster, slice(None))
        return self.room.free[: len(cluster.nodes)]

    def pre_filter(self, state: reprieve.CycleState) -> reprieve.Status:
        """Pods without GPUs fit anywhere, as far as this is concerned."""
        return reprieve.SUCCESS if asked_of(state) else reprieve.Status(reprieve.Code.SKIP)

    def filter(self, state: reprieve.CycleState, rows: reprieve.Rows) -> reprieve.Codes:
        """Whether a GPU has room for a part, or enough of them are free."""
        numbers = self.room.look(state.cluster, rows)
        asked, free = asked_of(state), self.room.free[numbers]
        fits = (free >= asked).any(axis=1) if asked < 1000 else (free == 1000).sum(axis=1) >= asked // 1000
        codes: reprieve.Codes = np.where(fits, reprieve.FITS, reprieve.UNSCHEDULABLE).astype(np.int8)
        return codes

    def reasons(self, state: reprieve.CycleState, rows: reprieve.Rows) -> list[tuple[str, reprieve.Mask]]:
        """The same for all rows."""
        return [("no GPU of the node(s) has room", np.ones(reprieve.row_count(state.cluster, rows), dtype=np.bool_))]

    def reserve(self, state: reprieve.CycleState, row: int) -> reprieve.Status:
        """Note which GPUs the pod gets."""
        self.room.look(state.cluster, np.array([row], dtype=np.int64))
        self.room.take(state.cluster, state.pod, row)
        return reprieve.SUCCESS

    def unreserve(self, state: reprieve.CycleState, row: int) -> None:
        """It does not get them."""
        self.room.forget(state.pod.uid)

    def score(self, state: reprieve.CycleState, rows: reprieve.Rows) -> reprieve.Scores:
        """0..100 for each row."""
        numbers = self.room.look(state.cluster, rows)
        scores: reprieve.Scores = np.clip(self.rank(state, numbers), 0, 100).astype(np.int64)
        return scores

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """The policy's own: a number from 0 to 100 for each row, cut to whole ones."""
        raise NotImplementedError

    def events(self) -> reprieve.Hints:
        """Room comes when pods go, or with nodes."""
        kinds = (reprieve.EventKind.POD_GONE, reprieve.EventKind.NODE_ADDED, reprieve.EventKind.NODE_CHANGED)
        return dict.fromkeys(kinds, reprieve.always)


def asked_of(state: reprieve.CycleState) -> int:
    """Thousandths of GPUs that the pod asks for."""
    return state.signature.amounts.get(GPU_MILLI, 0)


def free_cpu(cluster: reprieve.ClusterState, rows: Ints) -> Ints:
    """Milli-cores that are free on each row."""
    nodes, cpu = cluster.nodes, cluster.resources.column("cpu")
    left: Ints = (nodes.allocatable[cpu] - nodes.used[cpu])[rows]
    return left


class Random(SharedGpus):
    """Any node that fits, and any GPU of it: all scores are equal, so the seed of the run decides."""

    name: ClassVar[str] = "Random"

    def choose_gpus(
        self, cluster: reprieve.ClusterState, pod: reprieve.PodRecord, row: int, free: Ints, asked: int
    ) -> tuple[int, ...]:
        """Any that fits, by the pod's UID."""
        if asked >= 1000:
            return fullest(free, asked)
        fitting = np.flatnonzero(free >= asked)
        return (int(fitting[zlib.crc32(f"{pod.uid}/{row}".encode()) % len(fitting)]),) if len(fitting) else ()

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """All the same."""
        return np.zeros(len(rows), dtype=np.int64)


class BestFit(SharedGpus):
    """Where the least is left over: CPU and GPU as shares of the largest node, half each."""

    name: ClassVar[str] = "BestFit"

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """100 is nothing left over."""
        cpu = free_cpu(state.cluster, rows) - state.signature.amounts.get("cpu", 0)
        gpu = self.room.free[rows].sum(axis=1) - asked_of(state)
        left: Floats = (1.0 - (0.5 * cpu / MOST_CPU + 0.5 * gpu / MOST_GPU)) * 100
        return left


class DotProd(SharedGpus):
    """Where what is free and what is asked for are least alike: Tetris' dot product turned around."""

    name: ClassVar[str] = "DotProd"

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """100 is orthogonal."""
        asked_cpu = state.signature.amounts.get("cpu", 0) / MOST_CPU
        asked_gpu = asked_of(state) / MOST_GPU
        cpu = free_cpu(state.cluster, rows) / MOST_CPU
        gpu = self.room.free[rows].sum(axis=1) / MOST_GPU
        found: Floats = 100 * (1 - (cpu * asked_cpu + gpu * asked_gpu) / 2)
        return found


class GpuClustering(SharedGpus):
    """Pods of the same kind together: parts of a GPU, one GPU, two, ...; among those the fuller node."""

    name: ClassVar[str] = "GpuClustering"

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """Score from 75 where only its kind runs, from 50 with others, from 25 where no task runs, else below."""
        asked = asked_of(state)
        if not asked:
            return np.zeros(len(rows), dtype=np.int64)
        kind = _kind(asked)
        there = [self._kinds(state.cluster, row) for row in rows.tolist()]
        base = np.array([(3 if len(kinds) == 1 else 2) if kind in kinds else 0 if kinds else 1 for kinds in there])
        left = self.room.free[rows].sum(axis=1)
        ranks: Ints = 25 * (MOST_GPU - left) // MOST_GPU + 25 * base
        return ranks

    def _kinds(self, cluster: reprieve.ClusterState, row: int) -> set[int]:
        amounts = (pod.signature.amounts.get(GPU_MILLI, 0) for pod in cluster.nodes.pods[row].values())
        return {_kind(asked) for asked in amounts if asked}


def _kind(asked: int) -> int:
    return 0 if asked < 1000 else asked // 1000


class GpuPacking(SharedGpus):
    """Parts of GPUs that are in use first, then free GPUs of nodes in use, then nodes that are free."""

    name: ClassVar[str] = "GpuPacking"

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """Up to 100 for GPUs in use, 50 for free ones on a node in use, 33 on a free node."""
        asked = asked_of(state)
        if not asked:
            return np.zeros(len(rows), dtype=np.int64)
        free, gpus = self.room.free[rows], self.room.gpus[rows]
        whole = (free == 1000).sum(axis=1)
        idle_node = np.maximum(33 - whole, whole)
        if asked >= 1000:
            return np.where(whole == gpus, idle_node, np.maximum(50 - asked // 1000, 33))
        fitting = np.where(free >= asked, free, 1 << 20)
        tightest = fitting.min(axis=1)
        shared = np.maximum(100 - (tightest * 100 // 1000) // 10, 50)
        return np.where(whole == gpus, idle_node, np.where(tightest == 1000, 49, shared))


class TypicalPod(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A kind of pods of the workload that FGD expects. `weight`: how many of them there are."""

    cpu_milli: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()
    weight: float = 1.0


class FgdArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`pluginConfig` args."""

    typical_pods: tuple[TypicalPod, ...] = ()


class FGD(SharedGpus):
    """Fragmentation gradient descent: where the free GPUs that typical pods cannot use grow least.

    What a typical pod cannot use of a node: everything, where the node cannot take it; else GPUs with less room than it
    asks of each.  The fragmentation of a node is the mean over typical pods; a node is the better, the less it grows.
    """

    name: ClassVar[str] = "FGD"
    args_type: ClassVar[type[FgdArgs] | None] = FgdArgs

    def __init__(self, args: FgdArgs | None = None) -> None:
        super().__init__()
        typical = (args or FgdArgs()).typical_pods or (TypicalPod(gpu_milli=1000),)
        total = sum(pod.weight for pod in typical)
        self._share: Floats = np.array([pod.weight / total for pod in typical])
        self._cpu: Ints = np.array([pod.cpu_milli for pod in typical], dtype=np.int64)
        self._gpus: Ints = np.array([max(1, pod.gpu_milli // 1000) for pod in typical], dtype=np.int64)
        self._models = [frozenset(pod.models) for pod in typical]
        parts = [min(pod.gpu_milli, 1000) for pod in typical]
        self._parts: Ints = np.array(sorted(set(parts)), dtype=np.int64)
        self._part_of: Ints = np.searchsorted(self._parts, parts)
        self._never: npt.NDArray[np.bool_] = np.array(parts) == 0
        """Pods without GPUs use none of what is free."""
        self._allowed: dict[str, npt.NDArray[np.bool_]] = {}

    def fragments(self, free: Ints, cpu: Ints, models: "list[str]") -> Floats:
        """Mean thousandths that cannot be used of nodes with `free` int64[k, SLOTS], `cpu` int64[k] and models."""
        total = free.sum(axis=1)
        enough = free[:, None, :] >= self._parts[None, :, None]
        counts = enough.sum(axis=2)[:, self._part_of]
        small = np.where(enough, 0, free[:, None, :]).sum(axis=2)[:, self._part_of]
        allowed = np.stack([self._of_model(model) for model in models])
        takes = (counts >= self._gpus) & (cpu[:, None] >= self._cpu) & allowed & ~self._never
        found: Floats = np.where(takes, small, total[:, None]) @ self._share
        return found

    def _of_model(self, model: str) -> npt.NDArray[np.bool_]:
        known = self._allowed.get(model)
        if known is None:
            known = self._allowed[model] = np.array([not only or model in only for only in self._models])
        return known

    def rank(self, state: reprieve.CycleState, rows: Ints) -> Floats | Ints:
        """50 is as before, 100 much less fragmentation; the best GPU counts."""
        asked, asked_cpu = asked_of(state), state.signature.amounts.get("cpu", 0)
        free, cpu = self.room.free[rows], free_cpu(state.cluster, rows)
        labels = state.cluster.nodes.labels
        models = [labels[row].get(MODEL_LABEL, "") for row in rows.tolist()]
        ranks = np.zeros(len(rows))
        # Nodes in the same state are ranked once: most nodes of an empty cluster are identical.
        alike: dict[tuple[bytes, int, str], list[int]] = {}
        for at, model in enumerate(models):
            alike.setdefault((free[at].tobytes(), int(cpu[at]), model), []).append(at)
        kinds = list(alike.values())
        first = [kind[0] for kind in kinds]
        before = self.fragments(free[first], cpu[first], [models[at] for at in first])
        best = self._best(free[first], cpu[first] - asked_cpu, [models[at] for at in first], asked, before)
        for kind, rank in zip(kinds, best.tolist(), strict=True):
            ranks[kind] = rank
        return ranks

    def _best(self, free: Ints, cpu: Ints, models: "list[str]", asked: int, before: Floats) -> Ints:
        """The rank of each node with the pod on the GPU that is best for it; 0 where it does not fit."""
        if not asked or asked >= 1000:
            after = free.copy()
            if asked:
                order = np.cumsum(free == 1000, axis=1)
                after[(free == 1000) & (order <= asked // 1000)] = 0
            return _ranks(before - self.fragments(after, cpu, models))
        best = np.zeros(len(free), dtype=np.int64)
        node, gpu = np.nonzero(free >= asked)
        # GPUs of a node with the same free capacity are the same choice.
        chosen: dict[tuple[int, int], int] = {}
        for at, (row, which) in enumerate(zip(node.tolist(), gpu.tolist(), strict=True)):
            chosen.setdefault((row, int(free[row, which])), at)
        picked = np.array(sorted(chosen.values()), dtype=np.int64)
        if not len(picked):
            return best
        node, gpu = node[picked], gpu[picked]
        after = free[node]
        after[np.arange(len(node)), gpu] -= asked
        ranks = _ranks(before[node] - self.fragments(after, cpu[node], [models[row] for row in node.tolist()]))
        np.maximum.at(best, node, ranks)
        return best

    def choose_gpus(
        self, cluster: reprieve.ClusterState, pod: reprieve.PodRecord, row: int, free: Ints, asked: int
    ) -> tuple[int, ...]:
        """The GPU on which a part fragments least."""
        if asked >= 1000:
            return fullest(free, asked)
        gpus = np.flatnonzero(free >= asked)
        if not len(gpus):
            return ()
        after = np.repeat(free[None, :], len(gpus), axis=0)
        after[np.arange(len(gpus)), gpus] -= asked
        left = free_cpu(cluster, np.array([row], dtype=np.int64))
        model = cluster.nodes.labels[row].get(MODEL_LABEL, "")
        before = self.fragments(free[None, :], left, [model])
        found = _ranks(before - self.fragments(after, np.repeat(left, len(gpus)), [model] * len(gpus)))
        return (int(gpus[int(np.argmax(found))]),)


def _ranks(less: Floats) -> Ints:
    """Whole numbers from 0 to 100 of thousandths by which fragmentation shrinks: a sigmoid."""
    ranks: Ints = (100 / (1 + np.exp(-less / 1000))).astype(np.int64)
    return ranks
