"""The answer to a plan of an input that was changed: what commands and programs are given alike."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from msgspec.structs import replace as with_fields

from kube_rules.manifests import Manifests
from reprieve.python.waiting import WaitingRecords
from reprieve.questions.changes import Changed, with_changes
from reprieve.questions.suggestions import helped
from reprieve.questions.trials import Trials, Waiting
from reprieve.simulation.consequences import ended_jobs
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan import plan as simulate
from reprieve.simulation.plan_inputs import first_remarks
from reprieve.simulation.report import Answer, Help
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

Name = tuple[str, str]
"""(namespace, name)."""


def answered(
    manifests: Manifests,
    changed: Changed,
    options: PlanOptions,
    records: WaitingRecords | None,
    rows: Rows = TABLE,
    run: Sequence[str] = (),
    beside: Set[Name] = frozenset(),
) -> Answer:
    """The answer for an expanded input, with what its changes did and, with `records`, what would help pending pods.

    `records` are those of the plan: `options.observer` keeps them. `beside`: pods that the question is not about.
    Raises InputError.
    """
    options = replace(options, rows=rows)
    answer = without(with_changes(simulate(manifests, options), changed), beside)
    ended = first_remarks(ended_jobs(manifests, answer.plan)) if options.account else []
    if ended:
        account = replace(answer.account, warnings=(*answer.account.warnings, *ended))
        answer = replace(answer, account=account)
    if records is None:
        return answer
    return helped(answer, Trials(manifests, options, changed.manifests, rows, run), records.hints)


def without(answer: Answer, beside: Set[Name]) -> Answer:
    """The answer with the pods marked that the question is not about, and groups of which that holds for all pods."""
    if not beside:
        return answer
    document = answer.plan
    pods = tuple(with_fields(pod, asked=(pod.namespace, pod.name) not in beside) for pod in document.pods)
    members: dict[Name, bool] = {}
    for pod in pods:
        if pod.pod_group is not None:
            key = (pod.namespace, pod.pod_group)
            members[key] = members.get(key, False) or pod.asked
    groups = tuple(
        with_fields(group, asked=members.get((group.namespace, group.name), True)) for group in document.pod_groups
    )
    return Answer(with_fields(document, pods=pods, pod_groups=groups), answer.account)


def what_helps(who: Waiting, options: PlanOptions, trials: Trials) -> tuple[Help, ...]:
    """What would help one pod or group of the input of `trials`, each suggestion tried. Raises InputError."""
    records = WaitingRecords()
    answer = simulate(trials.manifests, replace(options, observer=records, account=False))
    answered = helped(answer, trials, records.hints, only=who).plan
    outcomes = answered.pods if who[0] == "Pod" else answered.pod_groups
    return next((one.help for one in outcomes if (one.namespace, one.name) == who[1:]), ())
