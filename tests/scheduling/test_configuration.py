"""KubeSchedulerConfiguration v1: what loads, what is refused and where, and what takes effect (scheduling.md 6).

Upstream's checks: pkg/scheduler/apis/config/validation, framework/runtime, component-base/config/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from reprieve.api.group_sources import DEFAULT_SOURCES
from reprieve.framework.configuration import ConfigurationError, SchedulerConfiguration, configuration_of, duration
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.gates import FeatureGates, GateError
from reprieve.framework.plugin import (
    CycleState,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
)
from reprieve.framework.profile import Profile
from reprieve.framework.status import Code, Status
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.scheduling.configuring import MAX_TOTAL_SCORE
from reprieve.scheduling.profile_remarks import remarks_on
from reprieve.scheduling.profiles import profiles_of
from tests.building import GPU, World, gang, group, node, pod, profile_with

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(text: str) -> SchedulerConfiguration:
    return configuration_of(yaml.safe_load(HEAD + text))


def profiles(text: str, gates: FeatureGates | None = None) -> dict[str, Profile]:
    return {profile.name: profile for profile in profiles_of(read(text), gates or FeatureGates())}


def names(profile: Profile, point: str) -> list[str]:
    return [plugin.name for plugin in getattr(profile, point)]


# -- files as they are found in the wild ------------------------------------------------------------------------------

BIN_PACKING = """
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s, resourceLock: leases,
  resourceName: gpu-scheduler, resourceNamespace: kube-system}
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf, qps: 100, burst: 200,
  contentType: application/vnd.kubernetes.protobuf}
percentageOfNodesToScore: 0
parallelism: 32
enableProfiling: false
profiles:
- schedulerName: gpu-scheduler
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 100}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: nvidia.com/gpu, weight: 10}, {name: cpu, weight: 1}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 10, ignorePreferredTermsOfExistingPods: true}
  - name: VolumeBinding
    args: {bindTimeoutSeconds: 300}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [gpu]}]}]
  - name: DynamicResources
    args: {filterTimeout: 10s, bindingTimeout: 5m}
"""
NO_SCORES = """
profiles:
- schedulerName: default-scheduler
- schedulerName: no-scoring-scheduler
  plugins:
    preScore: {disabled: [{name: '*'}]}
    score: {disabled: [{name: '*'}]}
"""
ONLY_SOME = """
profiles:
- schedulerName: few
  plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeName}, {name: TaintToleration},
        {name: NodeResourcesFit, weight: 3}]
