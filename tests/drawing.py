"""Which clusters the properties look at: the same ones in `make test`, new ones in `make test-new`.

A change must not be refused for what it did not do, so `make test` draws without chance: the same sources, the same
examples, and none fails for being slow.  New examples are drawn by a run of its own, for so long as
`--new-clusters SECONDS` says: each property draws again, round after round, until its share of the time is used up
(`conftest.py`).  When one fails, the cluster is printed as manifests, in the form of `tests/cases`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from kube_rules.objects import KubernetesObject

SAME, NEW = "same", "new"
_ROUND = 20
"""Examples of a property in one round: the time is looked at after each."""

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(SAME, derandomize=True, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    NEW,
    derandomize=False,
    deadline=None,
    suppress_health_check=_SLOW,
    database=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),  # what it is due to is ours to find out
)


def load(profile: str) -> None:
    """Draw as a profile says from now on.

    Hypothesis likes numbers and texts that stand in the program itself, in such of its modules as are loaded by then:
    what one test imports would change the examples of the next, and with them from run to run, for tests run in another
    order on other workers. `SAME` does without.
    """
    settings.load_profile(profile)
    if profile == SAME:
        providers.is_local_module_file = lambda path: False  # type: ignore[attr-defined, assignment]


Drawn = Iterable[KubernetesObject | tuple[KubernetesObject, float] | Mapping[str, Any]]
_last: list[Any] = []


def looks_at_new() -> bool:
    """Whether this run is for new clusters."""
    return settings.get_current_profile_name() == NEW


def examples(number: int) -> settings:
    """The settings of a property about clusters: so many of them, or one round of new ones."""
    return settings(max_examples=_ROUND if looks_at_new() else number)


def drew(objects: Drawn) -> None:
    """An example is about these objects (with their creation times, or as documents): the one to print if it fails."""
    _last[:] = objects


def last_drawn() -> str:
    """The last example as a case for `tests/cases`, without what is to be expected; "" if it was not about objects."""
    if not _last:
        return ""
    # JSON, an object on a line: as YAML it would need quotes that readers of other versions need (`app: y`).
    objects = "".join(f"- {json.dumps(_document(item))}\n" for item in _last)
    return f"title: found by chance\nobjects:\n{objects}expect: {{}}\n"


def forget() -> None:
    """Before the next property."""
    _last.clear()


def _document(item: Any) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return dict(item)
    obj, created = item if isinstance(item, tuple) else (item, None)
    body = msgspec.to_builtins(obj)
    if created is not None:
        body["metadata"]["creationTimestamp"] = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    metadata = {key: value for key, value in body.pop("metadata").items() if value}
    return {"apiVersion": obj.API_VERSION, "kind": obj.KIND, "metadata": metadata, **body}
