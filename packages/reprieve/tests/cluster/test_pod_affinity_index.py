"""Pods as selectors of others see them: terms as they are compiled, what is counted, and when it starts over."""

from __future__ import annotations

import random
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from kube_rules import objects
from kube_rules.selectors import EXISTS, IN, NOT_IN, NOTHING, Requirement, Selector, compile_label_selector
from reprieve.cluster.affinity_terms import (
    AffinityTerms,
    Matcher,
    TermKind,
    TermSpec,
    affinity_terms,
    merged_with_keys,
)
from reprieve.cluster.label_classes import ExistingTerm, LabelClass, MatchCounts
from reprieve.cluster.label_index import LabelIndex, SelectorIndex
from reprieve.cluster.pods import PodRecord, record_of
from reprieve.cluster.state import ClusterState
from tests.building import node, pod

WEB = objects.LabelSelector(match_labels={"app": "web"})
HOST, ZONE = "kubernetes.io/hostname", "zone"


def selecting(labels: dict[str, str] | None) -> Selector:
    """The selector of some labels; None: nothing."""
    return compile_label_selector(objects.LabelSelector(match_labels=labels) if labels is not None else None)


def term(key: str = HOST, selector: objects.LabelSelector | None = WEB, **more: Any) -> objects.PodAffinityTerm:
    """A term."""
    return objects.PodAffinityTerm(topology_key=key, label_selector=selector, **more)


def affinity(**lists: tuple[Any, ...]) -> objects.Affinity:
    """`required`, `preferred` and their `anti_` counterparts: terms, or (weight, term)."""

    def weighted(entries: tuple[Any, ...]) -> tuple[objects.WeightedPodAffinityTerm, ...]:
        return tuple(objects.WeightedPodAffinityTerm(weight=w, pod_affinity_term=t) for w, t in entries)

    return objects.Affinity(
        pod_affinity=objects.PodAffinity(
            required_during_scheduling_ignored_during_execution=lists.get("required", ()),
            preferred_during_scheduling_ignored_during_execution=weighted(lists.get("preferred", ())),
        ),
        pod_anti_affinity=objects.PodAntiAffinity(
            required_during_scheduling_ignored_during_execution=lists.get("anti_required", ()),
            preferred_during_scheduling_ignored_during_execution=weighted(lists.get("anti_preferred", ())),
        ),
    )


# -- terms ------------------------------------------------------------------------------------------------------------


def test_terms_of_a_pod_in_the_order_of_its_spec() -> None:
    """Each list by itself; required ones have no weight."""
    made = affinity(
        required=(term("a"),),
        preferred=((3, term("b")),),
        anti_required=(term("c"), term("d")),
        anti_preferred=((5, term("e")),),
    )
    found = affinity_terms(made, "default", {})
    assert [(spec.kind, spec.topology_key, spec.weight) for spec in found.specs] == [
        (TermKind.REQUIRED_AFFINITY, "a", 0),
        (TermKind.PREFERRED_AFFINITY, "b", 3),
        (TermKind.REQUIRED_ANTI_AFFINITY, "c", 0),
        (TermKind.REQUIRED_ANTI_AFFINITY, "d", 0),
        (TermKind.PREFERRED_ANTI_AFFINITY, "e", 5),
    ]
    assert [spec.topology_key for spec in found.of(TermKind.REQUIRED_ANTI_AFFINITY)] == ["c", "d"]
    assert [int(kind) for kind in TermKind] == [0, 1, 2, 3]
    only = objects.Affinity(pod_anti_affinity=made.pod_anti_affinity)
    assert len(affinity_terms(only, "default", {}).specs) == 3
    assert affinity_terms(None, "default", {}) == affinity_terms(objects.Affinity(), "default", {}) == AffinityTerms()


NAMESPACES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("neither", {}, {"own"}),
    ("names", {"namespaces": ("a", "b")}, {"a", "b"}),
    ("labels", {"namespace_selector": objects.LabelSelector(match_labels={"team": "x"})}, {"b", "own"}),
    (
        "names and labels",
        {"namespaces": ("a",), "namespace_selector": objects.LabelSelector(match_labels={"team": "x"})},
        {"a", "b", "own"},
    ),
    ("an empty selector", {"namespace_selector": objects.LabelSelector()}, {"a", "b", "own"}),
]


