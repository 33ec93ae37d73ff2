"""What a decision to preempt costs, as numbers and in words: for plans, records and events (cost.md 1.6)."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final, NamedTuple

from kube_rules.durations import readable_time
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.criteria import LostWorkCost, StartTime
from reprieve.preemption.lost_work import LostWork, lost_work
from reprieve.preemption.outcome import CascadeStep, Cost, Criterion, Preemption
from reprieve.preemption.units import PreemptionUnit

_MOST_STEPS: Final = 5
_MOST_NAMES: Final = 3


class Turn(NamedTuple):
    """One eviction in turn: the round, who came back, and the units that would go."""

    round: int
    evictor: str
    evicted: tuple[str, ...]
    pods: int


def by_criterion(criteria: Sequence[Criterion], cost: Cost | None) -> dict[str, float]:
    """What is a number, by the criterion's name."""
    costs = zip(criteria, cost, strict=True) if cost is not None else ()
    return {criterion.name: plain(number) for criterion, number in costs if isfinite(number)}


def plain(number: float) -> float:
    """A whole number as such, others to three places."""
    return int(number) if float(number).is_integer() else round(number, 3)


def value_text(criterion: Criterion, number: float) -> str:
    """`2 pods`, `1.5 GPU-hours`, a time."""
    if criterion.name == StartTime.name:
        return readable_time(-number) if isfinite(number) else "not started"
    if criterion.measure.endswith("-seconds"):
        return f"{number / 3600:.3g} {criterion.measure.removesuffix('seconds')}hours"
    measure = criterion.measure.removesuffix("s") if number == 1 else criterion.measure
    return f"{plain(number)} {measure}".rstrip()


def decisive(preemption: Preemption) -> tuple[Criterion, str, str] | None:
    """The criterion that decided, and what the chosen one and the runner-up cost by it; None: none of them did."""
    compared, own = preemption.compared, preemption.cost
    if compared is None or compared.cost is None or own is None or not compared.steps:
        return None
    for criterion, one, other in zip(preemption.criteria, own, compared.cost, strict=True):
        if criterion.text == compared.steps[-1][0]:
            return criterion, value_text(criterion, one), value_text(criterion, other)
    return None


def lost_by(cluster: ClusterState, preemption: Preemption) -> LostWork:
    """The work that all victims lose, and what is left over of gangs that break with them."""
    victims = (pod for verdict in preemption.victims for pod in verdict.unit.pods)
    return lost_work(cluster, (*victims, *preemption.left_over))


def lost_text(lost: LostWork) -> str:
    """`3.5 GPU-hours`, with the CPU-hours of pods without GPUs; empty: none worth a word."""
    parts = [(lost.gpu / 3600, "GPU-hours"), (lost.cpu / 3600, "CPU-hours")]
    return " and ".join(f"{hours:.3g} {unit}" for hours, unit in parts if hours >= _LEAST_HOURS)


_LEAST_HOURS: Final = 1 / 3600
"""Less lost work is not named: one second."""


def counts_work(cluster: ClusterState, preemption: Preemption, pods: Iterable[PodRecord]) -> bool:
    """Whether the lost work of these victims is named in messages.

    It is where it is a criterion, or where users say something of the work that is lost.
    """
    if any(criterion.name == LostWorkCost.name for criterion in preemption.criteria):
        return True
    return any(
        terms.last_checkpoint is not None or terms.checkpoint_interval is not None or terms.restart_cost is not None
        for terms in map(cluster.terms_of, pods)
    )


def turns(steps: Sequence[CascadeStep]) -> tuple[Turn, ...]:
    """Evictions in turn as data."""
    return tuple(
        Turn(
            step.level,
            step.evictor.name,
            tuple(unit.name for unit in step.evicted),
            sum(len(unit.pods) for unit in step.evicted),
        )
        for step in steps
    )


def cost_sentences(cluster: ClusterState, preemption: Preemption) -> tuple[str, ...]:
    """Sentences on what it costs: lost work, the comparison by criteria that are configured, evictions in turn."""
    sentences = []
    if counts_work(cluster, preemption, (pod for verdict in preemption.victims for pod in verdict.unit.pods)):
        lost = lost_text(lost_by(cluster, preemption))
        sentences.append(f"{lost} of unsaved work are lost." if lost else "No unsaved work is lost.")
        decided = decisive(preemption)
        compared = preemption.compared
        if decided is not None and compared is not None:
            criterion, one, other = decided
            sentences.append(f"{preemption.domain} over {compared.domain}: {criterion.text} ({one} against {other}).")
    sentences += _of_gangs(preemption)
    sentences += [_sentence(turn) for turn in turns(preemption.cascade)[:_MOST_STEPS]]
    avoided = preemption.avoided
    if avoided is not None:
        pods = sum(turn.pods for turn in turns(avoided.steps))
        going = _names([unit.name for unit in avoided.victims])
        own = sum(len(unit.pods) for unit in avoided.victims)
        chain, in_all = _chain(avoided.steps), f"{own + pods} pods would go in all"
        sentences.append(f"Evicting {going} instead would end in more: when it comes back, {chain}; {in_all}.")
    return tuple(sentences)


def _of_gangs(preemption: Preemption) -> list[str]:
    """Sentences on pods that go on running without their gang."""
    sentences = []
    left = preemption.left_over
    if left:
        gangs = _names(sorted({pod.group or "" for pod in left}))
        verb, their = ("is", "its") if len(left) == 1 else ("are", "their")
        sentences.append(
            f"{len(left)} pod{'s' if len(left) > 1 else ''} left over of {gangs} {verb} below the minimum of the gang: "
            f"{their} work is lost, too."
        )
    counted = {pod.uid for pod in left}
    pods = [pod for unit in preemption.remains for pod in unit.pods if pod.uid not in counted]
    if pods:
        gangs = _names(sorted({pod.group or "" for pod in pods}))
        plural = "s" if len(pods) > 1 else ""
        sentences.append(f"{len(pods)} pod{plural} of {gangs}, below the minimum before, stay{'' if plural else 's'}.")
    return sentences


def _sentence(turn: Turn) -> str:
    return f"When {turn.evictor} comes back, it would evict {_names(turn.evicted)} (round {turn.round})."


def _chain(steps: Sequence[CascadeStep]) -> str:
    parts = [f"{turn.evictor} would evict {_names(turn.evicted)}" for turn in turns(steps)[:_MOST_STEPS]]
    return ", ".join(parts) or "it would find no room"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def names_of(units: Sequence[PreemptionUnit]) -> tuple[str, ...]:
    """Units as they are called."""
    return tuple(unit.name for unit in units)
