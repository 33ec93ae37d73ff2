"""A cluster as an immutable value: methods that change it return a new one.

    cluster = reprieve.load("cluster.yaml", "gang.yaml")
    cluster.drain("n1").with_nodes(2, like="n2").plan()

The changes are those of `reprieve plan` (whatif.md 4) and share its code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kube_rules import objects
from kube_rules.documents import Document
from kube_rules.manifests import Manifests
from reprieve.decisions.phrases import count
from reprieve.inputs.loader import MAX_INPUT_BYTES
from reprieve.python.inputs import (
    InputSettings,
    PreparedInput,
    Strictness,
    check_annotations,
    check_unknown_fields,
    prepare,
    read_manifests,
    read_workload_kinds,
)
from reprieve.python.tables import Table, data_frame, html
from reprieve.questions.changes import ChangedInput, InputChange
from reprieve.simulation.workloads.expansion import run_of
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

if TYPE_CHECKING:
    import pandas

    from reprieve.python.plans import PlanResult

Source = str | bytes | Path | Mapping[str, Any]
"""A path; YAML or JSON as bytes or text of several lines; or one object as plain data."""


def load(
    *sources: Source | Manifests | Iterable[Source],
    max_bytes: int = MAX_INPUT_BYTES,
    strict: bool = False,
    lenient: bool = False,
    run: str | Sequence[str] = (),
    workload_kinds: str | Path | None = None,
) -> Cluster:
    """Load a cluster from files, directories, `-` for standard input, YAML or JSON text, or plain data.

    A string of one line is a path; sequences are flattened. At most `max_bytes` are read in total. Pods with a
    nodeName run, pods without one are pending. Jobs, Deployments and other workloads become the pods that their
    controllers would create; `workload_kinds` is a file of additional kinds, and `run` names CronJobs to run
    (`cronjob/NAME`, `NAMESPACE/cronjob/NAME` or `NAMESPACE/NAME`).

    `Cluster.warnings` lists the parts that are not understood; `strict` makes them an error, and `lenient` only warns
    about a workload that cannot be expanded. Raises InputError.
    """
    if strict and lenient:
        raise ValueError("strict and lenient cannot be combined")
    rows = read_workload_kinds([] if workload_kinds is None else [workload_kinds])
    runs = tuple(run_of(name) or name for name in ((run,) if isinstance(run, str) else run))
    noted: list[str] = []
    if len(sources) == 1 and isinstance(sources[0], Manifests):
        manifests = sources[0]
    else:
        manifests = read_manifests(_listed(sources), _UNCHECKED, noted.extend, max_bytes=max_bytes)
    return Cluster(manifests, rows=rows, run=runs, strict=strict, lenient=lenient, noted=tuple(noted))


_UNCHECKED = Strictness(unknown_fields=False)
"""The `Cluster` reports unknown fields when it is created from the manifests."""


@dataclass(frozen=True, slots=True)
class _ClusterOrigin:
    """The origin of a cluster: the input of the current stage, and the changes of earlier stages."""

    stage_input: Manifests
    changes: tuple[InputChange, ...] = ()
    earlier: ChangedInput | None = None
    settings: InputSettings = field(default_factory=InputSettings)
    noted: tuple[str, ...] = ()
    """Warnings about the sources of the input."""


class Cluster:
    """Nodes, running pods and pending pods, as an immutable value. Create one with `reprieve.load` or `ClusterBuilder`.

    Methods that change a cluster return a new one. Each method is a flag of `reprieve plan` and `changes` lists it as
    that flag. Name nodes by name or label selector (`pool=gpu`), and workloads by `KIND/NAME` (in the namespace
    default) or `NAMESPACE/KIND/NAME`, with `kubectl`'s names of kinds. A change that matches nothing raises
    InputError.
    """

    __slots__ = ("_origin", "_prepared", "_warnings")
    _origin: _ClusterOrigin
    _prepared: PreparedInput
    _warnings: tuple[str, ...]

    def __init__(
        self,
        manifests: Manifests | None = None,
        *,
        rows: Rows = TABLE,
        run: tuple[str, ...] = (),
        strict: bool = False,
        lenient: bool = False,
        noted: tuple[str, ...] = (),
    ) -> None:
        option = "strict" if strict else ""
        settings = InputSettings(Strictness(strict=option, answer_for_all=option, lenient=lenient), rows, run)
        self._settle(_ClusterOrigin(manifests or Manifests(), settings=settings, noted=noted))

    def _settle(self, origin: _ClusterOrigin) -> None:
        warnings = list(origin.noted)
        check_unknown_fields(origin.stage_input.unknown_fields, origin.settings.strictness, warnings.extend)
        prepared = prepare(origin.stage_input, origin.settings, warnings.extend, origin.changes)
        check_annotations(prepared.manifests, origin.settings.strictness)
        if origin.earlier is not None:
            prepared = replace(prepared, changed=_both(origin.earlier, prepared.changed))
        for name, value in (
            ("_origin", origin),
            ("_prepared", prepared),
            ("_warnings", tuple(dict.fromkeys(warnings))),
        ):
            object.__setattr__(self, name, value)

    @property
    def _whole(self) -> Manifests:
        return self._prepared.manifests

    @property
    def _changed(self) -> ChangedInput:
        return self._prepared.changed

    @classmethod
    def _of(cls, origin: _ClusterOrigin) -> Cluster:
        cluster = cls.__new__(cls)
        cluster._settle(origin)
        return cluster

    def __reduce__(self) -> tuple[Any, ...]:
        return Cluster._of, (self._origin,)

    def __copy__(self) -> Cluster:
        return self

    def __deepcopy__(self, memo: object) -> Cluster:
        return self  # it does not change

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Cluster does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Cluster does not change: {name!r} cannot be deleted")

    # -- contents -----------------------------------------------------------------------------------

    @property
    def manifests(self) -> Manifests:
        """Return the objects after the changes, with the pods that workloads create. Do not modify them."""
        return self._whole

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes, sorted."""
        return tuple(sorted(loaded.object.name for loaded in self._whole.nodes))

    @property
    def pods(self) -> dict[str, str | None]:
        """Return the node of every pod that has not ended, by `namespace/name`, sorted; None for pending pods."""
        pods = (loaded.object for loaded in self._whole.pods)
        active = [pod for pod in pods if not pod.finished]
        return {pod.key: pod.spec.node_name or None for pod in sorted(active, key=lambda pod: pod.key)}

    @property
    def changes(self) -> tuple[str, ...]:
        """Return the changes in order, each as the flag of `reprieve plan` and its effect."""
        return tuple(f"{applied.change}: {applied.sentence}" for applied in self._changed.applied)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of `reprieve plan` about the input: unknown fields, workloads that are not planned."""
        return self._warnings

    # -- changes -----------------------------------------------------------------------------------

    def with_manifests(self, *sources: Source | Iterable[Source], max_bytes: int = MAX_INPUT_BYTES) -> Cluster:
        """Add objects from sources as in `load`; objects without a creation time are the newest.

        Raises InputError for an object that exists already, and for a pod on an unknown node.
        """
        from reprieve.client.cluster_reader import add_new, known_classes

        origin = self._origin
        base = _copied(self._changed.manifests)
        noted = list(origin.noted)
        classes = known_classes(base)
        more = read_manifests(
            _listed(sources), _UNCHECKED, noted.extend, max_bytes=max_bytes, complete=False, classes=classes
        )
        add_new(base, more)
        base.unknown_fields = [*base.unknown_fields, *more.unknown_fields]
        return Cluster._of(replace(origin, stage_input=base, changes=(), earlier=self._changed, noted=tuple(noted)))

    def with_nodes(self, number: int, *, like: str) -> Cluster:
        """Add copies of an existing node, with its capacity, labels, taints, devices and daemons."""
        return self._with([InputChange("add-nodes", str(number), like)])

    def without(self, *workloads: str) -> Cluster:
        """Remove workloads (`[NAMESPACE/]KIND/NAME`) and everything they own."""
        return self._with(InputChange("without", name) for name in workloads)

    def without_nodes(self, *nodes: str) -> Cluster:
        """Remove nodes with their pods; pods with a controller become pending."""
        return self._with(InputChange("remove-node", name) for name in nodes)

    def cordon(self, *nodes: str) -> Cluster:
        """Mark nodes as unschedulable."""
        return self._with(InputChange("cordon", name) for name in nodes)

    def uncordon(self, *nodes: str) -> Cluster:
        """Mark nodes as schedulable again."""
        return self._with(InputChange("uncordon", name) for name in nodes)

    def drain(self, *nodes: str) -> Cluster:
        """Cordon nodes and evict their pods, as `kubectl drain` does."""
        return self._with(InputChange("drain", name) for name in nodes)

    def fail(self, *nodes: str) -> Cluster:
        """Simulate the failure of nodes: their pods are lost."""
        return self._with(InputChange("fail", name) for name in nodes)

    def taint(self, nodes: str, taint: str) -> Cluster:
        """Add a taint, `KEY[=VALUE]:EFFECT`; `KEY[:EFFECT]-` removes it."""
        return self._with([InputChange("taint", f"{nodes} {taint}")])

    def label(self, nodes: str, label: str) -> Cluster:
        """Set a label, `KEY=VALUE`; `KEY-` removes it."""
        return self._with([InputChange("label", f"{nodes} {label}")])

    def scale(self, workload: str, number: int) -> Cluster:
        """Change the number of pods of a workload, or the minCount of a PodGroup."""
        return self._with([InputChange("scale", f"{workload}={number}")])

    def set_priority(self, workload: str, priority: int | str) -> Cluster:
        """Change the priority of a whole workload to a number or to that of a PriorityClass."""
        return self._with([InputChange("set-priority", f"{workload}={priority}")])

    def move(self, pod: str, node: str) -> Cluster:
        """Move a running pod, `[NAMESPACE/]pod/NAME`, to another node."""
        return self._with([InputChange("move", f"{pod}={node}")])

    def _with(self, changes: Iterable[InputChange]) -> Cluster:
        return Cluster._of(replace(self._origin, changes=(*self._origin.changes, *changes)))

    # -- answers -----------------------------------------------------------------------------------

    def save(self, file: str | Path) -> None:
        """Write the cluster as manifests that `load` and `reprieve plan -f` read: FILE.yaml, FILE.yml or FILE.json.

        The file contains everything that a plan reads. Changes are applied, workloads are not expanded, and numbers
        replace the names of images. Raises ValueError for another extension, and OSError if the file cannot be written.
        """
        from reprieve.client.snapshot import snapshot, text_of

        path = Path(file)
        if path.suffix not in (".yaml", ".yml", ".json"):
            raise ValueError(f"{path}: the name must end in .yaml, .yml or .json")
        manifests = self._changed.manifests
        objects_of, _ = snapshot([loaded.object for loaded in manifests.all()])
        plain_objects = [dict(item.manifest) for item in manifests.pod_makers] + [
            dict(item.manifest) for item in manifests.unknown
        ]
        path.write_text(text_of([*objects_of, *plain_objects], json=path.suffix == ".json"), encoding="utf-8")

    def plan(self, **how: Any) -> PlanResult:
        """Plan this cluster; see `reprieve.plan` for the arguments."""
        from reprieve.python.plans import plan

        return plan(self, **how)

    def table(self, what: Literal["pods", "nodes"] = "pods") -> Table:
        """Return a table of all pods (with node and phase) or nodes, sorted; pods on nodes default to Running."""
        if what == "nodes":
            on = Counter(node for node in self.pods.values() if node is not None)
            nodes = sorted((loaded.object for loaded in self._whole.nodes), key=lambda node: node.name)
            names = sorted({name for node in nodes for name in node.status.allocatable})
            rows = [
                (
                    node.name,
                    on[node.name],
                    node.spec.unschedulable,
                    *(_cell(node.status.allocatable.get(name)) for name in names),
                )
                for node in nodes
            ]
            return Table(("node", "running_pods", "unschedulable", *names), rows)
        if what != "pods":
            raise ValueError(f'"{what}": expected pods or nodes')
        pods = sorted((loaded.object for loaded in self._whole.pods), key=lambda pod: pod.key)
        return Table(
            ("namespace", "name", "node", "priority", "phase"),
            [
                (pod.namespace, pod.name, pod.spec.node_name or None, pod.spec.priority or 0, _phase(pod))
                for pod in pods
            ],
        )

    def to_dataframe(self, what: Literal["pods", "nodes"] = "pods") -> pandas.DataFrame:
        """Return `table` as a data frame, one row per pod or node. Raises ImportError without pandas."""
        return data_frame(self.table(what))

    def __repr__(self) -> str:
        pods = self.pods
        waiting = sum(node is None for node in pods.values())
        parts = [count(len(self._whole.nodes), "node"), f"{count(len(pods) - waiting, 'pod')} running"]
        parts.append(f"{waiting} waiting")
        parts += [count(len(self._whole.pod_groups), "pod group")] if self._whole.pod_groups else []
        parts += [count(len(self._changed.applied), "change")] if self._changed.applied else []
        return f"<Cluster: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        waiting = [row for row in self.table().rows if row[2] is None and row[4] not in ("Succeeded", "Failed")]
        changes = "".join(f"<li>{escape(text)}</li>" for text in self.changes)
        return (
            f"<p>{escape(repr(self))}</p>"
            + (f"<ul>{changes}</ul>" if changes else "")
            + html("Nodes", self.table("nodes"))
            + html("Waiting pods", Table(self.table().columns, waiting))
        )


# -- parts -----------------------------------------------------------------------------------------


def _listed(sources: Iterable[Any]) -> list[str | Path | Document]:
    """Return the sources as a flat list; each source in memory gets a name."""
    listed: list[str | Path | Document] = []
    for source in sources:
        _take(source, listed)
    return listed


def _take(source: Any, listed: list[str | Path | Document]) -> None:
    if isinstance(source, Manifests):
        raise TypeError("Manifests that were read already are a cluster of their own: give them alone")
    if isinstance(source, Mapping | bytes) or (isinstance(source, str) and "\n" in source):
        listed.append((f"<object {len(listed) + 1}>", source))
    elif isinstance(source, str | Path):
        listed.append(source)
    elif isinstance(source, Iterable):
        for item in source:
            _take(item, listed)
    else:
        raise TypeError(
            f"expected a path, YAML or JSON text, or an object as plain data, found {type(source).__name__}"
        )


def _copied(manifests: Manifests) -> Manifests:
    return replace(
        manifests,
        objects={kind: list(loaded) for kind, loaded in manifests.objects.items()},
        scenarios=list(manifests.scenarios),
        unknown=list(manifests.unknown),
        pod_makers=list(manifests.pod_makers),
    )


def _both(first: ChangedInput, then: ChangedInput) -> ChangedInput:
    """Return the combined changes of two stages."""
    return ChangedInput(
        then.manifests,
        [*first.applied, *then.applied],
        [*first.displaced, *then.displaced],
        [*first.broken, *then.broken],
    )


def _phase(pod: objects.Pod) -> str:
    """Return the phase of a pod for a plan: a pod on a node without a status is running."""
    return "Running" if pod.spec.node_name and pod.status == objects.PodStatus() else pod.status.phase


def _cell(amount: object) -> str | None:
    return None if amount is None else str(amount)
