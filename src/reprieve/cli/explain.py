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


class Format(StrEnum):
    """What to write to stdout."""

    TEXT = "text"
    JSON = "json"


def command(
    kind: Annotated[
        str, typer.Argument(metavar="pod|podgroup|compositepodgroup", help="What it is.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.", show_default=False)],
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
    chosen = _KINDS.get(kind.lower())
    if chosen is None:
        refuse(f"{kind!r}: want pod, podgroup or compositepodgroup")
    if not name:
        refuse("the name is empty")
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
