"""HTTP extenders without I/O: the requests, and the meaning of the answers (scheduling.md 6).

One plugin represents all extenders of a configuration, like upstream's single name for them in messages and hints. Each
extender has a `Transport` that performs a request; `reprieve.live.extenders` has that of the live scheduler.

Rules (kubernetes/kubernetes pkg/scheduler/extender.go, schedule_one.go, framework/preemption; the JSON is
k8s.io/kube-scheduler/extender/v1, with case-insensitive field names): Extenders are called in order, ignorable ones
last, each with the nodes that passed all earlier checks. A node that an answer neither lists nor names as failed counts
as unresolvable. Scores are 0..10 times the extender's weight, scaled to the framework's range; an extender without
valid scores adds none. The first interested extender that binds performs the binding. An extender is interested in a
pod if it manages one of the requested resources, or manages none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.framework.configuration import Extender
from reprieve.framework.extenders import CandidatePlugin, VictimsOn
from reprieve.framework.instructions import CallExtender
from reprieve.framework.plugin import (
    MAX_NODE_SCORE,
    BindPlugin,
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    Rows,
    Scope,
    ScorePlugin,
    Scores,
    row_numbers,
)
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.framework.status import FITS, SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, PluginError, Status

R = TypeVar("R")
MAX_EXTENDER_PRIORITY = 10
_SCALE = MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY
_LARGEST = 1 << 38
"""The maximum contribution of one extender to a node's score, so that sums stay exact."""
NOT_LISTED = "node(s) were left out by an extender"


class ExtenderError(Exception):
    """An extender is unreachable, refuses, or returns an invalid answer."""


class Transport(Protocol):
    """The connection to one extender."""

    def call(self, verb: str, body: Mapping[str, Any]) -> Any:
        """POST `body` to the verb; return the answer's JSON as plain values. Raises ExtenderError."""

    def pod(self, pod: PodRecord) -> Mapping[str, Any]:
        """Return the v1.Pod of the API. Raises ExtenderError if it is unknown."""

    def node(self, name: str) -> Mapping[str, Any]:
        """Return the v1.Node of the API. Raises ExtenderError if it is unknown."""


@dataclass(frozen=True, slots=True)
class HttpExtender:
    """An extender's settings and transport."""

    settings: Extender
    transport: Transport

    @property
    def name(self) -> str:
        """Return its name in messages: its address."""
        return self.settings.url_prefix

    def concerns(self, pod: PodRecord) -> bool:
        """Return whether it manages all pods, or a resource that the pod requests."""
        managed = self.settings.managed_resources
        return not managed or any(resource.name in pod.signature.amounts for resource in managed)


