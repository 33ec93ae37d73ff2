"""The input of a question: its options, and the cluster that they choose, read and changed (whatif.md).

`SourceCommand` adds the options of this table to a command; in the command, `source_of` returns what they choose. Bad
input ends the command with exit code 2 and one line; a server that refuses or cannot be reached, with exit code 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperOption

from reprieve.cli.documents import Format, document
from reprieve.cli.options import DEFAULT_MAX_BYTES, ORDER, Command
from reprieve.cli.outcome import note, refuse, show, warn
from reprieve.cli.progress import working

if TYPE_CHECKING:
    from msgspec import Struct

    from reprieve.cli.sections import Section
    from reprieve.python.inputs import InputSource, PreparedInput
    from reprieve.questions.changes import InputChange

AnswerT = TypeVar("AnswerT", bound="Struct")
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Kubeconfig of the cluster. Default: as kubectl finds it ($KUBECONFIG, ~/.kube)."
    ),
]
ContextOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Kubeconfig context. Default: the current context.")
]
RecordsOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL|FILE",
        help="Decision records: the scheduler's endpoint, its records file or its database (postgresql://...). "
        "Default: the endpoint in the kubeconfig, else through the API server.",
    ),
]
SuggestOption = Annotated[
    bool,
    typer.Option("--suggest/--no-suggest", help="Find changes that would help pending pods; takes longer."),
]
NamespaceOption = Annotated[
    str | None, typer.Option("-n", "--namespace", metavar="NS", help="Limit the output to this namespace.")
]
EverywhereOption = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="Show all namespaces, not only that of the context.")
]


# -- options ---------------------------------------------------------------------------------------


def _option(*names: str, metavar: str, meaning: str, **more: Any) -> Callable[[], TyperOption]:
    """Return a function that makes an option, which may be repeated."""
    more = {"multiple": True, "help": f"{meaning} Repeatable.", **more}
    return lambda: TyperOption(param_decls=list(names), metavar=metavar, expose_value=False, callback=_keep, **more)


def _once(*names: str, metavar: str, meaning: str, **more: Any) -> Callable[[], TyperOption]:
    return _option(*names, metavar=metavar, meaning="", multiple=False, help=meaning, **more)


def _flag(name: str, meaning: str) -> Callable[[], TyperOption]:
    return lambda: TyperOption(
        param_decls=[name], is_flag=True, default=False, help=meaning, expose_value=False, callback=_keep
    )


def _change(name: str, metavar: str, meaning: str) -> Callable[[], TyperOption]:
    return _option(f"--{name}", metavar=metavar, meaning=meaning, rich_help_panel="Changes, in the order given")


def _keep(context: typer.Context, param: Any, value: Any) -> None:
    """Store the value of an option of the source for `source_of`."""
    context.meta.setdefault(_VALUES, {})[param.name] = value


_VALUES: Final = "reprieve.source"
_NODES: Final = "NODE|SELECTOR"
_CLUSTER: Final = (
    _option(
        "-f",
        "--filename",
        metavar="FILE|DIR|-",
        meaning="Manifests of the cluster and the pods to schedule: a file, a directory, or - for stdin.",
    ),
    _once(
        "--kubeconfig",
        metavar="FILE",
        meaning="Read a live cluster. Default without -f: the cluster that kubectl uses ($KUBECONFIG, ~/.kube).",
    ),
    _once("--context", metavar="NAME", meaning="Kubeconfig context. Default: the current context."),
    _flag("--live", "With -f: add the manifests to a live cluster. Default without --kubeconfig: that of kubectl."),
)
_CHANGES: Final = {
    "cordon": (_NODES, "Mark nodes as unschedulable."),
    "uncordon": (_NODES, "Mark nodes as schedulable again."),
    "drain": (_NODES, "Cordon nodes and evict their pods, as kubectl drain does."),
    "remove-node": (_NODES, "Remove nodes and their pods."),
    "fail": (_NODES, "Simulate the failure of nodes: their pods are lost."),
    "taint": ('"NODE|SELECTOR KEY=VALUE:EFFECT"', "Add a taint to nodes; KEY- removes it."),
    "label": ('"NODE|SELECTOR KEY=VALUE"', "Add a label to nodes; KEY- removes it."),
    "add-nodes": ("N", "Add this many copies of the node of --like, which follows."),
    "like": ("NODE", "The node that the preceding --add-nodes copies."),
    "scale": ("KIND/NAME=N", "Change the number of replicas; for a podgroup, its minCount."),
    "set-priority": ("KIND/NAME=CLASS|N", "Change the priority of a whole workload."),
    "move": ("pod/NAME=NODE", "Let a running pod run on another node."),
    "without": ("KIND/NAME", "Remove an object and everything that it owns."),
}
"""Flags that change the input, with the form of their value (whatif.md 4)."""
_READING: Final = (
    _option("--run", metavar="cronjob/NAME", meaning="Add one run of a CronJob of the input."),
    _option(
        "--workload-kinds",
        metavar="FILE",
        meaning="Additional kinds that create pods, with the paths of their pod templates and replica counts.",
    ),
    _flag("--strict", "Exit 2 for unknown fields, invalid annotations, and workloads or kinds that cannot be planned."),
    _flag("--ignore-unknown", "Do not warn about unknown fields."),
    _flag("--lenient", "Warn about workloads and kinds that cannot be planned, instead of failing."),
    _once(
        "--max-input-bytes",
        metavar="SIZE",
        meaning="Maximum total size of the input, e.g. 256Mi.",
        default=DEFAULT_MAX_BYTES,
        show_default=True,
    ),
)


class SourceCommand(Command):
    """A command about an input: first the options that choose a cluster, then its own, then changes and reading."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **more: Any) -> None:
        changes = [_change(name, *row)() for name, row in _CHANGES.items()]
        first, last = ([make() for make in table] for table in (_CLUSTER, _READING))
        super().__init__(*args, params=[*first, *(params or []), *changes, *last], **more)


