"""Any number of changes under traffic, while servers are killed and proxies restart."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from math import inf
from pathlib import Path

from admc.testbed.envoys import envoy_binary
from tests.serve.traffic.bed import Bed
from tests.serve.traffic.walk import WalkOptions, differs_from_a_fresh_start, killed_in_every_step, walk

SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.traffic", description=__doc__)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--single", type=int, default=5, help="changes in a row, each of which is in force before the next one"
    )
    parser.add_argument("--burst", type=int, default=5, help="changes after them that do not wait for each other")
    parser.add_argument("--interrupted", type=int, default=4, help="kill the server once in so many rounds; 0: never")
    parser.add_argument("--steps", action="store_true", help="first kill the server in each step of a rollout")
    parser.add_argument("--seconds", type=float, default=inf, help="begin no round later than that")
    parser.add_argument("--keep", type=Path, help="a folder for logs")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    envoy = envoy_binary()
    if envoy is None:
        print("there is no Envoy for this platform")
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with Bed(folder, envoy) as bed:
            bed.serve()
            bed.start_proxies()
            bed.wait_until_in_force()
            if given.steps:
                killed_in_every_step(bed)
            options = WalkOptions(
                given.changes, given.seed, given.single, given.burst, given.interrupted, given.seconds
            )
            changes = walk(bed, options)
            wrong = bed.disagreements() + differs_from_a_fresh_start(bed)
        verdict = bed.verdict()
    print(f"{changes} changes, {bed.servers} servers, {time.monotonic() - began:.0f} s; {verdict}")
    for sentence in (*wrong, *verdict.failed[:SHOWN], *verdict.unenforced[:SHOWN]):
        print(sentence)
    return 1 if wrong or verdict.failed or verdict.unenforced else 0


if __name__ == "__main__":
    sys.exit(main())
