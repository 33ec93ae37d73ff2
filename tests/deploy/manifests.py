"""The objects of deploy/ as kustomize would give them, read without kustomize.

Understood is what our files use: `resources` and `components` that are files or directories, and ConfigMaps of files.
"""

from __future__ import annotations

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
    for part in (*kustomization["resources"], *kustomization.get("components", ())):
        yield from objects(place / part)
    for wanted in kustomization.get("configMapGenerator", ()):
        named = {"name": wanted["name"], "namespace": wanted["namespace"], "labels": wanted["options"]["labels"]}
        files = dict(each.split("=") for each in wanted["files"])
        data = {key: (place / path).read_text() for key, path in files.items()}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": data}


def base() -> list[Json]:
    """What is installed in any case."""
    return list(objects(DEPLOY))


def component(name: str) -> list[Json]:
    """What one component adds."""
    return list(objects(DEPLOY / "components" / name))


def everything() -> list[Json]:
    """The base and all components."""
    return [*base(), *(found for name in COMPONENTS for found in component(name))]


def identity(obj: Json) -> str:
    """`Kind/name`, for messages."""
    return f"{obj['kind']}/{obj['metadata']['name']}"


_PLURALS = {"ConfigMap": "configmaps", "PodDisruptionBudget": "poddisruptionbudgets"}


def path_of(obj: Json) -> str:
    """The path of the object in the API."""
    group, _, version = obj["apiVersion"].rpartition("/")
    prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    plural = _PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
    return f"{prefix}{where}/{plural}/{obj['metadata']['name']}"
