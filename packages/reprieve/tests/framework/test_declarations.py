"""What is taken of a plugin that says nothing of itself, and what the small types of the framework mean.

docs/plugins.md: a plugin that derives from a point and implements only what the point asks for is called each time for
everything, and decides nothing at other points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from reprieve.cluster.pods import NO_ROW
from reprieve.framework import configuration, plugin
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.events import EventKind, always
from reprieve.framework.extenders import CandidatePlugin, VictimsOn
from reprieve.framework.instructions import CallExtender, CreateObject, DeleteObject, PatchObject
from reprieve.framework.plugin import (
    BindPlugin,
    CycleState,
    FilterPlugin,
    PermitPlugin,
    PerNodeFilter,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupAttempt,
    PostBindPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
    TieBreaker,
    row_count,
    row_numbers,
)
from reprieve.framework.preemption_cost import PreemptionCost
from reprieve.framework.status import (
    FITS,
    SUCCESS,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Code,
    PlacementError,
    PluginError,
    Status,
    call_plugin,
    named,
)
from tests.building import World, group, node, pod
from tests.scheduling.plugins_for_tests import OnlyNamed

SAID: list[tuple[type[Any], Mapping[str, Any]]] = [
    (Plugin, {"name": "", "blocking": False, "args_type": None}),
    (PreEnqueuePlugin, {"concerns_group": False}),
    (
        FilterPlugin,
        {
            "scope": Scope.CLUSTER,
            "by_amounts": False,
            "checks_everything": False,
            "by_node_constraints": False,
            "incremental": False,
            "outside": False,
        },
    ),
    (ScorePlugin, {"scope": Scope.CLUSTER, "by_amounts": False, "by_node_constraints": False, "normalizes": False}),
    (PlacementScorePlugin, {"by_count": False}),
    (PlacementFeasiblePlugin, {"retries_orders": False}),
    (PodGroupAttempt, {"placements": None, "constrained_below": False, "preemption_under_way": False}),
    (
        PreemptionCost,
        {"text": "", "measure": "", "timeless": False, "by_terms": True, "by_itself": False, "by_gang": False},
    ),
]


@pytest.mark.parametrize(("kind", "said"), SAID, ids=[kind.__name__ for kind, _ in SAID])
def test_plugin_that_declares_nothing_is_always_called(kind: type[Any], said: Mapping[str, Any]) -> None:
    """scheduling.md 4 and 5: sharing, skipping and short cuts are for plugins that say that they allow it."""
    made = kind()
    assert {name: getattr(made, name) for name in said} == said
    if isinstance(made, Plugin):
        assert dict(made.events()) == dict.fromkeys(EventKind, always)
    else:
        assert made.choices_below(None) == ()


def test_plugin_without_an_answer_blocks_no_pods() -> None:
    """scheduling.md 5.3: what a point's methods answer until a plugin says something else."""
    world = World(node("n"), pod("p"), group("g", min_count=1))
    state, record, some = world.state("p"), world.record("p"), np.array([3, 1], dtype=np.int64)
    cluster, team = world.engine.cluster, world.engine.cluster.groups["default/g"]
    filtering, scoring, placing = FilterPlugin(), ScorePlugin(), PlacementScorePlugin()
    assert filtering.pre_filter(state) is SUCCESS
    assert filtering.concerns(state) is True
    assert filtering.narrowed(state) is None
    assert filtering.local(state) is False
    assert filtering.likeness(state) is None
    assert filtering.add_pod(state, record, 0) is True
    assert filtering.remove_pod(state, record, 0) is True
    assert filtering.incremental_filter([state], [0]) is None
    assert scoring.pre_score(state) is True
    assert scoring.normalize(state, some) is some
    assert ReservePlugin().reserve(state, 0) is SUCCESS
    assert ReservePlugin().give_up(state, 0) == ()
    assert PermitPlugin().permit(state, 0) is SUCCESS
    assert PreBindPlugin().pre_bind(state, 0) == ()
    assert BindPlugin().bind(state, 0) is None
    assert PlacementGeneratePlugin().generate(cluster, team) is None
    assert placing.normalize_placements([3, 1]) == [3, 1]
    assert PlacementFeasiblePlugin().feasible(team, scheduled=0, remaining=0) is SUCCESS
    assert PodGroupAttempt().choices_below(None) == ()
    assert CandidatePlugin().judges_candidates(state) is False
    assert TieBreaker().narrow(some) is some
    assert dict(Plugin().events()) == dict.fromkeys(EventKind, always)
    ReservePlugin().unreserve(state, 0)
    PostBindPlugin().post_bind(state, 0)


