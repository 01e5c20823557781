"""Connections from one address on which no client has been let in: beyond a limit they are ended.

gRPC bounds all connections together, so whoever opens that many and says nothing keeps everybody else out. It has no
bound for one address, and does not say who is connected before there is a stream. The system knows: the open files of
this process are looked through, and what is too much is shut down, which to gRPC is a client that hangs up. That needs
neither a handshake nor a certificate, and costs a millisecond for thousands of connections.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

FILES: Final = "/dev/fd"
SECONDS: Final = 0.5
"""Between two looks. In so long nobody opens as many connections as there may be in all."""

Address = tuple[str, int]
"""Host and port of the other end."""


def address_of(peer: str) -> Address:
    """The address in gRPC's words for it, such as `ipv4:10.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


async def watch(port: int, limit: int, admitted: Callable[[], Collection[str]], ended: Callable[[int], None]) -> None:
    """Look again and again, until cancelled. `admitted` gives the peers that have been let in, as gRPC writes them;
    `ended` hears of how many connections were ended."""
    while True:
        await asyncio.sleep(SECONDS)
        if len(_files()) > limit:
            known = {address_of(peer) for peer in admitted()}
            found = await asyncio.to_thread(disperse, port, limit, known)
            if found:
                ended(found)


def disperse(port: int, limit: int, admitted: Collection[Address]) -> int:
    """Shut down what each address has more than it may have at a port; how many that were."""
    strangers: dict[str, list[tuple[int, Address]]] = defaultdict(list)
    for file in _files():
        there = _other_end(file, port)
        if there is not None and there not in admitted:
            strangers[there[0]].append((file, there))
    return sum(_shut(file, port, there) for crowd in strangers.values() for file, there in crowd[limit:])


def _files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(FILES)]  # noqa: PTH208 - thousands of paths would be made for nothing
    except OSError:
        return []  # there are systems that do not say


@contextmanager
def _borrowed(file: int) -> Iterator[socket.socket]:
    """The socket of a file that gRPC has open and may close at any moment: it is not ours to close."""
    found = socket.socket(fileno=file)
    try:
        yield found
    finally:
        found.detach()


def _other_end(file: int, port: int) -> Address | None:
    """Who is connected to a port of ours, if the file is such a connection."""
    try:
        with _borrowed(file) as found:
            if found.family not in {socket.AF_INET, socket.AF_INET6} or found.getsockname()[1] != port:
                return None
            host, there, *_ = found.getpeername()
    except OSError:
        return None  # no socket, not connected, or gone
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), there


def _shut(file: int, port: int, there: Address) -> bool:
    if _other_end(file, port) != there:
        return False  # gRPC has closed it meanwhile, and the number may be somebody else's
    try:
        with _borrowed(file) as found:
            found.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True
