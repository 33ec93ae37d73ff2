"""The cluster that a question is about: manifests, a live cluster that is only read, or both (whatif.md).

Whatever is wrong ends the command with one line: exit code 2 for input that cannot be used, 3 for a server that cannot
be reached or refuses.
"""

import functools
import inspect
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprieve.cli import changing
from reprieve.cli.outcome import note, reason_of, refuse
from reprieve.cli.progress import working
from reprieve.cli.reading import Strictness, expanded, read_files, read_workload_kinds
from reprieve.cli.snapshot import read_live

if TYPE_CHECKING:
    from kube_rules.manifests import Manifests, PodMaker
    from reprieve.cli.sections import Section
    from reprieve.questions.changes import Change, Changed
    from reprieve.simulation.workloads.rows import Rows

DEFAULT_MAX_BYTES = "64Mi"
FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE|DIR|-",
        help="Manifests of the cluster and what is to be placed: a file, a directory, or - for stdin. Repeatable.",
    ),
]
KubeconfigOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Ask about the live cluster of this kubeconfig. It is only read.")
]
FoundKubeconfigOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Ask about a live cluster; without -f the one that kubectl finds ($KUBECONFIG, ~/.kube)."
    ),
]
ClusterOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="The cluster; default: as kubectl finds it ($KUBECONFIG, ~/.kube).")
]
ContextOption = Annotated[str | None, typer.Option(metavar="NAME", help="The context to use.")]
ContextNameOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="The context of the kubeconfig, if not the current one."),
]
MaxBytesOption = Annotated[str, typer.Option(metavar="SIZE", help="Refuse input larger than this in all, e.g. 256Mi.")]
RunOption = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="cronjob/NAME", help="Plan one run of a CronJob of the input. Repeatable."),
]
WorkloadKindsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload-kinds",
        metavar="FILE",
        help="More kinds that make pods: where their templates and counts are. Repeatable.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit 2 for what is misspelt or cannot be read, and for workloads and kinds not planned."
    ),
]
IgnoreUnknownOption = Annotated[bool, typer.Option("--ignore-unknown", help="Do not warn of unknown fields.")]
LenientOption = Annotated[
    bool,
    typer.Option("--lenient", help="Never more than a warning for workloads and kinds that are not planned."),
]


RecordsOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL|FILE",
        help="Where the scheduler's decision records are: its endpoint, or the file it keeps them in (default: as the "
        "kubeconfig has them, else by way of the API server).",
    ),
]
SuggestOption = Annotated[
    bool,
    typer.Option("--suggest/--no-suggest", help="Try what would help those who wait, which takes some more plans."),
]
NamespaceOption = Annotated[
    str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only those of this namespace.")
]
EverywhereOption = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="In all namespaces, not in the context's alone.")
]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a cluster is read from, and what is made of it."""

    files: Sequence[str] = ()
    kubeconfig: str | None = None
    context: str | None = None
    max_bytes: int = 0
    strictness: Strictness = field(default_factory=Strictness)
    run: Sequence[str] = ()
    """CronJobs, `[NAMESPACE/]NAME`."""
    rows: "Rows | None" = None
    changes: "Sequence[Change]" = ()
    """Made before its workloads are expanded."""
    stdin: bytes | None = None
    """What `-` stands for, where it was read before."""
    owners: bool = False
    """Read the controllers of a live cluster whose pods may be gangs: the source of groups is on."""
    jobs: bool = False
    """Read the Jobs of a live cluster: preemptors may wait for who ends."""

    @property
    def live(self) -> bool:
        """Whether a cluster is read; without `kubeconfig` the one that kubectl would ask."""
        return self.kubeconfig is not None or not self.files


@dataclass(frozen=True, slots=True)
class Gathered:
    """The input of a plan, changed and expanded. `now`: when it begins, None where the input sets it.

    `makers`: what made its pods, and is no more among the manifests.
    """

    manifests: "Manifests"
    now: float | None
    changed: "Changed"
    makers: "Sequence[PodMaker]" = ()
    beside: "Set[tuple[str, str]]" = frozenset()
    """(namespace, name) of pods that wait in a live cluster and that the question is not about (whatif.md 13)."""

    @property
    def with_makers(self) -> "Manifests":
        """The input with what made its pods, by which each has its owners; not to be expanded again."""
        from kube_rules.manifests import Manifests

        found = self.manifests
        return Manifests(found.objects, unknown=found.unknown, pod_makers=list(self.makers), jobs=found.jobs)


NOTHING = "nothing to plan: pass manifests with -f FILE, -f DIR or -f -, or a cluster: --kubeconfig FILE, KUBECONFIG"


def check_source(files: Sequence[str] | None, kubeconfig: str | None, context: str | None, *, found: bool) -> None:
    """Refuse to ask about nothing, and a context without a kubeconfig.

    `found`: without either the cluster that kubectl would ask is meant; whether there is one is seen when it is read.
    """
    if kubeconfig is not None or (found and not files):
        return
    if not files:
        refuse(NOTHING)
    if context is not None:
        refuse("--context: only a --kubeconfig has contexts")


def read_runs(run: Sequence[str] | None) -> list[str]:
    """The CronJobs of `--run`, as `NAMESPACE/NAME`."""
    from reprieve.simulation.workloads.expanding import run_of

    found = []
    for each in run or ():
        named = run_of(each)
        if named is None:
            refuse(f"--run {each}: want cronjob/NAME or NAMESPACE/cronjob/NAME")
        found.append(named)
    return found


def gather(source: Source, now: float | None = None) -> Gathered:
    """Read the cluster and expand its workloads. `now`: the time that is asked about, if it was given."""
    with working("reading the cluster"):
        return _gather(source, now)


def _gather(source: Source, now: float | None) -> Gathered:
    from kube_rules.errors import InputError
    from reprieve.questions.changes import changed_and_expanded
    from reprieve.simulation.plan_inputs import not_before, starts_at
    from reprieve.simulation.workloads.table import TABLE

    theirs: Set[tuple[str, str]] = frozenset()
    try:
        if source.live:
            cluster, now, theirs = _live(source, now)
        else:
            cluster = read_files(source.files, source.max_bytes, source.strictness, stdin=source.stdin)
            now = not_before(now, cluster.all()) if now is not None else None
        rows = source.rows or TABLE

        makers: list[PodMaker] = []

        def expand(manifests: "Manifests") -> "Manifests":
            made = expanded(manifests, source.strictness, rows=source.rows, run=source.run, now=now)
            makers[:] = made.makers
            return made.manifests

        whole, made = changed_and_expanded(cluster, source.changes, expand, rows=rows)
        if now is not None:  # what comes back was made last of all
            now = max(now, starts_at(whole.all()))
        return Gathered(whole, now, made, makers, _beside(source, theirs, whole, made))
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))


def _beside(
    source: Source, theirs: "Set[tuple[str, str]]", whole: "Manifests", made: "Changed"
) -> "Set[tuple[str, str]]":
    """Of the pods that wait in a live cluster those that the question is not about.

    It is about the pods of its manifests, and those that its changes displace, make or rank, each with its group;
    about all that wait where it names none of these.
    """
    from kube_rules.group_sources import pod_group_name
    from reprieve.questions.changes import asks_about_pods, pod_name

    if not (source.files or source.run or any(map(asks_about_pods, source.changes))):
        return frozenset()
    waiting = [loaded for loaded in whole.pods if not loaded.object.spec.node_name]
    asked = {pod_name(loaded) for loaded in waiting} - (theirs - made.concerned)
    groups = {
        (loaded.object.namespace, group)
        for loaded in waiting
        if pod_name(loaded) in asked and (group := pod_group_name(loaded.object)) is not None
    }
    return frozenset(
        pod_name(loaded)
        for loaded in waiting
        if pod_name(loaded) not in asked and (loaded.object.namespace, pod_group_name(loaded.object)) not in groups
    )


def answering_for_all(source: Source, asked: "Sequence[tuple[str, bool]]") -> Source:
    """The source, refused where an answer is asked for as an exit code and not all of it is answered for.

    `asked`: the options that ask for one, and whether each was given.
    """
    option = next((name for name, given in asked if given), "")
    if not option or source.strictness.lenient or source.strictness.answer_for_all:
        return source
    return replace(source, strictness=replace(source.strictness, answer_for_all=option))


def warn_of(gathered: Gathered) -> None:
    """Warn on stderr of what is left aside of the input."""
    from reprieve.simulation.plan_inputs import input_remarks

    for remark in input_remarks(gathered.manifests):
        note(f"warning: {remark}")


def show_with_changes(gathered: Gathered, sections: "Sequence[Section]") -> None:
    """The answer as text, below what was changed before it was asked (whatif.md 4.2)."""
    from reprieve.cli.render import changes_section
    from reprieve.cli.terminal import show_sections

    changes = changes_section(gathered.changed.made)
    show_sections([*([changes] if changes is not None else []), *sections])


def _live(source: Source, now: float | None) -> "tuple[Manifests, float, Set[tuple[str, str]]]":
    """A live cluster as it is now, with what the manifests add to it, and the names of the pods that wait in it.

    What could not be read is on stderr.
    """
    from reprieve.client.kubeconfig import is_configured
    from reprieve.client.reading import add_new, known_classes, manifests_of
    from reprieve.questions.changes import pod_name
    from reprieve.simulation.plan_inputs import not_before, starts_at
    from reprieve.simulation.workloads.scaling import makers_named

    if source.kubeconfig is None and source.context is None and not is_configured():
        refuse(NOTHING)
    scaled = [makers_named(each.value.rpartition("=")[0]) for each in source.changes if each.flag == "scale"]
    reading, server = read_live(
        source.kubeconfig,
        source.context,
        source.strictness,
        owners=source.owners,
        jobs=source.jobs,
        makers=[one for found in scaled for one in found],
    )
    cluster = manifests_of(reading, server)
    for warning in reading.warnings:
        note(f"warning: {warning}")
    now = time.time() if now is None else not_before(now, cluster.all())
    theirs = {pod_name(loaded) for loaded in cluster.pods if not loaded.object.spec.node_name}
    if source.files:
        classes = known_classes(cluster)
        strictness, most = source.strictness, source.max_bytes
        more = read_files(source.files, most, strictness, complete=False, classes=classes, stdin=source.stdin)
        add_new(cluster, more, now)
    # The clock of the cluster may be ahead of this one, and new objects are made one after the other.
    return cluster, max(now, starts_at(cluster.all())), theirs


def taking_source(*, found: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of `context` and `source`, with all options of a source, and what is changed in it.

    `found`: without -f and --kubeconfig it asks the cluster that kubectl would.
    """
    options = [
        (name, FoundKubeconfigOption if found and name == "kubeconfig" else kind, default)
        for name, kind, default in _SOURCE
    ]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        by_name = inspect.Parameter.KEYWORD_ONLY
        own = [
            each.replace(kind=by_name)
            for each in inspect.signature(command, eval_str=True).parameters.values()
            if each.name != "source"
        ]
        given = [inspect.Parameter(name, by_name, default=value, annotation=kind) for name, kind, value in options]
        listed = [*given[:_FIRST], *own, *given[_FIRST:]]

        @functools.wraps(command)
        def taking(**values: Any) -> None:
            of_source = {name: values.pop(name) for name, _, _ in options}
            command(source=_source(values["context"], of_source, found=found), **values)

        vars(taking)["__signature__"] = inspect.Signature(listed)
        taking.__annotations__ = {each.name: each.annotation for each in listed}
        return taking

    return decorated


