"""The parties whose addresses are missing, so that proxies refuse connections that may belong to them.

    program, addresses, hops -> Unlisted

A server continues while addresses are missing, and no proxy rejects its configuration. So the status and the log of the
server show these parties. `emit` without `waiting` refuses such a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Side
from emitters.addresses.index import AddressIndex
from emitters.envoy.context import Context, Mode
from emitters.envoy.hop_addresses import awaited_callers, awaits_destination

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Program
    from emitters.addresses import Addresses
    from emitters.hops import Hop


class Unlisted(NamedTuple):
    """Names of services and outside parties, sorted."""

    destinations: tuple[str, ...] = ()
    """Parties whose callers have ADMs that refuse connections which may lead to them."""
    callers: tuple[str, ...] = ()
    """Parties whose destinations have ADMs that refuse connections which may come from them."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self.destinations, *self.callers}))


def unlisted(program: Program, addresses: Addresses, enforced: Mapping[str, tuple[Hop, ...]]) -> Unlisted:
    """The parties whose addresses are missing where connections are redirected. `enforced` is the result of `hops`."""
    known = AddressIndex(program, addresses)
    absent = {name for name in known.parties if name not in addresses.services}
    # Usually no address is missing, and no policy has to be looked at.
    anonymous = any(not known.peers(name) and name not in known.unlocated for name in absent)
    destinations: set[str] = set()
    callers: set[str] = set()
    for service, hops in enforced.items():
        context = Context(program, addresses, known, Mode.REDIRECT, program.services[service])
        for hop in hops:
            if hop.side is Side.EGRESS:
                if hop.destination in absent and awaits_destination(context, hop):
                    destinations.add(hop.destination)
            elif anonymous:
                callers |= awaited_callers(context, hop)
    return Unlisted(tuple(sorted(destinations)), tuple(sorted(callers)))
