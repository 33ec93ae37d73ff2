"""The programs for envtest (interfaces.md 5.12): started with its flags, as it starts them."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from kube_standin.command import main
from kube_standin.envtest import write_assets
from kube_standin.security import certificates
from tests.server.test_client_certificates import authority, signed
from tests.waiting import DEADLINE, eventually


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A program, stopped as envtest stops it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE)
    finally:
        process.kill()
        process.communicate()


def status_of(url: str, context: ssl.SSLContext | None = None, body: object = None) -> int | None:
    """The status of a request, None while nothing listens."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, context=context, timeout=DEADLINE) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    write_assets(folder)
    return folder


def test_command_prints_the_variable_that_envtest_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    folder = tmp_path / "bin" / "k8s"
    for _ in range(2):  # written again
        monkeypatch.setattr("sys.argv", ["kube-standin", "envtest-assets", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    assert capsys.readouterr().out == f"export KUBEBUILDER_ASSETS={folder}\n" * 2
    assert sorted(path.name for path in folder.iterdir()) == ["etcd", "kube-apiserver"]


def test_folder_that_is_a_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    (tmp_path / "bin").write_text("")
    monkeypatch.setattr("sys.argv", ["kube-standin", "envtest-assets", str(tmp_path / "bin")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"{tmp_path / 'bin'}: is a file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
def test_help_lists_flags_for_envtest_to_find(assets: Path, name: str) -> None:
    shown = subprocess.run([assets / name, "--help"], capture_output=True, text=True, check=True).stdout
    flags = [line.split()[0] for line in shown.splitlines() if line.startswith("  --")]
    assert "--insecure-port" not in flags, "envtest would pass it"
    assert {"etcd": "--listen-client-urls", "kube-apiserver": "--client-ca-file"}[name] in flags


def test_etcd_is_healthy_until_it_is_stopped(assets: Path, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    flags = (f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--data-dir={tmp_path}",
             "--listen-peer-urls=http://127.0.0.1:1", "--unsafe-no-fsync=true")  # fmt: skip
    with started(str(assets / "etcd"), *flags) as process:
        eventually(lambda: status_of(f"{url}/health") == 200)
    assert process.returncode == 0


def flags_of(port: int, cert_dir: Path, client_ca: Path) -> Sequence[str]:
    """What envtest passes to kube-apiserver."""
    return (
        "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", f"--cert-dir={cert_dir}",
        f"--client-ca-file={client_ca}", "--disable-admission-plugins=ServiceAccount,NamespaceAutoProvision",
        "--etcd-servers=http://127.0.0.1:1", f"--secure-port={port}", "--service-cluster-ip-range=10.0.0.0/24",
    )  # fmt: skip


def test_apiserver_serves_with_the_certificates_of_envtest(assets: Path, tmp_path: Path) -> None:
    made = certificates(tmp_path / "pki")
    cert_dir = tmp_path / "certs"
    cert_dir.mkdir()
    (cert_dir / "apiserver.crt").write_bytes(made.certificate.read_bytes())
    (cert_dir / "apiserver.key").write_bytes(made.key.read_bytes())
    ca = authority(tmp_path)
    certificate, key = signed([(NameOID.COMMON_NAME, "default"), (NameOID.ORGANIZATION_NAME, "system:masters")], ca)
    pair = (certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))  # fmt: skip
    client = tmp_path / "client.pem"
    client.write_bytes(b"".join(pair))
    plain = ssl.create_default_context(cafile=str(made.ca))
    admin = ssl.create_default_context(cafile=str(made.ca))
    admin.load_cert_chain(client)
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    with started(str(assets / "kube-apiserver"), *flags_of(port, cert_dir, ca.path)) as process:
        eventually(lambda: status_of(f"{url}/healthz", plain) == 200)
        assert status_of(f"{url}/api/v1/pods", plain) == 403, "anonymous"
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        path = f"{url}/api/v1/namespaces/default/pods"
        assert status_of(path, admin, pod) == 201, "no service account is needed"
    assert process.returncode == 0


def test_files_that_are_absent_or_broken_are_named(assets: Path, tmp_path: Path) -> None:
    (tmp_path / "apiserver.crt").write_text("broken")
    absent = tmp_path / "absent"
    broken = f"--client-ca-file={tmp_path / 'apiserver.crt'}"
    cases = (
        ((), f"{tmp_path / 'apiserver.key'}: No such file or directory"),
        ((f"--tls-private-key-file={tmp_path / 'apiserver.crt'}",), f"{tmp_path / 'apiserver.crt'}: not a certificate"),
        ((f"--cert-dir={absent}",), f"{absent}: No such file or directory"),
        ((f"--cert-dir={absent}", broken), f"{tmp_path / 'apiserver.crt'}: not a certificate in PEM"),
    )
    for flags, message in cases:
        command = [assets / "kube-apiserver", *flags_of(free_port(), tmp_path, absent), *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
        assert ended.returncode == 2
        assert f"error: {message}" in ended.stderr
