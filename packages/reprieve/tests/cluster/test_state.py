"""The cluster cache: columns, trials, and the records beside them."""

from __future__ import annotations

import pytest

from kube_rules.meta import ObjectRef
from kube_rules.quantity import QuantityError
from reprieve.cluster.budgets import BudgetIndex, budget_of, violating
from reprieve.cluster.resources import CPU, PODS, ResourceTable, insufficient
from tests.building import World, gang, group, node, pdb, pod


def test_placing_and_displacing_are_exact_opposites() -> None:
    """`used` is the sum of what is there, in every column (the invariant of NodeColumns)."""
    world = World(node("n"), pod("p", cpu="100m", memory="1Mi", gpu=2, ports=[80]))
    state, record = world.engine.cluster, world.record("p")
    before = state.digest()
    state.place(record, world.row("n"))
    nodes = state.nodes
    assert nodes.used[CPU, 0] == 100
    assert nodes.used[PODS, 0] == 1
    assert nodes.ports[0] == {("TCP", "0.0.0.0", 80): 1}
    state.check()
    state.displace(record)
    assert state.digest() == before
    assert not nodes.used.any()


def test_trials_nest_and_undo_in_reverse() -> None:
    """scheduling.md 7: "the view after undo equals the view before, bit for bit", also when the body raises."""
    world = World(node("n1"), node("n2"), pod("a", node="n1", ports=[80]), pod("b", nominated="n2"), *gang("g", 1))
    state = world.engine.cluster
    before = state.digest()

    def experiment() -> None:
        with state.trial():
            state.displace(world.record("a"))
            inside = state.digest()
            with state.trial():
                state.place(world.record("a"), world.row("n2"))
                state.clear_nomination(world.record("b"))
                state.nominate(world.record("g-0"), world.row("n1"))
                state.place(world.record("g-0"), world.row("n1"))
                assert state.groups["default/g"].scheduled == 1
            assert state.digest() == inside
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        experiment()
    assert state.digest() == before
    assert not state.in_trial


def test_objects_cannot_change_inside_a_trial() -> None:
    """What the API says is not part of an experiment."""
    world = World(node("n"), pod("p"))
    state = world.engine.cluster
    with state.trial():
        for change in (
            lambda: state.set_node(node("m")),
            lambda: state.remove_node("n"),
            lambda: state.remove_pod(world.record("p")),
            lambda: state.set_terminating(world.record("p")),
            lambda: state.set_group(group("g")),
        ):
            with pytest.raises(RuntimeError, match="inside a trial"):
                change()


def test_pod_is_learnt_once() -> None:
    """A UID stands for one pod."""
    world = World(node("n"), pod("p"))
    with pytest.raises(ValueError, match="already known"):
        world.engine.cluster.add_pod(world.record("p"))


def test_check_finds_what_is_off() -> None:
    """The validate switch compares every derived amount."""
    for spoil in (
        lambda s: s.nodes.used.__setitem__((CPU, 0), 7),
        lambda s: setattr(s.groups["default/g"], "scheduled", 3),
        lambda s: setattr(s.groups["default/g"], "existing", 9),
        lambda s: s.nodes.pods[0].clear(),
    ):
        state = World(node("n"), pod("p", node="n"), *gang("g", 1, node="n")).engine.cluster
        state.check()
        spoil(state)
        with pytest.raises(AssertionError):
            state.check()


def test_terminating_members_stop_counting_and_keep_their_room() -> None:
    """groups: `existing` and `scheduled` are those that stay."""
    world = World(node("n", cpu=2), group("g"), pod("a", cpu=1, node="n", group="g"), pod("b", group="g"))
    state = world.engine.cluster.groups["default/g"]
    assert (state.existing, state.scheduled) == (2, 1)
    world.engine.mark_terminating("uid-a", world.now)
    world.engine.mark_terminating("uid-a", world.now)
    assert (state.existing, state.scheduled) == (1, 0)
    assert world.engine.cluster.nodes.used[CPU, 0] == 1000
    world.gone("a").gone("b")
    assert (state.existing, state.scheduled, len(state.members)) == (0, 0, 0)


