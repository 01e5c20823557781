"""Makes a network namespace for the target and for each pod, and redirects to the sidecars by the emitted rules.

    Layout, emitted rules -> [Network.build] -> Network.places: a descriptor for each namespace

The caller is in the namespace of this process, and a bridge connects it with the target and the pods. Nothing leads to
other networks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from admc.cost.measurement.layout import Layout
from admc.cost.measurement.namespaces import inside, leave, new_network
from admc.cost.measurement.uses import CALLER, SHADOWS, TARGET

_PATH: Final = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"])
_SECONDS: Final = 30.0
_BRIDGE: Final = "br0"
_BRIDGED_FILTER: Final = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
_TRIED: Final = """\
*nat
-A PREROUTING -p tcp --dport 1 -j REDIRECT --to-ports 2
-A OUTPUT -p tcp -m mark --mark 1/1 -j REDIRECT --to-ports 2
COMMIT
*filter
-A INPUT -p tcp -m conntrack ! --ctstate DNAT -j ACCEPT
-A INPUT -p tcp --syn -j CONNMARK --set-xmark 1/1
COMMIT
"""
"""Rules of a test: a kernel that accepts them supports the emitted rules."""


class NetworkError(Exception):
    """Network namespaces cannot be made here; the message says why."""


def isolate() -> None:
    """Move this process into a network of its own, and check that redirection works in it. Raises `NetworkError`."""
    if sys.platform != "linux":
        raise NetworkError("only Linux has network namespaces")
    lacking = [tool for tool in ("ip", "iptables-restore") if shutil.which(tool, path=_PATH) is None]
    if lacking:
        raise NetworkError(f"there is no `{lacking[0]}`")
    try:
        leave()
    except OSError as error:
        raise NetworkError(f"it needs root, or user namespaces for others ({error.strerror})") from error
    _run(["ip", "link", "set", "lo", "up"], "")
    try:
        home = new_network()
        try:
            with inside(home):
                _run(["iptables-restore"], _TRIED)
        finally:
            os.close(home)
    except OSError as error:
        raise NetworkError(f"a process here cannot use a second network ({error.strerror})") from error


class Network:
    """The namespaces of a layout. `places` has descriptors of the target and the pods; the caller has none."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.places: dict[str, int] = {}

    def build(self, files: Mapping[str, bytes]) -> None:
        """Raises `NetworkError`, `OSError`."""
        for name in (TARGET, *self._layout.pods):
            self.places[name] = new_network()
        own = self._address(CALLER)
        lines = [f"link add {_BRIDGE} type bridge", f"addr add {own}/16 dev {_BRIDGE}", f"link set {_BRIDGE} up"]
        for index, network in enumerate(self.places.values()):
            lines.append(f"link add p{index} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{network}")
            lines.append(f"link set p{index} master {_BRIDGE} up")
        if _BRIDGED_FILTER.exists():
            _BRIDGED_FILTER.write_text("0")
        _run(["ip", "-batch", "-"], _lines([*lines, *self._routes(frozenset())]))
        for name, network in self.places.items():
            with inside(network):
                _run(["ip", "-batch", "-"], _lines(self._own(name)))
                if (rules := files.get(f"{name}/iptables.rules")) is not None:
                    _run(["iptables-restore", "--noflush"], rules.decode())

    def close(self) -> None:
        """Delete the interfaces, and end the networks. Raises `NetworkError`.

        The kernel removes the interfaces of a network some time after the network has ended. The next layout uses the
        same names, so the interfaces are deleted here first.
        """
        names = [*(f"p{index}" for index in range(len(self.places))), _BRIDGE]
        try:
            _run(["ip", "-batch", "-"], _lines([f"link delete {name}" for name in names]))
        finally:
            for network in self.places.values():
                os.close(network)
            self.places.clear()

    def _own(self, name: str) -> list[str]:
        parties = (TARGET, *SHADOWS.values()) if name == TARGET else (name,)
        lines = ["link set lo up", "link set eth0 up"]
        lines += [f"addr add {self._address(party)}/16 dev eth0" for party in parties]
        lines += [f"addr add {self._dialled(party)}/32 dev lo" for party in parties]
        return lines + self._routes(frozenset(parties))

    def _routes(self, own: frozenset[str]) -> list[str]:
        others = [name for name in self._layout.addresses.services if name not in own and name != CALLER]
        return [f"route add {self._dialled(name)}/32 via {self._address(name)}" for name in others]

    def _address(self, name: str) -> str:
        return self._layout.addresses.pod_addresses(name)[0]

    def _dialled(self, name: str) -> str:
        return self._layout.addresses.service_addresses(name)[0]


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _run(command: list[str], text: str) -> None:
    environment = {**os.environ, "PATH": _PATH, "LC_ALL": "C"}
    program = shutil.which(command[0], path=_PATH) or command[0]
    try:
        done = subprocess.run(  # noqa: S603 - commands of this module
            [program, *command[1:]],
            check=False,
            input=text,
            capture_output=True,
            text=True,
            env=environment,
            timeout=_SECONDS,
        )
    except OSError as error:
        raise NetworkError(f"`{command[0]}` cannot be started ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise NetworkError(f"`{command[0]}` does not end") from error
    if done.returncode:
        raise NetworkError(f"`{command[0]}` does not work here ({done.stderr.strip()[-300:]})")
