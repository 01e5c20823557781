"""A table of faults, each in the middle of a move, on a real node and under traffic.

The exit code is 1 if a request was unenforced or met the policy twice, if a step was taken twice, or if a row did not
end in sync.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from admc.kubernetes.inject.containers import DRAIN_SECONDS
from admc.serve.rollout.model import StepName
from tests.cluster.faults.bed import Bed
from tests.cluster.faults.faults import FAULTS
from tests.cluster.faults.table import printed, row, step_of
from tests.cluster.node.cluster import cluster
from tests.cluster.traffic.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.faults.faults import Fault
    from tests.cluster.faults.table import Row

LOGGED = 5000
"""Characters of the log of each server that are shown where a row ends early."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.faults", description=__doc__)
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--only", action="append", choices=names, help="only this fault; repeatable")
    parser.add_argument("--seed", type=int, default=1, help="chooses the steps (%(default)s)")
    parser.add_argument("--step", choices=[*StepName], help="the same step for all faults")
    parser.add_argument("--drain", type=int, default=DRAIN_SECONDS, help="drain time of the ADMs (%(default)s s)")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    print(f"seed {given.seed}, drain time {given.drain} s, load {os.getloadavg()[0]:.1f}", flush=True)
    wanted = [fault for fault in FAULTS if fault.name in (given.only or names)]
    with tempfile.TemporaryDirectory(prefix="admc-faults-") as folder, cluster() as node:
        bed = Bed(Mesh(node, Path(folder)), given.drain)
        bed.begin()
        print(f"ready after {time.monotonic() - began:.0f} s", flush=True)
        rows, is_whole = _rows(bed, wanted, given.seed, given.step)
        bed.end()
    print(printed(rows))
    print(f"{time.monotonic() - began:.0f} s in all, load {os.getloadavg()[0]:.1f}")
    return 1 if any(each.is_wrong for each in rows) or not is_whole else 0


def _rows(bed: Bed, faults: Sequence[Fault], seed: int, step: str | None) -> tuple[list[Row], bool]:
    """Those that came to an end, and whether all did."""
    rows = []
    for fault in faults:
        try:
            rows.append(row(bed, fault, StepName(step) if step else step_of(fault, seed)))
        except Exception:
            traceback.print_exc()
            for each in bed.servers.all[-2:]:
                print(f"---- {each.name}\n{each.running.log.read_text()[-LOGGED:]}", file=sys.stderr)
            return rows, False
        print(printed(rows[-1:]), f"    load {os.getloadavg()[0]:.1f}", sep="\n", flush=True)
    return rows, True


if __name__ == "__main__":
    sys.exit(main())
