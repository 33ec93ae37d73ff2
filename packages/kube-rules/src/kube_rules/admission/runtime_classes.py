"""RuntimeClass admission: pods get the overhead and the scheduling fields of the class that they name.

Rules: kube-apiserver 1.36, admission plugin RuntimeClass. Objects are plain data, as an API server stores them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_rules.admission.amounts import amounts
from kube_rules.json import Json


class RuntimeClassError(ValueError):
    """A pod that its RuntimeClass does not admit; `str()` is the reason in the server's response (403)."""


def missing_class(name: str) -> RuntimeClassError:
    """Return the refusal of a pod that names a missing class."""
    return RuntimeClassError(f'pod rejected: RuntimeClass "{name}" not found')


def apply_runtime_class(spec: Json, runtime_class: Json | None) -> None:
    """Merge a class into the spec of a new pod, in place; a second time changes nothing.

    Args:
        spec: The spec of the pod.
        runtime_class: The class that ``spec.runtimeClassName`` names; None if it names none.

    Raises:
        RuntimeClassError: The overhead or the node selector of the pod conflicts with its class.
    """
    fixed = ((runtime_class or {}).get("overhead") or {}).get("podFixed")
    overhead = spec.get("overhead")
    if (runtime_class or {}).get("overhead") is None:
        if overhead is not None:
            raise RuntimeClassError(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
    elif overhead is not None and _nano(overhead) != _nano(fixed):
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
    return {name: amount.nano for name, amount in amounts(resources).items()}


def merged_tolerations(tolerations: Sequence[Json]) -> list[Json]:
    """Return the tolerations that no other item covers; the first of equal tolerations stays."""
    merged: list[Json] = []
    for index, item in enumerate(tolerations):
        later = tolerations[index + 1 :]
        if any(_covers(wide, item) for wide in merged) or any(wide != item and _covers(wide, item) for wide in later):
            continue
        merged.append(item)
    return merged


def _covers(wide: Json, narrow: Json) -> bool:
    """Return whether one toleration tolerates everything that another one does."""
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
