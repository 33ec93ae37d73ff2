"""Snapshots: back to an earlier state, in memory and by a file, while clients watch."""

from __future__ import annotations

import json
import stat
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kube_standin import ApiServer, ServerSnapshot
from kube_standin.snapshots import StateFileError, read_state, restore_objects
from kube_standin.storage import StorageError, Store
from kube_standin.storage.log import CommitLog
from tests.calls import MAPS, Json, ask, call, config_map, items, names
from tests.test_simulated_time import JOBS, PODS, START, job

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gangs.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Gang", "plural": "gangs"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "size": {"type": "integer"}}}}}
                },
            }
        ],
    },
}  # fmt: skip
GANGS = "/apis/example.com/v1/namespaces/default/gangs"
GANG: Json = {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": {"size": 2}}


def revision(api: ApiServer) -> int:
    return int(call(api, MAPS)["metadata"]["resourceVersion"])


def test_objects_come_back_and_revisions_go_on() -> None:
    with ApiServer(manifests=[config_map("kept", a="1"), config_map("changed", a="1"), config_map("gone")]) as api:
        before = {one["metadata"]["name"]: one for one in items(api, MAPS)}
        state = api.snapshot()
        call(api, f"{MAPS}/changed", config_map("changed", a="2"), "PUT")
        call(api, f"{MAPS}/gone", method="DELETE")
        call(api, MAPS, config_map("new"))
        reached = revision(api)
        for _ in range(2):
            api.restore(state)
            after = {one["metadata"]["name"]: one for one in items(api, MAPS)}
            assert after.keys() == before.keys()
            assert after["kept"] == before["kept"]
            for name in ("changed", "gone"):
                was, now = before[name]["metadata"], after[name]["metadata"]
                assert int(now["resourceVersion"]) > reached
                assert {**now, "resourceVersion": ""} == {**was, "resourceVersion": ""}
            assert after["changed"]["data"] == {"a": "1"}
        again = revision(api)
        call(api, MAPS, config_map("next"))
        assert revision(api) > again > reached


def test_watches_end_with_410_and_old_revisions_are_gone() -> None:
    with ApiServer() as api:
        state, since = api.snapshot(), revision(api)
        call(api, MAPS, config_map("new"))
        api.restore(state)
        path = f"{MAPS}?watch=1&resourceVersion={since}&timeoutSeconds=1"
        _, event, _ = ask(api, path)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_custom_resources_and_controllers_follow() -> None:
    with ApiServer(nodes=1, clock=START, manifests=[CRD, GANG, job("work", 100)]) as api:
        api.advance(seconds=10)
        state = api.snapshot()
        call(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gangs.example.com", method="DELETE")
        api.advance(seconds=200)
        assert ask(api, GANGS)[0] == 404
        assert items(api, JOBS)[0]["status"]["succeeded"] == 1
        api.restore(state)
        assert api.now == state.moment
        assert names(api, GANGS) == ["g"]
        assert items(api, PODS)[0]["status"]["phase"] == "Running"
        api.advance(seconds=80)
        assert "succeeded" not in items(api, JOBS)[0]["status"]
        api.advance(seconds=20)
        assert items(api, JOBS)[0]["status"]["succeeded"] == 1


def test_state_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with ApiServer(nodes=2, manifests=[CRD, GANG, config_map("a", b="c")]) as api:
        api.save(path)
        saved = {name: call(api, name) for name in (f"{MAPS}/a", f"{GANGS}/g")}
        reached = revision(api)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for data_dir in (None, tmp_path / "data"):
        with ApiServer(state=path, data_dir=data_dir) as api:
            assert names(api, "/api/v1/nodes") == ["node-1", "node-2"]
            for name, obj in saved.items():
                found = call(api, name)
                assert found["metadata"]["uid"] == obj["metadata"]["uid"]
                assert int(found["metadata"]["resourceVersion"]) > reached
                versions = {"resourceVersion": obj["metadata"]["resourceVersion"]}
                assert {**found, "metadata": found["metadata"] | versions} == obj
    with ApiServer(data_dir=tmp_path / "data") as api:
        assert call(api, f"{GANGS}/g")["spec"] == {"size": 2}


def _state() -> ServerSnapshot:
    return ServerSnapshot((), 5, datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: b"", "not a state that kube-standin saved"),
        (lambda text: b"apiVersion: v1\n", "not a state that kube-standin saved"),
        (lambda text: b'{"kind":"List"}\n', "not a state that kube-standin saved"),
        (lambda text: text.replace(b'State":1', b'State":9'), "format 9, this version reads 1"),
        (lambda text: text.replace(b'"revision":5', b'"revision":6'), "damaged or truncated"),
        (lambda text: text.splitlines(keepends=True)[0], "damaged or truncated"),
        (lambda text: checked(text.replace(b'"objects":0', b'"objects":1').splitlines(True)[0], b"[1]\n"), "line 2: "),
    ],
)
def test_file_that_is_no_state_is_refused(damage: object, why: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    _state().save(path)
    assert read_state(path) == _state()
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(StateFileError, match=rf"^{path}: .*{why}"), ApiServer(state=path):
        pass


def checked(*lines: bytes) -> bytes:
    return b"".join(lines) + b"%08x\n" % zlib.crc32(b"".join(lines))


def test_save_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        _state().save(tmp_path / "no" / "state")
    (tmp_path / "state").mkdir()
    with pytest.raises(OSError, match="directory"):
        _state().save(tmp_path / "state")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_restore_that_cannot_be_written_changes_nothing() -> None:
    class FullLog(CommitLog):
        def append(self, rows: object) -> None:
            raise StorageError("the disk is full")

    store = Store(FullLog())
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    from kube_standin.storage import StoredObject

    with pytest.raises(StorageError, match="full"):
        restore_objects(store, ServerSnapshot((StoredObject("configmaps", "default", "a", 5, body),), 5, START))
    assert (store.revision, store.count("configmaps")) == (1, 0)
