"""KubeSchedulerConfiguration v1: what loads, and what takes effect (scheduling.md 6)."""

from __future__ import annotations

import pytest

from kube_rules.group_sources import DEFAULT_SOURCES
from kube_rules.meta import ObjectMeta
from kube_rules.owners import Service, ServiceSpec
from reprieve.framework.configuration import ConfigurationError, duration
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import (
    BindPlugin,
    CycleState,
    FilterPlugin,
    PodGroupAttempt,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    ScorePlugin,
)
from reprieve.framework.profile import Profile
from reprieve.framework.status import Code, Status
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.scheduling.profile_remarks import remarks_on
from reprieve.scheduling.profiles import profiles_of
from reprieve.scheduling.third_party_plugins import ThirdParty
from tests.building import GPU, World, gang, group, node, pod, profile_with
from tests.scheduling.configuration_text import names, profiles, read

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


def test_file_for_bin_packing_takes_effect() -> None:
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


def test_plugin_enabled_at_one_point_does_not_run_at_others() -> None:
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
def test_point_of_groups_follows_that_of_pods_unless_it_is_named(
    points: str, of_pods: list[str], of_groups: list[str]
) -> None:
    """scheduling.md 6.4: without preemption at postFilter gangs do not evict either."""
    chosen = profiles(f"profiles: [{{plugins: {{{points}}}}}]")["default-scheduler"]
    assert (names(chosen, "post_filters"), names(chosen, "group_post_filters")) == (of_pods, of_groups)


def test_other_orders_are_tried_with_tree_search_retry() -> None:
    """scheduling.md 3.9; in the form of a file."""
    members = [pod(f"m{i}", cpu=cpu, group="crew") for i, cpu in enumerate((2, 2, 4))]
    items = [node("n1"), node("n2"), group("crew", min_count=3), *members]
    args = "pluginConfig: [{name: GangScheduling, args: {treeSearch: Retry}}]"
    assert World(*items, profiles=profiles("profiles: [{}]")).settle().where == {}
    assert len(World(*items, profiles=profiles(f"profiles: [{{{args}}}]")).settle().where) == 3


def test_without_preemption_no_pods_are_evicted_for_a_gang() -> None:
    chosen = profiles("profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]")
    world = World(node("n", cpu=1), pod("low", cpu=1, node="n"), *gang("crew", 1, cpu=1, priority=5), profiles=chosen)
    assert world.settle().evicted == []
    assert world.condition("crew")[2].endswith("first placement status: pod group is unschedulable")


class Informs(PostFilterPlugin):
    """An external plugin, from before groups had a point of their own."""

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
            [(True, "plugin Informs extends PostFilter but not PodGroupPostFilter: it is never called")],
        ),
        (profile_with(Informs()), _OFF, []),
        (profile_with(InformsOfBoth()), _ON, []),
        (
            profile_with(drop=["GangScheduling"]),
            _ON,
            [(False, "plugin GangScheduling is not enabled: a gang can start")],
        ),
        (profile_with(drop=["GangScheduling"]), _OFF, []),
        (
            profiles("profiles: [{plugins: {preEnqueue: {disabled: [{name: GangScheduling}]}}}]")["default-scheduler"],
            _ON,
            [(False, "plugin GangScheduling is not enabled at preEnqueue: a gang can start")],
        ),
    ],
    ids=["default", "pods only", "pods only, gate off", "both", "no gangs", "no gangs, gate off", "half of it"],
)
def test_remarks_about_profiles_at_start(profile: Profile, gates: FeatureGates, said: list[tuple[bool, str]]) -> None:
    """scheduling.md 6.4; KEP-5710: PostFilter alone is an error line, and a missing GangScheduling a warning."""
    found = remarks_on(profile, gates)
    assert [remark.error for remark in found] == [error for error, _ in said]
    for remark, (_, text) in zip(found, said, strict=True):
        assert remark.text.startswith(f"profile 'default-scheduler': {text}")


@pytest.mark.parametrize(
    ("stated", "zones"),
    [
        ("", ["a"]),  # the tainted zone is empty and counts, so that none may have a second pod
        ("nodeTaintsPolicy: Ignore", ["a"]),
        ("nodeTaintsPolicy: Honor", ["a", "a"]),  # it is no zone for these pods
    ],
)
def test_default_constraints_have_the_policies_that_are_stated(stated: str, zones: list[str]) -> None:
    """scheduling.md 6: as in pods, taints are ignored unless it says otherwise."""
    constraint = f"maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, {stated}"
    args = f"args: {{defaultingType: List, defaultConstraints: [{{{constraint}}}]}}"
    chosen = profiles(f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, {args}}}]}}]")
    service = Service(metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(selector={"app": "web"}))
    world = World(
        node("a", labels={"zone": "a"}),
        node("b", labels={"zone": "b"}, taints=[("kept", "", "NoSchedule")]),
        profiles=chosen,
    )
    world.engine.set(service, world.now)
    world.add(*(pod(f"p{turn}", cpu=1, labels={"app": "web"}) for turn in range(2))).settle()
    assert list(world.where.values()) == zones


