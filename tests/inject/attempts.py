"""What runs in the pods of `test_real_pods.py`: a server that says `open`, and a client that tries to reach it past
its ADM.

    python attempts.py serve PORT
    python attempts.py try SERVICE-ADDRESS ALIAS-ADDRESS POD-ADDRESS...     prints what came of each attempt, as JSON

It needs the standard library alone.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

PORT, ALIAS = 9000, 81
ADM_USER = 15001
MPTCP, CLONE_NEWUSER, CLONE_NEWNET = 262, 0x10000000, 0x40000000
SECONDS = 5.0
Prepare = Callable[[socket.socket], None]


def serve(port: int) -> None:
    def answer(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"open")

    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.bind(("::", port))

    def echo() -> None:
        while True:
            datagrams.sendto(b"open", datagrams.recvfrom(100)[1])

    threading.Thread(target=echo, daemon=True).start()
    listening = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    print("ready", flush=True)
    while True:
        threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()


def dial(address: str, port: int, prepare: Prepare = lambda made: None, *, protocol: int = 0) -> str:
    """What the other end says, or the name of the error."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM, protocol) as made:
            made.settimeout(SECONDS)
            prepare(made)
            made.connect((address, port))
            return made.recv(100).decode() or "closed"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)


def fast(address: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(SECONDS), 0))
        try:
            made.sendto(b"x", socket.MSG_FASTOPEN, (address, PORT))
            return made.recv(100).decode() or "closed"
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, type(error).__name__)


def datagram(address: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(SECONDS)
        made.sendto(b"x", (address, PORT))
        return made.recv(100).decode()


def failed(action: Callable[[], object]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def apart(flags: int, action: Callable[[], str]) -> str:
    """In a process with namespaces of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        own = os.getuid()
        result = "no namespace"
        if ctypes.CDLL(None).unshare(flags) == 0:
            Path("/proc/self/uid_map").write_text(f"{ADM_USER} {own} 1")
            assert os.getuid() == ADM_USER
            result = action()
        os.write(write, result.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    return os.read(read, 1000).decode()


def attempts(service: str, alias: str, pods: list[str]) -> dict[str, str]:
    found = {"the service": dial(service, PORT)}
    for number, address in enumerate(pods):
        source = "::6" if ":" in address else "127.0.0.6"
        found[f"pod address {number}"] = dial(address, PORT)
        found[f"from the address of the handover {number}"] = dial(
            address, PORT, lambda made, own=source: made.bind((own, 0))
        )
    device = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
    found["by a device"] = dial(pods[0], PORT, lambda made: made.setsockopt(*device))
    found["with a mark"] = dial(pods[0], PORT, lambda made: made.setsockopt(socket.SOL_SOCKET, 36, 0x61646D02))
    found["several paths"] = dial(pods[0], PORT, protocol=MPTCP)
    found["data in the first packet"] = fast(pods[0])
    found["as user 15001 of a namespace"] = apart(CLONE_NEWUSER, lambda: dial(pods[0], PORT))
    found["in a network of its own"] = apart(CLONE_NEWUSER | CLONE_NEWNET, lambda: dial(pods[0], PORT))
    for port in (15001, 15006):
        for address in ("127.0.0.1", "127.0.0.6", "::1"):
            found[f"{address} {port}"] = dial(address, port)
    found["user 15001"] = failed(lambda: os.setuid(ADM_USER))
    found["a raw socket"] = failed(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
    found["a packet socket"] = failed(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    flush = subprocess.run(["iptables", "-t", "nat", "-F"], capture_output=True)
    found["without rules"] = "done" if flush.returncode == 0 else "refused"
    found["another number"] = dial(alias, ALIAS)
    found["datagrams"] = datagram(pods[0])
    return found


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    print(json.dumps(attempts(sys.argv[2], sys.argv[3], sys.argv[4:])), flush=True)