@pytest.mark.parametrize(("more", "meant"), [n[1:] for n in NAMESPACES], ids=[n[0] for n in NAMESPACES])
def test_which_namespaces_a_term_means(more: dict[str, Any], meant: set[str]) -> None:
    """GetAffinityTerms: none named is the pod's own, an empty namespace selector is every one."""
    (spec,) = affinity_terms(affinity(required=(term(**more),)), "own", {}).specs
    labels: dict[str, dict[str, str]] = {"a": {}, "b": {"team": "x"}, "own": {"team": "x"}}
    accepted = {name for name in labels if spec.matcher.accepts(name, labels[name], {"app": "web"}, terminating=False)}
    assert accepted == meant
    assert not any(spec.matcher.accepts(name, labels[name], {"app": "db"}, terminating=False) for name in labels)


def test_terminating_pods_count_unless_only_those_that_stay_do() -> None:
    """topologySpreadConstraints count pods that stay; affinity counts all."""
    for staying, terminating, meant in (
        (False, False, True),
        (False, True, True),
        (True, False, True),
        (True, True, False),
    ):
        matcher = Matcher(frozenset({"n"}), NOTHING, selecting({"app": "web"}), staying=staying)
        assert matcher.accepts("n", {}, {"app": "web"}, terminating=terminating) is meant
    assert not Matcher(frozenset({"n"}), NOTHING, selecting(None)).accepts("n", {}, {"app": "web"}, terminating=False)
    assert Matcher(frozenset({"n"}), NOTHING, selecting({})).staying is False


MERGED: list[tuple[dict[str, str] | None, list[str], list[str], list[tuple[str, str, str]]]] = [
    ({"app": "web"}, [], [], [("app", IN, "web")]),
    ({"app": "web"}, ["hash"], [], [("app", IN, "web"), ("hash", IN, "5")]),
    ({"app": "web"}, [], ["hash"], [("app", IN, "web"), ("hash", NOT_IN, "5")]),
    ({"app": "web"}, ["hash", "tier"], ["zone"], [("app", IN, "web"), ("hash", IN, "5"), ("tier", IN, "x")]),
    ({"hash": "5"}, ["hash"], [], [("hash", IN, "5")]),
    ({"hash": "5"}, [], ["hash"], [("hash", IN, "5"), ("hash", NOT_IN, "5")]),
    ({}, ["hash"], [], [("hash", IN, "5")]),
    (None, ["hash"], [], []),
]


@pytest.mark.parametrize(("labels", "match", "mismatch", "asks"), MERGED)
def test_label_keys_add_the_pod_s_own_values(
    labels: dict[str, str] | None, match: list[str], mismatch: list[str], asks: list[tuple[str, str, str]]
) -> None:
    """KEP-3633: keys the pod has no label for add nothing, nor does one that the API server has merged already."""
    found = merged_with_keys(selecting(labels), match, mismatch, {"hash": "5", "tier": "x"})
    assert [(one.key, one.operator, *one.values) for one in found.requirements] == asks
    assert found.nothing is (labels is None)


# -- what is counted --------------------------------------------------------------------------------------------------


def _spec(key: str = HOST) -> TermSpec:
    return TermSpec(TermKind.REQUIRED_ANTI_AFFINITY, Matcher(frozenset({"n"}), NOTHING, selecting({})), key)


@pytest.mark.parametrize("seed", range(4))
def test_placed_pods_are_counted_by_row(seed: int) -> None:
    """One pod, several on a row, on many rows, none again; as an array only where that is worth it."""
    chance = Random(seed)
    existing, one = ExistingTerm(_spec()), LabelClass(1, "n", {}, terminating=False)
    plain: dict[int, int] = {}
    rows = 40
    for turn in range(400):
        row = chance.randrange(rows)
        leaves = plain.get(row, 0) > 0 and chance.random() < (0.35 if turn % 200 < 100 else 0.9)
        if leaves or (turn % 200 < 100):
            by = -1 if leaves else 1
            plain[row] = plain.get(row, 0) + by
            if not plain[row]:
                del plain[row]
            existing.move(row, by)
            one.move(row, by)
        assert dict(existing.rows) == dict(one.rows) == plain
        assert existing.anywhere is one.anywhere is bool(plain)
        counts = existing.counts(rows)
        if counts is not None:
            assert len(counts) == rows
            assert {int(row): int(counts[row]) for row in np.flatnonzero(counts)} == plain
        if turn % 50 == 49:
            rows += 7
    one.nowhere()
    assert (dict(one.rows), one.anywhere) == ({}, False)


