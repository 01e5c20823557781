"""The Envoy emitter.

    program + placement + addresses -> [AdmResources for each ADM] -> bootstraps, or an xDS server's snapshots

The order of reading: `scope.Hop` (what is enforced on which connections), `http` and `tcp` (a hop's filter chain),
`routes` and `clusters` (where it goes on to), `listeners` (all of one ADM), `bootstrap` (as files).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostics
from emitters.envoy.context import Context, Mode
from emitters.envoy.resources import AdmResources
from emitters.errors import EmitError
from emitters.known import Known
from emitters.scope import hops

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.addresses import Addresses
    from solver.placement import Placement

__all__ = ["AdmResources", "Mode", "emit"]


def emit(program: Program, placement: Placement, addresses: Addresses, mode: Mode) -> tuple[AdmResources, ...]:
    """The resources of every ADM, sorted by service. Raises `EmitError` where Envoy cannot express what is asked."""
    from emitters.envoy.listeners import resources

    findings = Diagnostics()
    known = Known(program, addresses)
    found = []
    for service, enforced in hops(program, placement).items():
        context = Context(program, addresses, known, mode, program.services[service], findings)
        found.append(resources(context, enforced))
    if findings.has_errors:
        raise EmitError(findings.items)
    return tuple(found)
