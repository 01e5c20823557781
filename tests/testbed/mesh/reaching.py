"""Whether packets get through to a number, over tcp, udp and sctp: for ports where no service of the bed listens.

A kernel answers a packet to a number where nothing listens: with a reset, or an ICMP message. A packet that is dropped
on its way has no answer.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from enum import StrEnum

SOURCE_PORT = 40000
"""Of a packet of sctp, which is written here byte by byte: this kernel may know no sctp."""
_CASTAGNOLI = 0x82F63B78


class Transport(StrEnum):
    TCP = "tcp"
    UDP = "udp"
    SCTP = "sctp"


_KINDS = {
    Transport.TCP: (socket.SOCK_STREAM, 0),
    Transport.UDP: (socket.SOCK_DGRAM, 0),
    Transport.SCTP: (socket.SOCK_RAW, 132),
}


def sockets(transport: Transport, address: str) -> tuple[int, int, int]:
    """The family, kind and protocol of the socket for an address."""
    return socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET, *_KINDS[transport]


def answered(made: socket.socket, transport: Transport, address: str, port: int, timeout: float) -> bool:
    """Whether anything comes back; closes the socket."""
    with made:
        made.settimeout(timeout)
        try:
            made.connect((address, 0 if transport is Transport.SCTP else port))
            if transport is not Transport.TCP:
                made.send(b"x" if transport is Transport.UDP else _sctp_init(port))
                made.recv(64)
        except TimeoutError:
            return False
        except OSError:
            return True  # a reset, or an ICMP message of the destination: nothing else here sends one
        return True


def _sctp_init(port: int) -> bytes:
    """The first packet of an association."""
    chunk = struct.pack(">BBHIIHHI", 1, 0, 20, 1, 65535, 1, 1, 1)
    head = struct.pack(">HHI", SOURCE_PORT, port, 0)
    return head + struct.pack("<I", _crc32c(head + bytes(4) + chunk)) + chunk


def _crc32c(data: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (_CASTAGNOLI if found & 1 else 0)
    return found ^ 0xFFFFFFFF
