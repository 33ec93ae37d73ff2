"""DefaultBinder: bind by POST pods/NAME/binding with the pod's UID (scheduling.md 2)."""

from dataclasses import dataclass

from reprieve.framework.plugin import BindPlugin, CycleState


@dataclass(frozen=True, slots=True)
class ApiBinding:
    """A request to create the binding subresource; 409 and 404 are final, 5xx and timeouts are retried."""

    namespace: str
    name: str
    uid: str
    node: str


class DefaultBinder(BindPlugin):
    """The default last bind plugin of every profile."""

    name = "DefaultBinder"

    def bind(self, state: CycleState, row: int) -> ApiBinding:
        pod = state.pod
        return ApiBinding(pod.namespace, pod.name, pod.uid, state.cluster.nodes.names[row])