def test_filter_that_skips_a_pod_is_not_concerned_with_it() -> None:
    """scheduling.md 4.2: by default `pre_filter` says whether there is anything to say."""
    world, status = World(node("n"), pod("p")), [SUCCESS]

    class Says(FilterPlugin):
        def pre_filter(self, state: CycleState) -> Status:
            return status[0]

    said = {}
    for code in Code:
        status[0] = Status(code)
        said[code.name] = Says().concerns(world.state("p"))
    assert said == {name: name != "SKIP" for name in Code.__members__}


def test_attempt_begins_with_nothing() -> None:
    """No group, no nomination, no preemption, nothing kept, unless the cycle says so."""
    world = World(node("n"), pod("p"))
    state = CycleState(world.engine.cluster, world.record("p"))
    assert (state.group, state.nominated, state.preemption_under_way, state.data) == (None, NO_ROW, False, {})
    assert state.signature is world.record("p").signature
    told = CycleState(world.engine.cluster, world.record("p"), nominated=0, preemption_under_way=True)
    assert (told.nominated, told.preemption_under_way) == (0, True)


def test_instruction_fields_left_out_ask_for_nothing() -> None:
    """A patch is a merge patch of the object itself and may meet any object of the name."""
    patch = call_plugin("Mine", "PreBind", PatchObject, "Pod", "default", "p", {})
    assert (patch.subresource, patch.uid, patch.resource_version, patch.strategic, patch.again) == (
        "",
        "",
        "",
        False,
        None,
    )
    delete = DeleteObject("Pod", "default", "p")
    assert (delete.uid, delete.finalizer) == ("", "")
    assert CallExtender("http://e", {}, 1.0).ignorable is False
    asked = PatchObject("Pod", "default", "p", {}, again=lambda _found: True)
    assert asked == patch  # the callback is no part of equality
    assert CreateObject("Pod", "default", {}) == CreateObject("Pod", "default", {})


def test_post_filter_answer_without_nodes_changes_nothing() -> None:
    """A nomination stays, nothing is written, and others are asked."""
    result = PostFilterResult(Status(Code.UNSCHEDULABLE))
    assert (result.proposal, result.clear_nomination, result.deferred_writes, result.deferral, result.unhelpful) == (
        None,
        False,
        (),
        None,
        None,
    )
    assert VictimsOn(()).violations == 0


def test_codes_of_nodes_and_of_steps_agree() -> None:
    """What PreFilter rejects as a whole is written down for every node (upstream's fwk.Code: 0 is success)."""
    assert (FITS, UNSCHEDULABLE, UNRESOLVABLE) == (0, 1, 2)
    assert [int(code) for code in (Code.SUCCESS, Code.UNSCHEDULABLE, Code.UNRESOLVABLE)] == [0, 1, 2]
    assert len(set(Code)) == len(Code.__members__) == 6
    assert [code.name for code in Code if Status(code).ok] == ["SUCCESS"]
    assert len(Scope.__members__) == len(set(Scope)) == 3
    assert SUCCESS.ok
    assert (SUCCESS.reason, SUCCESS.plugin) == ("", "")


class _SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("no"), "running Filter plugin 'Mine': ValueError: no"),
        (KeyError("no"), "running Filter plugin 'Mine': KeyError: 'no'"),
        (_SpeechlessError(), "running Filter plugin 'Mine': _SpeechlessError: (its text cannot be made: RuntimeError)"),
    ],
)
def test_plugin_error_is_reported_with_its_name_and_point(raised: Exception, text: str) -> None:
    """scheduling.md 5.4; upstream's `running %q filter plugin %q`."""

    def raises() -> None:
        raise raised

    with pytest.raises(PluginError) as caught:
        call_plugin("Mine", "Filter", raises)
    assert str(caught.value) == text
    assert (caught.value.plugin, caught.value.point, caught.value.__cause__) == ("Mine", "Filter", raised)


@pytest.mark.parametrize("answer", [PluginError("Other", "Score", ValueError("x")), PlacementError("two domains")])
def test_answers_of_the_right_type_pass(answer: Exception) -> None:
    """The first error that names its cause counts, and a group without a right placement is no plugin's fault."""

    def raises() -> None:
        raise answer

    with pytest.raises(type(answer)) as caught:
        call_plugin("Mine", "Filter", raises)
    assert caught.value is answer


def test_call_gets_its_arguments_and_gives_its_answer() -> None:
    assert call_plugin("Mine", "Score", divmod, 7, 2) == (3, 1)
    assert call_plugin("Mine", "Score", dict, a=1) == {"a": 1}
    assert named(ValueError("x")) == "ValueError: x"


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (slice(0, 3), [0, 1, 2]),
        (slice(1, 99), [1, 2]),
        (slice(None), [0, 1, 2]),
        (slice(2, 2), []),
        (np.array([2, 0], dtype=np.int64), [2, 0]),
        (np.array([], dtype=np.int64), []),
    ],
)
def test_rows_as_a_slice_and_as_numbers(rows: plugin.Rows, numbers: list[int]) -> None:
    """docs/plugins.md, "What a plugin sees": a slice ends with the rows that there are."""
    cluster = World(node("a"), node("b"), node("c")).engine.cluster
    assert row_numbers(cluster, rows) == numbers
    assert all(type(row) is int for row in row_numbers(cluster, rows))
    assert row_count(cluster, rows) == len(numbers)


