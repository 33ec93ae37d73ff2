"""The service account of the pod in which this process runs.

Rules (client-go `rest.InClusterConfig`): the server's address is in KUBERNETES_SERVICE_HOST and _PORT; token, CA and
namespace are files that the kubelet updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reprieve.client.connection import Connection, Identity, TlsSettings
from reprieve.client.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def available(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> bool:
    """Return whether this process runs in a pod with a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def connection(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the connection to this cluster's API server with this pod's service account. Raises ConfigError."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    if not port.isdecimal():
        raise ConfigError("KUBERNETES_SERVICE_PORT is not a number")
    token, ca = directory / "token", directory / "ca.crt"
    for file in (token, ca):
        if not file.exists():
            raise ConfigError(f"{file}: No such file: the pod has no service account token")
    try:
        namespace = (directory / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError):
        namespace = ""
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source="the service account of this pod",
        namespace=namespace or "default",
        tls=TlsSettings(ca_file=ca),
        identity=Identity(token_file=token),
    )
