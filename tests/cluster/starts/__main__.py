"""Starts of callers with the wait and without it, printed as a table. Exit code 1: a start with it was not enforced."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.node.cluster import cluster
from tests.cluster.starts.starts import CALLED_PODS, KINDS, SPARE_ADDRESSES, Starts
from tests.cluster.traffic.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.starts.starts import Kind, Start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.starts", description=__doc__)
    parser.add_argument("--starts", type=int, default=200, help="with the wait, and so many without it")
    parser.add_argument("--at-once", type=int, default=6, help="pods at a time")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no more pods are started")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which kinds are started")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    kinds = list(KINDS) * (given.starts // 2)
    random.Random(given.seed).shuffle(kinds)  # noqa: S311 - the order of a test
    addresses = given.at_once + CALLED_PODS + SPARE_ADDRESSES
    with tempfile.TemporaryDirectory(prefix="admc-starts-") as folder, cluster(addresses) as node:
        starts = Starts(Mesh(node, Path(folder)))
        try:
            starts.begin()
            starts.run(kinds, given.at_once, given.seconds)
        except BaseException:
            server = starts.mesh.server
            if server is not None:
                print(server.log.read_text()[-6000:], file=sys.stderr)
            raise
        finally:
            show(starts.done)
            starts.end()
    print(f"{time.monotonic() - began:.0f} s in all, {given.at_once} pods at a time")
    return 0 if all(each.is_enforced for each in starts.done if each.kind.waits) else 1


def show(done: Sequence[Start]) -> None:
    if not done:
        return
    print(
        f"{'starts':<28} {'number':>6} {'enforced':>8} {'unenforced':>10} {'anothers':>8} {'failed':>6} "
        f"{'requests':>8} {'unenforced':>10} {'median':>7} {'p90':>7}"
    )
    for waits in (True, False):
        found = [each for each in done if each.kind.waits is waits]
        for kind in KINDS:
            if kind.waits is waits and any(each.kind == kind for each in found):
                _row(_name(kind), [each for each in found if each.kind == kind])
        if found:
            _row("with the wait" if waits else "without the wait", found)
    reused = [each for each in done if each.earlier is not None and each.has_anothers_address]
    print(f"{len(reused)} of {len(done)} starts at an address that a pod of the other service had before")
    errors = Counter(request.error for each in done for request in each.requests if request.met is None)
    for error, count in errors.most_common(10):
        print(f"  {count} failed: {error}")
    for each in done:
        if each.kind.waits and not each.is_enforced:
            print(f"  {each}")


def _name(kind: Kind) -> str:
    return f"  {kind.service}, {'waits' if kind.waits else 'does not wait'}"


def _row(name: str, found: Sequence[Start]) -> None:
    """`anothers`: starts in which a request met the policy of the other service; `failed`: the first request did."""
    seconds = [each.seconds for each in found]
    late = statistics.quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    print(
        f"{name:<28} {len(found):>6} {sum(each.is_enforced for each in found):>8} "
        f"{sum(each.unenforced > 0 for each in found):>10} {sum(each.others > 0 for each in found):>8} "
        f"{sum(each.requests[0].met is None for each in found):>6} "
        f"{sum(len(each.requests) for each in found):>8} {sum(each.unenforced for each in found):>10} "
        f"{statistics.median(seconds):>5.1f} s {late:>5.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
