"""An input with the pods that controllers would create for its workloads (whatif.md 1).

Terms: a workload is an object that creates pods, in the input or created by another workload. A batch is a set of
similar pods: one template and their differences. Owners precede owned objects, and owned objects are not expanded
again.

Invariants: existing objects are not created again. The same input creates the same pods in the same order. Every
workload is either expanded or listed as a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kube_rules.group_owners import Job
from kube_rules.json import mapping, text
from kube_rules.manifests import Manifests, PodMaker, Remark, SuspendedInput
from kube_rules.meta import ObjectMeta
from kube_rules.unknown_fields import UnknownField
from kube_rules.workloads import group_of
from reprieve.simulation.workloads.batches import Batch, PodWorkload
from reprieve.simulation.workloads.controllers import RULES
from reprieve.simulation.workloads.expansion_context import Surroundings
from reprieve.simulation.workloads.expansion_order import Maker, UnplannedObject
from reprieve.simulation.workloads.row_expansion import by_row
from reprieve.simulation.workloads.rows import Rows, WorkloadKind
from reprieve.simulation.workloads.table import TABLE


@dataclass(slots=True)
class Expansion:
    """The result of expanding an input. `manifests` has no pod makers; `problems` lists workloads not expanded.

    A workload that certainly has pods and is not expanded is not among the manifests. `makers`: the pod makers of the
    input and those that they create, so that every pod has its owners.
    """

    manifests: Manifests
    problems: list[UnplannedObject] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    unknown_fields: list[UnknownField] = field(default_factory=list)
    makers: list[PodMaker] = field(default_factory=list)
    suspended: list[SuspendedInput] = field(default_factory=list)

    @property
    def remarks(self) -> list[Remark]:
        """Return the remarks about unread parts of the workloads."""
        return self.manifests.remarks


def run_of(text: str) -> str | None:
    """Return the CronJob of `cronjob/NAME` or `NAMESPACE/cronjob/NAME` as `NAMESPACE/NAME`; None for other text."""
    *space, kind, name = text.split("/") if text.count("/") in (1, 2) else ("", "")
    if kind.lower() not in ("cronjob", "cronjobs", "cj", "cronjob.batch") or not name:
        return None
    return f"{space[0] if space else 'default'}/{name}"


def expand(manifests: Manifests, *, rows: Rows = TABLE, run: Sequence[str] = (), now: float | None = None) -> Expansion:
    """Create the pods that the input requires. `run`: CronJobs to run, `[NAMESPACE/]NAME`; `now` names their Jobs.

    Raises InputError for an invalid shape, and for a `run` of an unknown CronJob.
    """
    if not manifests.pod_makers and not manifests.unknown and not run:
        return Expansion(manifests)
    of_rows, unknown = rows.makers_among(manifests.unknown)
    makers = [*manifests.pod_makers, *of_rows]
    if now is None:
        now = max((loaded.created for loaded in manifests.all()), default=0.0)
    surroundings = Surroundings(manifests, makers, unknown)
    maker = Maker(surroundings, makers, rows, by_rule, run=run, now=now)
    maker.make()
    left_out = [item for item in unknown if not maker.judge(item)]
    maker.check_runs()
    expanded = Manifests(
        objects={kind: list(loaded) for kind, loaded in manifests.objects.items()},
        scenarios=manifests.scenarios,
        unknown=[item for item in unknown if item not in left_out],
        unknown_fields=manifests.unknown_fields,
        unknown_fields_total=manifests.unknown_fields_total,
        expanded=manifests.expanded + maker.makers,
        jobs=manifests.jobs + jobs_among(maker.makers),
        suspended=manifests.suspended + maker.suspended,
        remarks=manifests.remarks + maker.remarks,
    )
    for loaded in maker.additions():
        expanded.objects.setdefault(type(loaded.object), []).append(loaded)
    return Expansion(expanded, maker.problems, maker.batches, maker.unknown_fields, maker.makers, maker.suspended)


def by_rule(maker: Maker, workload: PodWorkload, row: WorkloadKind) -> None:
    """Expand a workload by the rule of its controller, or by its row without such a rule or with a user's row."""
    rule = RULES.get((workload.object_id[0], workload.object_id[1]))
    if rule is not None and not row.sets:
        rule(workload, maker)
    else:
        by_row(maker, workload, row)


def jobs_among(makers: Iterable[PodMaker]) -> list[Job]:
    """Return the Jobs with a deadline."""
    result = []
    for maker in makers:
        manifest = maker.manifest
        if manifest.get("kind") == Job.KIND and group_of(text(manifest.get("apiVersion"))) == "batch":
            meta, spec, status = (mapping(manifest.get(part)) for part in ("metadata", "spec", "status"))
            named = ObjectMeta(name=text(meta.get("name")), namespace=text(meta.get("namespace")) or "default")
            job = Job(metadata=named, spec=dict(spec), status=dict(status))
            if job.active_deadline is not None:
                result.append(job)
    return result
