"""Documentation of fields: from the package kubernetes-validate, or without it a hint at how to get it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kube_standin import field_texts
from kube_standin.openapi import components
from kube_standin.openapi.components import V2, V3
from kube_standin.tables.columns import AGE

POD = "io.k8s.api.core.v1.Pod"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that sets in which folders the package is found, None for no package."""

    def found_in(*folders: Path | None) -> None:
        spec = None if None in folders else SimpleNamespace(submodule_search_locations=[str(one) for one in folders])
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        field_texts._texts.cache_clear()

    yield found_in
    field_texts._texts.cache_clear()


def test_types_and_fields_have_their_texts() -> None:
    assert field_texts.texts_of(POD).field("metadata")
    assert field_texts.texts_of("io.k8s.api.scheduling.v1alpha2.PodGroup").description, "a kind that 1.37 lost"
    assert components.definition(POD, V3)["properties"]["spec"]["description"]
    assert AGE.definition()["description"]
    assert field_texts.texts_of("com.example.Unknown") == field_texts.NO_TEXTS


@pytest.mark.parametrize("dialect", [V2, V3])
def test_without_the_package_kinds_state_how_to_get_it(package: Any, dialect: components.Dialect) -> None:
    package(None)
    pod = components.definition(POD, dialect)
    assert pod["description"] == field_texts.MISSING
    assert "pip install 'kube-standin[descriptions]'" in field_texts.MISSING
    assert "description" not in pod["properties"]["spec"]
    assert pod["properties"]["spec"].keys() & {"$ref", "allOf"}
    assert pod["properties"]["kind"]["type"] == "string"
    assert "description" not in components.definition("io.k8s.api.core.v1.PodSpec", dialect)
    assert AGE.definition()["description"] == ""


@pytest.mark.parametrize("content", [b"{", b"[]", b" " * (16 * 1024 * 1024 + 1), None])
def test_package_that_cannot_be_read_costs_a_warning(
    package: Any, content: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version in ("1.37.0", "1.36.0"):
        path = tmp_path / "kubernetes-json-schema" / f"v{version}-local" / "_definitions.json"
        path.parent.mkdir(parents=True)
        if content is not None:
            path.write_bytes(content)
    package(tmp_path)
    assert field_texts.type_text(POD) == field_texts.MISSING
    assert "no descriptions of fields from" in caplog.text
