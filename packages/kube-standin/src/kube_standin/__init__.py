"""A Kubernetes API server for tests, laptops and CI: storage, REST and watch, controllers and simulated kubelets.

`ApiServer` runs one in this process, without a scheduler. Inside it objects are plain JSON dicts; one process, one
asyncio loop, no locks. ``kinds`` is the table of served kinds, ``errors`` the form of refusals, ``storage`` keeps
objects and their history, ``registry`` runs the verbs, ``server`` speaks HTTP, ``security`` creates certificates,
tokens and kubeconfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kube_standin.api_server import ApiServer as ApiServer
    from kube_standin.faults import FaultTable as FaultTable
    from kube_standin.faults import InjectedFault as InjectedFault
    from kube_standin.snapshots import ServerSnapshot as ServerSnapshot

_MODULES = {"ApiServer": "api_server", "ServerSnapshot": "snapshots", "InjectedFault": "faults", "FaultTable": "faults"}
__all__ = ["ApiServer", "FaultTable", "InjectedFault", "ServerSnapshot"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: every test run imports the pytest plugin."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
