"""`reprieve import openb`: a cluster from the public "openb" GPU trace."""

from pathlib import Path
from typing import Annotated

import typer

from reprieve.cli.outcome import note, reason_of, refuse
from reprieve.cli.progress import working

_FORMATS = (".json", ".yaml", ".yml")


def command(
    nodes: Annotated[Path, typer.Option(metavar="CSV", help="The trace's list of nodes.")],
    pods: Annotated[Path, typer.Option(metavar="CSV", help="The trace's list of pods.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Manifests to write: .json (fastest), .yaml or .yml.")
    ],
    max_input_bytes: Annotated[str, typer.Option(metavar="SIZE", help="Refuse a CSV file larger than this.")] = "64Mi",
) -> None:
    """Fill the trace's nodes with its tasks and write the cluster for `reprieve plan -f`.

    Tasks arrive in order of creation and none leaves; tasks that do not fit are left out and counted on stderr.
    """
    from reprieve.cli.options import read_size
    from reprieve.simulation.openb import TraceError, fill, read_nodes, read_tasks, write

    if output.suffix not in _FORMATS:
        refuse(f"-o {output}: want a name ending in {', '.join(_FORMATS)}")
    limit = read_size("--max-input-bytes", max_input_bytes)
    try:
        with working("filling the nodes"):
            machines = read_nodes(nodes, max_bytes=limit)
            filled = fill(machines, read_tasks(pods, max_bytes=limit))
            write(filled.documents, output)
    except TraceError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    note(f"{output}: {len(machines)} nodes, {filled.placed} running pods")
    if filled.left_out:
        shown = ", ".join(filled.left_out[:3]) + (", ..." if len(filled.left_out) > 3 else "")
        note(f"{len(filled.left_out)} tasks did not fit when they arrived and are left out: {shown}")
