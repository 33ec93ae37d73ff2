"""What of a KubeSchedulerConfiguration is refused, and where (scheduling.md 6).

Upstream's checks: pkg/scheduler/apis/config/validation, framework/runtime, component-base/config/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import yaml

from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.preemption.cascade import DEEPEST
from reprieve.scheduling.configured_profiles import MAX_TOTAL_SCORE
from tests.scheduling.configuration_text import profiles, read

FORM = {
    "parallelism: 0": ("parallelism", "should be an integer value greater than zero"),
    "parallelism: 3000000000": ("parallelism", "<= 2147483647"),
    "parallelism: many": ("parallelism", "expected `int`, got `str`"),
    "percentageOfNodesToScore: 101": ("percentageOfNodesToScore", "101: not in valid range [0-100]"),
    "percentageOfPlacementsToScore: -1": ("percentageOfPlacementsToScore", "not in valid range [0-100]"),
    "profiles: [{percentageOfNodesToScore: -1}]": ("profiles[0].percentageOfNodesToScore", "not in valid range"),
    "podInitialBackoffSeconds: 0": ("podInitialBackoffSeconds", "must be greater than 0"),
    "podInitialBackoffSeconds: 20": ("podMaxBackoffSeconds", "must be greater than or equal to podInitial"),
    "podMaxBackoffSeconds: 99999999999999999999": ("podMaxBackoffSeconds", "<= 9223372036854775807"),
    "clientConnection: {burst: -1}": ("clientConnection.burst", "must be non-negative"),
    "clientConnection: {burst: 3000000000}": ("clientConnection.burst", "<= 2147483647"),
    "clientConnection: {qps: fast}": ("clientConnection.qps", "expected `float"),
    "leaderElection: {leaseDuration: 5s}": ("leaderElection.leaseDuration", "must be greater than renewDeadline"),
    "leaderElection: {leaseDuration: 15}": ("leaderElection.leaseDuration", "expected `str`, got `int`"),
    "leaderElection: {retryPeriod: 0s}": ("leaderElection.retryPeriod", "must be greater than zero"),
    "leaderElection: {renewDeadline: soon}": ("leaderElection.renewDeadline", "expected a duration like 15s"),
    "leaderElection: {resourceLock: endpoints}": ("leaderElection.resourceLock", 'must be "leases"'),
    "leaderElection: {leader: x}": ("leaderElection.leader", "unknown field"),
    "policy: {}": ("policy", "unknown field"),
    "profiles: [{plugins: {filter: {enable: []}}}]": ("profiles[0].plugins.filter.enable", "unknown field"),
    "profiles: [{plugins: {unreserve: {}}}]": ("profiles[0].plugins.unreserve", "unknown field"),
    "profiles: [{schedulerName: ''}]": ("profiles[0].schedulerName", "is required"),
    "profiles: [{schedulerName: a}, {}]": ("profiles[1].schedulerName", "is required"),
    "profiles: [{schedulerName: a}, {schedulerName: a}]": (
        "profiles[1].schedulerName",
        "'a' is used twice: it is that of profiles[0], too",
    ),
    "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 1000000000000}]}}}]": (
        "profiles[0].plugins.score.enabled[0].weight",
        "<= 2147483647",
    ),
    "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}}]": (
        "profiles[0].plugins.score.enabled[0].weight",
        "must not be negative",
    ),
    "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]": (
        "profiles[0].plugins.filter.enabled[0].name",
        "was removed from this version",
    ),
    "profiles: [{pluginConfig: [{name: CinderLimits}]}]": ("profiles[0].pluginConfig[0].name", "was removed"),
    "profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}]": (
        "profiles[0].pluginConfig[1].name",
        "'NodeName' is given twice",
    ),
    "extenders: [{}]": ("extenders[0]", "missing required field `urlPrefix`"),
    "extenders: [{urlPrefix: ''}]": ("extenders[0].urlPrefix", "must not be empty"),
    "extenders: [{urlPrefix: u, prioritizeVerb: p}]": ("extenders[0].weight", "must have a positive weight"),
    "extenders: [{urlPrefix: u, weight: 5000000000}]": ("extenders[0].weight", "not more than"),
    "extenders: [{urlPrefix: u, bindVerb: b}, {urlPrefix: v, bindVerb: b}]": (
        "extenders",
        "found 2 extenders implementing bind",
    ),
    "extenders: [{urlPrefix: u, httpTimeout: 5}]": ("extenders[0].httpTimeout", "expected `str`, got `int`"),
    "extenders: [{urlPrefix: u, httpTimeout: -1s}]": ("extenders[0].httpTimeout", "must not be negative"),
    "extenders: [{urlPrefix: u, managedResources: [{name: cpu}]}]": (
        "extenders[0].managedResources[0].name",
        "is an invalid extended resource name",
    ),
    "extenders: [{urlPrefix: u, managedResources: [{name: a/b/c}]}]": (
        "extenders[0].managedResources[0].name",
        "a qualified name must consist of",
    ),
    "extenders: [{urlPrefix: u, managedResources: [{name: x.io/a}, {name: x.io/a}]}]": (
        "extenders[0].managedResources[1].name",
        "duplicate extender managed resource name",
    ),
    "extenders: [{urlPrefix: u, tlsConfig: {caData: '%'}}]": ("extenders[0].tlsConfig.caData", "base64"),
}


@pytest.mark.parametrize("text", FORM)
def test_configuration_that_its_form_does_not_allow(text: str) -> None:
    """scheduling.md 6.2: one error, with the path in the file."""
    path, message = FORM[text]
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert caught.value.path == path
    assert message in caught.value.message


def test_election_that_is_switched_off_is_not_checked() -> None:
    """As upstream."""
    assert not read("leaderElection: {leaderElect: false, leaseDuration: 1s}").leader_election.leader_elect


PLUGINS = {
    "multiPoint: {enabled: [{name: Nope}]}": ("multiPoint.enabled[0].name", "unknown plugin 'Nope'; known: Default"),
    "filter: {disabled: [{name: NodePort}]}": (
        "filter.disabled[0].name",
        "unknown plugin 'NodePort', did you mean \"NodePorts\"?",
    ),
    "filter: {disabled: [{name: Nope}]}": ("filter.disabled[0].name", "unknown plugin 'Nope'"),
    "preScore: {enabled: [{name: Nope}]}": ("preScore.enabled[0].name", "unknown plugin 'Nope'"),
    "filter: {enabled: [{name: NodeName}, {name: NodeName}]}": (
        "filter.enabled[1].name",
        "plugin 'NodeName' is enabled twice",
    ),
    "score: {enabled: [{name: NodeName}]}": ("score.enabled[0].name", "plugin 'NodeName' does not extend score"),
    "bind: {disabled: [{name: '*'}]}": ("bind", "at least one bind plugin is needed"),
    "queueSort: {disabled: [{name: PrioritySort}]}": ("queueSort", "exactly one queueSort plugin is needed, found 0"),
    "preFilter: {disabled: [{name: NodePorts}]}": (
        "preFilter",
        "'NodePorts' can only be disabled together with filter",
    ),
}


@pytest.mark.parametrize("text", PLUGINS)
def test_plugins_that_cannot_be(text: str) -> None:
    path, message = PLUGINS[text]
    with pytest.raises(ConfigurationError) as caught:
        profiles(f"profiles: [{{plugins: {{{text}}}}}]")
    assert caught.value.path == f"profiles[0].plugins.{path}"
    assert message in caught.value.message


def test_weights_that_sum_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream: "total score of Score plugins could overflow"; here the sum is part of 63 bits."""
    monkeypatch.setattr("reprieve.scheduling.configured_profiles.MAX_TOTAL_SCORE", 1200)
    with pytest.raises(ConfigurationError, match="total score of Score plugins could overflow"):
        profiles("profiles: [{}]")
    assert MAX_TOTAL_SCORE * (1 << 22) == 1 << 63


