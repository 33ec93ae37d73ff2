"""After any history the cluster cache equals one built afresh from what holds now, and readers are notified."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from kube_rules import objects
from kube_rules.selectors import NOTHING, compile_label_selector
from reprieve.cluster.affinity_terms import Matcher
from reprieve.cluster.pods import PodRecord, record_of
from reprieve.cluster.state import ClusterState
from tests.building import annotated, composite, group, node, pdb, pod, priority_class

NAMESPACES = ("default", "other")
GROUPS = ("default/g", "default/h")
TEAM = objects.LabelSelector(match_labels={"team": "a"})
WEB = objects.LabelSelector(match_labels={"app": "web"})


def _affinity(chance: Random) -> objects.Affinity | None:
    kind = chance.randrange(5)
    if kind > 2:
        return None
    term = objects.PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=WEB,
        namespace_selector=TEAM if kind == 1 else None,
        namespaces=("other",) if kind == 2 else (),
    )
    if chance.random() < 0.5:
        return objects.Affinity(
            pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
        )
    weighted = objects.WeightedPodAffinityTerm(weight=chance.randint(1, 3), pod_affinity_term=term)
    return objects.Affinity(
        pod_affinity=objects.PodAffinity(preferred_during_scheduling_ignored_during_execution=(weighted,))
    )


@dataclass(frozen=True)
class Known:
    """What holds of one pod."""

    object: objects.Pod
    group: str | None
    node: str = ""
    nominated: str = ""
    terminating: bool = False
    due: float | None = None
    overdue: bool = False
    start: float | None = None


@dataclass
class Facts:
    """What holds now."""

    nodes: dict[str, objects.Node] = field(default_factory=dict)
    pods: dict[str, Known] = field(default_factory=dict)
    groups: dict[str, tuple[objects.PodGroup, float]] = field(default_factory=dict)
    composites: dict[str, tuple[objects.CompositePodGroup, float]] = field(default_factory=dict)
    classes: dict[str, objects.PriorityClass] = field(default_factory=dict)
    namespaces: dict[str, objects.Namespace] = field(default_factory=dict)
    budgets: dict[str, objects.PodDisruptionBudget] = field(default_factory=dict)

    def afresh(self) -> ClusterState:
        """Return a cluster cache that is built afresh now."""
        state = ClusterState()
        for each in self.namespaces.values():
            state.set_namespace(each)
        for found in self.nodes.values():
            state.set_node(found)
        for one in self.classes.values():
            state.set_class(one)
        for spec, created in self.composites.values():
            state.set_composite(spec, created=created)
        for gang, created in self.groups.values():
            state.set_group(gang, created=created)
        for known in self.pods.values():
            made = record_of(known.object, state.signatures, created=0.0, group=known.group)
            made.start = known.start
            state.add_pod(made, known.node or None)
            if known.nominated:
                state.nominate(made, state.nodes.row_for_pod(known.nominated))
            if known.terminating:
                state.set_terminating(made, due=known.due)
            if known.overdue:
                state.set_overdue(made.uid)
        for budget in self.budgets.values():
            state.set_budget(budget)
        return state


def _facts(one: PodRecord) -> tuple[Any, ...]:
    return one.uid, one.terminating, str(one.start), sorted(one.labels.items())


def by_node(state: ClusterState) -> dict[str, Any]:
    """What is read of each node."""
    nodes = state.nodes
    web = (Matcher(frozenset({"default"}), compile_label_selector(TEAM), compile_label_selector(WEB)),)
    staying = (Matcher(frozenset({"other"}), NOTHING, compile_label_selector(WEB), staying=True),)
    counts = [state.pod_affinity.counts(each) for each in (web, staying)]
    stated: dict[int, list[Any]] = {}
    for one in state.pods.values():
        terms = (*state.pod_affinity.anti_affinity_terms(one), *state.pod_affinity.scoring_terms(one))
        for term in terms:
            for row, number in term.rows.items():
                kind, _, key, weight = term.spec
                stated.setdefault(row, []).append((one.uid, kind, key, weight, str(term.spec.matcher), number))
    rows, held = nodes.nominated_amounts.held(1, 6)
    holding = dict(zip(rows.tolist(), held.T.tolist(), strict=True))
    return {
        name: (
            bool(nodes.alive[row]),
            nodes.used[:6, row].tolist(),
            sorted((nodes.ports[row] or {}).items()),
            sorted(map(_facts, nodes.pods[row].values())),
            sorted(uid for uid in nodes.pods[row] if uid in state.overdue),
            sorted(nodes.nominated.get(row, {})),
            holding.get(row),
            [int(each[row]) for each in counts],
            sorted(stated.get(row, [])),
        )
        for name, row in nodes.row_of.items()
    }


def terms(state: ClusterState) -> dict[str, Any]:
    """The terms of each pod's work, and of its class as a preemptor's."""
    return {
        **{uid: (state.terms_of(one), state.class_terms_of(one)) for uid, one in state.pods.items()},
        **{each.ref: state.class_terms_of(each) for each in _groups(state)},
        "": state.rules_of_work,
    }


def _groups(state: ClusterState) -> list[Any]:
    return [*state.groups.values(), *state.trees.composites.values()]


def units(state: ClusterState) -> dict[str, Any]:
    """Where each group stands, and what is read of it but its pods."""
    return {
        each.ref: (
            each.spec,
            (each.created, each.uid, each.owner) if each.spec is not None else None,
            (each.home, each.fault, each.top.ref),
            each.root.ref if each.root is not None else None,
            each.unit.ref if each.unit is not None else None,
        )
        for each in _groups(state)
    }


def members(state: ClusterState) -> dict[str, Any]:
    """The pods of each group."""
    return {
        each.ref: (
            (each.existing, each.scheduled, sorted(each.members)),
            each.root is not None and state.trees.is_ready(each.root),
        )
        for each in _groups(state)
    }


def elsewhere(state: ClusterState) -> dict[str, Any]:
    """The rest."""
    index = state.budget_index
    charges = index.charges([[one] for one in state.pods.values()])
    keys = {uid: state.equivalence_key(one) for uid, one in state.pods.items()}
    return {
        "pods": {
            uid: (one.group, one.row >= 0, one.nominated >= 0, state.entity_ref(one)) for uid, one in state.pods.items()
        },
        "departures": dict(state.departures),
        "departing": {key: set(there) for key, there in state.departing.items()},
        "counting": {uid: set(state.budgets_counting(one)) for uid, one in state.pods.items()},
        "charges": {
            uid: {(index.counting[number], index.allowed[number]): count for number, count in charged.items()}
            for uid, charged in zip(state.pods, charges, strict=True)
        },
        "labels": {name: dict(state.namespace_labels(name)) for name in NAMESPACES},
        "alike": {frozenset(uid for uid, key in keys.items() if key == one) for one in keys.values()},
    }


def _some_pod(chance: Random, name: str, bound_to: str) -> objects.Pod:
    labels = (("app", chance.choice(["web", "db"])), ("team", "a"))
    made = pod(
        name,
        cpu=f"{chance.choice([100, 200])}m",
        namespace=chance.choice(NAMESPACES),
        labels={key: value for key, value in labels if chance.random() < 0.6},
        ports=[80] if chance.random() < 0.3 else [],
        priority=chance.randrange(3),
        priority_class=chance.choice(["", "low", "high"]),
        affinity=_affinity(chance),
        annotations=annotated(minimum_runtime="1h") if chance.random() < 0.2 else {},
        node=bound_to,
    )
    owner = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="r", controller=True)
    if chance.random() < 0.3:
        made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=(owner,)))
    return made


class Walk:
    """One change after another, to the cluster cache and to what holds."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.state, self.facts = ClusterState(), Facts()
        self.number = 0

    def step(self) -> str:
        """One of the changes, by name."""
        names = sorted(name for name in vars(Walk) if name.startswith("change_"))
        chosen = self.chance.choice(names)
        getattr(self, chosen)()
        return chosen

    def _pod(self, placed: bool | None = None) -> tuple[PodRecord, Known] | None:
        some = [
            uid
            for uid, known in self.facts.pods.items()
            if placed is None or (bool(known.node) is placed and (placed or not known.terminating))
        ]
        if not some:
            return None
        uid = self.chance.choice(sorted(some))
        return self.state.pods[uid], self.facts.pods[uid]

    def _node(self) -> str:
        return self.chance.choice(sorted(self.facts.nodes)) if self.facts.nodes else ""

    def change_node(self) -> None:
        labels = {"zone": self.chance.choice("ab")}
        made = node(f"n{self.chance.randrange(4)}", cpu=self.chance.randint(1, 4), labels=labels)
        before = self.facts.nodes.get(made.metadata.name)
        assert self.state.set_node(made) is (before != made)
        self.facts.nodes[made.metadata.name] = made

    def change_node_gone(self) -> None:
        name = f"n{self.chance.randrange(4)}"
        assert self.state.remove_node(name) is (self.facts.nodes.pop(name, None) is not None)

    def change_pod_comes(self) -> None:
        self._comes()

    def change_pod_comes_too(self) -> None:
        self._comes()

    def _comes(self) -> None:
        self.number += 1
        where = self._node() if self.chance.random() < 0.6 else ""
        made = _some_pod(self.chance, f"p{self.number}", where)
        key = self.chance.choice([*GROUPS, None]) if made.metadata.namespace == "default" else None
        known = Known(made, key, where)
        one = record_of(made, self.state.signatures, created=0.0, group=key)
        if where and self.chance.random() < 0.5:  # assumed, not bound
            self.state.add_pod(one)
            self.state.place(one, self.state.nodes.row_of[where])
        else:
            self.state.add_pod(one, where or None)
        self.facts.pods[one.uid] = known

    def change_pod_goes(self) -> None:
        found = self._pod()
        if found is not None:
            self.state.remove_pod(found[0])
            self.state.remove_pod(found[0])  # heard twice
            del self.facts.pods[found[0].uid]

    def change_pod_moves(self) -> None:
        found = self._pod(placed=True)
        if found is not None:
            one, known = found
            self.state.displace(one)
            where = self._node()
            if where and not known.terminating:
                self.state.place(one, self.state.nodes.row_of[where])
            else:
                self.state.remove_pod(one)
                del self.facts.pods[one.uid]
                return
            self.facts.pods[one.uid] = replace(known, node=where)

    def change_nomination(self) -> None:
        found, where = self._pod(placed=False), self._node()
        if found is not None:
            one, known = found
            if where and self.chance.random() < 0.7:
                self.state.nominate(one, self.state.nodes.row_of[where])
            else:
                where = ""
                self.state.clear_nomination(one)
            self.facts.pods[one.uid] = replace(known, nominated=where)

    def change_departure(self) -> None:
        found = self._pod(placed=True)
        if found is not None:
            one, known = found
            due = self.chance.choice([None, 5.0, 9.0])
            self.state.set_terminating(one, due=due)
            self.facts.pods[one.uid] = replace(known, terminating=True, due=due)

    def change_overdue(self) -> None:
        found = self._pod(placed=True)
        if found is not None and found[1].terminating:
            self.state.set_overdue(found[0].uid)
            self.facts.pods[found[0].uid] = replace(found[1], overdue=True)
        self.state.set_overdue("nobody")

    def change_of_pod(self) -> None:
        found = self._pod()
        if found is None:
            return
        one, known = found
        other = _some_pod(self.chance, one.name, known.node)
        meta = msgspec.structs.replace(known.object.metadata, labels=other.metadata.labels)
        spec = known.object.spec
        spec = msgspec.structs.replace(spec, affinity=other.spec.affinity, containers=other.spec.containers)
        made = msgspec.structs.replace(known.object, metadata=meta, spec=spec)
        start = self.chance.choice([None, 3.0])
        signature = self.state.signatures.intern(made)
        self.state.change_pod(one, signature=signature, labels=meta.labels, start=start)
        self.facts.pods[one.uid] = replace(known, object=made, start=start)

    def change_of_terms(self) -> None:
        found = self._pod()
        if found is not None:
            one, known = found
            notes = self.chance.choice([{}, annotated(minimum_runtime="2h"), annotated(restart_cost="30m")])
            meta = msgspec.structs.replace(known.object.metadata, annotations=notes)
            made = msgspec.structs.replace(known.object, metadata=meta)
            fresh = record_of(made, self.state.signatures, created=0.0)
            self.state.set_terms(one, fresh.terms)
            self.facts.pods[one.uid] = replace(known, object=made)

    def change_of_group(self) -> None:
        found = self._pod()
        if found is not None and found[0].namespace == "default":
            key = self.chance.choice([*GROUPS, None])
            self.state.regroup(found[0], key)
            self.facts.pods[found[0].uid] = replace(found[1], group=key)

    def change_group(self) -> None:
        key = self.chance.choice(GROUPS)
        spec = group(
            key.split("/")[1],
            min_count=self.chance.choice([None, 1, 2]),
            whole=self.chance.random() < 0.3,
            parent=self.chance.choice(["", "top", "mid"]),
            priority_class=self.chance.choice(["", "low"]),
            annotations=self.chance.choice([{}, annotated(minimum_runtime="1h"), annotated(restart_cost="30m")]),
        )
        created = float(self.chance.randrange(3))
        state = self.state.set_group(spec, created=created)
        assert (state.key, state.spec is not None) == (key, True)
        self.facts.groups[key] = spec, created

    def change_group_gone(self) -> None:
        key = self.chance.choice(GROUPS)
        there = self.facts.groups.pop(key, None) is not None
        assert (self.state.remove_group(key) is not None) is there

    def change_composite(self) -> None:
        name = self.chance.choice(["top", "mid"])
        spec = composite(
            name,
            min_groups=self.chance.choice([None, 1, 2]),
            whole=self.chance.random() < 0.3,
            parent="top" if name == "mid" and self.chance.random() < 0.7 else "",
        )
        created = float(self.chance.randrange(3))
        assert self.state.set_composite(spec, created=created).key == f"default/{name}"
        self.facts.composites[name] = spec, created

    def change_composite_gone(self) -> None:
        name = self.chance.choice(["top", "mid"])
        there = self.facts.composites.pop(name, None) is not None
        assert (self.state.remove_composite(f"default/{name}") is not None) is there

    def change_class(self) -> None:
        name = self.chance.choice(["low", "high"])
        notes = [{}, annotated(minimum_runtime="1h"), annotated(restart_cost="30m"), annotated(pdb_policy="Respect")]
        made = priority_class(name, 1, self.chance.choice(notes))
        before = self.facts.classes.get(name)
        changed = self.state.set_class(made)
        assert not (changed and before == made)
        self.facts.classes[name] = made

    def change_class_gone(self) -> None:
        name = self.chance.choice(["low", "high"])
        before = self.facts.classes.pop(name, None)
        assert self.state.remove_class(name) is bool(before is not None and before.metadata.annotations)

    def change_namespace(self) -> None:
        name = self.chance.choice(NAMESPACES)
        labels = self.chance.choice([{}, {"team": "a"}, {"team": "b"}])
        made = objects.Namespace(metadata=objects.ObjectMeta(name=name, labels=labels))
        before = self.facts.namespaces.get(name)
        assert self.state.set_namespace(made) is ((before.metadata.labels if before is not None else {}) != labels)
        self.facts.namespaces[name] = made

    def change_namespace_gone(self) -> None:
        name = self.chance.choice(NAMESPACES)
        before = self.facts.namespaces.pop(name, None)
        assert self.state.remove_namespace(name) is bool(before is not None and before.metadata.labels)

    def change_budget(self) -> None:
        name = f"b{self.chance.randrange(3)}"
        labels = self.chance.choice([{"app": "web"}, {"team": "a"}, {}])
        made = pdb(name, labels, allowed=self.chance.randrange(3), namespace=self.chance.choice(NAMESPACES))
        key = f"{made.metadata.namespace}/{name}"
        self.state.set_budget(made)
        self.facts.budgets[key] = made

    def change_budget_gone(self) -> None:
        key = f"{self.chance.choice(NAMESPACES)}/b{self.chance.randrange(3)}"
        self.state.remove_budget(key)
        self.facts.budgets.pop(key, None)


