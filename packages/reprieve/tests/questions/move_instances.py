"""Clusters with scattered free capacity, and the fewest pods that have to move, by an integer program
(moving.md 2).

The program is scipy's HiGHS, over how many pods of a size leave and reach each node; it shares nothing with the search.
"""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from kube_rules.manifests import Manifests
from reprieve.decisions.outcomes import Help
from reprieve.inputs.loader import load
from reprieve.python.pending_records import WaitingRecords
from reprieve.questions.changes import changed
from reprieve.questions.move_suggestions import moving
from reprieve.questions.suggestions import helped
from reprieve.questions.trials import Trials
from reprieve.simulation.plan import PlanOptions, plan
from tests import manifests

GPUS = 8
Json = dict[str, Any]
Need = tuple[int, ...]
"""GPUs, and CPUs where they matter."""


@dataclass(frozen=True)
class Scattered:
    """Free amounts by node, (need, node) of each running pod, and the need of each pending one, which are a gang."""

    free: tuple[Need, ...]
    running: tuple[tuple[Need, int], ...]
    pending: tuple[Need, ...]


def instance(seed: int, nodes: int = 32) -> Scattered:
    """Return a cluster of 8 GPUs a node at 70 to 95 % load; half of them with CPUs that are nearly as scarce."""
    draw = random.Random(seed)
    load, width = draw.uniform(0.7, 0.95), draw.choice((1, 2))
    sizes = draw.choice(((1, 2, 4, 8), (1, 2, 4), (1, 1, 2), (1, 2, 3, 5), (2, 4)))
    free: list[Need] = [(GPUS, 12 * GPUS)[:width]] * nodes
    running = []
    for _ in range(100 * nodes):
        if sum(node[0] for node in free) <= GPUS * nodes * (1 - load):
            break
        gpus = draw.choice(sizes)
        need, at = (gpus, draw.choice((2, 8, 12)) * gpus)[:width], draw.randrange(nodes)
        if all(has >= n for has, n in zip(free[at], need, strict=True)):
            free[at] = tuple(has - n for has, n in zip(free[at], need, strict=True))
            running.append((need, at))
    size = draw.choice((4, 8, 8))
    need = (size, 8 * size)[:width]
    fitting = sum(min(has // n for has, n in zip(node, need, strict=True)) for node in free)
    most = sum(node[0] for node in free) // size
    count = max(1, min(most, fitting + draw.choice((1, 1, 2, 3))))
    return Scattered(tuple(free), tuple(running), (need,) * count)


def documents(cluster: Scattered) -> list[Json]:
    """Return the cluster as manifests; several pending pods are the gang `train`."""
    cpus = (lambda need: need[1]) if len(cluster.pending[0]) > 1 else (lambda _: 0)
    nodes = [manifests.node(f"n{at:02d}", 12 * GPUS, GPUS) for at in range(len(cluster.free))]
    running = [
        manifests.pod(f"r{number:03d}", cpus(need), need[0], node=f"n{at:02d}")
        for number, (need, at) in enumerate(cluster.running)
    ]
    group = "train" if len(cluster.pending) > 1 else ""
    pending = [manifests.pod(f"train-{i}", cpus(need), need[0], group=group) for i, need in enumerate(cluster.pending)]
    return [*nodes, *running, *([manifests.gang("train", len(pending))] if group else []), *pending]


def suggested(*objects: Json) -> tuple[Help | None, Manifests]:
    """Return the suggestion to move pods that a plan of these objects has, and the input as it would then be."""
    given = load(["-"], stdin=io.BytesIO(yaml.safe_dump_all(objects).encode()))
    records = WaitingRecords()
    options = PlanOptions(observer=records)
    document = helped(plan(given, options), Trials(given, options), records.hints).plan
    pods = [help for pod in document.pods for help in pod.help if help.moves]
    helps = pods + [help for group in document.pod_groups for help in group.help if help.moves]
    found = next(iter(helps), None)
    return found, changed(given, moving(found.moves)).manifests if found is not None else given


def overfull(given: Manifests) -> list[str]:
    """Return the nodes on which more GPUs are requested than there are, and pending pods that a plan does not place."""
    used: dict[str, int] = {}
    for loaded in given.pods:
        resources = loaded.object.spec.containers[0].resources
        node = loaded.object.spec.node_name
        used[node] = used.get(node, 0) + int(resources.requests.get(manifests.GPU, "0") if resources else 0)
    pending = [pod.name for pod in plan(given, PlanOptions()).plan.pods if pod.node_name is None]
    return [*(node for node, gpus in used.items() if node and gpus > GPUS), *pending]


def fewest(cluster: Scattered, seconds: float = 60.0) -> int | None:
    """Return how many pods have to move; None: it is impossible.

    Raises TimeoutError where that is not known in time.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, width = len(cluster.free), len(cluster.pending[0])
    needs = sorted({need for need, _ in cluster.running})
    k = len(needs)
    there = np.zeros((k, n))
    for need, at in cluster.running:
        there[needs.index(need), at] += 1
    wanted, count = cluster.pending[0], len(cluster.pending)
    # Variables: leaving pods by size and node, arriving ones by size and node, pending pods by node.
    rows = np.zeros((n * width + k + 1, (2 * k + 1) * n))
    low, high = np.full(len(rows), -np.inf), np.zeros(len(rows))
    for at in range(n):
        for column in range(width):
            row = at * width + column
            rows[row, at : k * n : n] = [-need[column] for need in needs]
            rows[row, k * n + at : 2 * k * n : n] = [need[column] for need in needs]
            rows[row, 2 * k * n + at] = wanted[column]
            high[row] = cluster.free[at][column]
    for size in range(k):
        rows[n * width + size, size * n : (size + 1) * n] = 1
        rows[n * width + size, (k + size) * n : (k + size + 1) * n] = -1
        low[n * width + size] = 0
    rows[-1, 2 * k * n :] = 1
    low[-1] = high[-1] = count
    most = np.concatenate([there.ravel(), np.full(k * n, 64.0), np.full(n, 64.0)])
    cost = np.zeros(rows.shape[1])
    cost[: k * n] = 1
    found = milp(
        cost,
        constraints=LinearConstraint(rows, low, high),
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, most),
        options={"time_limit": seconds},
    )
    if found.status not in (0, 2):
        raise TimeoutError
    return round(found.fun) if found.status == 0 else None
