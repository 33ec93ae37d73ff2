"""RuntimeClasses at the door: overhead and scheduling of a class become part of the pods that name it.

Rules: kube-apiserver 1.36, admission plugin RuntimeClass. Objects are plain data, as an API server stores them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_rules.admission.amounts import amounts
from kube_rules.json import Json


class RuntimeClassError(ValueError):
    """A pod that its RuntimeClass does not admit; `str()` is the reason that the server answers (403)."""


def missing_class(name: str) -> RuntimeClassError:
    """Return the refusal of a pod that names a class that does not exist."""
    return RuntimeClassError(f'pod rejected: RuntimeClass "{name}" not found')


def apply_runtime_class(spec: Json, runtime_class: Json | None) -> None:
    """Merge a class into the spec of a new pod, in place. Applying it twice is the same as once.

    Args:
        spec: The spec of the pod.
        runtime_class: The class that ``spec.runtimeClassName`` names; None if it names none.

    Raises:
        RuntimeClassError: The pod has other overhead than its class, or another node selector.
    """
    fixed = ((runtime_class or {}).get("overhead") or {}).get("podFixed")
    given = spec.get("overhead")
    if (runtime_class or {}).get("overhead") is None:
        if given is not None:
            raise RuntimeClassError(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
    elif given is not None and _nano(given) != _nano(fixed):
        raise RuntimeClassError("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    elif fixed:
        spec["overhead"] = dict(fixed)
    scheduling = (runtime_class or {}).get("scheduling")
    if scheduling is None:
        return
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        present = selector.setdefault(key, value)
        if present != value:
            raise RuntimeClassError(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = "
                f"{present}"
            )
    if selector:
        spec["nodeSelector"] = selector
    tolerations = merged_tolerations([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])
    if tolerations:
        spec["tolerations"] = tolerations


def _nano(resources: Json | None) -> dict[str, int]:
    return {name: one.nano for name, one in amounts(resources).items()}


def merged_tolerations(tolerations: Sequence[Json]) -> list[Json]:
    """Return tolerations without those that another one covers; of equal ones the first stays."""
    kept: list[Json] = []
    for index, one in enumerate(tolerations):
        later = tolerations[index + 1 :]
        if any(_covers(other, one) for other in kept) or any(other != one and _covers(other, one) for other in later):
            continue
        kept.append(one)
    return kept


def _covers(wide: Json, narrow: Json) -> bool:
    """Return whether one toleration tolerates all that another one does."""
    if wide == narrow:
        return True
    operator, effect = wide.get("operator", ""), wide.get("effect", "")
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if effect and narrow.get("effect", "") != effect:
        return False
    seconds = wide.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None:
        own = narrow.get("tolerationSeconds")
        if own is None or own > seconds:
            return False
    if operator in ("", "Equal"):
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return bool(operator == "Exists")
