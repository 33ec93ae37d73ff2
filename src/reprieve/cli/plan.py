"""`reprieve plan`: what would happen, and why."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.options import (
    DEFAULT_PLUGIN_TIMEOUT,
    CompatibleOption,
    PluginOption,
    PluginTimeoutOption,
    read_options,
    read_size,
    read_time,
)
from reprieve.cli.outcome import Exit, note, reason_of, refuse, show
from reprieve.cli.reading import Heed, heed_unexpanded, read_files
from reprieve.cli.snapshot import answer_for_live

if TYPE_CHECKING:
    from reprieve.simulation.plan import PlanOptions
    from reprieve.simulation.report import Answer, Plan

DEFAULT_MAX_BYTES = "64Mi"


class Format(StrEnum):
    """What to write to stdout."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def command(
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE|DIR|-",
            help="Manifests of the cluster and what is to be placed: a file, a directory, or - for stdin. Repeatable.",
        ),
    ] = None,
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
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit 2 for what is misspelt or cannot be read, and for workloads and kinds not planned."
        ),
    ] = False,
    ignore_unknown: Annotated[bool, typer.Option("--ignore-unknown", help="Say nothing of unknown fields.")] = False,
    lenient: Annotated[
        bool,
        typer.Option("--lenient", help="Never more than a warning for workloads and kinds that are not planned."),
    ] = False,
    max_input_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Refuse input larger than this in all, e.g. 256Mi.")
    ] = DEFAULT_MAX_BYTES,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="Plan on the live cluster of this kubeconfig. It is only read.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="The context of the kubeconfig, if not the current one.")
    ] = None,
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
    if kubeconfig is None and not files:
        refuse("nothing to plan: pass manifests with -f FILE, -f DIR or -f -, or a live cluster with --kubeconfig FILE")
    if kubeconfig is None and context is not None:
        refuse("--context: only a --kubeconfig has contexts")
    if strict and (ignore_unknown or lenient):
        refuse(f"--strict and {'--ignore-unknown' if ignore_unknown else '--lenient'} exclude each other")
    asked = [("--strict", strict), ("--fail-on-preemption", fail_on_preemption), ("--fail-on-pending", fail_on_pending)]
    heed = Heed(
        unknown_fields=not ignore_unknown,
        strict=strict,
        answer_for_all="" if lenient else next((option for option, given in asked if given), ""),
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
    max_bytes = read_size("--max-input-bytes", max_input_bytes)
    from dataclasses import replace

    from reprieve.cli.waiting import WaitingRecords

    records = WaitingRecords()
    options = replace(options, observer=records, now=read_time("--now", now) if now is not None else None)
    if kubeconfig is None:
        answer = answer_for(files or [], options, max_bytes, heed)
    else:
        answer = answer_for_live(kubeconfig, context, files or [], options, max_bytes, heed)
    answer = records.explained(answer)
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


def answer_for(files: list[str], options: "PlanOptions", max_bytes: int, heed: Heed) -> "Answer":
    """Load the manifests and plan. Whatever is wrong with them ends the command with exit code 2."""
    from reprieve.api.errors import InputError
    from reprieve.simulation.plan import plan

    try:
        manifests = read_files(files, max_bytes, heed)
        heed_unexpanded(manifests, heed)
        return plan(manifests, options)
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))


def document(plan: "Plan", output: Format) -> str:
    """The Plan document as one JSON or YAML document."""
    import msgspec

    if output is Format.JSON:
        return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() + "\n"
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(plan), sort_keys=False, allow_unicode=True, width=110)
    return text