"""


def test_a_file_for_bin_packing_takes_effect() -> None:
    """Weights, args, disabled plugins: the fullest node of the pool, whatever else would be preferred."""
    chosen = profiles(BIN_PACKING)["gpu-scheduler"]
    assert {w.plugin.name: w.weight for w in chosen.scores}["NodeResourcesFit"] == 100
    assert not {"NodeResourcesBalancedAllocation", "ImageLocality"} & {w.plugin.name for w in chosen.scores}
    pool = {"pool": "gpu"}
    world = World(
        node("n1", gpu=4, labels=pool),
        node("n2", gpu=4, labels=pool),
        node("n3", gpu=4),
        pod("there", gpu=2, node="n2"),
        pod("p", gpu=1, scheduler="gpu-scheduler"),
        profiles={"gpu-scheduler": chosen},
    ).settle()
    assert world.where["p"] == "n2"
    found = read(BIN_PACKING)
    assert (found.parallelism, found.leader_election.resource_name) == (32, "gpu-scheduler")
    assert (found.client_connection.qps, found.client_connection.burst) == (100.0, 200)


def test_profiles_decide_by_scheduler_name() -> None:
    """One file, two profiles: with all scores switched off the first node by name is taken."""
    chosen = profiles(NO_SCORES)
    world = World(
        node("n1"),
        node("n2"),
        pod("there", cpu=1, node="n1"),
        pod("scored", cpu=1),
        pod("plain", cpu=1, scheduler="no-scoring-scheduler"),
        profiles=chosen,
    ).settle()
    assert world.where == {"there": "n1", "scored": "n2", "plain": "n1"}


def test_multi_point_with_a_wildcard_leaves_what_is_named() -> None:
    chosen = profiles(ONLY_SOME)["few"]
    assert [plugin.name for plugin in chosen.plugins] == [
        "PrioritySort",
        "DefaultBinder",
        "NodeName",
        "TaintToleration",
        "NodeResourcesFit",
    ]
    assert {w.plugin.name: w.weight for w in chosen.scores} == {"TaintToleration": 1, "NodeResourcesFit": 3}
    world = World(
        node("n1", cpu=1), pod("p", cpu=2, scheduler="few"), pod("x", node="n1", cpu=1), profiles=profiles(ONLY_SOME)
    )
    assert world.settle().where == {"x": "n1"}


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("", {"TaintToleration": 3, "ImageLocality": 1}),
        ("score: {enabled: [{name: TaintToleration, weight: 7}]}", {"TaintToleration": 7, "ImageLocality": 1}),
        ("score: {enabled: [{name: TaintToleration}]}", {"TaintToleration": 1, "ImageLocality": 1}),
        ("score: {disabled: [{name: ImageLocality}]}", {"TaintToleration": 3}),
        ("score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 2}]}", {"ImageLocality": 2}),
        ("multiPoint: {enabled: [{name: ImageLocality, weight: 4}]}", {"TaintToleration": 3, "ImageLocality": 4}),
        (
            "multiPoint: {enabled: [{name: ImageLocality, weight: 4}]},"
            " score: {enabled: [{name: ImageLocality, weight: 9}]}",
            {"TaintToleration": 3, "ImageLocality": 9},
        ),
        ("multiPoint: {disabled: [{name: ImageLocality}]}", {"TaintToleration": 3}),
        (
            "multiPoint: {disabled: [{name: ImageLocality}]}, score: {enabled: [{name: ImageLocality}]}",
            {"TaintToleration": 3, "ImageLocality": 1},
        ),
    ],
)
def test_weights_by_upstream_s_precedence(score: str, expected: dict[str, int]) -> None:
    """Extension point before multiPoint before defaults; a weight that is not given is 1."""
    chosen = profiles(f"profiles: [{{plugins: {{{score}}}}}]")["default-scheduler"]
    found = {w.plugin.name: w.weight for w in chosen.scores if w.plugin.name in ("TaintToleration", "ImageLocality")}
    assert found == expected


def test_order_by_upstream_s_precedence() -> None:
    """First what both name, in the extension point's order; then the rest of multiPoint; then what is new there."""
    chosen = profiles(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeName}]},"
        " filter: {enabled: [{name: NodeResourcesFit}, {name: TaintToleration}, {name: NodeName}],"
        " disabled: [{name: NodePorts}]}}}]"
    )["default-scheduler"]
    found = names(chosen, "filters")
    assert found[:3] == ["NodeResourcesFit", "TaintToleration", "NodeUnschedulable"]
    assert found[-1] == "NodeName"
    assert "NodePorts" not in found
    assert not {"NodeName"} & set(names(chosen, "reserves"))


def test_a_plugin_switched_on_at_one_point_says_nothing_at_others() -> None:
    chosen = profiles(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: TaintToleration}]},"
        " filter: {enabled: [{name: TaintToleration}]}}}]"
    )["default-scheduler"]
    assert "TaintToleration" in names(chosen, "filters")
    assert "TaintToleration" not in [w.plugin.name for w in chosen.scores]


DP, DRA = "DefaultPreemption", "DynamicResources"


