"""etcd and kube-apiserver on loopback, by themselves: the API without controllers, nodes or pods that run.

    with api_server() as server:
        requests to server.url, with server.ca and server.admin_token, or server.kubeconfig

The admission plugin for service accounts is off: pods need no account, since no controller makes one.
"""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import credentials, tools
from tests.cluster.folders import folder
from tests.cluster.process import Network, Running
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ISSUER: Final = "https://kubernetes.default.svc"
AUDIENCE: Final = ISSUER
"""What a token is good for that is asked for without an audience."""
SERVICES: Final = "10.96.0.0/16,fd00:96::/112"
"""Addresses of Services; one that asks for no family has an IPv4 address."""
KUBERNETES_SERVICE: Final = "10.96.0.1"
"""The address of the Service `kubernetes`."""
SECONDS: Final = 30.0
"""Until a request is given up."""
_UNREACHABLE: Final = (OSError, http.client.HTTPException)


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Place:
    """Where the two listen, and how a client reaches them."""

    address: str
    port: int
    etcd_port: int
    peer_port: int
    network: Network = nullcontext
    url: str = ""
    """For clients elsewhere than in that network; empty: the address itself."""


class ApiServer:
    """A running API server with its etcd."""

    def __init__(
        self, folder: Path, place: Place, made: credentials.Credentials, options: Sequence[str], *, accounts: bool
    ) -> None:
        """Starts both. `accounts`: a pod needs a service account that is there."""
        self.folder = folder
        self.place = place
        self.credentials = made
        self.kubeconfig = made.kubeconfig("admin", self.url)
        """The administrator's."""
        self._tls = ssl.create_default_context(cafile=str(self.ca))
        self.etcd = Running("etcd", self._etcd_command(), folder / "etcd.log", network=place.network)
        command = [str(tools.find(tools.API_SERVER)), *self._options(), *options]
        if not accounts:
            command.append("--disable-admission-plugins=ServiceAccount")
        self.process = Running("kube-apiserver", command, folder / "kube-apiserver.log", network=place.network)

    @property
    def url(self) -> str:
        return self.place.url or f"https://{self.place.address}:{self.place.port}"

    @property
    def admin_token(self) -> str:
        return self.credentials.admin_token

    @property
    def ca(self) -> Path:
        """The certificate of the authority, as PEM."""
        return self.credentials.ca

    def _options(self) -> list[str]:
        own, place = self.credentials, self.place
        return [
            f"--etcd-servers=http://127.0.0.1:{place.etcd_port}",
            f"--bind-address={place.address}",
            f"--advertise-address={place.address}",
            f"--secure-port={place.port}",
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
            "--profiling=false",
        ]

    def _etcd_command(self) -> list[str]:
        client = f"http://127.0.0.1:{self.place.etcd_port}"
        peer = f"http://127.0.0.1:{self.place.peer_port}"
        return [
            str(tools.find(tools.ETCD)),
            "--name=etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=etcd={peer}",
            "--log-level=warn",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={4 << 30}",
        ]

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The decoded answer to a request of the administrator; bytes are sent as they are. Raises `ApiError`, and
        `OSError` without a server."""
        connection = http.client.HTTPSConnection(
            self.place.address, self.place.port, timeout=SECONDS, context=self._tls
        )
        headers = {
            "Authorization": f"Bearer {self.admin_token}",
            "Content-Type": kind,
            "Accept": "application/json, */*",
        }
        try:
            with self.place.network():
                connection.connect()
            connection.request(
                method, path, body if body is None or isinstance(body, bytes) else json.dumps(body), headers
            )
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, content.decode(errors="replace")[:1000])
        is_json = response.headers.get_content_type().endswith("json")
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
        """SIGCONT."""
        self.etcd.resume()

    def compact(self) -> None:
        """Have etcd forget all revisions but the newest. A kube-apiserver that is restarted after that knows none of
        them either, and answers a watch from an earlier one with 410."""
        newest = self._etcd("range", {"key": "AA=="})["header"]["revision"]
        self._etcd("compaction", {"revision": newest, "physical": True})

    def _etcd(self, call: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.place.etcd_port, timeout=SECONDS)
        try:
            with self.place.network():
                connection.connect()
            connection.request("POST", f"/v3/kv/{call}", json.dumps(body))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ApiError(response.status, content.decode(errors="replace"))
        return json.loads(content)

    def end(self) -> None:
        """Kill both."""
        self.process.kill()
        self.etcd.kill()


def require() -> None:
    """Raises `tools.MissingError` where the cache lacks a program."""
    for program in (tools.ETCD, tools.API_SERVER):
        tools.find(program)


@contextmanager
def api_server(options: Sequence[str] = ()) -> Iterator[ApiServer]:
    """A server of one's own at a port of one's own. Both processes end with the thread that started them.

    `options` are more of kube-apiserver's. Raises `tools.MissingError` where the cache lacks a program.
    """
    require()
    with ExitStack() as stack:
        own = stack.enter_context(folder())
        made = credentials.make(own / "credentials", ("127.0.0.1", KUBERNETES_SERVICE))
        place = Place("127.0.0.1", free_port(), free_port(), free_port())
        server = ApiServer(own, place, made, ["--endpoint-reconciler-type=none", *options], accounts=False)
        stack.callback(server.end)
        server.wait()
        yield server
