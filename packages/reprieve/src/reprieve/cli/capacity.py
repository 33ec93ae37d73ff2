"""`reprieve capacity`: how many more of something fit, and what is fragmented."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import refuse, show, warn
from reprieve.cli.progress import working
from reprieve.cli.source import gather, show_with_changes, source_of, warn_of

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.questions.capacity import CapacityReport


def command(
    context: typer.Context,
    shape: Annotated[
        list[str],
        typer.Option("--shape", metavar="FILE", help="What is asked about: a pod, a gang or a workload. Repeatable."),
    ],
    topology: Annotated[
        str, typer.Option(metavar="LABEL", help="Show the largest gang for each value of this node label.")
    ] = "",
    pool: Annotated[
        str, typer.Option(metavar="LABEL", help="Nodes with one value of this label are a pool, not those of one size.")
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="How to show the answer.")] = Format.TEXT,
) -> None:
    """Show how many more of a shape fit now and with preemption, the largest gang of each domain, and stranded room.

    With changes, such as --drain, it is the cluster after them that is asked about.
    """
    from dataclasses import replace

    from kube_rules.objects import PriorityClass
    from reprieve.cli.options import read_options
    from reprieve.client.reading import known_classes
    from reprieve.python.inputs import expand_workloads, read_manifests
    from reprieve.questions.capacity import capacity

    source = source_of(context)
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


def capacity_sections(found: "CapacityReport") -> "list[Section]":
    """The answer in words and tables."""
    from reprieve.cli.sections import Row, Section, Tone
    from reprieve.decisions.phrases import count

    asked = ", ".join(f"{amount} {name}" for name, amount in found.requests.items())
    notes = [f"A copy is {count(found.pods_per_copy, 'pod')}" + (f", {asked} in all." if asked else ".")]
    more = {name: " or more" if name in found.at_least else "" for name in ("now", "withPreemption", "largestGang")}
    if found.with_preemption > found.now:
        evicted = count(found.victims, "pod")
        notes.append(f"{found.with_preemption}{more['withPreemption']} with preemption, which would evict {evicted}.")
    elif not more["now"]:
        notes.append("No more of them with preemption.")
    notes.append(f"The largest gang of such pods: {found.largest_gang}{more['largestGang']}.")
    if found.at_least:
        notes.append("No more were tried.")
    if found.refusal:
        notes.append(f"No more by admission: {found.refusal}.")
    tone = Tone.GOOD if found.now else Tone.WAITING
    now = f"{found.now}{more['now'] or ' more'} of {found.shape} {'fits' if found.now == 1 else 'fit'} now."
    sections = [Section(now, notes=tuple(notes), tone=tone)]
    if found.domains:
        rows = tuple(Row((one.name, str(one.nodes), str(one.pods))) for one in found.domains)
        sections.append(Section(f"By {found.topology_key}", ("domain", "nodes", "largest gang"), rows))
    pools = [
        (one.name, str(one.nodes), str(one.pods), one.free, one.stranded or "unknown", ", ".join(one.by))
        for one in found.pools
    ]
    columns = ("pool", "nodes", "pods that fit", f"{found.resource} free", "stranded", "most of the rest there has")
    shown = len(columns) if any(by for *_, by in pools) else len(columns) - 1
    sections.append(Section("Nodes", columns[:shown], tuple(Row(cells[:shown]) for cells in pools)))
    return sections
