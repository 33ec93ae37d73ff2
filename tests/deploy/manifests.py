"""The objects of deploy/ as kustomize would give them, read without kustomize.

Understood is what our files use: `resources` and `components` that are files or directories, ConfigMaps of files, and
JSON patches that add.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPONENTS = tuple(sorted(path.name for path in (DEPLOY / "components").iterdir()))
Json = dict[str, Any]


def objects(place: Path) -> Iterator[Json]:
    """All objects of a file or of a directory with a kustomization."""
    if place.is_file():
        yield from (document for document in yaml.safe_load_all(place.read_text()) if document)
        return
    kustomization = yaml.safe_load((place / "kustomization.yaml").read_text())
    for part in (*kustomization.get("resources", ()), *kustomization.get("components", ())):
        yield from objects(place / part)
    for wanted in kustomization.get("configMapGenerator", ()):
        named = {"name": wanted["name"], "namespace": wanted["namespace"], "labels": wanted["options"]["labels"]}
        files = dict(each.split("=") for each in wanted["files"])
        data = {key: (place / path).read_text() for key, path in files.items()}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": data}


def patch(installed: list[Json], place: Path) -> None:
    """Change objects as the patches of a component do: `add` of JSON patches."""
    for wanted in yaml.safe_load((place / "kustomization.yaml").read_text()).get("patches", ()):
        target = (wanted["target"]["kind"], wanted["target"]["name"])
        [obj] = [obj for obj in installed if (obj["kind"], obj["metadata"]["name"]) == target]
        for operation in json.loads((place / wanted["path"]).read_text()):
            assert operation["op"] == "add"
            *steps, last = operation["path"].strip("/").split("/")
            inner: Any = obj
            for step in steps:
                inner = inner[int(step)] if isinstance(inner, list) else inner[step]
            if last == "-":
                inner.append(operation["value"])
            else:
                inner[last] = operation["value"]


def base() -> list[Json]:
    """What is installed in any case."""
    return list(objects(DEPLOY))


def component(name: str) -> list[Json]:
    """What one component adds."""
    return list(objects(DEPLOY / "components" / name))


def with_components(*names: str) -> list[Json]:
    """The base and some components, which may change what is in the base."""
    installed = [*base(), *(obj for name in names for obj in component(name))]
    for name in names:
        patch(installed, DEPLOY / "components" / name)
    return installed


def everything() -> list[Json]:
    """The base and all components."""
    return with_components(*COMPONENTS)


def identity(obj: Json) -> str:
    """`Kind/name`, for messages."""
    return f"{obj['kind']}/{obj['metadata']['name']}"


_PLURALS = {
    "ConfigMap": "configmaps",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
}
OTHERS = ("monitoring.coreos.com/", "cert-manager.io/")
"""Groups of operators that a test server does not have."""


def path_of(obj: Json) -> str:
    """The path of the object in the API."""
    group, _, version = obj["apiVersion"].rpartition("/")
    prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    plural = _PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
    return f"{prefix}{where}/{plural}/{obj['metadata']['name']}"
