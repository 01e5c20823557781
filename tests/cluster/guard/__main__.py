"""Measures the guard: python -m tests.cluster.guard [--pods 500] [--services 0 200 2000]"""

from __future__ import annotations

import argparse
import sys

from tests.cluster.api_server import api_server
from tests.cluster.guard.measure import PODS, SERVICES, measured


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.guard")
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--services", type=int, nargs="+", default=list(SERVICES))
    given = parser.parse_args()
    with api_server() as api:
        print("services   guarded   other pod   no guard   (ms for a pod, median)")
        for row in measured(api, given.services, given.pods):
            print(f"{row.services:8}   {row.guarded:7.2f}   {row.other:9.2f}   {row.without:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
