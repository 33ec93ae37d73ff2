"""Simulated nodes and kubelets: bound pods start, run, end and stop without containers.

``Kubelets`` uses the sources and timers of a set of controllers; ``settings`` lists the annotations of nodes and pods.
"""

from __future__ import annotations

from kube_standin.controllers import ControllerSet
from kube_standin.kubelet.life import PodLife
from kube_standin.kubelet.settings import KubeletOptions

__all__ = ["KubeletOptions", "Kubelets"]


class Kubelets:
    """The simulated kubelets of one server; call ``begin`` after the controllers are set up and before they start."""

    def __init__(self, controllers: ControllerSet, options: KubeletOptions | None = None) -> None:
        self.options = options if options is not None else KubeletOptions()
        self._life = PodLife(controllers.context, self.options)

    def begin(self) -> None:
        """Create the nodes and adopt existing pods; raises StatusError for an invalid node manifest."""
        self._life.begin()

    def is_up(self, node: str) -> bool:
        """Return whether a node has a running simulated kubelet."""
        return self._life.fleet.is_up(node)

    def stop(self) -> None:
        """Stop the kubelets; nodes become silent, pods do not change."""
        self._life.stop()
