"""Finds the selectors that may match labels, and the labels a selector may match, without trying all.

Labels are filed under each of their pairs and keys, in their namespace and in all.  A selector is filed under one of
its requirements, the one that fewest others are filed under: the values of an `In`, or the key of an `Exists`; one that
has neither is always tried.  What is found is a superset: callers ask the selector itself.

Invariant: what was removed is found no more and leaves nothing behind, so an index is as large as what is in it.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from reprieve.api.selectors import EXISTS, IN, Selector

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=Hashable)

Bucket = tuple[str | None, str, str | None]
"""(namespace, or None for any; label key; value, or None for any)."""


class SelectorIndex(Generic[T]):
    """Items that select, found by the labels they may match."""

    def __init__(self) -> None:
        self._buckets: dict[Bucket, dict[T, None]] = {}
        self._untried: dict[str | None, dict[T, None]] = {}
        """By namespace, None for any: those whose selector has nothing to file them under."""
        self._filed: dict[T, tuple[Sequence[Bucket], Sequence[str | None]]] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def add(self, item: T, selector: Selector, namespaces: Sequence[str] | None) -> None:
        """File an item that selects in some namespaces, None: in any."""
        if selector.nothing:
            return
        places: Sequence[str | None] = (None,) if namespaces is None else namespaces
        choices = [[(place, key, value) for place in places for value in values] for key, values in _filings(selector)]
        if not choices:
            for place in places:
                self._untried.setdefault(place, {})[item] = None
            self._filed[item] = ((), places)
            return
        buckets = min(choices, key=lambda some: sum(len(self._buckets.get(bucket, ())) for bucket in some))
        for bucket in buckets:
            self._buckets.setdefault(bucket, {})[item] = None
        self._filed[item] = (buckets, ())

    def remove(self, item: T) -> None:
        """Take an item out; nothing happens if it is not in."""
        buckets, places = self._filed.pop(item, ((), ()))
        for bucket in buckets:
            _drop(self._buckets, bucket, item)
        for place in places:
            _drop(self._untried, place, item)

    def may_match(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Every item that may select such labels in that namespace, once each."""
        for place in (namespace, None):
            yield from self._untried.get(place, ())
            for key, value in labels.items():
                yield from self._buckets.get((place, key, value), ())
                yield from self._buckets.get((place, key, None), ())


class LabelIndex(Generic[T]):
    """Items with labels, found by the selectors that may match them."""

    def __init__(self) -> None:
        self._buckets: dict[Bucket, dict[T, None]] = {}
        self._in_namespace: dict[str, dict[T, None]] = {}

    def add(self, item: T, namespace: str, labels: Mapping[str, str]) -> None:
        """File an item."""
        self._in_namespace.setdefault(namespace, {})[item] = None
        for bucket in _label_buckets(namespace, labels):
            self._buckets.setdefault(bucket, {})[item] = None

    def remove(self, item: T, namespace: str, labels: Mapping[str, str]) -> None:
        """Take out an item filed under these."""
        _drop(self._in_namespace, namespace, item)
        for bucket in _label_buckets(namespace, labels):
            _drop(self._buckets, bucket, item)

    def may_match(self, selector: Selector, namespaces: Sequence[str] | None) -> Iterator[T]:
        """Every item that the selector may match in some namespaces (None: in any), once each."""
        if selector.nothing:
            return
        places: Sequence[str | None] = (None,) if namespaces is None else namespaces
        choices = [
            [self._buckets.get((place, key, value), {}) for place in places for value in values]
            for key, values in _filings(selector)
        ]
        if namespaces is None:
            choices.append(list(self._in_namespace.values()))
        else:
            choices.append([self._in_namespace.get(place, {}) for place in namespaces])
        for bucket in min(choices, key=lambda some: sum(len(bucket) for bucket in some)):
            yield from bucket


def _filings(selector: Selector) -> Iterator[tuple[str, Sequence[str | None]]]:
    """(key, the values asked for; None: any) of each requirement that labels can be looked up by."""
    for requirement in selector.requirements:
        if requirement.operator == IN:
            yield requirement.key, list(dict.fromkeys(requirement.values))
        elif requirement.operator == EXISTS:
            yield requirement.key, (None,)


def _label_buckets(namespace: str, labels: Mapping[str, str]) -> Iterator[Bucket]:
    for place in (namespace, None):
        for key, value in labels.items():
            yield place, key, value
            yield place, key, None


def _drop(table: dict[K, dict[T, None]], key: K, item: T) -> None:
    bucket = table.get(key)
    if bucket is not None:
        bucket.pop(item, None)
        if not bucket:
            del table[key]