# -- reading ---------------------------------------------------------------------------------------


def source_of(context: typer.Context) -> "InputSource":
    """Return what the options of a `SourceCommand` choose. Bad usage ends the command with exit code 2."""
    from reprieve.cli.options import read_size
    from reprieve.python.inputs import InputSource, Strictness, read_workload_kinds

    values = context.meta[_VALUES]
    files, lenient, unknown = values["filename"] or (), values["lenient"], not values["ignore_unknown"]
    if files and values["kubeconfig"] is None and values["context"] is not None and not values["live"]:
        refuse("--context requires --kubeconfig or --live when -f is given")
    if values["strict"] and (lenient or not unknown):
        refuse(f"--strict and {'--lenient' if unknown else '--ignore-unknown'} cannot be combined")
    strict = "--strict" if values["strict"] else ""
    return InputSource(
        strictness=Strictness(unknown, strict, strict, lenient),
        rows=read_workload_kinds(values["workload_kinds"] or ()),
        run=read_runs(values["run"]),
        files=files,
        kubeconfig=values["kubeconfig"],
        added=values["live"],
        context=values["context"],
        max_bytes=read_size("--max-input-bytes", values["max_input_bytes"]),
        changes=read_changes(context.meta[ORDER], values, like_alone=context.info_name == "capacity"),
    )


def read_runs(run: Sequence[str] | None) -> list[str]:
    """Return the CronJobs of `--run` as `NAMESPACE/NAME`."""
    from reprieve.simulation.workloads.expansion import run_of

    names = []
    for text in run or ():
        name = run_of(text)
        if name is None:
            refuse(f"--run {text}: expected cronjob/NAME or NAMESPACE/cronjob/NAME")
        names.append(name)
    return names


def read_changes(
    order: Sequence[str | None], values: dict[str, Any], *, like_alone: bool = False
) -> "list[InputChange]":
    """Return the changes in the order in which they were given.

    `like_alone`: `--like` is allowed without `--add-nodes`. `order`: the names of the options, once for each use;
    `values`: their values by the same names.
    """
    from reprieve.questions.changes import InputChange

    flags = {name.replace("-", "_"): name for name in _CHANGES}
    left = {name: list(values.get(name) or ()) for name in flags}
    changes: list[InputChange] = []
    for name in order:
        if name is None or not left.get(name):
            continue
        value = left[name].pop(0)
        if name != "like":
            changes.append(InputChange(flags[name], value))
        elif changes and changes[-1].flag == "add-nodes" and not changes[-1].like:
            changes[-1] = replace(changes[-1], like=value)
        elif like_alone:
            changes.append(InputChange("like", value))
        else:
            refuse(f"--like {value}: must directly follow --add-nodes N")
    bare = next((change for change in changes if change.flag == "add-nodes" and not change.like), None)
    if bare is not None:
        refuse(f"{bare} requires --like NODE after it: the node to copy")
    return changes


def answering_for_all(source: "InputSource", options: "Sequence[tuple[str, bool]]") -> "InputSource":
    """Return the source; parts that cannot be planned are an error if an exit code is the answer.

    `options`: the options that request an exit code, and whether each was given.
    """
    option = next((name for name, used in options if used), "")
    if not option or source.strictness.lenient or source.strictness.answer_for_all:
        return source
    return replace(source, strictness=replace(source.strictness, answer_for_all=option))


def gather(
    source: "InputSource", now: float | None = None, noted: "Callable[[Sequence[str]], object]" = lambda lines: None
) -> "PreparedInput":
    """Read the input of a question, with a line of progress.

    `now`: the time of the question, if it was given. `noted`: called with the warnings, which are also written to
    stderr.
    """
    from reprieve.python import inputs

    def warned(lines: "Sequence[str]") -> None:
        noted(lines)
        warn(lines)

    with working("reading the cluster"):
        return inputs.gather(source, warned, now)


# -- showing ---------------------------------------------------------------------------------------


def warn_of(prepared: "PreparedInput") -> None:
    """Warn on stderr about the parts of the input that are left out."""
    from reprieve.simulation.plan_inputs import input_remarks

    for remark in input_remarks(prepared.manifests):
        note(f"warning: {remark}")


def warn_of_namespace(prepared: "PreparedInput", namespace: str) -> None:
    """Warn on stderr if no object of the input is in the namespace that limits an answer, or is the namespace."""
    from kube_rules.objects import Namespace
    from kube_rules.unknown_fields import did_you_mean, nearest

    objects = [loaded.object for loaded in prepared.manifests.all()]
    names = {item.name if isinstance(item, Namespace) else item.namespace for item in objects} - {""}
    if namespace not in names:
        note(f'warning: no object is in namespace "{namespace}"{did_you_mean(nearest(namespace, names))}')


def show_answer(
    prepared: "PreparedInput", answer: AnswerT, output: Format, sections: "Callable[[AnswerT], Sequence[Section]]"
) -> None:
    """Show an answer in the output format, with the changes of the input."""
    if output is Format.TEXT:
        show_with_changes(prepared, sections(answer))
        return
    from msgspec.structs import replace as with_fields

    show(document(with_fields(answer, changes=tuple(prepared.changed.applied)), output))


def show_with_changes(prepared: "PreparedInput", sections: "Sequence[Section]") -> None:
    """Show the answer as text, below the changes of the input (whatif.md 4.2)."""
    from reprieve.cli.render import changes_section
    from reprieve.cli.terminal import show_sections

    changes = changes_section(prepared.changed.applied)
    show_sections([*([changes] if changes is not None else []), *sections])
