"""Indexes of labels and selectors: a superset of what matches, and nothing of what was removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube_rules.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Requirement, Selector
from reprieve.cluster.label_index import LabelIndex, SelectorIndex

KEYS, VALUES, NAMESPACES = "abc", "xyz", ["one", "two"]

_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
_requirements = st.builds(
    lambda key, operator, values: Requirement(key, operator, tuple(values) if operator in (IN, NOT_IN) else ()),
    st.sampled_from(KEYS),
    st.sampled_from([IN, NOT_IN, EXISTS, DOES_NOT_EXIST]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)
_selectors = st.builds(lambda some: Selector(tuple(some)), st.lists(_requirements, max_size=3)) | st.just(
    Selector(nothing=True)
)
_places = st.none() | st.lists(st.sampled_from(NAMESPACES), unique=True, min_size=1)
_labelled = st.lists(st.tuples(st.sampled_from(NAMESPACES), _labels), max_size=6)
_selecting = st.lists(st.tuples(_selectors, _places), max_size=6)


def _means(selector: Selector, places: list[str] | None, namespace: str, labels: dict[str, str]) -> bool:
    return (places is None or namespace in places) and selector.matches(labels)


@given(_labelled, _selecting, st.sets(st.integers(0, 5)))
def test_everything_that_matches_is_found_once_and_nothing_that_is_gone(
    labelled: list[tuple[str, dict[str, str]]], selecting: list[tuple[Selector, list[str] | None]], gone: set[int]
) -> None:
    """Both directions agree with asking each selector about each set of labels."""
    by_labels: LabelIndex[int] = LabelIndex()
    by_selector: SelectorIndex[int] = SelectorIndex()
    for number, (namespace, labels) in enumerate(labelled):
        by_labels.add(number, namespace, labels)
    for number, (selector, places) in enumerate(selecting):
        by_selector.add(number, selector, places)
    for number in gone:
        if number < len(labelled):
            by_labels.remove(number, *labelled[number])
        by_selector.remove(number)
    left = {number: item for number, item in enumerate(labelled) if number not in gone}
    asking = {number: item for number, item in enumerate(selecting) if number not in gone}
    for selector, places in asking.values():
        found = list(by_labels.may_match(selector, places))
        assert len(found) == len(set(found))
        assert {n for n, (namespace, labels) in left.items() if _means(selector, places, namespace, labels)} <= {*found}
        assert set(found) <= set(left)
    for namespace, labels in left.values():
        found = list(by_selector.may_match(namespace, labels))
        assert len(found) == len(set(found))
        assert {n for n, (selector, places) in asking.items() if _means(selector, places, namespace, labels)} <= {
            *found
        }
        assert set(found) <= set(asking)


def test_index_that_is_empty_again_holds_nothing() -> None:
    """Months of pods that come and go leave no buckets behind."""
    by_labels: LabelIndex[int] = LabelIndex()
    by_selector: SelectorIndex[int] = SelectorIndex()
    selectors = [Selector((Requirement("a", IN, ("x", "y")),)), Selector((Requirement("b", EXISTS),)), Selector()]
    for number in range(30):
        by_labels.add(number, "one", {"a": str(number)})
        by_selector.add(number, selectors[number % 3], ["one"] if number % 2 else None)
    assert len(by_selector) == 30
    for number in range(30):
        by_labels.remove(number, "one", {"a": str(number)})
        by_selector.remove(number)
    assert not any(vars(by_labels).values())
    assert not any(vars(by_selector).values())


def test_rarest_requirement_is_looked_up() -> None:
    """A selector for one of many pods of a common label does not try them all."""
    index: LabelIndex[int] = LabelIndex()
    for number in range(100):
        index.add(number, "one", {"team": "all", "app": str(number)})
    selector = Selector((Requirement("team", IN, ("all",)), Requirement("app", IN, ("7",))))
    assert list(index.may_match(selector, ["one"])) == [7]
    assert list(index.may_match(selector, ["two"])) == []
    later = Selector((Requirement("team", EXISTS), Requirement("app", IN, ("7",))))
    assert list(index.may_match(later, ["one"])) == list(index.may_match(later, None)) == [7]


class CountedName(str):
    """A namespace that counts how often it is looked up."""

    __slots__ = ()
    asked = 0

    def __hash__(self) -> int:
        CountedName.asked += 1
        return super().__hash__()


def test_selector_of_many_requirements_in_many_namespaces_is_filed_in_bounded_time() -> None:
    """preemption.md 9.6: a term of a pod may have thousands of both."""
    places = [CountedName(f"n{number}") for number in range(1000)]
    labels = {f"a{number}": "" for number in range(100)}
    selector = Selector(tuple(Requirement(key, EXISTS) for key in labels))
    by_selector: SelectorIndex[int] = SelectorIndex()
    by_labels: LabelIndex[int] = LabelIndex()
    for place in places:
        by_labels.add(1, place, labels)
    CountedName.asked = 0
    by_selector.add(1, selector, places)
    assert list(by_selector.may_match("n7", labels)) == [1]
    assert set(by_labels.may_match(selector, places)) == {1}
    assert CountedName.asked <= 50 * len(places)
