"""Names the connections that have to be redirected before hops are in force. The names can be stored and compared.

    hops -> {service: {capture, ...}}

A capture stands for one hop of an ADM. Its name contains the target port, because redirection rules match on that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.serve.rollout.model import Captures, Placed
    from emitters.hops import Hop


def captures(placed: Placed) -> Captures:
    """Return the captures of each service that hosts an ADM."""
    return captures_of(hop for service_hops in hops(*placed).values() for hop in service_hops)


def captures_of(hops_of_plan: Iterable[Hop]) -> Captures:
    """Return the captures of some hops, by service."""
    names: dict[str, set[str]] = {}
    for hop in hops_of_plan:
        names.setdefault(hop.service, set()).add(f"{hop.name} at {hop.port.target}")
    return {service: frozenset(names[service]) for service in sorted(names)}
