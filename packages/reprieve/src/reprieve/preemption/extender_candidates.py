"""Extenders drop candidates of a single preemptor or change victims (scheduling.md 6).

As upstream's `callExtenders`; as upstream, none is called for groups.  Nodes on which only an extender rejected the pod
are candidates without victims since 1.38; those that still have none at the end are dropped.  Two of our rules apply:
only units of lower priority are evicted, and only as a whole. So the rest of the unit of a named victim is evicted too,
and a victim that may not be evicted is a failure of the plugin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reprieve.framework.extenders import CandidatePlugin, VictimsOn
from reprieve.framework.plugin import CycleState
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import PluginError, call_plugin
from reprieve.preemption.cost import Criteria
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import Reason, Verdict
from reprieve.preemption.protected_units import potential_victims

NO_CANDIDATE = "no candidate node for preemption"
ASKED_FOR = "an extender asked for it"


def judges_of(profile: Profile, state: CycleState) -> list[CandidatePlugin]:
    """Return the plugins that check this pod's candidates; mostly none, and then candidates need not be listed."""
    return [p for p in profile.plugins if isinstance(p, CandidatePlugin) and p.judges_candidates(state)]


def without_victims(
    running: RunningProfile, state: CycleState, rows: Sequence[int], criteria: Criteria
) -> dict[int, tuple[Verdict, ...]]:
    """Return the verdicts by row for rows where the pod fits beside all units: extenders may name some to evict."""
    cluster, pod, verdicts_on = running.cluster, state.pod, dict[int, tuple[Verdict, ...]]()
    for row in rows:
        pods = list(cluster.nodes.pods[row].values())
        units = potential_victims(cluster, pod.priority, pods, cluster.class_terms_of(pod))
        if units and running.evaluator.fits_row(state, row):
            ranking = Ranking(cluster, units, criteria, criteria.costing(cluster, running.evaluator, units))
            violations = ranking.violations
            verdicts_on[row] = tuple(Verdict(unit, violations[i], None) for i, unit in enumerate(ranking.ordered))
    return verdicts_on


def judged(
    judges: Sequence[CandidatePlugin], state: CycleState, candidates: Mapping[int, tuple[Verdict, ...]]
) -> dict[int, tuple[Verdict, ...]]:
    """Return the verdicts by row for rows that stay candidates. Raises PluginError."""
    result = dict(candidates)
    for judge in judges:
        victims_on = {row: _victims(verdicts, row) for row, verdicts in result.items()}
        if victims_on:
            answer = call_plugin(judge.name, "PostFilter", judge.judge_candidates, state, victims_on)
            result = {
                row: _changed(result[row], set(answer[row]), Reason(state.pod, row, judge.name, ASKED_FOR))
                for row in sorted(answer)
            }
    return result


def _victims(verdicts: tuple[Verdict, ...], row: int) -> VictimsOn:
    evicted = [verdict for verdict in verdicts if verdict.evicted]
    pods = [pod for verdict in evicted for pod in verdict.unit.pods if pod.row == row]
    return VictimsOn(tuple(pods), sum(1 for verdict in evicted if verdict.violates_pdb))


def _changed(verdicts: tuple[Verdict, ...], uids: set[str], asked_for: Reason) -> tuple[Verdict, ...]:
    left = set(uids)
    result = []
    for verdict in verdicts:
        named = left & {member.uid for member in verdict.unit.pods}
        left -= named
        reason = None
        if named:
            reason = verdict.reason or asked_for
        result.append(replace(verdict, reason=reason))
    if left:
        text = f"claims to preempt pod (UID: {min(left)}), which is not of lower priority"
        raise PluginError(asked_for.plugin, "PostFilter", ValueError(text))
    return tuple(result)
