"""Restarts of receivers without ADMs, with those of an earlier checkout, and with those of this one, as a table.

Exit code 1: with the ADMs of this checkout a request failed in a pod with a `preStop` sleep, or any connection got a
second reply that the process is gone, or a request was unenforced.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.node.cluster import cluster
from tests.cluster.restarts.restarts import CALLER, ENDINGS, FOLDERS, HEAD, SITE_PACKAGES, Restarts, Row, printed
from tests.cluster.traffic.mesh import ROOT, Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.restarts", description=__doc__)
    parser.add_argument("--restarts", type=int, default=20, help="with the ADMs of this checkout")
    parser.add_argument("--others", type=int, default=3, help="without ADMs, and with those of the earlier checkout")
    parser.add_argument("--earlier", type=Path, help="the checkout of an earlier version")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    now: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="admc-restarts-") as folder, cluster() as node:
        versions = {"before": given.earlier} if given.earlier is not None else {}
        for phase, root in {**versions, "now": ROOT}.items():
            own = Path(folder) / phase
            own.mkdir()
            mesh = Mesh(node, own, name=phase, callers=CALLER, root=root, folders=FOLDERS, site_packages=SITE_PACKAGES)
            restarts = Restarts(mesh)
            try:
                restarts.begin()
                restarts.without()
                if phase == "now":
                    measured(restarts, "no ADM", given.others, enforced=False)
                mesh.serve()
                restarts.injected()
                now = measured(restarts, phase, given.restarts if phase == "now" else given.others, enforced=True)
            except BaseException:
                if mesh.server is not None:
                    print(mesh.server.log.read_text()[-6000:], file=sys.stderr)
                raise
            finally:
                mesh.end()
            mesh.remove()
    print(f"{time.monotonic() - began:.0f} s in all, load {os.getloadavg()[0]:.1f}")
    return 1 if any(is_wrong(name, row) for name, row in now.items()) else 0


def measured(restarts: Restarts, phase: str, times: int, *, enforced: bool) -> dict[str, Row]:
    """Restart the receivers, and print what their callers saw, also after an interrupt."""
    try:
        restarts.restart(phase, times)
    finally:
        rows = {each: restarts.row(phase, each, enforced=enforced) for each in ENDINGS}
        print(HEAD, *printed(phase, rows), sep="\n", flush=True)
    return rows


def is_wrong(receiver: str, row: Row) -> bool:
    sleeps = ENDINGS[receiver].sleeps
    return row.unenforced > 0 or row.most_lost > 1 or (sleeps and row.failed.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
