"""`reprieve import openb`: a cluster from the public "openb" GPU trace."""

from pathlib import Path
from typing import Annotated

import typer

from reprieve.cli.options import DEFAULT_MAX_BYTES, read_size
from reprieve.cli.outcome import note, reason_of, refuse
from reprieve.cli.progress import working

_FORMATS = (".json", ".yaml", ".yml")


def command(
    nodes: Annotated[Path, typer.Option(metavar="CSV", help="The node list of the trace.")],
    pods: Annotated[Path, typer.Option(metavar="CSV", help="The pod list of the trace.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Manifests to write: .json (fastest), .yaml or .yml.")
    ],
    max_input_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Maximum size of a CSV file.")
    ] = DEFAULT_MAX_BYTES,
) -> None:
    """Convert the openb trace to manifests of a full cluster.

    The nodes of the trace are filled with its tasks, in order of creation; no task ends. Tasks that do not fit are
    skipped and counted on stderr. Use the file with `reprieve plan -f`.
    """
    from reprieve.decisions.phrases import count
    from reprieve.replay.job_list import JobListError
    from reprieve.replay.traces.openb_cluster import fill, read_nodes, read_tasks, write

    if output.suffix not in _FORMATS:
        refuse(f"-o {output}: expected a name ending in {', '.join(_FORMATS)}")
    limit = read_size("--max-input-bytes", max_input_bytes)
    try:
        with working("filling the nodes"):
            machines = read_nodes(nodes, max_bytes=limit)
            filled = fill(machines, read_tasks(pods, max_bytes=limit))
            write(filled.documents, output)
    except JobListError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    note(f"{output}: {count(len(machines), 'node')}, {count(filled.placed, 'running pod')}")
    if filled.left_out:
        shown = ", ".join(filled.left_out[:3]) + (", ..." if len(filled.left_out) > 3 else "")
        note(f"{count(len(filled.left_out), 'task')} skipped, no node had enough capacity: {shown}")
