"""What plugins declare of themselves is what they do (docs/plugins.md)."""

from __future__ import annotations

import pytest

from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import ScorePlugin
from reprieve.plugins.extender import Extenders
from reprieve.scheduling.profiles import default_profile

SCORES = [weighted.plugin for weighted in default_profile(FeatureGates()).scores]


@pytest.mark.parametrize("name", [plugin.name for plugin in SCORES])
def test_score_is_normalized_where_the_plugin_has_a_normalization(name: str) -> None:
    """`normalizes` is what the framework goes by; `normalize` without it would never be called."""
    found = {weighted.plugin.name: weighted.plugin for weighted in default_profile(FeatureGates()).scores}
    plugin = found[name]
    assert plugin.normalizes is (type(plugin).normalize is not ScorePlugin.normalize)


SAID = {
    # attribute: the plugins of the default profile that have it
    "by_amounts": {"NodeResourcesFit", "NodeResourcesBalancedAllocation"},
    "by_node_constraints": {"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures"},
    "incremental": {"PodTopologySpread", "InterPodAffinity", "VolumeZone"},
    "by_count": {"NodeResourcesFit", "PodGroupPodsCount"},
    "concerns_group": {"GangScheduling"},
    "checks_everything": {"NodeResourcesFit"},
    "outside": set(),
    "blocking": set(),
}


@pytest.mark.parametrize("what", SAID)
def test_short_cuts_are_declared_by_the_plugins_that_allow_them(what: str) -> None:
    """scheduling.md 4, 5: without a declaration a plugin is called for all; the default profile has no extenders."""
    every = default_profile(FeatureGates()).plugins
    assert {plugin.name for plugin in every if getattr(plugin, what, False)} == SAID[what]


def test_extenders_are_declared_as_outside() -> None:
    """They may take their time: other work must not wait for a cycle that calls them."""
    made = Extenders([])
    assert (made.outside, made.blocking, made.normalizes) == (True, True, False)
