"""Default values: of options, of plugins' args and of the fields of a decision."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import msgspec
import pytest

import reprieve.scheduling as room
from kube_rules.group_sources import DEFAULT_SOURCES
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import Plugin
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS
from reprieve.plugins.reservations import ReservationOptions
from reprieve.preemption import criteria
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.queueing.timers import Timing
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.profiles import REGISTRY, default_profile, profiles_of
from tests.building import node, pod

GATES = FeatureGates()
Json = dict[str, Any]

TAKEN: dict[str, Json] = {
    "NodeResourcesFit": {
        "ignoredResources": [],
        "ignoredResourceGroups": [],
        "scoringStrategy": {
            "type": "LeastAllocated",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        },
    },
    "NodeResourcesBalancedAllocation": {
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
    },
    "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    "PodTopologySpread": {"defaultConstraints": [], "defaultingType": "System"},
    "VolumeBinding": {"bindTimeoutSeconds": 600},
    "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "600s"},
    "GangScheduling": {
        "treeSearch": "Greedy",
        "repairFirst": True,
        "repairSeconds": 60,
        "degradedSeconds": 300,
        "provisioningRequests": "Never",
        "provisioningAfter": 30,
        "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    },
    "TopologyPlacement": {"preferences": True},
    "Reservations": {
        "reserveAfter": "10m",
        "maxReservations": 4,
        "minPods": 2,
        "backfillMargin": 5,
        "maxReserved": "24h",
        "maxIdleShare": 0.1,
        "backfillOverrun": "Wait",
        "queueing": {"ageing": "0s"},
    },
    "DefaultPreemption": {
        "moving": "Suggest",
        "movesPerHour": 60,
        "minCandidateNodesPercentage": 10,
        "minCandidateNodesAbsolute": 100,
        "victimSearch": "Reprieve",
        "cost": [
            "pdbViolations",
            "highestPriority",
            "gangsBroken",
            "prioritySum",
            "pods",
            "restartElsewhere",
            "startTime",
        ],
        "cascadeDepth": 0,
        "placement": "MinimizeVictims",
        "holdSeconds": 600,
        "successor": True,
        "waitForCompletions": "0s",
        "together": True,
        "waitForCheckpoint": "0s",
        "evictionLimits": [{"per": "owner", "most": 6, "within": "1h", "count": "Repeats"}],
    },
}
"""What plugins take for args that a file leaves out: upstream's, and of ours docs/rules' (cost.md 1, 5)."""

OTHERWISE: dict[str, Json] = {
    "NodeResourcesFit": {"ignoredResourceGroups": ["example.com"]},
    "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu"}]},
    "InterPodAffinity": {"ignorePreferredTermsOfExistingPods": True},
    "PodTopologySpread": {"defaultingType": "List"},
    "VolumeBinding": {"bindTimeoutSeconds": 599},
    "DynamicResources": {"bindingTimeout": "599s"},
    "GangScheduling": {"treeSearch": "Retry"},
    "TopologyPlacement": {"preferences": False},
    "Reservations": {"backfillMargin": 6},
    "DefaultPreemption": {"successor": False},
}


def _settings(plugin: Plugin) -> Json:
    """What a plugin was made with, as far as it can be compared."""
    return {name: value for name, value in vars(plugin).items() if _is_compared(value)}


def _is_compared(value: object) -> bool:
    """By what it holds; a function, which was chosen, by itself."""
    return isinstance(value, FunctionType) or any("__eq__" in vars(kind) for kind in type(value).__mro__[:-1])


def _made(name: str, args: Json) -> Json:
    return _settings(REGISTRY[name](GATES, args))


def test_weights_of_scores_are_those_of_kube_scheduler() -> None:
    """scheduling.md 5.1"""
    weights = {weighted.plugin.name: weighted.weight for weighted in default_profile(GATES).scores}
    assert weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


@pytest.mark.parametrize("name", TAKEN)
def test_args_that_are_left_out_have_the_documented_defaults(name: str) -> None:
    """All of them, and each that is left out by itself."""
    silent = _made(name, {})
    assert silent == _made(name, TAKEN[name])
    for left_out in TAKEN[name]:
        assert silent == _made(name, {key: value for key, value in TAKEN[name].items() if key != left_out})
    assert silent != _made(name, OTHERWISE[name])


def test_args_of_reservations_are_its_options() -> None:
    """reservations.md 1.4, 4: margins are percents; without args the options have their defaults."""
    args = {
        "reserveAfter": "1m",
        "maxReservations": 7,
        "minPods": 3,
        "backfillMargin": 20,
        "maxReserved": "2h",
        "maxIdleShare": 0.5,
        "backfillOverrun": "Evict",
        "queueing": {"ageing": "5s"},
    }
    assert _made("Reservations", args) == {"options": ReservationOptions(60.0, 7, 3, 0.2, 7200.0, 0.5, True, 5.0)}
    assert _made("Reservations", {}) == {"options": ReservationOptions()}


def _preemption(profile: Profile) -> PreemptionOptions:
    (plugin,) = [plugin for plugin in profile.plugins if isinstance(plugin, DefaultPreemption)]
    found = plugin._options
    return dataclasses.replace(found, cost=tuple(found.cost))


_EVERY = {"evictionLimits": [{"per": "owner", "most": 1, "within": "1h"}]}
_REPEATS = {"evictionLimits": [{"per": "owner", "most": 1, "within": "1h", "count": "Repeats"}]}


@pytest.mark.parametrize(
    ("args", "cost"),
    [
        ({}, criteria.STANDARD),
        (_REPEATS, criteria.STANDARD),
        (_EVERY, criteria.WITH_LIMITS),
        ({"waitForCheckpoint": "1m"}, criteria.WITH_WAITS),
        ({"waitForCheckpoint": "1m", **_EVERY}, criteria.WITH_LIMITS),
        ({"waitForCheckpoint": "1m", **_EVERY, "cost": ["pods"]}, ("pods",)),
    ],
)
def test_cost_that_is_left_out_follows_the_other_args(args: Json, cost: tuple[str, ...]) -> None:
    """cost.md 1, 9: a limit of all evictions, and waiting for checkpoints, count the lost work earlier."""
    assert tuple(_made("DefaultPreemption", args)["_options"].cost) == tuple(cost)


UPSTREAM = ("pdbViolations", "highestPriority", "prioritySum", "pods", "startTime")
STANDARD = (*UPSTREAM[:2], "gangsBroken", *UPSTREAM[2:4], "restartElsewhere", *UPSTREAM[4:])
OURS = PreemptionOptions(
    group_policy=True,
    victim_search="Reprieve",
    placement="MinimizeVictims",
    cost=STANDARD,
    cascade_depth=0,
    hold_seconds=600.0,
    successor=True,
    wait_for_completions=0.0,
    together=True,
)
COMPATIBLE = dataclasses.replace(
    OURS, placement="Compatible", cost=UPSTREAM, hold_seconds=0.0, successor=False, together=False, eviction_limits=()
)


def test_preemption_options_of_the_default_profile() -> None:
    """cost.md 1.1, 4.1, 5.1: the cheapest eviction, room held for ten minutes; compatible as kube-scheduler does it."""
    assert _preemption(default_profile(GATES)) == OURS == PreemptionOptions()
    assert _preemption(default_profile(GATES, compatible=True)) == COMPATIBLE
    assert default_profile(GATES).name == "default-scheduler"
    assert default_profile(GATES, "mine").name == "mine"


ELSEWHERE: Json = {
    "cost": ["pods"],
    "cascadeDepth": 1,
    "holdSeconds": 7,
    "successor": True,
    "placement": "Scored",
    "waitForCompletions": "9s",
    "together": True,
    "waitForCheckpoint": "9s",
    "moving": "Move",
    "evictionLimits": [{"per": "cluster", "most": 1, "within": "1s"}],
}


@pytest.mark.parametrize("place", [None, 0, 1])
@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_compatible_holds_in_every_profile_whatever_its_args_are(place: int | None, names: tuple[str, ...]) -> None:
    """Victims are as in kube-scheduler; what the file says otherwise stands: the search, other plugins' args."""
    found: list[Json] = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}}]
    if place is not None:
        found.insert(place, {"name": "DefaultPreemption", "args": {**ELSEWHERE, "victimSearch": "PriorityFloor"}})
    profiles = [{"schedulerName": name, "pluginConfig": found} for name in names]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    given = configuration_of({**kind, "profiles": profiles})
    wanted = COMPATIBLE if place is None else dataclasses.replace(COMPATIBLE, victim_search="PriorityFloor")
    for profile in profiles_of(given, GATES, compatible=True):
        assert _preemption(profile) == wanted
        (volumes,) = [plugin for plugin in profile.plugins if plugin.name == "VolumeBinding"]
        assert _settings(volumes) == _made("VolumeBinding", {"bindTimeoutSeconds": 5})
    if place is not None:
        said = profiles_of(given, GATES)[0]
        assert (_preemption(said).placement, _preemption(said).hold_seconds) == ("Scored", 7.0)