class Extenders(FilterPlugin, ScorePlugin, BindPlugin, CandidatePlugin):
    """All extenders of a configuration; see the module docstring. `note` receives ignored failures."""

    name = "Extender"
    scope: ClassVar[Scope] = Scope.CLUSTER
    outside: ClassVar[bool] = True
    blocking: ClassVar[bool] = True

    def __init__(
        self, extenders: Sequence[HttpExtender], note: Callable[[PluginIncident], None] = lambda _: None
    ) -> None:
        self._extenders = sorted(extenders, key=lambda extender: extender.settings.ignorable)
        self._note = note

    def _concerned(self, pod: PodRecord, verb: Callable[[Extender], str]) -> list[HttpExtender]:
        return [extender for extender in self._extenders if verb(extender.settings) and extender.concerns(pod)]

    # -- filter ----------------------------------------------------------------------------------------

    def concerns(self, state: CycleState) -> bool:
        return bool(self._concerned(state.pod, lambda settings: settings.filter_verb))

    def pre_filter(self, state: CycleState) -> Status:
        """See `FilterPlugin.pre_filter`; answers are cached for the attempt."""
        return SUCCESS if self.concerns(state) else SKIP

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`. Raises PluginError if an extender that is not ignorable fails."""
        answers = self._answers(state, row_numbers(state.cluster, rows))
        return np.array([answers[row][0] for row in row_numbers(state.cluster, rows)], dtype=np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        numbers = row_numbers(state.cluster, rows)
        answers = self._answers(state, numbers)
        texts: dict[str, Mask] = {}
        for index, row in enumerate(numbers):
            if answers[row][0] != FITS:
                texts.setdefault(answers[row][1], np.zeros(len(numbers), dtype=np.bool_))[index] = True
        return list(texts.items())

    def _answers(self, state: CycleState, rows: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return (code, reason) for at least these rows; each row is requested once in an attempt."""
        answers = state.data.setdefault(self.name, {})
        assert isinstance(answers, dict)
        left = [row for row in rows if row not in answers]
        for extender in self._concerned(state.pod, lambda settings: settings.filter_verb):
            if not left:
                break
            answer = self._try(extender, "Filter", partial(self._filtered, extender, state, left))
            if answer is None:
                continue
            answers.update((row, outcome) for row, outcome in answer.items() if outcome[0] != FITS)
            left = [row for row in left if answer[row][0] == FITS]
        answers.update(dict.fromkeys(left, (FITS, "")))
        return answers

    def _filtered(self, extender: HttpExtender, state: CycleState, rows: Sequence[int]) -> dict[int, tuple[int, str]]:
        answer = _object(extender.transport.call(extender.settings.filter_verb, self._args(extender, state, rows)))
        error = answer.get("error")
        if error:
            raise ExtenderError(str(error))
        listed = self._listed(extender, answer)
        names = state.cluster.nodes.names
        requested = {names[row] for row in rows}
        stray = sorted(listed - requested)
        if stray:
            raise ExtenderError(f"claims a filtered node {stray[0]!r} which is not found in the input node list")
        failed = _texts(answer.get("failednodes"), "FailedNodes")
        for_good = _texts(answer.get("failedandunresolvablenodes"), "FailedAndUnresolvableNodes")
        result = {}
        for row in rows:
            name = names[row]
            if name in listed:
                result[row] = (FITS, "")
            elif name in for_good:
                result[row] = (UNRESOLVABLE, for_good[name] or NOT_LISTED)
            elif name in failed:
                result[row] = (UNSCHEDULABLE, failed[name] or NOT_LISTED)
            else:
                result[row] = (UNRESOLVABLE, NOT_LISTED)
        return result

    def _args(self, extender: HttpExtender, state: CycleState, rows: Sequence[int]) -> dict[str, Any]:
        names = [state.cluster.nodes.names[row] for row in rows]
        cached = extender.settings.node_cache_capable
        items = None if cached else [extender.transport.node(name) for name in names]
        return {
            "Pod": extender.transport.pod(state.pod),
            "Nodes": None
            if items is None
            else {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items},
            "NodeNames": names if cached else None,
        }

    @staticmethod
    def _listed(extender: HttpExtender, answer: Mapping[str, Any]) -> set[str]:
        names, nodes = answer.get("nodenames"), answer.get("nodes")
        if extender.settings.node_cache_capable and names is not None:
            return {str(name) for name in _list(names, "NodeNames")}
        if nodes is None:
            return set()
        items = _list(_object(nodes).get("items") or [], "Nodes.items")
        return {str(_object(_object(item).get("metadata") or {}).get("name")) for item in items}

    # -- score -----------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState) -> bool:
        return bool(self._concerned(state.pod, lambda settings: settings.prioritize_verb))

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return `int64[len(rows)]`: the weighted scores of the extenders; a single node needs none, as upstream."""
        numbers = row_numbers(state.cluster, rows)
        total: npt.NDArray[np.int64] = np.zeros(len(numbers), dtype=np.int64)
        if len(numbers) < 2:
            return total
        for extender in self._concerned(state.pod, lambda settings: settings.prioritize_verb):
            try:
                priorities = self._priorities(extender, state, numbers)
            except ExtenderError as error:
                self._passed_over(extender, "Score", error)
                continue
            names = state.cluster.nodes.names
            total += np.array([priorities.get(names[row], 0) for row in numbers], dtype=np.int64)
        return total

    def _priorities(self, extender: HttpExtender, state: CycleState, rows: Sequence[int]) -> dict[str, int]:
        answer = extender.transport.call(extender.settings.prioritize_verb, self._args(extender, state, rows))
        result: dict[str, int] = {}
        for item in _list(answer if answer is not None else [], "HostPriorityList"):
            entry = _object(item)
            score = entry.get("score") or 0
            if not isinstance(score, int) or isinstance(score, bool):
                raise ExtenderError(f"Score {score!r}: expected a whole number")
            amount = score * extender.settings.weight * _SCALE
            if abs(amount) > _LARGEST:
                raise ExtenderError(f"Score {score} is too large")
            host = str(entry.get("host"))
            result[host] = result.get(host, 0) + amount
        return result

    # -- bind ------------------------------------------------------------------------------------------

    def bind(self, state: CycleState, row: int) -> CallExtender | None:
        pod = state.pod
        for extender in self._concerned(pod, lambda settings: settings.bind_verb):
            settings = extender.settings
            return CallExtender(
                url=address(settings, settings.bind_verb),
                body={
                    "PodName": pod.name,
                    "PodNamespace": pod.namespace,
                    "PodUID": pod.uid,
                    "Node": state.cluster.nodes.names[row],
                },
                seconds=settings.seconds,
                ignorable=settings.ignorable,
            )
        return None

    # -- preemption ------------------------------------------------------------------------------------

    def judges_candidates(self, state: CycleState) -> bool:
        return bool(self._concerned(state.pod, lambda settings: settings.preempt_verb))

    def judge_candidates(self, state: CycleState, candidates: Mapping[int, VictimsOn]) -> Mapping[int, Sequence[str]]:
        """See `CandidatePlugin.judge_candidates`. Raises PluginError if one that is not ignorable fails."""
        left = dict(candidates)
        for extender in self._concerned(state.pod, lambda settings: settings.preempt_verb):
            if not left:
                break
            answer = self._try(extender, "PostFilter", partial(self._judged, extender, state, left))
            if answer is not None:
                left = answer
        return {row: [pod.uid for pod in victims.pods] for row, victims in left.items()}

    def _judged(
        self, extender: HttpExtender, state: CycleState, candidates: Mapping[int, VictimsOn]
    ) -> dict[int, VictimsOn]:
        names = state.cluster.nodes.names
        cached = extender.settings.node_cache_capable
        victims = {
            names[row]: {
                "Pods": [{"UID": pod.uid} if cached else extender.transport.pod(pod) for pod in victims.pods],
                "NumPDBViolations": victims.violations,
            }
            for row, victims in candidates.items()
        }
        body = {
            "Pod": extender.transport.pod(state.pod),
            "NodeNameToVictims": None if cached else victims,
            "NodeNameToMetaVictims": victims if cached else None,
        }
        answer = _object(extender.transport.call(extender.settings.preempt_verb, body))
        remaining = answer.get("nodenametometavictims") or {}
        if not isinstance(remaining, Mapping):
            raise ExtenderError("NodeNameToMetaVictims: expected an object")
        result = {}
        for name, chosen in remaining.items():
            row = state.cluster.nodes.row_of.get(name)
            if row is None or row not in candidates:
                raise ExtenderError(f"claims to preempt on node {name!r}, which is none of the candidates")
            pods_on_node = {pod.uid: pod for pod in state.cluster.nodes.pods[row].values()}
            pods = []
            for item in _list(_object(chosen or {}).get("pods") or [], "Pods"):
                uid = str(_object(item).get("uid"))
                if uid not in pods_on_node:
                    raise ExtenderError(
                        f"claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not found on that node"
                    )
                pods.append(pods_on_node[uid])
            if pods or not candidates[row].pods:
                violations = _object(chosen or {}).get("numpdbviolations") or 0
                result[row] = VictimsOn(tuple(pods), int(violations))
            elif not extender.settings.ignorable:
                raise ExtenderError(f"expected at least one victim pod on node {name!r}")
        return result

    # -- failures --------------------------------------------------------------------------------------

    def _try(self, extender: HttpExtender, point: str, call: Callable[[], R]) -> R | None:
        """Return the result of the call; None if an ignorable extender failed. Raises PluginError for others."""
        try:
            return call()
        except ExtenderError as error:
            if not extender.settings.ignorable:
                raise PluginError(self.name, point, ExtenderError(f"{extender.name}: {error}")) from error
            self._passed_over(extender, point, error)
            return None

    def _passed_over(self, extender: HttpExtender, point: str, error: ExtenderError) -> None:
        self._note(PluginIncident(self.name, point, "error", f"extender {extender.name} is skipped: {error}"))


def address(settings: Extender, verb: str) -> str:
    """Return the URL of a verb."""
    return f"{settings.url_prefix.rstrip('/')}/{verb}"


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object with lower-case keys, because Go reads keys case-insensitively."""
    if not isinstance(value, Mapping):
        raise ExtenderError(f"expected an object, found {type(value).__name__}")
    return {str(key).lower(): item for key, item in value.items()}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ExtenderError(f"{where}: expected a list, found {type(value).__name__}")
    return value


def _texts(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ExtenderError(f"{where}: expected an object, found {type(value).__name__}")
    return {str(name): str(text) for name, text in value.items()}
