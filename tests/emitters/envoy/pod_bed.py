"""An Envoy as a pod starts it: with the pod's bootstrap, as the ADM's user, on this machine's loopback."""

from __future__ import annotations

import http.client
import os
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc

from emitters.envoy.bootstrap import pod, xds_server
from emitters.ports import ADM_USER, ADMIN_PORT
from tests.emitters.envoy.support import ENVOY
from tests.serve.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECONDS = 60.0
NAME = "admc.admc-system.svc"
TOKEN = "a.b.c"  # noqa: S105


def server(folder: Path, port: int) -> xds_server.Server:
    tls = xds_server.Tls(f"{folder}/ca.crt", NAME, token=f"{folder}/token", folder=str(folder))
    return xds_server.Server("127.0.0.1", port, tls)


def write(folder: Path, port: int) -> grpc.ServerCredentials:
    """All that a pod finds in its folders, and what its server shows."""
    authority = Authority("servers")
    pair = authority.issue(dns=(NAME,))
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "token").write_text(f"{TOKEN}\n")
    for name, content in pod.pod_bootstrap(server(folder, port), ipv6=True).items():
        (folder / name).write_bytes(content)
    return grpc.ssl_server_credentials([(pair.key, pair.certificate)])


@contextmanager
def envoy(folder: Path) -> Iterator[None]:
    """As a pod starts it, of the pod `search-0`; without privileges where the test has some to drop."""
    who = ["--reuid", str(ADM_USER), "--regid", str(ADM_USER), "--clear-groups", "--no-new-privs"]
    nothing = ["setpriv", *who, "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    command = [str(ENVOY), "-c", f"{folder}/{pod.BOOTSTRAP_FILE}", "--disable-hot-restart", "--concurrency", "1"]
    node = ["--service-node", "search-0", "--service-cluster", "search", "--log-level", "warning"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*nothing, *command, *node], stdout=log, stderr=log)
    try:
        until(lambda: process.poll() is not None or get(ADMIN_PORT, "/ready") is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield
        assert process.poll() is None, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()


def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, bytes] | None:
    """None where nothing listens."""
    try:
        return ask(port, "GET", path, host=host)
    except ConnectionRefusedError:
        return None


def ask(
    port: int, method: str, path: str, body: bytes | Iterator[bytes] | None = None, host: str = "127.0.0.1"
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