SAID: dict[str, Json] = {
    "Decision": {"attempt": 1},
    "EngineOptions": {
        "gates": FeatureGates(),
        "timing": Timing(),
        "sources": DEFAULT_SOURCES,
        "current_reasons": True,
        "share": True,
    },
    "GroupAssignment": {"status": SUCCESS},
}
"""Fields with a meaning where they are not set."""


def _defaults() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for module in pkgutil.iter_modules(room.__path__):
        found = importlib.import_module(f"{room.__name__}.{module.name}")
        for name, kind in vars(found).items():
            if not isinstance(kind, type) or kind.__module__ != found.__name__ or issubclass(kind, msgspec.Struct):
                continue
            if dataclasses.is_dataclass(kind):
                fields = dataclasses.fields(kind)
                said = {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
                made = {one.name: one.default_factory for one in fields}
                said |= {key: make() for key, make in made.items() if make is not dataclasses.MISSING}
                yield name, said
            elif hasattr(kind, "_field_defaults"):
                yield name, kind._field_defaults


@pytest.mark.parametrize(
    "name", ["Decision", "EngineOptions", "GroupAssignment", "Binding", "TreeLevel", "GroupChange"]
)
def test_fields_that_are_left_out_are_empty(name: str) -> None:
    """No bindings, no condition, no end: an unset field stands for nothing, except for those of the table."""
    (said,) = [fields for kind, fields in _defaults() if kind == name]
    told = {key: value for key, value in said.items() if value or key in SAID.get(name, {})}
    assert told == SAID.get(name, {})


def test_all_other_records_are_empty_by_default() -> None:
    """The same of every other record of this room."""
    # A policy for calls, the usual way through a tree, and twice that there is no number of a node or domain.
    loud = {"Registry", "_Walk", "_Partial", "Member"}
    for name, said in _defaults():
        if name not in {*SAID, *loud}:
            assert not any(bool(len(value) if hasattr(value, "__array__") else value) for value in said.values()), name


def test_engine_without_options_is_that_of_a_scheduler_without_a_file() -> None:
    """It tries pods of its own name alone, remembers what it has computed, and checks and measures nothing."""
    engine, named = Engine(), Engine(EngineOptions())
    for one in (engine, named):
        one.set(node("n", cpu=4), 0.0)
        one.set(pod("ours", cpu=1), 0.0)
        one.set(pod("theirs", cpu=1, scheduler="other"), 0.0)
        tried = []
        while (decision := one.step(0.0).decision) is not None:
            tried.append((decision.ref, decision.profile, decision.attempt, decision.queued_at))
        assert tried == [("pod/uid-ours", "default-scheduler", 1, 0.0)]
        assert one.attempts == 1
        assert one.reach is not None
        assert not one.waits_for_completions
        assert not one.awaits_permission
        assert not one.may_block
    assert list(EngineOptions().named_profiles) == ["default-scheduler"]
    assert Engine(EngineOptions(share=False)).reach is None
