"""The cost of a preemption as numbers and in words, for plans, records and events (cost.md 1.6)."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from kube_rules.durations import readable_time
from kube_rules.errors import names_text
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.decisions.phrases import count
from reprieve.decisions.records import EvictionInTurn
from reprieve.preemption.criteria import LostWorkCost, RestartElsewhere, StartTime
from reprieve.preemption.lost_work import LostWork, lost_work
from reprieve.preemption.outcome import CascadeStep, Cost, Criterion, LimitKind, Preemption, SearchLimit

_MOST_STEPS: Final = 5
_MOST_NAMES: Final = 3


def by_criterion(criteria: Sequence[Criterion], cost: Cost | None) -> dict[str, float]:
    """Return the costs that are finite numbers, by the criterion's name."""
    costs = zip(criteria, cost, strict=True) if cost is not None else ()
    return {criterion.name: plain(number) for criterion, number in costs if isfinite(number)}


def plain(number: float) -> float:
    """Return integral values as int, and others rounded to three decimal places."""
    return int(number) if float(number).is_integer() else round(number, 3)


def value_text(criterion: Criterion, number: float) -> str:
    """Return a value with its unit, such as `2 pods` or `1.5 GPU-hours`, or a time."""
    if criterion.name == StartTime.name:
        return readable_time(-number) if isfinite(number) else "not started"
    if criterion.measure.endswith("-seconds"):
        return f"{number / 3600:.3g} {criterion.measure.removesuffix('seconds')}hours"
    measure = criterion.measure.removesuffix("s") if number == 1 else criterion.measure
    return f"{plain(number)} {measure}".rstrip()


def decisive(preemption: Preemption) -> tuple[Criterion, str, str] | None:
    """Return the decisive criterion with the costs of the chosen option and the runner-up, or None if there is none."""
    compared, own = preemption.compared, preemption.cost
    if compared is None or compared.cost is None or own is None or not compared.steps:
        return None
    for criterion, chosen, runner_up in zip(preemption.criteria, own, compared.cost, strict=True):
        if criterion.text == compared.steps[-1][0]:
            return criterion, value_text(criterion, chosen), value_text(criterion, runner_up)
    return None


def lost_by(cluster: ClusterState, preemption: Preemption) -> LostWork:
    """Return the work lost by all victims, and by remaining pods of gangs that the eviction breaks."""
    victims = (pod for verdict in preemption.victims for pod in verdict.unit.pods)
    return lost_work(cluster, (*victims, *preemption.left_over))


def lost_text(lost: LostWork) -> str:
    """Return a text like `3.5 GPU-hours`, with the CPU-hours of pods without GPUs; empty below one second."""
    parts = [(lost.gpu / 3600, "GPU-hours"), (lost.cpu / 3600, "CPU-hours")]
    return " and ".join(f"{hours:.3g} {unit}" for hours, unit in parts if hours >= _LEAST_HOURS)


_LEAST_HOURS: Final = 1 / 3600
"""Lost work below one second is omitted."""


def counts_work(cluster: ClusterState, preemption: Preemption, pods: Iterable[PodRecord]) -> bool:
    """Return whether messages mention the lost work of these victims.

    They do if lost work is a criterion, or if users annotate checkpoints or restart costs.
    """
    if any(criterion.name == LostWorkCost.name for criterion in preemption.criteria):
        return True
    return any(
        terms.last_checkpoint is not None or terms.checkpoint_interval is not None or terms.restart_cost is not None
        for terms in map(cluster.terms_of, pods)
    )


def in_turn(steps: Sequence[CascadeStep]) -> tuple[EvictionInTurn, ...]:
    """Return subsequent evictions as data."""
    return tuple(
        EvictionInTurn(
            round=step.level,
            by=step.evictor.name,
            evicted=tuple(unit.name for unit in step.evicted),
            pods=sum(len(unit.pods) for unit in step.evicted),
        )
        for step in steps
    )


