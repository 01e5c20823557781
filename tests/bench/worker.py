"""One compile in one fresh process, with the time of each stage: what `tests.bench` runs.

    python -m tests.bench.worker PROGRAM PLAN [--effort N]

Prints one JSON object. Imports are timed apart from admc's own work, since they are other people's.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

STARTED = time.perf_counter()


def main() -> None:
    program, plan_file = Path(sys.argv[1]), Path(sys.argv[2])
    effort = float(sys.argv[4]) if sys.argv[3:4] == ["--effort"] else None

    from admc.files import write_whole
    from admc.pipeline import compile_program, load_program  # noqa: F401 - the second is what `check` runs
    from admc.plan_json import plan_bytes
    from dsl import loader  # noqa: F401
    from solver import model, place, verify  # noqa: F401

    imported = time.perf_counter()
    compiled = compile_program(program, effort=effort)
    compiled_at = time.perf_counter()
    write_whole(plan_file, plan_bytes(compiled.plan))
    done = time.perf_counter()
    placement = compiled.placement
    unit = 1 if sys.platform == "darwin" else 1024
    json.dump(
        {
            "imports": imported - STARTED,
            "own": done - imported,
            "stages": {**compiled.seconds, "write": done - compiled_at},
            "solver": dict(placement.stage_seconds),
            "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
            "services": len(compiled.program.services),
            "calls": len(compiled.program.calls),
            "policies": len(compiled.program.policies),
            "adms": len(placement.adms),
            "status": placement.status.value,
            "objectives": [list(each) for each in placement.objectives],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
