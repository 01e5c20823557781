"""The life of a program, printed as a table: what was done, how long it took, and what requests met meanwhile."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from admc.kubernetes.inject.containers import DRAIN_SECONDS
from tests.cluster.life.life import Life
from tests.cluster.node.cluster import cluster
from tests.cluster.traffic.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.life", description=__doc__)
    parser.add_argument("--drain", type=int, default=DRAIN_SECONDS, help="drain time of the ADMs (%(default)s s)")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    print(f"drain time {given.drain} s, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="admc-life-") as folder, cluster() as node:
        life = Life(Mesh(node, Path(folder), command=("tests.cluster.traffic.drained", str(given.drain))))
        try:
            life.run()
        except BaseException:
            server = life.mesh.server
            if server is not None:
                print(server.log.read_text()[-6000:], file=sys.stderr)
            raise
        finally:
            life.print()
            life.mesh.end()
    print(f"{time.monotonic() - began:.0f} s in all, load {os.getloadavg()[0]:.1f}")
    for error, number in life.failed.most_common(10):
        print(f"  {number} failed: {error}")
    return 1 if life.wrong or life.failed else 0


if __name__ == "__main__":
    sys.exit(main())
