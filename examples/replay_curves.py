"""Replays beside each other: GPUs allocated, fragmentation, pending jobs and work lost, over time.

    python examples/replay_curves.py picture.png 'with departures=a.json' 'without departures=b.json'

`reprieve replay -o html` has policies over the same arrivals side by side; this is of what `-o json` says of several
runs, and of the policies of one (a file without a name before it).  Needs matplotlib:
pip install 'reprieve[replay]'.
"""

import argparse
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

COLOURS = ("#2f81d6", "#e07b22", "#1f9e77", "#d1495b", "#8c6bd1", "#c2a21b")
DAY = 86_400


def allocated(series: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Days, and percent of the GPUs that are up."""
    pairs = zip(series["allocated"], series["capacity"], strict=True)
    return _days(series), [100 * held / there if there else 0.0 for held, there in pairs]


def fragmentation(series: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Days, and percent of the free GPUs that tasks of the list cannot use; a gap where none is free."""
    looks = series["workloadFragmentation"]
    return [at / DAY for at, _ in looks], [float("nan") if share is None else 100 * share for _, share in looks]


def waiting(series: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Days, and jobs."""
    return _days(series), series["waiting"]


def lost(series: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Days, and GPU-hours so far."""
    return _days(series), list(accumulate(series["lost"]))


CURVES = {
    "allocated": ("GPUs allocated, %", allocated),
    "fragmentation": ("of the free GPUs,\n% that tasks cannot use", fragmentation),
    "waiting": ("pending jobs", waiting),
    "lost": ("GPU-hours lost so far", lost),
}


def _days(series: dict[str, Any]) -> list[float]:
    return [point * series["width"] / DAY for point in range(len(series["allocated"]))]


def main() -> None:
    """See the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NAME=FILE", help="what `reprieve replay -o json` wrote")
    parser.add_argument("--curves", default="allocated,fragmentation", help=", ".join(CURVES))
    parser.add_argument("--begin", type=float, default=0, metavar="DAYS", help="leave out what was before")
    typed = parser.parse_args()
    found = []
    for run in typed.runs:
        name, _, file = run.rpartition("=")
        policies = json.loads(Path(file).read_text())["policies"]
        for policy in policies:
            parts = [name, policy["name"]] if name and len(policies) > 1 else [name or policy["name"]]
            found.append((": ".join(parts), policy["series"]))
    chosen = [CURVES[name] for name in typed.curves.split(",")]
    style = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "text.parse_math": False}
    with rc_context(style):
        figure = Figure(figsize=(8.6, 2.4 * len(chosen)), dpi=110, layout="constrained")
        for axes, (label, curve) in zip(figure.subplots(len(chosen), 1, squeeze=False)[:, 0], chosen, strict=True):
            for at, (name, series) in enumerate(found):
                days, values = curve(series)
                axes.plot(days, values, color=COLOURS[at % len(COLOURS)], linewidth=1.2, label=name)
            axes.set(ylabel=label, xlabel="days")
            axes.set_ylim(bottom=0)
            axes.margins(x=0)
            axes.set_xlim(left=typed.begin)
            axes.grid(axis="y", linewidth=0.4)
            axes.spines["bottom"].set(zorder=1, color="#c0c6ce")  # a curve may be zero all along
        figure.align_ylabels()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, frameon=False)
        figure.savefig(typed.picture)


if __name__ == "__main__":
    main()
