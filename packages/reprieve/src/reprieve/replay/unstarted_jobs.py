"""The reasons why jobs of a replay never started: those of their last attempts, by number of jobs (4.10)."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from reprieve.cluster.taints import REJECTING, untolerated
from reprieve.plugins.taint_toleration import UNTOLERATED
from reprieve.replay.accounts import ReplayAccount
from reprieve.replay.job_objects import tolerations_from
from reprieve.replay.world import Replay
from reprieve.scheduling.group_placements import NO_PLACEMENTS

MOST_REASONS: Final = 20
MOST_TAINTS: Final = 3
_BESIDE: Final = (". no new claims to deallocate", ", preemption: ", " preemption: ", ", No preemption victims found")
"""What follows the reason of a rejection in kube-scheduler's message."""


class UnstartedJobs(msgspec.Struct, frozen=True, rename="camel"):
    """A reason, with the number of its jobs and the first of them."""

    jobs: int
    first: str
    message: str


def never_started(replay: Replay, accounts: Iterable[ReplayAccount]) -> tuple[UnstartedJobs, ...]:
    """Return the reasons why those of the jobs that never started did not, the most frequent first; at most
    MOST_REASONS.
    """
    jobs: Counter[str] = Counter()
    first: dict[str, str] = {}
    for account in accounts:
        if account.first_start is None:
            reason = _reason(replay, account)
            jobs[reason] += 1
            first.setdefault(reason, account.job.name)
    most_frequent = sorted(jobs.items(), key=lambda item: (-item[1], item[0]))[:MOST_REASONS]
    return tuple(UnstartedJobs(number, first[reason], reason) for reason, number in most_frequent)


def _reason(replay: Replay, account: ReplayAccount) -> str:
    message, gates = replay.last_attempt(account)
    if gates:
        return f"a ResourceQuota of namespace {account.job.shape.tenant} holds it back"
    if not message:
        return "not tried before the replay ended"
    if message.startswith(NO_PLACEMENTS):
        return f'no node has the label "{account.job.shape.topology_key}" of its topology_key'
    ends = [at for end in _BESIDE if (at := message.find(end)) >= 0]
    message = message[: min(ends, default=len(message))]
    if UNTOLERATED in message:
        taints = _not_tolerated(replay, account)
        return f"{message}: {', '.join(taints[:MOST_TAINTS])}{' ...' if len(taints) > MOST_TAINTS else ''}"
    return message


def _not_tolerated(replay: Replay, account: ReplayAccount) -> list[str]:
    """Return the taints of nodes that the job does not tolerate, as `KEY=VALUE:EFFECT`."""
    nodes = replay.engine.cluster.nodes
    tolerations = tolerations_from(replay.terms.tolerations_of(account.job.shape))
    sets = {int(number) for number in nodes.taint_set[: len(nodes)][nodes.alive[: len(nodes)]]}
    taints = {taint for number in sets for taint in nodes.taint_sets[number] if taint[2] in REJECTING}
    untolerated_taints = sorted(taint for taint in taints if untolerated(tolerations, (taint,)))
    return [f"{key}{f'={value}' if value else ''}:{effect}" for key, value, effect in untolerated_taints]
