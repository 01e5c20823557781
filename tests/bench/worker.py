"""One compile in one fresh process, with the time of each stage: what `tests.bench` runs.

    python -m tests.bench.worker PROGRAM PLAN

Prints one JSON object. Imports are timed apart from admc's own work, since they are other people's.
"""

from __future__ import annotations

import json
import sys
import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(seconds: dict[str, float], stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with the time that its calls take added to a stage."""

    @wraps(function)
    def measured(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - started

    return measured


def main() -> None:
    program, plan_file = Path(sys.argv[1]), Path(sys.argv[2])
    started = time.perf_counter()

    # What a compile imports on its way, at once.
    import admc.compile.plan.build
    import solver.verify.verifier
    from admc.base.files import write_whole
    from admc.compile import pipeline
    from admc.compile.plan.to_json import to_json
    from dsl import loader
    from solver import place

    _ = admc.compile.plan.build, solver.verify.verifier, place
    imported = time.perf_counter()

    stages: dict[str, float] = {}
    for stage in ("parse", "resolve"):
        setattr(loader, stage, timed(stages, stage, getattr(loader, stage)))
    pipeline.costs_of = timed(stages, "solve: costs", pipeline.costs_of)
    compiled = pipeline.compile_program(program)
    compiled_at = time.perf_counter()
    write_whole(plan_file, to_json(compiled.plan))
    done = time.perf_counter()

    seconds = dict(compiled.seconds)
    costs = stages.pop("solve: costs")
    stages["read"] = seconds.pop("read") - sum(stages.values())
    solve = seconds.pop("solve")
    inner = dict(compiled.placement.stage_seconds)
    stages |= {f"solve: {name}": value for name, value in inner.items()} | {"solve: costs": costs}
    stages["solve: rest"] = max(0.0, solve - costs - sum(inner.values()))
    placement = compiled.placement
    json.dump(
        {
            "imports": imported - started,
            "own": done - imported,
            "stages": {**stages, **seconds, "write": done - compiled_at},
            "services": len(compiled.program.services),
            "calls": len(compiled.program.calls),
            "policies": len(compiled.program.policies),
            "adms": len(placement.adms),
            "status": placement.status.value,
            "objectives": [[each.metric, each.value, each.bound] for each in placement.objectives],
            "late_imports": sorted(set(sys.modules) & {"ortools", "lark", "google.protobuf", "yaml", "rich"}),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
