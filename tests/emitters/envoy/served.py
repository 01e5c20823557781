"""Services that answer as a test says, behind the real Envoys of a program.

The echo services of the test-bed answer every request alike; what depends on how a service fails, on how long a body
is, or on which of several addresses is asked needs servers of its own.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from admc.testbed.client import Target
from admc.testbed.envoys import Envoys
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.addresses.dialing import binds, dials
from tests.emitters.envoy.support import ENVOY, exchange, load, private, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from solver.placement import Placement

    Answer = Callable[[bytes, bytes], bytes]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
BAD = b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Server:
    """HTTP/1.1: `answer` makes of the head and the body of a request what is sent back."""

    def __init__(self, address: str, port: int, answer: Answer) -> None:
        self.address = address
        self.answer = answer
        self.received: list[tuple[bytes, bytes]] = []
        self._socket = socket.create_server((address, port))
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        data = bytearray()
        with contextlib.suppress(OSError):
            while True:
                while b"\r\n\r\n" not in data:
                    if not _more(connection, data):
                        return
                head, _, rest = bytes(data).partition(b"\r\n\r\n")
                length = _LENGTH.search(head)
                wanted = int(length[1]) if length else 0
                data = bytearray(rest)
                while len(data) < wanted:
                    if not _more(connection, data):
                        return
                body = bytes(data[:wanted])
                del data[:wanted]
                self.received.append((head, body))
                connection.sendall(self.answer(head, body))


def _more(connection: socket.socket, data: bytearray) -> bool:
    part = connection.recv(1 << 20)
    data += part
    return bool(part)


class Served(NamedTuple):
    placement: Placement
    targets: Mapping[tuple[str, str], Target]
    servers: Mapping[str, list[Server]]

    def ask(self, source: str, destination: str, raw: bytes, seconds: float = 0.3, ends: bytes = b"") -> bytes:
        """All that comes back, and some time after it."""
        return exchange(self.targets[source, destination], raw, seconds, ends)

    def status(self, source: str, destination: str, path: str = "/", headers: str = "") -> int:
        raw = f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n".encode()
        return int(self.ask(source, destination, raw, 5).split(b" ", 2)[1])


def ok(head: bytes, body: bytes) -> bytes:
    return OK


@contextlib.contextmanager
def served(
    text: str,
    folder: Path,
    answers: Mapping[str, list[Answer]] | None = None,
    apart: Mapping[str, Callable[[str, int], contextlib.AbstractContextManager[object]]] | None = None,
) -> Iterator[Served]:
    """A program's Envoys. A service has as many addresses as it has answers; `apart` starts others at theirs."""
    program, placement = load(text)
    addresses = private(loopback(program))
    services = dict(addresses.services)
    for name, found in (answers or {}).items():
        first = services[name].addresses[0]
        more = (f"{first.rpartition('.')[0]}.{200 + index}" for index in range(1, len(found)))
        services[name] = ServiceAddresses((first, *more), services[name].pods)
    addresses = Addresses(services, addresses.externals, addresses.egress)
    paths = written(program, placement, addresses, folder)
    targets = {
        (dial.source, dial.destination): Target(dial.sender, dial.address, dial.port, dial.destination)
        for dial in dials(program, placement, addresses)
    }
    servers: dict[str, list[Server]] = {}
    assert ENVOY is not None
    with contextlib.ExitStack() as stack:
        for bind in binds(program, placement, addresses):
            if bind.service in (apart or {}):
                stack.enter_context((apart or {})[bind.service](bind.address, bind.port))
                continue
            for index, answer in enumerate((answers or {}).get(bind.service, [ok])):
                address = bind.address if index == 0 else services[bind.service].addresses[index]
                server = Server(address, bind.port, answer)
                stack.callback(server.close)
                servers.setdefault(bind.service, []).append(server)
        envoys = stack.enter_context(Envoys(folder, ENVOY))
        envoys.start(paths)
        yield Served(placement, targets, servers)
