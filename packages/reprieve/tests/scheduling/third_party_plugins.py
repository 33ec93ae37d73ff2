"""Plugins as other authors might write them: good ones, and one for every way to go wrong.

They use the public surface alone; in the eyes of the product they are third-party because of the package they are in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

import reprieve as r


class PoolArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Args as a configuration has them."""

    wanted_nodes: tuple[str, ...] = ()
    score: int = 100


class Wants(r.PerNodeFilter, r.PerNodeScore):
    """Lets pods onto some nodes only, or merely prefers them; one node at a time."""

    name: ClassVar[str] = "Wants"
    args_type: ClassVar[type[Any] | None] = PoolArgs

    def __init__(self, args: PoolArgs) -> None:
        if args.score > 1000:
            raise ValueError("no score is that high")
        self.args = args

    def filter_node(self, state: r.CycleState, row: int) -> tuple[str, bool] | None:
        good = state.cluster.nodes.names[row] in self.args.wanted_nodes or not self.args.wanted_nodes
        return None if good else ("node(s) are not wanted", False)

    def score_node(self, state: r.CycleState, row: int) -> int:
        return self.args.score if state.cluster.nodes.names[row] == "n3" else 0


class Vectorised(r.ScorePlugin):
    """Prefers the last node by row; all nodes at once."""

    name: ClassVar[str] = "Vectorised"
    scope: ClassVar[r.Scope] = r.Scope.STATIC

    def score(self, state: r.CycleState, rows: r.Rows) -> r.Scores:
        found: r.Scores = np.arange(len(state.cluster.nodes), dtype=np.int64)[rows] * 10
        return found


class Clash(Wants):
    """Calls itself like one that comes with the product."""

    name: ClassVar[str] = "NodeName"


class Nameless(Wants):
    name: ClassVar[str] = ""


class NoPoint(r.Plugin):
    """Extends nothing."""

    name: ClassVar[str] = "NoPoint"


class NoPlugin:
    """Something else."""


class NeedsArgs(r.PerNodeFilter):
    """Its constructor wants an argument that is never given."""

    name: ClassVar[str] = "NeedsArgs"

    def __init__(self, what: str) -> None:
        self.what = what


class BadEvents(r.PerNodeFilter):
    """Cannot say what it waits for."""

    name: ClassVar[str] = "BadEvents"

    def events(self) -> r.Hints:
        raise KeyError("by design")


def everything() -> type[r.Plugin]:
    """A plugin class at every extension point, with no opinion."""

    class Everything(
        r.PreEnqueuePlugin,
        r.FilterPlugin,
        r.PostFilterPlugin,
        r.PodGroupPostFilterPlugin,
        r.ScorePlugin,
        r.ReservePlugin,
        r.PermitPlugin,
        r.PreBindPlugin,
        r.BindPlugin,
        r.PostBindPlugin,
        r.PlacementGeneratePlugin,
        r.PlacementScorePlugin,
        r.PlacementFeasiblePlugin,
        r.SignPlugin,
    ):
        name: ClassVar[str] = "Everything"
        scope: ClassVar[r.Scope] = r.Scope.CLUSTER

        def pre_enqueue(self, cluster: r.ClusterState, pod: r.PodRecord) -> r.Status:
            return r.SUCCESS

        def filter(self, state: r.CycleState, rows: r.Rows) -> r.Codes:
            return np.zeros(r.row_count(state.cluster, rows), dtype=np.int8)

        def reasons(self, state: r.CycleState, rows: r.Rows) -> list[tuple[str, r.Mask]]:
            return []

        def post_filter(self, state: r.CycleState, diagnosis: r.Diagnosis) -> r.PostFilterResult:
            return r.PostFilterResult(r.Status(r.Code.UNSCHEDULABLE, "nothing helps", self.name))

        def pod_group_post_filter(self, attempt: r.PodGroupAttempt) -> r.PostFilterResult:
            return r.PostFilterResult(r.Status(r.Code.UNSCHEDULABLE, "nothing helps", self.name))

        def score(self, state: r.CycleState, rows: r.Rows) -> r.Scores:
            return np.zeros(r.row_count(state.cluster, rows), dtype=np.int64)

        def score_placement(
            self, cluster: r.ClusterState, group: r.Group, placement: r.Placement, assigned: r.Assigned
        ) -> int:
            return 0

        def sign(self, pod: r.PodRecord) -> bytes | None:
            return b""

    return Everything


def behaving(method: str, does: Callable[..., Any], **attributes: Any) -> r.Plugin:
    """A plugin at every extension point that does as told in one method."""
    kind = type(
        "Everything", (everything(),), {method: lambda self, *args, **kwargs: does(*args, **kwargs), **attributes}
    )
    kind.__module__ = __name__
    made: r.Plugin = kind()
    return made


class Sleeper(r.PerNodeFilter):
    """Its filter waits until it is let go, for the given pods; everything else is fine."""

    name: ClassVar[str] = "Sleeper"

    def __init__(self, pods: Sequence[str] = ("slow",)) -> None:
        self.pods = pods
        self.let_go = threading.Event()
        self.calls = 0

    def filter_node(self, state: r.CycleState, row: int) -> tuple[str, bool] | None:
        self.calls += 1
        if state.pod.name in self.pods:
            self.let_go.wait(60)
        return None


class Spinner(r.PerNodeFilter):
    """Its filter runs in pure Python until it is let go."""

    name: ClassVar[str] = "Spinner"

    def __init__(self) -> None:
        self.let_go = False

    def filter_node(self, state: r.CycleState, row: int) -> tuple[str, bool] | None:
        while not self.let_go:
            sum(range(100))
        return None


class Meddler(r.PodGroupPostFilterPlugin):
    """Asks for the group's algorithm, and changes the cluster cache itself."""

    name: ClassVar[str] = "Meddler"

    def __init__(self) -> None:
        self.found: list[tuple[r.PodGroupAssignment, str]] = []
        self.meddle = False

    def pod_group_post_filter(self, attempt: r.PodGroupAttempt) -> r.PostFilterResult:
        self.found.append((attempt.run(), threading.current_thread().name))
        if self.meddle:
            with attempt.cluster.trial():
                pass
        return r.PostFilterResult(r.Status(r.Code.UNSCHEDULABLE, "looked", self.name))
