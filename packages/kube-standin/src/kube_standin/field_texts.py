"""The documentation of Kubernetes' types and fields, read from the package kubernetes-validate if installed.

The texts belong to Kubernetes, so they are not part of kube-standin: its extra `descriptions` installs the package that
publishes them. Only files of that package are read, none of its code is imported. Reading takes about 20 ms, once per
process, when the first document or table needs a text.
"""

from __future__ import annotations

import importlib.util
import logging
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from kube_rules.schema import definitions

log = logging.getLogger("reprieve.apiserver")

MISSING: Final = "No description: pip install 'kube-standin[descriptions]' adds the texts of Kubernetes."
"""The description of a type without the package."""
_VERSIONS: Final = ("1.37.0", "1.36.0")
"""Kubernetes versions of the texts, in order of precedence. The second has kinds that the first has removed."""
_MOST_BYTES: Final = 16 * 1024 * 1024


class _Field(msgspec.Struct):
    description: str = ""


class TypeTexts(msgspec.Struct):
    """The documentation of a type, and of its fields by name."""

    description: str = ""
    properties: dict[str, _Field] = {}

    def field(self, name: str) -> str:
        """Return the documentation of a field, "" if there is none."""
        entry = self.properties.get(name)
        return entry.description if entry is not None else ""


class _Definitions(msgspec.Struct):
    types: dict[str, TypeTexts] = msgspec.field(name="$defs")


NO_TEXTS: Final = TypeTexts()


def texts_of(name: str) -> TypeTexts:
    """Return the texts of a type by its full definition name, or empty ones."""
    return _texts().get(name, NO_TEXTS)


def type_text(name: str) -> str:
    """Return the documentation of a type; for a kind without one, how to install the texts."""
    text = texts_of(name).description
    if not text and not _texts() and "x-kubernetes-group-version-kind" in definitions.structure().get(name, ()):
        return MISSING
    return text


@cache
def _texts() -> dict[str, TypeTexts]:
    """Return the texts of all served types; none if the package is missing or invalid."""
    all_texts: dict[str, TypeTexts] = {}
    spec = importlib.util.find_spec("kubernetes_validate")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for version in _VERSIONS:
            path = Path(folder) / "kubernetes-json-schema" / f"v{version}-local" / "_definitions.json"
            for name, texts in _read(path).items():
                if name in definitions.structure():
                    all_texts.setdefault(name, texts)
    return all_texts | {name: all_texts[older] for name, older in definitions.same_form().items() if older in all_texts}


def _read(path: Path) -> dict[str, TypeTexts]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"larger than {_MOST_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=_Definitions).types
    except (OSError, ValueError) as error:
        log.warning("no descriptions of fields from %s: %s", path, error)
        return {}
