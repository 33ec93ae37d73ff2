"""`reprieve capacity`: how many more copies of a shape fit, and which capacity is fragmented."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import refuse, show, warn
from reprieve.cli.progress import working
from reprieve.cli.source import gather, show_with_changes, source_of, warn_of

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
        _show_needed(source, likes[0].value, output)
        return
    assert shape is not None
    if [*source.files, *shape].count("-") > 1:
        refuse("-: standard input can be read only once")
    prepared = gather(replace(source, run=()))  # --run is part of the shape: pending pods of the cluster are left out
    asked = read_manifests(
        shape,
        source.strictness,
        warn,
        max_bytes=source.max_bytes,
        complete=False,
        classes=known_classes(prepared.manifests),
    )
    asked.objects[PriorityClass] = [*asked.of(PriorityClass), *prepared.manifests.of(PriorityClass)]
    asked = expand_workloads(asked, source, warn).manifests
    with working("counting what fits"):
        found = capacity(prepared.manifests, asked, read_options(), topology=topology, pool=pool)
    warn_of(prepared)
    if output is not Format.TEXT:
        from msgspec.structs import replace as with_fields

        show(document(with_fields(found, changes=tuple(prepared.changed.made)), output))
        return
    show_with_changes(prepared, capacity_sections(found))


def _show_needed(source: "InputSource", like: str, output: Format) -> None:
    """Show how many more nodes like a given one the pending pods need."""
    from dataclasses import replace

    from msgspec.structs import replace as with_fields

    from reprieve.cli.options import read_options
    from reprieve.questions.needed_nodes import nodes_needed

    prepared = gather(source)
    options = replace(read_options(), now=prepared.now, rows=source.rows)
    with working("counting nodes"):
        found = nodes_needed(prepared.manifests, like, options, source.rows)
    warn_of(prepared)
    if output is not Format.TEXT:
        show(document(with_fields(found, changes=tuple(prepared.changed.made)), output))
        return
    show_with_changes(prepared, [needed_section(found)])


def needed_section(found: "NodesNeeded") -> "Section":
    """Return the number of nodes in words."""
    from reprieve.cli.sections import Section, Tone
    from reprieve.decisions.phrases import count, names_text

    amounts = ", ".join(f"{amount} {name}" for name, amount in found.node.items())
    notes = [f"A node like {found.like} has {amounts}."]
    if not found.pods:
        return Section("No pods are pending: no nodes are needed.", notes=tuple(notes), tone=Tone.GOOD)
    placed = "all" if found.placed == found.pods else str(found.placed)
    if found.nodes:
        more = count(found.nodes, "more node")
        title = f"{more} like {found.like} would place {placed} of {count(found.pods, 'pending pod')}."
    else:
        title = f"No more nodes are needed for {placed} of {count(found.pods, 'pending pod')}."
    if found.waiting_total:
        waiting = names_text(found.waiting, 5, found.waiting_total)
        notes.append(f"Such nodes do not help {waiting}.")
    return Section(title, notes=tuple(notes), tone=Tone.WAITING if found.nodes or found.waiting_total else Tone.GOOD)


def capacity_sections(found: "CapacityReport") -> "list[Section]":
    """Return the answer in words and tables."""
    from reprieve.cli.sections import Row, Section, Tone
    from reprieve.decisions.phrases import count

    asked = ", ".join(f"{amount} {name}" for name, amount in found.requests.items())
    notes = [f"A copy is {count(found.pods_per_copy, 'pod')}" + (f", {asked} in all." if asked else ".")]
    more = {name: " or more" if name in found.at_least else "" for name in ("now", "withPreemption", "largestGang")}
    if found.with_preemption > found.now:
        evicted = count(found.victims, "pod")
        notes.append(f"{found.with_preemption}{more['withPreemption']} with preemption, which would evict {evicted}.")
    elif not more["now"]:
        notes.append("Preemption would not let more of them fit.")
    notes.append(f"The largest gang of such pods: {found.largest_gang}{more['largestGang']}.")
    if found.untried:
        notes.append("No more were tried.")
    elif found.at_least:
        notes.append('"Or more": in other places more may fit. All other figures are exact.')
    if found.refusal:
        notes.append(f"Admission refuses more: {found.refusal}.")
    tone = Tone.GOOD if found.now else Tone.WAITING
    now = f"{found.now}{more['now'] or ' more'} of {found.shape} {'fits' if found.now == 1 else 'fit'} now."
    sections = [Section(now, notes=tuple(notes), tone=tone)]
    if found.domains:
        rows = tuple(Row((item.name, str(item.nodes), str(item.pods))) for item in found.domains)
        sections.append(Section(f"By {found.topology_key}", ("domain", "nodes", "largest gang"), rows))
    pools = [
        (item.name, str(item.nodes), str(item.pods), item.free, item.stranded or "unknown", ", ".join(item.by))
        for item in found.pools
    ]
    columns = ("pool", "nodes", "pods that fit", f"{found.resource} free", "stranded", "rest mostly used by")
    shown = len(columns) if any(by for *_, by in pools) else len(columns) - 1
    sections.append(Section("Nodes", columns[:shown], tuple(Row(cells[:shown]) for cells in pools)))
    return sections
