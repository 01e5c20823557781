"""Bounds the number of connections by the limit on open files. A server without free file descriptors could not even
read its program, so some descriptors stay reserved."""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 256
"""File descriptors for files, pipes to the workers and HTTP connections."""


def connections(wanted: int) -> int:
    """`wanted`, or the number that the limit allows if this is less. Raises the soft limit on open files if
    necessary."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (OSError, ValueError):
            raised = soft  # some systems have a lower maximum of their own
        soft = max(raised, soft)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - RESERVED))
