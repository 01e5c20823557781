"""containerd and runc on the node, unpacked from Debian's packages, with routed links between pods and the node."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
from typing import TYPE_CHECKING, Final

from tests.cluster.node import images
from tests.cluster.node.machine import PODS
from tests.cluster.tools import debian
from tests.system import PATH

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cluster.node.images import Image
    from tests.cluster.node.machine import Machine

SOCKET: Final = "/run/containerd/containerd.sock"
_CONFIG: Final = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{folder}/cni/bin"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{root}/usr/sbin/runc"
SystemdCgroup = false
"""

_AT_ONCE: Final = "addresses-at-once"
_AT_ONCE_SCRIPT: Final = """\
#!/bin/sh
case $CNI_COMMAND in
ADD) nsenter --net="$CNI_NETNS" sh -c 'echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad' || exit 1 ;;
VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}'; exit ;;
esac
echo '{"cniVersion": "0.4.0", "interfaces": [], "ips": []}'
"""
"""A network plugin. Without it, each pod would wait two seconds for another that has its IPv6 address."""


class Containers:
    """A running containerd."""

    def __init__(self, machine: Machine, addresses: int | None = None) -> None:
        """`addresses`: how many there are for pods in each family; those of pods that are gone soon come back."""
        root, folder = debian.find(), machine.folder
        self._machine = machine
        self.snapshotter = "overlayfs" if machine.can_overlay() else "native"
        self._environment = {
            "PATH": os.pathsep.join([str(root / "usr" / "bin"), str(root / "usr" / "sbin"), PATH]),
            "LD_LIBRARY_PATH": str(debian.libraries(root)),
        }
        plugins = folder / "cni" / "bin"
        shutil.copytree(root / "usr" / "lib" / "cni", plugins)
        (plugins / _AT_ONCE).write_text(_AT_ONCE_SCRIPT, encoding="utf-8")
        (plugins / _AT_ONCE).chmod(0o755)
        (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_network(folder, addresses)), encoding="utf-8")
        config = folder / "containerd.toml"
        settings = {"socket": SOCKET, "root": root, "folder": folder, "snapshotter": self.snapshotter}
        config.write_text(_CONFIG.format(pause=images.pause().full_name, **settings), encoding="utf-8")
        self._ctr = [str(root / "usr" / "bin" / "ctr"), "--namespace", "k8s.io", "--address", SOCKET]
        command = [str(root / "usr" / "bin" / "containerd"), "--config", str(config)]
        self.process = machine.start("containerd", command, self._environment)

    def wait(self) -> None:
        self.process.wait_until(self._answers)

    def load(self, wanted: Iterable[Image]) -> None:
        """Make images and import them."""
        for image in wanted:
            archive = image.write(self._machine.folder / "images")
            self.ctr("image", "import", "--snapshotter", self.snapshotter, str(archive), seconds=300.0)
            archive.unlink()

    def ctr(self, *arguments: str, seconds: float = 60.0) -> str:
        """What containerd's own client prints."""
        return self._machine.run([*self._ctr, *arguments], environment=self._environment, seconds=seconds)

    def _answers(self) -> bool:
        try:
            self.ctr("image", "list", "-q")
        except OSError:
            return False
        return True


def _network(folder: Path, count: int | None) -> dict[str, object]:
    """Each pod has a link of its own to the node, which routes everything: so its packet filter sees all of it."""
    subnets = [ipaddress.ip_network(each) for each in PODS]
    # The first one is the gateway. The plugin gives the addresses in turn.
    ends = [{} if count is None else {"rangeEnd": str(subnet[count + 1])} for subnet in subnets]
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": str(subnet), **end}] for subnet, end in zip(subnets, ends, strict=True)],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    }
    plugins = [{"type": _AT_ONCE}, {"type": "ptp", "ipMasq": False, "ipam": addresses}]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}