class _Split(PerNodeFilter):
    """Rejects some nodes for one reason and some for another."""

    name = "Split"

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        return {"a": ("first", True), "b": None, "c": ("second", False), "d": ("first", False)}[
            state.cluster.nodes.names[row]
        ]


def test_reasons_of_one_node_at_a_time_are_gathered_by_text() -> None:
    """docs/plugins.md: None, or (reason, whether evictions may help)."""
    world = World(*[node(name) for name in "abcd"], pod("p"))
    state, everything = world.state("p"), slice(0, 4)
    codes = _Split().filter(state, everything)
    assert codes.tolist() == [UNSCHEDULABLE, FITS, UNRESOLVABLE, UNRESOLVABLE]
    assert codes.dtype == np.int8
    assert [(text, mask.tolist()) for text, mask in _Split().reasons(state, everything)] == [
        ("first", [True, False, False, True]),
        ("second", [False, False, True, False]),
    ]
    assert _Split().reasons(state, np.array([1], dtype=np.int64)) == []
    assert _Split().fits(state, everything).tolist() == [False, True, False, False]


class _Args(msgspec.Struct, forbid_unknown_fields=True):
    size: int = 1


class _Takes(Plugin):
    args_type = _Args

    def __init__(self, args: _Args) -> None:
        self.args = args


def test_args_are_converted_to_the_type_that_a_plugin_declares() -> None:
    """docs/plugins.md, "In a configuration file"; one that takes none says so."""
    assert _Takes.configured({"size": 3}).args == _Args(3)
    assert _Takes.configured({}).args == _Args()
    with pytest.raises(ConfigurationError, match=r'^sizes: unknown field, did you mean "size"\?$'):
        _Takes.configured({"sizes": 3})
    assert isinstance(Plugin.configured({}), Plugin)
    with pytest.raises(ConfigurationError, match=r"^this plugin takes no args$"):
        OnlyNamed.configured({"size": 3})


EVERYTHING_SAID = {
    "apiVersion": configuration.API_VERSION,
    "kind": configuration.KIND,
    "profiles": [
        {
            "plugins": {"filter": {"enabled": [{"name": "NodeName"}], "disabled": [{"name": "NodePorts"}]}},
            "pluginConfig": [{"name": "NodeName"}],
        }
    ],
    "extenders": [{"urlPrefix": "u", "tlsConfig": {}, "managedResources": [{"name": "example.com/x"}]}],
}


def parts(value: Any) -> list[msgspec.Struct]:
    """A part of a configuration and all below it."""
    if isinstance(value, msgspec.Struct):
        return [value, *(one for name in value.__struct_fields__ for one in parts(getattr(value, name)))]
    return [one for item in value for one in parts(item)] if isinstance(value, tuple) else []


def test_configuration_that_was_read_stays_as_it_is() -> None:
    """All running profiles share it: its parts cannot be changed, and are made by the names in the file alone."""
    found = parts(configuration_of(EVERYTHING_SAID))
    kinds = {type(part) for part in found}
    written = {
        kind for kind in vars(configuration).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    assert {kind.__name__ for kind in written - kinds} == {"_Part"}
    for part in found:
        for name in part.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(part, name, None)
        with pytest.raises(TypeError):
            type(part)("x")
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert({**msgspec.to_builtins(part), "x": 1}, type(part))


def test_configuration_parts_left_out_are_empty() -> None:
    """No weight, nothing managed alone, no check of a certificate left out."""
    found = configuration_of(EVERYTHING_SAID)
    (profile,), (extender,) = found.profiles, found.extenders
    assert (profile.plugins.filter.enabled[0].weight, profile.plugins.filter.disabled[0].weight) == (0, 0)
    assert extender.managed_resources[0].ignored_by_scheduler is False
    assert extender.tls_config is not None
    assert extender.tls_config.insecure is False
    assert (extender.enable_https, extender.node_cache_capable, extender.ignorable) == (False, False, False)
    assert (found.client_connection.qps, found.client_connection.burst, found.leader_election.leader_elect) == (
        None,
        None,
        True,
    )
    points = dict(profile.plugins.points())
    assert len(points) == 16
    assert "multiPoint" not in points


def test_configuration_error_names_the_path_where_it_has_one() -> None:
    assert str(ConfigurationError("profiles[0]", "no")) == "profiles[0]: no"
    assert str(ConfigurationError("", "no")) == "no"
