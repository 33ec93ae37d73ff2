"""`tools/check_upgrade.py` notices what an upgrade may not do (docs/release.md); the run itself takes minutes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.docs.test_site import ROOT, tool


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return tool("check_upgrade")


def outcome(**changes: Any) -> tuple[Any, Any]:
    """A load, and what a watch saw of it: two pods, of which the second was evicted as expected."""
    seen = SimpleNamespace(nodes={"a": ["n1"], "low": ["n2"]}, gone={"low"}, failed={})
    for name, value in changes.items():
        setattr(seen, name, value)
    return SimpleNamespace(pods={"a", "low"}, victims={"low"}), seen


def test_upgrade_without_differences_passes(upgrade: ModuleType) -> None:
    upgrade.check(*outcome())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": {"a": [], "low": ["n2"]}}, "never bound"),
        ({"nodes": {"a": ["n1", "n2"], "low": ["n2"]}}, "bound twice"),
        ({"failed": {"a": "OutOfcpu"}}, "refused by a kubelet"),
        ({"gone": {"a", "low"}}, "evicted without reason"),
        ({"gone": set()}, "not evicted"),
    ],
)
def test_upgrade_that_loses_or_doubles_a_pod_fails(upgrade: ModuleType, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(upgrade.DifferenceError, match=message):
        upgrade.check(*outcome(**changes))


def test_schema_that_the_older_version_asks_for_is_found(upgrade: ModuleType, tmp_path: Path) -> None:
    """In the refusal of `records.migrations`; a replica that runs asks for none."""
    log = tmp_path / "log"
    log.write_text("error: ... use a newer reprieve, or with that `reprieve records migrate --to 2`\n")
    ended, running = SimpleNamespace(poll=lambda: 2), SimpleNamespace(poll=lambda: None)
    assert upgrade.too_new(SimpleNamespace(process=ended, log=log)) == "2"
    assert upgrade.too_new(SimpleNamespace(process=running, log=log)) == ""