@pytest.mark.parametrize(
    ("stated", "zones"),
    [("", ["a", "a"]), ("nodeAffinityPolicy: Honor", ["a", "a"]), ("nodeAffinityPolicy: Ignore", ["a"])],
)
def test_default_constraints_count_the_nodes_a_pod_selects_unless_their_policies_differ(
    stated: str, zones: list[str]
) -> None:
    """scheduling.md 6: the pods ask for zone a; whether b counts as an empty one is the policy's business."""
    constraint = f"maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, {stated}"
    args = f"args: {{defaultingType: List, defaultConstraints: [{{{constraint}}}]}}"
    chosen = profiles(f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, {args}}}]}}]")
    service = Service(metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(selector={"app": "web"}))
    world = World(node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}), profiles=chosen)
    world.engine.set(service, world.now)
    picky = [pod(f"p{turn}", cpu=1, labels={"app": "web"}, selector={"zone": "a"}) for turn in range(2)]
    assert list(world.add(*picky).settle().where.values()) == zones


def test_no_profiles_is_the_default_one() -> None:
    assert list(profiles("parallelism: 1")) == ["default-scheduler"]
    assert list(profiles("profiles: [{}]")) == ["default-scheduler"]


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
def test_text_that_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        duration(text)


def test_sources_of_a_configuration() -> None:
    """workloads.md 1.2: a map changes the defaults, a list names all."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert configuration_of(head).sources == DEFAULT_SOURCES
    assert "kueue" not in configuration_of({**head, "groupSources": {"kueue": False}}).sources
    assert configuration_of({**head, "groupSources": ["native"]}).sources.names == {"native"}


class Calls(BindPlugin, FilterPlugin, ScorePlugin):
    """Stands for the plugin that calls extenders."""

    name = "Calls"


class Binder(BindPlugin):
    name = "Binder"


@pytest.mark.parametrize(
    ("chosen", "binders"),
    [
        ("", ["Calls", "DefaultBinder"]),
        ("plugins: {bind: {enabled: [{name: Binder}]}}", ["Calls", "DefaultBinder", "Binder"]),
        (
            "plugins: {bind: {enabled: [{name: Binder}, {name: DefaultBinder}], disabled: [{name: '*'}]}}",
            ["Calls", "Binder", "DefaultBinder"],
        ),
    ],
)
def test_extenders_bind_first_and_are_called_last_otherwise(chosen: str, binders: list[str]) -> None:
    """scheduling.md 6: whether the file sets an order or not."""
    text = f"profiles: [{{pluginConfig: [], {chosen}}}]" if chosen else "profiles: [{}]"
    third = ThirdParty({"Binder": lambda _gates, _args: Binder()})
    [profile] = profiles_of(read(text), FeatureGates(), third, Calls())
    assert names(profile, "binders") == binders
    assert [plugin.name for plugin in profile.at(FilterPlugin)][-1] == "Calls"
    assert [weighted.weight for weighted in profile.scores if weighted.plugin.name == "Calls"] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "parallelism: null",
        "profiles: null",
        "extenders: null",
        "leaderElection: null",
        "leaderElection: {leaseDuration: null}",
        "clientConnection: {burst: null}",
        "profiles: [{plugins: null, pluginConfig: null, schedulerName: null}]",
        "profiles: [{plugins: {score: null}}]",
        "profiles: [{plugins: {score: {enabled: null, disabled: null}}}]",
        "profiles: [{percentageOfNodesToScore: null}]",
    ],
)
def test_explicit_null_means_absent(text: str) -> None:
    """As Go reads it, at any depth."""
    assert read(text) in (read("profiles: []"), read("profiles: [{}]"))


def test_args_are_of_one_plugin_each() -> None:
    """scheduling.md 6: `*` is no plugin, so that its args would count nowhere."""
    with pytest.raises(ConfigurationError, match="unknown plugin") as caught:
        profiles("profiles: [{pluginConfig: [{name: '*'}]}]")
    assert caught.value.path == "profiles[0].pluginConfig[0].name"