def test_rows_are_reused_without_leftovers() -> None:
    """A removed node's row serves the next one, with labels, taints and amounts of its own."""
    world = World(node("old", cpu=8, gpu=4, labels={"zone": "a"}, taints=[("k", "", "NoSchedule")], unschedulable=True))
    nodes = world.engine.cluster.nodes
    assert nodes.label_column("zone")[0].tolist() == [0]
    world.engine.remove(ObjectRef("Node", "old"), world.now)
    world.add(node("new", cpu=2), pod("p", cpu=1))
    assert nodes.row_of == {"new": 0}
    assert nodes.label_column("zone")[0].tolist() == [-1]
    assert world.settle().where == {"p": "new"}


def test_removed_node_keeps_its_pods_until_they_go() -> None:
    """Its row is dead: no new pod comes; it is free again when the last pod is gone."""
    world = World(node("n"), pod("r", node="n"))
    world.engine.remove(ObjectRef("Node", "n"), world.now)
    world.add(pod("p")).drain()
    assert world.message("p") == "no nodes available to schedule pods"
    assert world.where == {"r": "n"}
    world.gone("r")
    assert world.engine.cluster.nodes.row_of == {}
    world.add(node("n")).settle()
    assert world.where == {"p": "n"}


def test_node_that_comes_back_finds_its_pods() -> None:
    """Removed and added again under the same name: what runs there still counts."""
    world = World(node("n", cpu=1), pod("r", cpu=1, node="n", priority=9), pod("p", cpu=1)).drain()
    world.engine.remove(ObjectRef("Node", "n"), world.now)
    world.add(node("n", cpu=1)).settle()
    assert world.pending == ["p"]
    world.gone("r")
    assert world.settle().where == {"p": "n"}


def test_pod_may_be_known_before_its_node() -> None:
    """Bound to a node that has not appeared yet."""
    world = World(pod("r", cpu=1, node="n"), pod("p", cpu=1), node("n", cpu=1)).settle()
    assert world.pending == ["p"]


def test_many_extended_resources() -> None:
    """New resource names get new columns; vectors made before stay valid."""
    world = World(node("n", cpu=4), pod("r", cpu=1, node="n"))
    for i in range(40):
        world.add(node(f"n{i}", more={f"example.com/r{i}": 2}), pod(f"p{i}", more={f"example.com/r{i}": 1}))
    world.settle()
    assert all(world.where[f"p{i}"] == f"n{i}" for i in range(40))
    world.engine.cluster.check()
    table = ResourceTable()
    assert [table.column("example.com/a"), table.column("example.com/a")] == [6, 6]
    assert table.vector({"cpu": 5})[CPU] == 5


@pytest.mark.parametrize("amount", [5 * 10**18, 2**63 - 1, 10**30])
def test_amounts_beyond_int64_do_not_wrap(amount: int) -> None:
    """Requests and allocatable of any size: no node is over-committed (scheduling.md 7, api.md "Quantities")."""
    huge = {"example.com/bytes": str(amount)}
    world = World(node("n", cpu=4, more=huge), pod("a", more=huge), pod("b", more=huge)).settle()
    assert world.where == {"a": "n"}
    assert world.pending == ["b"]
    full = World(node("n", cpu=4, more=huge), *[pod(f"r{i}", node="n", more=huge) for i in range(3)])
    assert full.add(pod("q", more={"example.com/bytes": 1})).settle().pending == ["q"]


def test_many_nodes() -> None:
    """Columns widen; ranks stay those of the names."""
    world = World(*[node(f"n{i:03}") for i in reversed(range(200))], pod("p"))
    ranks = world.engine.cluster.nodes.rank
    assert [int(ranks[world.row(f"n{i:03}")]) for i in (0, 1, 199)] == [0, 1, 199]
    assert world.settle().where == {"p": "n000"}


