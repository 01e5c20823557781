"""How many connections the limit on open files allows. A server without free file descriptors could not even read its
program, so it accepts no further connections before that."""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 256
"""For everything but proxies: files, pipes to the workers, HTTP connections."""


def connections(wanted: int) -> int:
    """`wanted`, or as many as fit. Raises the soft limit on open files, up to the hard one if necessary."""
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
