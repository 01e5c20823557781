"""HTTP/2 by its frames, for traffic that no library would send."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW = 0, 1, 2, 3, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)


def frames_until(connection: socket.socket, until: Callable[[int, int, bytes], bool], skip: int = 0) -> bool:
    """Read frames until one fits; False where the connection ends before. The first `skip` bytes are no frames."""
    data = b""
    while len(data) < skip:
        data += connection.recv(65536)
    data = data[skip:]
    connection.settimeout(20)
    while True:
        while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
            kind, flags, stream = data[3], data[4], int.from_bytes(data[5:9], "big")
            if until(kind, stream, bytes([flags]) + data[9:size]):
                return True
            data = data[size:]
        try:
            part = connection.recv(65536)
        except ConnectionError:
            return False
        if not part:
            return False
        data += part