def test_counts_are_an_array_where_a_sixteenth_of_the_rows_has_some() -> None:
    """And until a thirty-second has; a row beyond the array is counted as well."""
    existing = ExistingTerm(_spec())
    for row in range(4):
        existing.move(row, 1)
    assert existing.counts(65) is None
    assert existing.counts(64) is not None
    assert existing.counts(128) is not None, "it is there, and kept for as many rows again"
    assert existing.counts(129) is None
    assert existing.counts(64) is not None
    existing.move(70, 2)
    counts = existing.counts(71)
    assert counts is not None
    assert (counts[70], counts[:4].tolist(), int(counts.sum())) == (2, [1] * 4, 6)


def test_match_counts_grow_with_the_rows() -> None:
    """A row that was not there when they were made."""
    matched = MatchCounts((), 2)
    matched.add(1, 1)
    matched.add(2, 1)
    assert matched.counts.tolist() == [0, 1, 1, 0]
    matched.add(9, 2)
    assert (len(matched.counts), matched.counts[9], int(matched.counts.sum())) == (10, 2, 4)
    empty = MatchCounts((), 0)
    empty.add(0, 1)
    assert empty.counts.tolist() == [1]


def test_terms_of_a_label_class_are_kept_up_to_a_number() -> None:
    """One by one; 64 different affinities of pods with the same labels, then they are compiled again."""
    one = LabelClass(1, "n", {}, terminating=False)
    kept = [AffinityTerms((_spec(str(number)),)) for number in range(70)]
    assert one.terms(0) is None
    one.keep_terms(0, kept[0])
    assert (one.terms(0), one.terms(1)) == (kept[0], None)
    for number in range(1, 64):
        one.keep_terms(number, kept[number])
    assert [one.terms(number) for number in range(64)] == kept[:64]
    one.keep_terms(64, kept[64])
    assert (one.terms(64), one.terms(0), one.terms(63)) == (kept[64], None, None)
    memo = one.memo
    memo["plugin"] = 1
    assert one.memo is memo


def _record(state: ClusterState, name: str, labels: dict[str, str], **more: Any) -> PodRecord:
    return record_of(pod(name, labels=labels, **more), state.signatures, created=0.0)


def test_label_classes_distinguish_pods_that_selectors_can() -> None:
    """By namespace, labels, and whether they are terminating; whatever the order of the labels."""
    state = ClusterState()
    index = state.pod_affinity
    made = [
        _record(state, "a", {"x": "1", "y": "2"}),
        _record(state, "b", {"y": "2", "x": "1"}),
        _record(state, "c", {"x": "1", "y": "3"}),
        _record(state, "d", {"x": "1"}),
        _record(state, "e", {"x": "1", "y": "2"}, namespace="other"),
        _record(state, "f", {"x": "1", "y": "2"}, terminating=True),
        _record(state, "g", {"y": "1", "x": "2"}),
        _record(state, "h", {}),
    ]
    for one in made:
        state.add_pod(one)
    classes = [index.label_class(one).id for one in made]
    assert classes[0] == classes[1]
    assert len(set(classes)) == 7
    assert index.sizes()["label_classes"] == 7
    state.check()


def test_counts_by_domain() -> None:
    """By value of the label; nodes that are gone or have no label belong to none."""
    state = ClusterState()
    for name, zone in (("a", "x"), ("b", "y"), ("c", "x"), ("d", None), ("e", "y")):
        state.set_node(node(name, labels={ZONE: zone} if zone is not None else {}))
    state.remove_node("e")
    index = state.pod_affinity
    domains, highest = index.domains(ZONE)
    assert (domains.tolist(), highest) == ([1, 2, 1, 0, 0], 2)
    assert index.by_domain(ZONE, np.array([1, 2, 4, 8, 16])).tolist() == [0, 5, 2]
    assert index.by_domain(ZONE, np.zeros(5, dtype=np.int64)).tolist() == [0, 0, 0]
    assert index.domains(ZONE)[0] is domains, "kept until nodes change"
    state.set_node(node("d", labels={ZONE: "z"}))
    assert index.domains(ZONE)[0].tolist() == [1, 2, 1, 3, 0]
    assert index.domains("rack")[0].tolist() == [0] * 5


