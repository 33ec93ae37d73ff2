"""The facts about a kind that rules need: its group, its name and whether its objects have a namespace."""

from __future__ import annotations

from typing import Protocol


class KindName(Protocol):
    """A kind of objects; the row of a table of kinds has these fields and more."""

    @property
    def group(self) -> str:
        """Return the API group, empty for the core group."""

    @property
    def kind(self) -> str:
        """Return the name of the kind: Pod."""

    @property
    def namespaced(self) -> bool:
        """Return whether objects of the kind live in a namespace."""
