"""Definitions of custom resources for tests, and where their objects are."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "stable.example.com"
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def version(name: str = "v1", schema: Json | None = None, *, storage: bool = True, **more: Any) -> Json:
    """A version that is served."""
    schema = ANYTHING if schema is None else schema
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(*versions: Json, kind: str = "Widget", scope: str = "Namespaced", **spec: Any) -> Json:
    """Return a definition with the kind and an s as its plural."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": list(versions or (version(),)),
            **spec,
        },
    }


def place(name: str = "", at: str = "v1", plural: str = "widgets", namespace: str = "default") -> str:
    """The path of the objects of a definition, or of one of them."""
    inside = f"namespaces/{namespace}/" if namespace else ""
    return f"/apis/{GROUP}/{at}/{inside}{plural}" + (f"/{name}" if name else "")


def widget(name: str, at: str = "v1", kind: str = "Widget", **body: Any) -> Json:
    """A custom resource."""
    return {"apiVersion": f"{GROUP}/{at}", "kind": kind, "metadata": {"name": name}, **body}


def fields(**properties: Any) -> Json:
    """The schema of an object with these fields."""
    return {"type": "object", "properties": properties}
