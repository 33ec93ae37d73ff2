"""Write YAML that every parser reads as the same data.

Readers of YAML 1.1 and 1.2, in Go and in Python, disagree on what is text: `y`, `on`, `1e3`, `0o17`, `12:30`. Here a
text stands without quotes only if no reader takes it for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from kube_rules.printable import printable

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes text that is not plainly text; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Shared values are written out."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    quoted = "'" if printable(text) == text else '"'  # which have escapes
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else quoted)


_Dumper.add_representer(str, _text)


def yaml_of(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the documents as one stream, keys in their order; characters that do not print are YAML's escapes."""
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return printable(text)
