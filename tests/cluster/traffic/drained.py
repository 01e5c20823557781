"""`admc` for tests that have no time for 45 seconds in each move: ADMs close older connections after another time.

    python -m tests.cluster.traffic.drained SECONDS serve --cluster ...

The time is an option of Envoy in the pods (`--drain-time-s`). A server relies on pods with the option as it would write
it itself, so it has to know the other time.
"""

from __future__ import annotations

import sys

from admc.__main__ import main
from admc.kubernetes.inject import containers


def drain_after(seconds: int) -> int:
    """Of the pods that this process injects, or relies on. Returns the time before."""
    before = containers.DRAIN_SECONDS
    setattr(containers, "DRAIN_SECONDS", seconds)  # noqa: B010 - it is final for everything else
    return before


if __name__ == "__main__":
    drain_after(int(sys.argv.pop(1)))
    sys.exit(main())
