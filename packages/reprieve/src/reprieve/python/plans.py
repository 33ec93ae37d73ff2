"""`reprieve.plan`: what the scheduler would do with a cluster, as values and tables.

The answer is that of the `reprieve plan` command: both call `answers.answered`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kube_rules.errors import InputError, Origin
from kube_rules.manifests import Manifests
from reprieve.decisions.outcomes import Help, PreemptionOutcome
from reprieve.decisions.phrases import count
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.python.answers import answered
from reprieve.python.cluster import Cluster
from reprieve.python.configuration import plan_options
from reprieve.python.pending_records import WaitingRecords
from reprieve.python.tables import Table, data_frame, html
from reprieve.scheduling.third_party_plugins import PluginLoadError
from reprieve.simulation.final_state import afterwards
from reprieve.simulation.plan import EngineKeeper, PlanOptions
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import Answer

if TYPE_CHECKING:
    import pandas

What = Literal["pods", "victims", "groups"]


def plan(
    cluster: Cluster | Manifests,
    options: PlanOptions | None = None,
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    plugins: Sequence[str | type[Plugin]] = (),
    feature_gates: str | Mapping[str, bool] | FeatureGates = "",
    compatible: bool = False,
    first_decision: bool = False,
    seed: int | None = None,
    now: float | datetime | None = None,
    suggest: bool = True,
) -> PlanResult:
    """Plan a cluster: what the scheduler would do and why, without changing anything.

    `config`: a KubeSchedulerConfiguration, as a file or plain data. `plugins`: classes or `module:Class`, enabled in
    every profile. `feature_gates`: `A=true,B=false`, or a dict of booleans by name. `compatible`: preempt for
    groups exactly when kube-scheduler would.
    `first_decision`: stop at the first decision to preempt, before victims terminate. `seed`: choose among equally
    good nodes by seed instead of by name. `now`: the start of the plan, in seconds since the epoch or as a datetime
    with a time zone; by default right after the newest object. `suggest`: try changes that could help pending pods,
    which runs additional plans.

    `options` replaces all other arguments. Raises InputError for an invalid input, configuration or plugin.
    """
    if not isinstance(cluster, Cluster | Manifests):
        name = type(cluster).__name__
        raise TypeError(f"plan: expected a Cluster, not a {name}: reprieve.load reads files, directories and objects")
    cluster = cluster if isinstance(cluster, Cluster) else Cluster(cluster)
    arguments = config, plugins, feature_gates, compatible, first_decision, seed, now
    if options is None:
        options = _options(config, plugins, feature_gates, compatible, first_decision, seed, now)
    elif any(item not in (None, False, "", (), []) for item in arguments):
        raise TypeError("plan: pass either options or single settings, not both")
    prepared = cluster._prepared.starting_at(options.now)
    records = WaitingRecords()
    witness = EngineKeeper(records, options.observer)
    # Trials run their own engines without observers, so the witness stores the engine of the plan.
    answer = answered(prepared, replace(options, observer=witness), records if suggest else None)
    started = prepared.now if prepared.now is not None else starts_at(prepared.manifests.all())
    assert witness.engine is not None
    preemptions = answer.plan.preemptions if options.first_decision else ()
    leaving = {f"{victim.namespace}/{victim.name}" for preemption in preemptions for victim in preemption.victims}
    rows = prepared.settings.rows
    end = started + answer.plan.stats.virtual_seconds
    after = afterwards(prepared.manifests, witness.engine, end, leaving, rows=rows)
    account = replace(answer.account, warnings=(*cluster.warnings, *answer.account.warnings))
    return PlanResult(answer.plan, account, cluster, Cluster(after, rows=rows, lenient=True))


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(Answer):
    """A plan. `plan` is the document of `reprieve plan -o json`; `account` holds the rest of the text output."""

    before: Cluster
    cluster: Cluster
    """The cluster after the plan: placed pods run, victims are removed. It can be changed and planned again."""

    @property
    def placements(self) -> dict[str, str]:
        """Return the node of each planned pod that is placed, by `namespace/name`."""
        return {f"{pod.namespace}/{pod.name}": pod.node_name for pod in self.plan.pods if pod.node_name is not None}

    @property
    def waiting(self) -> dict[str, str]:
        """Return the reason for each pod that stays pending, by `namespace/name`."""
        return {
            f"{pod.namespace}/{pod.name}": pod.message or pod.reason or pod.outcome
            for pod in self.plan.pods
            if pod.node_name is None
        }

    @property
    def preemptions(self) -> tuple[PreemptionOutcome, ...]:
        """Return the decisions to preempt by time: the preemptor, and `victims` with `why` each is evicted."""
        return self.plan.preemptions

    @property
    def help(self) -> dict[str, tuple[Help, ...]]:
        """Return the suggestions for pending pods by `Pod namespace/name` or `PodGroup namespace/name`.

        Each suggestion was tried in a plan.
        """
        helps = [(f"Pod {pod.namespace}/{pod.name}", pod.help) for pod in self.plan.pods]
        helps += [(f"PodGroup {group.namespace}/{group.name}", group.help) for group in self.plan.pod_groups]
        return {key: suggestions for key, suggestions in helps if suggestions}

    @property
    def all_placed(self) -> bool:
        """Return whether all pods are placed."""
        return self.plan.all_placed

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about unread input and about possible differences from the live scheduler."""
        return self.account.warnings

    def table(self, what: What = "pods") -> Table:
        """Return a table of the `pods` asked about, the `victims` of preemptions, or the `groups`.

        `preemption` numbers the decisions from 0; `why` is what would be missing if the victim stayed.
        """
        if what == "pods":
            columns, rows = _POD_COLUMNS, _rows(self.plan.pods, _POD_FIELDS)
        elif what == "groups":
            columns = rows_of = (
                "namespace",
                "name",
                "priority",
                "min_count",
                "scheduled",
                "outcome",
                "reason",
                "message",
            )
            rows = _rows(self.plan.pod_groups, rows_of)
        elif what == "victims":
            columns = (
                "preemption",
                "preemptor",
                "namespace",
                "name",
                "unit",
                "node",
                "priority",
                "violates_pdb",
                "why",
            )
            rows = [
                (
                    number,
                    f"{preemption.preemptor.kind} {preemption.preemptor.namespace}/{preemption.preemptor.name}",
                    *_values(victim, ("namespace", "name", "unit", "node_name", "priority", "violates_pdb")),
                    None
                    if victim.why is None
                    else f"{victim.why.pod} would not fit on {victim.why.node_name}: {victim.why.message}",
                )
                for number, preemption in enumerate(self.plan.preemptions)
                for victim in preemption.victims
            ]
        else:
            raise ValueError(f'"{what}": expected pods, victims or groups')
        return Table(columns, rows)

    def to_dataframe(self, what: What = "pods") -> pandas.DataFrame:
        """Return `table` as a data frame, even without rows. Raises ImportError without pandas."""
        return data_frame(self.table(what))

    def __repr__(self) -> str:
        victims = {(victim.namespace, victim.name) for p in self.plan.preemptions for victim in p.victims}
        placed, waiting = len(self.placements), len(self.waiting)
        return f"<PlanResult: {placed} placed, {waiting} waiting, {count(len(victims), 'pod')} evicted>"

    def _repr_html_(self) -> str:
        changes = "".join(f"<li>{escape(c.change)}: {escape(c.sentence)}</li>" for c in self.plan.changes)
        helps = Table(
            ("pending", "what would help"),
            [(key, help_.sentence) for key, helps in self.help.items() for help_ in helps],
        )
        return (
            f"<p>{escape(repr(self))}</p>"
            + (f"<ul>{changes}</ul>" if changes else "")
            + html("Pods", self.table())
            + html("Victims", self.table("victims"))
            + html("What would help", helps)
        )