def test_queue_has_one_order_for_all_profiles() -> None:
    """Same plugin, same args: upstream's check."""
    text = "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: PrioritySort, args: {x: 1}}]}]"
    with pytest.raises(ConfigurationError):
        profiles(text)


ARGS: dict[str, tuple[str, str, str]] = {
    "NodeResourcesFit: {scoringStrategy: {}}": (
        "NodeResourcesFit",
        "scoringStrategy.type",
        "'': expected LeastAllocated",
    ),
    "NodeResourcesFit: {scoringStrategy: {type: Most}}": (
        "NodeResourcesFit",
        "scoringStrategy.type",
        "'Most': expected",
    ),
    "NodeResourcesFit: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}": (
        "NodeResourcesFit",
        "scoringStrategy.resources[0].weight",
        "resource weight of cpu not in valid range",
    ),
    "NodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio}}": (
        "NodeResourcesFit",
        "scoringStrategy.requestedToCapacityRatio",
        "must be specified when type is RequestedToCapacityRatio",
    ),
    "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}": (
        "NodeResourcesFit",
        "scoringStrategy.requestedToCapacityRatio",
        "must be nil when type is not RequestedToCapacityRatio",
    ),
    "NodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
    "{shape: [{utilization: 5, score: 1}, {utilization: 5, score: 2}]}}}": (
        "NodeResourcesFit",
        "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
        "values must be sorted in increasing order",
    ),
    "NodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
    "{shape: [{utilization: 5, score: 11}]}}}": (
        "NodeResourcesFit",
        "scoringStrategy.requestedToCapacityRatio.shape[0].score",
        "11: not in range 0 to 10",
    ),
    "NodeResourcesFit: {ignoredResources: ['a b']}": ("NodeResourcesFit", "ignoredResources[0]", "name part must"),
    "NodeResourcesFit: {ignoredResourceGroups: [x.io, 'a b']}": (
        "NodeResourcesFit",
        "ignoredResourceGroups[1]",
        "name part must",
    ),
    "NodeResourcesFit: {ignoredResourceGroups: [x.io/a]}": (
        "NodeResourcesFit",
        "ignoredResourceGroups[0]",
        "can't contain '/'",
    ),
    "NodeResourcesFit: {kind: NodeAffinityArgs}": ("NodeResourcesFit", "kind", "expected NodeResourcesFitArgs of"),
    "NodeResourcesBalancedAllocation: {resources: [{name: cpu, weight: 2}]}": (
        "NodeResourcesBalancedAllocation",
        "resources[0].weight",
        "should be 1",
    ),
    "NodeResourcesBalancedAllocation: {resources: [{name: cpu}, {name: cpu}]}": (
        "NodeResourcesBalancedAllocation",
        "resources[1].name",
        "is given twice",
    ),
    "InterPodAffinity: {hardPodAffinityWeight: 101}": ("InterPodAffinity", "hardPodAffinityWeight", "not in valid"),
    "NodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: a, operator: Near}]}]}}}": (
        "NodeAffinity",
        "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "Near",
    ),
    "PodTopologySpread: {defaultingType: Cluster}": (
        "PodTopologySpread",
        "defaultingType",
        "'Cluster': expected System",
    ),
    "PodTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}": (
        "PodTopologySpread",
        "defaultConstraints",
        "when .defaultingType is System, must be empty",
    ),
    "PodTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: z}]}": (
        "PodTopologySpread",
        "defaultConstraints[0].maxSkew",
        "must be greater than zero",
    ),
    "PodTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: 'a b'}]}": (
        "PodTopologySpread",
        "defaultConstraints[0].topologyKey",
        "name part must",
    ),
    "PodTopologySpread: {defaultingType: List, defaultConstraints: "
    "[{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule},"
    " {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}": (
        "PodTopologySpread",
        "defaultConstraints[1]",
        "{z, DoNotSchedule} is given twice",
    ),
    "DefaultPreemption: {minCandidateNodesPercentage: 101}": (
        "DefaultPreemption",
        "minCandidateNodesPercentage",
        "not in valid range [0, 100]",
    ),
    "DefaultPreemption: {minCandidateNodesAbsolute: -1}": (
        "DefaultPreemption",
        "minCandidateNodesAbsolute",
        "not in valid range",
    ),
    "DefaultPreemption: {holdSeconds: -1}": (
        "DefaultPreemption",
        "holdSeconds",
        "-1: must be zero or positive, and at most ten years",
    ),
    "DefaultPreemption: {holdSeconds: 9000000000000000000}": (
        "DefaultPreemption",
        "holdSeconds",
        "9000000000000000000: must be zero or positive, and at most ten years",
    ),
    "DefaultPreemption: {waitForCompletions: -1s}": (
        "DefaultPreemption",
        "waitForCompletions",
        "-1s: must be zero or positive, and at most ten years",
    ),
    "DefaultPreemption: {waitForCompletions: soon}": (
        "DefaultPreemption",
        "waitForCompletions",
        "expected a duration like 15s or 1m30s",
    ),
    "DefaultPreemption: {successor: maybe}": (
        "DefaultPreemption",
        "successor",
        "expected `bool`, got `str`",
    ),
    "DefaultPreemption: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}": (
        "DefaultPreemption",
        "minCandidateNodesPercentage",
        "cannot be zero at the same time",
    ),
    "VolumeBinding: {bindTimeoutSeconds: -1}": ("VolumeBinding", "bindTimeoutSeconds", "should not be a negative"),
    "VolumeBinding: {shape: [{utilization: 0, score: 0}]}": ("VolumeBinding", "shape", "StorageCapacityScoring"),
    "DynamicResources: {filterTimeout: -1s}": ("DynamicResources", "filterTimeout", "must be zero or positive"),
    "DynamicResources: {bindingTimeout: 500ms}": ("DynamicResources", "bindingTimeout", "at least 1 second"),
    "DynamicResources: {bindingTimeout: 5}": ("DynamicResources", "bindingTimeout", "expected `str`"),
    "ImageLocality: {size: 1}": ("ImageLocality", "", "this plugin takes no args"),
    "GangScheduling: {treeSearch: Random}": ("GangScheduling", "treeSearch", "'Random': expected Greedy or Retry"),
    "GangScheduling: {search: Retry}": ("GangScheduling", "search", "unknown field"),
    "GangScheduling: {treeSerch: Retry}": ("GangScheduling", "treeSerch", 'unknown field, did you mean "treeSearch"?'),
    "InterPodAffinity: {hard: 1}": ("InterPodAffinity", "hard", "unknown field"),
    "NodeResourcesFit: {scoringStrategy: {kind: MostAllocated}}": (
        "NodeResourcesFit",
        "scoringStrategy.kind",
        "unknown field",
    ),
    "NodeResourcesFit: {scoringStrategy: {requestedToCapacityRatio: {form: []}}}": (
        "NodeResourcesFit",
        "scoringStrategy.requestedToCapacityRatio.form",
        "unknown field",
    ),
    "NodeResourcesFit: {scoringStrategy: {requestedToCapacityRatio: {shape: [{utilization: 0, score: 0, at: 1}]}}}": (
        "NodeResourcesFit",
        "scoringStrategy.requestedToCapacityRatio.shape[0].at",
        "unknown field",
    ),
    "NodeResourcesFit: {scoringStrategy: {resources: [{name: cpu, share: 1}]}}": (
        "NodeResourcesFit",
        "scoringStrategy.resources[0].share",
        "unknown field",
    ),
    "NodeResourcesFit: {scoringStrategy: {resources: [{name: cpu, wieght: 1}]}}": (
        "NodeResourcesFit",
        "scoringStrategy.resources[0].wieght",
        'unknown field, did you mean "weight"?',
    ),
    "DefaultPreemption: {evictionLimits: [{per: owner, most: 1, within: 1h, cuont: Repeats}]}": (
        "DefaultPreemption",
        "evictionLimits[0].cuont",
        'unknown field, did you mean "count"?',
    ),
    "PodTopologySpread: {defaultingType: List, defaultConstraints: [{skew: 1}]}": (
        "PodTopologySpread",
        "defaultConstraints[0].skew",
        "unknown field",
    ),
}


