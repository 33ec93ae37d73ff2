"""`reprieve drain-plan`: in which order to drain nodes, who goes where, which gangs break, which budgets stop it."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.asking import Source, answering_for_all, gather, show_with_changes, taking_source, warn_of
from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import Exit, refuse, show
from reprieve.cli.progress import working

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.simulation.whatif.draining import DrainPlan


@taking_source()
def command(
    context: typer.Context,
    source: Source,
    nodes: Annotated[list[str], typer.Argument(metavar="NODE|SELECTOR...", help="Which nodes are to be drained.")],
    output: Annotated[Format, typer.Option("-o", "--output", help="How to show the answer.")] = Format.TEXT,
    fail_on_pending: Annotated[
        bool,
        typer.Option("--fail-on-pending", help="Exit 1 if a pod would wait or be lost, or a budget stops the drain."),
    ] = False,
) -> None:
    """Plan the drain of nodes, one after the other, in the order that breaks least."""
    from dataclasses import replace

    from reprieve.api.errors import InputError
    from reprieve.cli.options import read_options
    from reprieve.simulation.whatif.draining import drain_plan, nodes_named
    from reprieve.simulation.workloads.table import TABLE

    gathered = gather(answering_for_all(source, [("--fail-on-pending", fail_on_pending)]))
    base = gathered.changed.manifests
    try:
        named = nodes_named(base, nodes)
        options = replace(read_options(), now=None)
        with working("draining"):
            found = drain_plan(base, named, options, rows=source.rows or TABLE, run=source.run)
    except InputError as error:
        refuse(str(error))
    warn_of(gathered)
    if output is Format.TEXT:
        show_with_changes(gathered, drain_sections(found))
    else:
        from msgspec.structs import replace as with_fields

        show(document(with_fields(found, changes=tuple(gathered.changed.made)), output))
    raise typer.Exit(Exit.NOT_SO if fail_on_pending and not found.clean else Exit.DONE)


def drain_sections(found: "DrainPlan") -> "list[Section]":
    """A section for each node, in order."""
    from reprieve.cli.render import displaced_rows, kubectl_needs
    from reprieve.cli.sections import Section, Tone

    sections = []
    for number, node in enumerate(found.nodes, 1):
        notes = []
        if node.budgets:
            notes.append(f"stopped by {', '.join(node.budgets)} until it allows the evictions")
        needs = kubectl_needs(node.kubectl_needs)
        notes += [needs] if needs else []
        notes += [
            f"breaks gang {one.namespace}/{one.name}: {one.left} of {one.before} left, minCount {one.min_count}, "
            f"{one.after} placed at the end"
            for one in node.broken_gangs
        ]
        rows = displaced_rows(node.displaced)
        tone = Tone.BAD if node.budgets or node.lost else Tone.WAITING if node.waiting else Tone.PLAIN
        if not rows:
            notes.insert(0, "nobody has to go")
        columns = ("", "", "", "") if rows else ()
        sections.append(Section(f"{number}. {node.name}", columns, rows, tuple(notes), tone=tone))
    back = any(one.to == one.node_name for node in found.nodes for one in node.displaced)  # it tolerates the cordon
    found_all = f"Everybody finds {'a place, but not all another one' if back else 'another place'}."
    verdict = found_all if found.clean else "Not everybody finds another place."
    return [Section(verdict, tone=Tone.GOOD if found.clean else Tone.WAITING), *sections]
