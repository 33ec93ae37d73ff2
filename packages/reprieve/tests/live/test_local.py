"""What `reprieve up` starts its scheduler with, and the port it keeps for it."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from kube_standin.server.control_plane import MEMORY, ServeOptions, serving
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import ApiClient
from reprieve.live.local import kept_port, scheduler_command


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "directory"])
def test_decision_records_are_kept_where_the_cluster_is(kept: bool, tmp_path: Path) -> None:
    """interfaces.md `reprieve up`: a cluster in memory leaves no file, one in a directory its decisions there."""

    async def run() -> None:
        async with serving(ServeOptions(data_dir=tmp_path if kept else MEMORY)) as server:
            command = scheduler_command(server, 1234, ["--v=3"])
            assert command[:4] == [sys.executable, "-m", "reprieve.cli.child_process", "scheduler"]
            assert {"--no-leader-elect", "--port=1234", "--bind-address=127.0.0.1"} < set(command)
            assert command[-1] == "--v=3"
            records = [argument for argument in command if argument.startswith("--records=")]
            assert records == ([f"--records={server.directory / 'decisions.db'}"] if kept else [])
            [kubeconfig] = [argument.partition("=")[2] for argument in command if argument.startswith("--kubeconfig=")]
            async with ApiClient(connect(Path(kubeconfig))) as client:  # it may do everything
                assert (await client.get("/api/v1/nodes")).read(dict)["items"] == []

    asyncio.run(run())


def test_kept_port_is_taken_by_its_number_alone() -> None:
    """The child listens on it as often as it is started; a process that asks for any port does not get it."""
    with kept_port(0) as port:
        for _ in range(2):
            with socket.socket() as child:
                child.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                child.bind(("127.0.0.1", port))
                child.listen()


def test_port_in_use_is_refused_by_name() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}"), kept_port(port):
            pass
