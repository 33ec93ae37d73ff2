"""The answer to a plan of a prepared input, shared by commands and programs."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from msgspec.structs import replace as with_fields

from reprieve.decisions.outcomes import Help
from reprieve.python.inputs import Name, PreparedInput
from reprieve.python.pending_records import WaitingRecords
from reprieve.questions.changes import with_changes
from reprieve.questions.suggestions import helped
from reprieve.questions.trials import PendingKey, Trials
from reprieve.simulation.consequences import ended_jobs
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan import plan as simulate
from reprieve.simulation.plan_inputs import first_remarks
from reprieve.simulation.report import Answer


def answered(prepared: PreparedInput, options: PlanOptions, records: WaitingRecords | None) -> Answer:
    """Return the plan of an input, the effects of its changes and, with `records`, suggestions for pending pods.

    `options.observer` must be the observer that fills `records`. Raises InputError.
    """
    options = replace(options, now=prepared.now, rows=prepared.settings.rows)
    answer = with_changes(simulate(prepared.manifests, options), prepared.changed)
    answer = without(answer, prepared.beside)
    ended = first_remarks(ended_jobs(prepared.manifests, answer.plan)) if options.account else []
    if ended:
        account = replace(answer.account, warnings=(*answer.account.warnings, *ended))
        answer = replace(answer, account=account)
    return answer if records is None else helped(answer, prepared.trials(options), records.hints)


def without(answer: Answer, beside: Set[Name]) -> Answer:
    """Return the answer with the pods of `beside` marked as not asked about, and groups with only such pods."""
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


def what_helps(pending: PendingKey, options: PlanOptions, trials: Trials) -> tuple[Help, ...]:
    """Return the suggestions for one pod or group of the input of `trials`, each tried. Raises InputError."""
    records = WaitingRecords()
    answer = simulate(trials.manifests, replace(options, observer=records, account=False))
    answered = helped(answer, trials, records.hints, only=pending).plan
    outcomes = answered.pods if pending[0] == "Pod" else answered.pod_groups
    return next((outcome.help for outcome in outcomes if (outcome.namespace, outcome.name) == pending[1:]), ())
