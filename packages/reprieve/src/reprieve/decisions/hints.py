"""Hints from the decision record of a rejected attempt: sentences and numbers on changes that would help.

`explain` shows them for one object, `plan` for every pending pod and group.

Invariant: a hint is given only if the numbers of the record support it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reprieve.decisions.outcomes import Help
from reprieve.decisions.phrases import count
from reprieve.decisions.records import DecisionRecord, Shortage
from reprieve.plugins.node_affinity import NOT_MATCHED
from reprieve.plugins.node_ports import PORTS_TAKEN
from reprieve.plugins.node_unschedulable import CORDONED
from reprieve.plugins.taint_toleration import UNTOLERATED
from reprieve.preemption.outcome import NEVER

_HINTS: Final = {
    UNTOLERATED: (
        "Toleration",
        "Tolerate the taints of {nodes}, or remove the taints.",
    ),
    CORDONED: ("Uncordon", "Uncordon {nodes}."),
    NOT_MATCHED: (
        "Selector",
        "Change the node selector or affinity so that {nodes} would match.",
    ),
    PORTS_TAKEN: ("Ports", "Free its host ports on one of {nodes}."),
}
"""The kind of change and its sentence, by the text of the reason that suggests it."""


def helps_of(
    record: DecisionRecord, priority_that_helps: int | None = None, *, to_be_tried: bool = False
) -> list[Help]:
    """Return changes that would alter the outcome; none if that is uncertain, or while a preemption frees capacity.

    `priority_that_helps`: the lowest priority with which it would be placed or could preempt, if known. `to_be_tried`:
    whether each change is verified before it is shown, so that amounts need no "at least".
    """
    if record.preemption is not None:
        return []
    helps = _room(record, to_be_tried=to_be_tried)
    members = record.members
    if members is not None and record.result == "Unschedulable":
        ready = members.placed + members.already_scheduled
        if members.placed and ready < members.min_count:
            sentence = f"Set minCount to {ready} instead of {members.min_count}: {ready} of its pods can be placed."
            helps.append(Help(kind="MinCount", min_count=ready, sentence=sentence))
    for reason in record.reasons:
        if reason.reason in _HINTS:
            kind, sentence = _HINTS[reason.reason]
            sentence = sentence.format(nodes=count(reason.nodes, "node"))
            helps.append(Help(kind=kind, nodes=reason.nodes, sentence=sentence))
    return helps + _by_priority(record, priority_that_helps)


def _room(record: DecisionRecord, *, to_be_tried: bool) -> list[Help]:
    lack = record.lack
    if lack is None:
        return []
    result: list[Help] = []
    # If an amount is too large to count, it is unknown whether any node is large enough.
    if lack.too_big and not any(big.or_more for big in lack.too_big):
        requested = " and ".join(f"{big.asked} {big.resource}" for big in lack.too_big)
        largest = f"the largest node has {lack.too_big[0].largest}"
        if len(lack.too_big) > 1:
            amounts = " and ".join(f"{big.largest} {big.resource}" for big in lack.too_big)
            largest = f"no node has more than {amounts}"
        result.append(
            Help(
                kind="Node",
                resource=lack.too_big[0].resource,
                amount=lack.too_big[0].asked,
                missing={big.resource: big.asked for big in lack.too_big} if len(lack.too_big) > 1 else {},
                nodes=1,
                sentence=f"Add a node with {requested}: a pod requests that much, but {largest}.",
            )
        )
    closest = lack.closest
    if closest is None:
        return result
    missing = " and ".join(f"{amount} more {resource}" for resource, amount in closest.missing.items())
    if closest.at_least and not to_be_tried:
        missing = f"at least {missing}"
    where = _where(closest.names, closest.nodes)
    if record.members is None:
        sentence = f"Free {missing} on {where}, where the shortage is smallest."
        return [*result, _free(closest, 1, sentence)]
    if closest.nodes >= lack.more:
        places = "one more pod" if lack.more == 1 else f"{lack.more} more pods"
        on = where if lack.more == closest.nodes else f"any {lack.more} of {where}"
        sentence = f"Free {missing} on {on}, where the shortage is smallest: {places} must be placed."
    else:
        sentence = f"Free capacity for {lack.more} more pods; the shortage is smallest on {where}: {missing} for each."
    return [*result, _free(closest, lack.more, sentence)]


def _free(closest: Shortage, nodes: int, sentence: str) -> Help:
    scarcest = next(iter(closest.missing), None)
    return Help(
        kind="Free",
        resource=scarcest,
        amount=closest.missing[scarcest] if scarcest is not None else None,
        missing=closest.missing,
        nodes=nodes,
        on=tuple(closest.names),
        sentence=sentence,
    )


def _where(names: Sequence[str], nodes: int) -> str:
    """Return `n1`, `n1 or n2`, or `n1, n2, n3 and 5 more nodes`."""
    if nodes > len(names):
        return f"{', '.join(names)} and {count(nodes - len(names), 'more node')}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _by_priority(record: DecisionRecord, priority_that_helps: int | None) -> list[Help]:
    texts = " ".join([record.message, *(pods.message for pods in record.pods)])
    if NEVER in texts:
        sentence = "Set a preemptionPolicy other than Never: with Never it preempts no pods, whatever its priority."
        return [Help(kind="Policy", sentence=sentence)]
    if priority_that_helps is None:
        return []
    has = record.entity.priority
    sentence = f"Set a priority of {priority_that_helps} or more (it has {has}): it could then preempt."
    return [Help(kind="Priority", priority=priority_that_helps, sentence=sentence)]