@pytest.mark.parametrize(
    ("points", "of_pods", "of_groups"),
    [
        ("", [DRA, DP], [DRA, DP]),
        ("postFilter: {disabled: [{name: DefaultPreemption}]}", [DRA], [DRA]),
        ("postFilter: {disabled: [{name: '*'}]}", [], []),
        ("postFilter: {disabled: [{name: '*'}], enabled: [{name: DefaultPreemption}]}", [DP], [DP]),
        ("postFilter: {enabled: [{name: DefaultPreemption}]}", [DP, DRA], [DP, DRA]),
        (
            "postFilter: {disabled: [{name: DefaultPreemption}]}, "
            "podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}",
            [DRA],
            [DP, DRA],
        ),
        (
            "postFilter: {disabled: [{name: '*'}]}, podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}",
            [],
            [DP],
        ),
        ("podGroupPostFilter: {disabled: [{name: DefaultPreemption}]}", [DRA, DP], [DRA]),
        ("podGroupPostFilter: {disabled: [{name: '*'}]}", [DRA, DP], []),
        (
            "postFilter: {disabled: [{name: '*'}], enabled: [{name: DefaultPreemption}]}, "
            "podGroupPostFilter: {disabled: [{name: DefaultPreemption}]}",
            [DP],
            [],
        ),
        ("multiPoint: {disabled: [{name: DefaultPreemption}]}", [DRA], [DRA]),
        (
            "multiPoint: {disabled: [{name: DefaultPreemption}]}, postFilter: {enabled: [{name: DefaultPreemption}]}",
            [DRA, DP],
            [DRA, DP],
        ),
    ],
)
def test_the_point_of_groups_follows_that_of_pods_unless_it_is_named(
    points: str, of_pods: list[str], of_groups: list[str]
) -> None:
    """Who switches preemption off at postFilter does not mean that gangs go on evicting."""
    chosen = profiles(f"profiles: [{{plugins: {{{points}}}}}]")["default-scheduler"]
    assert (names(chosen, "post_filters"), names(chosen, "group_post_filters")) == (of_pods, of_groups)


def test_other_orders_are_tried_where_the_args_say_so() -> None:
    """scheduling.md 3.9; in the form of a file."""
    members = [pod(f"m{i}", cpu=cpu, group="crew") for i, cpu in enumerate((2, 2, 4))]
    items = [node("n1"), node("n2"), group("crew", min_count=3), *members]
    args = "pluginConfig: [{name: GangScheduling, args: {treeSearch: Retry}}]"
    assert World(*items, profiles=profiles("profiles: [{}]")).settle().where == {}
    assert len(World(*items, profiles=profiles(f"profiles: [{{{args}}}]")).settle().where) == 3


def test_without_preemption_nobody_goes_for_a_gang() -> None:
    chosen = profiles("profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]")
    world = World(node("n", cpu=1), pod("low", cpu=1, node="n"), *gang("crew", 1, cpu=1, priority=5), profiles=chosen)
    assert world.settle().evicted == []
    assert world.condition("crew")[2].endswith("first placement status: pod group is unschedulable")


class Informs(PostFilterPlugin):
    """A plugin of somebody's own, from before groups had a point of their own."""

    name = "Informs"

    def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, "", self.name))


class InformsOfBoth(Informs, PodGroupPostFilterPlugin):
    def pod_group_post_filter(self, attempt: PodGroupAttempt) -> PostFilterResult:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, "", self.name))


_ON = FeatureGates()
_OFF = FeatureGates(generic_workload=False)