def test_quantity_that_does_not_parse_is_an_error_and_leaves_no_trace() -> None:
    """api.md: one clear error; the cache stays consistent."""
    world = World(node("n"))
    with pytest.raises(QuantityError):
        world.add(pod("bad", cpu="lots"))
    with pytest.raises(QuantityError):
        world.add(node("bad", cpu="lots"))
    world.add(pod("p", cpu=1)).settle()
    assert world.where == {"p": "n"}
    world.engine.cluster.check()


def test_identical_pods_have_one_signature() -> None:
    """scheduling.md 4: what plugins read, and nothing else: not name, labels, priority or group."""
    world = World(node("n"), pod("a", cpu=1, priority=1, labels={"x": "y"}, group="g"), pod("b", cpu="1000m"))
    assert world.record("a").signature is world.record("b").signature
    different = [
        pod("c", cpu=2),
        pod("d", cpu=1, memory=1),
        pod("e", cpu=1, ports=[80]),
        pod("f", cpu=1, selector={"a": "b"}),
        pod("g", cpu=1, gpu=1),
    ]
    world.add(*different)
    assert len({world.record(n).signature.id for n in "acdefg"}) == 6


def test_touch_log_can_be_cut() -> None:
    """A reader that stood before the cut must look at every row again."""
    state = World(node("n1"), node("n2")).engine.cluster
    log, reader = state.touched, state.changes()
    assert reader.take() is None, "a reader that looks for the first time looks at everything"
    log.entries += [1, 0, 1]
    behind = reader.copy()
    assert reader.take() == [1, 0, 1]
    assert reader.take() == []
    before = log.epoch
    log.cut(len(log.entries))
    assert log.epoch == before
    log.cut(2)
    assert (log.epoch, log.entries) == (before + 1, [])
    assert reader.take() is None
    assert behind.take() is None
    assert reader.take() == []


@pytest.mark.parametrize("what", ["a label", "a taint", "a new node", "a version of the reader's own"])
def test_reader_learns_of_changes_that_concern_every_row(what: str) -> None:
    """What is no matter of single rows makes readers start over, once."""
    world = World(node("n1"), node("n2"))
    state = world.engine.cluster
    reader, version = state.changes(), 0
    reader.take(version)
    if what == "a label":
        world.add(node("n1", labels={"disk": "fast"}))
    elif what == "a taint":
        world.add(node("n1", taints=[("a", "b", "NoSchedule")]))
    elif what == "a new node":
        world.add(node("n3"))
    else:
        version = 1
    assert reader.take(version) is None
    assert reader.take(version) == []


def test_cut_log_changes_no_decision() -> None:
    """Many events between two identical pods: the shared view starts over."""
    world = World(node("n1", cpu=2), node("n2", cpu=2), pod("a", cpu=1)).settle()
    for i in range(3000):
        world.engine.set(pod(f"x{i}", cpu=1, node="n2"), world.now)
        world.engine.remove(ObjectRef("Pod", uid=f"uid-x{i}"), world.now)
    assert world.engine.cluster.touched.epoch > 0
    assert len(world.engine.cluster.touched.entries) < 6000
    world.add(pod("y", cpu=2, node="n2"), pod("b", cpu=1)).settle()
    assert world.where["b"] == "n1"


