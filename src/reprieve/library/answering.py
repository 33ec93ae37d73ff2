"""The answer to a plan of an input that was changed: what commands and programs are given alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reprieve.api.manifests import Manifests
from reprieve.library.waiting import WaitingRecords
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan import plan as simulate
from reprieve.simulation.report import Answer, Help
from reprieve.simulation.whatif.changes import Changed, with_changes
from reprieve.simulation.whatif.suggestions import Trials, Waiting, helped
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE


def answered(
    manifests: Manifests,
    changed: Changed,
    options: PlanOptions,
    records: WaitingRecords | None,
    rows: Rows = TABLE,
    run: Sequence[str] = (),
) -> Answer:
    """The answer for an expanded input, with what its changes did and, with `records`, what would help who waits.

    `records` are those of the plan: `options.observer` keeps them.  Raises InputError.
    """
    options = replace(options, rows=rows)
    answer = with_changes(simulate(manifests, options), changed)
    if records is None:
        return answer
    return helped(answer, Trials(manifests, options, changed.manifests, rows, run), records.hints)


def what_helps(who: Waiting, options: PlanOptions, trials: Trials) -> tuple[Help, ...]:
    """What would help one pod or group of the input of `trials`, each suggestion tried. Raises InputError."""
    records = WaitingRecords()
    answer = simulate(trials.manifests, replace(options, observer=records, account=False))
    answered = helped(answer, trials, records.hints, only=who).plan
    outcomes = answered.pods if who[0] == "Pod" else answered.pod_groups
    return next((one.help for one in outcomes if (one.namespace, one.name) == who[1:]), ())
