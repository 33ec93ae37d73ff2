"""`reprieve snapshot`: save everything that `plan` needs from a live cluster to a file. Only reads the cluster."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from reprieve.cli.outcome import note, reason_of, refuse, show, warn
from reprieve.cli.progress import working
from reprieve.cli.source import ClusterOption, ContextOption


def command(
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write: FILE.yaml, FILE.json, or - for YAML on stdout."
        ),
    ],
    kubeconfig: ClusterOption = None,
    context: ContextOption = None,
    anonymize: Annotated[
        bool,
        typer.Option(
            "--anonymize",
            help="Replace names, labels and other text chosen by users with numbers, consistently.",
        ),
    ] = False,
) -> None:
    """Save what a plan needs from a live cluster to a file.

    The file holds only fields that the scheduler reads: no environment variables, image names or foreign annotations.
    """
    from kube_rules.documents import SUFFIXES

    suffix = ".yaml" if output == "-" else Path(output).suffix
    if suffix not in SUFFIXES:
        refuse(f"-o {output}: the name must end in {', '.join(SUFFIXES)}")
    from reprieve.client.snapshot import snapshot_items, texts_of
    from reprieve.python.inputs import Strictness, read_live

    with working("reading the cluster"):
        reading, _ = read_live(kubeconfig, context, Strictness(), warn)
    manifests, count, notes = snapshot_items(reading.objects, anonymize=anonymize)
    warn(notes)
    texts = texts_of(manifests, json=suffix == ".json")
    if output == "-":
        show("".join(texts))
        return
    try:
        _write(output, texts)
    except OSError as error:
        refuse(reason_of(error) if error.filename else f"{output}: {reason_of(error)}")
    note(f"{output}: {count} objects")


def _write(path: str, texts: Iterable[str]) -> None:
    """Write a file; a new one is readable for its owner only."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(texts)
