"""Sets that mostly hold one item behave as sets, and hold no table for one item."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube_rules.selectors import EXISTS, IN, NOT_IN, Requirement, Selector
from reprieve.cluster.label_index import LabelIndex, SelectorIndex
from reprieve.cluster.small_sets import Few, Several, count, each, joined, left


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30))
def test_items_come_and_go_as_in_a_dict(steps: list[tuple[bool, int]]) -> None:
    kept: Few[int] = None
    expected: dict[int, None] = {}
    for comes, item in steps:
        kept = joined(kept, item) if comes else left(kept, item)
        if comes:
            expected[item] = None
        else:
            expected.pop(item, None)
        assert list(each(kept)) == list(expected)
        assert count(kept) == len(expected)
        assert isinstance(kept, Several) == (len(expected) > 1)
    for item in list(expected):
        kept = left(kept, item)
    assert kept is None


def test_index_that_was_asked_beyond_namespaces_forgets_all_the_same() -> None:
    """What is kept for questions about any namespace goes with the last item."""
    index: LabelIndex[int] = LabelIndex()
    for number in range(6):
        index.add(number, f"ns-{number % 2}", {"app": f"a{number % 3}", "own": str(number)})
    wanted = Selector((Requirement("app", IN, ("a1",)),))
    assert sorted(index.may_match(wanted, None)) == [1, 4]
    assert sorted(index.may_match(wanted, ["ns-0"])) == [4]
    index.add(6, "ns-2", {"app": "a1"})
    assert sorted(index.may_match(wanted, None)) == [1, 4, 6]
    assert sorted(index.may_match(Selector((Requirement("own", EXISTS),)), None)) == [0, 1, 2, 3, 4, 5]
    for number in range(6):
        index.remove(number, f"ns-{number % 2}", {"app": f"a{number % 3}", "own": str(number)})
    index.remove(6, "ns-2", {"app": "a1"})
    assert vars(index) == vars(LabelIndex())


def test_selector_index_is_empty_after_the_last() -> None:
    index: SelectorIndex[int] = SelectorIndex()
    index.add(1, Selector((Requirement("app", IN, ("a", "b", "a")),)), ("x", "y"))
    index.add(2, Selector((Requirement("app", EXISTS),)), None)
    index.add(3, Selector((Requirement("app", NOT_IN, ("a",)),)), ("x",))
    assert sorted(index.may_match("x", {"app": "a"})) == [1, 2, 3]
    assert sorted(index.may_match("x", {"": "a"})) == [3]
    assert sorted(index.may_match("y", {"app": "c"})) == [2]
    for number in (1, 2, 3, 3):
        index.remove(number)
    assert vars(index) == vars(SelectorIndex())