def test_counts_are_for_every_row_there_is() -> None:
    """Also for one that came after they were first asked for."""
    state = ClusterState()
    state.set_node(node("a"))
    matchers = (Matcher(frozenset({"default"}), NOTHING, selecting({"app": "web"})),)
    assert state.pod_affinity.counts(matchers).tolist() == [0]
    state.set_node(node("b"))
    assert state.pod_affinity.counts(matchers).tolist() == [0, 0]
    web, other = _record(state, "w", {"app": "web"}), _record(state, "o", {"app": "db"})
    for one in (web, other):
        state.add_pod(one, "b")
    assert state.pod_affinity.counts(matchers).tolist() == [0, 1]
    assert [state.pod_affinity.accepted(matchers, one) for one in (web, other)] == [True, False]
    assert state.pod_affinity.counts(()).tolist() == [0, 0], "without a matcher no pods are accepted"
    two = (*matchers, Matcher(frozenset({"default"}), NOTHING, selecting({"tier": "x"})))
    assert state.pod_affinity.counts(two).tolist() == [0, 0]
    both = _record(state, "both", {"app": "web", "tier": "x"})
    state.add_pod(both, "a")
    assert (state.pod_affinity.counts(matchers).tolist(), state.pod_affinity.counts(two).tolist()) == ([1, 1], [1, 0])


def test_labels_of_namespaces_that_change_are_seen_at_once() -> None:
    """By terms and by counts that select namespaces; others are left as they are."""
    state = ClusterState()
    state.set_node(node("a"))
    team = selecting({"team": "x"})
    by_labels = (Matcher(frozenset(), team, selecting({})),)
    by_name = (Matcher(frozenset({"default"}), NOTHING, selecting({})),)
    state.add_pod(_record(state, "p", {"app": "web"}), "a")
    apart = affinity(anti_required=(term(namespace_selector=objects.LabelSelector(match_labels={"team": "x"})),))
    state.add_pod(_record(state, "q", {}, affinity=apart), "a")

    def seen() -> tuple[list[int], list[int], int]:
        index = state.pod_affinity
        stated = index.anti_affinity_terms(state.pods["uid-p"])
        assert index.has_anti_affinity_terms(state.pods["uid-p"]) is bool(stated)
        return index.counts(by_labels).tolist(), index.counts(by_name).tolist(), len(stated)

    assert seen() == ([0], [2], 0)
    labelled = objects.Namespace(metadata=objects.ObjectMeta(name="default", labels={"team": "x"}))
    assert state.set_namespace(labelled) is True
    assert seen() == ([2], [2], 1)
    assert state.set_namespace(labelled) is False
    assert state.remove_namespace("default") is True
    assert seen() == ([0], [2], 0)
    assert state.remove_namespace("default") is False
    state.check()


def test_terms_are_stated_by_those_that_run() -> None:
    """Required anti-affinity apart from what only scores; no running pod scores."""
    state = ClusterState()
    state.set_node(node("a"))
    preferred = affinity(preferred=((2, term()),), required=(term(ZONE),))
    one, web = _record(state, "p", {}, affinity=preferred), _record(state, "w", {"app": "web"})
    state.add_pod(one)
    state.add_pod(web)
    index = state.pod_affinity
    assert index.scoring_terms(web) == []
    state.place(one, 0)
    assert sorted((t.spec.kind, t.spec.weight, dict(t.rows)) for t in index.scoring_terms(web)) == [
        (TermKind.REQUIRED_AFFINITY, 0, {0: 1}),
        (TermKind.PREFERRED_AFFINITY, 2, {0: 1}),
    ]
    assert (index.anti_affinity_terms(web), index.has_anti_affinity_terms(web)) == ([], False)
    assert (index.scoring_terms(one), len(index.terms(one).specs), index.terms(web).specs) == ([], 2, ())
    assert index.sizes()["affinity_terms"] == 2
    state.remove_pod(one)
    assert (index.scoring_terms(web), index.sizes()["affinity_terms"]) == ([], 0)


# -- indexes ----------------------------------------------------------------------------------------------------------


