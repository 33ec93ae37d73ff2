"""The package does no I/O and reads no clock (its imports are held by import-linter)."""

from __future__ import annotations

import ast
from pathlib import Path

import kube_rules

SOURCES = sorted(Path(kube_rules.__file__).parent.rglob("*.py"))
IMPURE = {"now", "utcnow", "today", "open", "input", "print"}


def test_nothing_is_opened_printed_or_read_off_a_clock() -> None:
    calls = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in IMPURE:
                    calls.append(f"{path.name}:{node.lineno}: {name}")
    assert len(SOURCES) > 50
    assert not calls
