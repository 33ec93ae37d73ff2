"""Simulated nodes and kubelets: pods that are bound start, run, end and stop, without a container anywhere.

``Kubelets`` plays them over the sources and timers of a set of controllers; ``settings`` lists what objects
can state about nodes and pods.
"""

from __future__ import annotations

from kube_standin.controllers import ControllerSet
from kube_standin.kubelet.life import PodLife
from kube_standin.kubelet.settings import KubeletOptions

__all__ = ["KubeletOptions", "Kubelets"]


class Kubelets:
    """The simulated kubelets of one server; ``begin`` once the controllers are set up, before they start."""

    def __init__(self, controllers: ControllerSet, options: KubeletOptions | None = None) -> None:
        self.options = options if options is not None else KubeletOptions()
        self._life = PodLife(controllers.context, self.options)

    def begin(self) -> None:
        """Make the nodes and take up the pods that are there; raises StatusError for a bad node manifest."""
        self._life.begin()

    def is_up(self, node: str) -> bool:
        """Return whether a simulated kubelet works on a node."""
        return self._life.fleet.is_up(node)

    def stop(self) -> None:
        """Stop; nodes fall silent, pods stay as they are."""
        self._life.stop()