@pytest.mark.parametrize(
    ("budgets", "units", "expected"),
    [
        ([], [["a"], ["b"]], [False, False]),
        ([pdb("x", {"app": "a"}, allowed=0)], [["a"], ["b"]], [True, False]),
        ([pdb("x", {}, allowed=1)], [["a"], ["b"]], [False, True]),
        ([pdb("x", {}, allowed=1)], [["b"], ["a"]], [False, True]),
        ([pdb("x", {}, allowed=1)], [["a", "b"]], [True]),
        ([pdb("x", {}, allowed=2)], [["a", "b"], ["c"]], [False, True]),
        # a violating unit is charged as well: the budget is empty for those after it
        ([pdb("x", {}, allowed=1)], [["a", "b"], ["c"]], [True, True]),
        ([pdb("x", nothing=True)], [["a"]], [False]),
        ([pdb("x", {}, disrupted=["a"])], [["a"], ["b"]], [False, True]),
        ([pdb("x", {}, namespace="other")], [["a"]], [False]),
        ([pdb("x", {}, allowed=9), pdb("y", {"app": "b"}, allowed=0)], [["a"], ["b"]], [False, True]),
        ([pdb("x", {}, allowed=None)], [["a"]], [True]),
    ],
)
def test_units_that_violate_a_budget(budgets: list[object], units: list[list[str]], expected: list[bool]) -> None:
    """preemption.md 6: the walk in importance order with a copy of every allowance."""
    world = World(*[pod(n, labels={"app": n}) for n in "abc"])
    found = violating([[world.record(n) for n in unit] for unit in units], BudgetIndex(budget_of(b) for b in budgets))  # type: ignore[arg-type]
    assert found == expected


@pytest.mark.parametrize(
    "selectors",
    [
        [{"app": "a"}, {"app": "b"}],
        [{"app": "a"}, {"tier": "x"}],
        [{"app": "a", "tier": "x"}, {"app": "a"}],
        [{"app": ""}, {"app": "a"}],
        [{"app": "a"}, {}],
        [],
    ],
    ids=["one label", "two labels", "more than the label", "an empty value", "the whole namespace", "none"],
)
def test_budget_is_charged_with_each_pod_that_it_counts(selectors: list[dict[str, str]]) -> None:
    """preemption.md 6, whether all budgets of a namespace ask for one label or not."""
    labels: list[dict[str, str]] = [{}, {"app": ""}, {"app": "a"}, {"app": "b", "tier": "x"}, {"app": "a", "tier": "x"}]
    pods = [
        pod(f"{namespace}-{turn}", namespace=namespace, labels=each)
        for turn, each in enumerate(labels)
        for namespace in ("default", "other")
    ]
    budgets = [budget_of(pdb(f"b{turn}", each, allowed=turn)) for turn, each in enumerate(selectors)]
    budgets.append(budget_of(pdb("elsewhere", {"app": "a"}, namespace="other", disrupted=["other-4"])))
    world = World(*pods)
    units = [[each] for each in world.engine.cluster.pods.values()]
    assert len(units) == len(pods)
    units.append([each for (each,) in units])
    index = BudgetIndex(budgets)
    assert len(index.allowed) == len(budgets)  # no two of them count the same
    for unit, charged in zip(units, index.charges(units), strict=True):
        counts = [sum(budget.counts(each) for each in unit) for budget in budgets]
        assert charged == {number: count for number, count in enumerate(counts) if count}


def test_names_of_shortages() -> None:
    """Upstream's reasons."""
    assert [insufficient(n) for n in ("cpu", "pods", "a/b")] == [
        "Insufficient cpu",
        "Too many pods",
        "Insufficient a/b",
    ]


@pytest.mark.parametrize("kinds", [1, 3, 40], ids=["alike", "of three kinds", "all unlike"])
def test_many_pods_are_moved_at_once_as_one_by_one(kinds: int) -> None:
    """`used` is the sum of what is there, whichever way many pods are counted; and undone to the bit."""
    pods = [pod(f"p{i}", node=f"n{i % 3}", cpu=f"{1 + i % kinds}m", gpu=i % kinds % 2, ports=[]) for i in range(40)]
    world = World(*(node(f"n{i}", gpu=8) for i in range(4)), *pods)
    state = world.engine.cluster
    records = [world.record(f"p{i}") for i in range(40)]
    before = state.digest()
    with state.trial():
        state.displace_all(records)
        state.check()
        assert not state.nodes.used.any()
        state.place_all(records[:30], [world.row(f"n{(i + 1) % 4}") for i in range(30)])
        state.check()
    state.check()
    assert state.digest() == before
