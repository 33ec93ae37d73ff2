"""`reprieve explain`: why a pod, a pod group or a tree of groups waits, why it was preempted, what would help."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.outcome import CommandError, Exit, note, refuse, show

if TYPE_CHECKING:
    from reprieve.cli.evidence import Evidence

_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("podgroup", "podgroups", "pg"), "PodGroup"),
    **dict.fromkeys(("compositepodgroup", "compositepodgroups", "cpg"), "CompositePodGroup"),
}


MAX_BYTES = 64 * 1024 * 1024
"""Of manifests, as `plan` without --max-input-bytes."""


class Format(StrEnum):
    """What to write to stdout."""

    TEXT = "text"
    JSON = "json"


def command(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="TYPE[/NAME]",
            help="What it is: pod, podgroup, compositepodgroup, or an owner such as job or deployment.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name.", show_default=False)] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE|DIR|-", help="Explain these manifests, not a cluster. Repeatable."
        ),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all-waiting", help="Everybody who waits, and what would help each.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Its namespace (default: the context's).")
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The cluster; default: as kubectl finds it ($KUBECONFIG, ~/.kube)."),
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="The context to use.")] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="Where the scheduler's decision records are: its endpoint, or the file it keeps them in (default: as "
            "the kubeconfig says, else by way of the API server).",
        ),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to show the answer.")] = Format.TEXT,
) -> None:
    """Tell why a pod, a pod group or a tree of groups waits, why it was preempted, and what would help. Reads only.

    Where no decision record can be read, the answer is worked out on the cluster as it is now.
    """
    if files and (kubeconfig is not None or context is not None or records is not None):
        refuse("-f explains manifests: --kubeconfig, --context and --records are of a cluster")
    if everybody:
        if kind is not None:
            refuse("--all-waiting is about everybody: no TYPE or NAME")
        _explain_all(files, kubeconfig, context, output)
        return
    if kind is None:
        refuse("what? TYPE NAME or TYPE/NAME, or --all-waiting")
    if name is None:
        kind, _, name = kind.partition("/")
    if not name:
        refuse("the name is empty")
    chosen = _KINDS.get(kind.lower())
    if files:
        evidence = _of_files(files, chosen, kind, name, namespace or "default")
    elif chosen is None and not _is_owner(kind):
        refuse(f"{kind!r}: want pod, podgroup or compositepodgroup")
    elif chosen is None:
        evidence = _of_owner(kind, name, namespace, kubeconfig, context, records)
    else:
        evidence = _gather(chosen, name, namespace, kubeconfig, context, records)
    if not evidence.exists and not evidence.records:
        asked = evidence.asked
        raise CommandError(
            f'{asked.kind.lower()} "{asked.name}" not found in namespace "{asked.namespace}"', Exit.NOT_SO
        )
    for warning in evidence.warnings:
        note(f"warning: {warning}")
    from reprieve.cli.explain_text import document, explanation_of

    if output is Format.JSON:
        import msgspec

        show(msgspec.json.format(msgspec.json.encode(document(evidence)), indent=2).decode() + "\n")
        return
    from reprieve.cli.terminal import show_sections

    show_sections(explanation_of(evidence))


def _of_files(files: list[str], chosen: str | None, kind: str, name: str, namespace: str) -> "Evidence":
    """What manifests tell."""
    from reprieve.api.errors import InputError
    from reprieve.cli.asking import Source, gather
    from reprieve.cli.evidence import Asked
    from reprieve.cli.explain_files import evidence_of, resolved

    gathered = gather(Source(files=files, max_bytes=MAX_BYTES))
    asked = Asked(chosen, namespace, name) if chosen else resolved(gathered.manifests, kind, name, namespace)
    try:
        return evidence_of(gathered, asked)
    except InputError as error:
        refuse(str(error))


def _is_owner(kind: str) -> bool:
    """Whether objects of this kind make pods; those of a cluster are not read for any other."""
    from reprieve.simulation.workloads.scaling import makes_pods_by_name

    return makes_pods_by_name(kind)


def _of_owner(
    kind: str, name: str, namespace: str | None, kubeconfig: str | None, context: str | None, records: str | None
) -> "Evidence":
    """The story of what an owner of a live cluster made."""
    from reprieve.cli.explain_files import resolved
    from reprieve.cli.snapshot import read_live
    from reprieve.client.errors import ConfigError
    from reprieve.client.kubeconfig import connect
    from reprieve.client.reading import manifests_of

    try:
        space = namespace or connect(kubeconfig, context).namespace
    except ConfigError as error:
        refuse(str(error))
    reading, server = read_live(kubeconfig, context)
    asked = resolved(manifests_of(reading, server), kind, name, space)
    return _gather(asked.kind, asked.name, asked.namespace, kubeconfig, context, records)


def _explain_all(files: list[str] | None, kubeconfig: str | None, context: str | None, output: Format) -> None:
    """Everybody who waits, in manifests or on a live cluster."""
    from reprieve.api.errors import InputError
    from reprieve.cli.asking import Source, check_source, gather
    from reprieve.cli.explain_files import all_waiting, waiting_document
    from reprieve.cli.options import read_options

    check_source(files, kubeconfig, context)
    gathered = gather(Source(files=files or (), kubeconfig=kubeconfig, context=context, max_bytes=MAX_BYTES))
    try:
        answer, records = all_waiting(gathered, read_options())
    except InputError as error:
        refuse(str(error))
    for warning in answer.account.warnings:
        note(f"warning: {warning}")
    if output is Format.JSON:
        import msgspec

        show(msgspec.json.format(msgspec.json.encode(waiting_document(answer)), indent=2).decode() + "\n")
        return
    from reprieve.cli.render import waiting_section
    from reprieve.cli.sections import Section, Tone
    from reprieve.cli.terminal import show_sections

    show_sections([waiting_section(answer, records.of) or Section("Nobody waits.", tone=Tone.GOOD)])


def _gather(
    kind: str, name: str, namespace: str | None, kubeconfig: str | None, context: str | None, records: str | None
) -> "Evidence":
    import asyncio

    from reprieve.cli.evidence import Asked, gather
    from reprieve.client.errors import ClientError, ConfigError
    from reprieve.client.kubeconfig import connect

    try:
        connection = connect(kubeconfig, context)
        asked = Asked(kind, namespace or connection.namespace, name)
        return asyncio.run(gather(connection, asked, records))
    except ConfigError as error:
        refuse(str(error))
    except ClientError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from None
