"""`plan --compare`: the same plan under several configurations, or with and without additional manifests."""

import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reprieve.cli.outcome import note, refuse
from reprieve.cli.progress import working
from reprieve.cli.source import gather

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.python.inputs import InputSource, PreparedInput
    from reprieve.questions.comparison import PlanComparison
    from reprieve.simulation.plan import PlanOptions
    from reprieve.simulation.report import Answer

MOST_VARIANTS = 16
AS_IT_IS = "as it is"


def compare_plans(
    source: "InputSource",
    options: "PlanOptions",
    configurations: Sequence[str],
    additions: Sequence[str],
    settings: Mapping[str, Any],
    only_different: bool,
    own: str = "",
) -> "PlanComparison":
    """Plan every variant: each configuration, or the input alone and with each of the additions.

    `settings`: further `read_options` options for the configurations; `own`: the option that set the one of `options`.
    """
    from kube_rules.group_sources import OWNERS
    from reprieve.cli.options import read_options
    from reprieve.python.answers import without
    from reprieve.questions.changes import with_changes
    from reprieve.questions.comparison import compared
    from reprieve.scheduling.preemptor_reservations import waits_for_completions
    from reprieve.simulation.plan import plan

    if len(configurations) + len(additions) > MOST_VARIANTS:
        refuse(f"at most {MOST_VARIANTS} plans can be compared")
    if len(configurations) > 1 and own:
        refuse(f"{own} cannot be combined with more than one --compare: pass it as another --compare")
    if [*source.files, *additions].count("-") > 1:
        refuse("-: standard input can be read only once")
    if "-" in source.files and additions:  # each addition is read together with the files
        source = replace(source, stdin=sys.stdin.buffer.read(source.max_bytes + 1))
    variants: list[tuple[str, InputSource, PlanOptions]] = []
    if len(configurations) < 2:
        variants.append((AS_IT_IS, source, options))
    variants += [
        (file, source, replace(read_options(config=file, **settings), now=options.now)) for file in configurations
    ]
    variants += [(file, replace(source, files=[*source.files, file]), options) for file in additions]
    source_on = any(OWNERS in chosen.sources for _, _, chosen in variants)
    jobs = any(waits_for_completions(chosen.profiles) for _, _, chosen in variants)
    variants = [(name, replace(files, owners=source_on, jobs=jobs), chosen) for name, files, chosen in variants]
    answers: list[tuple[str, Answer]] = []
    beside: Set[tuple[str, str]] | None = None
    warned: set[str] = set()
    prepared_inputs: dict[tuple[str, ...], PreparedInput] = {}
    for name, variant_source, chosen in variants:
        prepared = prepared_inputs.get(tuple(variant_source.files)) or gather(variant_source, chosen.now)
        prepared_inputs[tuple(variant_source.files)] = prepared
        with working("planning"):
            answer = plan(prepared.manifests, replace(chosen, now=prepared.now, rows=source.rows))
        for warning in answer.account.warnings:
            if warning not in warned:
                warned.add(warning)
                note(f"warning: {warning}")
        answers.append((name, with_changes(answer, prepared.changed)))
        if prepared.beside:  # a pod in the question of one plan is in the question of all
            beside = prepared.beside if beside is None else beside & prepared.beside
    plans = [(name, without(answer, beside or frozenset()).plan) for name, answer in answers]
    return compared(plans, only_different=only_different)


def comparison_sections(comparison: "PlanComparison", *, only_different: bool) -> "list[Section]":
    """Return the table of outcomes and the figures below it."""
    from reprieve.cli.render import changes_section
    from reprieve.cli.sections import Row, Section, Tone

    names = tuple(variant.name for variant in comparison.variants)
    rows = tuple(
        Row(
            (f"{row.kind.lower()} {row.namespace}/{row.name}", *(outcome or "-" for outcome in row.outcomes)),
            tone=Tone.WAITING if row.differs else Tone.PLAIN,
        )
        for row in comparison.rows
    )
    title = "Where the plans differ" if only_different else "Side by side"
    notes = () if rows else ("no differences for the planned pods",)
    numbers = (
        ("pods placed", [str(item.placed) for item in comparison.variants]),
        ("pods pending", [str(item.waiting) for item in comparison.variants]),
        ("pods evicted", [str(item.evicted) for item in comparison.variants]),
        ("GPU-hours lost", [f"{item.lost_gpu_hours:g}" for item in comparison.variants]),
        ("CPU-hours lost", [f"{item.lost_cpu_hours:g}" for item in comparison.variants]),
        ("budget violations", [str(item.pdb_violations) for item in comparison.variants]),
    )
    changes = changes_section(comparison.changes)
    return [
        *([changes] if changes is not None else []),
        Section(title, ("", *names), rows, notes),
        Section("In numbers", ("", *names), tuple(Row((name, *values)) for name, values in numbers)),
    ]
