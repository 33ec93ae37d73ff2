"""Finds the selectors that may match labels, and the labels a selector may match, without trying all.

Labels are filed in their namespace under each of their keys and its value.  A selector is filed under one of its
requirements, the one that fewest others are filed under: the values of an `In`, or the key of an `Exists`; one that has
neither is always tried.  What is found is a superset: callers ask the selector itself.

Invariant: what was removed is found no more and leaves nothing behind, so an index is as large as what is in it.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from kube_rules.selectors import EXISTS, IN, Selector
from reprieve.cluster.small_sets import Few, count, each, joined, left

T = TypeVar("T", bound=Hashable)
P = TypeVar("P", bound=Hashable)

_MOST_TRIES = 10_000
"""So many (namespace, requirement) pairs are looked at to find the requirement that fewest are filed under."""

ANY_VALUE = (None,)
_ALWAYS = (None, ANY_VALUE)
"""(key, values) that a selector is filed under which has nothing to file it under."""

_Shelf: TypeAlias = dict[str | None, dict[str | None, Few[T]]]
"""Label key -> value -> what is filed there."""


class SelectorIndex(Generic[T]):
    """Items that select, found by the labels they may match."""

    def __init__(self) -> None:
        self._shelves: dict[str | None, _Shelf[T]] = {}
        """By namespace, None for any. The value None: any value of the key."""
        self._filed: dict[T, tuple[Sequence[str | None], str | None, Sequence[str | None]]] = {}
        """(namespaces, key, values) of each item."""

    def __len__(self) -> int:
        return len(self._filed)

    def add(self, item: T, selector: Selector, namespaces: Sequence[str] | None) -> None:
        """File an item that selects in some namespaces, None: in any."""
        if selector.nothing:
            return
        places: Sequence[str | None] = (None,) if namespaces is None else namespaces
        choices = list(islice(_filings(selector), _tries(places))) or [_ALWAYS]
        key, values = choices[0] if len(choices) == 1 else min(choices, key=lambda one: self._crowd(places, *one))
        for place in places:
            for value in values:
                _file(self._shelves, place, key, value, item)
        self._filed[item] = (places, key, values)

    def remove(self, item: T) -> None:
        """Take an item out; nothing happens if it is not in."""
        places, key, values = self._filed.pop(item, ((), None, ()))
        for place in places:
            for value in values:
                _take_out(self._shelves, place, key, value, item)

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield every item that may select such labels in that namespace, once each."""
        for place in (namespace, None):
            shelf = self._shelves.get(place)
            if shelf is None:
                continue
            yield from each(shelf.get(None, {}).get(None))
            for key, value in labels.items():
                there = shelf.get(key)
                if there is not None:
                    yield from each(there.get(value))
                    yield from each(there.get(None))

    def _crowd(self, places: Iterable[str | None], key: str | None, values: Sequence[str | None]) -> int:
        shelves = (self._shelves.get(place, {}).get(key, {}) for place in places)
        return sum(count(shelf.get(value)) for shelf in shelves for value in values)


class LabelIndex(Generic[T]):
    """Items with labels, found by the selectors that may match them."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf[T]] = {}
        """By namespace."""
        self._everywhere: dict[None, _Shelf[T]] = {}
        """All namespaces in one, kept from the first question beyond namespaces until nothing is left."""
        self._in_namespace: dict[str, dict[T, None]] = {}
        self._number = 0

    def add(self, item: T, namespace: str, labels: Mapping[str, str]) -> None:
        """File an item."""
        self._in_namespace.setdefault(namespace, {})[item] = None
        self._number += 1
        for key, value in labels.items():
            _file(self._shelves, namespace, key, value, item)
        if self._everywhere:
            for key, value in labels.items():
                _file(self._everywhere, None, key, value, item)

    def remove(self, item: T, namespace: str, labels: Mapping[str, str]) -> None:
        """Take out an item filed under these."""
        there = self._in_namespace[namespace]
        del there[item]
        self._number -= 1
        if not there:
            del self._in_namespace[namespace]
        for key, value in labels.items():
            _take_out(self._shelves, namespace, key, value, item)
            _take_out(self._everywhere, None, key, value, item)

    def may_match(self, selector: Selector, namespaces: Sequence[str] | None) -> Iterator[T]:
        """Yield every item that the selector may match in some namespaces (None: in any), once each."""
        if selector.nothing:
            return
        here = self._in_namespace
        if namespaces is not None:
            namespaces = [place for place in namespaces if place in here]
        fewest = self._number if namespaces is None else sum(len(here[place]) for place in namespaces)
        found: list[Collection[T]] | None = None
        for key, values in islice(_filings(selector), _tries(namespaces or ())):
            at_key = self._at_key(key, namespaces)
            if values is ANY_VALUE:
                if sum(map(len, at_key)) >= fewest:  # each value has one item at least
                    continue
                some = [few for there in at_key for few in there.values()]
            else:
                some = [there.get(value) for there in at_key for value in values]
            number = sum(map(count, some))
            if number < fewest:
                fewest, found = number, [each(few) for few in some]
        if found is None:
            found = [here[place] for place in (here if namespaces is None else namespaces)]
        for items in found:
            yield from items

    def _at_key(self, key: str | None, namespaces: Sequence[str] | None) -> list[dict[str | None, Few[T]]]:
        if namespaces is None:
            self._know_everywhere()
            shelves = [self._everywhere.get(None, {})]
        else:
            shelves = [self._shelves.get(place, {}) for place in namespaces]
        return [shelf[key] for shelf in shelves if key in shelf]

    def _know_everywhere(self) -> None:
        if self._everywhere:
            return
        for shelf in self._shelves.values():
            for key, there in shelf.items():
                for value, few in there.items():
                    for item in each(few):
                        _file(self._everywhere, None, key, value, item)


def _tries(places: Sequence[str | None]) -> int:
    """Return how many requirements of a selector are compared: a pod's term may have many of both."""
    return max(_MOST_TRIES // max(len(places), 1), 1)


def _filings(selector: Selector) -> Iterator[tuple[str | None, Sequence[str | None]]]:
    """(key, the values asked for; None: any) of each requirement that labels can be looked up by."""
    for requirement in selector.requirements:
        if requirement.operator == IN:
            values = requirement.values
            yield requirement.key, values if len(values) == 1 else tuple(dict.fromkeys(values))
        elif requirement.operator == EXISTS:
            yield requirement.key, ANY_VALUE


def _file(shelves: dict[P, _Shelf[T]], place: P, key: str | None, value: str | None, item: T) -> None:
    there = shelves.setdefault(place, {}).setdefault(key, {})
    there[value] = joined(there.get(value), item)


def _take_out(shelves: dict[P, _Shelf[T]], place: P, key: str | None, value: str | None, item: T) -> None:
    shelf = shelves.get(place, {})
    there = shelf.get(key, {})
    remaining = left(there.get(value), item)
    if remaining is not None:
        there[value] = remaining
        return
    there.pop(value, None)
    if not there and shelf:
        shelf.pop(key, None)
        if not shelf:
            shelves.pop(place, None)
