"""Where third-party plugins come from, and how a configuration reaches them (scheduling.md 5, docs/plugins.md)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.scheduling.profiles import IN_TREE_NAMES, profiles_of
from reprieve.scheduling.third_party_plugins import GROUP, PluginLoadError, third_party
from tests.building import World, node, pod
from tests.cli.conftest import Run, run  # noqa: F401

HERE = "tests.scheduling.third_party_plugins"
NODES = [node("n1"), node("n2"), node("n3")]
FILE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def offered(name: str, kind: str, module: str = HERE) -> EntryPoint:
    return EntryPoint(name, f"{module}:{kind}", GROUP)


def profiles(
    document: Mapping[str, object], *named: str, entry_points: tuple[EntryPoint, ...] = ()
) -> dict[str, Profile]:
    found = third_party(named, in_tree=IN_TREE_NAMES, entry_points=entry_points)
    made = profiles_of(configuration_of({**FILE, **document}), FeatureGates(), found)
    return {profile.name: profile for profile in made}


def where(chosen: dict[str, Profile], scheduler: str = "default-scheduler") -> str:
    return World(*NODES, pod("p", cpu=1, scheduler=scheduler), profiles=chosen).settle().where["p"]


ENTRY = (offered("Wants", "Wants"), offered("Vectorised", "Vectorised"))


@pytest.mark.parametrize(
    ("document", "named", "expected"),
    [
        pytest.param({}, (), "n1", id="offered by a package, not enabled: not called"),
        pytest.param({}, (f"{HERE}:Wants",), "n3", id="named on the command line: enabled everywhere"),
        pytest.param(
            {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Wants"}]}}}]},
            (),
            "n3",
            id="enabled at every point",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "Vectorised", "weight": 5}]}}}]},
            (),
            "n3",
            id="vectorised, with a weight",
        ),
        pytest.param(
            {
                "profiles": [
                    {
                        "plugins": {"filter": {"enabled": [{"name": "Wants"}]}},
                        "pluginConfig": [{"name": "Wants", "args": {"kind": "X", "wantedNodes": ["n2"]}}],
                    }
                ]
            },
            (),
            "n2",
            id="args; enabled as a filter, so its score does not count",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Wants"}]}}}]},
            (f"{HERE}:Wants",),
            "n1",
            id="named, but a profile mentions it: that counts",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "Wants"}]}}}]},
            (f"{HERE}:Wants",),
            "n1",
            id="named, but a profile disables it",
        ),
    ],
)
def test_enabled_by_a_configuration_or_by_name(
    document: dict[str, object], named: tuple[str, ...], expected: str
) -> None:
    """scheduling.md 5: configured like in-tree ones; entry points are known, not enabled."""
    assert where(profiles(document, *named, entry_points=ENTRY)) == expected


def test_each_profile_has_an_instance_of_its_own() -> None:
    """Two profiles with different args decide differently, by schedulerName."""
    chosen = profiles(
        {
            "profiles": [
                {
                    "schedulerName": name,
                    "plugins": {"filter": {"enabled": [{"name": "Wants"}]}},
                    "pluginConfig": [{"name": "Wants", "args": {"wantedNodes": [wanted]}}],
                }
                for name, wanted in (("a", "n1"), ("b", "n2"))
            ]
        },
        entry_points=ENTRY,
    )
    assert (where(chosen, "a"), where(chosen, "b")) == ("n1", "n2")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("Wants", "'Wants': expected MODULE:CLASS"),
        (f"{HERE}:", "expected MODULE:CLASS"),
        ("tests.no_such_module:X", "importing tests.no_such_module failed: ModuleNotFoundError"),
        (f"{HERE}:Missing", "has no 'Missing'"),
        (f"{HERE}:NoPlugin", "does not derive from reprieve.Plugin"),
        (f"{HERE}:PoolArgs", "does not derive from reprieve.Plugin"),
        (f"{HERE}:everything", "does not derive from reprieve.Plugin"),
        (f"{HERE}:Nameless", "has no name"),
        (f"{HERE}:NoPoint", "extends no extension point"),
        (f"{HERE}:Clash", "the name 'NodeName' is taken by a plugin that comes with reprieve"),
    ],
)
def test_reference_that_cannot_be_used_is_one_clear_error(reference: str, message: str) -> None:
    with pytest.raises(PluginLoadError, match=message) as caught:
        third_party([reference], in_tree=IN_TREE_NAMES, entry_points=())
    assert "\n" not in str(caught.value)


def test_same_name_twice() -> None:
    with pytest.raises(PluginLoadError, match="is already given"):
        third_party([f"{HERE}:Wants", f"{HERE}:Wants"], entry_points=())
    with pytest.raises(PluginLoadError, match="is taken by entry point Wants = other:Wants"):
        third_party([f"{HERE}:Wants"], entry_points=(offered("Wants", "Wants", "other"),))
    assert third_party([f"{HERE}:Wants"], entry_points=ENTRY).named_plugins == ("Wants",)


ENABLES = {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "X"}]}}}]}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ((offered("X", "Wants"),), "the name of the class is 'Wants', not 'X'"),
        ((offered("X", "Missing"),), "has no 'Missing'"),
        ((offered("X", "X", "tests.no_such_module"),), "ModuleNotFoundError"),
        ((offered("X", "A", "one"), offered("X", "A", "two")), "offered by several packages"),
    ],
)
def test_entry_point_is_not_loaded_before_it_is_enabled(points: tuple[EntryPoint, ...], message: str) -> None:
    """A broken package does not disturb users of others."""
    assert where(profiles({}, entry_points=points)) == "n1"
    with pytest.raises(ConfigurationError, match=message) as caught:
        profiles(ENABLES, entry_points=points)
    assert caught.value.path == "profiles[0].plugins"


@pytest.mark.parametrize(
    ("name", "args", "path", "message"),
    [
        ("Wants", {"score": 2000}, "profiles[0].pluginConfig[0].args", "could not be made: ValueError: no score is"),
        ("Wants", {"score": "x"}, "profiles[0].pluginConfig[0].args.score", "expected `int`, got `str`"),
        ("Wants", {"nodes": 1}, "profiles[0].pluginConfig[0].args.nodes", "unknown field"),
        ("Wants", {"scoer": 1}, "profiles[0].pluginConfig[0].args.scoer", 'unknown field, did you mean "score"'),
        ("Vectorised", {"x": 1}, "profiles[0].pluginConfig[0].args", "this plugin takes no args"),
        ("NeedsArgs", {}, "profiles[0].pluginConfig[0].args", "could not be made: TypeError"),
        ("BadEvents", {}, "profiles[0].pluginConfig[0].args", "running EventsToRegister plugin 'BadEvents': KeyError"),
    ],
)
def test_args_that_do_not_fit_and_plugins_that_cannot_be_made(
    name: str, args: dict[str, object], path: str, message: str
) -> None:
    document = {
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": name}]}},
                "pluginConfig": [{"name": name, "args": args}],
            }
        ]
    }
    with pytest.raises(ConfigurationError, match=message) as caught:
        profiles(document, entry_points=(offered(name, name),))
    assert caught.value.path == path


MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n3}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_named_on_the_command_line(run: Run) -> None:  # noqa: F811
    """`--plugin module:Class` with `plan`; a bad one ends with exit code 2 and one line."""
    ended = run("plan", "-f", "-", "-o", "json", "--plugin", f"{HERE}:Wants", stdin=MANIFESTS)
    assert (ended.code, ended.err) == (0, "")
    assert '"nodeName": "n3"' in ended.out
    ended = run("plan", "-f", "-", "--plugin", f"{HERE}:Clash", stdin=MANIFESTS)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: --plugin {HERE}:Clash: the name 'NodeName' is taken")
    assert ended.err.count("\n") == 1
    ended = run("plan", "-f", "-", "--plugin", f"{HERE}:NeedsArgs", stdin=MANIFESTS)
    assert ended.code == 2
    assert "error: --plugin: plugin 'NeedsArgs' could not be made: TypeError" in ended.err
    ended = run("plan", "-f", "-", "--plugin", f"{HERE}:Wants", "--plugin-timeout", "soon", stdin=MANIFESTS)
    assert (ended.code, "--plugin-timeout: 'soon': expected a duration" in ended.err) == (2, True)


def test_package_that_is_installed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The entry point group `reprieve.plugins` of whatever is installed."""
    info = tmp_path / "site" / "somebody_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nWants = {HERE}:Wants\nBroken = no.such.module:Broken\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "profiles: [{plugins: {multiPoint: {enabled: [{name: Wants}]}}}]\n")
    ended = run("plan", "-f", "-", "-o", "json", "--config", config, stdin=MANIFESTS)
    assert (ended.code, ended.err) == (0, "")
    assert '"nodeName": "n3"' in ended.out
    config.write_text(HEAD + "profiles: [{plugins: {multiPoint: {enabled: [{name: Broken}]}}}]\n")
    ended = run("plan", "-f", "-", "--config", config, stdin=MANIFESTS)
    assert ended.code == 2
    assert f"error: {config}: profiles[0].plugins: plugin 'Broken' could not be made: PluginLoadError" in ended.err
