"""`reprieve plan`: what would happen, and why."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.asking import (
    DEFAULT_MAX_BYTES,
    ContextOption,
    FilesOption,
    IgnoreUnknownOption,
    KubeconfigOption,
    LenientOption,
    MaxBytesOption,
    RunOption,
    Source,
    StrictOption,
    WorkloadKindsOption,
    check_source,
    gather,
    read_runs,
)
from reprieve.cli.changing import (
    AddNodesOption,
    CordonOption,
    DrainOption,
    FailOption,
    LabelOption,
    LikeOption,
    RemoveNodeOption,
    ScaleOption,
    SetPriorityOption,
    TaintOption,
    UncordonOption,
    WithoutOption,
    read_changes,
)
from reprieve.cli.options import (
    DEFAULT_PLUGIN_TIMEOUT,
    CompatibleOption,
    PluginOption,
    PluginTimeoutOption,
    read_options,
    read_size,
    read_time,
)
from reprieve.cli.outcome import Exit, note, refuse, show
from reprieve.cli.reading import Heed, read_workload_kinds

if TYPE_CHECKING:
    import msgspec

    from reprieve.library.waiting import WaitingRecords
    from reprieve.simulation.plan import PlanOptions
    from reprieve.simulation.report import Answer


class Format(StrEnum):
    """What to write to stdout."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def command(
    ctx: typer.Context,
    files: FilesOption = None,
    first_decision: Annotated[
        bool,
        typer.Option(
            "--first-decision/--settle",
            help="Stop at the first decision to preempt, victims still running, or let virtual time pass until nothing "
            "changes.",
        ),
    ] = False,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to show the answer.")] = Format.TEXT,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="A KubeSchedulerConfiguration.")] = None,
    feature_gates: Annotated[
        str, typer.Option(metavar="A=true,B=false", help="Feature gates, as kube-scheduler spells them.")
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Choose among equally good nodes by this seed instead of by name.")
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Plan for this time (RFC 3339) instead of right after the newest object, or with --kubeconfig now.",
        ),
    ] = None,
    fail_on_preemption: Annotated[
        bool, typer.Option("--fail-on-preemption", help="Exit 1 if anything would be preempted.")
    ] = False,
    fail_on_pending: Annotated[
        bool,
        typer.Option("--fail-on-pending", help="Exit 1 if a pod would still wait, or is lost with its node."),
    ] = False,
    strict: StrictOption = False,
    ignore_unknown: IgnoreUnknownOption = False,
    lenient: LenientOption = False,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", metavar="FILE", help="Plan under this configuration too, side by side. Repeatable."),
    ] = None,
    compare_to: Annotated[
        list[str] | None,
        typer.Option("--compare-to", metavar="FILE", help="Plan with these manifests too, side by side. Repeatable."),
    ] = None,
    only_different: Annotated[
        bool, typer.Option("--diff", help="Of plans side by side only that in which they differ.")
    ] = False,
    run: RunOption = None,
    cordon: CordonOption = None,
    uncordon: UncordonOption = None,
    drain: DrainOption = None,
    remove_node: RemoveNodeOption = None,
    fail_node: FailOption = None,
    taint: TaintOption = None,
    label: LabelOption = None,
    add_nodes: AddNodesOption = None,
    like: LikeOption = None,
    scale: ScaleOption = None,
    set_priority: SetPriorityOption = None,
    without: WithoutOption = None,
    workload_kinds: WorkloadKindsOption = None,
    max_input_bytes: MaxBytesOption = DEFAULT_MAX_BYTES,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    compatible: CompatibleOption = False,
    plugin: PluginOption = None,
    plugin_timeout: PluginTimeoutOption = DEFAULT_PLUGIN_TIMEOUT,
    call_extenders: Annotated[
        bool,
        typer.Option("--call-extenders", help="Ask the HTTP extenders of the configuration, which are else left out."),
    ] = False,
) -> None:
    """Show what would happen, and why, without touching anything.

    Pods with a nodeName run; pods without one are what is asked about.
    """
    given = {
        "cordon": cordon,
        "uncordon": uncordon,
        "drain": drain,
        "remove_node": remove_node,
        "fail_node": fail_node,
        "taint": taint,
        "label": label,
        "add_nodes": add_nodes,
        "like": like,
        "scale": scale,
        "set_priority": set_priority,
        "without": without,
    }
    check_source(files, kubeconfig, context)
    if strict and (ignore_unknown or lenient):
        refuse(f"--strict and {'--ignore-unknown' if ignore_unknown else '--lenient'} exclude each other")
    asked = [("--strict", strict), ("--fail-on-preemption", fail_on_preemption), ("--fail-on-pending", fail_on_pending)]
    heed = Heed(
        unknown_fields=not ignore_unknown,
        strict=strict,
        answer_for_all="" if lenient else next((option for option, given in asked if given), ""),
        lenient=lenient,
    )
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
    source = Source(
        files=files or (),
        kubeconfig=kubeconfig,
        context=context,
        max_bytes=read_size("--max-input-bytes", max_input_bytes),
        heed=heed,
        run=read_runs(run),
        rows=read_workload_kinds(workload_kinds or ()),
        changes=read_changes(ctx, given),
    )
    from dataclasses import replace

    if compare or compare_to:
        from reprieve.cli.comparing import compare_plans

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
        found = compare_plans(
            source, replace(options, now=at), compare or [], compare_to or [], settings, only_different, own
        )
        if output is Format.TEXT:
            from reprieve.cli.comparing import comparison_sections
            from reprieve.cli.terminal import show_sections

            show_sections(comparison_sections(found, only_different=only_different))
        else:
            show(document(found, output))
        waits = fail_on_pending and any(each.waiting for each in found.variants)
        evicts = fail_on_preemption and any(each.evicted for each in found.variants)
        raise typer.Exit(Exit.NOT_SO if waits or evicts else Exit.DONE)
    if only_different:
        refuse("--diff: there is nothing to compare: --compare CONFIGURATION or --compare-to MANIFESTS")
    from reprieve.library.waiting import WaitingRecords

    records = WaitingRecords()
    options = replace(options, observer=records, now=read_time("--now", now) if now is not None else None)
    answer = answer_for(source, options, records)
    for warning in answer.account.warnings:
        note(f"warning: {warning}")
    if output is Format.TEXT:
        from reprieve.cli.render import plan_sections
        from reprieve.cli.terminal import show_sections

        show_sections(plan_sections(answer, records.of))
    else:
        show(document(answer.plan, output))
    failed = (fail_on_preemption and answer.plan.preemptions) or (fail_on_pending and not answer.plan.all_placed)
    raise typer.Exit(Exit.NOT_SO if failed else Exit.DONE)


def answer_for(source: Source, options: "PlanOptions", records: "WaitingRecords") -> "Answer":
    """Read the cluster and plan. Whatever is wrong with it ends the command with exit code 2, or 3 for a server."""
    from dataclasses import replace

    from reprieve.api.errors import InputError
    from reprieve.api.group_sources import OWNERS
    from reprieve.library.answering import answered
    from reprieve.simulation.workloads.table import TABLE

    gathered = gather(replace(source, owners=OWNERS in options.sources), options.now)
    try:
        options = replace(options, now=gathered.now)
        return answered(gathered.manifests, gathered.changed, options, records, source.rows or TABLE, source.run)
    except InputError as error:
        refuse(str(error))


def document(plan: "msgspec.Struct", output: Format) -> str:
    """A document as JSON or YAML."""
    import msgspec

    if output is Format.JSON:
        return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() + "\n"
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(plan), sort_keys=False, allow_unicode=True, width=110)
    return text
