"""The health of the components of a control plane (ComponentStatus, deprecated), which `kubectl get cs` shows.

kube-apiserver probes each component. Here the store and the controllers are part of this process; the health of other
components is unknown. Responses, and how they depend on the health of a component, are those of kube-apiserver,
`pkg/registry/core/componentstatus`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kube_rules.json import Json
from kube_standin import errors
from kube_standin.kinds import ServedKind
from kube_standin.selectors import select
from kube_standin.server.lists import selected
from kube_standin.server.query import list_options
from kube_standin.server.target import Target
from kube_standin.storage import StoredObject

_HEALTHY: Final = {"type": "Healthy", "status": "True", "message": "ok"}
_NOT_ASKED: Final = {
    "type": "Healthy",
    "status": "Unknown",
    "error": "not part of kube-standin, which does not ask other programs",
}


class Components:
    """The components of the control plane; ``controllers``: this process runs some."""

    def __init__(self, *, controllers: bool) -> None:
        self._conditions = {
            "controller-manager": _HEALTHY if controllers else _NOT_ASKED,
            "etcd-0": _HEALTHY,
            "scheduler": _NOT_ASKED,
        }

    async def one(self, kind: ServedKind, target: Target) -> Json:
        """Return the status of one component; raises 500 for an unknown one, as kube-apiserver does."""
        if target.name not in self._conditions:
            raise errors.internal(f"Component not found: {target.name}")
        return {"kind": kind.kind, "apiVersion": kind.api_version, **self._status(target.name)}

    async def many(self, kind: ServedKind, target: Target) -> list[Json]:
        """Return the statuses of the selected components, which have no labels; raises 400."""
        names = ("labelSelector", "fieldSelector")
        options = list_options({name: value for name, value in target.query.items() if name in names})
        states = [
            StoredObject(kind.plural, "", name, 0, msgspec.json.encode(self._status(name))) for name in self._conditions
        ]
        chosen = await selected(kind, states, select(kind, options.labels, options.fields))
        return [state.decode() for state in chosen]

    def _status(self, name: str) -> Json:
        return {"metadata": {"name": name}, "conditions": [dict(self._conditions[name])]}