# -- parts -----------------------------------------------------------------------------------------

_POD_FIELDS = (
    "namespace",
    "name",
    "pod_group",
    "priority",
    "outcome",
    "node_name",
    "nominated_node_name",
    "reason",
    "message",
)
_POD_COLUMNS = tuple({"pod_group": "group"}.get(name, name.removesuffix("_name")) for name in _POD_FIELDS)


def _values(item: object, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(item, field) for field in fields)


def _rows(items: Iterable[object], fields: Sequence[str]) -> list[tuple[Any, ...]]:
    return [_values(item, fields) for item in items]


def _options(
    config: str | Path | Mapping[str, Any] | None,
    plugins: Sequence[str | type[Plugin]],
    feature_gates: str | Mapping[str, bool] | FeatureGates,
    compatible: bool,
    first_decision: bool,
    seed: int | None,
    now: float | datetime | None,
) -> PlanOptions:
    from reprieve.framework.gates import GateError

    notes: Sequence[str] = ()
    if not isinstance(feature_gates, FeatureGates):
        try:
            feature_gates, notes = FeatureGates.read(feature_gates)
        except GateError as error:
            raise InputError(Origin("feature_gates"), str(error)) from None
    if isinstance(now, datetime):
        if now.tzinfo is None:
            raise ValueError("now: expected a datetime with a time zone")
        now = now.timestamp()
    try:
        options = plan_options(
            config,
            first_decision=first_decision,
            gates=feature_gates,
            seed=seed,
            plugins=plugins,
            compatible=compatible,
        )
    except PluginLoadError as error:
        raise InputError(Origin("plugins"), str(error)) from None
    return replace(options, now=now, warnings=(*notes, *options.warnings))
