"""`tools/check_upgrade.py` notices what an upgrade may not do (docs/release.md). Here it plays a hand-over between
processes of this version, which takes 20 s of processor time; that from another version needs a package index.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import uvloop

from tests.docs.test_site import ROOT, tool


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return tool("check_upgrade")


def outcome(**changes: Any) -> tuple[Any, Any]:
    """A load, and what a watch saw of it: pods that were evicted, ended and refused as expected, and one that runs."""
    nodes = {"a": ["n1"], "low": ["n2"], "brief": ["n3"], "long": ["n4"], "thief": []}
    seen = SimpleNamespace(nodes=nodes, gone={"low", "brief", "long"}, failed={})
    for name, value in changes.items():
        setattr(seen, name, {**nodes, **value} if name == "nodes" else value)
    sets = {"pods": {"a", "low", "brief", "long"}, "refused": {"thief"}, "victims": {"low"}}
    return SimpleNamespace(**sets, overran={"brief"}, ended={"long"}), seen


def test_upgrade_without_differences_passes(upgrade: ModuleType) -> None:
    upgrade.check(*outcome())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": {"a": []}}, "never bound"),
        ({"nodes": {"a": ["n1", "n2"]}}, "bound twice"),
        ({"nodes": {"thief": ["n3"]}}, "bound against a limit or a reservation"),
        ({"failed": {"a": "OutOfcpu"}}, "refused by a kubelet"),
        ({"gone": {"a", "low", "brief", "long"}}, "evicted without reason"),
        ({"gone": {"brief", "long"}}, "not evicted"),
        ({"gone": {"low", "long"}}, "not evicted"),
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


def test_replicas_hand_over_what_they_began(
    upgrade: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """reservations.md 3.6, 4.5; cost.md 9.4: the whole sequence, with this version in the place of the older one."""
    try:
        uvloop.run(upgrade.play(Path(sys.executable), tmp_path, while_leading=8))
    finally:
        for process in reversed(upgrade.Process.started):
            process.stop()
    assert (
        "3 preemptions, all in the history of both versions; 2 backfilled pods evicted in time; 4 pods kept from"
        in (capsys.readouterr().out)
    )
