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
        typer.Option("--shape", metavar="FILE", help="Manifest of the pod, gang or workload to fit. Repeatable."),
    ],
    topology: Annotated[
        str, typer.Option(metavar="LABEL", help="Show the largest gang for each value of this node label.")
    ] = "",
    pool: Annotated[
        str, typer.Option(metavar="LABEL", help="Group nodes into pools by this label instead of by size.")
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.TEXT,
) -> None:
    """Show how many more pods or gangs of a shape would fit.

    Counts with and without preemption, and shows the largest gang for each domain and the stranded capacity. Changes
    such as --drain are applied first.
    """
    from dataclasses import replace

    from kube_rules.objects import PriorityClass
    from reprieve.cli.options import read_options
    from reprieve.client.cluster_reader import known_classes
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
    columns = ("pool", "nodes", "pods that fit", f"{found.resource} free", "stranded", "most common sizes of the rest")
    shown = len(columns) if any(by for *_, by in pools) else len(columns) - 1
    sections.append(Section("Nodes", columns[:shown], tuple(Row(cells[:shown]) for cells in pools)))
    return sections
