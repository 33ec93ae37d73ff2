"""The one reader of inputs: manifests, objects in memory and live clusters, changed and expanded (whatif.md 1, 4, 13).

Commands and the Python API answer questions about a `PreparedInput`. Warnings go to a callable: a command prints them,
and a `Cluster` stores them. Unusable input raises `InputError`, an unusable kubeconfig `ConfigError`, and a server that
is unreachable or refuses a request another `ClientError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kube_rules.documents import Document
from kube_rules.errors import InputError, Origin
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests, PodMaker
from kube_rules.objects import PriorityClass
from kube_rules.unknown_fields import UnknownField
from reprieve.inputs.loader import MAX_INPUT_BYTES, load
from reprieve.questions.changes import ChangedInput, InputChange, asks_about_pods, changed_and_expanded, pod_name
from reprieve.questions.trials import Trials
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.plan_inputs import misread_annotations, not_before, starts_at
from reprieve.simulation.workloads.expansion import Expansion, expand
from reprieve.simulation.workloads.named_workloads import makers_named
from reprieve.simulation.workloads.rows import MOST_BYTES, Rows, read_rows
from reprieve.simulation.workloads.table import TABLE

if TYPE_CHECKING:
    from reprieve.client.cluster_reader import ClusterReading

Warn = Callable[[Sequence[str]], None]
"""A callable that receives the warnings of one kind, one line each."""
Name = tuple[str, str]
"""(namespace, name)."""

ATTEMPTS: Final = 4
"""Requests before a server is reported as unreachable, which takes one or two seconds."""
NOTHING: Final = (
    "nothing to plan: pass manifests with -f FILE, -f DIR or -f -, or a cluster: --kubeconfig FILE, KUBECONFIG"
)


NO_CLUSTER: Final = "--live: no cluster is configured: --kubeconfig FILE, KUBECONFIG"


@dataclass(frozen=True, slots=True)
class Strictness:
    """How to treat parts of an input that are not understood."""

    unknown_fields: bool = True
    """Warn about unknown fields."""
    strict: str = ""
    """The option that makes unknown fields and unreadable annotations an error; empty: warn."""
    answer_for_all: str = ""
    """The option that makes objects that cannot be planned an error; empty: warn where possible."""
    lenient: bool = False
    """Only warn about workloads that cannot be expanded."""


@dataclass(frozen=True, slots=True)
class InputSettings:
    """How to prepare an input, whatever its source."""

    strictness: Strictness = Strictness()
    rows: Rows = TABLE
    """The kinds that create pods."""
    run: Sequence[str] = ()
    """CronJobs to run, `[NAMESPACE/]NAME`."""


@dataclass(frozen=True, slots=True)
class InputSource(InputSettings):
    """Files, a live cluster, or both, and the changes to make."""

    files: Sequence[str] = ()
    kubeconfig: str | None = None
    context: str | None = None
    added: bool = False
    """Add the files to a live cluster even without `kubeconfig`."""
    max_bytes: int = MAX_INPUT_BYTES
    changes: Sequence[InputChange] = ()
    """Changes to make before the workloads are expanded."""
    stdin: bytes | None = None
    """The content of standard input, if it was read before."""
    owners: bool = False
    """Read the controllers of a live cluster that may have gangs."""
    jobs: bool = False
    """Read the Jobs of a live cluster, because preemptors may wait for a Job to end."""

    @property
    def live(self) -> bool:
        """Return whether to read a live cluster; without `kubeconfig` it is kubectl's current cluster."""
        return self.kubeconfig is not None or self.added or not self.files


@dataclass(frozen=True, slots=True)
class PreparedInput:
    """An input after its changes, with the pods of its workloads."""

    given: Manifests
    manifests: Manifests
    """Changed and expanded."""
    changed: ChangedInput
    settings: InputSettings = InputSettings()
    makers: Sequence[PodMaker] = ()
    """The expanded workloads, which are no longer among the manifests."""
    now: float | None = None
    """The start of a plan, in seconds since the epoch; None: right after the newest object."""
    beside: Set[Name] = frozenset()
    """Pending pods of a live cluster outside the question (whatif.md 13)."""

    @property
    def with_makers(self) -> Manifests:
        """Return the input together with its workloads, the owners of the pods. Do not expand it again."""
        whole = self.manifests
        return Manifests(whole.objects, unknown=whole.unknown, pod_makers=list(self.makers), jobs=whole.jobs)

    def starting_at(self, now: float | None) -> PreparedInput:
        """Return the input with a plan that starts at `now`, in seconds since the epoch, or after the newest object if
        None.

        Objects that a change adds are newer than the rest and only move the start. Raises InputError for an object of
        the original input that was created or started later.
        """
        if now is None:
            return replace(self, now=None)
        not_before(now, self.given.all())
        return replace(self, now=max(now, starts_at(self.manifests.all())))

    def trials(self, options: PlanOptions) -> Trials:
        """Return the trials of changes that could help pending pods of this input."""
        return Trials(self.manifests, options, self.changed.manifests, self.settings.rows, self.settings.run)


# -- reading ---------------------------------------------------------------------------------------


