"""What would help: sentences and their numbers, from a decision record of an attempt that was rejected.

Given by `explain` of one object and by `plan` of everybody who waits.

Invariant: something is suggested only where the numbers of the record show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reprieve.decisions.outcomes import Help
from reprieve.decisions.phrases import count
from reprieve.decisions.records import DecisionRecord, Shortage
from reprieve.preemption.outcome import NEVER

_HINTS: Final = {
    "node(s) had untolerated taint(s)": (
        "Toleration",
        "A toleration for the taints of {nodes}, or the taints taken off: nothing goes there without.",
    ),
    "node(s) were unschedulable": ("Uncordon", "{nodes} uncordoned: nothing goes there meanwhile."),
    "node(s) didn't match Pod's node affinity/selector": (
        "Selector",
        "A node selector or affinity that {nodes} would match.",
    ),
    "node(s) didn't have free ports for the requested pod ports": ("Ports", "Its host ports free on one of {nodes}."),
}
"""What a reason means for whoever wants to change something: by the reason's text."""


def helps_of(record: DecisionRecord, priority_that_helps: int | None = None) -> list[Help]:
    """What would change the outcome; nothing where nothing is sure, or where room is being made.

    `priority_that_helps`: the lowest priority with which it would be placed or could make room, if that is known.
    """
    if record.preemption is not None:
        return []
    found = _room(record)
    members = record.members
    if members is not None and record.result == "Unschedulable":
        ready = members.placed + members.already_scheduled
        if members.placed and ready < members.min_count:
            sentence = f"With minCount {ready} instead of {members.min_count} it could start: so many have a place."
            found.append(Help(kind="MinCount", min_count=ready, sentence=sentence))
    for reason in record.reasons:
        if reason.reason in _HINTS:
            kind, sentence = _HINTS[reason.reason]
            sentence = sentence.format(nodes=count(reason.nodes, "node"))
            found.append(Help(kind=kind, nodes=reason.nodes, sentence=sentence))
    return found + _by_priority(record, priority_that_helps)


def _room(record: DecisionRecord) -> list[Help]:
    lack = record.lack
    if lack is None:
        return []
    # Of what is more than can be counted no node is known to be large enough.
    countable = not any(big.or_more for big in lack.too_big)
    found = [
        Help(
            kind="Node",
            resource=big.resource,
            amount=big.asked,
            nodes=1,
            sentence=f"A node with {big.asked} {big.resource}: it asks for that much, and the largest node has "
            f"{big.largest}.",
        )
        for big in lack.too_big
        if countable
    ]
    closest = lack.closest
    if closest is None:
        return found
    missing = " and ".join(f"{amount} more {resource}" for resource, amount in closest.missing.items())
    where = _where(closest.names, closest.nodes)
    if record.members is None:
        sentence = f"{missing} free on {where}, where least is missing."
        return [*found, _free(closest, 1, sentence)]
    if closest.nodes >= lack.more:
        places = "one more pod" if lack.more == 1 else f"{lack.more} more pods"
        on = where if lack.more == closest.nodes else f"any {lack.more} of {where}"
        sentence = f"{missing} free on {on}, where least is missing: {places} must find a place."
    else:
        sentence = f"Places for {lack.more} more pods; least is missing on {where}: {missing} for each."
    return [*found, _free(closest, lack.more, sentence)]


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
    """`n1`, `n1 or n2`, `n1, n2, n3 and 5 more nodes`."""
    if nodes > len(names):
        return f"{', '.join(names)} and {count(nodes - len(names), 'more node')}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _by_priority(record: DecisionRecord, priority_that_helps: int | None) -> list[Help]:
    texts = " ".join([record.message, *(pods.message for pods in record.pods)])
    if NEVER in texts:
        sentence = "A preemptionPolicy that is not Never: it does not push out anybody, whatever its priority."
        return [Help(kind="Policy", sentence=sentence)]
    if priority_that_helps is None:
        return []
    has = record.entity.priority
    sentence = (
        f"A priority of {priority_that_helps} or more (it has {has}): as the cluster is now it could then make room."
    )
    return [Help(kind="Priority", priority=priority_that_helps, sentence=sentence)]
