"""What a machine must have for a bed of namespaces, found out by trying.

    python -m tests.testbed.mesh.needs      one line for each thing that is missing

A tool that is installed may still not work (a kernel without `nat`, a system that forbids user namespaces), so a small
bed is built and thrown away, in a process of its own: leaving the host's network is for good.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from admc.testbed.envoys import envoy_binary
from tests.testbed.mesh import kernel
from tests.testbed.mesh.errors import MissingError

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"])
TOOLS = ("ip", "iptables-restore", "iptables-save", "ip6tables-restore", "ip6tables-save")
ROOT = Path(__file__).parents[3]
TRIED = """\
*nat
-A PREROUTING -p tcp -m statistic --mode nth --every 2 --packet 0 -j REDIRECT --to-ports 1
-A OUTPUT ! -d {loopback} -m addrtype --dst-type LOCAL -p tcp -m mark --mark 1/1 -j REDIRECT --to-ports 1
-A POSTROUTING -s {loopback} -d {loopback} -j MASQUERADE
COMMIT
*filter
-A INPUT -p tcp --syn -j CONNMARK --set-xmark 1/1
-A INPUT -p tcp -m conntrack ! --ctstate DNAT -j REJECT --reject-with tcp-reset
COMMIT
"""


def environment() -> dict[str, str]:
    """For the tools: administrators' folders are not on the path of every user."""
    return {**os.environ, "PATH": PATH, "LC_ALL": "C"}


def isolate() -> None:
    """Leave the host's network, and its user names where we are not root: nothing below can touch either."""
    user = 0 if os.geteuid() == 0 else kernel.CLONE_NEWUSER
    kernel.unshare(user | kernel.CLONE_NEWNET | kernel.CLONE_NEWNS)
    kernel.private_run()


@lru_cache(maxsize=1)
def missing() -> tuple[str, ...]:
    """Everything that this machine lacks; empty where a bed can be built."""
    if sys.platform != "linux":
        return ("Linux",)
    found = [f"`{tool}`" for tool in TOOLS if shutil.which(tool, path=PATH) is None]
    if not Path("/proc/net/if_inet6").exists():
        found.append("IPv6 in the kernel")
    if envoy_binary() is None:
        found.append("an Envoy for this platform (development dependencies)")
    if not found:
        tried = subprocess.run(
            [sys.executable, "-m", "tests.testbed.mesh.needs"], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        found += tried.stdout.splitlines()
        if tried.returncode and not found:
            found.append(f"namespaces: {tried.stderr.strip()}")
    return tuple(found)


def require(*, root: bool = False) -> None:
    """Raises `MissingError` where no bed can be built here, or none that needs `root` for other users' processes."""
    lacking = missing()
    if root and os.geteuid() != 0:
        lacking = (*lacking, "root, to run Envoys as another user")
    if lacking:
        raise MissingError(lacking)


def _try() -> str | None:
    try:
        isolate()
        other = kernel.new_network()
    except OSError as error:
        who = "root" if os.geteuid() == 0 else "root, or user namespaces for others"
        return f"{who} ({error.strerror or error})"
    cable = f"link add br0 type bridge\nlink add p0 type veth peer name eth0 netns /proc/{os.getpid()}/fd/{other}\n"
    for command, text in (
        (["ip", "-batch", "-"], cable),
        (["iptables-restore"], TRIED.format(loopback="127.0.0.0/8")),
        (["ip6tables-restore"], TRIED.format(loopback="::1/128")),
    ):
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment())
        if done.returncode:
            return f"a kernel that lets `{command[0]}` work here ({done.stderr.strip()})"
    return None


if __name__ == "__main__":
    if (lacks := _try()) is not None:
        print(lacks)
        sys.exit(1)