def read_manifests(
    sources: Sequence[str | Path | Document],
    strictness: Strictness,
    warn: Warn,
    *,
    max_bytes: int = MAX_INPUT_BYTES,
    complete: bool = True,
    classes: Sequence[PriorityClass] = (),
    stdin: bytes | None = None,
) -> Manifests:
    """Load manifests (see `inputs.loader.load`) and warn about unknown fields. Raises InputError.

    `stdin` is the content of standard input, if it was read before.
    """
    from kube_rules.schema.packed_schemas import PackedSchemas

    input_stream = BytesIO(stdin) if stdin is not None else None
    try:
        manifests = load(
            sources,
            max_bytes=max_bytes,
            stdin=input_stream,
            complete=complete,
            classes=classes,
            schemas=PackedSchemas(),
        )
    except InputError as error:
        if strictness.unknown_fields:
            warn(getattr(error, "__notes__", ()))
        raise
    if not (manifests.objects or manifests.pod_makers or manifests.scenarios or manifests.unknown):
        names = [source[0] if isinstance(source, tuple) else str(source) for source in sources]
        warn([f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: no objects found"])
    check_unknown_fields(manifests.unknown_fields, strictness, warn, manifests.unknown_fields_total)
    check_annotations(manifests, strictness)
    return manifests


def read_live(
    kubeconfig: str | None,
    context: str | None,
    strictness: Strictness,
    warn: Warn,
    *,
    owners: bool = False,
    jobs: bool = False,
    makers: Sequence[tuple[str, str, str, str]] = (),
) -> tuple[ClusterReading, str]:
    """Read a live cluster; return the objects and the server's URL. Raises ClientError.

    With `owners` read the controllers that may have gangs, with `jobs` the Jobs, and of `makers` (see `read_makers`)
    the templates.
    """
    import asyncio

    from reprieve.client.cluster_reader import read_cluster
    from reprieve.client.kubeconfig import connect
    from reprieve.client.transport import ApiClient, Limits

    unknown: list[UnknownField] = []
    connection = connect(kubeconfig, context, unknown_fields=unknown)
    check_unknown_fields(unknown, strictness, warn)

    async def read() -> ClusterReading:
        async with ApiClient(connection, limits=Limits(attempts=ATTEMPTS)) as client:
            return await read_cluster(client, owners=owners, jobs=jobs, makers=makers)

    reading = asyncio.run(read())
    warn(reading.warnings)
    return reading, connection.server


def read_workload_kinds(files: Iterable[str | Path]) -> Rows:
    """Return the table of kinds that create pods, with the rows of these files first. Raises InputError."""
    rows = TABLE
    for file in files:
        origin = Origin(str(file))
        try:
            with Path(file).open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise InputError(origin, f"larger than {MOST_BYTES} bytes")
            rows = rows.with_more(read_rows(str(file), data.decode()))
        except OSError as error:
            raise InputError(origin, error.strerror or str(error)) from None
        except UnicodeDecodeError:
            raise InputError(origin, "not UTF-8 text") from None
    return rows


# -- checks ----------------------------------------------------------------------------------------


def check_unknown_fields(
    unknown: Sequence[UnknownField], strictness: Strictness, warn: Warn, total: int | None = None
) -> None:
    """Warn about unknown fields, one line for each kind of mistake; raise InputError in strict mode."""
    if not unknown or not strictness.unknown_fields:
        return
    warn(_first_of_each((field.shape, str(field)) for field in unknown))
    if strictness.strict:
        number = len(unknown) if total is None else total
        problem = f"{number} unknown field{'s' if number > 1 else ''}; the first is {unknown[0]}"
        raise InputError(Origin(strictness.strict), problem)


def check_annotations(manifests: Manifests, strictness: Strictness) -> None:
    """Raise InputError for unreadable annotations in strict mode; otherwise a plan warns about them."""
    misread = misread_annotations(manifests.all()) if strictness.strict else []
    if misread:
        number = "1 annotation" if len(misread) == 1 else f"{len(misread)} annotations"
        raise InputError(Origin(strictness.strict), f"{number} that cannot be read; the first is {misread[0]}")


def _check_expansion(expansion: Expansion, strictness: Strictness, warn: Warn) -> None:
    """Report workloads that are suspended or that cannot be expanded (whatif.md 1).

    A workload that certainly requires pods and cannot be expanded is an error, or a warning with `lenient`. A workload
    that may require pods is a warning, or an error if everything must be planned.
    """
    check_unknown_fields(expansion.unknown_fields, strictness, warn)
    unread = [str(remark) for remark in expansion.remarks if remark.strict]
    if unread and strictness.strict:
        raise InputError(Origin(strictness.strict), f"{unread[0]}{_and_more(unread)}")
    warn(_first_of_each((workload.kind, str(workload)) for workload in expansion.suspended))
    problems = expansion.problems
    if not problems:
        return
    certain = [problem for problem in problems if problem.certain]
    if certain and not (strictness.lenient or strictness.answer_for_all):
        first = certain[0]
        raise InputError(first.origin, f"{first.reason}{_and_more(certain)}", subject=first.subject)
    warn(_first_of_each(((problem.kind, problem.certain), str(problem)) for problem in problems))
    if strictness.answer_for_all:
        lenient = "--lenient" if strictness.answer_for_all.startswith("-") else "lenient=True"
        number = "1 object" if len(problems) == 1 else f"{len(problems)} objects"
        raise InputError(
            Origin(strictness.answer_for_all),
            f"{number} cannot be planned ({lenient} plans the rest); the first is {problems[0]}",
        )


def _and_more(lines: Sequence[object]) -> str:
    return f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""


def _first_of_each(lines: Iterable[tuple[object, str]]) -> list[str]:
    """Return one line for each key: its first line, with the number of further lines."""
    alike: dict[object, list[str]] = {}
    for key, line in lines:
        alike.setdefault(key, []).append(line)
    return [same[0] if len(same) == 1 else f"{same[0]} (and {len(same) - 1} more like it)" for same in alike.values()]


# -- preparing -------------------------------------------------------------------------------------


def expand_workloads(manifests: Manifests, settings: InputSettings, warn: Warn, now: float | None = None) -> Expansion:
    """Add the pods that the workloads of an input require (whatif.md 1). Raises InputError.

    `now` determines the names of the Jobs of CronJobs to run.
    """
    expansion = expand(manifests, rows=settings.rows, run=settings.run, now=now)
    _check_expansion(expansion, settings.strictness, warn)
    return expansion


def prepare(
    manifests: Manifests,
    settings: InputSettings,
    warn: Warn,
    changes: Sequence[InputChange] = (),
    now: float | None = None,
) -> PreparedInput:
    """Change an input and expand its workloads. `now`: the time of the plan, in seconds. Raises InputError."""
    makers: list[PodMaker] = []

    def expanded(changed: Manifests) -> Manifests:
        expansion = expand_workloads(changed, settings, warn, now)
        makers[:] = expansion.makers
        return expansion.manifests

    whole, changed = changed_and_expanded(manifests, changes, expanded, rows=settings.rows)
    return PreparedInput(manifests, whole, changed, settings, makers).starting_at(now)


def gather(source: InputSource, warn: Warn, now: float | None = None) -> PreparedInput:
    """Read the input of a question and prepare it. `now`: the time of the question, if given.

    Raises InputError and ClientError.
    """
    if not source.live:
        manifests = _read_files(source, warn)
        return prepare(manifests, source, warn, source.changes, now)
    cluster, now, pending = _live(source, warn, now)
    prepared = prepare(cluster, source, warn, source.changes, now)
    return replace(prepared, beside=_beside(source, pending, prepared))


def _read_files(
    source: InputSource, warn: Warn, *, complete: bool = True, classes: Sequence[PriorityClass] = ()
) -> Manifests:
    return read_manifests(
        source.files,
        source.strictness,
        warn,
        max_bytes=source.max_bytes,
        complete=complete,
        classes=classes,
        stdin=source.stdin,
    )


def _live(source: InputSource, warn: Warn, now: float | None) -> tuple[Manifests, float, Set[Name]]:
    """Return a live cluster with the manifests added, the start of its plan, and its pending pods."""
    from reprieve.client.cluster_reader import add_new, known_classes, manifests_of
    from reprieve.client.kubeconfig import is_configured

    if source.kubeconfig is None and source.context is None and not is_configured():
        raise InputError(Origin(""), NO_CLUSTER if source.files else NOTHING)
    scaled = [makers_named(change.value.rpartition("=")[0]) for change in source.changes if change.flag == "scale"]
    reading, server = read_live(
        source.kubeconfig,
        source.context,
        source.strictness,
        warn,
        owners=source.owners,
        jobs=source.jobs,
        makers=[maker for makers in scaled for maker in makers],
    )
    cluster = manifests_of(reading, server)
    now = time.time() if now is None else not_before(now, cluster.all())
    pending = {pod_name(loaded) for loaded in cluster.pods if not loaded.object.spec.node_name}
    if source.files:
        add_new(cluster, _read_files(source, warn, complete=False, classes=known_classes(cluster)), now)
    # The clock of the cluster may be ahead of the local clock, and new objects have increasing creation times.
    return cluster, max(now, starts_at(cluster.all())), pending


def _beside(source: InputSource, pending: Set[Name], prepared: PreparedInput) -> Set[Name]:
    """Return the pending pods of a live cluster outside the question.

    The question covers the pods of its manifests, the pods that its changes displace, create or rank, and their groups.
    If it names none of these, it covers all pending pods.
    """
    if not (source.files or source.run or any(map(asks_about_pods, source.changes))):
        return frozenset()
    waiting = [loaded for loaded in prepared.manifests.pods if not loaded.object.spec.node_name]
    subjects = {pod_name(loaded) for loaded in waiting} - (pending - prepared.changed.concerned)
    groups = {
        (loaded.object.namespace, group)
        for loaded in waiting
        if pod_name(loaded) in subjects and (group := pod_group_name(loaded.object)) is not None
    }
    return frozenset(
        pod_name(loaded)
        for loaded in waiting
        if pod_name(loaded) not in subjects and (loaded.object.namespace, pod_group_name(loaded.object)) not in groups
    )
