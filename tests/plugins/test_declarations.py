"""What plugins declare of themselves is what they do (docs/plugins.md)."""

from __future__ import annotations

import pytest

from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import ScorePlugin
from reprieve.scheduling.profiles import default_profile

SCORES = [weighted.plugin for weighted in default_profile(FeatureGates()).scores]


@pytest.mark.parametrize("plugin", SCORES, ids=lambda plugin: plugin.name)
def test_a_score_is_normalized_where_a_plugin_says_how(plugin: ScorePlugin) -> None:
    """`normalizes` is what the framework goes by; `normalize` without it would never be called."""
    assert plugin.normalizes is (type(plugin).normalize is not ScorePlugin.normalize)