@pytest.mark.parametrize("text", ARGS)
def test_args_that_cannot_be(text: str) -> None:
    """Upstream's validation_pluginargs.go, with the path in the file."""
    plugin, path, message = ARGS[text]
    args: Mapping[str, Any] = yaml.safe_load(text)[plugin]
    document = {"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}
    with pytest.raises(ConfigurationError) as caught:
        profiles(yaml.safe_dump(document))
    assert caught.value.path == ".".join(filter(None, ("profiles[0].pluginConfig[0].args", path)))
    assert message in caught.value.message


SOURCE_ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "no such source": ({"groupSources": {"vulcano": True}}, "groupSources"),
    "no such source in a list": ({"groupSources": ["native", "jobs"]}, "groupSources"),
    "neither on nor off": ({"groupSources": {"volcano": "yes"}}, "groupSources"),
    "a name of two profiles": (
        {"profiles": [{"schedulerName": "a", "alsoKnownAs": ["b"]}, {"schedulerName": "b"}]},
        "profiles[1].schedulerName",
    ),
    "a further name of two profiles": (
        {"profiles": [{"schedulerName": "a", "alsoKnownAs": ["c"]}, {"schedulerName": "b", "alsoKnownAs": ["c"]}]},
        "profiles[1].alsoKnownAs[0]",
    ),
    "its own name": ({"profiles": [{"schedulerName": "a", "alsoKnownAs": ["a"]}]}, "profiles[0].alsoKnownAs[0]"),
    "an empty name": ({"profiles": [{"schedulerName": "a", "alsoKnownAs": [""]}]}, "profiles[0].alsoKnownAs[0]"),
}