@pytest.mark.parametrize(
    ("profile", "gates", "said"),
    [
        (profile_with(), _ON, []),
        (
            profile_with(Informs()),
            _ON,
            [(True, "plugin Informs extends PostFilter but not PodGroupPostFilter: it is never asked")],
        ),
        (profile_with(Informs()), _OFF, []),
        (profile_with(InformsOfBoth()), _ON, []),
        (profile_with(drop=["GangScheduling"]), _ON, [(False, "plugin GangScheduling is not enabled: nothing holds")]),
        (profile_with(drop=["GangScheduling"]), _OFF, []),
        (
            profiles("profiles: [{plugins: {preEnqueue: {disabled: [{name: GangScheduling}]}}}]")["default-scheduler"],
            _ON,
            [(False, "plugin GangScheduling is not enabled at preEnqueue: nothing holds")],
        ),
    ],
    ids=["default", "pods only", "pods only, gate off", "both", "no gangs", "no gangs, gate off", "half of it"],
)
def test_what_is_said_of_profiles_at_start(profile: Profile, gates: FeatureGates, said: list[tuple[bool, str]]) -> None:
    """KEP-5710: an error line for PostFilter without PodGroupPostFilter; GangScheduling belongs in every profile."""
    found = remarks_on(profile, gates)
    assert [remark.error for remark in found] == [error for error, _ in said]
    for remark, (_, text) in zip(found, said, strict=True):
        assert remark.text.startswith(f"profile 'default-scheduler': {text}")


def test_no_profiles_is_the_default_one() -> None:
    assert list(profiles("parallelism: 1")) == ["default-scheduler"]
    assert list(profiles("profiles: [{}]")) == ["default-scheduler"]


# -- what is refused ------------------------------------------------------------------------------------------

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
    "leaderElection: {renewDeadline: soon}": ("leaderElection.renewDeadline", "want a duration like 15s"),
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
def test_what_the_form_does_not_allow(text: str) -> None:
    """One error, with the path in the file."""
    path, message = FORM[text]
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert caught.value.path == path
    assert message in caught.value.message


def test_an_election_that_is_switched_off_is_not_checked() -> None:
    """As upstream."""
    assert not read("leaderElection: {leaderElect: false, leaseDuration: 1s}").leader_election.leader_elect


