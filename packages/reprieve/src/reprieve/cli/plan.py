"""`reprieve plan`: what the scheduler would do, and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format, PlanFormat, document
from reprieve.cli.options import (
    DEFAULT_PLUGIN_TIMEOUT,
    CompatibleOption,
    ConfigOption,
    GatesOption,
    PluginOption,
    PluginTimeoutOption,
    read_options,
    read_time,
)
from reprieve.cli.outcome import Exit, note, refuse, show
from reprieve.cli.progress import working
from reprieve.cli.source import SuggestOption, answering_for_all, gather, source_of

if TYPE_CHECKING:
    from reprieve.python.inputs import InputSource, PreparedInput
    from reprieve.python.pending_records import WaitingRecords
    from reprieve.simulation.plan import PlanOptions
    from reprieve.simulation.report import Answer


def command(
    context: typer.Context,
    first_decision: Annotated[
        bool,
        typer.Option(
            "--first-decision/--settle",
            help="Stop at the first decision to preempt, while its victims still run, or simulate until nothing "
            "changes.",
        ),
    ] = False,
    output: Annotated[PlanFormat, typer.Option("-o", "--output", help="Output format.")] = PlanFormat.TEXT,
    config: ConfigOption = None,
    feature_gates: GatesOption = "",
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Break ties between nodes at random with this seed instead of by name."),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Plan for this time (RFC 3339). Default: just after the newest object; for a live cluster, now.",
        ),
    ] = None,
    fail_on_preemption: Annotated[
        bool, typer.Option("--fail-on-preemption", help="Exit 1 if a planned pod would preempt anything.")
    ] = False,
    fail_on_pending: Annotated[
        bool,
        typer.Option("--fail-on-pending", help="Exit 1 if a planned pod would stay pending or be lost with its node."),
    ] = False,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Also plan with this configuration and show both side by side. Repeatable.",
        ),
    ] = None,
    compare_to: Annotated[
        list[str] | None,
        typer.Option(
            "--compare-to",
            metavar="FILE",
            help="Also plan with these manifests and show both side by side. Repeatable.",
        ),
    ] = None,
    only_different: Annotated[
        bool, typer.Option("--diff", help="Show only the differences between compared plans.")
    ] = False,
    suggest: SuggestOption = True,
    compatible: CompatibleOption = False,
    plugin: PluginOption = None,
    plugin_timeout: PluginTimeoutOption = DEFAULT_PLUGIN_TIMEOUT,
    call_extenders: Annotated[
        bool,
        typer.Option(
            "--call-extenders", help="Call the HTTP extenders of the configuration; by default they are ignored."
        ),
    ] = False,
) -> None:  # long: one parameter for each option, as typer wants them
    """Show what the scheduler would do, and why.

    Nothing is changed. Pods with a nodeName are running, pods without one are pending. Without -f, plan reads the live
    cluster that kubectl uses.
    """
    codes = [("--fail-on-preemption", fail_on_preemption), ("--fail-on-pending", fail_on_pending)]
    source = answering_for_all(source_of(context), codes)
    options = read_options(
        first_decision=first_decision,
        config=config,
        feature_gates=feature_gates,
        seed=seed,
        plugins=plugin or (),
        plugin_timeout=plugin_timeout,
        call_extenders=call_extenders,
        compatible=compatible,
    )
    from dataclasses import replace

    if compare or compare_to:
        from reprieve.cli.comparison import compare_plans

        at = read_time("--now", now) if now is not None else None
        settings = {
            "first_decision": first_decision,
            "feature_gates": feature_gates,
            "seed": seed,
            "plugins": plugin or (),
            "plugin_timeout": plugin_timeout,
            "call_extenders": call_extenders,
        }
        own = "--config" if config is not None else "--compatible" if compatible else ""
        sides = compare_plans(
            source, replace(options, now=at), compare or [], compare_to or [], settings, only_different, own
        )
        if output in _PAGES:
            refuse(f"-o {output.value}: a comparison has no page; write one for each plan")
        if output is PlanFormat.TEXT:
            from reprieve.cli.comparison import comparison_sections
            from reprieve.cli.terminal import show_sections

            show_sections(comparison_sections(sides, only_different=only_different))
        else:
            show(document(sides, Format(output.value)))
        waits = fail_on_pending and any(variant.waiting for variant in sides.variants)
        evicts = fail_on_preemption and any(variant.evicted for variant in sides.variants)
        raise typer.Exit(Exit.NOT_SO if waits or evicts else Exit.DONE)
    if only_different:
        refuse("--diff: nothing to compare: expected --compare CONFIGURATION or --compare-to MANIFESTS")
    from reprieve.python.pending_records import WaitingRecords

    records = WaitingRecords()
    options = replace(options, now=read_time("--now", now) if now is not None else None)
    page = ""
    if output in _PAGES:
        answer, page = page_for(source, options, output, suggest=suggest)
    else:
        answer = answer_for(source, replace(options, observer=records), records if suggest else None)
    for warning in answer.account.warnings:
        note(f"warning: {warning}")
    if output in _PAGES:
        show(page)
    elif output is PlanFormat.TEXT:
        from reprieve.cli.render import plan_sections
        from reprieve.cli.terminal import show_sections

        show_sections(plan_sections(answer, records.of))
    else:
        show(document(answer.plan, Format(output.value)))
    result = answer.plan
    failed = (fail_on_preemption and result.asked_preemptions) or (fail_on_pending and not result.all_placed)
    raise typer.Exit(Exit.NOT_SO if failed else Exit.DONE)


_PAGES = (PlanFormat.HTML, PlanFormat.PAGE)


def page_for(
    source: "InputSource", options: "PlanOptions", output: PlanFormat, *, suggest: bool
) -> "tuple[Answer, str]":
    """Read the cluster and plan it; return the answer, and the page of it as one file or its document."""
    from reprieve.cli.plan_page import planned_page
    from reprieve.page.html import as_file

    warnings: list[str] = []
    prepared = _prepared(source, options, warnings)
    with working("planning"):
        answer, page = planned_page(prepared, options, suggest=suggest, warnings=warnings)
        if output is PlanFormat.PAGE:
            return answer, document(page, Format.JSON)
        return answer, as_file(page)


def answer_for(source: "InputSource", options: "PlanOptions", records: "WaitingRecords | None") -> "Answer":
    """Read the cluster and plan it. With `records`, changes that could help are tried (`answered`)."""
    from dataclasses import replace

    from reprieve.cluster.garbage_collection import collecting_once_loaded
    from reprieve.python.answers import answered

    with collecting_once_loaded() as loaded:
        prepared = _prepared(source, options)
        with working("planning"):
            return answered(prepared, replace(options, on_loaded=loaded), records)


def _prepared(source: "InputSource", options: "PlanOptions", warnings: "list[str] | None" = None) -> "PreparedInput":
    """Read the input; its warnings are added to `warnings`."""
    from dataclasses import replace

    from kube_rules.group_sources import OWNERS
    from reprieve.scheduling.preemptor_reservations import waits_for_completions

    jobs = waits_for_completions(options.profiles)
    source = replace(source, owners=OWNERS in options.sources, jobs=jobs)
    return gather(source, options.now, warnings.extend if warnings is not None else lambda lines: None)
