"""An upgrade under traffic on a real node: another release's server and ADMs, then this one's.

    python -m tests.cluster.life.upgrade --earlier CHECKOUT

`CHECKOUT` is a working copy of the other release. Its image is that of its pods, so ADMs of both releases run beside
each other, and each server meets pods of the other one.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.life.life import ONE, RATE, Life
from tests.cluster.node import images
from tests.cluster.node.cluster import cluster
from tests.cluster.traffic.mesh import OPS, ROOT, XDS, Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

EARLIER_IMAGE = "admc:earlier"
"""Of the same repository as that of this release, as pods know it after an upgrade."""


class Upgrade(Life):
    def __init__(self, mesh: Mesh, earlier: Path) -> None:
        super().__init__(mesh)
        self.earlier = earlier

    def run(self) -> None:
        mesh = self.mesh
        mesh.begin()
        mesh.node.load([images.python(EARLIER_IMAGE, code=self.earlier)])
        mesh.workload("cart", "callee.py", "8081", port=8081)
        mesh.workload("web", "caller.py", "cart", "8081", RATE, port=8080)
        mesh.root, mesh.image = self.earlier, EARLIER_IMAGE
        mesh.serve("earlier")
        self.without()
        self.applied()
        self.stage("pods with ADMs of the earlier release", self.injected, (), ONE)
        self.stage("this release's server takes over", self.taken_over, ONE)
        self.stage("pods get the ADMs of this release", self.injected, ONE)
        self.stage("the policy goes to the sender", lambda: self.moved("egress"), ONE)
        self.stage("the policy comes back to the receiver", lambda: self.moved("ingress"), ONE)

    def taken_over(self) -> None:
        """As a rolling update does it: the new replica is ready to take over before the old one gets SIGTERM."""
        mesh = self.mesh
        earlier = mesh.server
        assert earlier is not None
        mesh.root, mesh.image, mesh.server = ROOT, "admc:test", None
        mesh.serve("later", xds=XDS + 10, ops=OPS + 10)
        time.sleep(10)
        os.kill(earlier.pid, signal.SIGTERM)
        mesh.until(lambda: not earlier.is_running, "the end of the earlier server")
        mesh.until_programmed()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.life.upgrade", description=__doc__)
    parser.add_argument("--earlier", type=Path, required=True, help="a working copy of the other release")
    given = parser.parse_args(arguments)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="admc-upgrade-") as folder, cluster() as node:
        upgrade = Upgrade(Mesh(node, Path(folder)), given.earlier.resolve())
        try:
            upgrade.run()
        finally:
            if upgrade.mesh.server is not None:
                print(upgrade.mesh.server.log.read_text()[-3000:], file=sys.stderr)
            upgrade.print()
            upgrade.mesh.end()
    for error, number in upgrade.failed.most_common(10):
        print(f"  {number} failed: {error}")
    return 1 if upgrade.wrong or upgrade.failed else 0


if __name__ == "__main__":
    sys.exit(main())
