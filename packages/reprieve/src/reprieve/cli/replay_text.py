"""The outcome of a replay as text: one table, policies as columns, the best of each row marked (replay.md 4.8)."""

from collections.abc import Callable, Sequence

from reprieve.cli.sections import Row, Section, Tone
from reprieve.replay.measures import BEST, Measure, compared, count_text, sweep_table, table, time_text
from reprieve.replay.statistics import Distribution, JobGroup, PolicyReport

MOST_TENANTS = 10
MOST_REASONS = 5


def replay_sections(reports: Sequence[PolicyReport]) -> list[Section]:
    """Return the table of all jobs, and waiting by kinds of jobs."""
    columns = ("", *(report.name for report in reports))
    rows = [Row((label, *cells)) for label, cells in table(reports)]
    several = len(reports) > 1
    notes = (f"{BEST} the best of a row; percentages are relative to {reports[0].name}",) if several else ()
    sections = [Section("Replay", columns, tuple(rows), notes)]
    why = _never_started(reports)
    if why is not None:
        sections.append(why)
    for title, pick, waited in (
        ("Mean waiting, by GPUs of a job", _by_gpus, _mean),
        ("Longest waiting, by GPUs of a job", _by_gpus, lambda waiting: waiting.max),
        ("Mean waiting, by priority class", lambda report: report.by_priority_class, _mean),
        ("Mean waiting, by tenant", lambda report: report.by_tenant, _mean),
    ):
        section = _by(title, reports, pick, waited)
        if section is not None:
            sections.append(section)
    return sections


def sweep_sections(runs: Sequence[tuple[str, str, PolicyReport]]) -> list[Section]:
    """Return a table for each trace, of (trace, policy, report) of all seeds."""
    by_trace: dict[str, dict[str, list[PolicyReport]]] = {}
    for trace, policy, report in runs:
        by_trace.setdefault(trace, {}).setdefault(policy, []).append(report)
    sections = []
    for trace, policies in by_trace.items():
        rows = [Row((label, *cells)) for label, cells in sweep_table(list(policies.values()))]
        seeds = ", ".join(dict.fromkeys(str(len(reports)) for reports in policies.values()))
        note = f"{seeds} runs of each policy; the mean of the runs ± its standard error"
        sections.append(Section(f"Replay of {trace}", ("", *policies), tuple(rows), (note,)))
    return sections


def _never_started(reports: Sequence[PolicyReport]) -> Section | None:
    """Return why jobs never started, by policy; the most frequent reasons first."""
    from reprieve.plugins.taint_toleration import UNTOLERATED

    rows, more = [], 0
    for report in reports:
        shown = report.never_started[:MOST_REASONS]
        more += len(report.never_started) - len(shown)
        rows += [Row((report.name, count_text(item.jobs), item.first, item.message)) for item in shown]
    if not rows:
        return None
    notes = [f"... and {more} more reasons (-o json lists them)"] if more else []
    if any(UNTOLERATED in row.cells[3] for row in rows):
        notes.append("Jobs tolerate the taints that their column tolerations lists, else those of --tolerate.")
    columns = ("policy", "jobs", "first", "why, at the last attempt")
    return Section("Never started", columns, tuple(rows), tuple(notes), tone=Tone.WAITING)


def _by_gpus(report: PolicyReport) -> Sequence[JobGroup]:
    return report.by_gpus


def _mean(waiting: Distribution) -> float | None:
    return waiting.mean


def _by(
    title: str,
    reports: Sequence[PolicyReport],
    pick: Callable[[PolicyReport], Sequence[JobGroup]],
    waited: Callable[[Distribution], float | None],
) -> Section | None:
    groups = [{group.name: group for group in pick(report)} for report in reports]
    names = list(dict.fromkeys(name for of_one in groups for name in of_one))
    if len(names) < 2:
        return None
    notes: tuple[str, ...] = ()
    if len(names) > MOST_TENANTS:
        size = {name: max(of_one[name].jobs for of_one in groups if name in of_one) for name in names}
        shown = set(sorted(names, key=lambda name: (-size[name], name))[:MOST_TENANTS])
        notes = (f"the {MOST_TENANTS} with the most jobs, of {len(names)}; -o json lists them all",)
        names = [name for name in names if name in shown]
    measure = Measure("", lambda r: None, time_text, min)
    rows = []
    for name in names:
        groups_found = [of_one.get(name) for of_one in groups]
        jobs = next(group.jobs for group in groups_found if group is not None)
        values = [None if group is None else waited(group.waiting) for group in groups_found]
        rows.append(Row((name or "none", count_text(jobs), *compared(values, measure))))
    return Section(title, ("", "jobs", *(report.name for report in reports)), tuple(rows), notes)