PLUGINS = {
    "multiPoint: {enabled: [{name: Nope}]}": ("multiPoint.enabled[0].name", "unknown plugin 'Nope'; known: Default"),
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
    monkeypatch.setattr("reprieve.scheduling.configuring.MAX_TOTAL_SCORE", 1200)
    with pytest.raises(ConfigurationError, match="total score of Score plugins could overflow"):
        profiles("profiles: [{}]")
    assert MAX_TOTAL_SCORE * (1 << 22) == 1 << 63


def test_the_queue_has_one_order_for_all_profiles() -> None:
    """Same plugin, same args: upstream's check."""
    text = "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: PrioritySort, args: {x: 1}}]}]"
    with pytest.raises(ConfigurationError):
        profiles(text)


ARGS: dict[str, tuple[str, str, str]] = {
    "NodeResourcesFit: {scoringStrategy: {}}": ("NodeResourcesFit", "scoringStrategy.type", "'': want LeastAllocated"),
    "NodeResourcesFit: {scoringStrategy: {type: Most}}": ("NodeResourcesFit", "scoringStrategy.type", "'Most': want"),
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
    "NodeResourcesFit: {ignoredResourceGroups: [x.io/a]}": (
        "NodeResourcesFit",
        "ignoredResourceGroups[0]",
        "can't contain '/'",
    ),
    "NodeResourcesFit: {kind: NodeAffinityArgs}": ("NodeResourcesFit", "kind", "want NodeResourcesFitArgs of"),
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
    "PodTopologySpread: {defaultingType: Cluster}": ("PodTopologySpread", "defaultingType", "'Cluster': want System"),
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
        "want a duration like 15s or 1m30s",
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
    "GangScheduling: {treeSearch: Random}": ("GangScheduling", "treeSearch", "'Random': want Greedy or Retry"),
    "GangScheduling: {search: Retry}": ("GangScheduling", "", "unknown field `search`"),
    "InterPodAffinity: {hard: 1}": ("InterPodAffinity", "", "unknown field `hard`"),
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


def test_resources_that_extenders_alone_look_at() -> None:
    """managedResources with ignoredByScheduler go to NodeResourcesFit, as upstream."""
    text = f"extenders: [{{urlPrefix: u, managedResources: [{{name: {GPU}, ignoredByScheduler: true}}]}}]"
    chosen = profiles(text)
    assert any(isinstance(plugin, NodeResourcesFit) for plugin in chosen["default-scheduler"].plugins)
    world = World(node("n1"), pod("p", gpu=8), profiles=chosen).settle()
    assert world.where == {"p": "n1"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("500ms", 0.5), ("2us", 2e-6), ("0", 0.0), ("-1s", -1.0)],
)
def test_durations_as_go_writes_them(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "1 s", "1s ", "--1s", "1.2.3s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="want a duration"):
        duration(text)


# -- feature gates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", FeatureGates()),
        ("GenericWorkload=false", FeatureGates(generic_workload=False)),
        (
            "GenericWorkload=F, OpportunisticBatching=0",
            FeatureGates(generic_workload=False, opportunistic_batching=False),
        ),
        ("SchedulerAsyncPreemption=false", FeatureGates(scheduler_async_preemption=False)),
        (
            "AllAlpha=false",
            FeatureGates(
                topology_aware_workload_scheduling=False,
                pod_group_preemption_policy=False,
                composite_pod_group=False,
            ),
        ),
        (
            "TopologyAwareWorkloadScheduling=true,AllAlpha=false",
            FeatureGates(pod_group_preemption_policy=False, composite_pod_group=False),
        ),
        (
            "AllBeta=false",
            FeatureGates(
                generic_workload=False,
                scheduler_async_preemption=False,
                opportunistic_batching=False,
                dra_workload_resource_claims=False,
                volume_limit_scaling=False,
            ),
        ),
        (
            "AllBeta=false,GenericWorkload=true",
            FeatureGates(
                scheduler_async_preemption=False,
                opportunistic_batching=False,
                dra_workload_resource_claims=False,
                volume_limit_scaling=False,
            ),
        ),
        ("AllAlpha=true,AllBeta=true", FeatureGates()),
    ],
)
def test_gates(text: str, expected: FeatureGates) -> None:
    """scheduling.md 6; whoever is named counts before the groups, wherever it stands."""
    assert FeatureGates.read(text) == (expected, [])


def test_gates_of_kube_scheduler_are_accepted_with_a_note() -> None:
    gates, notes = FeatureGates.read("GangScheduling=true,WorkloadAwarePreemption=true,DRAAdminAccess=false")
    assert gates == FeatureGates()
    assert notes[0] == "feature gate GangScheduling is kube-scheduler's; it changes nothing here"
    assert len(notes) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Foo=true", "unknown feature gate 'Foo'; known: AllAlpha, AllBeta, Composite"),
        ("genericworkload=true", "unknown feature gate 'genericworkload'"),
        ("GenericWorkload", "want NAME=true or NAME=false"),
        ("GenericWorkload=yes", "want NAME=true or NAME=false"),
        ("GenericWorkload=tRue", "want NAME=true or NAME=false"),
    ],
)
def test_gates_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(GateError, match=message):
        FeatureGates.read(text)


def test_without_generic_workload_groups_are_not_looked_at() -> None:
    """scheduling.md 6: pod by pod; `schedulingGroup` is ignored."""
    items = [node("n1", cpu=1), *gang("g", 2, cpu=1)]
    assert World(*items).settle().where == {}
    off = FeatureGates(generic_workload=False)
    assert len(World(*items, gates=off).settle().where) == 1


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


def test_sources_of_a_configuration() -> None:
    """workloads.md 1.2: a map changes the defaults, a list names all."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert configuration_of(head).sources == DEFAULT_SOURCES
    assert "kueue" not in configuration_of({**head, "groupSources": {"kueue": False}}).sources
    assert configuration_of({**head, "groupSources": ["native"]}).sources.names == {"native"}
