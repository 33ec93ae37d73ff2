"""deploy/locks pins what the packages need, with hashes; the check needs no network (docs/release.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.test_site import ROOT, tool

HASH = "    --hash=sha256:" + "0" * 64
GOOD = (
    f"# needs: a>=1\n# needs: b[x]\na==1.5 ; python_version < '3.12' \\\n{HASH}\na==2.0 \\\n{HASH}\nB==3 \\\n{HASH}\n"
)


def test_locks_match_the_packages() -> None:
    """What `make lint` runs."""
    tool("lock").check()


def test_own_packages_are_not_pinned_and_extras_of_theirs_are() -> None:
    needs = tool("lock").needs()
    assert not [need for lock in needs.values() for need in lock if need.startswith(("kube-rules", "kube-standin"))]
    assert any(need.startswith("hypothesis") for need in needs["dev"]), (
        "reprieve[dev] -> kube-standin[test] -> kube-rules"
    )
    assert any(need.startswith("psycopg") for need in needs["image"])
    assert not any(need.startswith(("pytest", "ruff")) for need in needs["image"])
    assert any(need.startswith("hatchling") for need in needs["build"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (GOOD, ""),
        (GOOD.replace("# needs: a>=1", "# needs: a>=0"), "was written for a>=0, unlike pyproject.toml"),
        (GOOD.replace("# needs: b[x]\n", ""), "was written without b[x], unlike pyproject.toml"),
        (GOOD.replace("a==1.5", "a==0.5"), "pins a 0.5, 2.0; needed is a>=1"),
        (GOOD.replace("B==3", "c==3"), "pins b not at all; needed is b[x]"),
        (GOOD.replace(f"B==3 \\\n{HASH}", "B==3"), "line 7: b 3 has no hash"),
        (GOOD.replace("B==3 ", "B>=3 "), r"line 7: 'B>=3 \\' pins no release"),
    ],
)
def test_faults_of_a_lock_are_named(changed: str, message: str) -> None:
    found = list(tool("lock").faults("x", ["a>=1", "b[x]"], changed))
    assert [fault for fault in found if message in fault] if message else found == []
    assert all(fault.startswith("deploy/locks/x.txt") for fault in found)


def test_changed_package_needs_another_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole check, with a dependency that is in no lock."""
    lock = tool("lock")
    shutil.copytree(ROOT / "deploy" / "locks", tmp_path / "deploy" / "locks")
    for name in lock.PACKAGES:
        text = (ROOT / "packages" / name / "pyproject.toml").read_text()
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "pyproject.toml").write_text(text.replace('"numpy>=2.0"', '"numpy>=99"'))
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    with pytest.raises(lock.LockError, match=r"image\.txt pins numpy .*; needed is numpy>=99[\s\S]*run `make lock`"):
        lock.check()
