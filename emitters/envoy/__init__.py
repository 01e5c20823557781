"""The Envoy emitter.

    program + placement + addresses -> [AdmResources for each ADM] -> bootstraps, or an xDS server's snapshots

The order of reading: `scope.Hop` (what is enforced on which connections), `http` and `tcp` (a hop's filter chain),
`routes` and `clusters` (where it goes on to), `listeners` (all of one ADM), `bootstrap` (as files).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostics
from emitters.addresses import Addresses
from emitters.envoy.context import Context, Mode
from emitters.envoy.resources import AdmResources
from emitters.errors import EmitError
from emitters.known import Known
from emitters.scope import hops

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic
    from dsl.program import Program
    from solver.placement import Placement

__all__ = ["AdmResources", "Mode", "check", "emit"]


def check(program: Program, placement: Placement) -> tuple[Diagnostic, ...]:
    """What Envoy cannot express wherever services are: what `emit` finds without a look at addresses.

    It takes as many replicas as are declared, so a limit that they cannot share is found before any is running.
    """
    from emitters.envoy import checks

    findings = Diagnostics()
    nowhere = Addresses()
    known = Known(program, nowhere)
    tried: set[str] = set()
    for service, enforced in hops(program, placement).items():
        checks.check(
            Context(program, nowhere, known, Mode.REDIRECT, program.services[service], findings), enforced, tried
        )
    return tuple(findings.items)


def emit(
    program: Program, placement: Placement, addresses: Addresses, mode: Mode, *, waiting: bool = False
) -> tuple[AdmResources, ...]:
    """The resources of every ADM, sorted by service. Raises `EmitError` where Envoy cannot express what is asked.

    `waiting`: what has no known address will get one and be emitted again, so it is no error. Until then a caller
    without one is a stranger, and calls to a destination without one pass the sender as if it had no ADM.
    """
    from emitters.envoy.listeners import resources

    findings = Diagnostics()
    known = Known(program, addresses)
    found = []
    for service, enforced in hops(program, placement).items():
        context = Context(program, addresses, known, mode, program.services[service], findings)
        found.append(resources(context, enforced, waiting=waiting))
    if findings.has_errors:
        raise EmitError(findings.items)
    return tuple(found)
