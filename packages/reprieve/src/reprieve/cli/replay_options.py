"""Options that `replay` and `tune` share: jobs, cluster, and how jobs run (replay.md, tune.md)."""

from typing import Annotated

import typer

from reprieve.cli.options import DEFAULT_MAX_BYTES as DEFAULT_MAX_BYTES

JobClusterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="FILE|DIR",
        help="Manifests of the cluster: nodes, priority classes, budgets, quotas, running pods. Repeatable. "
        "Default: nodes sized for the jobs.",
    ),
]
FromOption = Annotated[
    str, typer.Option("--from", metavar="TIME", help="Skip jobs submitted before this time: RFC 3339, or e.g. 30d.")
]
LoadOption = Annotated[float, typer.Option(metavar="X", help="Submit the jobs X times as fast.")]
SampleOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Keep a random sample of N jobs.")]
CheckpointOption = Annotated[str, typer.Option(metavar="DURATION", help="Checkpoint interval of jobs that set none.")]
RestartOption = Annotated[
    str, typer.Option(metavar="DURATION", help="Time that a job needs to restart after an eviction.")
]
TolerateOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY[=VALUE][:EFFECT]",
        help="Taint that jobs without tolerations of their own tolerate; * for every taint. Repeatable.",
    ),
]
RunTimesOption = Annotated[
    str,
    typer.Option(
        "--run-times",
        metavar="unknown|limit|exact|factor:F",
        help="What the scheduler knows of run times. Default: limit if the list has the column time_limit, "
        "else unknown.",
    ),
]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Skip invalid rows.")]
MaxJobsOption = Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of rows in the job list.")]
MaxInputOption = Annotated[str, typer.Option(metavar="SIZE", help="Maximum size of the cluster file.")]