def _asks(*requirements: tuple[str, str, tuple[str, ...]]) -> Selector:
    return Selector(tuple(Requirement(key, operator, values) for key, operator, values in requirements))


def test_selector_is_filed_where_fewest_are() -> None:
    """Of two requirements the one with fewer others, so that asking for common labels does not find them all."""
    index: SelectorIndex[int] = SelectorIndex()
    for number in range(50):
        index.add(number, _asks(("team", IN, ("all",)), ("app", IN, (str(number),))), ("n",))
    assert len(index) == 50
    found = list(index.may_match("n", {"team": "all", "app": "7"}))
    assert 7 in found
    assert len(found) < 5
    assert list(index.may_match("other", {"team": "all", "app": "7"})) == []
    anywhere: SelectorIndex[str] = SelectorIndex()
    anywhere.add("all", Selector(), None)
    anywhere.add("none", Selector(nothing=True), None)
    anywhere.add("key", _asks(("app", EXISTS, ())), None)
    assert list(anywhere.may_match("n", {"app": "x"})) == ["all", "key"]
    assert list(anywhere.may_match("n", {})) == ["all"]
    assert len(anywhere) == 2


def test_items_beyond_namespaces_are_found_as_they_come_and_go() -> None:
    """After a question about all namespaces, what comes later is found there too."""
    index: LabelIndex[int] = LabelIndex()
    index.add(1, "a", {"app": "web"})
    index.add(2, "b", {"app": "db"})
    web = _asks(("app", IN, ("web",)))
    assert list(index.may_match(web, None)) == [1]
    index.add(3, "b", {"app": "web"})
    assert sorted(index.may_match(web, None)) == [1, 3]
    assert list(index.may_match(web, ("b",))) == [3]
    index.remove(1, "a", {"app": "web"})
    assert list(index.may_match(web, None)) == [3]
    assert sorted(index.may_match(_asks(("app", EXISTS, ())), None)) == [2, 3]
    assert list(index.may_match(_asks(("app", EXISTS, ())), ("nowhere",))) == []
    assert sorted(index.may_match(Selector(), ("b", "nowhere"))) == [2, 3]
    assert list(index.may_match(Selector(nothing=True), None)) == []


def test_nominations_never_have_a_number_twice() -> None:
    """A reader that caches by the number of nominations notices one made and taken back."""
    state = ClusterState()
    for name in "ab":
        state.set_node(node(name))
    one = _record(state, "p", {})
    state.add_pod(one)
    numbers = [state.nodes.nominations]
    for row in (0, 1, 1, None, 0):
        before = one.nominated
        if row is None:
            state.clear_nomination(one)
        else:
            state.nominate(one, row)
        if one.nominated != before:
            numbers.append(state.nodes.nominations)
    state.clear_nomination(one)
    numbers.append(state.nodes.nominations)
    state.clear_nomination(one)
    assert state.nodes.nominations == numbers[-1]
    assert numbers == sorted(set(numbers))


