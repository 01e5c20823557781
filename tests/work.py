"""How much work a piece of code is, as a number that does not depend on what else the machine does."""

from __future__ import annotations

import cProfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def function_calls(work: Callable[[], object]) -> int:
    """Calls of functions, written in Python or in C, that it makes. How long one in C takes is not seen."""
    with cProfile.Profile() as profiler:
        work()
    return sum(entry.callcount for entry in profiler.getstats())
