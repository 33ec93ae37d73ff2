"""`reprieve drain-plan`: in which order to drain nodes, where pods move, which gangs break, which budgets block it."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format
from reprieve.cli.outcome import Exit
from reprieve.cli.progress import working
from reprieve.cli.source import answering_for_all, gather, show_answer, source_of, warn_of
from reprieve.decisions.phrases import count

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.questions.drain_order import DrainedNode, DrainPlan, GangCount


def command(
    context: typer.Context,
    nodes: Annotated[list[str], typer.Argument(metavar="NODE|SELECTOR...", help="Nodes to drain.")],
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.TEXT,
    fail_on_pending: Annotated[
        bool,
        typer.Option(
            "--fail-on-pending",
            help="Exit 1 if a pod would stay pending or be lost, or if a disruption budget blocks an eviction.",
        ),
    ] = False,
    fail_on_preemption: Annotated[
        bool, typer.Option("--fail-on-preemption", help="Exit 1 if a pod would be preempted.")
    ] = False,
) -> None:
    """Find the least disruptive order in which to drain nodes."""
    from reprieve.cli.options import read_options
    from reprieve.questions.drain_order import drain_plan, nodes_named

    codes = [("--fail-on-preemption", fail_on_preemption), ("--fail-on-pending", fail_on_pending)]
    source = answering_for_all(source_of(context), codes)
    prepared = gather(source)
    base = prepared.changed.manifests
    named = nodes_named(base, nodes)
    with working("draining"):
        drain = drain_plan(base, named, read_options(), rows=source.rows, run=source.run)
    warn_of(prepared)
    show_answer(prepared, drain, output, drain_sections)
    failed = (fail_on_pending and not drain.clean) or (fail_on_preemption and drain.evicts)
    raise typer.Exit(Exit.NOT_SO if failed else Exit.DONE)


def drain_sections(drain: "DrainPlan") -> "list[Section]":
    """Return the verdict, how often gangs break, and a section for each step, in order."""
    from reprieve.cli.sections import Row, Section, Tone

    steps: dict[int, list[DrainedNode]] = {}
    for node in drain.nodes:
        steps.setdefault(node.step, []).append(node)
    # a pod that tolerates the cordon taint may return
    back = any(item.to == item.node_name for node in drain.nodes for item in node.displaced)
    if drain.clean:
        verdict = f"Every pod finds {'a place, some only on the node they were on' if back else 'another place'}."
    else:
        verdict = f"Not every pod finds another place: {_what_is_wrong(drain)}."
    notes = []
    evicted = sum(len(node.evicted) for node in drain.nodes)
    if evicted:
        notes.append(
            f"{count(evicted, 'pod')} {'is' if evicted == 1 else 'are'} preempted to free capacity for others."
        )
    sections = [Section(verdict, notes=tuple(notes), tone=Tone.GOOD if drain.clean else Tone.WAITING)]
    if drain.gangs:
        rows = tuple(
            Row(
                (
                    f"gang {item.namespace}/{item.name}",
                    "once" if item.times == 1 else f"{item.times} times",
                    _steps(item),
                )
            )
            for item in drain.gangs
        )
        sections.append(Section("Gangs that fall below their minimum", ("", "", ""), rows, tone=Tone.WAITING))
    return sections + [_step(number, nodes) for number, nodes in steps.items()]


def _what_is_wrong(drain: "DrainPlan") -> str:
    waiting, lost = sum(node.waiting for node in drain.nodes), sum(node.lost for node in drain.nodes)
    budgets = len({budget for node in drain.nodes for budget in (*node.budgets, *node.overruled)})
    parts = [f"{count(waiting, 'pod')} {'stays' if waiting == 1 else 'stay'} pending"] if waiting else []
    parts += [f"{count(lost, 'pod')} {'is' if lost == 1 else 'are'} lost"] if lost else []
    parts += [f"{count(budgets, 'budget')} {'does' if budgets == 1 else 'do'} not allow an eviction"] if budgets else []
    return ", ".join(parts)


def _steps(gang: "GangCount") -> str:
    """`in step 2`, `in steps 2, 5`."""
    return f"in step{'' if gang.times == 1 else 's'} {', '.join(map(str, gang.steps))}"


def _step(number: int, nodes: "list[DrainedNode]") -> "Section":
    """Return the section of nodes drained together: new nodes of their pods, preempted pods, gangs and budgets."""
    from reprieve.cli.render import budgets_text, displaced_rows, evicted_rows, kubectl_needs
    from reprieve.cli.sections import Section, Tone

    first = nodes[0]
    rows = (
        *displaced_rows((item for node in nodes for item in node.displaced), why=True),
        *evicted_rows(first.evicted),
    )
    notes = [] if rows else ["no pods are evicted"]
    if len(nodes) > 1:
        notes.append("drained together, so that a gang on several of these nodes is evicted only once")
    budgets = sorted({budget for node in nodes for budget in node.budgets})
    if budgets:
        notes.append(f"{budgets_text('blocked by', budgets)} until the evictions are allowed")
    if first.overruled:
        notes.append(budgets_text("preemption violates", first.overruled))
    notes += [
        f"budget {item.budget}: {item.allowed} allowed, {item.evicted} evicted, {item.allowed_after} allowed afterwards"
        for item in first.budget_use
    ]
    for node in nodes:
        needs = kubectl_needs(node.kubectl_needs)
        notes += [f"{needs} for {node.name}" if len(nodes) > 1 else needs] if needs else []
    notes += [
        f"breaks gang {item.namespace}/{item.name}: {item.left} of {item.before} left, minCount {item.min_count}, "
        f"{item.after} placed at the end"
        for item in first.broken_gangs
    ]
    waits, lost = any(node.waiting for node in nodes), any(node.lost for node in nodes)
    tone = Tone.BAD if budgets or lost else Tone.WAITING if waits else Tone.PLAIN
    columns = ("", "", "", "") if rows else ()
    names = ", ".join(node.name for node in nodes)
    return Section(f"{number}. {names}", columns, rows, tuple(notes), tone=tone)
