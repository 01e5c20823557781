"""The node as a machine: namespaces of its own for network, mounts and processes, and what stands in them.

A process that does nothing holds the namespaces. It is the first process of its process namespace: when it ends, the
kernel ends all others of it, containers included, and with the last process go the namespaces and their mounts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from admc.testbed.envoys import LAUNCHER
from tests.cluster.process import READY_SECONDS, Running, StartError
from tests.golang import MissingError
from tests.system import PATH
from tests.testbed.mesh import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ADDRESS: Final = "10.250.0.1"
"""Of the node, for itself and for pods."""
ADDRESS_6: Final = "fd00:250::1"
PODS: Final = ("10.244.0.0/16", "fd00:244::/64")
"""Addresses of pods, which have one of each family."""
_HOLD: Final = "trap '' CHLD; exec sleep infinity"
"""Ignoring the signal, it leaves no orphan behind as a zombie."""
_PROGRAMS: Final = ("unshare", "nsenter", "ip", "mount", "iptables-restore")
_LINKS: Final = f"""\
link set lo up
link add node0 type bridge
address add {ADDRESS}/24 dev node0
address add {ADDRESS_6}/64 dev node0 nodad
link set node0 up
route add default dev node0
route add ::/0 dev node0
"""
_SETTINGS: Final = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
    "net/ipv6/conf/all/forwarding": "1",
    "net/ipv6/conf/all/accept_dad": "0",
    "net/ipv6/conf/default/accept_dad": "0",
}
_MOUNTS: Final = """\
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
mount --bind {folder}/lib /var/lib
mount --bind {folder}/log /var/log
mount --make-rshared /
"""


class Machine:
    """Raises `MissingError` without root, and `OSError` where the namespaces cannot be made."""

    def __init__(self, folder: Path) -> None:
        require()
        self.folder = folder
        for name in ("lib", "log", "logs"):
            (folder / name).mkdir()
        options = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        command = [_path("unshare"), *options, "sh", "-c", _HOLD]
        self._holder = Running("the namespaces", command, self._log("namespaces"))
        try:
            self.pid = self._first_process()
            self._network = _network(self.pid)
            self._set_up()
        except BaseException:
            self._holder.kill()
            raise

    def _set_up(self) -> None:
        self._cgroups()
        with self.network():
            _run([_path("ip"), "-batch", "-"], _LINKS)
            for name, value in _SETTINGS.items():
                (Path("/proc/sys") / name).write_text(value, encoding="utf-8")
        self.run(["sh", "-c", _MOUNTS.format(folder=self.folder)])

    @contextmanager
    def network(self) -> Iterator[None]:
        """Have the calling thread in the node's network for a while."""
        home = _network("thread-self")
        try:
            with kernel.inside(self._network, home):
                yield
        finally:
            os.close(home)

    @property
    def cgroup(self) -> str:
        """The cgroup of all pods, by its path in each hierarchy."""
        return f"/{self.folder.name}"

    def command(self, command: Sequence[str]) -> list[str]:
        """The same command for a process in all namespaces of the node; it ends with the one that starts it."""
        inside = [sys.executable, "-I", "-S", str(LAUNCHER), "0", _path(command[0]), *command[1:]]
        return [_path("nsenter"), "--target", str(self.pid), "--net", "--mount", "--pid", "--", *inside]

    def run(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, seconds: float = 60.0
    ) -> str:
        """What a command on the node prints. Raises `OSError` with its message where it fails."""
        return _run(self.command(command), environment=environment, seconds=seconds)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Running:
        """A process in all namespaces of the node."""
        return Running(name, self.command(command), self._log(name), environment=environment)

    def start_in_network(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> Running:
        """A process in the node's network alone: it can be stopped and continued."""
        return Running(
            name,
            [_path(command[0]), *command[1:]],
            self._log(name),
            environment=environment,
            network=self.network,
            descriptors=descriptors,
        )

    def favour_pods(self) -> None:
        """Have all pods together weigh as much as sixteen processes; kubelet gives them the weight of two. Else a
        machine that does much other work leaves them nothing, and what they measure is that."""
        for name, weight in (("cpu/{}/cpu.shares", 16 * 1024), ("{}/cpu.weight", 1600)):
            path = Path("/sys/fs/cgroup") / name.format(self.folder.name)
            if path.exists():
                path.write_text(str(weight), encoding="utf-8")

    def can_overlay(self) -> bool:
        """Whether overlayfs works in the folder: not on some that are overlays themselves."""
        for name in ("lower", "upper", "work", "merged"):
            (self.folder / "overlay" / name).mkdir(parents=True)
        at = self.folder / "overlay"
        options = f"lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work"
        try:
            self.run(["mount", "-t", "overlay", "overlay", "-o", options, f"{at}/merged"])
        except OSError:
            return False
        self.run(["umount", f"{at}/merged"])
        return True

    def end(self) -> None:
        """End all processes of the node, and with them the namespaces."""
        self._holder.kill()
        os.close(self._network)
        until = time.monotonic() + READY_SECONDS
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def _first_process(self) -> int:
        """The holder's child, when it has its mounts."""
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until and self._holder.is_running:
            for pid in _children(self._holder.pid):
                if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "sleep":
                    return pid
            time.sleep(0.01)
        raise StartError(f"namespaces cannot be made: {self._holder.last_line()}")

    def _cgroups(self) -> None:
        """The cgroup of the pods, in the one hierarchy of version 2 or in each of version 1."""
        root = Path("/sys/fs/cgroup")
        hierarchies = (
            [root] if (root / "cgroup.controllers").exists() else [path for path in root.iterdir() if path.is_dir()]
        )
        for hierarchy in hierarchies:
            (hierarchy / self.folder.name).mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (hierarchy / name).exists() and (hierarchy / self.folder.name / name).exists():
                    (hierarchy / self.folder.name / name).write_text((hierarchy / name).read_text())


def require() -> None:
    """Raises `MissingError`."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise MissingError("a node needs root on Linux")
    for program in _PROGRAMS:
        if shutil.which(program, path=PATH) is None:
            raise MissingError(f"a node needs `{program}`")


def _path(program: str) -> str:
    return shutil.which(program, path=PATH) or program


def _network(pid: int | str) -> int:
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(path.parent.name))
    return found


def _run(
    command: Sequence[str], text: str = "", environment: Mapping[str, str] | None = None, seconds: float = 60.0
) -> str:
    settings = {**os.environ, "PATH": PATH, **(environment or {})}
    done = subprocess.run(command, input=text, env=settings, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise OSError(f"`{' '.join(command[-6:])}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
