"""Remarks at start about profiles that are allowed and may not do what users expect.

Nothing here refuses a profile: a third-party plugin may do what the missing one does (KEP-5710, "Risks and
mitigations").  Both remarks are about pod groups, so there are none with the gate GenericWorkload off.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import PlacementFeasiblePlugin, Plugin, PodGroupPostFilterPlugin, PreEnqueuePlugin
from reprieve.framework.plugin_guard import unguarded
from reprieve.framework.profile import Profile
from reprieve.plugins.gang_scheduling import GangScheduling


@dataclass(frozen=True, slots=True)
class ProfileRemark:
    """One sentence for the log. `error`: written as an error, else as a warning."""

    error: bool
    text: str


def remarks_on(profile: Profile, gates: FeatureGates) -> list[ProfileRemark]:
    """Return remarks about a profile."""
    if not gates.generic_workload:
        return []
    result = []
    for plugin in map(unguarded, profile.post_filters):
        if not isinstance(plugin, PodGroupPostFilterPlugin):
            text = (
                f"profile {profile.name!r}: plugin {plugin.name} extends PostFilter but not PodGroupPostFilter: it is "
                "never called for pods of a PodGroup"
            )
            result.append(ProfileRemark(error=True, text=text))
    points: dict[str, Sequence[Plugin]] = {
        "preEnqueue": profile.at(PreEnqueuePlugin),
        "placementFeasible": profile.at(PlacementFeasiblePlugin),
    }
    off = [point for point, plugins in points.items() if GangScheduling.name not in {p.name for p in plugins}]
    if off:
        where = "" if len(off) == len(points) else f" at {off[0]}"
        text = (
            f"profile {profile.name!r}: plugin {GangScheduling.name} is not enabled{where}: a gang can start "
            "with fewer pods than its minCount, unless another plugin prevents this"
        )
        result.append(ProfileRemark(error=False, text=text))
    return result
