"""How many connections the limit on open files leaves room for: a server that runs out of handles can do nothing more,
not even read its program, so connections beyond that are not taken on."""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 256
"""For everything but proxies: files, pipes to the compiling processes, whoever asks for metrics."""


def connections(wanted: int) -> int:
    """`wanted`, or as many as fit. Raises the soft limit on open files as far as the hard one lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (OSError, ValueError):
            raised = soft  # some systems have a lower bound of their own: what there is has to do
        soft = max(raised, soft)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - RESERVED))
