"""Indexes that find the selectors that may match labels, and the labels that a selector may match.

Labels are filed by namespace, key and value. A selector is filed under its requirement with the fewest other selectors:
the values of an `In`, or the key of an `Exists`. A selector with neither is always a candidate. Results are a superset;
callers must evaluate the selector.

Invariant: a removed item leaves nothing behind, so the size of an index follows its contents.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from kube_rules.selectors import EXISTS, IN, Selector
from reprieve.cluster.small_sets import Few, count, each, joined, left

T = TypeVar("T", bound=Hashable)
P = TypeVar("P", bound=Hashable)

_MOST_TRIES = 10_000
"""The maximum number of (namespace, requirement) pairs examined to find the least used requirement."""

ANY_VALUE = (None,)
_ALWAYS = (None, ANY_VALUE)
"""The (key, values) of a selector without a usable requirement."""

_Shelf: TypeAlias = dict[str | None, dict[str | None, Few[T]]]
"""Label key -> value -> items."""


class SelectorIndex(Generic[T]):
    """Items with selectors, found by the labels they may match."""

    def __init__(self) -> None:
        self._shelves: dict[str | None, _Shelf[T]] = {}
        """By namespace, None for any. The value None: any value of the key."""
        self._filed: dict[T, tuple[Sequence[str | None], str | None, Sequence[str | None]]] = {}
        """(namespaces, key, values) of each item."""

    def __len__(self) -> int:
        return len(self._filed)

    def add(self, item: T, selector: Selector, namespaces: Sequence[str] | None) -> None:
        """Add an item that selects in some namespaces, or in any (None)."""
        if selector.nothing:
            return
        places: Sequence[str | None] = (None,) if namespaces is None else namespaces
        choices = list(islice(_filings(selector), _tries(places))) or [_ALWAYS]
        key, values = choices[0] if len(choices) == 1 else min(choices, key=lambda filing: self._crowd(places, *filing))
        for place in places:
            for value in values:
                _file(self._shelves, place, key, value, item)
        self._filed[item] = (places, key, values)

    def remove(self, item: T) -> None:
        """Remove an item, if present."""
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
                by_value = shelf.get(key)
                if by_value is not None:
                    yield from each(by_value.get(value))
                    yield from each(by_value.get(None))

    def _crowd(self, places: Iterable[str | None], key: str | None, values: Sequence[str | None]) -> int:
        shelves = (self._shelves.get(place, {}).get(key, {}) for place in places)
        return sum(count(shelf.get(value)) for shelf in shelves for value in values)


class LabelIndex(Generic[T]):
    """Items with labels, found by the selectors that may match them."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf[T]] = {}
        """By namespace."""
        self._everywhere: dict[None, _Shelf[T]] = {}
        """All namespaces together, kept from the first query across namespaces until the index is empty."""
        self._in_namespace: dict[str, dict[T, None]] = {}
        self._number = 0

    def add(self, item: T, namespace: str, labels: Mapping[str, str]) -> None:
        """Add an item."""
        self._in_namespace.setdefault(namespace, {})[item] = None
        self._number += 1
        for key, value in labels.items():
            _file(self._shelves, namespace, key, value, item)
        if self._everywhere:
            for key, value in labels.items():
                _file(self._everywhere, None, key, value, item)

    def remove(self, item: T, namespace: str, labels: Mapping[str, str]) -> None:
        """Remove an item filed under these labels."""
        items = self._in_namespace[namespace]
        del items[item]
        self._number -= 1
        if not items:
            del self._in_namespace[namespace]
        for key, value in labels.items():
            _take_out(self._shelves, namespace, key, value, item)
            _take_out(self._everywhere, None, key, value, item)

    def may_match(self, selector: Selector, namespaces: Sequence[str] | None) -> Iterator[T]:
        """Yield every item that the selector may match in some namespaces (None: in any), once each."""
        if selector.nothing:
            return
        in_namespace = self._in_namespace
        if namespaces is not None:
            namespaces = [place for place in namespaces if place in in_namespace]
        fewest = self._number if namespaces is None else sum(len(in_namespace[place]) for place in namespaces)
        candidates: list[Collection[T]] | None = None
        for key, values in islice(_filings(selector), _tries(namespaces or ())):
            at_key = self._at_key(key, namespaces)
            if values is ANY_VALUE:
                if sum(map(len, at_key)) >= fewest:  # each value has at least one item
                    continue
                matches = [few for by_value in at_key for few in by_value.values()]
            else:
                matches = [by_value.get(value) for by_value in at_key for value in values]
            number = sum(map(count, matches))
            if number < fewest:
                fewest, candidates = number, [each(few) for few in matches]
        if candidates is None:
            candidates = [in_namespace[place] for place in (in_namespace if namespaces is None else namespaces)]
        for items in candidates:
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
            for key, by_value in shelf.items():
                for value, few in by_value.items():
                    for item in each(few):
                        _file(self._everywhere, None, key, value, item)


def _tries(places: Sequence[str | None]) -> int:
    """Return how many requirements of a selector to compare; a pod's term may have many of both."""
    return max(_MOST_TRIES // max(len(places), 1), 1)


def _filings(selector: Selector) -> Iterator[tuple[str | None, Sequence[str | None]]]:
    """Yield (key, requested values or None for any) of each requirement usable for a lookup."""
    for requirement in selector.requirements:
        if requirement.operator == IN:
            values = requirement.values
            yield requirement.key, values if len(values) == 1 else tuple(dict.fromkeys(values))
        elif requirement.operator == EXISTS:
            yield requirement.key, ANY_VALUE


def _file(shelves: dict[P, _Shelf[T]], place: P, key: str | None, value: str | None, item: T) -> None:
    by_value = shelves.setdefault(place, {}).setdefault(key, {})
    by_value[value] = joined(by_value.get(value), item)


def _take_out(shelves: dict[P, _Shelf[T]], place: P, key: str | None, value: str | None, item: T) -> None:
    shelf = shelves.get(place, {})
    by_value = shelf.get(key, {})
    remaining = left(by_value.get(value), item)
    if remaining is not None:
        by_value[value] = remaining
        return
    by_value.pop(value, None)
    if not by_value and shelf:
        shelf.pop(key, None)
        if not shelf:
            shelves.pop(place, None)
