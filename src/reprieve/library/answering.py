"""The answer to a plan of an input that was changed: what commands and programs are told alike."""

from __future__ import annotations

from collections.abc import Sequence

from reprieve.api.loading import Manifests
from reprieve.library.waiting import WaitingRecords
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan import plan as simulate
from reprieve.simulation.report import Answer
from reprieve.simulation.whatif.changes import Changed, with_changes
from reprieve.simulation.whatif.suggestions import Trials, helped
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
    answer = with_changes(simulate(manifests, options), changed)
    if records is None:
        return answer
    return helped(answer, Trials(manifests, options, changed.manifests, rows, run), records.hints)
