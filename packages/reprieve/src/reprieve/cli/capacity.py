"""`reprieve capacity`: how many more copies of a shape fit, and which capacity is fragmented."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format
from reprieve.cli.outcome import refuse, warn
from reprieve.cli.progress import working
from reprieve.cli.source import gather, show_answer, source_of, warn_of

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.python.inputs import InputSource
    from reprieve.questions.capacity import CapacityReport
    from reprieve.questions.needed_nodes import NodesNeeded


def command(
    context: typer.Context,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="FILE", help="Manifest of the pod, gang or workload to fit. Repeatable."),
    ] = None,
    topology: Annotated[
        str, typer.Option(metavar="LABEL", help="Show the largest gang for each value of this node label.")
    ] = "",
    pool: Annotated[
        str, typer.Option(metavar="LABEL", help="Group nodes into pools by this label instead of by size.")
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.TEXT,
) -> None:
    """Show how many more pods or gangs of a shape would fit, or the nodes that pending work needs.

    With --shape: counts with and without preemption, and shows the largest gang for each domain and the stranded
    capacity. With --like NODE alone: how many more nodes like NODE would place all pending pods without evictions.
    Changes such as --drain are applied first.
    """
    from dataclasses import replace

    from kube_rules.objects import PriorityClass
    from reprieve.cli.options import read_options
    from reprieve.client.cluster_reader import known_classes
    from reprieve.python.inputs import expand_workloads, read_manifests
    from reprieve.questions.capacity import capacity

    source = source_of(context)
    likes = [change for change in source.changes if change.flag == "like"]
    source = replace(source, changes=[change for change in source.changes if change.flag != "like"])
    if len(likes) + bool(shape) != 1:
        refuse("expected one of --shape FILE (what to fit) and --like NODE (the nodes to add)")
    if likes:
        if topology or pool:
            refuse(f"--{'topology' if topology else 'pool'} requires --shape")
        _show_needed(source, likes[0].value, output)
        return
    assert shape is not None
    if [*source.files, *shape].count("-") > 1:
        refuse("-: standard input can be read only once")
    prepared = gather(replace(source, run=()))  # --run is part of the shape: pending pods of the cluster are left out
    shape_input = read_manifests(
        shape,
        source.strictness,
        warn,
        max_bytes=source.max_bytes,
        complete=False,
        classes=known_classes(prepared.manifests),
    )
    shape_input.objects[PriorityClass] = [*shape_input.of(PriorityClass), *prepared.manifests.of(PriorityClass)]
    shape_input = expand_workloads(shape_input, source, warn).manifests
    with working("counting what fits"):
        report = capacity(prepared.manifests, shape_input, read_options(), topology=topology, pool=pool)
    warn_of(prepared)
    show_answer(prepared, report, output, capacity_sections)


def _show_needed(source: "InputSource", like: str, output: Format) -> None:
    """Show how many more nodes like a given one the pending pods need."""
    from dataclasses import replace

    from reprieve.cli.options import read_options
    from reprieve.questions.needed_nodes import nodes_needed

    prepared = gather(source)
    options = replace(read_options(), now=prepared.now, rows=source.rows)
    with working("counting nodes"):
        report = nodes_needed(prepared.manifests, like, options, source.rows)
    warn_of(prepared)
    show_answer(prepared, report, output, lambda needed: [needed_section(needed)])


def needed_section(report: "NodesNeeded") -> "Section":
    """Return the number of needed nodes as text."""
    from kube_rules.errors import names_text
    from reprieve.cli.sections import Section, Tone
    from reprieve.decisions.phrases import count

    amounts = ", ".join(f"{amount} {name}" for name, amount in report.node.items())
    notes = [f"A node like {report.like} has {amounts}."]
    if not report.pods:
        return Section("No pods are pending: no nodes are needed.", notes=tuple(notes), tone=Tone.GOOD)
    placed = "all" if report.placed == report.pods else str(report.placed)
    if report.nodes:
        more = count(report.nodes, "more node")
        title = f"{more} like {report.like} would place {placed} of {count(report.pods, 'pending pod')}."
    else:
        title = f"No more nodes are needed for {placed} of {count(report.pods, 'pending pod')}."
    if report.waiting_total:
        waiting = names_text(report.waiting, 5, report.waiting_total)
        notes.append(f"Such nodes do not help {waiting}.")
    return Section(title, notes=tuple(notes), tone=Tone.WAITING if report.nodes or report.waiting_total else Tone.GOOD)


def capacity_sections(report: "CapacityReport") -> "list[Section]":
    """Return the report as text and tables."""
    from reprieve.cli.sections import Row, Section, Tone
    from reprieve.decisions.phrases import count

    requests = ", ".join(f"{amount} {name}" for name, amount in report.requests.items())
    notes = [f"A copy is {count(report.pods_per_copy, 'pod')}" + (f", {requests} in all." if requests else ".")]
    more = {name: " or more" if name in report.at_least else "" for name in ("now", "withPreemption", "largestGang")}
    if report.with_preemption > report.now:
        evicted = count(report.victims, "pod")
        notes.append(f"{report.with_preemption}{more['withPreemption']} with preemption, which would evict {evicted}.")
    elif not more["now"]:
        notes.append("Preemption would not let more of them fit.")
    notes.append(f"The largest gang of such pods: {report.largest_gang}{more['largestGang']}.")
    if report.untried:
        notes.append("No more were tried.")
    elif report.at_least:
        notes.append('"Or more": in other places more may fit. All other figures are exact.')
    if report.refusal:
        notes.append(f"Admission refuses more: {report.refusal}.")
    tone = Tone.GOOD if report.now else Tone.WAITING
    now = f"{report.now}{more['now'] or ' more'} of {report.shape} {'fits' if report.now == 1 else 'fit'} now."
    sections = [Section(now, notes=tuple(notes), tone=tone)]
    if report.domains:
        rows = tuple(Row((item.name, str(item.nodes), str(item.pods))) for item in report.domains)
        sections.append(Section(f"By {report.topology_key}", ("domain", "nodes", "largest gang"), rows))
    pools = [
        (item.name, str(item.nodes), str(item.pods), item.free, item.stranded or "unknown", ", ".join(item.by))
        for item in report.pools
    ]
    columns = ("pool", "nodes", "pods that fit", f"{report.resource} free", "stranded", "rest mostly used by")
    shown = len(columns) if any(by for *_, by in pools) else len(columns) - 1
    sections.append(Section("Nodes", columns[:shown], tuple(Row(cells[:shown]) for cells in pools)))
    return sections