def _specs(state: ClusterState) -> dict[str, Any]:
    return {each.ref: each.spec for each in _groups(state)}


@pytest.mark.parametrize("seed", range(16))
def test_picture_is_the_one_that_is_learnt_afresh(seed: int) -> None:
    """After any history of nodes, pods, groups, classes, namespaces and budgets: nothing is forgotten, nothing left."""
    walk = Walk(seed)
    state = walk.state
    reader = state.changes()
    reader.take()
    now, said_now, specs_now, charges_now = by_node(state), terms(state), _specs(state), elsewhere(state)["charges"]
    for turn in range(75):
        nodes, said_of, specs, charges = now, said_now, specs_now, charges_now
        before = (state.terms_version, state.groups_version, state.budgets_version)
        what = walk.step()
        state.check()
        touched, now, said_now, specs_now = reader.take(), by_node(state), terms(state), _specs(state)
        charges_now = elsewhere(state)["charges"]
        if touched is not None and "namespace" not in what:
            changed = {state.nodes.row_of[name] for name in now if now[name][:7] != nodes.get(name, ())[:7]}
            assert changed <= set(touched), what
        after = (state.terms_version, state.groups_version, state.budgets_version)
        assert all(old <= new for old, new in zip(before, after, strict=True)), what
        for name, each in said_now.items():
            if name in said_of and said_of[name] != each and not what.startswith("change_pod"):
                assert before[:2] != after[:2], what
        if "group" in what and specs != specs_now:
            assert before[1] < after[1], what
        if what == "change_budget" and charges != charges_now:
            assert before[2] < after[2], what
        if turn % 5 == 4:
            fresh = walk.facts.afresh()
            alive = {name: each for name, each in now.items() if each[0]}
            assert alive == {name: each for name, each in by_node(fresh).items() if each[0]}, what
            assert terms(state) == terms(fresh), what
            assert units(state) == units(fresh), what
            assert members(state) == members(fresh), what
            mine, theirs = elsewhere(state), elsewhere(fresh)
            for name, each in mine.items():
                assert each == theirs[name], (name, what)


def test_when_all_have_gone_nothing_is_left() -> None:
    """A cluster that runs for months does not grow."""
    walk = Walk(99)
    for _ in range(150):
        walk.step()
    state = walk.state
    for one in list(state.pods.values()):
        state.remove_pod(one)
    for name in list(walk.facts.nodes):
        state.remove_node(name)
    for key in GROUPS:
        state.remove_group(key)
    for name in ("top", "mid"):
        state.remove_composite(f"default/{name}")
    for name in ("low", "high"):
        state.remove_class(name)
    for key in list(walk.facts.budgets):
        state.remove_budget(key)
    for name in NAMESPACES:
        state.remove_namespace(name)
    state.check()
    left: tuple[Any, ...] = (state.pods, state.groups, state.trees, state.classes, state.budgets, state.namespaces)
    left += (state.departures, state.departing, state.overdue, state.doomed, state.rules_of_work)
    left += (state.nodes.row_of, state.nodes.nominated, state.devices.claims, state.volumes.users)
    assert not any(left), left
    assert state.pod_affinity.sizes() == {**state.pod_affinity.sizes(), "label_classes": 0, "affinity_terms": 0}
    assert not np.any(state.nodes.used)