def test_pods_equivalent_for_hints() -> None:
    """By signature; by labels and owner as soon as a term selects on labels; with device claims each by itself."""
    state = ClusterState()
    a, b = _record(state, "a", {"app": "x"}), _record(state, "b", {"app": "y"})
    for one in (a, b):
        state.add_pod(one)
    assert state.equivalence_key(a) == state.equivalence_key(b)
    service = msgspec.convert({"metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}}}, objects.Service)
    state.default_selectors.set(service)
    assert state.equivalence_key(a) != state.equivalence_key(b)
    state.default_selectors.remove("Service", "default", "s")
    assert state.equivalence_key(a) == state.equivalence_key(b)
    state.add_pod(_record(state, "c", {}, affinity=affinity(required=(term(),))))
    assert state.equivalence_key(a) != state.equivalence_key(b)


def test_term_that_no_pod_states_any_more_matches_no_new_pod() -> None:
    """Forgotten with the last pod that stated it, while other terms are there."""
    state = ClusterState()
    state.set_node(node("a"))
    gone = _record(state, "gone", {}, affinity=affinity(anti_required=(term(),)))
    stays = _record(state, "stays", {}, affinity=affinity(anti_required=(term(ZONE),)))
    for one in (gone, stays):
        state.add_pod(one, "a")
    state.remove_pod(gone)
    web = _record(state, "w", {"app": "web"})
    state.add_pod(web)
    assert [found.spec.topology_key for found in state.pod_affinity.anti_affinity_terms(web)] == [ZONE]
    state.remove_pod(stays)
    assert state.pod_affinity.anti_affinity_terms(web) == []


def _drawn(draw: random.Random, number: int) -> objects.Pod:
    """Return a pod of one of three namespaces, every second one with terms, some of them about other namespaces."""
    more: dict[str, Any] = draw.choice(
        ({}, {}, {"namespaces": ("b",)}, {"namespace_selector": objects.LabelSelector()})
    )
    stated = affinity(anti_required=(term(**more),), preferred=((draw.randint(1, 9), term(ZONE)),))
    labels = {"app": draw.choice(("web", "db"))}
    namespace, selects = draw.choice("abc"), draw.random() < 0.5
    return pod(f"p{number}", namespace=namespace, labels=labels, affinity=stated if selects else None)


@pytest.mark.parametrize("seed", range(12))
def test_namespaces_that_are_asleep_answer_as_those_that_were_always_awake(seed: int) -> None:
    """Two states with the same steps, one asked about everything from the start, one only now and then."""
    draw = random.Random(seed)
    asked, asleep = ClusterState(), ClusterState()
    matchers = tuple((Matcher(frozenset(name), NOTHING, selecting({"app": "web"})),) for name in "abc")
    for state in (asked, asleep):
        for name in "xy":
            state.set_node(node(name, labels={ZONE: name}))
    for number in range(60):
        made, step, where = _drawn(draw, number), draw.randrange(5), draw.choice(("x", "y", None))
        chosen = draw.choice(sorted(asked.pods)) if asked.pods else ""
        questions = draw.randrange(8) == 0
        answers = []
        for state in (asked, asleep):
            known = state.pods.get(chosen)
            if step < 3 or known is None:
                state.add_pod(record_of(made, state.signatures, created=0.0), where)
            elif step == 3:
                state.remove_pod(known)
            elif not known.terminating:
                state.set_terminating(known)
            if state is asked or questions:
                answers.append(_answers(state, matchers))
        asleep.check()
        assert answers[0] == answers[-1]


def _answers(state: ClusterState, matchers: tuple[tuple[Matcher, ...], ...]) -> list[object]:
    index = state.pod_affinity
    result: list[object] = []
    with state.trial():
        for record in list(state.pods.values())[::2]:
            if record.row >= 0:
                state.displace(record)
        result += [index.counts(each).tolist() for each in matchers]
    for record in state.pods.values():
        result.append(sorted((str(each.spec), dict(each.rows)) for each in index.anti_affinity_terms(record)))
        result.append(sorted((str(each.spec), dict(each.rows)) for each in index.scoring_terms(record)))
    return [*result, *(index.counts(each).tolist() for each in matchers)]


def test_only_namespaces_that_are_asked_about_are_kept() -> None:
    """A question wakes a namespace, a term about others the one of its pod, a selector of namespaces all of them."""
    state = ClusterState()
    state.set_node(node("x"))
    apart = affinity(anti_required=(term(),))
    for number, name in enumerate("aabbcc"):
        state.add_pod(_record(state, f"p{number}", {"n": str(number)}, namespace=name, affinity=apart), "x")
    index = state.pod_affinity
    assert (index.sizes()["label_classes"], index.sizes()["affinity_terms"]) == (0, 0)
    index.counts((Matcher(frozenset("a"), NOTHING, selecting({})),))
    assert (index.sizes()["label_classes"], index.sizes()["affinity_terms"]) == (2, 1)
    reaching = affinity(anti_required=(term(namespaces=("a",)),))
    state.add_pod(_record(state, "q", {"n": "q"}, namespace="b", affinity=reaching), "x")
    assert (index.sizes()["label_classes"], index.sizes()["affinity_terms"]) == (5, 2), (
        "the term is that of the namespace itself"
    )
    index.counts((Matcher(frozenset(), selecting({}), selecting({})),))
    assert (index.sizes()["label_classes"], index.sizes()["affinity_terms"]) == (7, 3)
    state.add_pod(_record(state, "r", {"n": "r"}, namespace="late"), "x")
    state.check()
    assert index.counts((Matcher(frozenset(), selecting({}), selecting({})),)).tolist() == [8]
