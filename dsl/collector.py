"""Python's garbage collector out of the way while a stage builds millions of objects without cycles.

Looking for cycles all the while doubles the time that loading takes. Measured on 50,000 services: building the plan
takes 2.7 s instead of 8.9 s, reading it back 4 s instead of 13 s.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Leaves the collector as it was found."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
