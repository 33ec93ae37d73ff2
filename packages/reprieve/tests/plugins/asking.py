"""Asking one plugin about one pod: answers by node name."""

from __future__ import annotations

import numpy as np

from reprieve.framework.plugin import FilterPlugin, ScorePlugin
from tests.building import World

FITS, UNSCHEDULABLE, UNRESOLVABLE = 0, 1, 2


def verdicts(world: World, plugin: FilterPlugin, pod: str = "p") -> dict[str, int]:
    """The filter's code per node; a plugin that skips the pod says nothing. `fits` must say the same."""
    nodes, state = world.engine.cluster.nodes, world.state(pod)
    if not plugin.pre_filter(state).ok:
        return {}
    everything = slice(0, len(nodes))
    codes = plugin.filter(state, everything)
    some = np.arange(len(nodes), dtype=np.int64)[::-1]
    assert codes.dtype == np.int8
    assert plugin.filter(state, some).tolist() == codes[some].tolist(), "rows as a slice and as numbers"
    assert plugin.fits(state, everything).tolist() == (codes == FITS).tolist()
    return dict(zip(nodes.names, codes.tolist(), strict=True))


def reasons(world: World, plugin: FilterPlugin, pod: str = "p") -> dict[str, list[str]]:
    """The texts of a rejection per rejected node, sorted."""
    nodes, state = world.engine.cluster.nodes, world.state(pod)
    bad = np.flatnonzero(plugin.filter(state, slice(0, len(nodes))) != FITS)
    found: dict[str, list[str]] = {nodes.names[row]: [] for row in bad}
    if len(bad):
        for text, mask in plugin.reasons(state, bad):
            for row in bad[mask]:
                found[nodes.names[row]].append(text)
    return {name: sorted(texts) for name, texts in found.items()}


def scores(world: World, plugin: ScorePlugin, pod: str = "p", *, normalized: bool = True) -> dict[str, int]:
    """The score per node, normalised over all of them; {} if the plugin has nothing to say about the pod."""
    nodes, state = world.engine.cluster.nodes, world.state(pod)
    if not plugin.pre_score(state):
        return {}
    found = plugin.score(state, slice(0, len(nodes)))
    assert found.dtype == np.int64
    if normalized:
        found = plugin.normalize(state, found)
    return dict(zip(nodes.names, found.tolist(), strict=True))
