"""etcd and kube-apiserver on loopback, by themselves: the API without controllers, nodes or pods that run.

    with api_server() as server:
        requests to server.url, with server.ca and server.admin_token, or server.kubeconfig

The admission plugin for service accounts is off: pods need no account, since no controller makes one.
"""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import credentials, tools
from tests.cluster.folders import folder
from tests.cluster.process import Running
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ISSUER: Final = "https://kubernetes.default.svc"
AUDIENCE: Final = ISSUER
"""What a token is good for that is asked for without an audience."""
SERVICES: Final = "10.96.0.0/16"
KUBERNETES_SERVICE: Final = "10.96.0.1"
"""The address of the Service `kubernetes`."""
_UNREACHABLE: Final = (OSError, http.client.HTTPException)


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass
class ApiServer:
    """A running API server with its etcd."""

    folder: Path
    address: str
    port: int
    credentials: credentials.Credentials
    etcd_port: int
    etcd: Running
    options: tuple[str, ...]
    """More options of kube-apiserver; of one that is given twice, the last counts."""
    process: Running = field(init=False)
    kubeconfig: Path = field(init=False)
    """The administrator's."""

    def __post_init__(self) -> None:
        self.kubeconfig = self.credentials.kubeconfig("admin", self.url)
        self._tls = ssl.create_default_context(cafile=str(self.ca))
        command = [str(tools.find(tools.API_SERVER)), *self._options(), *self.options]
        self.process = Running("kube-apiserver", command, self.folder / "kube-apiserver.log")

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def admin_token(self) -> str:
        return self.credentials.admin_token

    @property
    def ca(self) -> Path:
        """The certificate of the authority, as PEM."""
        return self.credentials.ca

    def _options(self) -> list[str]:
        own = self.credentials
        return [
            f"--etcd-servers=http://{self.address}:{self.etcd_port}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={own.certificate}",
            f"--tls-private-key-file={own.key}",
            f"--client-ca-file={own.ca}",
            f"--token-auth-file={own.tokens}",
            "--authorization-mode=Node,RBAC",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-signing-key-file={own.account_key}",
            f"--service-account-key-file={own.account_public_key}",
            f"--api-audiences={AUDIENCE}",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount",
            "--profiling=false",
            "--shutdown-delay-duration=0s",
        ]

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The decoded answer to a request of the administrator. Raises `ApiError`, and `OSError` without a server."""
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=30.0, context=self._tls)
        headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": kind, "Accept": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, content.decode(errors="replace")[:1000])
        is_json = response.headers.get_content_type() == "application/json"
        return json.loads(content) if is_json else content.decode()

    def apply(self, path: str, body: Any, manager: str = "tests") -> Any:
        """A server-side apply of one object at its path."""
        return self.request("PATCH", f"{path}?fieldManager={manager}&force=true", body, "application/apply-patch+yaml")

    @property
    def is_ready(self) -> bool:
        try:
            self.request("GET", "/readyz")
            self.request("GET", "/api/v1/namespaces/default")
        except (ApiError, *_UNREACHABLE):
            return False
        return True

    def wait(self) -> None:
        self.process.wait_until(lambda: self.is_ready)

    def kill(self) -> None:
        """SIGKILL to kube-apiserver; etcd goes on."""
        self.process.kill()

    def restart(self) -> None:
        """Start kube-apiserver anew at the same port, and wait until it is ready."""
        self.process.start()
        self.wait()

    def stop_etcd(self) -> None:
        """SIGSTOP: etcd hangs, and its connections stay."""
        self.etcd.pause()

    def continue_etcd(self) -> None:
        self.etcd.resume()

    def compact(self) -> None:
        """Have etcd forget all revisions but the newest. A kube-apiserver that is restarted after that knows none of
        them either, and answers a watch from an earlier one with 410."""
        newest = self._etcd("range", {"key": "AA=="})["header"]["revision"]
        self._etcd("compaction", {"revision": newest, "physical": True})

    def _etcd(self, call: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection(self.address, self.etcd_port, timeout=30.0)
        try:
            connection.request("POST", f"/v3/kv/{call}", json.dumps(body))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ApiError(response.status, content.decode(errors="replace"))
        return json.loads(content)


def start_etcd(into: Path, address: str, port: int, peer_port: int) -> Running:
    client, peer = f"http://{address}:{port}", f"http://{address}:{peer_port}"
    command = [str(tools.find(tools.ETCD)), f"--data-dir={into / 'etcd'}", "--name=etcd", "--log-level=warn"]
    command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    command += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=etcd={peer}"]
    command += ["--unsafe-no-fsync", "--quota-backend-bytes=4294967296"]
    return Running("etcd", command, into / "etcd.log")


@contextmanager
def api_server(options: Sequence[str] = (), *, into: Path | None = None) -> Iterator[ApiServer]:
    """A server of one's own at a port of one's own. Both processes end with the thread that started them.

    `options` are more of kube-apiserver's; `into` is the folder for everything. Raises `tools.MissingError` where the
    cache lacks a program.
    """
    for program in (tools.ETCD, tools.API_SERVER):
        tools.find(program)
    with ExitStack() as stack:
        own = into or stack.enter_context(folder())
        made = credentials.make(own / "credentials", ("127.0.0.1", KUBERNETES_SERVICE))
        etcd_port = free_port()
        etcd = start_etcd(own, "127.0.0.1", etcd_port, free_port())
        stack.callback(etcd.kill)
        server = ApiServer(own, "127.0.0.1", free_port(), made, etcd_port, etcd, tuple(options))
        stack.callback(server.process.kill)
        server.wait()
        yield server
