"""Two real network namespaces, a pod and the world, joined by a cable.

A socket belongs to the namespace in which it was made, so all ends of a connection can live in the test's own process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from emitters.interception.captures import Interception
from emitters.interception.pod import PodCaptures, arguments
from emitters.interception.rules import restore_file
from emitters.interception.script import RULES_FILES, script
from emitters.interception.tables import Family

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CLONE_NEWNET = 0x40000000
_SYS_SETFSUID = {"x86_64": 122, "aarch64": 151}
_SO_MARK = 36
_SO_ORIGINAL_DST = 80

POD = {Family.IPV4: "10.77.0.1", Family.IPV6: "fd77::1"}
NODE = {Family.IPV4: "10.77.0.2", Family.IPV6: "fd77::2"}
SERVICE = {Family.IPV4: "10.77.1.1", Family.IPV6: "fd77:1::1"}
OTHER_POD = {Family.IPV4: "10.77.2.1", Family.IPV6: "fd77:2::1"}
ELSEWHERE = {Family.IPV4: "10.77.3.1", Family.IPV6: "fd77:3::1"}
LOOPBACK = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can name network namespaces")

PREFIX = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}


class Pair:
    """The namespaces by name: `pod` is where rules are loaded, `world` has all other addresses."""

    def __init__(self, folder: Path) -> None:
        self.pod = f"admc-pod-{os.getpid()}"
        self.world = f"admc-world-{os.getpid()}"
        self._folder = folder
        self._open: list[socket.socket] = []

    def __enter__(self) -> Pair:
        for name in (self.pod, self.world):
            _run("ip", "netns", "add", name)
        _run("ip", "-n", self.pod, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.world)
        for name, own in ((self.pod, POD), (self.world, NODE)):
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "-n", name, "addr", "add", f"{own[Family.IPV4]}/24", "dev", "eth0")
            _run("ip", "-n", name, "addr", "add", f"{own[Family.IPV6]}/64", "dev", "eth0", "nodad")
        for address in (SERVICE, OTHER_POD, ELSEWHERE):
            _run("ip", "-n", self.world, "addr", "add", f"{address[Family.IPV4]}/32", "dev", "lo")
            _run("ip", "-n", self.world, "addr", "add", f"{address[Family.IPV6]}/128", "dev", "lo", "nodad")
        for family in Family:
            _run("ip", f"-{family.version}", "-n", self.pod, "route", "add", "default", "via", NODE[family])
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            one.close()
        for name in (self.pod, self.world):
            subprocess.run(["ip", "netns", "del", name], check=True)

    def load(self, interception: Interception, action: str = "apply") -> None:
        """Runs the script with the files that `restore_file` writes."""
        for family, name in RULES_FILES.items():
            (self._folder / name).write_text(restore_file(interception, family))
        (self._folder / "intercept.sh").write_text(script())
        _run("ip", "netns", "exec", self.pod, "sh", str(self._folder / "intercept.sh"), action)

    def load_for_pod(self, captures: PodCaptures, service: str = "shop/sample") -> None:
        """Runs what the rules container of a pod runs."""
        self.in_pod(sys.executable, "-m", "admc.pod", "rules", *arguments(service, captures))

    def restore(self, family: Family, rules: str) -> None:
        """Feeds one rules file to the restore command."""
        command = ["ip", "netns", "exec", self.pod, f"{PREFIX[family]}-restore", "--noflush"]
        subprocess.run(command, input=rules, text=True, check=True)

    def rules(self, family: Family) -> list[str]:
        """All rules of the pod, without counters and comments."""
        saved = _run("ip", "netns", "exec", self.pod, f"{PREFIX[family]}-save")
        return [line.split(" [")[0] for line in saved.splitlines() if not line.startswith("#")]

    def in_pod(self, *command: str) -> str:
        return _run("ip", "netns", "exec", self.pod, *command)

    def listen(self, namespace: str, family: Family, port: int) -> socket.socket:
        """A listener on every address of a namespace."""
        with _inside(namespace):
            listener = socket.socket(_domain(family))
        self._open.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is Family.IPV6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(("", port))
        listener.listen()
        listener.settimeout(2)
        return listener

    def connect(
        self,
        namespace: str,
        family: Family,
        address: str,
        port: int,
        *,
        mark: int = 0,
        user: int = 0,
        source: tuple[str, int] | None = None,
    ) -> socket.socket:
        """From a socket that a process of this user opened."""
        with _inside(namespace), _as_user(user):
            client = socket.socket(_domain(family))
        self._open.append(client)
        client.settimeout(2)
        if mark:
            client.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
        if source:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind(source)
        client.connect((address, port))
        return client

    def accepted(self, listener: socket.socket) -> socket.socket:
        connection, _ = listener.accept()
        connection.settimeout(2)
        self._open.append(connection)
        return connection


def talks(client: socket.socket, server: socket.socket) -> bool:
    """Whether bytes go both ways."""
    client.sendall(b"ask")
    asked = server.recv(16)
    server.sendall(b"answer")
    return asked == b"ask" and client.recv(16) == b"answer"


def cut_off(client: socket.socket, server: socket.socket) -> bool:
    """Whether the client gets a reset, and none of its bytes arrive."""
    try:
        client.sendall(b"ask")
        client.recv(16)
    except ConnectionError:
        server.settimeout(0.1)
        try:
            return server.recv(16) == b""
        except (TimeoutError, ConnectionError):
            return True
    return False


def original_destination(connection: socket.socket, family: Family) -> tuple[str, int]:
    """What a redirected connection was dialled to: what Envoy's original destination filter reads."""
    if family is Family.IPV4:
        raw = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
        port, packed = struct.unpack("!2xH4s8x", raw)
        return socket.inet_ntop(socket.AF_INET, packed), port
    raw = connection.getsockopt(socket.IPPROTO_IPV6, _SO_ORIGINAL_DST, 28)
    port, packed = struct.unpack("!2xH4x16s4x", raw)
    return socket.inet_ntop(socket.AF_INET6, packed), port


def _domain(family: Family) -> socket.AddressFamily:
    return socket.AF_INET if family is Family.IPV4 else socket.AF_INET6


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def _as_user(user: int) -> Iterator[None]:
    """Files that the calling thread opens meanwhile are this user's, which is what the packet filter looks at."""
    if not user:
        yield
        return
    libc = ctypes.CDLL(None)
    number = _SYS_SETFSUID[platform.machine()]
    libc.syscall(number, user)
    try:
        yield
    finally:
        libc.syscall(number, 0)


@contextmanager
def _inside(namespace: str) -> Iterator[None]:
    """Puts the calling thread into a namespace for a while."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:  # noqa: PTH123
        assert libc.setns(there.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(home.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
