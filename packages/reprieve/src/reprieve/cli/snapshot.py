"""`reprieve snapshot`: everything `plan` needs from a live cluster, in a file. Reads only.

Also what commands that read a live cluster have in common, with the exit codes of interfaces.md.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.outcome import CommandError, Exit, note, reason_of, refuse, show
from reprieve.cli.progress import working
from reprieve.cli.reading import Strictness, report_unread_of_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_rules.unknown_fields import UnknownField
    from reprieve.client.reading import Reading

ATTEMPTS = 4
"""Somebody waits for the answer: a server that is not there is reported after a second or two."""

_SUFFIXES = (".yaml", ".yml", ".json")


def command(
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where to: FILE.yaml, FILE.json, or - for YAML on stdout."),
    ],
    kubeconfig: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The cluster to read; default: as kubectl finds it ($KUBECONFIG, ~/.kube)."),
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="The context to use.")] = None,
    anonymize: Annotated[
        bool,
        typer.Option(
            "--anonymize",
            help="Replace every name, label and other text that users choose by a number, the same everywhere.",
        ),
    ] = False,
) -> None:
    """Write down everything a plan needs, so that it can be planned elsewhere.

    Only what a scheduler reads: no environment variables, image names or annotations of others.
    """
    suffix = ".yaml" if output == "-" else Path(output).suffix
    if suffix not in _SUFFIXES:
        refuse(f"-o {output}: the name must end in {', '.join(_SUFFIXES)}")
    reading, _ = read_live(kubeconfig, context)
    from reprieve.client.snapshot import snapshot, text_of

    manifests, notes = snapshot(reading.objects, anonymize=anonymize)
    for warning in (*reading.warnings, *notes):
        note(f"warning: {warning}")
    text = text_of(manifests, json=suffix == ".json")
    if output == "-":
        show(text)
        return
    try:
        _write(output, text)
    except OSError as error:
        refuse(reason_of(error) if error.filename else f"{output}: {reason_of(error)}")
    note(f"{output}: {len(manifests)} objects")


def _write(path: str, text: str) -> None:
    """Write a file that only its owner may read, if it is new: a cluster's inner life is nobody else's business."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def read_live(
    kubeconfig: str | None,
    context: str | None,
    strictness: Strictness | None = None,
    *,
    owners: bool = False,
    jobs: bool = False,
    makers: "Sequence[tuple[str, str, str, str]]" = (),
) -> "tuple[Reading, str]":
    """Read a live cluster; what was read and the server's URL. `strictness`: what to make of unknown fields.

    With `owners` the controllers whose pods may be gangs are read as well, with `jobs` Jobs, for when they end; of
    `makers` (see `read_makers`) the templates.

    A kubeconfig that cannot be used ends the command with exit code 2, a server that cannot be reached or refuses with
    exit code 3, each with one line.
    """
    import asyncio

    from reprieve.client.errors import ClientError, ConfigError
    from reprieve.client.kubeconfig import connect
    from reprieve.client.reading import read_cluster
    from reprieve.client.transport import ApiClient, Limits

    unknown: list[UnknownField] = []
    try:
        connection = connect(kubeconfig, context, unknown_fields=unknown)
        report_unread_of_kubeconfig(unknown, strictness or Strictness())

        async def read() -> "Reading":
            async with ApiClient(connection, limits=Limits(attempts=ATTEMPTS)) as client:
                return await read_cluster(client, owners=owners, jobs=jobs, makers=makers)

        with working("reading the cluster"):
            return asyncio.run(read()), connection.server
    except ConfigError as error:
        refuse(str(error))
    except ClientError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from None
