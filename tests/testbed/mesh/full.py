"""The reference: a sidecar at every service, in the way of every declared call at both ends.

A placement alone gives sidecars only to services that have something to enforce, and lets them see only that. A full
mesh takes everything: each port of each service in, each declared call out, with or without a policy. What is emitted
for a connection with no policy is the emitter's own business as usual; only the list of connections is longer here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Side
from emitters.addresses.index import AddressIndex
from emitters.envoy import Mode
from emitters.envoy.bootstrap import static_json
from emitters.envoy.context import Context
from emitters.envoy.hop_addresses import awaits_destination
from emitters.envoy.listeners import resources
from emitters.envoy.messages.typed import to_yaml
from emitters.errors import EmitError
from emitters.hops import Hop, hops
from emitters.interception.captures import interception
from emitters.interception.rules import restore_file
from emitters.interception.script import RULES_FILES

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.addresses import Addresses
    from solver.placement import Placement


def every_hop(program: Program, placement: Placement) -> dict[str, tuple[Hop, ...]]:
    """The hops of a full mesh: those of the placement, and one without policies for all other ports and calls."""
    enforced = hops(program, placement)
    found = {}
    for name, service in program.services.items():
        if service.host_network:
            continue
        own = {(hop.side, hop.destination, hop.port.number): hop for hop in enforced.get(name, ())}
        for port in service.ports:
            own.setdefault((Side.INGRESS, name, port.number), Hop(name, Side.INGRESS, name, port, ()))
        for call in program.calls:
            if call.source == name:
                key = (Side.EGRESS, call.destination, call.port.number)
                own.setdefault(key, Hop(name, Side.EGRESS, call.destination, call.port, ()))
        found[name] = tuple(own[key] for key in sorted(own, key=lambda key: (key[0] is Side.EGRESS, key[1], key[2])))
    return found


def files(program: Program, placement: Placement, addresses: Addresses) -> dict[str, bytes]:
    """What `emitters.output.files` is for a placement, for the full mesh. Raises `EmitError`."""
    findings = Diagnostics()
    known = AddressIndex(program, addresses)
    position = {policy.name: index for index, policy in enumerate(program.policies)}
    found = {}
    for name, every in every_hop(program, placement).items():
        context = Context(program, addresses, known, Mode.REDIRECT, program.services[name], findings)
        # What no policy is about and no address tells apart goes its direct way: nothing could be known of it.
        own = tuple(
            hop for hop in every if hop.policies or hop.side is Side.INGRESS or not awaits_destination(context, hop)
        )
        found[f"{name}/bootstrap.yaml"] = to_yaml(static_json(resources(context, own)))
        captured = interception(program, name, own, addresses, position)
        for family, file in RULES_FILES.items():
            found[f"{name}/{file}"] = restore_file(captured, family).encode()
    if findings.has_errors:
        raise EmitError(findings.items)
    return found
