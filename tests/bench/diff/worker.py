"""One comparison of two programs in one fresh process, with the time of each stage: what `tests.bench` runs.

    python -m tests.bench.diff.worker BASE HEAD

Prints one JSON object. Both programs are compiled, HEAD with the plan of BASE as the earlier one.
"""

from __future__ import annotations

import json
import sys
import time

from tests.bench.worker import timed


def main() -> None:
    base, head = sys.argv[1:]
    started = time.perf_counter()
    from admc.review.diff import compare
    from admc.review.diff.causes import explain
    from admc.review.diff.render import json as diff_json
    from admc.review.diff.sides.take import Options, sides

    stages: dict[str, float] = {}
    compare.difference = timed(stages, "compare", compare.difference)  # type: ignore[attr-defined]
    compare._with_steps = timed(stages, "steps", compare._with_steps)
    compare._with_causes = timed(stages, "causes", compare._with_causes)
    explain.solve = timed(stages, "causes: solved", explain.solve)  # type: ignore[attr-defined]
    imported = time.perf_counter()
    before, after = sides(base, head, Options())
    stages["compile both"] = time.perf_counter() - imported
    found = compare.compared(before, after, {}, causes=True, effort=None)
    compared = time.perf_counter()
    diff_json.render(found)
    stages["write"] = time.perf_counter() - compared
    json.dump(
        {
            "imports": imported - started,
            "own": time.perf_counter() - imported,
            "stages": stages,
            "weaker": len(found.weaker),
            "moves": len(found.moves),
            "complete": sum(move.cause is not None and move.cause.complete for move in found.moves),
            "steps": None if found.rollout.steps is None else found.rollout.steps.steps,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
