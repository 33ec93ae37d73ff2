"""A replay as JSON and as CSV (replay.md 4.8)."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube_rules.printable import printable_line
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.replay.csv_cells import guarded
from reprieve.replay.policy_run import PolicyOutcome
from reprieve.replay.statistics import JobRow


def as_json(outcomes: Sequence[PolicyOutcome], setting: Mapping[str, Any]) -> str:
    """Return one document; equal runs give equal bytes."""
    document = {
        "apiVersion": DOCUMENT_VERSION,
        "kind": "Replay",
        "setting": dict(setting),
        "policies": [outcome.report for outcome in outcomes],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def sweep_json(runs: Sequence[tuple[str, str, int | None]], outcomes: Sequence[PolicyOutcome]) -> str:
    """Return one document for several traces or seeds; a run is (trace, policy, seed)."""
    document = {
        "apiVersion": DOCUMENT_VERSION,
        "kind": "ReplaySweep",
        "runs": [
            {"trace": trace, "policy": policy, "seed": seed, "report": outcome.report}
            for (trace, policy, seed), outcome in zip(runs, outcomes, strict=True)
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def as_csv(outcomes: Sequence[PolicyOutcome]) -> str:
    """Return a row per policy and job; no cell is a formula (`csv_cells`)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("policy", *JobRow.__struct_fields__))
    for outcome in outcomes:
        for row in outcome.rows:
            writer.writerow(map(_cell, (outcome.report.name, *msgspec.structs.astuple(row))))
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        return guarded(printable_line(value))
    return "" if value is None else int(value) if isinstance(value, float) and value.is_integer() else value
