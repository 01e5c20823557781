"""What has to be redirected for hops to be in force, in names that can be kept and compared.

    hops -> {service: {capture, ...}}

A capture is one hop of an ADM. Its name has the target port too, since redirection rules match on that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.serve.rollout.model import Captures, Placed
    from emitters.hops import Hop


def captures(placed: Placed) -> Captures:
    """Of each service that hosts an ADM."""
    return captures_of(hop for service_hops in hops(*placed).values() for hop in service_hops)


def captures_of(hops_of_plan: Iterable[Hop]) -> Captures:
    """Of some hops, by service."""
    names: dict[str, set[str]] = {}
    for hop in hops_of_plan:
        names.setdefault(hop.service, set()).add(f"{hop.name} at {hop.port.target}")
    return {service: frozenset(names[service]) for service in sorted(names)}