_SOURCE: tuple[tuple[str, Any, Any], ...] = (
    ("files", FilesOption, None),
    ("kubeconfig", KubeconfigOption, None),
    ("context_name", ContextNameOption, None),
    ("cordon", changing.CordonOption, None),
    ("uncordon", changing.UncordonOption, None),
    ("drain", changing.DrainOption, None),
    ("remove_node", changing.RemoveNodeOption, None),
    ("fail_node", changing.FailOption, None),
    ("taint", changing.TaintOption, None),
    ("label", changing.LabelOption, None),
    ("add_nodes", changing.AddNodesOption, None),
    ("like", changing.LikeOption, None),
    ("scale", changing.ScaleOption, None),
    ("set_priority", changing.SetPriorityOption, None),
    ("without", changing.WithoutOption, None),
    ("run", RunOption, None),
    ("workload_kinds", WorkloadKindsOption, None),
    ("strict", StrictOption, False),
    ("ignore_unknown", IgnoreUnknownOption, False),
    ("lenient", LenientOption, False),
    ("max_input_bytes", MaxBytesOption, DEFAULT_MAX_BYTES),
)


_FIRST = 3
"""So many of them choose the cluster: they are listed before a command's own options."""


def _source(context: typer.Context, values: dict[str, Any], *, found: bool) -> Source:
    from reprieve.cli.options import read_size

    check_source(values["files"], values["kubeconfig"], values["context_name"], found=found)
    if values["strict"] and (values["ignore_unknown"] or values["lenient"]):
        refuse(f"--strict and {'--ignore-unknown' if values['ignore_unknown'] else '--lenient'} exclude each other")
    strict, lenient = values["strict"], values["lenient"]
    return Source(
        files=values["files"] or (),
        kubeconfig=values["kubeconfig"],
        context=values["context_name"],
        max_bytes=read_size("--max-input-bytes", values["max_input_bytes"]),
        strictness=Strictness(not values["ignore_unknown"], strict, "--strict" if strict else "", lenient),
        run=read_runs(values["run"]),
        rows=read_workload_kinds(values["workload_kinds"] or ()),
        changes=changing.read_changes(context, values),
    )
