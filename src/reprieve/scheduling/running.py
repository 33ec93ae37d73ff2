"""A profile at work: plugins, the evaluator that runs them, and the picture they read."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.framework.status import PluginError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RunningProfile:
    """What the cycles need to decide for pods of one schedulerName."""

    cluster: ClusterState
    profile: Profile
    evaluator: Evaluator
    gates: FeatureGates
    complaints: deque[PluginError] = field(default_factory=lambda: deque(maxlen=1000))
    """Errors of plugins, for whoever keeps the log (`Engine.take_plugin_incidents`)."""

    @staticmethod
    def contained(plugin: str, point: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a plugin; whatever it raises becomes a PluginError that names it (scheduling.md 5)."""
        try:
            return call(*args, **kwargs)
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(plugin, point, error) from error
