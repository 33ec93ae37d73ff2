"""Two obstacles at once: pairs of changes of which neither helps alone (whatif.md 5.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from typing import Final, Protocol

from kube_rules.manifests import Manifests
from reprieve.decisions.outcomes import Help
from reprieve.questions.changes import InputChange

MOST_PAIRS: Final = 15
"""Pairs that are tried for one pod or group."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """One change of a pair: flags, an edit of the pods, or both. `phrase`: in a sentence, from a list of names."""

    kind: str
    phrase: Callable[[Sequence[str]], str]
    choices: tuple[tuple[str, InputChange], ...] = ()
    """Names and changes, all of which are made; fewer may do."""
    edit: Callable[[Manifests], Manifests] | None = None

    def apply(self, manifests: Manifests) -> Manifests:
        """Return the input with the edit; flags are made before."""
        return manifests if self.edit is None else self.edit(manifests)


class PairSource(Protocol):
    """What looks for changes for one pod or group."""

    def parts(self) -> list[ChangePart]:
        """The changes that are combined."""

    def works_with(self, changes: Sequence[InputChange], edits: Sequence[Callable[[Manifests], Manifests]]) -> bool:
        """Return whether it runs after these changes and edits. Raises as trials do."""


def pairs(finder: PairSource) -> Iterator[Help]:
    """The first pair of changes with which it runs, each as small as it can be. Raises as trials do."""
    found = (_smallest(finder, parts) for parts in islice(combinations(finder.parts(), 2), MOST_PAIRS))
    yield from islice(filter(None, found), 1)


def _smallest(finder: PairSource, parts: tuple[ChangePart, ChangePart]) -> Help | None:
    """Return the pair with the fewest choices of the first part, then of the second; None if all are not enough."""
    chosen = [part.choices for part in parts]

    def works(turn: int, number: int) -> bool:
        choices = [choice if at != turn else choice[:number] for at, choice in enumerate(chosen)]
        return finder.works_with([change for choice in choices for _, change in choice], [part.apply for part in parts])

    if not works(0, len(chosen[0])):
        return None
    for turn in range(2):
        chosen[turn] = chosen[turn][: fewest(0, len(chosen[turn]), partial(works, turn))]
    return _help(parts, chosen)


def fewest(low: int, high: int, works: Callable[[int], bool]) -> int:
    """Return the least number above `low` that works, by bisection; `high`, above `low`, is known to work."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def _help(parts: tuple[ChangePart, ChangePart], chosen: Sequence[Sequence[tuple[str, InputChange]]]) -> Help:
    phrases = [part.phrase([name for name, _ in each]) for part, each in zip(parts, chosen, strict=True)]
    flags = tuple(_flag(change) for each in chosen for _, change in each)
    shown = f" ({' '.join(flags[:3])}{' ...' if len(flags) > 3 else ''})" if flags else ""
    return Help(
        kind="Combination",
        parts=tuple(part.kind for part in parts),
        flags=flags,
        sentence=f"Both {phrases[0]}, and {phrases[1]}{shown}: neither alone is enough.",
    )


def _flag(change: InputChange) -> str:
    """As it is typed."""
    value = f'"{change.value}"' if " " in change.value else change.value
    return f"--{change.flag} {value}" + (f" --like {change.like}" if change.like else "")
