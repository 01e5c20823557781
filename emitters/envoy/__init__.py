"""The Envoy emitter.

    program + placement + addresses -> [AdmResources for each ADM] -> bootstraps, or an xDS server's snapshots

The order of reading: `scope.Hop` (what is enforced on which connections), `http` and `tcp` (a hop's filter chain),
`routes` and `clusters` (where it goes on to), `listeners` (all of one ADM), `bootstrap` (as files).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics
from emitters.addresses import Addresses
from emitters.envoy.context import Context, Mode
from emitters.envoy.resources import AdmResources
from emitters.errors import EmitError
from emitters.known import Known
from emitters.scope import hops

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program
    from emitters.scope import Hop
    from solver.placement import Placement

__all__ = ["AdmResources", "Mode", "check", "emit", "untouched"]


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
    program: Program,
    placement: Placement,
    addresses: Addresses,
    mode: Mode,
    *,
    waiting: bool = False,
    only: Collection[str] | None = None,
    enforced: Mapping[str, tuple[Hop, ...]] | None = None,
    by_chain: bool = False,
    checked: bool = False,
) -> tuple[AdmResources, ...]:
    """The resources of every ADM, or of those in `only`, sorted by service.

    Raises `EmitError` where Envoy cannot express what is asked. `waiting` is for a server that changes them while they
    run: both directions have a listener, whether they are needed now or not. What has no known address will get one
    and be emitted again, so it is no error; until then connections that it could concern are refused. For
    redirection only. `enforced` is what `scope.hops` says, for who has asked it already. `by_chain` is for proxies that
    subscribe to resources by name (`chain_names`). `checked`: the policies were found to be expressible before.
    """
    from emitters.envoy.listeners import resources

    findings = Diagnostics()
    known = Known(program, addresses)
    found = []
    for service, held in (enforced or hops(program, placement)).items():
        if only is not None and service not in only:
            continue
        context = Context(program, addresses, known, mode, program.services[service], findings, by_chain)
        found.append(resources(context, held, waiting=waiting, checked=checked))
    if findings.has_errors:
        raise EmitError(findings.items)
    return tuple(found)


def untouched(program: Program, addresses: Addresses, *, by_chain: bool = False) -> AdmResources | None:
    """Listeners of a redirected ADM that enforces nothing, for whoever's connections are still redirected to it.

    They are the same for every service; None where there is none.
    """
    from emitters.envoy.listeners import resources

    service = next(iter(program.services.values()), None)
    if service is None:
        return None
    context = Context(program, addresses, Known(program, addresses), Mode.REDIRECT, service, by_chain=by_chain)
    found = resources(context, (), waiting=True)
    clusters = {name: item for name, item in found.clusters.items() if name != found.siblings}
    return replace(found, clusters=clusters, endpoints={})
