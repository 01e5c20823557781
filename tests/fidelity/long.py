"""`python -m tests.fidelity.long [SEED...]`: all pairs on all sides, then random programs of each seed; takes long.

Exits with 1 where anything differs that is not known. A random program that differs is printed as small as it gets.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.emitters.envoy.support import ENVOY
from tests.fidelity.cases import text
from tests.fidelity.known import reason
from tests.fidelity.runs import How, What
from tests.fidelity.store import WILD, Group, groups
from tests.fidelity.wild import smaller, wild


def main(seeds: list[int]) -> int:
    if ENVOY is None:
        print("there is no Envoy for this platform, so nothing can be compared")
        return 1
    wrong = 0
    fixed = [] if seeds else groups(1)
    chosen = [*fixed, *(Group(f"wild_{seed}", wild(seed, WILD), (How.COMPILED,)) for seed in seeds)]
    with tempfile.TemporaryDirectory() as name:
        for group in chosen:
            results = group.results(Path(name))
            cases = {case.name: case for case in group.cases}
            for found in results.values():
                case = cases[found.case]
                if found.what != What.DIFFERENT or reason(case.key, found.how):
                    continue
                wrong += 1
                detail = found.detail
                if group.name.startswith("wild"):
                    case, least = smaller(case, Path(name) / f"smaller_{case.name}")
                    detail = f"{least.detail}\n{text([case])}"
                print(f"== {case.key} ({found.how})\n{detail}")
            print(f"{group.name}: {len(results)} results, {wrong} differ so far", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))
