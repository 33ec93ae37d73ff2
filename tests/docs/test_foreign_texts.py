"""No documentation of Kubernetes' fields is in the repository, and so none in the wheels, which hold files of it only.

The texts to look for are those of kubernetes-validate. A run of ten words of one is a copy if it has at least two
words that only sentences have; names, patterns and lists of keywords have none. The messages that an API server answers
are upstream's, also where the documentation of a field quotes one.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import zlib
from functools import cache
from pathlib import Path

import pytest

from kube_rules.schema import definitions
from kube_standin.field_texts import texts_of

ROOT = Path(__file__).resolve().parents[2]
_LENGTH = 10
_OF_SENTENCES = (
    "the",
    "a",
    "an",
    "of",
    "is",
    "are",
    "be",
    "to",
    "and",
    "or",
    "that",
    "this",
    "it",
    "which",
    "with",
    "by",
)
_MESSAGES = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '') "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
    "must point to a field of type string, boolean or integer",
    "at least one of resourceRules and nonResourceRules has to be non-empty",
    "the timeout value must be between 1 and 30 seconds",
)
_WORD = re.compile(r"[a-z0-9]+")
_CHARACTER_CLASS = re.compile(r"\[[^\]\s]*\]")
"""A part of a pattern such as [a-z]: its letters are no words."""


def runs(text: str) -> set[tuple[str, ...]]:
    """Every run of words of a text that counts."""
    words = _WORD.findall(_CHARACTER_CLASS.sub(" ", text.lower()))
    every = {tuple(words[at : at + _LENGTH]) for at in range(len(words) - _LENGTH + 1)}
    return {run for run in every if sum(word in _OF_SENTENCES for word in run) >= 2}


@cache
def kubernetes_runs() -> frozenset[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for name in definitions.structure():
        texts = texts_of(name)
        found |= runs(texts.description)
        for field in texts.properties.values():
            found |= runs(field.description)
    return frozenset(found.difference(*map(runs, _MESSAGES)))


def unpacked(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".xz":
        content = lzma.decompress(content)
    elif path.suffix == ".gz":
        content = zlib.decompress(content, wbits=31)
    return content.decode(errors="ignore")


def copied(text: str) -> list[str]:
    return sorted(" ".join(run) for run in runs(text) & kubernetes_runs())


def test_no_file_has_sentences_of_kubernetes() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    assert any(path.name == "structure.json.xz" for path in files)
    found = {str(path.relative_to(ROOT)): copies[0] for path in files if (copies := copied(unpacked(path)))}
    assert not found


@pytest.mark.parametrize("before", ["", "  description: |\n    ", "# "])
def test_copy_is_found(before: str) -> None:
    text = texts_of("io.k8s.api.core.v1.PodSpec").field("activeDeadlineSeconds")
    assert copied(before + text.replace(". ", ".\n"))