def cost_sentences(cluster: ClusterState, preemption: Preemption) -> tuple[str, ...]:
    """Return sentences on the cost: lost work, the comparison by configured criteria, subsequent evictions.

    They also mention other preemptors of the same plan and the limits that ended the search.
    """
    sentences = []
    counts = counts_work(cluster, preemption, (pod for verdict in preemption.victims for pod in verdict.unit.pods))
    if counts:
        lost = lost_text(lost_by(cluster, preemption))
        sentences.append(f"Unsaved work lost: {lost}." if lost else "No unsaved work is lost.")
    decided, compared = decisive(preemption), preemption.compared
    if decided is not None and compared is not None and (counts or decided[0].name == RestartElsewhere.name):
        criterion, own, theirs = decided
        sentences.append(f"{preemption.domain} over {compared.domain}: {criterion.text} ({own} against {theirs}).")
    if preemption.together:
        names = names_text(preemption.together, _MOST_NAMES)
        sentences.append(f"Planned together with {names}: one eviction for all of them.")
    sentences += _gang_sentences(preemption)
    sentences += [_limit_sentence(limit) for limit in preemption.limits]
    sentences += [
        f"When {turn.by} comes back, it would evict {names_text(turn.evicted, _MOST_NAMES)} (round {turn.round})."
        for turn in in_turn(preemption.cascade)[:_MOST_STEPS]
    ]
    avoided = preemption.avoided
    if avoided is not None:
        turns = in_turn(avoided.steps)
        pods = sum(turn.pods for turn in turns) + sum(len(unit.pods) for unit in avoided.victims)
        units = names_text([unit.name for unit in avoided.victims], _MOST_NAMES)
        chain = [f"{turn.by} would evict {names_text(turn.evicted, _MOST_NAMES)}" for turn in turns[:_MOST_STEPS]]
        after = ", ".join(chain) or "no capacity would be free for it"
        sentences.append(
            f"Evicting {units} instead would lead to more evictions: when it comes back, {after}; {pods} pods in all."
        )
    return tuple(sentences)


def _limit_sentence(limit: SearchLimit) -> str:
    """Return what was not compared, and that a cheaper eviction may exist (cost.md 4.15)."""
    size, most = f"{limit.actual:,}", f"{limit.most:,}"
    texts = {
        LimitKind.SPREAD_DOMAINS: f"Its topology spread has {size} domains: up to {most} are compared by cost",
        LimitKind.SPREAD_SIZE: f"Its topology spread was not compared by cost: {size} nodes and workloads, up to "
        f"{most} are searched",
        LimitKind.SPREAD_WORK: "The comparison of ways to spread it over domains ended at its limit of "
        f"{most} nodes and workloads searched",
        LimitKind.TREE_WORK: "The comparison of domains for its groups ended at its limit of "
        f"{most} nodes and workloads searched",
    }
    return f"{texts[limit.kind]}. A cheaper eviction may exist."


def _gang_sentences(preemption: Preemption) -> list[str]:
    """Return sentences on pods that keep running below the minimum of their gang."""
    sentences = []
    left = preemption.left_over
    if left:
        text = f"{count(len(left), 'pod')} of {_gangs(left)} {'keeps' if len(left) == 1 else 'keep'} running"
        sentences.append(f"{text} below the gang's minimum: {'its' if len(left) == 1 else 'their'} work is lost, too.")
    counted = {pod.uid for pod in left}
    pods = [pod for unit in preemption.remains for pod in unit.pods if pod.uid not in counted]
    if pods:
        verb = "keeps" if len(pods) == 1 else "keep"
        sentences.append(f"{count(len(pods), 'pod')} of {_gangs(pods)}, below the minimum before, {verb} running.")
    return sentences


def _gangs(pods: Sequence[PodRecord]) -> str:
    return names_text(sorted({pod.group or "" for pod in pods}), _MOST_NAMES)
