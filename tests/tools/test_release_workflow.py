"""Workflows take actions by commit, with few rights; the plugin's manifest is krew's (docs/release.md)."""

from __future__ import annotations

import hashlib
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_site import ROOT, tool

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text())["jobs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """With the tag beside it for people; the same commit for the same tag everywhere."""
    used = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" +# v\d+\.\d+\.\d+", comment), action


def test_one_commit_of_each_action() -> None:
    commits: dict[str, set[str]] = {}
    for action in re.findall(r"uses: (\S+)", "".join(path.read_text() for path in WORKFLOWS)):
        name, _, commit = action.partition("@")
        commits.setdefault(name, set()).add(commit)
    assert not {name: found for name, found in commits.items() if len(found) > 1}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_write_only_what_they_state(path: Path) -> None:
    """Nothing by default, an end, and no input inside a script."""
    document = yaml.safe_load(path.read_text())
    assert document["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        assert job["timeout-minutes"] <= 90, name
        for step in job["steps"]:
            assert not re.search(r"\$\{\{ *(github\.|inputs|steps)", step.get("run", "")), name
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False, "no later step needs the token in .git/config"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_expressions_name_what_there_is(path: Path) -> None:
    """Earlier steps by their id, variables of the workflow or of an earlier step, keys of the matrix, jobs."""
    document = yaml.safe_load(path.read_text())
    for job in jobs(path).values():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        known = {f"matrix.{key}" for row in rows for key in row} | {f"env.{name}" for name in document.get("env", {})}
        assert all(row.keys() == rows[0].keys() for row in rows)
        assert {job.get("needs")} <= {None, *document["jobs"]}
        for step in job["steps"]:
            for kind, name in re.findall(r"\b(steps|matrix|env)\.(\w+)", " ".join(expressions(step))):
                assert f"{kind}.{name}" in known, step
            known |= {f"env.{name}" for name in re.findall(r'echo "(\w+)=[^\n]*GITHUB_ENV', step.get("run", ""))}
            known |= {f"steps.{step['id']}"} if "id" in step else set()


def expressions(part: Any) -> list[str]:
    """All expressions in a part of a workflow."""
    if isinstance(part, str):
        return re.findall(r"\$\{\{(.*?)\}\}", part)
    items = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [found for item in items for found in expressions(item)]


def test_release_signs_and_attests_what_it_publishes() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yaml")
    for name in ("wheels", "image", "chart"):
        steps = release[name]["steps"]
        assert any("attest-build-provenance@" in step.get("uses", "") for step in steps), name
        assert any("cosign sign" in step.get("run", "") for step in steps), name
        assert release[name]["permissions"]["id-token"] == "write", name
    [build] = [step["with"] for step in release["image"]["steps"] if "build-push-action" in step.get("uses", "")]
    assert build["platforms"] == "linux/amd64,linux/arm64"
    assert build["build-args"] == "BASE=${{ steps.base.outputs.name }}"
    assert (build["sbom"], build["provenance"]) == (True, "mode=max")


def test_plugin_manifest_has_the_hash_of_each_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tool("kubectl_plugin")
    monkeypatch.setattr(plugin, "DIST", tmp_path)
    with pytest.raises(SystemExit, match="no archive"):
        plugin.manifest("https://example.com")
    texts = {"linux-amd64": b"a", "darwin-arm64": b"b"}
    for platform, text in texts.items():
        (tmp_path / f"kubectl-reprieve-{platform}.tar.gz").write_bytes(text)
    made = plugin.manifest("https://example.com/v1/")
    assert (made["apiVersion"], made["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert len(made["spec"]["shortDescription"]) <= 50
    assert re.fullmatch(r"v\d+\.\d+\.\d+", made["spec"]["version"])
    for entry in made["spec"]["platforms"]:
        platform = "-".join(entry["selector"]["matchLabels"][key] for key in ("os", "arch"))
        assert entry["uri"] == f"https://example.com/v1/kubectl-reprieve-{platform}.tar.gz"
        assert entry["sha256"] == hashlib.sha256(texts.pop(platform)).hexdigest()
        assert entry["bin"] == "kubectl-reprieve"
    assert not texts
    (tmp_path / "kubectl-reprieve-windows-amd64.tar.gz").write_bytes(b"")
    with pytest.raises(SystemExit, match="windows-amd64"):
        plugin.manifest("https://example.com")


def test_plugin_launcher_says_what_it_lacks(tmp_path: Path) -> None:
    """Without Python 3.11 on the PATH: one line and exit code 2."""
    launcher = tmp_path / "kubectl-reprieve"
    launcher.write_text(tool("kubectl_plugin").LAUNCHER)
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "bin").mkdir()
    for name in ("dirname", "readlink"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    ended = subprocess.run([launcher], env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (2, "error: kubectl reprieve needs python3.11 on the PATH\n")


def test_nothing_is_published_of_what_did_not_pass() -> None:
    """Every job waits for the one that runs CI, and a pipe fails with its first command."""
    path = ROOT / ".github" / "workflows" / "release.yaml"
    release = jobs(path)
    assert ".ci/run" in [step.get("run") for step in release["wheels"]["steps"]]
    for name in release:
        while name != "wheels":
            name = release[name]["needs"]
    assert yaml.safe_load(path.read_text())["defaults"] == {"run": {"shell": "bash"}}
