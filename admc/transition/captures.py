"""What has to be redirected for a placement to be in force, in names that can be kept and compared.

    Placed -> {service: {capture, ...}}

A capture is one hop of an ADM: what takes its connections out of their direct way. Its name has the target port too,
since that is what rules look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.transition.model import Captures, Placed


def captures(placed: Placed) -> Captures:
    """Of each service that hosts an ADM."""
    return of_parts({service: placed for service, found in hops(*placed).items() if found})


def of_parts(parts: Mapping[str, Placed]) -> Captures:
    """The same where services have placements of their own."""
    known = {id(placed): hops(*placed) for placed in {id(placed): placed for placed in parts.values()}.values()}
    return {
        service: frozenset(f"{hop.name} at {hop.port.target}" for hop in known[id(placed)].get(service, ()))
        for service, placed in parts.items()
    }
