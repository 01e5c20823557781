"""Limits the connections from one address on which no client has been admitted, and ends those beyond the limit.

gRPC bounds all connections together, so one address with that many silent connections would keep all other clients out.
gRPC has no bound for one address, and does not report connections without a stream. So this module reads the open files
of the process, and shuts down connections beyond the limit, as if their clients had closed them. The search needs
neither a handshake nor a certificate, and takes a millisecond for thousands of connections.
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
"""The time between two searches. It is too short for a client to open all connections that the server allows."""

Address = tuple[str, int]
"""Host and port of the other end."""


def address_of(peer: str) -> Address:
    """The address in a peer of gRPC, such as `ipv4:10.0.0.1:4711` or `ipv6:%5B::1%5D:4711`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


async def watch(port: int, limit: int, admitted: Callable[[], Collection[str]], ended: Callable[[int], None]) -> None:
    """Search periodically until cancelled. `admitted` returns the peers of admitted clients, as gRPC writes them.
    `ended` receives the number of connections that a search has ended."""
    while True:
        await asyncio.sleep(SECONDS)
        if len(_files()) > limit:
            known = {address_of(peer) for peer in admitted()}
            excess = await asyncio.to_thread(end_excess, port, limit, known)
            if excess:
                ended(excess)


def end_excess(port: int, limit: int, admitted: Collection[Address]) -> int:
    """Shut down the connections of each address beyond the limit at a port, and return the number of these."""
    unknown: dict[str, list[tuple[int, Address]]] = defaultdict(list)
    for file in _files():
        there = _other_end(file, port)
        if there is not None and there not in admitted:
            unknown[there[0]].append((file, there))
    return sum(_shut(file, port, there) for connections in unknown.values() for file, there in connections[limit:])


def _files() -> list[int]:
    try:
        return [int(name) for name in os.listdir(FILES)]  # noqa: PTH208 - thousands of paths would be made for nothing
    except OSError:
        return []  # not every operating system has this folder


@contextmanager
def _borrowed(file: int) -> Iterator[socket.socket]:
    """The socket of a file that gRPC owns and may close at any moment. This module never closes it."""
    borrowed = socket.socket(fileno=file)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def _other_end(file: int, port: int) -> Address | None:
    """The peer of the connection, if the file is a connection to the port."""
    try:
        with _borrowed(file) as connection:
            if connection.family not in {socket.AF_INET, socket.AF_INET6} or connection.getsockname()[1] != port:
                return None
            host, there, *_ = connection.getpeername()
    except OSError:
        return None  # no socket, not connected, or gone
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), there


def _shut(file: int, port: int, there: Address) -> bool:
    if _other_end(file, port) != there:
        return False  # gRPC has closed it meanwhile, and another file may have its number
    try:
        with _borrowed(file) as connection:
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True
