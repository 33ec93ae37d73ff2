"""What extenders make of the candidates of a single preemptor: they drop nodes and change victims (scheduling.md 6).

As upstream's `callExtenders`; for groups nobody is asked, as upstream.  Two rules of ours stand: only units of lower
priority go, and they go whole.  So a victim that an extender names brings the rest of its unit with it, and one that
may not be evicted is a failure of the plugin.
"""

from collections.abc import Mapping
from dataclasses import replace

from reprieve.cluster.pods import PodRecord
from reprieve.framework.extending import CandidatePlugin, VictimsOn
from reprieve.framework.plugin import CycleState
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError
from reprieve.preemption.outcome import Reason, Verdict

NO_CANDIDATE = "no candidate node for preemption"
ASKED_FOR = "an extender asked for it"


def judged(
    profile: Profile, state: CycleState, candidates: Mapping[int, tuple[Verdict, ...]]
) -> dict[int, tuple[Verdict, ...]] | None:
    """The verdicts by row for rows that stay candidates; None where nobody has a say. Raises PluginError."""
    judges = [p for p in profile.plugins if isinstance(p, CandidatePlugin) and p.judges_candidates(state)]
    if not judges:
        return None
    found = dict(candidates)
    for judge in judges:
        asked = {row: _victims(verdicts, row) for row, verdicts in found.items()}
        if asked:
            answer = judge.judge_candidates(state, asked)
            found = {row: _changed(judge, state.pod, row, found[row], set(answer[row])) for row in sorted(answer)}
    return found


def _victims(verdicts: tuple[Verdict, ...], row: int) -> VictimsOn:
    evicted = [verdict for verdict in verdicts if verdict.evicted]
    pods = [pod for verdict in evicted for pod in verdict.unit.pods if pod.row == row]
    return VictimsOn(tuple(pods), sum(1 for verdict in evicted if verdict.violates_pdb))


def _changed(
    judge: CandidatePlugin, pod: PodRecord, row: int, verdicts: tuple[Verdict, ...], uids: set[str]
) -> tuple[Verdict, ...]:
    left = set(uids)
    found = []
    for verdict in verdicts:
        named = left & {member.uid for member in verdict.unit.pods}
        left -= named
        reason = None
        if named:
            reason = verdict.reason or Reason(pod=pod, row=row, plugin=judge.name, text=ASKED_FOR)
        found.append(replace(verdict, reason=reason))
    if left:
        text = f"claims to preempt pod (UID: {min(left)}), which is not of lower priority"
        raise PluginError(judge.name, "PostFilter", ValueError(text))
    return tuple(found)