@pytest.mark.parametrize("name", SOURCE_ERRORS)
def test_names_and_sources_that_cannot_be_are_refused_with_their_place(name: str) -> None:
    """workloads.md 1.2 and 3.1."""
    fields, path = SOURCE_ERRORS[name]
    with pytest.raises(ConfigurationError) as caught:
        configuration_of(
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}
        )
    assert caught.value.path.startswith(path)


# -- both sides of every bound ---------------------------------------------------------------------------------------

BOUNDS: dict[str, tuple[str, str, str]] = {
    # What is bounded: the text with X for the value, a value that is allowed, and the next one, which is not.
    "least parallelism": ("parallelism: X", "1", "0"),
    "largest parallelism": ("parallelism: X", "2147483647", "2147483648"),
    "least percentage": ("percentageOfNodesToScore: X", "0", "-1"),
    "largest percentage": ("percentageOfPlacementsToScore: X", "100", "101"),
    "percentage of a profile": ("profiles: [{percentageOfPlacementsToScore: X}]", "100", "101"),
    "first backoff": ("podInitialBackoffSeconds: X", "1", "0"),
    "first backoff beside the longest": ("podInitialBackoffSeconds: X", "10", "11"),
    "longest backoff beside the first": ("podMaxBackoffSeconds: X", "1", "0"),
    "burst": ("clientConnection: {burst: X}", "0", "-1"),
    "a lease beside its renewal": ("leaderElection: {leaseDuration: X, renewDeadline: 10s}", "11s", "10s"),
    "retry": ("leaderElection: {retryPeriod: X}", "1ns", "0s"),
    "renewal": ("leaderElection: {renewDeadline: X}", "1ns", "0s"),
    "weight of a plugin": ("profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: X}]}}}]", "0", "-1"),
    "least weight of an extender": ("extenders: [{urlPrefix: u, prioritizeVerb: p, weight: X}]", "1", "0"),
    "largest weight of an extender": ("extenders: [{urlPrefix: u, weight: X}]", "2147483647", "2147483648"),
    "timeout of an extender": ("extenders: [{urlPrefix: u, httpTimeout: X}]", "0s", "-1ns"),
    "extenders that bind": ("extenders: [{urlPrefix: u, bindVerb: b}, {urlPrefix: v, bindVerb: X}]", "''", "b"),
    "resources of two extenders": (
        "extenders: [{urlPrefix: u, managedResources: [{name: x.io/a}]}, "
        "{urlPrefix: v, managedResources: [{name: X}]}]",
        "x.io/b",
        "x.io/a",
    ),
    "domain of a managed resource": (
        "extenders: [{urlPrefix: u, managedResources: [{name: X/a}]}]",
        "x.io",
        "kubernetes.io",
    ),
    "a quota's resource": ("extenders: [{urlPrefix: u, managedResources: [{name: X/a}]}]", "x.io", "requests.x.io"),
    "a name and another": ("profiles: [{schedulerName: a, alsoKnownAs: [X]}]", "b", "a"),
    "names of two profiles": ("profiles: [{schedulerName: a}, {schedulerName: b, alsoKnownAs: [X]}]", "c", "a"),
    "args of a plugin that is gone": ("profiles: [{pluginConfig: [{name: X}]}]", "NodeName", "CinderLimits"),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_options(name: str) -> None:
    """scheduling.md 6, upstream's ValidateKubeSchedulerConfiguration."""
    text, allowed, refused = BOUNDS[name]
    read(text.replace("X", allowed))
    with pytest.raises(ConfigurationError):
        read(text.replace("X", refused))


_RATIO = (
    "NodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [%s]}}}"
)
_LIMIT = "DefaultPreemption: {evictionLimits: [{%s}]}"
_SPREAD = "PodTopologySpread: {defaultingType: List, defaultConstraints: [%s]}"


def _limits(count: int) -> str:
    return f"[{', '.join(['{per: owner, most: 1, within: 1h}'] * count)}]"


ARGS_BOUNDS: dict[str, tuple[str, str, str]] = {
    "least weight": (
        "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: X}]}}",
        "0",
        "-1",
    ),
    "largest weight": (
        "NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: X}]}}",
        "100",
        "101",
    ),
    "least utilization": (_RATIO % "{utilization: X, score: 0}", "0", "-1"),
    "largest utilization": (_RATIO % "{utilization: X, score: 0}", "100", "101"),
    "least score": (_RATIO % "{utilization: 0, score: X}", "0", "-1"),
    "largest score": (_RATIO % "{utilization: 0, score: X}", "10", "11"),
    "order of points": (
        _RATIO % "{utilization: 0, score: 9}, {utilization: 7, score: 1}, {utilization: X, score: 2}",
        "8",
        "7",
    ),
    "points": (
        "NodeResourcesFit: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: X}}}",
        "[{utilization: 0, score: 0}]",
        "[]",
    ),
    "weight of what is balanced": ("NodeResourcesBalancedAllocation: {resources: [{name: cpu, weight: X}]}", "1", "2"),
    "what is balanced": ("NodeResourcesBalancedAllocation: {resources: [{name: a}, {name: b}, {name: X}]}", "c", "b"),
    "least hard weight": ("InterPodAffinity: {hardPodAffinityWeight: X}", "0", "-1"),
    "largest hard weight": ("InterPodAffinity: {hardPodAffinityWeight: X}", "100", "101"),
    "skew": (_SPREAD % "{maxSkew: X, topologyKey: z, whenUnsatisfiable: DoNotSchedule}", "1", "0"),
    "topology key": (_SPREAD % "{maxSkew: 1, topologyKey: X, whenUnsatisfiable: DoNotSchedule}", "z", "''"),
    "what if it cannot be": (_SPREAD % "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: X}", "ScheduleAnyway", "Wait"),
    "the pods that are spread": (
        _SPREAD % "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: X}",
        "null",
        "{}",
    ),
    "the same twice": (
        _SPREAD % "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}, "
        "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: X}",
        "ScheduleAnyway",
        "DoNotSchedule",
    ),
    "constraints of the system": ("PodTopologySpread: {defaultConstraints: X}", "[]", "[{maxSkew: 1, topologyKey: z}]"),
    "filter timeout": ("DynamicResources: {filterTimeout: X}", "0s", "-1ns"),
    "binding timeout": ("DynamicResources: {bindingTimeout: X}", "1s", "999ms"),
    "bind timeout": ("VolumeBinding: {bindTimeoutSeconds: X}", "0", "-1"),
    "least percentage of candidates": ("DefaultPreemption: {minCandidateNodesPercentage: X}", "0", "-1"),
    "largest percentage of candidates": ("DefaultPreemption: {minCandidateNodesPercentage: X}", "100", "101"),
    "candidates": ("DefaultPreemption: {minCandidateNodesAbsolute: X}", "0", "-1"),
    "candidates at all": (
        "DefaultPreemption: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: X}",
        "1",
        "0",
    ),
    "least repair": ("GangScheduling: {repairSeconds: X}", "0", "-1"),
    "longest repair": ("GangScheduling: {repairSeconds: X}", "316224000", "316224001"),
    "time until a restart": ("GangScheduling: {degradedSeconds: X}", "0", "-1"),
    "repair first": ("GangScheduling: {repairFirst: X}", "false", "sometimes"),
    "least hold": ("DefaultPreemption: {holdSeconds: X}", "0", "-1"),
    "longest hold": ("DefaultPreemption: {holdSeconds: X}", "316224000", "316224001"),
    "longest wait": ("DefaultPreemption: {waitForCompletions: X}", "87840h", "87840h1s"),
    "longest wait for a checkpoint": ("DefaultPreemption: {waitForCheckpoint: X}", "87840h", "87840h1s"),
    "scope of a limit": (_LIMIT % "per: X, most: 1, within: 1h", "priorityClass", "owners"),
    "what a limit counts": (_LIMIT % "per: owner, most: 1, within: 1h, count: X", "Repeats", "Pods"),
    "fewest evictions": (_LIMIT % "per: cluster, most: X, within: 1h", "1", "0"),
    "shortest window": (_LIMIT % "per: cluster, most: 1, within: X", "1s", "999ms"),
    "longest window": (_LIMIT % "per: cluster, most: 1, within: X", "744h", "744h1s"),
    "least depth": ("DefaultPreemption: {cascadeDepth: X}", "0", "-1"),
    "largest depth": ("DefaultPreemption: {cascadeDepth: X}", str(DEEPEST), str(DEEPEST + 1)),
    "most evictions": (_LIMIT % "per: cluster, most: X, within: 1h", "100000", "100001"),
    "number of limits": ("DefaultPreemption: {evictionLimits: X}", _limits(16), _limits(17)),
    "fewest moves": ("DefaultPreemption: {movesPerHour: X}", "1", "0"),
    "most moves": ("DefaultPreemption: {movesPerHour: X}", "100000", "100001"),
    "moves": ("DefaultPreemption: {moving: X}", "Move", "move"),
    "node requests": ("GangScheduling: {provisioningRequests: X}", "Annotated", "Sometimes"),
    "wait for node requests": ("GangScheduling: {provisioningAfter: X}", "0", "-1"),
    "class of node requests": ("GangScheduling: {provisioningClassName: X}", "a", "''"),
    "least wait for a reservation": ("Reservations: {reserveAfter: X}", "0s", "-1ns"),
    "longest wait for a reservation": ("Reservations: {reserveAfter: X}", "87840h", "87840h1s"),
    "shortest reservation": ("Reservations: {maxReserved: X}", "1ns", "0s"),
    "longest reservation": ("Reservations: {maxReserved: X}", "87840h", "87840h1s"),
    "fewest reservations": ("Reservations: {maxReservations: X}", "1", "0"),
    "most reservations": ("Reservations: {maxReservations: X}", "64", "65"),
    "fewest pods of a reservation": ("Reservations: {minPods: X}", "1", "0"),
    "most pods of a reservation": ("Reservations: {minPods: X}", "1048576", "1048577"),
    "least margin": ("Reservations: {backfillMargin: X}", "0", "-0.1"),
    "largest margin": ("Reservations: {backfillMargin: X}", "1000", "1000.1"),
    "least idle share": ("Reservations: {maxIdleShare: X}", "0", "-0.1"),
    "largest idle share": ("Reservations: {maxIdleShare: X}", "1", "1.1"),
    "overrun": ("Reservations: {backfillOverrun: X}", "Evict", "evict"),
    "ageing": ("Reservations: {queueing: {ageing: X}}", "0s", "-1s"),
    "search": ("DefaultPreemption: {victimSearch: X}", "PriorityFloor", "priorityFloor"),
    "placement": ("DefaultPreemption: {placement: X}", "Scored", "scored"),
    "a preferred term": (
        "NodeAffinity: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 1, preference: {matchExpressions: [{key: a, operator: X}]}}]}}",
        "Exists",
        "Near",
    ),
}


@pytest.mark.parametrize("name", ARGS_BOUNDS)
def test_args_are_allowed_at_their_bounds_and_not_beyond_them(name: str) -> None:
    """cost.md 9.7: Upstream's validation_pluginargs.go; cost.md 1 and preemption.md 4 for what is ours."""
    text, allowed, refused = ARGS_BOUNDS[name]

    def made(value: str) -> None:
        ((plugin, args),) = yaml.safe_load(text.replace("X", value)).items()
        profiles(yaml.safe_dump({"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}))

    made(allowed)
    with pytest.raises(ConfigurationError):
        made(refused)


def test_configuration_defaults_are_those_of_upstream() -> None:
    """pkg/scheduler/apis/config/v1/defaults.go, and component-base for the election."""
    found: dict[str, Any] = msgspec.to_builtins(read("profiles: [{}]\nextenders: [{urlPrefix: u}]"))
    (profile,), (extender,) = found.pop("profiles"), found.pop("extenders")
    election = found.pop("leaderElection")
    assert election == {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system",
    }
    del found["clientConnection"], found["apiVersion"], found["kind"]
    assert found == {
        "parallelism": 16,
        "enableProfiling": True,
        "enableContentionProfiling": True,
        "percentageOfNodesToScore": None,
        "percentageOfPlacementsToScore": None,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "delayCacheUntilActive": False,
        "groupSources": {},
    }
    assert profile["schedulerName"] == "default-scheduler"
    assert (extender["httpTimeout"], extender["weight"]) == ("5s", 0)
    assert not any(extender[name] for name in ("enableHTTPS", "nodeCacheCapable", "ignorable", "tlsConfig"))


def test_extender_without_a_timeout_in_the_file_has_the_default() -> None:
    """Nought means the default, 5 s."""
    texts = ("0s", "1ms", "7s")
    extenders = ", ".join(f"{{urlPrefix: u{text}, httpTimeout: {text}}}" for text in texts)
    assert [each.seconds for each in read(f"extenders: [{extenders}]").extenders] == [5, 0.001, 7]
